"""The common fit of the automatic estimators, within a budget of time."""

import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array, Floats, Ints
from bagwise.auto._members import Member, chosen_members, column_scores, default_members
from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin, fit_method, in_canonical_order
from bagwise.base._parameters import POSITIVE
from bagwise.embedding._columns import USED_COLUMNS
from bagwise.evaluate._evaluation import Fold
from bagwise.exceptions import BagwiseError, InputError, NotEnoughMemoryError
from bagwise.labels import Labels
from bagwise.loops.threads import one_core_if_few
from bagwise.pairwise import with_shared_distances
from bagwise.preprocessing import BagPipeline
from bagwise.preprocessing._bag_pipeline import instance_scaler
from bagwise.solvers.stacking import Stack
from bagwise.validation import check_bag_labels, check_bags, check_groups

LOWER_IS_BETTER = ("log_loss", "mae")
TRIAL = 200  # largest number of bags in the fit that estimates the time of a candidate
# Errors of a candidate that cannot use the data; it is skipped and the others continue.
FAILURES = (BagwiseError, ValueError, ArithmeticError, np.linalg.LinAlgError, MemoryError)


class Ensemble:
    """Mixin: candidates are fitted on folds, weighted, and those with a weight on all bags.

    A subclass defines `_kind` ("single", "sets", "numbers" or "times") and five methods: `_labels`
    checks y, `_targets` gives the targets of the candidates and of the stack, of shape
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
        "use_columns": USED_COLUMNS,
    }
    __metadata_request__fit = {"groups": True}  # routed without set_fit_request
    assumption: str | None = None  # methods that keep any assumption
    use_columns: Any = None

    @fit_method
    def fit(self: Any, X: Any, y: Any, *, groups: Any = None) -> Any:
        """Fit the candidates on folds, weight them, and fit those with a weight on all bags.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,), 0/1 array of shape (n_bags, n_classes) or list of sets
            The class, the label set or, for a regressor, the number of each bag. For a survival
            model a structured array: whether the event was observed, and its time.
        groups : array-like of shape (n_bags,), default=None
            Bags of one group stay in one fold: the slides of a patient. By default the groups of
            the bags (`Bags.groups`).

        Returns
        -------
        self
        """
        start = time.perf_counter()
        bags = check_bags(self, X, reset=True)
        labels = self._labels(y, bags)
        known = np.flatnonzero(labels.known)
        bags = check_groups(groups, bags)  # the candidates take them from the bags
        # Sorted, so that folds do not depend on the order of X.
        bags, labels = in_canonical_order(bags[known], labels[known])
        groups = bags.groups
        rng = check_random_state(self.random_state)
        folds = self._folds(labels, groups, int(rng.randint(2**31)))
        y, targets = self._targets(labels)
        self.scaler_ = instance_scaler(sparse=bags.is_sparse).fit(bags)
        bags = with_shared_distances(check_bags(None, self.scaler_.transform(bags), reset=True))
        # The candidates fit parts of these bags, which no one else refers to: checked once.
        bags._is_validated = not bags.is_sparse

        n_columns = targets.shape[1]
        known = self._default_members(n_columns)
        members = chosen_members(self.candidates, self._kind, known, self.assumption)
        if self._kind == "numbers" and n_columns > 1:
            members = [member.per_column() for member in members]
        members = [member.seeded(int(rng.randint(2**31))) for member in members]
        race = Race(bags, y, n_columns, folds, self.time_budget or np.inf, self.n_jobs)
        # Many small problems, for which threads only add overhead.
        with one_core_if_few(bags.n_instances * bags.n_features), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            entries = race.run_all(self._track(members, "method"))
            ran = [entry for entry in entries if entry.scores is not None]
            if not ran:
                reasons = "; ".join(f"{entry.member.name}: {entry.skipped}" for entry in entries)
                raise InputError(f"no candidate could be fitted: {reasons}.")
            scores = np.stack([np.asarray(entry.scores) for entry in ran], axis=2)
            with one_core_if_few(scores.size):
                stack = self._stack(scores, targets)
                held_out = self._held_out_logits(scores, targets, folds)
                *alone, whole = self._fold_scores(held_out, targets, folds)
            sign = -1 if self.metric in LOWER_IS_BETTER else 1
            best = int(np.argmax(np.nan_to_num([sign * mean for mean, _ in alone], nan=-np.inf)))
            if self.ensemble == "best":
                only = np.eye(len(ran))[best]
                stack = replace(stack, weights=only, intercept=0 * stack.intercept)
            used = [m for m in range(len(ran)) if stack.weights[m].any() or m == best]
            self.estimators_ = [ran[m].member.fit_all(ran[m].rows, bags, y) for m in used]
        bags._shared.clear()
        self.names_ = [ran[m].member.name for m in used]
        self.slopes_, self.offsets_ = stack.slopes[used], stack.offsets[used]
        self.weights_, self.intercept_ = stack.weights[used], stack.intercept
        self.best_index_, self.limit_ = used.index(best), stack.limit
        self.held_out_scores_ = held_out[:, :, best if self.ensemble == "best" else -1]
        self.held_out_targets_, self.held_out_groups_ = targets, groups
        self._judge(race)
        self._finish(bags, targets)
        for entry, score, weight in zip(ran, alone, stack.weights, strict=True):
            entry.result = (*score, float(np.mean(weight)))
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

    def _default_members(self: Any, n_columns: int) -> list[Member]:
        """The default candidates."""
        return default_members(self._kind, n_columns, self.use_columns)

    def _finish(self, bags: Bags, targets: Array) -> None:
        """Learn more from the (standardised) bags, with all attributes of the stack set."""

    def _judge(self, race: Any) -> None:
        """Warn of a doubtful choice, with the held-out scores set."""

    def _held_out_logits(self: Any, scores: Floats, targets: Array, folds: list[Fold]) -> Floats:
        """Scores on folds held out from calibration and weights: each candidate, then the stack."""
        values = np.empty((*scores.shape[:2], scores.shape[2] + 1))
        for train, test in folds:
            part = self._stack(scores[train], targets[train])
            values[test] = np.dstack([part.log_odds(scores[test]), part.logits(scores[test])])
        return values

    def _fold_scores(
        self: Any, values: Floats, targets: Array, folds: list[Fold]
    ) -> list[tuple[float, float]]:
        """Metric and standard error over the folds: each candidate, then the stack.

        Folds in which the metric is undefined are left out.
        """
        measure = self._measure
        return [
            mean_and_error([measure(values[test, :, m], targets[test]) for _, test in folds])
            for m in range(values.shape[2])
        ]

    @property
    def best_estimator_(self: Any) -> BagPipeline:
        """Pipeline of the standardisation and the candidate with the best out-of-fold score."""
        best = self.estimators_[self.best_index_]
        return BagPipeline([("scale", self.scaler_), ("model", best)])

    def _has_instance_scores(self: Any) -> bool:
        return not hasattr(self, "estimators_") or len(self._instance_scorers) > 0

    @property
    def _instance_scorers(self: Any) -> list[int]:
        """Estimators that score instances; those with weight 0 only if there are no others."""
        able = [m for m, model in enumerate(self.estimators_) if hasattr(model, "score_instances")]
        return [m for m in able if self.weights_[m] > 0] or able

    def _bag_scores(self: Any, bags: Bags) -> Array:
        seen, (n_columns,) = self.scaler_.transform(bags), self.intercept_.shape
        scores: Floats = np.zeros((len(bags), n_columns, len(self.weights_)))
        for m in np.flatnonzero(self.weights_.reshape(len(self.weights_), -1).any(axis=1)):
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


# Out-of-fold scores of the candidates, within a budget of time


@dataclass
class Entry:
    """A candidate and its result.

    Attributes
    ----------
    member : Member
        The method.
    skipped : str
        Why the candidate was skipped; empty if it was not.
    scores : ndarray of shape (n_bags, n_columns) or None
        Out-of-fold scores.
    rows : object
        The input of the model: bags, or the rows of an embedding.
    expected : float
        Estimated seconds if they exceed the budget, infinite if there was no time for an estimate;
        else 0.
    seconds : float
        Time to embed the bags, and to fit and score the folds.
    result : tuple of three floats
        The out-of-fold score, its standard error, and the weight in the ensemble.
    """

    member: Member
    skipped: str = ""
    scores: Floats | None = None
    rows: Any = field(default=None, repr=False)
    expected: float = 0.0
    seconds: float = 0.0
    result: tuple[float, float, float] = (float("nan"), float("nan"), 0.0)


@dataclass
class Race:
    """Cross-validation of the candidates: the data of a fit, and its time budget.

    Attributes
    ----------
    bags : Bags
        Standardised bags.
    y : ndarray of shape (n_bags,) or (n_bags, n_labels)
        Codes of classes, label sets or numbers.
    n_columns : int
        Number of columns of scores: 1 for two classes and for numbers.
    folds : list of (train, test)
        Positions of bags.
    seconds : float
        Time budget; infinity for none.
    n_jobs : int or None
        Number of folds fitted at the same time.
    """

    bags: Bags
    y: Array
    n_columns: int
    folds: list[Fold]
    seconds: float = float("inf")
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        self.end = time.perf_counter() + self.seconds
        self.reserved = 0.0  # estimated seconds for the final fits of the candidates so far

    def run_all(self, candidates: Iterable[Member]) -> list[Entry]:
        """Run the candidates in turn; if all of them exceed the budget, run the fastest one."""
        entries = [self.run(candidate) for candidate in candidates]
        late = [i for i, entry in enumerate(entries) if entry.expected > 0.0]
        late.sort(key=lambda i: (entries[i].expected, entries[i].member.growth))
        while late and all(entry.scores is None for entry in entries):
            fastest = late.pop(0)
            entries[fastest] = self.run(entries[fastest].member, always=True)
        return entries

    def run(self, candidate: Member, *, always: bool = False) -> Entry:
        """Score a candidate, or its first replacement that suits the size and the memory.

        `always` ignores the time.
        """
        n_bags, n_instances = len(self.bags), self.bags.n_instances
        reason = f"compares all pairs of {n_bags:,} bags with {n_instances:,} instances"
        entry = Entry(candidate, skipped=reason)
        for member in (candidate, *candidate.replacements):
            if not member.suits(n_bags, n_instances):
                continue
            start, entry = time.perf_counter(), Entry(member)
            try:
                if always or self._is_in_time(entry):
                    self._run(entry)
                return entry
            except FAILURES as error:
                entry.skipped = str(error).partition("\n")[0]
                if not isinstance(error, NotEnoughMemoryError):
                    return entry
            finally:
                entry.seconds = time.perf_counter() - start
        return entry

    def _run(self, entry: Entry) -> None:
        member, start = entry.member, time.perf_counter()
        entry.rows = member.represent(self.bags)
        found = Parallel(n_jobs=self.n_jobs)(self._fold_calls(member, entry.rows))
        order = np.argsort(np.concatenate([test for _, test in self.folds]))
        entry.scores = np.concatenate(found)[order]
        took = (time.perf_counter() - start) / len(self.folds)
        self.reserved += took * self._larger**member.growth

    def _fold_calls(self, member: Member, rows: Any) -> Iterator[Any]:
        """The delayed fit of a candidate in each fold."""
        for i, (train, test) in enumerate(self.folds):
            is_bags = member.embedding is None
            seen, new = self._fold_bags[i] if is_bags else member.fold_rows(rows, train, test)
            one_label = self.y.ndim == 1 and isinstance(member.model, BagClassifierMixin)
            one_label = one_label and not self.y.dtype.names  # times
            y = self._fold_labels[i] if one_label else self.y[train]
            yield delayed(member.fold_scores)(seen, new, y, self.n_columns)

    @cached_property
    def _fold_bags(self) -> list[tuple[Bags, Bags]]:
        """The bags of each fold, selected once for all candidates."""
        return [(self.bags[train], self.bags[test]) for train, test in self.folds]

    @cached_property
    def _fold_labels(self) -> list[Labels]:
        """The labels of the training bags of each fold, validated once for all candidates."""
        return [
            check_bag_labels(self.y[train], seen)
            for (train, _), (seen, _) in zip(self.folds, self._fold_bags, strict=True)
        ]

    def _is_in_time(self, entry: Entry) -> bool:
        if self.seconds == np.inf:
            return True
        left = max(0.0, self.end - time.perf_counter() - self.reserved)
        if left == 0.0:
            entry.expected, entry.skipped = np.inf, "time budget exhausted"
            return False
        expected = self._expected(entry.member)
        left = max(0.0, self.end - time.perf_counter() - self.reserved)
        if expected > left:
            entry.expected = expected
            entry.skipped = f"would take about {expected:.0f} s of the {left:.0f} s left"
        return expected <= left

    def _expected(self, member: Member) -> float:
        """Estimate the seconds for all folds and the final fit, from two fits on a few bags.

        The first of the two also absorbs one-time costs, such as compilation.
        """
        few = self.folds[0][1][:TRIAL]
        half, once = (self._trial(member, few[:n]) for n in ((len(few) + 1) // 2, len(few)))
        # Costs that do not grow with the bags, such as the roots of trees, are not multiplied.
        fixed = min(max(2 * half - once, 0.0), once) if half < once else 0.0
        train = len(self.bags) - len(self.folds[0][1])
        fit = fixed + (once - fixed) * (train / len(few)) ** member.growth
        return fit * (len(self.folds) + self._larger)

    def _trial(self, member: Member, few: Ints) -> float:
        """Measure the seconds to fit on a few bags and to score them."""
        start = time.perf_counter()
        try:
            rows = member.represent(self.bags[few])
            member.fold_scores(rows, rows, self.y[few], self.n_columns)
        except FAILURES:
            pass  # a few bags may lack a class; the time until the error is the only estimate
        return time.perf_counter() - start

    @property
    def _larger(self) -> float:
        """Number of bags of the final fit, relative to a training fold."""
        return len(self.bags) / len(self.folds[0][0])
