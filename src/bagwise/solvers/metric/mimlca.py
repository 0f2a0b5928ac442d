r"""MIMLCA: a metric and an assignment of instances to labels, learned together (Law et al. 2017).

Algorithm 1: multi-instance k-means on the rows of U, an orthonormal basis of the column space of X
(UU' = XX^+), assigns instances to labels, H. On the assigned rows, with J the columns of H at
length one, the metric is

    L = X^+ J,    M = LL'.

U = X T by Cholesky QR: X'X is accumulated over blocks of rows, and T is the inverse of its Cholesky
factor. The columns are first scaled to length one: the span does not change, and the factorisation
would break down on features of very different scales. If the factor is ill-conditioned,
eigenvectors and a second pass are used; with fewer rows than columns, the eigenvectors of XX'.

The same code runs on numpy arrays, torch tensors and the partitions of a Dask cluster. A part
stores its rows of U and their labels. X'X is sent once; each iteration sends the sums of the rows
of the labels that changed, and the centres.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import qr
from scipy.sparse.linalg import eigsh

from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.compute import Parts, arrays, is_here, place, to_numpy
from bagwise.compute.arrays import as_numpy, eigenvectors, like, solve_upper, with_fixed_signs
from bagwise.exceptions import InputError, warn_user
from bagwise.solvers.metric.multi_instance_kmeans import (
    AssignedRows,
    Candidates,
    best_of_starts,
    sums_of_labels,
)
from bagwise.solvers.result import SolverResult

# Gram matrices contain squares: relative eigenvalues below this are rounding errors.
RANK_TOLERANCE = 1e-12
# Below this rcond the Cholesky factor of X'X is inaccurate in its smallest directions.
SMALLEST_RCOND = {False: 1e-6, True: 1e-10}  # with products in float32, in float64
# Below this rcond of U_a'U_a, directions are lost with the rows left out.
SMALLEST_LEFT = {"float32": 1e-3, "float64": 1e-8}
# Products in single precision are repeated in double precision if U'U is this far from I.
LARGEST_LOSS = 1e-3

# If the rank is close to the number of rows, the rows of U are nearly orthogonal, and all
# assignments cost nearly the same. If the rank exceeds the first share of the rows, it is reduced
# to at most the second.
DEGENERATE, LARGEST_RANK = 0.9, 0.5
# k clusters lie in k - 1 dimensions: twice as many leave some for instances of no cluster.
DIRECTIONS_PER_LABEL = 2

ToColumns = Callable[[Any], Any]  # multiplies T with coefficients of the basis


class MIMLCAPart(AssignedRows):
    """A block of whole bags; U is a basis of the columns of X."""

    def sums(self) -> Any:
        """Sum of the rows of X."""
        return arrays.column_sums(self.X)

    def gram(self, mean: Array, double: bool) -> Any:
        """X'X of centred rows; the upper triangle, unless on a device."""
        return arrays.upper_gram(self.X, mean, double=double)

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

    def take(self, basis: Array) -> None:
        """Set U."""
        self.U = like(basis, self.X)

    def gram_of_basis(self) -> Any:
        """U'U."""
        return arrays.upper_gram(self.U, double=False)

    def loss(self) -> float:
        """Estimate |U'U v - v| / |v| from random v: sqrt(d) times the largest entry error."""
        probes = np.random.RandomState(0).standard_normal((self.U.shape[1], 4))
        probes = probes.astype(self.U.dtype)
        back = self.U.T @ (self.U @ probes)
        return float(np.linalg.norm(back - probes) / np.linalg.norm(probes))

    def gram_of(self, assigned: bool) -> Any:
        """U'U over the rows that have a label, or over the others."""
        chosen = (self.labels >= 0) == assigned
        blocks = arrays.centred_blocks(self.U)
        some = (block[np.flatnonzero(chosen[rows])] for rows, block in blocks)
        return sum(arrays.upper_gram(block, double=False) for block in some)

    def feature_sums(self, chosen: Ints) -> tuple[Any, Ints]:
        """Sum and number of the instances of each chosen label."""
        return sums_of_labels(self.X, self.labels, chosen, self.candidates.n_labels)


MIMLCAPart.tensor_part = MIMLCAPart


def mimlca(
    bags: Bags,
    candidates: Candidates,
    *,
    center: bool = True,
    n_components: int | None = None,
    all_directions: bool = False,
    **search: Any,
) -> SolverResult:
    """Assign instances to labels and learn the metric.

    Parameters
    ----------
    bags : Bags
        The bags: in memory or a file, on a device or on Dask workers.
    candidates : Candidates
        Their label sets.
    center : bool, default=True
        Whether features are centred; the paper does not.
    n_components : int or None
        Number of principal directions to keep; None for all, unless the rank is too high.
    all_directions : bool, default=False
        Whether all are kept also if the rank is too high, as in the paper.
    **search
        As for `best_of_starts`: init, empty, n_init, rng, max_iter, tol, track, checkpoint.

    Returns
    -------
    SolverResult
        ``solution`` is (components, mean, centroids and sizes of the categories, assigned labels).

    Warns
    -----
    UserWarning
        If the instances are nearly orthogonal.
    """
    n, d, k = bags.n_instances, bags.n_features, candidates.n_labels
    if not is_here(bags) and d > DEGENERATE * n:
        raise InputError(
            f"{n} x {d} instances are too few for a cluster or a device: fit in this process."
        )
    dtype, everything = np.dtype(str(bags.dtype).removeprefix("torch.")), np.arange(k)
    with place(bags, MIMLCAPart, candidates) as parts:
        mean = to_numpy(parts.total("sums")) / n if center else np.zeros(d)
        to_columns = _usual_space(parts, bags, candidates, mean, n_components, all_directions)
        result = best_of_starts(parts, k, **search)
        sums, counts = parts.total("label_sums", everything)
        present = np.flatnonzero(counts)
        right = (sums[present] / like(counts[present, None] ** 0.5, sums)).T  # U_a'J
        del sums
        components = np.zeros((k, d), dtype)
        if right.shape[0] > 0:
            L = _metric_map(parts, to_columns, right, (int(counts.sum()), n), dtype)
            components[present] = as_numpy(L.T, dtype)
        sums, _ = parts.total("feature_sums", everything)
        centroids = as_numpy(sums, dtype) / np.maximum(counts, 1).astype(dtype)[:, None]
    solution = components, mean.astype(dtype), centroids, counts, result.solution[0]
    return replace(result, solution=solution)


def usual_rank(candidates: Candidates) -> int:
    """Default number of directions if the rank must be reduced: two per label, with a limit.

    Parameters
    ----------
    candidates : Candidates
        The candidate labels of each instance.

    Returns
    -------
    int
    """
    n_instances = candidates.offsets[-1]
    n_present = len(np.unique(candidates.labels))
    return max(1, min(DIRECTIONS_PER_LABEL * n_present, int(LARGEST_RANK * n_instances)))


def kernel_features(gram: Array, keep: int | None = None) -> tuple[Array, Array]:
    """Features whose inner products are the kernel: its leading eigenvectors, or all.

    Parameters
    ----------
    gram : ndarray of shape (n_rows, n_rows)
        The kernel matrix.
    keep : int or None
        Number of features; all by default, as in the paper.

    Returns
    -------
    features : ndarray of shape (n_rows, n_features)
        In ascending order of their eigenvalues; without those that are rounding errors.
    back : ndarray of shape (n_rows, n_features)
        The map from kernel values to features.
    """
    n = len(gram)
    keep = n if keep is None else min(keep, n)
    double = gram.astype(np.float64, copy=False)
    if n > 1000 and 10 * keep < n:  # a few of many, by Lanczos
        values, vectors = eigsh(double, k=keep, which="LA", v0=gram.sum(axis=1))
        vectors = with_fixed_signs(vectors)
    else:
        values, vectors = eigenvectors(double, n - keep, n - 1)
    real = values > RANK_TOLERANCE * max(values[-1], 0)
    root, vectors = np.sqrt(values[real]), vectors[:, real]
    return (vectors * root).astype(gram.dtype), (vectors / root).astype(gram.dtype)


def _usual_space(
    parts: Parts,
    bags: Bags,
    candidates: Candidates,
    mean: Floats,
    n_components: int | None,
    all_directions: bool,
) -> ToColumns:
    """Compute U on the parts, of lower rank if all assignments would cost the same."""
    n = bags.n_instances
    to_columns, rank = _space(parts, bags, mean, n_components)
    if candidates.forced or rank <= DEGENERATE * n:
        return to_columns
    message = f"{n} instances span {rank} dimensions: nearly all assignments cost the same. "
    if n_components is not None or all_directions:
        cure = "Use MIMLCA(n_components=...)" if all_directions else "Lower n_components"
        warn_user(f"{message}{cure}.")
        return to_columns
    keep = usual_rank(candidates)
    warn_user(f"{message}Only the {keep} leading directions are used: set n_components.")
    return _space(parts, bags, mean, keep)[0]


def _space(parts: Parts, bags: Bags, mean: Floats, keep: int | None) -> tuple[ToColumns, int]:
    """Compute U on the parts; return the function that multiplies with T, and the rank."""
    if bags.n_instances <= bags.n_features:
        basis, matrix = _of_few_rows(arrays.dense(bags.instances), mean, keep)
        parts.do("take", basis)
        matrix = matrix.astype(basis.dtype)
        return matrix.__matmul__, matrix.shape[1]
    if keep is not None:
        G = parts.total("gram", mean, True)
        values, vectors = _leading(G, keep)
        matrix = like(vectors / np.sqrt(values), G)
        parts.do("project", mean, matrix)
        return matrix.__matmul__, matrix.shape[1]
    single = is_here(bags) and bags.dtype == np.float32
    for double in (False, True) if single else (True,):
        G, scale = _scaled(parts.total("gram", mean, double))
        factor, rcond = arrays.cholesky(G)
        if rcond < SMALLEST_RCOND[double]:
            continue
        if is_here(bags):
            factor = factor.astype(bags.dtype, order="F", copy=False)
        parts.do("whiten", mean, scale, factor)
        if double or parts.total("loss") <= LARGEST_LOSS:
            return partial(_through_factor, factor, scale), bags.n_features
    G, scale = _scaled(parts.total("gram", mean, True))
    matrix = like(shortest_basis(G, to_numpy(scale)), G)
    parts.do("project", mean, matrix)
    if matrix.shape[1] > 0:  # a second pass makes U orthonormal
        factor, rcond = arrays.cholesky(parts.total("gram_of_basis"))
        if rcond > 0:
            matrix = solve_upper(like(factor, matrix), matrix.T, transposed=True).T
            parts.do("project", mean, matrix)
    return lambda B: like(matrix, B) @ B, matrix.shape[1]


def _through_factor(factor: Any, scale: Any, B: Any) -> Any:
    return solve_upper(like(factor, B), B) / like(scale[:, None], B)


def _scaled(G: Any) -> tuple[Any, Any]:
    """X'X scaled in place to ones on its diagonal, and the scale of the columns."""
    scale = G.diagonal() ** 0.5
    # Constant columns stay zero.
    scale = scale + like(scale <= RANK_TOLERANCE * scale.max(), scale) * (1.0 - scale)
    G /= scale
    G /= scale[:, None]
    return G, scale


def shortest_basis(gram: Any, scale: Floats) -> Floats:
    """Compute T = X^+ U for (nearly) linearly dependent columns.

    This is the T of smallest norm with XT = U: it lies in the row space of X.

    Parameters
    ----------
    gram : ndarray of shape (n_columns, n_columns)
        X'X with ones on its diagonal; of an array the upper triangle is read.
    scale : ndarray of shape (n_columns,)
        Scale of the columns of X.

    Returns
    -------
    ndarray of shape (n_columns, rank)
    """
    values, vectors = _leading(gram, None)
    return _within(vectors * scale[:, None], vectors / np.sqrt(values) / scale[:, None])


def _of_few_rows(X: Array, mean: Floats, keep: int | None) -> tuple[Array, Floats]:
    """U and T from the eigenvectors of XX'; columns of equal length find the rank more reliably."""
    rows = X.astype(np.float64) - mean
    scale = np.ones(X.shape[1])
    if keep is None:
        scale = np.linalg.norm(rows, axis=0)
        scale[scale <= RANK_TOLERANCE * scale.max(initial=0)] = 1.0
        rows /= scale
    values, vectors = _leading(rows @ rows.T, keep)
    back = rows.T @ vectors
    matrix = _within(back * scale[:, None], back / scale[:, None] / values)
    return vectors.astype(X.dtype), matrix


def _within(row_space: Floats, matrix: Floats) -> Floats:
    """Project the columns of a matrix to the row space of X."""
    if row_space.shape[1] == 0:
        return matrix
    Q = qr(row_space, mode="economic", check_finite=False)[0]
    return Q @ (Q.T @ matrix)


def _leading(G: Any, keep: int | None) -> tuple[Floats, Floats]:
    """The largest eigenvalues above rounding, in decreasing order, and their eigenvectors."""
    values, vectors = (to_numpy(found) for found in arrays.eigh(G))
    values, vectors = values[::-1][:keep], vectors[:, ::-1][:, :keep]
    real = values > RANK_TOLERANCE * max(values[0], np.finfo(np.float64).tiny)
    return values[real], vectors[:, real]


def _metric_map(
    parts: Parts, to_columns: ToColumns, right: Any, counts: tuple[int, int], dtype: Any
) -> Any:
    """Compute L = T (U_a'U_a)^-1 U_a'J; U_a'U_a is I less the contribution of the other rows."""
    n_assigned, n = counts
    if n_assigned == n:
        return to_columns(right)

    def gram() -> Any:
        few = 2 * n_assigned <= n
        G = parts.total("gram_of", few)
        return G if few else arrays.complement(G)

    smallest = SMALLEST_LEFT[dtype.name]
    factor, rcond = arrays.cholesky(gram())
    if rcond >= smallest:
        factor = like(factor, right)
        return to_columns(solve_upper(factor, solve_upper(factor, right, transposed=True)))
    return _shortest_map(to_columns, gram(), right, smallest)


def _shortest_map(to_columns: ToColumns, G: Any, right: Any, smallest: float) -> Any:
    """Compute L of smallest norm, T(B + NC), if directions N are lost with the rows left out."""
    values, vectors = (to_numpy(found) for found in arrays.eigh(G))
    lost = values < smallest
    kept = vectors[:, ~lost]
    B = kept @ ((kept.T @ to_numpy(right)) / values[~lost, None])
    L, N = (to_numpy(to_columns(like(b, right))) for b in (B, vectors[:, lost]))
    return L - N @ np.linalg.lstsq(N, L, rcond=np.finfo(N.dtype).eps)[0]
