"""The common fit of the automatic estimators."""

import time
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array, Floats
from bagwise.auto._members import Member, column_scores
from bagwise.auto._race import Race
from bagwise.auto._tasks import LOWER_IS_BETTER, Task, leaderboard
from bagwise.bags import Bags
from bagwise.base import fit_method, in_canonical_order
from bagwise.base._parameters import POSITIVE
from bagwise.evaluate._folds import Fold
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.loops.threads import one_core_if_few
from bagwise.preprocessing import BagPipeline
from bagwise.preprocessing._steps import instance_scaler
from bagwise.solvers.stacking import Stack
from bagwise.validation import check_bags, check_groups


class Ensemble:
    """Mixin: candidates are fitted on folds, weighted, and those with a weight on all bags.

    A subclass checks the labels (`_labels`), draws the folds (`_folds`), states the task (`_task`)
    and names the candidates (`_candidates`).
    """

    _parameter_constraints: dict[str, Any] = {
        "time_budget": [POSITIVE, None],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "candidates": [StrOptions({"default"}), list, tuple, dict],
        "ensemble": [StrOptions({"stack", "best"})],
        "n_jobs": [Integral, None],
    }

    @fit_method
    def fit(self: Any, X: Any, y: Any, *, groups: Any = None) -> Any:
        """Fit the candidates on folds, weight them, and fit those with a weight on all bags.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,), 0/1 array of shape (n_bags, n_classes) or list of sets
            The class, the label set or, for a regressor, the number of each bag.
        groups : array-like of shape (n_bags,), default=None
            Bags of one group stay in one fold: the slides of a patient.

        Returns
        -------
        self
        """
        start = time.perf_counter()
        bags = check_bags(self, X, reset=True)
        bags, labels, groups = self._known(bags, self._labels(y, bags), groups)
        rng = check_random_state(self.random_state)
        folds = self._folds(labels, groups, int(rng.randint(2**31)))
        task = self._task(labels)
        self.scaler_ = instance_scaler(sparse=bags.is_sparse).fit(bags)
        bags = self.scaler_.transform(bags)

        members = self._candidates(task)
        seeds = rng.randint(2**31, size=len(members))
        members = [m.seeded(int(seed)) for m, seed in zip(members, seeds, strict=True)]
        seconds = self.time_budget or np.inf
        race = Race(bags, task.y, task.n_columns, folds, seconds, self.n_jobs, groups)
        entries = race.run_all(self._track(members, "method"))
        ran = [entry for entry in entries if entry.scores is not None]
        if not ran:
            reasons = "; ".join(f"{entry.member.name}: {entry.skipped}" for entry in entries)
            raise InputError(f"no candidate could be fitted: {reasons}.")

        scores = np.stack([np.asarray(entry.scores) for entry in ran], axis=2)
        with one_core_if_few(scores.size):  # many small problems
            stack = task.fit(scores, task.targets)
            alone, whole = task.judge(self.metric, scores, folds)
        sign = -1 if self.metric in LOWER_IS_BETTER else 1
        best = int(np.argmax(np.nan_to_num([sign * score for score, _ in alone], nan=-np.inf)))
        if self.ensemble == "best":
            stack = replace(stack, weights=np.eye(len(ran))[best], intercept=0 * stack.intercept)
        for entry, (score, error), weight in zip(ran, alone, stack.weights, strict=True):
            entry.score, entry.error, entry.weight = score, error, float(weight)
        used = [m for m in range(len(ran)) if stack.weights[m] > 0 or m == best]
        self.estimators_ = [ran[m].member.fit_all(ran[m].rows, bags, task.y, groups) for m in used]
        self.names_ = [ran[m].member.name for m in used]
        self.slopes_, self.offsets_ = stack.slopes[used], stack.offsets[used]
        self.weights_, self.intercept_ = stack.weights[used], stack.intercept
        self.best_index_, self.limit_ = used.index(best), stack.limit
        rows = [entry.row(self.metric) for entry in entries]
        if self.ensemble == "stack":
            (score, error), took = whole, time.perf_counter() - start
            shown = {"method": "ensemble", self.metric: score, "standard error": error}
            rows.append(shown | {"weight": 1.0, "seconds": took, "skipped": "", "parameters": ""})
        self.leaderboard_ = leaderboard(rows, self.metric)
        return self

    def _known(self, bags: Bags, labels: Labels, groups: Any) -> tuple[Any, ...]:
        """Leave out bags without a label; sort, so that folds do not depend on the order of X."""
        known = np.flatnonzero(labels.known)
        groups = None if groups is None else check_groups(groups, bags)[known]
        return in_canonical_order(bags[known], labels[known], groups)

    def _labels(self, y: Any, bags: Bags) -> Labels:
        raise NotImplementedError

    def _folds(self, labels: Labels, groups: Array | None, seed: int) -> list[Fold]:
        raise NotImplementedError

    def _task(self, labels: Labels) -> Task:
        raise NotImplementedError

    def _candidates(self, task: Task) -> list[Member]:
        raise NotImplementedError

    @property
    def best_estimator_(self: Any) -> BagPipeline:
        """Pipeline of the standardisation and the candidate with the best out-of-fold score."""
        best = self.estimators_[self.best_index_]
        return BagPipeline([("scale", self.scaler_), ("model", best)])

    def _bag_scores(self: Any, bags: Bags) -> Array:
        seen, (n_columns,) = self.scaler_.transform(bags), self.intercept_.shape
        scores: Floats = np.zeros((len(bags), n_columns, len(self.weights_)))
        sets = getattr(self, "label_kind_", "single") == "sets"
        for m in np.flatnonzero(self.weights_):
            scores[:, :, m] = column_scores(self.estimators_[m], seen, sets, n_columns)
        stack = Stack(self.slopes_, self.offsets_, self.weights_, self.intercept_, self.limit_)
        return stack.logits(scores)
