r"""Multi-instance k-means (Law et al. 2017, Eq. 3): each cluster is a label of the bags.

    min over H, Z    sum_jc H_jc |u_j - z_c|^2

where each row of a bag is assigned to at most one of the bag's candidate labels, and each candidate
label gets at most one row (or any number). As many rows as possible are assigned. Lloyd's algorithm
alternates between the centres of the assigned rows and one small assignment problem per bag.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from bagwise import loops
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.compute import Part, Parts, arrays, digest, iterate
from bagwise.compute.arrays import like, weighted_sums
from bagwise.solvers.result import SolverResult

TIE = 1 - 1e-12


@dataclass(frozen=True)
class Candidates:
    """The candidate labels of the rows of each bag.

    Attributes
    ----------
    offsets : ndarray of int64 of shape (n_bags + 1,)
        Where the rows of each bag begin.
    labels : ndarray of int64 of shape (n_candidates,)
        The candidate labels of all bags, bag by bag.
    label_offsets : ndarray of int64 of shape (n_bags + 1,)
        Where the candidates of each bag begin.
    n_labels : int
        Number of labels.
    one_each : bool
        Whether a label gets at most one row of a bag.
    """

    offsets: Ints
    labels: Ints
    label_offsets: Ints
    n_labels: int
    one_each: bool

    @classmethod
    def from_indicator(cls, offsets: Ints, indicator: Ints, *, one_each: bool) -> Self:
        """Make candidates from a 0/1 array; a row of -1 (unknown) has none."""
        found = np.flatnonzero(np.ravel(indicator == 1))  # faster than in two dimensions
        bag, label = np.divmod(found, indicator.shape[1])
        label_offsets = offsets_of(np.bincount(bag, minlength=len(indicator)))
        return cls(offsets, label, label_offsets, indicator.shape[1], one_each)

    def __getitem__(self, bags: slice) -> Self:
        """The candidates of some successive bags."""
        ends = slice(bags.start, bags.stop + 1)
        offsets, label_offsets = self.offsets[ends], self.label_offsets[ends]
        labels = self.labels[label_offsets[0] : label_offsets[-1]]
        starts = offsets - offsets[0], labels, label_offsets - label_offsets[0]
        return type(self)(*starts, self.n_labels, self.one_each)

    @cached_property
    def cost_offsets(self) -> Ints:
        """Where the costs of each bag begin: one per row and candidate label."""
        return loops.assignment.block_offsets(self.offsets, self.label_offsets)

    def distances(
        self, points: Any, centres: Any, stale: Bools | None = None, before: Floats | None = None
    ) -> Floats:
        """Squared distances of the rows to the centres of their candidates, in `assign`'s format.

        With the distances `before`, only those to stale labels are computed.
        """
        out = np.empty(self.cost_offsets[-1]) if before is None else before.copy()
        stale = np.ones(self.n_labels, bool) if before is None or stale is None else stale
        arrays.distances_to_candidates(points, centres, self, stale, out)
        return out

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """Row and label of each cost."""
        n_rows, n_labels = np.diff(self.offsets), np.diff(self.label_offsets)
        width, first = (np.repeat(each, n_rows) for each in (n_labels, self.label_offsets[:-1]))
        place = np.arange(width.sum()) - np.repeat(np.cumsum(width) - width - first, width)
        return np.repeat(np.arange(len(width)), width), self.labels[place]

    @property
    def forced(self) -> bool:
        """Whether there is only one assignment: one candidate at most, and one row for it."""
        n_labels, n_rows = np.diff(self.label_offsets), np.diff(self.offsets)
        free = (n_labels > 1) | ((n_labels == 1) & (n_rows > 1) & self.one_each)
        return not free.any()

    def assign(self, costs: Floats) -> tuple[Ints, Ints]:
        """Find the cheapest assignment: the label of each row (-1 for none), and cost indices."""
        solve = loops.assignment.assign if self.one_each else loops.assignment.nearest
        places = solve(costs, self.offsets, self.label_offsets)
        rows = np.flatnonzero(places >= 0)
        chosen = self._first_costs[rows] + places[rows]
        assigned = np.full(len(places), -1, dtype=np.int64)
        assigned[rows] = self.pairs[1][chosen]
        return assigned, chosen

    @cached_property
    def _first_costs(self) -> Ints:
        """Where the costs of each row begin."""
        return offsets_of(np.repeat(np.diff(self.label_offsets), np.diff(self.offsets)))[:-1]

    def bag_sums(self, points: Any) -> tuple[Any, Floats]:
        """Sums and weights of the initial centres: all rows of the bags that have a label.

        The weight of a row is 1 / max(rows, candidates) of its bag: the prior probability that it
        has the label.
        """
        n_rows, n_labels = np.diff(self.offsets), np.diff(self.label_offsets)
        weight = np.repeat(1 / np.maximum(n_rows, np.maximum(n_labels, 1)), n_rows * n_labels)
        row, label = self.pairs
        total: Any = np.bincount(label, weight, self.n_labels)
        return weighted_sums(points, label, row, weight, self.n_labels), total


class AssignedRows(Part):
    """A block of whole bags: its rows in the space of the clustering, and their labels.

    Parameters
    ----------
    bags : Bags
        The bags.
    candidates : Candidates
        Their candidate labels.

    Attributes
    ----------
    U : array of shape (n_instances, rank)
        The rows: the instances themselves, until a subclass replaces them. Checkpoints do not
        store it.
    labels, kept : ndarray of int64 of shape (n_instances,)
        The label of each row, -1 for none, in the last assignment and in the best start.
    """

    def __init__(self, bags: Bags, candidates: Candidates) -> None:
        self.bags, self.X, self.candidates = bags, bags.instances, candidates
        self.U: Any = self.X
        self.labels = self.kept = np.full(bags.n_instances, -2, dtype=np.int64)
        self.costs: Floats | None = None

    def identity(self) -> str:
        """Digest of the bags and their candidate labels."""
        return digest(self.bags, self.candidates.labels, self.candidates.label_offsets)

    def n_costs(self) -> int:
        """Number of pairs of a row and a candidate label."""
        return int(self.candidates.cost_offsets[-1])

    def bag_sums(self) -> tuple[Any, Floats]:
        """Sums and weights of the initial centres."""
        return self.candidates.bag_sums(self.U)

    def choose(self, costs: Floats) -> None:
        """Set the labels to the cheapest assignment for given costs."""
        self.labels = self.candidates.assign(costs)[0]

    def assign(self, centres: Any, stale: Bools) -> tuple[float, int, Ints]:
        """Assign the rows to centres, of which only stale ones have moved.

        Returns
        -------
        cost : float
        n_changed : int
            Number of rows with another label than before.
        touched : ndarray of int64 of shape (n_labels,)
            Whether a label gained or lost rows.
        """
        c = self.candidates
        self.costs = c.distances(self.U, like(centres, self.U), stale, self.costs)
        before, (self.labels, places) = self.labels, c.assign(self.costs)
        changed = np.flatnonzero(before != self.labels)
        touched = np.zeros(c.n_labels, np.int64)
        for labels in (before[changed], self.labels[changed]):
            touched[labels[labels >= 0]] = 1
        return float(self.costs[places].sum()), len(changed), touched

    def label_sums(self, chosen: Ints) -> tuple[Any, Ints]:
        """Sum and number of the rows of each chosen label."""
        return sums_of_labels(self.U, self.labels, chosen, self.candidates.n_labels)

    def assignments(self) -> Ints:
        """The label of each row, -1 for none."""
        return self.labels

    def keep(self) -> None:
        """Store the labels as the best so far."""
        self.kept = self.labels

    def take_kept(self) -> None:
        """Return to the labels of the best start."""
        self.labels = self.kept

    def state(self) -> dict[str, Ints]:
        """The labels, for a checkpoint."""
        return {"labels": self.labels, "kept": self.kept}

    def restore(self, state: dict[str, Ints]) -> None:
        """Continue from a checkpoint."""
        self.labels, self.kept, self.costs = state["labels"], state["kept"], None


AssignedRows.tensor_part = AssignedRows


def best_of_starts(
    parts: Parts,
    n_labels: int,
    *,
    init: str = "bag-means",
    empty: str = "keep",
    n_init: int = 1,
    rng: np.random.RandomState,
    max_iter: int = 100,
    tol: float = 0.0,
    **options: Any,
) -> SolverResult:
    """Assign rows to labels from several starts; the parts store the best labels.

    Parameters
    ----------
    parts : Parts
        Parts of the class `AssignedRows`.
    n_labels : int
        Number of labels.
    init : {"bag-means", "random"}, default="bag-means"
        The first start: from the means of the bags of each label, or from a random assignment, as
        in the paper. All others are random.
    empty : {"keep", "zero"}, default="keep"
        The centre of a label that has lost all its rows: unchanged, or 0 as in the paper.
    n_init : int, default=1
        Number of starts.
    rng : RandomState
        Random generator for random starts.
    max_iter : int, default=100
        Maximum number of iterations of a start.
    tol : float, default=0.0
        Relative decrease of the objective at which a start ends.
    **options
        ``track`` and ``checkpoint``, as for `iterate`.

    Returns
    -------
    SolverResult
        ``solution`` is (assigned labels,). The curve has the objective after each assignment of
        the best start.
    """
    ends, everything = np.cumsum(parts.each("n_costs")), np.arange(n_labels)
    waiting = iter(range(init == "bag-means", n_init))  # the random starts

    def begin(now: dict[str, Any]) -> None:
        if now["start"] == 0 and init == "bag-means":
            sums, weights = parts.total("bag_sums")
        else:
            # A resumed search skips what earlier starts drew: later ones are then the same.
            while next(waiting) < now["start"]:
                rng.uniform(size=ends[-1])
            parts.do("choose", own=np.split(rng.uniform(size=ends[-1]), ends[:-1]))
            sums, weights = parts.total("label_sums", everything)
        centres = sums / like(np.where(weights > 0, weights, 1)[:, None], sums)
        now |= {"centres": centres, "stale": np.ones(n_labels, bool), "curve": np.empty(0)}

    def step(now: dict[str, Any]) -> bool:
        cost, n_changed, touched = parts.step("assign", now["centres"], now["stale"])
        before, now["curve"] = now["curve"], np.append(now["curve"], cost)
        # Assignments of equal cost could alternate forever.
        settled = len(before) > 0 and (n_changed == 0 or cost >= (TIE - tol) * before[-1])
        if not settled:
            moved = np.flatnonzero(touched)
            sums, counts = parts.total("label_sums", moved)
            some = np.flatnonzero(counts) if empty == "keep" else np.arange(len(moved))
            centres = like(now["centres"], sums)
            centres[moved[some]] = sums[some] / like(np.maximum(counts[some, None], 1), sums)
            now |= {"centres": centres, "stale": touched > 0}
        if settled or len(now["curve"]) == max_iter:
            if len(now["best"]) == 0 or cost < now["best"][-1]:
                parts.do("keep")
                now |= {"best": now["curve"], "settled": settled}
            now["start"] += 1
            if now["start"] == n_init:
                return True
            begin(now)
        return False

    start = {"start": 0, "centres": 0.0, "stale": True, "curve": (), "best": (), "settled": False}
    now = iterate(parts, start, begin, step, max_iter=n_init * max_iter, **options)
    parts.do("take_kept")
    assigned = np.concatenate(parts.each("assignments"))
    return SolverResult((assigned,), now["best"], bool(now["settled"]))


def sums_of_labels(points: Any, assigned: Ints, chosen: Ints, n_labels: int) -> tuple[Any, Ints]:
    """Sum and number of the rows assigned to each chosen label.

    Parameters
    ----------
    points : ndarray, CSR or tensor of shape (n_rows, n_features)
        The rows.
    assigned : ndarray of int64 of shape (n_rows,)
        Their labels, negative for none.
    chosen : ndarray of int64 of shape (n_chosen,)
        Distinct labels.
    n_labels : int
        Number of labels.

    Returns
    -------
    sums : ndarray or tensor of shape (n_chosen, n_features)
    counts : ndarray of int64 of shape (n_chosen,)
    """
    number = np.full(n_labels, -1)
    number[chosen] = np.arange(len(chosen))
    rows = np.flatnonzero(assigned >= 0)
    code = number[assigned[rows]]
    rows, code = rows[code >= 0], code[code >= 0]
    sums = weighted_sums(points, code, rows, np.ones(len(rows)), len(chosen))
    return sums, np.bincount(code, minlength=len(chosen))


def cluster_means(points: Array, assigned: Ints, n_labels: int) -> Array:
    """Mean of the rows assigned to each label.

    Parameters
    ----------
    points : ndarray or CSR of shape (n_rows, n_features)
        The rows.
    assigned : ndarray of int64 of shape (n_rows,)
        Their labels, -1 for none.
    n_labels : int
        Number of labels.

    Returns
    -------
    ndarray of shape (n_labels, n_features)
        Zeros for a label without rows.
    """
    sums, counts = sums_of_labels(points, assigned, np.arange(n_labels), n_labels)
    return sums / np.maximum(counts, 1).astype(sums.dtype)[:, None]
