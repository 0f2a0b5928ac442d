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

from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.base._selections import bag_scores
from bagwise.exceptions import InputError

N_FEATURES = 16
SMALLEST, LARGEST = 8, 12  # background instances of a bag
SPREAD = 0.1  # standard deviation of decoys, and of the concepts A and B, per feature

Generator = np.random.RandomState
Drawn = tuple[Bags, Ints]  # bags, and their classes 0 and 1


def single_concept(rng: Generator, n_bags: int, *, strength: float, decoy_in: int) -> Drawn:
    """Draw bags that are positive if they have a concept instance, with a decoy in one class.

    The background is N(0, 1) in each feature. A positive bag also has 1 to 3 instances of the
    concept, each from N(0, 3) or N(1, 1) (mean and standard deviation) with equal probability.

    Parameters
    ----------
    rng : RandomState
        Source of the draws.
    n_bags : int
        Number of bags; every second one is positive, in random order.
    strength : float
        The value of the decoy in each feature, up to a standard deviation of 0.1.
    decoy_in : {0, 1}
        The class whose bags have one decoy each: 0 in training, 1 after the move.

    Returns
    -------
    bags : Bags
        Instances in random order inside each bag.
    y : ndarray of shape (n_bags,)
        Whether a bag has the concept, 0 or 1.
    """
    y = _classes(rng, n_bags)
    n_concepts = np.where(y == 1, rng.randint(1, 4, size=n_bags), 0)
    return _bags(rng, concept(rng, n_concepts), decoys(rng, y == decoy_in, strength), y=y)


def two_concepts(rng: Generator, n_bags: int, *, strength: float, decoy_in: int) -> Drawn:
    """Draw bags that are positive if they have both concepts A and B, with a decoy in one class.

    A negative bag has A, or B, or neither, with equal probabilities. The parameters and the
    result are as for `single_concept`.
    """
    y = _classes(rng, n_bags)
    held = rng.randint(3, size=n_bags)  # of a negative bag: A, B, neither
    first, second = (y == 1) | (held == 0), (y == 1) | (held == 1)
    return _bags(rng, *_pair(rng, first, second), decoys(rng, y == decoy_in, strength), y=y)


def false_frequency(rng: Generator, n_bags: int, *, copies: tuple[int, int]) -> Drawn:
    """Draw bags that are positive if they have both concepts A and B, one instance of each.

    Parameters
    ----------
    rng : RandomState
        Source of the draws.
    n_bags : int
        Number of bags; every second one is positive, in random order.
    copies : tuple (fewest, most)
        How many instances of one concept a negative bag has, of A or of B: 1 in training, 35 to
        45 after the move.

    Returns
    -------
    bags, y
        As in `single_concept`.
    """
    y = _classes(rng, n_bags)
    many = rng.randint(copies[0], copies[1] + 1, size=n_bags)
    is_first = rng.randint(2, size=n_bags)
    first = np.where(y == 1, 1, many * is_first)
    second = np.where(y == 1, 1, many * (1 - is_first))
    return _bags(rng, *_pair(rng, first, second), y=y)


def shuffled(rng: Generator, bags: Bags) -> Bags:
    """Permute the instances inside each bag."""
    order = np.lexsort([rng.random_sample(bags.n_instances), bags.bag_index])
    return bags.with_instances(bags.instances[order])


def with_copies(rng: Generator, bags: Bags) -> Bags:
    """Repeat the most ordinary instance of each bag, the nearest to 0, 5 to 20 times."""
    norms = np.linalg.norm(bags.instances, axis=1)
    nearest = np.array([rows[np.argmin(norms[rows])] for rows in _rows(bags)])
    repeats = np.ones(bags.n_instances, dtype=int)
    repeats[nearest] += rng.randint(5, 21, size=len(bags))
    sizes = np.add.reduceat(repeats, bags.offsets[:-1])
    return Bags(np.repeat(bags.instances, repeats, axis=0), offsets_of(sizes))


def with_another(rng: Generator, bags: Bags, strength: float) -> Bags:
    """Add an instance to each bag: background, the concept, a decoy or N(0, 5), equally often."""
    n_bags, kind = len(bags), rng.permutation(np.arange(len(bags)) % 4)
    kinds = [
        rng.standard_normal((n_bags, N_FEATURES)),
        concept(rng, np.ones(n_bags, dtype=int))[0],
        decoys(rng, np.ones(n_bags, dtype=bool), strength)[0],
        5 * rng.standard_normal((n_bags, N_FEATURES)),
    ]
    added = np.choose(kind[:, None], kinds)
    rows = np.insert(bags.instances, bags.offsets[1:], added, axis=0)
    return Bags(rows, offsets_of(bags.sizes + 1))


def concept(rng: Generator, counts: Ints) -> tuple[Floats, Ints]:
    """Draw instances of the single concept, `counts` in each bag; also return their bags."""
    normal = rng.standard_normal((counts.sum(), N_FEATURES))
    wide = rng.randint(2, size=(len(normal), 1)) == 1
    return np.where(wide, 3 * normal, 1 + normal), np.repeat(np.arange(len(counts)), counts)


def decoys(rng: Generator, held: Array, strength: float) -> tuple[Floats, Ints]:
    """Draw one decoy for each bag for which `held` is true; also return their bags."""
    normal = rng.standard_normal((held.sum(), N_FEATURES))
    return strength + SPREAD * normal, np.flatnonzero(held)


def _pair(rng: Generator, first: Array, second: Array) -> list[tuple[Floats, Ints]]:
    """Draw instances of the concepts A and B.

    A has the value 2 in the first half of the features, B in the second half, and both 0 in the
    other half. `first` and `second` are the numbers of instances of A and B in each bag.
    """
    in_first_half = np.arange(N_FEATURES) < N_FEATURES // 2
    found = []
    for centre, counts in ((in_first_half, first), (~in_first_half, second)):
        normal = rng.standard_normal((counts.sum(), N_FEATURES))
        found.append((2.0 * centre + SPREAD * normal, np.repeat(np.arange(len(counts)), counts)))
    return found


def _classes(rng: Generator, n_bags: int) -> Ints:
    return rng.permutation(np.arange(n_bags) % 2)


def _rows(bags: Bags) -> list[Ints]:
    return np.split(np.arange(bags.n_instances), bags.offsets[1:-1])


def _bags(rng: Generator, *groups: tuple[Floats, Ints], y: Ints) -> Drawn:
    """Make bags of background instances and of groups of instances, given with their bags."""
    sizes = rng.randint(SMALLEST, LARGEST + 1, size=len(y))
    background = rng.standard_normal((sizes.sum(), N_FEATURES))
    rows = np.concatenate([background, *(rows for rows, _ in groups)])
    bag = np.concatenate([np.repeat(np.arange(len(y)), sizes), *(bag for _, bag in groups)])
    order = np.lexsort([rng.random_sample(len(bag)), bag])  # random inside the bag
    return Bags(rows[order], offsets_of(np.bincount(bag, minlength=len(y)))), y


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

        "standard": single concept and monotone; "standard, several concepts": two concepts and
        false frequency as well. Otherwise "several concepts": false frequency and copies. Otherwise
        "one concept": copies or monotone, and false frequency is not learned even as trained.
        Otherwise "collective".
        """
        if self.passes(SINGLE) and self.passes(MONOTONE):
            several = self.passes(TWO) and self.passes(FREQUENCY)
            return "standard, several concepts" if several else "standard"
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
        test is passed, and ``keeps`` is the assumption: "standard", "standard, several
        concepts", "one concept", "several concepts" or "collective".

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
        for test, draw in ((SINGLE, single_concept), (TWO, two_concepts))
        for strength in STRENGTHS
    ]
    states = (partial(false_frequency, copies=copies) for copies in ((1, 1), (35, 45)))
    return [*found, Trial(FREQUENCY, None, *states)]


def _properties(rng: Generator, model: Any, bags: Bags, scores: Floats) -> list[Row]:
    """Largest changes by permuted, repeated and added instances, relative to the largest score."""
    permuted = np.abs(_scores(model, shuffled(rng, bags)) - scores)
    repeated = np.abs(_scores(model, with_copies(rng, bags)) - scores)
    fall = np.maximum(0, scores - _scores(model, with_another(rng, bags, STRENGTHS[-1])))
    largest = np.max(np.abs(scores)) or 1.0
    changes = {ORDER: permuted, COPIES: repeated, MONOTONE: fall}
    return [Row(test, change=(float(np.max(c) / largest),)) for test, c in changes.items()]


def _scores(model: Any, bags: Bags) -> Floats:
    """The score of the positive class of each bag, of shape (n_bags,)."""
    columns = bag_scores(model, list(bags)).reshape(len(bags), -1)
    if columns.shape[1] > 2:
        raise InputError(
            f"{type(model).__name__} gave {columns.shape[1]} scores per bag: expected one or two."
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
