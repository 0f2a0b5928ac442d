r"""The metrics of MildML, of Jin, Wang and Zhou, and of M-C2B.

MildML (Guillaumin et al. 2010): bags that share a label have a close pair of instances.

    min over L, b    sum_pairs w log(1 + exp(t (d_L^2 - b))) + reg/2 |L|^2

where t = 1 for two bags that share a label and -1 for two that do not, and d_L is the distance of
their two closest instances in the learned metric. Both kinds of pairs have the same total weight.
The objective is smooth except where the closest pair changes; L-BFGS starts from the principal
directions.

Jin, Wang and Zhou (2009): key instances are close to the centre of their label.

    min over A, Z, Q    sum_ic Y_ic |A'(x_Q(i,c) - z_c)|^2  /  sum_{c<c'} |A'(z_c - z_c')|^2

with A'A = I, one centre per label, and Q(i, c) the key instance of bag i for its label c. The paper
keeps the denominator above a constant; the ratio is the same problem without the scale. Each of the
three steps lowers the ratio: Q by nearest instances, A as the solution of a trace ratio problem, Z
as the minimum of the numerator at the current value of the denominator.

M-C2B (Wang, Nie, Huang 2012): the ratio of two sums of norms, minimised over a projection.
"""

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.optimize import brentq
from scipy.special import expit

from bagwise import loops
from bagwise._common.types import Bools, Floats, Ints
from bagwise.compute.arrays import eigenvectors, eigh, with_fixed_signs
from bagwise.exceptions import InputError
from bagwise.solvers.metric.multi_instance_kmeans import Candidates, cluster_means
from bagwise.solvers.result import SolverResult, lbfgs

MAX_ROUNDS = 100  # of the trace ratio, which converges quadratically: a few are enough
COINCIDE = 1e-24  # relative squared distance up to which centres coincide within rounding
# Smooths the norms in both sums, since the direction of a row of zeros is undefined. Such rows then
# add almost nothing to the objective and nothing to its gradient.
SHORTEST = 1e-9


BagPairs = tuple[Ints, Ints, Bools]


def sample_pairs(label_sets: Ints, n_pairs: int, rng: np.random.RandomState) -> BagPairs:
    """Sample as many pairs of bags with a shared label as without; all pairs if there are few.

    Parameters
    ----------
    label_sets : ndarray of shape (n_bags, n_labels)
        Label sets as zeros and ones.
    n_pairs : int
        Maximum number of pairs.
    rng : RandomState
        Random generator for the sample.

    Returns
    -------
    first, second : ndarray of int64 of shape (n_found,)
        The bags of each pair.
    share : ndarray of bool of shape (n_found,)
        Whether they share a label.
    """
    n_bags = len(label_sets)
    carried = sparse.csr_array(label_sets.astype(np.int32))
    shared = sparse.triu(carried @ carried.T, 1, format="coo")
    i, j = shared.coords
    n_all = n_bags * (n_bags - 1) // 2
    if n_all <= n_pairs:
        first, second = np.triu_indices(n_bags, 1)
        share = np.zeros((n_bags, n_bags), dtype=bool)
        share[i, j] = True
        return first.astype(np.int64), second.astype(np.int64), share[first, second]
    half = n_pairs // 2
    chosen = rng.permutation(len(i))[:half]
    i, j, keys = i[chosen], j[chosen], i.astype(np.int64) * n_bags + j
    others = np.zeros(0, dtype=np.int64)
    n_others = min(half, n_all - len(keys))
    while len(others) < n_others:
        a, b = np.sort(rng.randint(n_bags, size=(2, 2 * half)), axis=0)
        drawn = a.astype(np.int64) * n_bags + b
        drawn = drawn[(a < b) & ~np.isin(drawn, keys)]
        others = rng.permutation(np.union1d(others, drawn))
    others = others[:n_others]
    first = np.concatenate([i, others // n_bags]).astype(np.int64)
    second = np.concatenate([j, others % n_bags]).astype(np.int64)
    return first, second, np.arange(len(first)) < len(i)


def pair_loss(
    point: Floats, X: Floats, offsets: Ints, pairs: BagPairs, reg: float
) -> tuple[float, Floats]:
    """Evaluate the objective and its gradient in L and b.

    Parameters
    ----------
    point : ndarray of shape (n_components * n_features + 1,)
        The map L, and the squared distance b at which bags are as likely to share a label as not.
    X : ndarray of shape (n_instances, n_features)
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    pairs : tuple
        Pairs from `sample_pairs`.
    reg : float
        Weight of the squared norm of L.

    Returns
    -------
    float, ndarray of the shape of `point`
    """
    first, second, share = pairs
    L, b = point[:-1].reshape(-1, X.shape[1]), point[-1]
    Y = X @ L.T
    left, right = loops.set_distances.closest_instances(Y, offsets, first, second)
    difference = Y[left] - Y[right]
    sign = np.where(share, 1.0, -1.0)
    weight = np.where(share, 0.5 / max(share.sum(), 1), 0.5 / max((~share).sum(), 1))
    margin = sign * (np.einsum("ij,ij->i", difference, difference) - b)
    loss = float(weight @ np.logaddexp(0, margin) + reg / 2 * np.vdot(L, L))
    slope = weight * expit(margin) * sign  # derivative in the squared distance
    pull = np.zeros_like(Y)
    np.add.at(pull, left, slope[:, None] * difference)
    np.add.at(pull, right, -slope[:, None] * difference)
    return loss, np.append(2 * pull.T @ X + reg * L, -slope.sum())


def mildml(
    X: Floats,
    offsets: Ints,
    pairs: BagPairs,
    *,
    n_components: int,
    reg: float,
    tol: float,
    max_iter: int,
    track: Callable[[range], Iterable[int]],
) -> SolverResult:
    """Learn the linear map L.

    Parameters
    ----------
    X : ndarray of shape (n_instances, n_features)
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    pairs : tuple
        Pairs from `sample_pairs`.
    n_components : int
        Number of rows of the map.
    reg : float
        Weight of the squared norm of the map.
    tol : float
        Relative decrease of the objective at which to stop.
    max_iter : int
        Maximum number of iterations.
    track : callable
        Wraps the range of iterations, to show progress.

    Returns
    -------
    SolverResult
        ``solution`` is (map, threshold).
    """
    # Distances do not depend on the origin, and a change of unit rescales the map. Only reg has a
    # unit and must be converted.
    X, _, unit = unit_variance(X)
    reg = reg / unit**2
    start = leading_directions(X, n_components).T
    Y = X @ start.T
    left, right = loops.set_distances.closest_instances(Y, offsets, *pairs[:2])
    usual = np.mean(np.square(Y[left] - Y[right]).sum(axis=1))
    start /= np.sqrt(usual) if usual > 0 else 1.0  # the typical distance equals the threshold, 1
    objective = partial(pair_loss, X=X, offsets=offsets, pairs=pairs, reg=reg)
    curve: list[float] = []
    progress = iter(track(range(max_iter)))

    def after(intermediate_result: Any) -> None:
        curve.append(float(intermediate_result.fun))
        next(progress, None)

    options: Any = {"max_iter": max_iter, "ftol": tol, "gtol": 1e-8, "maxcor": 20}
    found = lbfgs(objective, np.append(start, 1.0), callback=after, **options)
    solution = (found.x[:-1].reshape(start.shape) / unit, found.x[-1])
    # A line search that finds no lower value counts as converged, possibly at a kink.
    return SolverResult(solution, curve, found.nit < max_iter)


def miml_metric(
    X: Floats, candidates: Candidates, *, n_components: int, tol: float, steps: Iterable[int]
) -> SolverResult:
    """Alternate between key instances, directions and centres.

    Parameters
    ----------
    X : ndarray of shape (n_instances, n_features)
        The instances.
    candidates : Candidates
        The labels of each bag; every label is in some bag, and there are at least two labels.
    n_components : int
        Number of directions.
    tol : float
        Relative decrease of the objective at which to stop.
    steps : iterable
        One item per allowed iteration.

    Returns
    -------
    SolverResult
        ``solution`` is (directions A, centres, the key row of each candidate label).
    """
    labels = candidates.labels
    # The ratio does not depend on the origin or unit of the features, but rounding errors do.
    X, origin, unit = unit_variance(X)
    scatter = np.square(X).sum()
    ridge = 1e-9 * scatter * len(labels) / X.size  # keeps the ratio positive if all is separable
    sums, weights = candidates.bag_sums(X)
    Z = sums / np.maximum(weights, 1e-300)[:, None]
    A = np.eye(X.shape[1])
    keys = _key_rows(X, Z, candidates)
    Z = cluster_means(X[keys], labels, len(Z))
    if spread(Z) <= COINCIDE * len(Z) ** 2 * scatter / len(X):
        raise InputError(
            "the instances nearest to the mean of each label are the same for all labels: "
            "give bags in which instances of the labels differ."
        )
    sizes = np.bincount(labels, minlength=len(Z)).astype(float)
    curve: list[float] = []
    converged = False
    for _ in steps:
        difference = X[keys] - Z[labels]
        within = difference.T @ difference + ridge * np.eye(X.shape[1])
        centred = Z - Z.mean(axis=0)
        A = best_directions(within, len(Z) * centred.T @ centred, n_components, A)
        means = cluster_means(X[keys], labels, len(Z))
        mapped = move_centres(means @ A, Z @ A, sizes)
        Z = means + (mapped - means @ A) @ A.T  # centres are free outside the span of A
        keys = _key_rows(X @ A, Z @ A, candidates)
        numerator = np.square(X[keys] @ A - (Z @ A)[labels]).sum() + ridge * n_components
        curve.append(float(numerator / spread(Z @ A)))
        converged = len(curve) > 1 and curve[-2] - curve[-1] <= tol * curve[-2]
        if converged:
            break
    return SolverResult((A, Z * unit + origin, keys), curve, converged)


def spread(Z: Floats) -> float:
    """Sum of the squared distances of all pairs of centres.

    Parameters
    ----------
    Z : ndarray of shape (n_labels, n_dimensions)
        The centres.

    Returns
    -------
    float
    """
    return float(len(Z) * np.square(Z - Z.mean(axis=0)).sum())


def best_directions(within: Floats, between: Floats, n: int, start: Floats) -> Floats:
    """Find the orthonormal A with the largest tr(A' between A) / tr(A' within A).

    Parameters
    ----------
    within, between : ndarray of shape (n_features, n_features)
        Symmetric; `within` positive definite.
    n : int
        Number of directions.
    start : ndarray of shape (n_features, any)
        Initial directions; if there are `n` of them, the ratio does not decrease.

    Returns
    -------
    ndarray of shape (n_features, n)
    """
    d = len(within)
    A = start
    ratio = 0.0
    for _ in range(MAX_ROUNDS):
        best = float(np.trace(A.T @ between @ A) / np.trace(A.T @ within @ A))
        if A.shape[1] == n and best <= ratio * (1 + 1e-12):
            return A
        ratio = best
        _, vectors = eigenvectors(between - ratio * within, d - n, d - 1)
        A = vectors[:, ::-1]
    return A


def move_centres(means: Floats, centres: Floats, sizes: Floats) -> Floats:
    """Find the centres closest to the means of their instances without reducing the spread.

    They minimise ``sum_c a_c |z_c - mean_c|^2`` subject to ``spread(Z) >= spread(centres)``.
    The multiplier solves one equation, ``(diag(a - m lam) + lam 11') Z = diag(a) means``.

    Parameters
    ----------
    means : ndarray of shape (n_labels, n_dimensions)
        Mean of the instances of each label.
    centres : ndarray of shape (n_labels, n_dimensions)
        The current centres.
    sizes : ndarray of shape (n_labels,)
        Number of instances of each label, all positive.

    Returns
    -------
    ndarray of shape (n_labels, n_dimensions)
    """
    target = spread(centres)
    if spread(means) >= target:
        return means
    right = sizes[:, None] * means

    def at(multiplier: float) -> Floats:
        shrunk = 1 / (sizes - len(sizes) * multiplier)
        solved = shrunk[:, None] * right
        share = multiplier / (1 + multiplier * shrunk.sum())
        return solved - share * np.outer(shrunk, solved.sum(axis=0))

    highest = _largest_multiplier(sizes) * (1 - 1e-9)
    if spread(at(highest)) < target:
        return centres  # no multiplier reaches the spread
    root = brentq(lambda at_: spread(at(at_)) - target, 0.0, highest, xtol=1e-300, maxiter=1000)
    moved = at(root)
    # Rounding may leave the spread slightly too small: scale the centres about their mean.
    middle = moved.mean(axis=0)
    return middle + (moved - middle) * max(1.0, np.sqrt(target / spread(moved)))


def _largest_multiplier(sizes: Floats) -> float:
    """The lam at which diag(a - m lam) + lam 11' stops being positive definite."""
    m, (low, high) = len(sizes), np.partition(sizes, 1)[:2] / len(sizes)
    if low == high:
        return float(low)

    def definite(multiplier: float) -> bool:
        return bool(1 + multiplier * np.sum(1 / (sizes - m * multiplier)) < 0)

    below, above = float(low), float(high)
    for _ in range(200):
        middle = (below + above) / 2
        if middle in (below, above):
            break
        below, above = (middle, above) if definite(middle) else (below, middle)
    return below


def _key_rows(X: Floats, Z: Floats, candidates: Candidates) -> Ints:
    """Find the instance of each bag nearest to the centre of each of its labels."""
    costs = candidates.distances(X, Z)
    return loops.assignment.nearest_rows(costs, candidates.offsets, candidates.label_offsets)


def unit_variance(X: Floats) -> tuple[Floats, Floats, float]:
    """Centre rows and divide them by one number, so that the mean variance of the features is 1.

    For methods that are equivariant to shifting and scaling all features, so that only rounding
    depends on origin and unit.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        The rows; not all equal.

    Returns
    -------
    rows : ndarray of shape (n_rows, n_features)
        ``(X - origin) / unit``; a new array.
    origin : ndarray of shape (n_features,)
        The mean of the rows.
    unit : float
        The square root of the mean variance of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.solvers.metric.bag_metrics import unit_variance
    >>> rows, origin, unit = unit_variance(np.array([[1e9], [3e9]]))
    >>> rows.tolist(), origin.tolist(), unit
    ([[-1.0], [1.0]], [2000000000.0], 1000000000.0)
    """
    if np.array_equal(X, np.broadcast_to(X[0], X.shape)):
        raise InputError(
            f"all {len(X)} instances are equal: nothing can be learned from their distances. Check "
            "the features, or add some that vary."
        )
    origin = X.mean(axis=0)
    rows = X - origin
    unit = float(np.sqrt(np.mean(np.square(rows))))
    rows /= unit
    return rows, origin, unit


def minimise_norm_ratio(
    A: Floats,
    B: Floats,
    *,
    n_components: int,
    orthonormal: bool,
    reg: float,
    max_iter: int,
    tol: float,
) -> SolverResult:
    r"""Find U that shortens the rows of A relative to the rows of B, with norms not squared.

    .. math:: \min_U \lambda(U) = \frac{\sum_i |a_i U| + \tau |U|_F}{\sum_j |b_j U|}

    Let :math:`N_A = \sum_i a_i a_i^\top / |a_i U|`, and :math:`N_B` alike. A stationary U with
    orthonormal columns spans eigenvectors of :math:`N_A - \lambda N_B`. So each step takes the
    eigenvectors of its smallest eigenvalues. This usually lowers the ratio, but without guarantee.
    If it does not, a majorisation step is made instead, which never raises the ratio. With
    :math:`\lambda` fixed the numerator lies below a quadratic and the denominator above a linear
    function that touch at the current U, and U becomes the polar factor of
    :math:`(\alpha I - N_A + \lambda N_B) U`, :math:`\alpha` the largest eigenvalue of
    :math:`N_A`. Without constraint (the algorithm as published) the minimum of that difference is
    :math:`\lambda N_A^{-1} N_B U`; the columns of U then become parallel, since one direction
    alone has the smallest ratio.

    Parameters
    ----------
    A, B : ndarray of shape (n_rows, n_features)
        Differences that should become short (A) and long (B).
    n_components : int
        Number of columns of U.
    orthonormal : bool
        Whether the columns of U are kept orthonormal.
    reg : float
        The penalty :math:`\tau |U|_F` for U = I, relative to the sum over A. Without it, directions
        orthogonal to the rows of A would have ratio 0.
    max_iter : int
        Maximum number of steps.
    tol : float
        Relative decrease of the ratio at which to stop.

    Returns
    -------
    SolverResult
        ``solution`` is (U,), scaled so that the mean norm of the rows of B is 1; the curve has
        the ratio, with means instead of sums.
    """
    n_features = A.shape[1]
    penalty = reg * _lengths(A).sum() / np.sqrt(n_features)
    here = _Place(np.eye(n_features), A, B, penalty)
    if n_components < n_features:
        U = here.eigenvectors(n_components) if orthonormal else leading_directions(B, n_components)
        here = _Place(U, A, B, penalty)
    curve, converged = [here.ratio], False
    while len(curve) < max_iter and not converged:
        U = here.eigenvectors(n_components) if orthonormal else here.unconstrained()
        after = _Place(U, A, B, penalty)
        if orthonormal and after.ratio > here.ratio:
            after = _Place(here.polar_factor(), A, B, penalty)
        converged = here.ratio - after.ratio <= tol * here.ratio
        here = after
        curve.append(here.ratio)
    curve_of_means = np.array(curve) * len(B) / len(A)
    return SolverResult((here.U / here.long.mean(),), curve_of_means, converged)


class _Place:
    """A matrix U, its ratio, and the steps from there."""

    def __init__(self, U: Floats, A: Floats, B: Floats, penalty: float) -> None:
        size = np.linalg.norm(U)
        self.U, self.A, self.B, self.shrinkage = U, A, B, penalty / size
        self.short, self.long = _lengths(A @ U), _lengths(B @ U)
        self.ratio = float((self.short.sum() + penalty * size) / self.long.sum())

    @cached_property
    def near(self) -> Floats:
        """N_A; the gradient of the numerator is N_A U."""
        gram = (self.A / self.short[:, None]).T @ self.A
        gram.flat[:: len(gram) + 1] += self.shrinkage
        return gram

    @cached_property
    def far(self) -> Floats:
        """N_B; the gradient of the denominator is N_B U."""
        return (self.B / self.long[:, None]).T @ self.B

    def eigenvectors(self, n_components: int) -> Floats:
        difference = self.near - self.ratio * self.far
        return eigenvectors(difference, 0, n_components - 1)[1]

    def polar_factor(self) -> Floats:
        largest = np.linalg.eigvalsh(self.near)[-1]
        target = largest * self.U - self.near @ self.U + self.ratio * self.far @ self.U
        left, _, right = np.linalg.svd(target, full_matrices=False)
        return left @ right

    def unconstrained(self) -> Floats:
        factor = linalg.cho_factor(self.near, check_finite=False)
        return self.ratio * linalg.cho_solve(factor, self.far @ self.U, check_finite=False)


def widest_directions(B: Floats, n_components: int) -> Floats:
    """Find the directions in which rows are longest, if there are no rows A to compare with.

    Parameters
    ----------
    B : ndarray of shape (n_rows, n_features)
        Differences, not all of them zero.
    n_components : int
        Number of directions.

    Returns
    -------
    ndarray of shape (n_features, n_components)
        Orthogonal columns of equal norm, scaled so that the mean norm of the rows of B is 1.
    """
    U = leading_directions(B, n_components)
    return U / _lengths(B @ U).mean()


def leading_directions(B: Floats, n_components: int) -> Floats:
    """Leading right singular vectors of a table; the principal directions if it is centred.

    Parameters
    ----------
    B : ndarray of shape (n_rows, n_features)
        The table.
    n_components : int
        Number of directions.

    Returns
    -------
    ndarray of shape (n_features, n_components)
    """
    return with_fixed_signs(eigh(B.T @ B)[1][:, : -n_components - 1 : -1])


def _lengths(rows: Floats) -> Floats:
    return np.sqrt((rows**2).sum(axis=1) + SHORTEST**2)
