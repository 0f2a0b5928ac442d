"""Out-of-fold scores of the candidates, within a budget of time."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from bagwise._common.types import Array, Floats, Ints
from bagwise.auto._members import Member
from bagwise.bags import Bags
from bagwise.evaluate._evaluation import Fold
from bagwise.exceptions import BagwiseError, NotEnoughMemoryError

TRIAL = 200  # largest number of bags in the fit that estimates the time of a candidate
# Errors of a candidate that cannot use the data; it is skipped and the others continue.
FAILURES = (BagwiseError, ValueError, ArithmeticError, np.linalg.LinAlgError, MemoryError)


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
    groups : ndarray of shape (n_bags,) or None
        Groups of bags that stay together if a candidate itself holds out bags.
    """

    bags: Bags
    y: Array
    n_columns: int
    folds: list[Fold]
    seconds: float = float("inf")
    n_jobs: int | None = None
    groups: Array | None = None

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
            groups = None if self.groups is None else self.groups[train]
            yield delayed(member.fold_scores)(seen, new, self.y[train], self.n_columns, groups)

    @cached_property
    def _fold_bags(self) -> list[tuple[Bags, Bags]]:
        """The bags of each fold, selected once for all candidates."""
        return [(self.bags[train], self.bags[test]) for train, test in self.folds]

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
