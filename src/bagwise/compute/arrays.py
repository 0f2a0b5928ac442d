"""Array operations with one interface for numpy arrays and tensors, and symmetric matrices."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import linalg, sparse, special

from bagwise import loops
from bagwise._common.extras import import_extra
from bagwise._common.tables import StreamedTable, is_tensor
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.compute.mapped import empty_beside
from bagwise.loops.threads import SMALL, even_bounds, run_blocks

BLOCK = 2**24  # values converted at once
STAGED = 2**25  # bytes above which a tensor is copied in stages
NEAR = 1e-6  # relative distance from the largest entry at which entries count as equal


class _Torch:
    """The torch package, imported on first use."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # read by tools that inspect modules, such as doctest
            raise AttributeError(name)
        return getattr(import_extra("torch", extra="torch"), name)


torch = _Torch()


def to_numpy(array: Any) -> Any:
    """Convert a tensor to a numpy array; return anything else unchanged."""
    if isinstance(array, np.ndarray) or not is_tensor(array):
        return array
    array = array.detach()
    is_large = array.is_cuda and array.numel() * array.element_size() > STAGED
    return (_copied_in_stages(array) if is_large else array.cpu()).numpy()


def _copied_in_stages(tensor: Any) -> Any:
    """Copy a large tensor from a GPU through page-locked memory, which is several times faster.

    While one block is transferred, all cores copy the previous one.
    """
    out = torch.empty(tensor.shape, dtype=tensor.dtype)
    source, target = tensor.contiguous().view(-1), out.view(-1)
    size = STAGED // 2 // tensor.element_size()
    stages = [torch.empty(size, dtype=tensor.dtype, pin_memory=True) for _ in range(2)]
    arrived = [torch.cuda.Event() for _ in stages]
    starts = list(range(0, len(source), size))
    for i, start in enumerate([*starts, None]):
        if start is not None:
            block = source[start : start + size]
            stages[i % 2][: len(block)].copy_(block, non_blocking=True)
            arrived[i % 2].record()
        if i > 0:
            block = target[starts[i - 1] : starts[i - 1] + size]
            arrived[(i - 1) % 2].synchronize()
            block.copy_(stages[(i - 1) % 2][: len(block)])
    return out


def like(array: Any, other: Any) -> Any:
    """Convert an array to the kind, precision and device of another one."""
    if is_tensor(other):
        return torch.as_tensor(array, dtype=other.dtype, device=other.device)
    return np.asarray(array, dtype=other.dtype)


def as_numpy(array: Any, dtype: Any) -> Array:
    """Convert to a contiguous numpy array of a given type; a tensor is cast on its device."""
    if is_tensor(array):
        array = to_numpy(array.to(getattr(torch, np.dtype(dtype).name)).contiguous())
    return np.ascontiguousarray(array, dtype)


def beside(array: Array, other: Any) -> Any:
    """Move a numpy array to the device of another one; it is writable and keeps its type."""
    if is_tensor(other):
        return torch.as_tensor(array, device=other.device)
    return np.require(array, requirements="W")


def product(X: Any, W: Any) -> Any:
    """X W' as a dense array, on the device of X.

    Parameters
    ----------
    X : ndarray, CSR or tensor of shape (n_instances, n_features)
        The instances.
    W : ndarray or tensor of shape (n_columns, n_features)
        The weight vector of each column.

    Returns
    -------
    ndarray or tensor of shape (n_instances, n_columns)
    """
    return X @ (X.new_tensor(W) if is_tensor(X) and not is_tensor(W) else W).T


def linear_scores(X: Any, theta: Floats) -> Any:
    """X W' + b in float64, on the device of X, for theta = [W b]."""
    W, b = theta[:, :-1], theta[:, -1]
    if not isinstance(X, np.ndarray) and is_tensor(X):
        scores = float64(product(X, like(W, X)))
        return scores + like(b, scores)
    return np.asarray(X @ W.T.astype(X.dtype), np.float64) + b


def linear_gradient(X: Any, residual: Any) -> Floats:
    """The derivative in theta = [W b] of a function of `linear_scores`.

    Parameters
    ----------
    X : ndarray, CSR or tensor of shape (n_instances, n_features)
        The instances.
    residual : ndarray or tensor of shape (n_instances, n_columns)
        The derivative of the function in the scores.

    Returns
    -------
    ndarray of shape (n_columns, n_features + 1)
    """
    by_bias = residual.sum(axis=0)
    if not isinstance(X, np.ndarray) and is_tensor(X):
        by_weight, by_bias = to_numpy(product(X.T, like(residual, X).T)), to_numpy(by_bias)
    else:
        by_weight = X.T @ residual.astype(X.dtype)
    return np.column_stack([by_weight.T, by_bias])


def gaussian(X: Any, centres: Any, gamma: float) -> Any:
    """exp(-gamma |x - c|^2) for each row and each centre, on the device of X.

    Parameters
    ----------
    X : ndarray, CSR or tensor of shape (n_instances, n_features)
        The instances, in double precision: distances are differences of squares.
    centres : ndarray or CSR of shape (n_centres, n_features)
        The centres.
    gamma : float
        The kernel coefficient.

    Returns
    -------
    ndarray or tensor of shape (n_instances, n_centres)
    """
    if not is_tensor(X):
        from sklearn.metrics.pairwise import rbf_kernel

        return rbf_kernel(X, centres, gamma=gamma)
    centres = like(centres, X)
    squares = (X**2).sum(dim=1)[:, None] + (centres**2).sum(dim=1)
    return (-gamma * (squares - 2 * X @ centres.T).clip(min=0)).exp()


def column_sums(X: Any, weights: Floats | None = None) -> Any:
    """Sum of the rows in float64; the table is converted block by block.

    Parameters
    ----------
    X : ndarray, CSR, tensor or StreamedTable of shape (n_instances, n_features)
        The instances.
    weights : ndarray of shape (n_instances,), default=None
        Weights of the rows; 1 by default.

    Returns
    -------
    ndarray or tensor of float64 of shape (n_features,)
    """
    if weights is None and not isinstance(X, StreamedTable):
        if is_tensor(X):
            return X.sum(dim=0, dtype=torch.float64)
        return np.asarray(X.sum(axis=0, dtype=np.float64)).ravel()
    step = max(1, BLOCK // X.shape[1])
    blocks = [slice(start, start + step) for start in range(0, X.shape[0], step)]
    if weights is None:
        return sum(X[rows].sum(axis=0, dtype=np.float64) for rows in blocks)
    if is_tensor(X):
        return sum(float64(like(weights[rows], X) @ X[rows]) for rows in blocks)
    return sum(weights[rows] @ X[rows] for rows in blocks)


def extremes(table: Any) -> tuple[float, float]:
    """Smallest and largest value; NaN if any value is NaN."""
    values = table.data if sparse.issparse(table) else table
    if 0 in values.shape:
        return 0.0, 0.0
    if is_tensor(values):
        low, high = values.aminmax()
        return float(low), float(high)
    if values.ndim == 2 and values.flags.f_contiguous:
        values = values.T
    if values.size <= SMALL:
        return float(values.min()), float(values.max())
    step = max(1, BLOCK // max(1, values[0].size))

    def work(first: int, last: int) -> tuple[Any, Any]:
        low, high = np.inf, -np.inf
        for start in range(first, last, step):
            block = values[start : min(start + step, last)]
            low, high = np.minimum(low, block.min()), np.maximum(high, block.max())  # keep NaN
        return low, high

    lows, highs = zip(*run_blocks(work, even_bounds(len(values), values.size)), strict=True)
    return float(np.min(lows)), float(np.max(highs))


def float64(array: Any) -> Any:
    """The array in double precision; not copied if it already is."""
    return array.double() if is_tensor(array) else array.astype(np.float64, copy=False)


def tanh(array: Any) -> Any:
    """Hyperbolic tangent of each value."""
    return array.tanh() if is_tensor(array) else np.tanh(array)


def relu(array: Any) -> Any:
    """The positive part of each value; torch's own has a faster gradient than a limit."""
    return array.relu() if is_tensor(array) else array.clip(min=0)


def dense(table: Any) -> Any:
    """Convert a CSR to a dense array; return anything else unchanged."""
    return table.toarray() if sparse.issparse(table) else table


def stacked(tables: list[Any]) -> Any:
    """Concatenate the rows of arrays, or of CSR tables."""
    if len(tables) == 1:
        return tables[0]
    in_csr = sparse.issparse(tables[0])
    return sparse.vstack(tables, format="csr") if in_csr else np.concatenate(tables)


def log_softmax(scores: Any) -> Any:
    """Logarithm of the softmax of each row."""
    return scores.log_softmax(dim=1) if is_tensor(scores) else special.log_softmax(scores, axis=1)


def empty(X: Any, shape: tuple[int, ...]) -> Any:
    """An uninitialised array of the type of X, on its device, or in a file if X is in a file."""
    return X.new_empty(shape) if is_tensor(X) else empty_beside(X, shape, X.dtype)


def zeros(X: Any, shape: tuple[int, ...]) -> Any:
    """An array of zeros of the type of X, on its device."""
    return X.new_zeros(shape) if is_tensor(X) else np.zeros(shape, X.dtype)


def centred_blocks(
    X: Any, mean: Floats | None = None, *, double: bool = False
) -> Iterator[tuple[slice, Any]]:
    """Blocks of centred rows, dense.

    Parameters
    ----------
    X : ndarray, CSR or tensor of shape (n_rows, n_columns)
        The table.
    mean : ndarray of shape (n_columns,), default=None
        Subtracted from each row; nothing by default.
    double : bool, default=False
        Whether blocks are float64; of the type of X by default.

    Yields
    ------
    rows : slice
    block : ndarray or tensor
    """
    size = max(256, BLOCK // max(X.shape[1], 1))
    for start in range(0, X.shape[0], size):
        rows = slice(start, min(start + size, X.shape[0]))
        block = X[rows].toarray() if sparse.issparse(X) else X[rows]
        block = float64(block) if double else block
        block = block if is_tensor(block) else np.ascontiguousarray(block)
        yield rows, block if mean is None or not mean.any() else block - like(mean, block)


def upper_gram(X: Any, mean: Floats | None = None, *, double: bool = True) -> Any:
    """Upper triangle of X'X for centred rows, on a device all of it; sums are in float64.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_columns)
        The table.
    mean : ndarray of shape (n_columns,)
        Subtracted from each row.
    double : bool, default=True
        Whether products are in float64 as well, or in the type of X.

    Returns
    -------
    ndarray of shape (n_columns, n_columns)
        In Fortran order; zeros below the diagonal.
    """
    double = double or is_tensor(X)
    total = zero_gram(X, np.float64)
    for _, block in centred_blocks(X, mean, double=double):
        part = total if double else zero_gram(X, X.dtype)
        add_gram(part, block)
        if not double:
            total += part
    return total


def zero_gram(X: Any, dtype: Any) -> Any:
    """Zeros to which `add_gram` adds: of a given type, on a device in double precision."""
    d = X.shape[1]
    return float64(zeros(X, (d, d))) if is_tensor(X) else np.zeros((d, d), dtype, order="F")


def add_gram(total: Any, block: Any) -> None:
    """Add the products of the columns of a block in place: the upper triangle, on a device all."""
    if is_tensor(total):
        block = like(block, total)
        total.addmm_(block.T, block)
    else:
        add_product(total, block)


def weighted_sums(rows: Any, codes: Ints, places: Ints, weights: Floats, n_codes: int) -> Any:
    """Weighted sums of rows by code, in the precision and on the device of the rows.

    Parameters
    ----------
    rows : ndarray, CSR or tensor of shape (n_rows, n_columns)
        The rows.
    codes, places : ndarray of int64 of shape (n_terms,)
        Each term adds the row at its place to the sum of its code.
    weights : ndarray of shape (n_terms,)
        The weight of each term.
    n_codes : int
        Number of codes.

    Returns
    -------
    ndarray or tensor of shape (n_codes, n_columns)
    """
    shape = n_codes, rows.shape[0]
    if is_tensor(rows):
        index = beside(np.stack([codes, places]), rows)
        weights = like(weights, rows)
        return torch.sparse_coo_tensor(index, weights, shape, check_invariants=False) @ rows
    sums = sparse.csr_array((weights.astype(rows.dtype), (codes, places)), shape) @ rows
    return sums.toarray() if sparse.issparse(sums) else np.asarray(sums)


def distances_to_candidates(
    points: Any, centres: Any, candidates: Any, stale: Bools, out: Floats
) -> None:
    """Squared distances of the rows of each bag to the centres of its candidate labels.

    Parameters
    ----------
    points : ndarray or tensor of shape (n_rows, n_features)
        The rows.
    centres : ndarray or tensor of shape (n_labels, n_features)
        The centre of each label.
    candidates : Candidates
        The candidate labels of each bag.
    stale : ndarray of bool of shape (n_labels,)
        The labels whose distances are computed.
    out : ndarray of float64 of shape (n_costs,)
        The distances, written in place.
    """
    if not is_tensor(points):
        loops.assignment.distances_to_candidates(points, centres, candidates, stale, out)
        return
    row, label = candidates.pairs
    pairs = np.flatnonzero(stale[label])
    row, label = (beside(index[pairs], points) for index in (row, label))
    found, step = points.new_empty(len(pairs)), max(1, BLOCK // max(1, points.shape[1]))
    for start in range(0, len(pairs), step):
        some = slice(start, start + step)
        apart = points[row[some]] - centres[label[some]]
        found[some] = (apart * apart).sum(dim=1)
    out[pairs] = to_numpy(float64(found))


def complement(matrix: Any) -> Any:
    """The identity minus a square matrix, in the memory of an array."""
    if is_tensor(matrix):
        return matrix.new_ones(len(matrix)).diag() - matrix
    np.negative(matrix, out=matrix)
    matrix.flat[:: len(matrix) + 1] += 1
    return matrix


def eigh(matrix: Any) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors of a symmetric matrix, on its device.

    Parameters
    ----------
    matrix : ndarray or tensor of shape (n, n)
        The matrix; the upper triangle of an array is read.

    Returns
    -------
    values, vectors
    """
    if is_tensor(matrix):
        return tuple(torch.linalg.eigh(matrix))
    return linalg.eigh(matrix, lower=False, driver="evd", check_finite=False)


def cholesky(matrix: Any) -> tuple[Any, float]:
    """Upper triangular R with R'R = matrix, which may be overwritten, and its condition.

    Parameters
    ----------
    matrix : ndarray or tensor of shape (n, n)
        Symmetric; the upper triangle of an array is read, zeros below are fine.

    Returns
    -------
    factor : ndarray or tensor
        R, if it exists.
    rcond : float
        The reciprocal condition number, estimated or a lower bound; 0 if there is no factor.
    """
    if is_tensor(matrix):
        factor, info = torch.linalg.cholesky_ex(matrix, upper=True)
        if info > 0:
            return factor, 0.0
        inverse = solve_upper(factor, factor.new_ones(len(factor)).diag())
        return factor, 1.0 / float((matrix**2).sum() ** 0.5 * (inverse**2).sum())
    sizes = np.abs(matrix)
    norm = (sizes.sum(axis=0) + sizes.sum(axis=1)).max(initial=0)
    try:
        factor = linalg.cholesky(matrix, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return matrix, 0.0
    (pocon,) = linalg.get_lapack_funcs(("pocon",), (factor,))
    return factor, float(pocon(factor, norm)[0])


def solve_upper(factor: Any, right: Any, *, transposed: bool = False) -> Any:
    """Solve R x = right, or R' x = right, for an upper triangular R.

    Parameters
    ----------
    factor : ndarray or tensor of shape (n, n)
        R.
    right : ndarray or tensor of shape (n, m)
        The right-hand sides.
    transposed : bool, default=False
        Whether to solve with R' instead of R.

    Returns
    -------
    ndarray or tensor
    """
    if is_tensor(factor):
        solve = torch.linalg.solve_triangular
        return solve(factor.T if transposed else factor, right, upper=not transposed)
    return linalg.solve_triangular(factor, right, trans=int(transposed), check_finite=False)


def add(results: list[Any]) -> Any:
    """Add up the results of parts: arrays, numbers, or tuples of them; None stays None.

    Parameters
    ----------
    results : list
        One result per part, all of the same kind.

    Returns
    -------
    object
        The sum, of the same kind.
    """
    first = results[0]
    if len(results) == 1 or first is None:
        return first
    if isinstance(first, tuple):
        return tuple(add(list(column)) for column in zip(*results, strict=True))
    total = first + results[1]
    for result in results[2:]:
        total += result
    return total


def eigenvectors(matrix: Array, first: int, last: int) -> tuple[Array, Array]:
    """Eigenvalues `first` to `last` in ascending order, and their eigenvectors.

    LAPACK's driver for a part of the spectrum (syevr) fails on some matrices with many equal
    eigenvalues, such as those of 0/1 token features; these are decomposed as a whole.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric; its lower triangle is read.
    first, last : int
        Indices of eigenvalues, 0 for the smallest; both are included.

    Returns
    -------
    values : ndarray of shape (last - first + 1,)
    vectors : ndarray of shape (n, last - first + 1)
        With the signs of `with_fixed_signs`.
    """
    try:
        values, vectors = linalg.eigh(matrix, subset_by_index=[first, last], check_finite=False)
    except np.linalg.LinAlgError:
        values = ()
    if len(values) != last - first + 1:
        values, vectors = np.linalg.eigh(matrix)
        values, vectors = values[first : last + 1], vectors[:, first : last + 1]
    return values, with_fixed_signs(vectors)


def with_fixed_signs(vectors: Array) -> Array:
    """Give each column the sign that makes its largest entry positive.

    The sign of a computed eigenvector is arbitrary and depends on the processor. As in
    :func:`sklearn.utils.extmath.svd_flip`, the entry of largest absolute value decides; among
    entries that differ only by rounding, the first. Eigenvectors of equal eigenvalues may still be
    any basis of their common space.

    Parameters
    ----------
    vectors : ndarray of shape (n, n_vectors)
        Columns with arbitrary sign.

    Returns
    -------
    ndarray of shape (n, n_vectors)

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.compute.arrays import with_fixed_signs
    >>> with_fixed_signs(np.array([[0.6, 0.8], [-0.8, 0.6]]))
    array([[-0.6,  0.8],
           [ 0.8,  0.6]])
    """
    if vectors.size == 0:
        return vectors
    sizes = np.abs(vectors)
    first = (sizes >= (1 - NEAR) * sizes.max(axis=0)).argmax(axis=0)
    negative = vectors[first, np.arange(vectors.shape[1])] < 0
    return vectors * np.where(negative, -1, 1).astype(vectors.dtype)


def add_product(total: Array, block: Array, factor: float = 1.0) -> None:
    """Add factor X'X to the upper triangle of a matrix, in place.

    Parameters
    ----------
    total : ndarray of shape (n_columns, n_columns)
        In Fortran order.
    block : ndarray of shape (n_rows, n_columns)
        X, in C order and of the same type.
    factor : float, default=1.0
        Factor of the product.
    """
    if len(block):
        (syrk,) = linalg.get_blas_funcs(("syrk",), (total,))
        rows = np.ascontiguousarray(block, dtype=total.dtype).T  # in Fortran order
        syrk(factor, rows, beta=1.0, c=total, overwrite_c=True)
