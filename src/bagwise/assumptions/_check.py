"""Tests that fit a model on bags with a clue its assumption forbids, then move the clue."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.utils import check_scalar

from bagwise._common.types import Floats
from bagwise.assumptions import _draws as draws
from bagwise.assumptions._draws import Drawn, Generator
from bagwise.bags import Bags
from bagwise.base._selections import bag_scores
from bagwise.exceptions import InputError

STRENGTHS = (-3.0, -6.0, -10.0)
ENOUGH = 0.95  # smallest AUC that passes a test
TOLERANCE = 1e-5  # change relative to the largest score: float32 networks round to about 1e-7

# The tests, in the order of the table.
SINGLE, TWO, FREQUENCY = "single concept", "two concepts", "false frequency"
ORDER, COPIES, MONOTONE = "order", "copies", "monotone"
TESTS = (SINGLE, TWO, FREQUENCY, ORDER, COPIES, MONOTONE)


@dataclass(frozen=True)
class Row:
    """Result of one test at one strength of the decoy.

    Attributes
    ----------
    test : str
        The test.
    strength : float or None
        The value of the decoy in each feature, or None.
    as_trained, moved : tuple of float
        AUC of each seed on test bags drawn like the training bags, and after the clue was moved.
        Empty for the properties order, copies and monotone.
    change : tuple of float
        For each seed the largest forbidden change of a score, divided by the largest score: any
        change (order, copies), a fall (monotone). Empty for the other tests.
    """

    test: str
    strength: float | None = None
    as_trained: tuple[float, ...] = ()
    moved: tuple[float, ...] = ()
    change: tuple[float, ...] = ()

    @property
    def n_seeds(self) -> int:
        """Number of seeds that were run."""
        return max(len(self.moved), len(self.change))

    @property
    def learned(self) -> bool:
        """Whether the mean AUC as trained is at least .95."""
        return bool(np.mean(self.as_trained) >= ENOUGH)

    @property
    def passes(self) -> bool:
        """Whether the test is passed: by the mean AUC, or by every change."""
        if self.change:
            return max(self.change) <= TOLERANCE
        return self.learned and bool(np.mean(self.moved) >= ENOUGH)

    def joined(self, other: "Row") -> "Row":
        """Return the result of the same test with the seeds of both rows."""
        trained, moved = self.as_trained + other.as_trained, self.moved + other.moved
        return Row(self.test, self.strength, trained, moved, self.change + other.change)

    def decided(self, n_seeds: int) -> bool:
        """Whether the mean over `n_seeds` stays below .95 even if all other AUCs are 1."""
        missing = [len(values) - sum(values) for values in (self.as_trained, self.moved)]
        return max(missing) > n_seeds * (1 - ENOUGH)


@dataclass(frozen=True)
class AssumptionCheck:
    """Result of `check_assumptions`.

    Parameters
    ----------
    rows : sequence
        One result per test and strength of the decoy: ``test``, ``strength``, ``as_trained`` and
        ``moved`` (AUC per seed), ``change`` and ``passes``.

    Examples
    --------
    >>> from bagwise.assumptions import check_assumptions
    >>> from bagwise.classification import MILES
    >>> found = check_assumptions(MILES(random_state=0), seeds=1, n_train=60, n_test=40)
    >>> found.passes("single concept"), found.passes("copies")
    (False, True)
    """

    rows: Sequence[Row]

    def passes(self, test: str) -> bool:
        """Whether a test is passed, at every strength of the decoy.

        Parameters
        ----------
        test : {"single concept", "two concepts", "false frequency", "order", "copies", "monotone"}
            The test.

        Returns
        -------
        bool
        """
        return all(row.passes for row in self._rows(test))

    @property
    def keeps(self) -> str:
        """The assumption that the model keeps, by the tests it passes.

        "standard": single concept and monotone. Otherwise "several concepts": false frequency and
        copies. Otherwise "one concept": copies or monotone, and false frequency is not learned even
        as trained. Otherwise "collective".
        """
        if self.passes(SINGLE) and self.passes(MONOTONE):
            return "standard"
        if self.passes(FREQUENCY) and self.passes(COPIES):
            return "several concepts"
        learns_two = all(row.learned for row in self._rows(FREQUENCY))
        if (self.passes(COPIES) or self.passes(MONOTONE)) and not learns_two:
            return "one concept"
        return "collective"

    def worst(self, test: str) -> Row:
        """Return the row of a test with the lowest mean AUC after the move, or the largest change.

        Parameters
        ----------
        test : str
            The test, as for `passes`.

        Returns
        -------
        row
            One of `rows`.
        """
        rows = self._rows(test)
        if rows[0].change:
            return max(rows, key=lambda row: max(row.change))
        return min(rows, key=lambda row: float(np.mean(row.moved)))

    def table(self) -> dict[str, list[Any]]:
        """Make a table with a row per test and strength of the decoy.

        Returns
        -------
        dict of str to list
            A column per key. Columns that do not apply to a test are None.
        """
        return {
            "test": [row.test for row in self.rows],
            "decoy": [row.strength for row in self.rows],
            "seeds": [row.n_seeds for row in self.rows],
            "AUC as trained": [_mean(row.as_trained) for row in self.rows],
            "after the move": [_mean(row.moved) for row in self.rows],
            "worst seed": [min(row.moved, default=None) for row in self.rows],
            "change": [max(row.change, default=None) for row in self.rows],
            "passes": ["yes" if row.passes else "no" for row in self.rows],
        }

    def _rows(self, test: str) -> list[Row]:
        rows = [row for row in self.rows if row.test == test]
        if not rows:
            raise InputError(f"no test is called {test!r}: there are {', '.join(TESTS)}.")
        return rows


def check_assumptions(
    estimator: Any,
    *,
    seeds: int = 20,
    n_train: int = 200,
    n_test: int = 400,
    stop_early: bool = True,
    after_fit: Callable[[], None] = lambda: None,
) -> AssumptionCheck:
    """Test which assumption of multiple-instance learning a classifier of bags keeps.

    The tests follow Raff and Holt (2023). In the training bags, a clue that the assumption forbids
    also predicts the label; in the test bags it is moved. Bags have 16 features and 8 to 12
    background instances from N(0, 1).

    - *single concept*: positive bags have 1 to 3 instances of a concept, negative training bags a
      decoy at -3, -6 or -10 in each feature. After the move the decoy is in the positive bags. A
      negative bag may have anything but the concept, so the decoy must not matter.
    - *two concepts*: positive bags have A and B; negative bags have A, B or neither, and the decoy.
    - *false frequency*: positive bags have A and B; negative bags have one instance of A or of B,
      and 35 to 45 of them after the move.
    - *order*, *copies*: the score does not change if the instances of a bag are permuted, or if
      its most ordinary instance is repeated 5 to 20 times.
    - *monotone*: one more instance, of any kind, does not lower the score of the positive class.

    The first three are passed if the mean AUC over the seeds is at least .95, both as trained and
    after the move, at every strength of the decoy: a model that does not learn the task does not
    pass. The others are properties of the model of *single concept* at -10: they are passed if no
    change of a score exceeds 1e-5 of the largest score.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``fit(bags, y)`` and ``decision_function`` or ``predict_proba``, of this
        or another package. It is cloned, or copied if it is not a scikit-learn estimator. Bags are
        a list of arrays of shape (n_instances, 16), labels 0 and 1. If the classifier needs
        standardised instances, put a step before it that standardises them.
    seeds : int, default=20
        Number of random data sets per test.
    n_train, n_test : int, default=200, 400
        Number of training and test bags.
    stop_early : bool, default=True
        Skip the remaining seeds of a test when its mean AUC cannot reach .95 any more. Means are
        then over the seeds that were run.
    after_fit : callable, default: does nothing
        Called without arguments after each fit, e.g. to show progress.

    Returns
    -------
    AssumptionCheck
        ``table()`` lists the AUC as trained and after the move, ``passes(test)`` is whether a
        test is passed, and ``keeps`` is the assumption: "standard", "one concept", "several
        concepts" or "collective".

    References
    ----------
    Raff, Holt. Reproducibility in multiple instance learning: a case for algorithmic unit tests.
    NeurIPS 2023.

    Examples
    --------
    >>> from bagwise.assumptions import check_assumptions
    >>> from bagwise.classification import MILES
    >>> found = check_assumptions(MILES(random_state=0), seeds=1, n_train=60, n_test=40)
    >>> found.keeps
    'several concepts'
    """
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise InputError(
            f"estimator is {estimator!r}: expected an instance with fit(bags, y), such as MILES()."
        )
    check_scalar(seeds, "seeds", Integral, min_val=1)
    rows: list[Row] = []
    for number, trial in enumerate(trials()):
        found: list[Row] = []
        for seed in range(seeds):
            new = trial.run(estimator, np.random.RandomState([number, seed]), n_train, n_test)
            found = [a.joined(b) for a, b in zip(found, new, strict=True)] if found else new
            after_fit()
            if stop_early and found[0].decided(seeds):
                break
        rows += found
    return AssumptionCheck(sorted(rows, key=lambda row: TESTS.index(row.test)))


Draw = Callable[[Generator, int], Drawn]


@dataclass(frozen=True)
class Trial:
    """A test at one strength: how bags are drawn as trained and after the move.

    Attributes
    ----------
    test : str
        The test.
    strength : float or None
        The value of the decoy.
    draw, draw_moved : callable
        Maps a generator and a number of bags to bags and their classes.
    """

    test: str
    strength: float | None
    draw: Draw
    draw_moved: Draw

    def run(self, estimator: Any, rng: Generator, n_train: int, n_test: int) -> list[Row]:
        """Fit the model on one draw; return the row of the test, and rows of properties, if any."""
        bags, y = self.draw(rng, n_train)
        model = clone(estimator, safe=False).fit(list(bags), y)
        bags, y = self.draw(rng, n_test)
        moved, y_moved = self.draw_moved(rng, n_test)
        scores = _scores(model, bags)
        areas = roc_auc_score(y, scores), roc_auc_score(y_moved, _scores(model, moved))
        row = Row(self.test, self.strength, *((float(area),) for area in areas))
        shows = self.test == SINGLE and self.strength == STRENGTHS[-1]
        return [row, *_properties(rng, model, bags, scores)] if shows else [row]


def trials() -> list[Trial]:
    """The tests that fit models, at each strength of the decoy."""
    found = [
        Trial(test, strength, *(partial(draw, strength=strength, decoy_in=held) for held in (0, 1)))
        for test, draw in ((SINGLE, draws.single_concept), (TWO, draws.two_concepts))
        for strength in STRENGTHS
    ]
    states = (partial(draws.false_frequency, copies=copies) for copies in ((1, 1), (35, 45)))
    return [*found, Trial(FREQUENCY, None, *states)]


def _properties(rng: Generator, model: Any, bags: Bags, scores: Floats) -> list[Row]:
    """Largest changes by permuted, repeated and added instances, relative to the largest score."""
    permuted = np.abs(_scores(model, draws.shuffled(rng, bags)) - scores)
    repeated = np.abs(_scores(model, draws.with_copies(rng, bags)) - scores)
    fall = np.maximum(0, scores - _scores(model, draws.with_another(rng, bags, STRENGTHS[-1])))
    largest = np.max(np.abs(scores)) or 1.0
    changes = {ORDER: permuted, COPIES: repeated, MONOTONE: fall}
    return [Row(test, change=(float(np.max(c) / largest),)) for test, c in changes.items()]


def _scores(model: Any, bags: Bags) -> Floats:
    """The score of the positive class of each bag, of shape (n_bags,)."""
    columns = bag_scores(model, list(bags)).reshape(len(bags), -1)
    if columns.shape[1] > 2:
        raise InputError(
            f"{type(model).__name__} gave {columns.shape[1]} scores per bag: expected one, or one "
            "for each of two classes."
        )
    return columns[:, 1] - columns[:, 0] if columns.shape[1] == 2 else columns[:, 0]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def overview(checks: Mapping[str, AssumptionCheck]) -> dict[str, list[str]]:
    """Make a table with a row per method, from their results.

    Parameters
    ----------
    checks : mapping of str to AssumptionCheck
        The results, by method.

    Returns
    -------
    dict of str to list
        A column per key.
    """
    columns = {"method": list(checks), "keeps": [check.keeps for check in checks.values()]}
    return columns | {test: [_cell(check, test) for check in checks.values()] for test in TESTS}


def _cell(check: AssumptionCheck, test: str) -> str:
    row, passes = check.worst(test), check.passes(test)
    if row.change:
        return "yes" if passes else "no"
    means = [sum(values) / len(values) for values in (row.as_trained, row.moved)]
    return " → ".join(f"{mean:.2f}" for mean in means) + (" passes" if passes else "")
