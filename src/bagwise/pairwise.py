"""Distances and kernels between bags.

Instances are processed in blocks: one matrix product per block, which is immediately reduced to one
number per pair of bags. Memory is (n_bags x n_bags) plus a block; the matrix of all pairs of
instances is never stored.
"""

import itertools
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from scipy import sparse
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.utils.extmath import row_norms, safe_sparse_dot
from sklearn.utils.sparsefuncs import mean_variance_axis

from bagwise import loops
from bagwise._common.memory import require_memory
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.exceptions import InputError, SparseInputError
from bagwise.loops import threads
from bagwise.validation import check_bags

__all__ = ["bag_distances", "bag_kernel"]

DISTANCES = ("minmin", "maxmin", "meanmin", "hausdorff")
BAG_KERNELS = ("nsk", "minimax")
NORMALIZATIONS = ("feature", "average", None)
TREE_SIZE, TREE_FEATURES = 2000, 16  # bags of this size and dimension are searched by a k-d tree
FAR = 1e6  # squared distance from 0, in variances; beyond it six of sixteen digits are lost
LARGEST_VALUE = 1e100  # largest kernel value, so that sums of products of two values stay finite

SPARSE_METRICS = ("cityblock", "cosine", "euclidean", "l1", "l2", "manhattan")
# Each pair by itself: unlike "seuclidean", for example, which depends on all rows of a block.
METRICS = (
    *("braycurtis", "canberra", "chebyshev", "correlation", "hamming", "jaccard", "minkowski"),
    *("sqeuclidean", *SPARSE_METRICS),
)
BLOCK = 2**20  # values per block: many rows per product, and it stays in the cache
COLUMNS = 2**12  # instances per block, in whole bags, so that many rows use them from the cache
MOST_SHARED = 10_000_000  # distances of instances to bags that are kept
SMALL_BAGS = 128  # total rows of small bags whose kernel is computed in one call

# Overhead per pair of instances, in units of one feature (1/4 ns). Kernels are computed twice if
# norms are needed.
KERNEL_PAIR, CALLED_PAIR = 128, 20_000
LARGEST_WORK = 3e11  # about a minute of CPU time

Metric = str | Callable[..., float]
Kernel = str | Callable[..., float]
Columns = Callable[[slice, slice, Ints], Floats]


def bag_distances(
    X: Any, Y: Any = None, *, kind: str = "minmin", metric: Metric = "euclidean"
) -> Floats:
    r"""Distances between bags, from the distances :math:`d(a, b)` between their instances.

    ========== =========================================== ================================
    kind       distance from bag A to bag B                also called
    ========== =========================================== ================================
    minmin     :math:`\min_a \min_b d(a, b)`               minimal Hausdorff
    maxmin     :math:`\max_a \min_b d(a, b)`               directed Hausdorff
    meanmin    :math:`\mathrm{mean}_a \min_b d(a, b)`      directed average
    hausdorff  larger of maxmin(A, B) and maxmin(B, A)     maximal Hausdorff
    ========== =========================================== ================================

    Parameters
    ----------
    X : Bags or anything accepted as bags
        The bags A.
    Y : Bags or anything accepted as bags, default=None
        The bags B; X itself by default.
    kind : {"minmin", "maxmin", "meanmin", "hausdorff"}, default="minmin"
        The distance between bags.
    metric : str or callable, default="euclidean"
        The distance between instances: "euclidean", or any metric of
        :func:`sklearn.metrics.pairwise_distances`, or a function of two vectors such as a metric
        learner's ``get_metric()``.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)

    Notes
    -----
    The Euclidean distance costs one product of the instance tables, O(n m d), and memory for one
    block of it. The distance of every pair that may be the nearest up to rounding is recomputed
    from differences, so that close pairs lose no digits, even in single precision. (Sparse
    instances are not centred, and only the nearest pair according to the product is recomputed.)

    Examples
    --------
    >>> from bagwise.pairwise import bag_distances
    >>> bags = [[[0.0], [1.0]], [[3.0]]]
    >>> bag_distances(bags)
    array([[0., 2.],
           [2., 0.]])
    >>> bag_distances(bags, kind="maxmin")
    array([[0., 3.],
           [2., 0.]])
    """
    _check_choice(kind, "kind", DISTANCES)
    return distances_between(*_two_sets(X, Y), kind=kind, metric=metric)


def distances_between(
    A: Bags, B: Bags | None = None, *, kind: str, metric: Metric = "euclidean"
) -> Floats:
    """Distances between validated bags, as in `bag_distances`.

    Parameters
    ----------
    A : Bags
        The bags A.
    B : Bags, default=None
        The bags B, with the same features; A by default.
    kind, metric
        As in `bag_distances`.

    Returns
    -------
    ndarray of shape (n_bags_A, n_bags_B)
    """
    with_itself, B = B is None, A if B is None else B
    _check_metric(metric, A, B)
    if kind == "hausdorff":
        there = distances_between(A, B, kind="maxmin", metric=metric)
        back = there if with_itself else distances_between(B, A, kind="maxmin", metric=metric)
        return np.maximum(there, back.T)
    gather = {"minmin": np.minimum, "maxmin": np.maximum, "meanmin": np.add}[kind]
    symmetric = with_itself and kind == "minmin"
    if metric == "euclidean" and A._shared and A._shared is B._shared:
        out = _selected(A, B, gather)
    elif metric == "euclidean":
        out = _euclidean(A, B, gather, symmetric=symmetric)
    else:
        out = _over_pairs(A, B, _nearest(A, B, metric), gather, symmetric=symmetric)
    return out / A.sizes[:, None] if kind == "meanmin" else out


def with_shared_distances(bags: Bags) -> Bags:
    """Bags, the Euclidean distances between selections of which are computed once.

    The distance of each instance to each bag determines them. It is computed when it is first
    needed, and kept until ``_shared`` is cleared.

    Parameters
    ----------
    bags : Bags
        Validated bags.

    Returns
    -------
    Bags
        The same bags. Many bags share nothing.
    """
    root = bags.ordered_by(np.arange(bags.n_instances))
    root._shared = {"bags": root} if len(bags) * bags.n_instances <= MOST_SHARED else {}
    return root


def _selected(A: Bags, B: Bags, gather: np.ufunc) -> Floats:
    """Distances between selections of shared bags; those of A may be single instances."""
    shared, origin = A._shared, cast(Any, B._origin)
    root = shared["bags"]
    if "nearest" not in shared:
        shared["nearest"] = _euclidean(alone(root.instances), root, np.minimum, symmetric=False)
    columns = np.searchsorted(root.offsets, origin[0][origin[1]], side="right") - 1
    return gather.reduceat(shared["nearest"][np.ix_(A.input_rows, columns)], A.offsets[:-1])


def alone(rows: Any) -> Bags:
    """Each row of a table as a bag.

    Parameters
    ----------
    rows : ndarray or CSR
        The table.

    Returns
    -------
    Bags
    """
    return Bags(rows, np.arange(rows.shape[0] + 1))


def bag_kernel(
    X: Any,
    Y: Any = None,
    *,
    kind: str = "nsk",
    kernel: Kernel = "rbf",
    gamma: float | None = None,
    degree: float = 3,
    coef0: float = 1.0,
    normalization: str | None = "feature",
) -> Floats:
    r"""Kernels between bags.

    The normalised set kernel (NSK) sums the kernel over all pairs of instances,
    :math:`K(A, B) = \sum_{a \in A} \sum_{b \in B} k(a, b)`; the minimax kernel applies `kernel`
    to the vector of the smallest and largest values of each feature in the bag [1]_.

    Parameters
    ----------
    X : Bags or anything accepted as bags
        The bags A.
    Y : Bags or anything accepted as bags, default=None
        The bags B; X itself by default.
    kind : {"nsk", "minimax"}, default="nsk"
        The kernel between bags.
    kernel : str or callable, default="rbf"
        The instance kernel: a name of :func:`sklearn.metrics.pairwise.pairwise_kernels` ("rbf",
        "linear", "poly", "chi2", ...) or a function of two vectors.
    gamma, degree, coef0 : float
        Parameters of the kernel, as in scikit-learn.
    normalization : {"feature", "average"} or None, default="feature"
        For NSK: divide by :math:`\sqrt{K(A, A) K(B, B)}`, by :math:`|A| |B|`, or by 1.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)

    References
    ----------
    .. [1] Gärtner, Flach, Kowalczyk, Smola. Multi-instance kernels. ICML 2002.

    Examples
    --------
    >>> from bagwise.pairwise import bag_kernel
    >>> bags = [[[1.0], [2.0]], [[3.0]]]
    >>> bag_kernel(bags, kernel="linear", normalization=None)
    array([[9., 9.],
           [9., 9.]])
    """
    _check_choice(kind, "kind", BAG_KERNELS)
    _check_choice(normalization, "normalization", NORMALIZATIONS)
    if not callable(kernel):
        _check_choice(kernel, "kernel", tuple(sorted(PAIRWISE_KERNEL_FUNCTIONS)))
    options: dict[str, Any] = {"kind": kind, "kernel": kernel, "normalization": normalization}
    options |= {"gamma": gamma, "degree": degree, "coef0": coef0}
    return kernel_between(*_two_sets(X, Y), **options)


def kernel_between(
    A: Bags,
    B: Bags | None = None,
    *,
    kernel: Kernel,
    normalization: str | None,
    kind: str = "nsk",
    **params: Any,
) -> Floats:
    """Kernel between validated bags, as in `bag_kernel`.

    Parameters
    ----------
    A : Bags
        The bags A.
    B : Bags, default=None
        The bags B, with the same features; A by default.
    kernel, normalization, kind
        As in `bag_kernel`.
    **params : dict
        `gamma`, `degree` and `coef0`.

    Returns
    -------
    ndarray of shape (n_bags_A, n_bags_B)
    """
    with_itself, B = B is None, A if B is None else B
    if kind == "minimax":
        left, right = minimax_statistics(A), minimax_statistics(B)
        return instance_kernel(left, right, kernel, params)
    if kernel == "linear":
        out = _bag_sums(A) @ _bag_sums(B).T
    else:
        sums = _kernel_sums(A, B, kernel, params)
        out = _over_pairs(A, B, sums, np.add, symmetric=with_itself)
    if normalization == "feature" and with_itself:
        left = right = _root_or_one(np.diagonal(out))
    else:
        options = {"kernel": kernel, "normalization": normalization, **params}
        left = set_kernel_norms(A, **options)
        right = left if with_itself else set_kernel_norms(B, **options)
    return out / np.outer(left, right)


def set_kernel_norms(
    bags: Bags, *, kernel: Kernel, normalization: str | None, **params: Any
) -> Floats:
    """Norm by which NSK divides each bag.

    Parameters
    ----------
    bags : Bags
        The bags.
    kernel : str or callable
        The instance kernel, as in `bag_kernel`.
    normalization : {"feature", "average"} or None
        The norm in feature space, the number of instances, or 1.
    **params : dict
        `gamma`, `degree` and `coef0` of the kernel.

    Returns
    -------
    ndarray of shape (n_bags,)
        All positive: a norm of zero is replaced by 1.
    """
    if normalization is None:
        return np.ones(len(bags))
    if normalization == "average":
        return bags.sizes.astype(np.float64)
    if kernel == "linear":
        squared = row_norms(_bag_sums(bags), squared=True)
    else:
        squared = _kernel_totals(bags, kernel, params)
    return _root_or_one(squared)


def _kernel_totals(bags: Bags, kernel: Kernel, params: dict[str, Any]) -> Floats:
    """Sum of the kernel over all pairs of instances within each bag.

    Several small bags share one call, because the overhead of a call of scikit-learn's kernels
    equals thousands of values. A callable kernel is called only for pairs within a bag.
    """
    totals = np.empty(len(bags))
    bounds = np.arange(len(bags) + 1)
    if not callable(kernel):
        bounds = threads.block_bounds(bags.offsets, 1 + bags.n_instances // SMALL_BAGS)
    for first, last in itertools.pairwise(bounds.tolist()):
        some = bags[first:last]
        sums = _kernel_sums(some, some, kernel, params)
        totals[first:last] = np.diagonal(_over_pairs(some, some, sums, np.add, symmetric=True))
    return totals


def _root_or_one(squared: Floats) -> Floats:
    return np.sqrt(np.where(squared > 0, squared, 1.0))


def kernel_width(gamma: str | float, bags: Bags, weights: Floats | None = None) -> float:
    """Width of a kernel between instances, from scikit-learn's names "scale" and "auto".

    Parameters
    ----------
    gamma : {"scale", "auto"} or float
        "scale" is ``1 / (n_features * variance of the instances)``, "auto" ``1 / n_features``.
    bags : Bags
        The training bags.
    weights : ndarray of shape (n_bags,), default=None
        A bag of weight 2 counts twice.

    Returns
    -------
    float

    Examples
    --------
    >>> from bagwise import Bags
    >>> from bagwise.pairwise import kernel_width
    >>> kernel_width("scale", Bags.from_arrays([[[0.0], [2.0]]]))
    1.0
    """
    if not isinstance(gamma, str):
        return float(gamma)
    if gamma == "auto":
        return 1.0 / bags.n_features
    variance = _variance(bags.instances, None if weights is None else weights[bags.bag_index])
    return 1.0 / (bags.n_features * variance) if variance > 0 else 1.0


def _variance(instances: Any, weights: Floats | None) -> float:
    """Variance of all values of a table, with weighted rows."""
    if sparse.issparse(instances):
        means, variances = mean_variance_axis(instances, axis=0, weights=weights)
    elif weights is None:
        return float(instances.var())
    else:
        means = np.average(instances, axis=0, weights=weights)
        variances = np.average((instances - means) ** 2, axis=0, weights=weights)
    return float(variances.mean() + means.var())


def minimax_statistics(bags: Bags) -> Array:
    """Smallest and largest value of each feature in each bag.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    ndarray of shape (n_bags, 2 * n_features)

    Examples
    --------
    >>> from bagwise import Bags
    >>> from bagwise.pairwise import minimax_statistics
    >>> minimax_statistics(Bags.from_arrays([[[1.0, 5.0], [2.0, 4.0]]]))
    array([[1., 4., 2., 5.]])
    """
    if bags.is_sparse:
        rows = [sparse.hstack([bag.min(axis=0), bag.max(axis=0)]).toarray() for bag in bags]
        return np.vstack(rows)
    values, offsets, segments = bags.instances, bags.offsets, loops.segments
    return np.hstack([segments.minimum(values, offsets), segments.maximum(values, offsets)])


def _bag_sums(bags: Bags) -> Floats:
    if not bags.is_sparse:
        return loops.segments.sum(bags.instances, bags.offsets).astype(np.float64)
    n = bags.n_instances
    member = sparse.csr_array((np.ones(n), np.arange(n), bags.offsets), shape=(len(bags), n))
    return (member @ bags.instances).toarray()


def _two_sets(X: Any, Y: Any) -> tuple[Bags, Bags | None]:
    A = check_bags(None, X, reset=True)
    if Y is None:
        return A, None
    B = check_bags(None, Y, reset=True)
    if A.n_features != B.n_features:
        raise InputError(f"{A.n_features} and {B.n_features} features: give the same columns.")
    return A, B


def _over_pairs(
    A: Bags, B: Bags, reduce_columns: Columns, gather: np.ufunc, *, symmetric: bool
) -> Floats:
    """Compute one number per pair of bags, from blocks of rows of A and of bags of B.

    ``reduce_columns(rows, columns, ends)`` returns one number for each of these rows of A and each
    bag of these rows of B, which begin and end at `ends`; `gather` reduces over the rows of a bag.
    If the result is symmetric, a block is compared only with its own first bag and later ones.
    """
    shape = len(A), len(B)
    require_memory(
        8.0 * np.prod(shape),
        purpose=f"the matrix of {shape[0]:,} x {shape[1]:,} bags",
        remedy="use fewer bags at a time",
    )
    out, offsets = np.empty(shape), A.offsets
    spans = threads.block_bounds(B.offsets, -(-B.n_instances // COLUMNS))
    n_rows = max(1, BLOCK // int(np.diff(B.offsets[spans]).max()))

    def work(first: int, last: int) -> None:
        for start in range(offsets[first], offsets[last], n_rows):
            stop = min(start + n_rows, offsets[last])
            low, high = np.searchsorted(offsets, [start, stop - 1], side="right") - 1
            bounds = np.unique(np.maximum(spans, low if symmetric else 0))
            ends = [B.offsets[a : b + 1] for a, b in itertools.pairwise(bounds)]
            parts = [reduce_columns(slice(start, stop), slice(e[0], e[-1]), e - e[0]) for e in ends]
            rows = np.hstack(parts)
            begins = np.maximum(offsets[low : high + 1] - start, 0)
            block = gather.reduceat(rows, begins, axis=0)
            here = out[low : high + 1, bounds[0] :]
            if offsets[low] < start:  # the first bag began in the previous block
                block[0] = gather(here[0], block[0])
            here[:] = block

    if A.n_instances * B.n_instances < threads.SMALL:
        work(0, shape[0])
    else:
        with threads.library_cores(1):
            n_blocks = threads.n_threads() * (4 if symmetric else 1)  # later blocks cost less
            threads.run_blocks(work, threads.block_bounds(offsets, n_blocks))
    return np.triu(out) + np.triu(out, 1).T if symmetric else out


def _euclidean(A: Bags, B: Bags, gather: np.ufunc, *, symmetric: bool) -> Floats:
    """Distances from the nearest instances; large bags of few features are searched by a k-d tree.

    All pairs of instances of two such bags would take minutes.
    """
    large = B.sizes > TREE_SIZE
    if B.n_features > TREE_FEATURES or not large.any():
        return _over_pairs(A, B, _euclidean_nearest(A, B), gather, symmetric=symmetric)
    A, B = (b.with_instances(b.instances.toarray()) if b.is_sparse else b for b in (A, B))
    out = np.empty((len(A), len(B)))
    if not large.all():
        nearest = _euclidean_nearest(A, B[~large])
        out[:, ~large] = _over_pairs(A, B[~large], nearest, gather, symmetric=False)
    for i in np.flatnonzero(large).tolist():
        out[:, i] = gather.reduceat(_nearest_by_tree(B[i], A.instances), A.offsets[:-1])
    return out


def _euclidean_nearest(A: Bags, B: Bags) -> Columns:
    X, Y = A.instances, B.instances
    if sparse.issparse(X) or sparse.issparse(Y):
        return _sparse_nearest(A, B)
    centre = Y.mean(axis=0, dtype=np.float64)  # centred values lose fewer digits by cancellation
    right = Y - centre
    squared = row_norms(right, squared=True)
    # Bound on the rounding error of a product of d terms, doubled because two values are compared.
    unit = 4 * (X.shape[1] + 4) * np.finfo(np.float64).eps

    def nearest(rows: slice, columns: slice, ends: Ints) -> Floats:
        left = X[rows] - centre
        product = left @ right[columns].T
        product *= -2
        product += squared[columns]
        slack = unit * (row_norms(left, squared=True) + squared[columns].max())
        exact = loops.set_distances.exact_nearest_in_bags
        return np.sqrt(exact(product, slack, ends, X[rows], Y[columns]))

    return nearest


def _nearest_by_tree(bag: Array, X: Array) -> Floats:
    """Distances of rows to their nearest row in a bag, summed feature by feature."""
    from scipy.spatial import cKDTree  # slow to import

    # Only distinct rows: a tree cannot split equal rows and would compare all of them.
    tree = cKDTree(np.unique(np.asarray(bag, np.float64), axis=0))
    # eps: from far away, all rows are equally near up to rounding, and need not be compared.
    nearest = tree.data[tree.query(X, eps=1e-14, workers=threads.n_threads())[1]]
    out = np.zeros(len(X))
    for k in range(X.shape[1]):
        out += np.square(X[:, k].astype(np.float64) - nearest[:, k])
    return np.sqrt(out)


def _sparse_nearest(A: Bags, B: Bags) -> Columns:
    """Sparse `_euclidean_nearest`: not centred, which fills in zeros; one candidate per bag."""
    X, Y = (sparse.csr_array(bags.instances, dtype=np.float64) for bags in (A, B))
    squared = row_norms(Y, squared=True)

    def nearest(rows: slice, columns: slice, ends: Ints) -> Floats:
        product = safe_sparse_dot(X[rows], Y[columns].T, dense_output=True)
        product *= -2
        product += squared[columns]
        spans = itertools.pairwise(ends.tolist())
        column = np.column_stack([a + product[:, a:b].argmin(axis=1) for a, b in spans])
        row = np.repeat(np.arange(rows.start, rows.stop), column.shape[1])
        difference = X[row] - Y[column.ravel() + columns.start]
        return np.sqrt(row_norms(difference, squared=True)).reshape(column.shape)

    return nearest


def _nearest(A: Bags, B: Bags, metric: Metric) -> Columns:
    X, Y = A.instances, B.instances

    def nearest(rows: slice, columns: slice, ends: Ints) -> Floats:
        distances = pairwise_distances(X[rows], Y[columns], metric=metric)
        known = np.nan_to_num(distances, copy=False, nan=np.inf, posinf=np.inf)
        return np.minimum.reduceat(known, ends[:-1], axis=1)

    return nearest


def _kernel_sums(A: Bags, B: Bags, kernel: Kernel, params: dict[str, Any]) -> Columns:
    X, Y = (for_kernel(bags.instances, kernel) for bags in (A, B))
    gamma = params.get("gamma")
    if kernel == "rbf" and isinstance(gamma, float) and gamma > 0 and _squares_fit(X, Y):
        return _gaussian_sums(X, Y, gamma)

    def sums(rows: slice, columns: slice, ends: Ints) -> Floats:
        values = instance_kernel(X[rows], Y[columns], kernel, params)
        return np.add.reduceat(values, ends[:-1], axis=1, dtype=np.float64)

    return sums


def _squares_fit(X: Any, Y: Any) -> bool:
    """Whether both tables are dense, in double precision, and their squares do not overflow."""
    dense = isinstance(X, np.ndarray) and isinstance(Y, np.ndarray)
    dense = dense and X.dtype == Y.dtype == np.float64
    return dense and bool(max(np.vdot(X, X), np.vdot(Y, Y)) < LARGEST_VALUE)


def _gaussian_sums(X: Floats, Y: Floats, gamma: float) -> Columns:
    """`_kernel_sums` of the Gaussian kernel, without scikit-learn's checks of each block."""
    X, Y = _near_zero(X, Y)
    left, right = (-gamma * row_norms(table, squared=True) for table in (X, Y))

    def sums(rows: slice, columns: slice, ends: Ints) -> Floats:
        values = (2 * gamma * X[rows]) @ Y[columns].T
        values += left[rows, None]
        values += right[columns]
        np.exp(np.minimum(values, 0.0, out=values), out=values)
        return np.add.reduceat(values, ends[:-1], axis=1)

    return sums


def instance_kernel(X: Any, Y: Any, kernel: Kernel, params: dict[str, Any]) -> Array:
    """Kernel between two tables of instances, given by its name in scikit-learn or a function.

    Parameters
    ----------
    X, Y : array-like or sparse of shape (n, n_features), (m, n_features)
        Two tables.
    kernel : str or callable
        A name of :func:`sklearn.metrics.pairwise.pairwise_kernels`, or a function of two vectors.
    params : dict
        gamma, degree, coef0; those that the kernel does not accept are ignored.

    Returns
    -------
    ndarray of shape (n, m)
    """
    X, Y = for_kernel(X, kernel), for_kernel(Y, kernel)
    given = {name: value for name, value in params.items() if value is not None}
    options = {} if callable(kernel) else {"filter_params": True, **given}
    name = getattr(kernel, "__name__", None) if callable(kernel) else repr(kernel)
    try:
        if isinstance(kernel, str) and kernel == "rbf":
            X, Y = _near_zero(X, Y)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            values = pairwise_kernels(X, Y, metric=kernel, **options)
            largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    except (TypeError, ValueError) as error:  # such as chi2 on sparse or negative values
        raise InputError(f"kernel={name} does not suit these instances: {error}") from error
    if not largest <= LARGEST_VALUE:  # also true for NaN
        raise InputError(
            f"kernel={name} reaches {largest:.3g}, and solvers need at most {LARGEST_VALUE:.0e}: "
            f"scale the features, or choose smaller parameters than {given}."
        )
    return values


def _near_zero(X: Any, Y: Any) -> tuple[Any, Any]:
    """Centre dense tables far from 0: there |x|^2 - 2xy + |y|^2 is mostly rounding error."""
    if sparse.issparse(X) or sparse.issparse(Y):
        return X, Y
    centre = np.asarray(np.mean(Y, axis=0, dtype=np.float64))
    variance = float(np.var(Y, axis=0, dtype=np.float64).sum())
    far = float(np.square(centre).sum()) > FAR * variance
    return (X - centre, Y - centre) if far else (X, Y)


def for_kernel(instances: Any, kernel: Any) -> Any:
    """Return the instances, copied if scikit-learn's kernel requires a writable array (chi2)."""
    wants_writable = kernel in ("chi2", "additive_chi2") and isinstance(instances, np.ndarray)
    return instances.copy() if wants_writable and not instances.flags.writeable else instances


def _check_metric(metric: Any, A: Bags, B: Bags) -> None:
    if callable(metric):
        return
    _check_choice(metric, "metric", METRICS)
    if (A.is_sparse or B.is_sparse) and metric not in SPARSE_METRICS:
        raise SparseInputError(
            f"metric={metric!r} needs dense instances; sparse ones work with {SPARSE_METRICS}."
        )


def kernel_takes_long(kernel: Kernel, bags: Bags) -> bool:
    """Whether the set kernel between these bags would take many minutes.

    Parameters
    ----------
    kernel : str or callable
        The instance kernel.
    bags : Bags
        The bags.

    Returns
    -------
    bool
    """
    values = bags.instances.nnz / bags.n_instances if bags.is_sparse else bags.n_features
    each = CALLED_PAIR if callable(kernel) else KERNEL_PAIR + values
    return kernel != "linear" and float(bags.n_instances) ** 2 * each > LARGEST_WORK


def _check_choice(value: Any, name: str, choices: tuple[str | None, ...]) -> None:
    if not isinstance(value, str | None) or value not in choices:
        raise InputError(f"{name} is {value!r}: expected one of {choices}.")
