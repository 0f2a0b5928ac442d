r"""The metric of Jin, Wang and Zhou 2009: key instances near the centre of their label.

    min over A, Z, Q    sum_ic Y_ic |A'(x_Q(i,c) - z_c)|^2  /  sum_{c<c'} |A'(z_c - z_c')|^2

with A'A = I, one centre per label, and Q(i, c) the instance of bag i that stands for its label c.
The paper keeps the denominator above a constant; the ratio is the same problem without the scale.
Each of the three steps lowers it: Q by nearest instances, A as the solution of a trace ratio, Z as
the minimum of the numerator on the present level of the denominator.
"""

from collections.abc import Iterable

import numpy as np
from scipy.optimize import brentq

from bagwise import compiled
from bagwise._types import Floats, Ints
from bagwise.compiled.lapack import eigenvectors
from bagwise.compiled.threads import interruptible
from bagwise.exceptions import InputError
from bagwise.solvers.metric.multi_instance_kmeans import Candidates, cluster_means
from bagwise.solvers.result import SolverResult
from bagwise.solvers.unit_variance import unit_variance

MAX_ROUNDS = 100  # of the trace ratio, which converges quadratically: a handful do
COINCIDE = 1e-24  # squared distance of centres, relative to that of instances: rounding only


def miml_metric(
    X: Floats, candidates: Candidates, *, n_components: int, tol: float, steps: Iterable[int]
) -> SolverResult:
    """Alternate between key instances, directions and centres.

    Parameters
    ----------
    X : ndarray of shape (n_instances, n_features)
        The instances.
    candidates : Candidates
        The labels of each bag; every label is carried by a bag, and there are two at least.
    n_components : int
        How many directions.
    tol : float
        Relative change of the objective at the end.
    steps : iterable
        One item per iteration allowed.

    Returns
    -------
    SolverResult
        ``solution`` is (directions A, centres, the row that stands for each candidate label).
    """
    labels = candidates.labels
    # The ratio depends neither on the origin nor on the unit of the features; rounding does.
    X, origin, unit = unit_variance(X)
    scatter = np.square(X).sum()
    ridge = 1e-9 * scatter * len(labels) / X.size  # keeps the ratio finite where all is separable
    Z = candidates.bag_means(X)
    A = np.eye(X.shape[1])
    keys = _key_rows(X, Z, candidates)
    Z = cluster_means(X[keys], labels, len(Z))
    if spread(Z) <= COINCIDE * len(Z) ** 2 * scatter / len(X):
        raise InputError(
            "the instances nearest to the mean of each label are the same for all labels: no "
            "direction separates the labels. Give bags in which instances of the labels differ."
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
        Z = means + (mapped - means @ A) @ A.T  # off A's directions the centres are free
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
    """Orthonormal A with the largest tr(A' between A) / tr(A' within A).

    Parameters
    ----------
    within, between : ndarray of shape (n_features, n_features)
        Symmetric; `within` positive definite.
    n : int
        How many directions.
    start : ndarray of shape (n_features, any)
        Directions to begin with; the ratio of the result is no smaller, where there are as many.

    Returns
    -------
    ndarray of shape (n_features, n)
    """
    d = len(within)
    A = start
    ratio = 0.0
    for _ in range(MAX_ROUNDS):
        best = interruptible(_ratio, A, between, within)
        if A.shape[1] == n and best <= ratio * (1 + 1e-12):
            return A
        ratio = best
        _, vectors = eigenvectors(between - ratio * within, d - n, d - 1)
        A = vectors[:, ::-1]
    return A


def _ratio(A: Floats, between: Floats, within: Floats) -> float:
    return float(np.trace(A.T @ between @ A) / np.trace(A.T @ within @ A))


def move_centres(means: Floats, centres: Floats, sizes: Floats) -> Floats:
    """Centres nearest to the means of their instances whose spread is no smaller than before.

    The minimum of ``sum_c a_c |z_c - mean_c|^2`` subject to ``spread(Z) >= spread(centres)``.
    Its multiplier solves one equation, ``(diag(a - m lam) + lam 11') Z = diag(a) means``.

    Parameters
    ----------
    means : ndarray of shape (n_labels, n_dimensions)
        Mean of the instances of each label.
    centres : ndarray of shape (n_labels, n_dimensions)
        The centres before.
    sizes : ndarray of shape (n_labels,)
        How many instances each label has, all positive.

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
        return centres  # no multiplier does it: stay
    root = brentq(lambda at_: spread(at(at_)) - target, 0.0, highest, xtol=1e-300, maxiter=1000)
    moved = at(root)
    # Rounding may leave it a hair too narrow: widen it about its own centre.
    middle = moved.mean(axis=0)
    return middle + (moved - middle) * max(1.0, np.sqrt(target / spread(moved)))


def _largest_multiplier(sizes: Floats) -> float:
    """Where diag(a - m lam) + lam 11' stops being positive definite."""
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
    """The nearest instance of each bag to the centre of each of its labels."""
    costs = candidates.distances(X, Z)
    return compiled.assignment.nearest_rows(costs, candidates.offsets, candidates.label_offsets)
