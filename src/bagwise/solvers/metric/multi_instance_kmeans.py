r"""Multi-instance k-means (Law et al. 2017, Eq. 3): each cluster is a label of the bags.

    min over H, Z    sum_jc H_jc |u_j - z_c|^2

where each row of a bag is assigned to at most one of the bag's candidate labels, and each candidate
label gets at most one row (or any number). As many rows as possible are assigned. Lloyd's algorithm
alternates between the centres of the assigned rows and one small assignment problem per bag.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Self

import numpy as np
from scipy import sparse

from bagwise import compiled
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.bags import offsets_of
from bagwise.compiled.threads import even_bounds, run_blocks
from bagwise.engines import Checkpoint, Parts
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

        def find(start: int, stop: int) -> Ints:
            # Several times faster than numpy's search in two dimensions.
            found = np.flatnonzero(np.ravel(indicator[start:stop] == 1))
            return found + start * indicator.shape[1]

        places = run_blocks(find, even_bounds(len(indicator), indicator.size))
        bag, label = np.divmod(np.concatenate(places), indicator.shape[1])
        label_offsets = offsets_of(np.bincount(bag, minlength=len(indicator)))
        return cls(offsets, label, label_offsets, indicator.shape[1], one_each)

    @classmethod
    def from_sets(cls, offsets: Ints, sets: sparse.csr_array, *, one_each: bool) -> Self:
        """Make candidates from the CSR array of `as_sets`, or from some of its rows."""
        labels, label_offsets = (a.astype(np.int64) for a in (sets.indices, sets.indptr))
        return cls(offsets, labels, label_offsets, sets.shape[1], one_each)

    def as_sets(self) -> sparse.csr_array:
        """Convert to a CSR array with a row per bag, which `place` splits like the bags."""
        ones = np.ones(len(self.labels), np.int8)
        shape = len(self.offsets) - 1, self.n_labels
        return sparse.csr_array((ones, self.labels, self.label_offsets), shape=shape)

    @property
    def n_costs(self) -> int:
        """Number of pairs of a row and a candidate label."""
        return int(compiled.assignment.block_offsets(self.offsets, self.label_offsets)[-1])

    def distances(
        self, points: Array, centres: Array, stale: Bools | None = None, out: Floats | None = None
    ) -> Floats:
        """Squared distances of the rows to the centres of their candidates, in `assign`'s format.

        With `stale` and `out`, only the distances to stale labels are computed, and written to
        `out`.
        """
        out = np.empty(self.n_costs) if out is None else out
        stale = np.ones(self.n_labels, bool) if stale is None else stale
        compiled.assignment.distances_to_candidates(
            points, centres, self.offsets, self.labels, self.label_offsets, stale, out
        )
        return out

    @property
    def forced(self) -> bool:
        """Whether there is only one assignment: one candidate at most, and one row for it."""
        n_labels, n_rows = np.diff(self.label_offsets), np.diff(self.offsets)
        free = (n_labels > 1) | ((n_labels == 1) & (n_rows > 1) & self.one_each)
        return not free.any()

    def assign(self, costs: Floats) -> tuple[Ints, Ints]:
        """Find the cheapest assignment: the label of each row (-1 for none), and cost indices."""
        solve = compiled.assignment.assign if self.one_each else compiled.assignment.nearest
        places = solve(costs, self.offsets, self.label_offsets)
        rows = np.flatnonzero(places >= 0)
        first_label, first_cost = self._firsts
        assigned = np.full(len(places), -1, dtype=np.int64)
        assigned[rows] = self.labels[first_label[rows] + places[rows]]
        return assigned, first_cost[rows] + places[rows]

    @cached_property
    def _firsts(self) -> tuple[Ints, Ints]:
        """Start of the candidates and of the costs of each row."""
        n_rows, n_labels = np.diff(self.offsets), np.diff(self.label_offsets)
        first_label = np.repeat(self.label_offsets[:-1], n_rows)
        return first_label, offsets_of(np.repeat(n_labels, n_rows))[:-1]

    def bag_means(self, points: Array) -> Array:
        """Initial centres: the mean of all rows of the bags that carry a label.

        The weight of a row is 1 / max(rows, candidates) of its bag: the prior probability that it
        has the label.
        """
        n_rows, n_labels = np.diff(self.offsets), np.diff(self.label_offsets)
        bag = np.repeat(np.arange(len(n_labels)), n_labels)  # bag of each candidate
        count = n_rows[bag]
        weight = np.repeat(1 / np.maximum(n_rows, n_labels)[bag], count)
        first = self.offsets[bag] - np.cumsum(count) + count
        row = np.repeat(first, count) + np.arange(len(weight))
        return _weighted_means(points, np.repeat(self.labels, count), row, weight, self.n_labels)


class LocalRows:
    """Rows in this process.

    Parameters
    ----------
    points : ndarray of shape (n_rows, n_features)
        The rows.
    candidates : Candidates
        The candidate labels of each row.

    Attributes
    ----------
    kept : ndarray of int64 of shape (n_rows,)
        The best labels, -1 for none.
    """

    def __init__(self, points: Array, candidates: Candidates) -> None:
        self.points, self.candidates = points, candidates
        self.n_costs = candidates.n_costs
        self.costs = np.zeros(self.n_costs)
        self.kept: Ints = np.full(len(points), -1, dtype=np.int64)
        self.labels: Ints
        self.stale: Bools
        self._forget()

    @property
    def parts(self) -> Parts:
        """The rows as a part, created on each access: a cycle would keep large rows in memory."""
        return Parts(self)

    def begin(self, costs: Floats | None) -> Array:
        """Initial centres: from the bags of each label, or from the assignment for given costs."""
        self._forget()
        if costs is None:
            return self.candidates.bag_means(self.points)
        assigned = self.candidates.assign(costs)[0]
        return cluster_means(self.points, assigned, self.candidates.n_labels)

    def assign(self, centres: Array) -> tuple[float, int]:
        """Assign the rows to centres; return the cost and the number of changed labels."""
        c = self.candidates
        c.distances(self.points, centres, self.stale, self.costs)
        before, (self.labels, places) = self.labels, c.assign(self.costs)
        changed = np.flatnonzero(self.labels != before)
        # Only labels that gained or lost a row have new centres and distances.
        touched = np.union1d(self.labels[changed], before[changed])
        self.stale = np.isin(np.arange(c.n_labels), touched)
        return float(self.costs[places].sum()), len(changed)

    def move(self, centres: Array) -> Array:
        """Update the centres of the assigned rows in place; a centre without rows is kept."""
        has_rows = np.bincount(self.labels[self.labels >= 0], minlength=len(centres)) > 0
        fresh = np.flatnonzero(self.stale & has_rows)
        number = np.full(len(centres) + 1, -1)  # the last entry is for rows without label
        number[fresh] = np.arange(len(fresh))
        centres[fresh] = cluster_means(self.points, number[self.labels], len(fresh))
        return centres

    def keep(self) -> None:
        """Store the labels as the best so far."""
        self.kept = self.labels

    def identity(self) -> str:
        """Empty: the settings of a checkpoint already identify the instances."""
        return ""

    def state(self) -> dict[str, Ints]:
        """The labels, for a checkpoint."""
        return {"labels": self.labels, "kept": self.kept}

    def restore(self, state: dict[str, Ints]) -> None:
        """Continue from a checkpoint."""
        self._forget()
        self.labels, self.kept = state["labels"], state["kept"]

    def _forget(self) -> None:
        self.labels = np.full(len(self.points), -2, dtype=np.int64)
        self.stale = np.ones(self.candidates.n_labels, dtype=bool)


class PlacedRows:
    """Rows on workers or a device, with the methods of `LocalRows`.

    Parameters
    ----------
    parts : Parts
        Parts of a class with the methods of `MIMLCAPart`.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.ends = np.cumsum(parts.each("n_costs"))
        parts.hold()

    @property
    def n_costs(self) -> int:
        """Number of pairs of a row and a candidate label."""
        return int(self.ends[-1])

    def begin(self, costs: Floats | None) -> Any:
        """Initial centres: from the bags of each label, or from the assignment for given costs."""
        if costs is None:
            sums, counts = self.parts.total("bag_sums")
        else:
            self.parts.do("choose", own=np.split(costs, self.ends[:-1]))
            sums, counts = self.parts.total("label_sums")
        return _means(sums, counts, 0.0 * sums)

    def assign(self, centres: Any) -> tuple[float, int]:
        """Assign the rows to centres; return the cost and the number of changed labels."""
        return self.parts.step("assign", centres)

    def move(self, centres: Any) -> Any:
        """Compute the centres of the assigned rows; a label without rows keeps its centre."""
        sums, counts = self.parts.total("label_sums")
        return _means(sums, counts, centres)

    def keep(self) -> None:
        """Store the labels as the best so far."""
        self.parts.do("keep")


Rows = LocalRows | PlacedRows


def best_of_starts(
    rows: Rows,
    *,
    init: str,
    n_init: int,
    rng: np.random.RandomState,
    steps: Callable[[], Iterable[int]],
    checkpoint: Checkpoint | None = None,
) -> SolverResult:
    """Assign rows to labels from several starts; `rows` stores the best labels.

    Parameters
    ----------
    rows : LocalRows or PlacedRows
        The rows; for MIMLCA, rows of the basis U.
    init : {"bag-means", "random"}
        The first start; all others are random assignments.
    n_init : int
        Number of starts.
    rng : RandomState
        Random generator for random starts.
    steps : callable
        Returns an iterable with one item per allowed iteration; called for each start.
    checkpoint : Checkpoint, default=None
        File to save intermediate results in, and to resume from. The caller removes it.

    Returns
    -------
    SolverResult
        Without solution, which `rows` stores. The curve holds the objective after each assignment
        of the best start.
    """

    def draw(start: int) -> Floats | None:
        by_bags = start == 0 and init == "bag-means"
        return None if by_bags else rng.uniform(size=rows.n_costs)

    now: dict[str, Any] = {"start": 0, "centres": rows.begin(draw(0)), "curve": []}
    now |= {"best": [], "settled": False}
    if checkpoint is not None and checkpoint.load(now, rows.parts):
        for start in range(1, int(now["start"]) + 1):
            draw(start)  # later starts equal those of an uninterrupted search
    first = int(now["start"])
    for start in range(first, n_init):
        if start > first:
            now |= {"start": start, "centres": rows.begin(draw(start)), "curve": []}
        settled = _alternate(rows, now, steps(), checkpoint)
        if len(now["best"]) == 0 or now["curve"][-1] < now["best"][-1]:
            rows.keep()
            now |= {"best": now["curve"], "settled": settled}
    return SolverResult((), now["best"], bool(now["settled"]))


def _alternate(
    rows: Rows, now: dict[str, Any], steps: Iterable[int], checkpoint: Checkpoint | None
) -> bool:
    """Run Lloyd's algorithm until no row changes its label; return whether it converged."""
    for _ in islice(steps, len(now["curve"]), None):
        cost, n_changed = rows.assign(now["centres"])
        before, now["curve"] = now["curve"], np.append(now["curve"], cost)
        # Assignments of equal cost could alternate forever.
        if len(before) and (n_changed == 0 or cost >= TIE * before[-1]):
            return True
        now["centres"] = rows.move(now["centres"])
        rows.parts.renew()
        if checkpoint is not None:
            checkpoint.save(now, rows.parts)
    return False


def cluster_means(points: Array, assigned: Ints, n_labels: int) -> Array:
    """Mean of the rows assigned to each label.

    Parameters
    ----------
    points : ndarray of shape (n_rows, n_features)
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
    rows = np.flatnonzero(assigned >= 0)
    return _weighted_means(points, assigned[rows], rows, np.ones(len(rows)), n_labels)


def _weighted_means(
    points: Array, label: Array, row: Array, weight: Floats, n_labels: int
) -> Array:
    """Weighted mean of the rows of each label; 0 for a label without rows."""
    total = np.bincount(label, weights=weight, minlength=n_labels)
    share = (weight / total[label]).astype(points.dtype)
    member = sparse.csr_array((share, (label, row)), shape=(n_labels, points.shape[0]))
    means = member @ points
    return means.toarray() if sparse.issparse(means) else means


def _means(sums: Any, counts: Any, before: Any) -> Any:
    """Sums divided by counts; a label without rows keeps its previous centre."""
    empty = (counts == 0)[:, None]
    return sums / (counts[:, None] + empty) * ~empty + before * empty
