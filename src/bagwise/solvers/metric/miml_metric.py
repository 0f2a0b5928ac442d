r"""The metric of Jin, Wang and Zhou (2009): key instances are close to the centre of their label.

    min over A, Z, Q    sum_ic Y_ic |A'(x_Q(i,c) - z_c)|^2  /  sum_{c<c'} |A'(z_c - z_c')|^2

with A'A = I, one centre per label, and Q(i, c) the key instance of bag i for its label c. The paper
keeps the denominator above a constant; the ratio is the same problem without the scale. Each of the
three steps lowers the ratio: Q by nearest instances, A as the solution of a trace ratio problem, Z
as the minimum of the numerator at the current value of the denominator.
"""

from collections.abc import Iterable

import numpy as np
from scipy.optimize import brentq

from bagwise import loops
from bagwise._common.types import Floats, Ints
from bagwise.exceptions import InputError
from bagwise.loops.lapack import eigenvectors
from bagwise.solvers.metric.multi_instance_kmeans import Candidates, cluster_means
from bagwise.solvers.result import SolverResult
from bagwise.solvers.unit_variance import unit_variance

MAX_ROUNDS = 100  # of the trace ratio, which converges quadratically: a few are enough
COINCIDE = 1e-24  # relative squared distance up to which centres coincide within rounding


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
        best = _ratio(A, between, within)
        if A.shape[1] == n and best <= ratio * (1 + 1e-12):
            return A
        ratio = best
        _, vectors = eigenvectors(between - ratio * within, d - n, d - 1)
        A = vectors[:, ::-1]
    return A


def _ratio(A: Floats, between: Floats, within: Floats) -> float:
    return float(np.trace(A.T @ between @ A) / np.trace(A.T @ within @ A))


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
