"""MILBoost (Viola, Platt, Zhang 2005): gradient boosting of a noisy-or likelihood."""

from collections.abc import Callable, Iterable

import numpy as np
from scipy.optimize import brentq

from bagwise import loops
from bagwise._common.types import Bools, Floats, Ints
from bagwise.loops.threads import even_bounds
from bagwise.solvers.result import SolverResult

# The longest step of one tree, in log-odds: if a tree separates the bags, the likelihood increases
# with the step without bound.
LONGEST = 8.0


def mil_boost(
    X: Floats,
    offsets: Ints,
    positive: Bools,
    *,
    n_estimators: int,
    max_depth: int,
    learning_rate: float,
    tol: float,
    track: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> SolverResult:
    """In each round, add the tree that fits the gradient best, with a line search for its weight.

    Parameters
    ----------
    X : ndarray of shape (n_instances, n_features)
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive.
    n_estimators : int
        Maximum number of trees.
    max_depth : int
        Depth of the trees; 1 for stumps.
    learning_rate : float
        Factor of the best step.
    tol : float
        Stop early when the product of the best tree and the gradient, per bag, is at most this.
    track : callable
        Iterates over the rounds.

    Returns
    -------
    SolverResult
        ``solution`` is (start, features, thresholds, leaves): the log-odds of every instance
        before the first tree, and the trees in the format of ``loops.boosted_trees``, with
        leaves multiplied by their steps. `converged` is always True.
    """
    trees = loops.boosted_trees
    columns = np.ascontiguousarray(X.T)
    order = np.argsort(columns, axis=1, kind="stable").astype(np.int32)
    bounds = even_bounds(len(columns), columns.size)
    start, has_label = _best_constant(np.diff(offsets), positive), positive[:, None]
    scores, grown, curve = np.full((len(X), 1), start), [], []
    gradient, equal = np.empty_like(scores), np.ones(len(positive))
    value = loops.segments.noisy_or_loss(
        0, len(positive), offsets, scores, has_label, equal, gradient
    )
    for _ in track(range(n_estimators)):
        weights = -gradient[:, 0]
        feature, threshold, leaf, place = trees.grow_tree(
            columns, order, weights, max_depth, bounds
        )
        outputs = leaf[place]
        if weights @ outputs <= tol * len(positive):
            break
        step, value, gradient = trees.advance(
            scores, outputs[:, None], offsets, has_label, learning_rate, LONGEST
        )
        grown.append((feature, threshold, step * leaf))
        curve.append(value)
    n_inner = 2**max_depth - 1
    features = np.array([feature for feature, _, _ in grown], np.int32).reshape(-1, n_inner)
    thresholds = np.array([threshold for _, threshold, _ in grown]).reshape(-1, n_inner)
    leaves = np.array([leaf for _, _, leaf in grown]).reshape(-1, n_inner + 1)
    solution = np.array(start), features, thresholds, leaves
    return SolverResult(solution, curve or [value], converged=True)


def _best_constant(sizes: Ints, positive: Bools) -> float:
    """Maximum-likelihood log-odds, if all instances have the same.

    With u = -log(1 - p) the likelihood is concave in u. Its slope is zero where the number of
    instances in negative bags equals ``sum n / (exp(n u) - 1)`` over the positive bags.
    """
    n_negative, n = sizes[~positive].sum(), sizes[positive].astype(np.float64)

    def slope(log_u: float) -> float:
        u = np.exp(log_u)
        return float(n_negative * u - np.sum(n * u / np.expm1(np.minimum(n * u, 700.0))))

    u = np.exp(brentq(slope, -60.0, 10.0))
    return float(u + np.log(-np.expm1(-u)))
