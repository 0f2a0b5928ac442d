r"""MIMLCA on Dask workers or a device (Law et al. 2017, Algorithm 1).

The same algorithm as in ``mimlca``, for tables with more rows than columns, on numpy arrays or
torch tensors. A part stores its rows of U and their labels. The Gram matrix X'X is sent once; each
iteration sends the sums of the rows of each label, and the centres.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.engines import Checkpoint, Part, Parts, arrays, digest, place
from bagwise.engines.arrays import (
    as_numpy,
    float64,
    identity,
    like,
    solve_upper,
    sums_by,
    to_numpy,
)
from bagwise.engines.tensors import torch
from bagwise.exceptions import InputError
from bagwise.solvers.metric.column_span import RANK_TOLERANCE, shortest_basis
from bagwise.solvers.metric.mimlca import shortest_map
from bagwise.solvers.metric.multi_instance_kmeans import Candidates, PlacedRows, best_of_starts
from bagwise.solvers.result import SolverResult

SMALLEST_RCOND = 1e-10  # of the scaled X'X: below, its Cholesky factor is inaccurate
SMALLEST_LEFT = 1e-8  # of U_a'U_a: below, directions are lost with the rows left out
LARGEST_SHARE = 0.9  # features per instance above which all assignments cost the same


class MIMLCAPart(Part):
    """A block of whole bags: its rows of U and their labels.

    Parameters
    ----------
    bags : Bags
        The bags.
    sets : csr_array of shape (n_bags, n_labels)
        Their label sets, from `Candidates.as_sets`.
    one_each : bool
        Whether a label gets at most one row of a bag.

    Attributes
    ----------
    U : array of shape (n_instances, rank)
        The rows in the space of the clustering. Checkpoints do not store it: it is recomputed
        from X.
    labels, kept : ndarray of int64 of shape (n_instances,)
        The label of each row, -1 for none, in the last assignment and in the best start.
    """

    def __init__(self, bags: Bags, sets: sparse.csr_array, *, one_each: bool) -> None:
        self.bags, self.X = bags, bags.instances
        self.candidates = Candidates.from_sets(bags.offsets, sets, one_each=one_each)
        self.U: Any = None
        self.labels = self.kept = np.full(bags.n_instances, -2, dtype=np.int64)

    def identity(self) -> str:
        """Digest of the bags and their candidate labels."""
        return digest(self.bags, self.candidates.labels, self.candidates.label_offsets)

    def sums(self) -> Any:
        """Sum of the rows of X."""
        return arrays.column_sums(self.X)

    def gram(self, mean: Array) -> Any:
        """X'X of centred rows."""
        return arrays.gram(self.X, mean)

    def whiten(self, mean: Array, scale: Any, factor: Any) -> None:
        """Set U = (X - mean) / scale factor^-1."""
        scale, factor = like(scale, self.X), like(factor, self.X)
        self.U = arrays.empty(self.X, self.X.shape)
        for rows, block in arrays.centred_blocks(self.X, mean):
            self.U[rows] = solve_upper(factor, (block / scale).T, transposed=True).T

    def project(self, mean: Array, matrix: Any) -> None:
        """Set U = (X - mean) matrix."""
        matrix = like(matrix, self.X)
        self.U = arrays.empty(self.X, (self.X.shape[0], matrix.shape[1]))
        for rows, block in arrays.centred_blocks(self.X, mean):
            self.U[rows] = block @ matrix

    def gram_of_basis(self) -> Any:
        """U'U."""
        return arrays.gram(self.U)

    def turn(self, factor: Any) -> None:
        """Replace U by U factor^-1."""
        self.U = like(solve_upper(factor, float64(self.U).T, transposed=True).T, self.X)

    def bag_sums(self) -> tuple[Any, Any]:
        """Sums and weights of the initial centres: all rows of the bags with a label."""
        c = self.candidates
        n_rows, n_labels = np.diff(c.offsets), np.diff(c.label_offsets)
        bag = np.repeat(np.arange(len(n_labels)), n_labels)  # of each candidate
        weight = 1 / np.maximum(n_rows, n_labels)[bag]
        of_bags = sums_by(self.U, self.bags.bag_index, len(n_rows))
        sums = sums_by(of_bags[bag] * like(weight[:, None], of_bags), c.labels, c.n_labels)
        total = np.bincount(c.labels, weights=weight * n_rows[bag], minlength=c.n_labels)
        return sums, like(total, sums)

    def n_costs(self) -> int:
        """Number of pairs of a row and a candidate label."""
        return self.candidates.n_costs

    def choose(self, costs: Array) -> None:
        """Set the labels to the cheapest assignment for given costs."""
        self.labels = self.candidates.assign(costs)[0]

    def assign(self, centres: Any) -> tuple[float, int]:
        """Assign the rows to centres; return the cost and the number of changed labels."""
        costs = self._distances(centres)
        before, (self.labels, places) = self.labels, self.candidates.assign(costs)
        return float(costs[places].sum()), int(np.count_nonzero(before != self.labels))

    def _distances(self, centres: Any) -> Floats:
        """Squared distances of the rows to the centres of their candidates."""
        return self.candidates.distances(self.U, np.ascontiguousarray(centres, self.U.dtype))

    def label_sums(self) -> tuple[Any, Any]:
        """Sum and number of the rows of U of each label."""
        n_labels = self.candidates.n_labels
        sums = sums_by(self.U, self.labels, n_labels)
        return sums, like(np.bincount(self.labels[self.labels >= 0], minlength=n_labels), sums)

    def feature_sums(self) -> Any:
        """Sums of the instances of each label."""
        return sums_by(self.X, self.labels, self.candidates.n_labels)

    def gram_of(self, assigned: bool) -> Any:
        """U'U over the rows that have a label, or over the others."""
        return arrays.gram(self.U[np.flatnonzero((self.labels >= 0) == assigned)])

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
        self.labels, self.kept = state["labels"], state["kept"]


class TensorMIMLCAPart(MIMLCAPart):
    """All bags on a device.

    The compiled code solves the small assignment problems of the bags. Only their costs, one per
    instance and candidate label, leave the device.
    """

    def __init__(self, bags: Bags, sets: sparse.csr_array, *, one_each: bool) -> None:
        super().__init__(bags, sets, one_each=one_each)
        c = self.candidates
        n_candidates = np.diff(c.label_offsets)[bags.bag_index]  # of each row
        row = np.repeat(np.arange(bags.n_instances), n_candidates)
        first = np.cumsum(n_candidates) - n_candidates
        place = np.arange(len(row)) - first[row] + c.label_offsets[bags.bag_index[row]]
        device = self.X.device
        self.pair_row = torch.as_tensor(row, dtype=torch.int64, device=device)
        self.pair_label = torch.as_tensor(c.labels[place], dtype=torch.int64, device=device)

    def _distances(self, centres: Any) -> Floats:
        centres, costs = like(centres, self.U), self.U.new_empty(len(self.pair_row))
        step = max(1, arrays.BLOCK // max(self.U.shape[1], 1))
        for start in range(0, len(costs), step):
            pairs = slice(start, start + step)
            apart = self.U[self.pair_row[pairs]] - centres[self.pair_label[pairs]]
            costs[pairs] = (apart * apart).sum(dim=1)
        return to_numpy(float64(costs))


MIMLCAPart.tensor_part = TensorMIMLCAPart


def mimlca_by_parts(
    bags: Bags,
    candidates: Candidates,
    *,
    center: bool,
    n_components: int | None,
    ridge: float,
    init: str,
    n_init: int,
    rng: np.random.RandomState,
    steps: Callable[[], Iterable[int]],
    checkpoint: Checkpoint | None = None,
) -> tuple[SolverResult, dict[str, Any]]:
    """Assign instances to labels and learn the metric, on Dask workers or a device.

    Parameters
    ----------
    bags : Bags
        The bags.
    candidates : Candidates
        Their label sets.
    center : bool
        Whether features are centred.
    n_components : int or None
        Number of principal directions to keep; None for all.
    ridge : float
        Added to the squared singular values.
    init : {"bag-means", "random"}
        The first start; all others are random assignments.
    n_init : int
        Number of starts.
    rng : RandomState
        Random generator for random starts.
    steps : callable
        Returns an iterable with one item per allowed iteration; called for each start.
    checkpoint : Checkpoint, default=None
        File to save intermediate results in, and to resume from.

    Returns
    -------
    SolverResult
        ``solution`` is (assigned labels,).
    dict
        Components, mean, centroids and sizes of the categories, as arrays.
    """
    if bags.n_instances <= bags.n_features or bags.n_features > LARGEST_SHARE * bags.n_instances:
        raise InputError(
            f"{bags.n_instances} instances of {bags.n_features} features are a small table, with "
            "too few instances for a cluster or a device: fit them in this process."
        )

    def learn(parts: Parts) -> tuple[SolverResult, dict[str, Any]]:
        mean = np.zeros(bags.n_features)
        if center:
            mean = to_numpy(parts.total("sums")) / bags.n_instances
        to_columns = _span(parts, mean, n_components, ridge)
        result = best_of_starts(
            PlacedRows(parts), init=init, n_init=n_init, rng=deepcopy(rng), steps=steps,
            checkpoint=checkpoint,
        )  # fmt: skip
        parts.do("take_kept")
        sums, counts = parts.total("label_sums")
        right = (sums / (counts[:, None] + (counts == 0)[:, None]) ** 0.5).T  # U_a'J
        if ridge == 0 and float(counts.sum()) == bags.n_instances:
            L = to_columns(right)
        else:
            L = _metric_map(parts, to_columns, right, ridge)
        centroids = parts.total("feature_sums") / (counts + (counts == 0))[:, None]
        assigned = np.concatenate(parts.each("assignments"))
        dtype = np.dtype(str(bags.dtype).removeprefix("torch."))
        state = {
            "components_": as_numpy(L.T, dtype),
            "mean_": mean.astype(dtype),
            "centroids_": as_numpy(centroids, dtype),
            "category_sizes_": as_numpy(counts, np.int64),
            "assignments_": assigned,
        }
        return replace(result, solution=(assigned,)), state

    with place(bags, MIMLCAPart, candidates.as_sets(), one_each=candidates.one_each) as parts:
        return learn(parts)


def _span(
    parts: Parts, mean: Array, n_components: int | None, ridge: float
) -> Callable[[Any], Any]:
    """Compute U on the parts; return the function that multiplies T with coefficients of U."""
    G = parts.total("gram", mean)
    if n_components is not None or ridge > 0:
        values, vectors = arrays.eigh(G)
        values, vectors = to_numpy(values)[::-1], to_numpy(vectors)[:, ::-1]
        real = values > RANK_TOLERANCE * values[0]
        if n_components is not None:
            real[n_components:] = False
        matrix = like(vectors[:, real] / np.sqrt(values[real] + ridge), G)
        parts.do("project", mean, matrix)
        return lambda B: matrix @ B
    scale = G.diagonal() ** 0.5
    # Constant columns stay zero.
    scale = scale + like(scale <= RANK_TOLERANCE * scale.max(), scale) * (1.0 - scale)
    G /= scale
    G /= scale[:, None]
    factor, rcond = arrays.cholesky(G)
    if rcond >= SMALLEST_RCOND:
        parts.do("whiten", mean, scale, factor)
        return lambda B: solve_upper(factor, B) / scale[:, None]
    matrix = like(shortest_basis(to_numpy(G), to_numpy(scale)), G)
    parts.do("project", mean, matrix)
    factor, _ = arrays.cholesky(parts.total("gram_of_basis"))  # a second pass makes U orthonormal
    parts.do("turn", factor)
    return lambda B: matrix @ solve_upper(factor, B)


def _metric_map(parts: Parts, to_columns: Callable[[Any], Any], right: Any, ridge: float) -> Any:
    """Compute L = T (U_a'U_a)^-1 right, if rows are left out or there is a ridge."""
    if ridge > 0:
        G = parts.total("gram_of", True)
        T = to_columns(identity(G.shape[0], G))
        G = G + ridge * (T.T @ T)
    else:
        lost = parts.total("gram_of", False)
        G = identity(lost.shape[0], lost) - lost
    factor, rcond = arrays.cholesky(G)
    if rcond >= SMALLEST_LEFT:
        return to_columns(solve_upper(factor, solve_upper(factor, right, transposed=True)))
    return shortest_map(
        lambda B: to_numpy(to_columns(like(B, G))), to_numpy(G), to_numpy(right), SMALLEST_LEFT
    )
