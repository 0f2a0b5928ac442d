r"""MIMLCA: a metric and an assignment of instances to labels, learned together (Law et al. 2017).

Algorithm 1: multi-instance k-means on the rows of U, an orthonormal basis of the column space of X
(UU' = XX^+), assigns instances to labels, H. On the assigned rows, with J the columns of H at
length one, the metric is

    L = X^+ J,    M = LL'.

With a ridge, X^+ becomes (X'X + ridge I)^(-1) X' in both places.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from scipy import linalg, sparse

from bagwise._common.types import Array, Bools, Ints
from bagwise._common.warnings import warn_user
from bagwise.compiled.lapack import add_product
from bagwise.engines import arrays
from bagwise.solvers.metric.column_span import ColumnSpan, column_span, leading_span, norm_of_upper
from bagwise.solvers.metric.multi_instance_kmeans import Candidates

SMALLEST_RCOND = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-8}

# If the rank is close to the number of rows, the rows of U are nearly orthogonal, and all
# assignments cost nearly the same. If the rank exceeds the first share of the rows, it is reduced
# to at most the second.
DEGENERATE, LARGEST_RANK = 0.9, 0.5
# k clusters lie in k - 1 dimensions: twice as many leave some for instances of no cluster.
DIRECTIONS_PER_LABEL = 2


def instance_span(
    X: Any, candidates: Candidates, *, center: bool, n_components: int | None, ridge: float
) -> ColumnSpan:
    """Find the space in which instances are clustered.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_instances, n_features)
        The instances.
    candidates : Candidates
        The candidate labels of each instance.
    center : bool
        Whether features are centred.
    n_components : int or None
        Number of principal directions to keep; None for all, unless the rank is too high.
    ridge : float
        Added to the squared singular values.

    Returns
    -------
    ColumnSpan

    Warns
    -----
    UserWarning
        If the instances are nearly orthogonal in that space.
    """
    if n_components is not None or ridge > 0:
        span = leading_span(X, center=center, n_components=n_components, ridge=ridge)
    else:
        span = column_span(X, center=center)
    n_instances = X.shape[0]
    dimension = span.dimension
    if candidates.forced or dimension <= DEGENERATE * n_instances:
        return span
    message = (
        f"the {n_instances} instances span {dimension:.0f} dimensions: nearly every assignment of "
        "labels then costs the same. "
    )
    if n_components is not None or ridge > 0:
        warn_user(f"{message}Lower n_components or raise ridge.")
        return span
    keep = usual_rank(candidates)
    warn_user(
        f"{message}Only the {keep} leading directions are used: set n_components or ridge, or "
        "give more instances."
    )
    return leading_span(X, center=center, n_components=keep, ridge=0.0)


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


def metric_map(span: ColumnSpan, assigned: Ints, n_labels: int, *, ridge: float) -> Array:
    """Compute L = X^+ J on the assigned rows.

    X = U T^+ gives L = T (U_a'U_a)^(-1) U_a'J. U_a'U_a is the identity minus the contribution of
    the rows that were left out, so X is not read again.

    Parameters
    ----------
    span : ColumnSpan
        The space of the instances.
    assigned : ndarray of int64 of shape (n_instances,)
        The label of each instance, -1 for none.
    n_labels : int
        Number of labels.
    ridge : float
        Added to the squared singular values.

    Returns
    -------
    ndarray of shape (n_features, n_labels)
        A column of zeros for a label without instances.
    """
    inside = assigned >= 0
    present = np.unique(assigned[inside])
    L = np.zeros((len(span.mean), n_labels), dtype=span.basis.dtype, order="F")
    if span.rank > 0:
        L[:, present] = _map_of_present(span, inside, _sums_at_length_one(span, assigned), ridge)
    return L


def _map_of_present(span: ColumnSpan, inside: Bools, right: Array, ridge: float) -> Array:
    """Compute T (U_a'U_a)^(-1) right; `right` is overwritten."""
    if ridge == 0 and inside.all():
        return span.to_columns(right)
    gram = _gram_of_assigned(span, inside, ridge)
    (pocon,) = linalg.get_lapack_funcs(("pocon",), (gram,))
    norm = norm_of_upper(gram)
    with suppress(np.linalg.LinAlgError):
        factor = linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
        if pocon(factor[0], norm)[0] >= SMALLEST_RCOND[gram.dtype]:
            solved = linalg.cho_solve(factor, right, overwrite_b=True, check_finite=False)
            return span.to_columns(solved)
    gram = _gram_of_assigned(span, inside, ridge)
    return shortest_map(span.to_columns, gram, right, SMALLEST_RCOND[gram.dtype])


def shortest_map(
    to_columns: Callable[[Array], Array], gram: Array, right: Array, smallest: float
) -> Array:
    """Compute L of smallest norm, T(B + NC), if directions N are lost with the rows left out.

    Parameters
    ----------
    to_columns : callable
        Multiplies T with coefficients of the basis.
    gram : ndarray of shape (rank, rank)
        U_a'U_a; the upper triangle is read.
    right : ndarray of shape (rank, n_labels)
        U_a'J.
    smallest : float
        Eigenvalues of `gram` below this belong to lost directions.

    Returns
    -------
    ndarray of shape (n_columns, n_labels)
    """
    values, vectors = np.linalg.eigh(gram, "U")
    lost = values < smallest
    kept = vectors[:, ~lost]
    L = to_columns(kept @ ((kept.T @ right) / values[~lost, None]))
    N = to_columns(vectors[:, lost])
    return L - N @ np.linalg.lstsq(N, L, rcond=np.finfo(N.dtype).eps)[0]


def _gram_of_assigned(span: ColumnSpan, inside: Bools, ridge: float) -> Array:
    """Upper triangle of U_a'U_a; with a ridge, the system of |XTB - J|^2 + ridge |TB|^2."""
    U = span.basis
    if ridge > 0:
        T = span.to_columns(np.eye(span.rank, dtype=U.dtype))
        return _product(U, inside, 1.0) + ridge * np.triu(T.T @ T)
    if 2 * inside.sum() <= len(U):
        return _product(U, inside, 1.0)
    gram = _product(U, ~inside, -1.0)  # from the rows left out, which are fewer
    gram.flat[:: len(gram) + 1] += 1
    return gram


def _product(U: Array, chosen: Bools, factor: float) -> Array:
    """The upper triangle of U'U over chosen rows, times a factor."""
    total = np.zeros((U.shape[1], U.shape[1]), dtype=U.dtype, order="F")
    rows = np.flatnonzero(chosen)
    step = max(256, arrays.BLOCK // 4 // U.shape[1])  # small blocks, since they are copies
    for start in range(0, len(rows), step):
        block = U[rows[start : start + step]]
        add_product(total, block, factor)
    return total


def _sums_at_length_one(span: ColumnSpan, assigned: Ints) -> Array:
    """U_a'J: sum of the rows of each label, divided by the square root of their number."""
    U = span.basis
    rows = np.flatnonzero(assigned >= 0)
    _, label, sizes = np.unique(assigned[rows], return_inverse=True, return_counts=True)
    weight = (1 / np.sqrt(sizes[label])).astype(U.dtype)
    J = sparse.csr_array((weight, (label, rows)), shape=(len(sizes), len(U)))
    return np.asarray(J @ U).T
