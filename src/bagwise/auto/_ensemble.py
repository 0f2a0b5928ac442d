"""The common fit of the automatic estimators."""

import time
import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array, Floats
from bagwise.auto._members import chosen_members, column_scores
from bagwise.auto._race import Race
from bagwise.bags import Bags
from bagwise.base import fit_method, in_canonical_order
from bagwise.base._parameters import POSITIVE
from bagwise.evaluate._evaluation import Fold
from bagwise.exceptions import InputError
from bagwise.loops.threads import one_core_if_few
from bagwise.preprocessing import BagPipeline
from bagwise.preprocessing._steps import instance_scaler
from bagwise.solvers.stacking import Stack
from bagwise.validation import check_bags, check_groups

LOWER_IS_BETTER = ("log_loss", "mae")


class Ensemble:
    """Mixin: candidates are fitted on folds, weighted, and those with a weight on all bags.

    A subclass defines `_kind` ("single", "sets" or "numbers") and five methods: `_labels` checks y,
    `_targets` gives the targets of the candidates and of the stack, of shape
    (n_bags, n_columns), `_folds` draws the folds, `_stack` fits the weights to scores of shape
    (n_bags, n_columns, n_models), and `_measure` computes the metric of some bags, NaN if it is
    undefined.
    """

    _parameter_constraints: dict[str, Any] = {
        "time_budget": [POSITIVE, None],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "candidates": [StrOptions({"default"}), list, tuple, dict],
        "ensemble": [StrOptions({"stack", "best"})],
        "n_jobs": [Integral, None],
    }
    assumption: str | None = None  # methods that keep any assumption

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
        labels = self._labels(y, bags)
        known = np.flatnonzero(labels.known)
        groups = None if groups is None else check_groups(groups, bags)[known]
        # Sorted, so that folds do not depend on the order of X.
        bags, labels, groups = in_canonical_order(bags[known], labels[known], groups)
        rng = check_random_state(self.random_state)
        folds = self._folds(labels, groups, int(rng.randint(2**31)))
        y, targets = self._targets(labels)
        self.scaler_ = instance_scaler(sparse=bags.is_sparse).fit(bags)
        bags = self.scaler_.transform(bags)

        n_columns = targets.shape[1]
        members = chosen_members(self.candidates, self._kind, n_columns, self.assumption)
        seeds = rng.randint(2**31, size=len(members))
        members = [m.seeded(int(seed)) for m, seed in zip(members, seeds, strict=True)]
        race = Race(bags, y, n_columns, folds, self.time_budget or np.inf, self.n_jobs, groups)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            entries = race.run_all(self._track(members, "method"))
            ran = [entry for entry in entries if entry.scores is not None]
            if not ran:
                reasons = "; ".join(f"{entry.member.name}: {entry.skipped}" for entry in entries)
                raise InputError(f"no candidate could be fitted: {reasons}.")
            scores = np.stack([np.asarray(entry.scores) for entry in ran], axis=2)
            with one_core_if_few(scores.size):  # many small problems
                stack = self._stack(scores, targets)
                *alone, whole = self._held_out_scores(scores, targets, folds)
            sign = -1 if self.metric in LOWER_IS_BETTER else 1
            best = int(np.argmax(np.nan_to_num([sign * mean for mean, _ in alone], nan=-np.inf)))
            if self.ensemble == "best":
                only = np.eye(len(ran))[best]
                stack = replace(stack, weights=only, intercept=0 * stack.intercept)
            used = [m for m in range(len(ran)) if stack.weights[m] > 0 or m == best]
            self.estimators_ = [ran[m].member.fit_all(ran[m].rows, bags, y, groups) for m in used]
        self.names_ = [ran[m].member.name for m in used]
        self.slopes_, self.offsets_ = stack.slopes[used], stack.offsets[used]
        self.weights_, self.intercept_ = stack.weights[used], stack.intercept
        self.best_index_, self.limit_ = used.index(best), stack.limit
        for entry, score, weight in zip(ran, alone, stack.weights, strict=True):
            entry.result = (*score, float(weight))
        rows = [
            (e.member.name, *e.result, e.seconds, e.skipped, e.member.parameters) for e in entries
        ]
        if self.ensemble == "stack":
            rows.append(("ensemble", *whole, 1.0, time.perf_counter() - start, "", ""))
        rows.sort(key=lambda row: (np.isnan(row[1]), -sign * np.nan_to_num(row[1]), row[0]))
        names = ("method", self.metric, "standard error", "weight", "seconds", "skipped")
        columns = map(list, zip(*rows, strict=True))
        self.leaderboard_ = dict(zip((*names, "parameters"), columns, strict=True))
        return self

    def _held_out_scores(
        self: Any, scores: Floats, targets: Array, folds: list[Fold]
    ) -> list[tuple[float, float]]:
        """Metric and standard error on folds held out from calibration: each candidate, the stack.

        Folds in which the metric is undefined are left out.
        """
        values = np.empty((*scores.shape[:2], scores.shape[2] + 1))
        for train, test in folds:
            part = self._stack(scores[train], targets[train])
            values[test] = np.dstack([part.log_odds(scores[test]), part.logits(scores[test])])
        return [
            mean_and_error([self._measure(values[test, :, m], targets[test]) for _, test in folds])
            for m in range(values.shape[2])
        ]

    @property
    def best_estimator_(self: Any) -> BagPipeline:
        """Pipeline of the standardisation and the candidate with the best out-of-fold score."""
        best = self.estimators_[self.best_index_]
        return BagPipeline([("scale", self.scaler_), ("model", best)])

    def _bag_scores(self: Any, bags: Bags) -> Array:
        seen, (n_columns,) = self.scaler_.transform(bags), self.intercept_.shape
        scores: Floats = np.zeros((len(bags), n_columns, len(self.weights_)))
        for m in np.flatnonzero(self.weights_):
            scores[:, :, m] = column_scores(self.estimators_[m], seen, self._kind, n_columns)
        stack = Stack(self.slopes_, self.offsets_, self.weights_, self.intercept_, self.limit_)
        return stack.logits(scores)


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Mean of the scores of folds, and its standard error; undefined scores are left out."""
    defined = np.array([value for value in values if not np.isnan(value)])
    if not len(defined):
        return np.nan, np.nan
    spread = defined.std(ddof=1) if len(defined) > 1 else np.nan
    return float(defined.mean()), float(spread / np.sqrt(len(defined)))
