r"""Multi-instance k-means (Law et al. 2017, Eq. 3): clusters are labels, and bags say which.

    min over H, Z    sum_jc H_jc |u_j - z_c|^2

where each row of a bag goes to at most one of the bag's candidate labels and each candidate label
gets at most one row (or any number of them), as many as can be. Lloyd's alternation: centres of
the assigned rows, then one small assignment problem per bag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bagwise import kernels
from bagwise.solvers.result import SolverResult

__all__ = ["Candidates", "best_of_starts", "cluster_means", "multi_instance_kmeans"]

TIE = 1 - 1e-12

Points = NDArray[Any]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Candidates:
    """Which labels the rows of each bag may have.

    Attributes
    ----------
    offsets : ndarray of int64 of shape (n_bags + 1,)
        Where the rows of each bag begin.
    labels : ndarray of int64 of shape (n_candidates,)
        The candidate labels of all bags, bag by bag.
    label_offsets : ndarray of int64 of shape (n_bags + 1,)
        Where the candidates of each bag begin.
    n_labels : int
        How many labels there are.
    one_each : bool
        Whether a label has at most one row of a bag.
    """

    offsets: NDArray[np.int64]
    labels: Labels
    label_offsets: NDArray[np.int64]
    n_labels: int
    one_each: bool

    @classmethod
    def from_indicator(
        cls, offsets: NDArray[np.int64], indicator: NDArray[np.int8], *, one_each: bool
    ) -> Self:
        """Read the candidates off a 0/1 array; a row of -1 (nothing known) has none."""
        bag, label = np.nonzero(indicator == 1)
        counts = np.bincount(bag, minlength=len(indicator))
        return cls(
            offsets,
            label.astype(np.int64),
            np.concatenate([[0], np.cumsum(counts)]),
            indicator.shape[1],
            one_each,
        )

    @property
    def forced(self) -> bool:
        """Whether nothing can be chosen: one candidate at most, and one row where it is taken."""
        n_labels, n_rows = np.diff(self.label_offsets), np.diff(self.offsets)
        free = (n_labels > 1) | ((n_labels == 1) & (n_rows > 1) & self.one_each)
        return not free.any()

    def assign(self, costs: NDArray[np.float64]) -> tuple[Labels, NDArray[np.intp]]:
        """The cheapest assignment: the label of each row (-1 for none), and where its cost is."""
        solve = kernels.assignment.assign if self.one_each else kernels.assignment.nearest
        places = solve(costs, self.offsets, self.label_offsets)
        rows = np.flatnonzero(places >= 0)
        bag = np.searchsorted(self.offsets, rows, side="right") - 1
        assigned = np.full(len(places), -1, dtype=np.int64)
        assigned[rows] = self.labels[self.label_offsets[bag] + places[rows]]
        n_labels = np.diff(self.label_offsets)[bag]
        starts = kernels.assignment.block_offsets(self.offsets, self.label_offsets)[bag]
        return assigned, starts + (rows - self.offsets[bag]) * n_labels + places[rows]

    def bag_means(self, points: Points) -> Points:
        """Centres to start from: the mean of all rows of the bags that carry a label.

        A row counts 1 / max(rows, candidates) of its bag: as much as it can be expected to have
        the label.
        """
        n_rows, n_labels = np.diff(self.offsets), np.diff(self.label_offsets)
        bag = np.repeat(np.arange(len(n_labels)), n_labels)  # of each candidate
        count = n_rows[bag]
        weight = np.repeat(1 / np.maximum(n_rows, n_labels)[bag], count)
        first = self.offsets[bag] - np.cumsum(count) + count
        row = np.repeat(first, count) + np.arange(len(weight))
        return _weighted_means(points, np.repeat(self.labels, count), row, weight, self.n_labels)

    def random_assignment(self, rng: np.random.RandomState) -> Labels:
        """An assignment of random costs."""
        n_costs = kernels.assignment.block_offsets(self.offsets, self.label_offsets)[-1]
        return self.assign(rng.uniform(size=n_costs))[0]


def best_of_starts(
    points: NDArray[Any],
    candidates: Candidates,
    *,
    init: str,
    n_init: int,
    rng: np.random.RandomState,
    steps: Callable[[], Iterable[int]],
) -> SolverResult:
    """Assign instances to labels, from several starts, and keep the best.

    Parameters
    ----------
    points : ndarray of shape (n_instances, n_dimensions)
        The instances; for MIMLCA the basis of their space.
    candidates : Candidates
        Which labels each may have.
    init : {"bag-means", "random"}
        The first start; all others are random assignments.
    n_init : int
        How many starts.
    rng : RandomState
        For random starts.
    steps : callable
        Gives one item per iteration allowed, for each start anew.

    Returns
    -------
    SolverResult
        ``solution`` is (assigned labels, centres).
    """
    best: SolverResult | None = None
    for start in range(n_init):
        if start == 0 and init == "bag-means":
            centres = candidates.bag_means(points)
        else:
            centres = cluster_means(points, candidates.random_assignment(rng), candidates.n_labels)
        found = multi_instance_kmeans(points, candidates, centres, steps=steps())
        if best is None or found.objective_curve[-1] < best.objective_curve[-1]:
            best = found
    assert best is not None
    return best


def multi_instance_kmeans(
    points: Points, candidates: Candidates, centres: Points, *, steps: Iterable[int]
) -> SolverResult:
    """Alternate between assignments and centres until no row changes its label.

    Parameters
    ----------
    points : ndarray of shape (n_rows, n_features)
        The rows.
    candidates : Candidates
        Which labels each may have.
    centres : ndarray of shape (n_labels, n_features)
        Where to start from; moved in place.
    steps : iterable
        One item per iteration allowed.

    Returns
    -------
    SolverResult
        ``solution`` is (assigned labels, centres); a label without rows keeps its last centre.
        The curve holds the objective after each assignment.
    """
    n_costs = kernels.assignment.block_offsets(candidates.offsets, candidates.label_offsets)[-1]
    costs = np.zeros(n_costs)
    stale = np.ones(candidates.n_labels, dtype=bool)
    assigned = np.full(len(points), -2, dtype=np.int64)
    curve: list[float] = []
    converged = False
    for _ in steps:
        kernels.assignment.distances_to_candidates(
            points,
            centres,
            candidates.offsets,
            candidates.labels,
            candidates.label_offsets,
            stale,
            costs,
        )
        before, (assigned, places) = assigned, candidates.assign(costs)
        curve.append(float(costs[places].sum()))
        changed = np.flatnonzero(assigned != before)
        # Assignments of the same cost could take turns for ever.
        converged = len(changed) == 0 or (len(curve) > 1 and curve[-1] >= TIE * curve[-2])
        if converged:
            break
        # Only labels that won or lost a row have new centres, and new distances.
        touched = np.union1d(assigned[changed], before[changed])
        stale[:] = False
        stale[touched[touched >= 0]] = True
        _move(points, assigned, centres, stale)
    return SolverResult((assigned, centres), np.array(curve), len(curve), converged)


def cluster_means(points: Points, assigned: Labels, n_labels: int) -> Points:
    """Mean of the rows assigned to each label.

    Parameters
    ----------
    points : ndarray of shape (n_rows, n_features)
        The rows.
    assigned : ndarray of int64 of shape (n_rows,)
        Their labels, -1 for none.
    n_labels : int
        How many labels there are.

    Returns
    -------
    ndarray of shape (n_labels, n_features)
        Zeros for a label without rows.
    """
    rows = np.flatnonzero(assigned >= 0)
    return _weighted_means(points, assigned[rows], rows, np.ones(len(rows)), n_labels)


def _move(points: Points, assigned: Labels, centres: Points, moved: NDArray[np.bool_]) -> None:
    """Move the centres of the labels that won or lost rows; one that lost all its rows stays."""
    has_rows = np.bincount(assigned[assigned >= 0], minlength=len(centres)) > 0
    fresh = np.flatnonzero(moved & has_rows)
    number = np.full(len(centres) + 1, -1)  # its last entry stands for rows without label
    number[fresh] = np.arange(len(fresh))
    centres[fresh] = cluster_means(points, number[assigned], len(fresh))


def _weighted_means(
    points: Points,
    label: NDArray[Any],
    row: NDArray[Any],
    weight: NDArray[np.float64],
    n_labels: int,
) -> Points:
    """Mean of the rows of each label; 0 where there are none."""
    total = np.bincount(label, weights=weight, minlength=n_labels)
    share = (weight / total[label]).astype(points.dtype)
    member = sparse.csr_array((share, (label, row)), shape=(n_labels, points.shape[0]))
    means = member @ points
    return means.toarray() if sparse.issparse(means) else means
