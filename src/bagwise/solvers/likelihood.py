"""Methods that maximise a noisy-or likelihood of the labels of bags.

Diverse density (Maron and Lozano-Pérez 1998), EM-DD (Zhang and Goldman 2001), and MILBoost (Viola,
Platt, Zhang 2005), which boosts trees.
"""

from collections.abc import Callable, Iterable

import numpy as np
from scipy.optimize import brentq

from bagwise import loops
from bagwise._common.types import Bools, Floats, Ints
from bagwise.loops.arguments import read_only
from bagwise.loops.threads import even_bounds, run_blocks
from bagwise.solvers.result import SolverResult

# The longest step of one tree, in log-odds: if a tree separates the bags, the likelihood increases
# with the step without bound.
LONGEST = 8.0


def diverse_density(
    X: Floats,
    offsets: Ints,
    positive: Bools,
    points: Floats,
    weight: float,
    *,
    max_iter: int,
    tol: float,
    max_rounds: int | None = None,
) -> SolverResult:
    """Minimise the negative log-likelihood from each start and keep the most likely concept.

    Without `max_rounds` all instances of a bag count (noisy-or), and L-BFGS runs once per start.
    With it the method is EM-DD. E-step: the instance nearest to the concept represents its bag.
    M-step: L-BFGS on these instances. Rounds end when they no longer lower the objective.

    Parameters
    ----------
    X : ndarray of shape (n_instances, n_features)
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive.
    points : ndarray of shape (n_starts, n_features)
        The points to start from.
    weight : float
        The weight of each feature at the start.
    max_iter : int
        Maximum number of L-BFGS steps per start (EM-DD: per round).
    tol : float
        Relative decrease of the objective at which steps and rounds end.
    max_rounds : int, default=None
        Maximum number of EM rounds per start; None for diverse density without EM.

    Returns
    -------
    SolverResult
        ``solution`` is (point, weights), each of shape (n_features,).
    """
    descent = loops.diverse_density
    starts = np.hstack([points, np.full(points.shape, np.sqrt(weight))])
    X, offsets, positive = read_only(X, offsets, positive)

    def descend(i: int, _: int) -> tuple[Floats, Floats, bool]:
        concept, curve = starts[i], np.empty(max_rounds or max_iter)
        if max_rounds is None:
            rows = np.arange(len(X))
            found = descent.minimise(X, rows, offsets, positive, concept, curve, tol)
        else:
            found = descent.minimise_in_rounds(X, offsets, positive, concept, curve, max_iter, tol)
        n_iter, converged = found
        return concept, curve[:n_iter], converged

    each = run_blocks(descend, np.arange(len(starts) + 1))  # one by one: they differ in length
    ends = np.array([curve[-1] for _, curve, _ in each])
    best = int(np.argmax(ends <= (1 + 1e-12) * ends.min()))  # the first within rounding
    concept, curve, converged = each[best]
    point, root = np.split(concept, 2)
    return SolverResult((point, root**2), curve, converged)


def mil_boost(
    columns: Floats,
    order: Ints,
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
    columns : ndarray of shape (n_features, n_instances)
        The features, each contiguous.
    order : ndarray of int32 of shape (n_features, n_instances)
        The instances sorted by each feature.
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
    bounds = even_bounds(len(columns), columns.size)
    start, n_bags = _best_constant(np.diff(offsets), positive), len(positive)
    has_label, loss = positive[:, None].astype(np.int8), loops.segments.noisy_or_loss
    known = 0, n_bags, *read_only(offsets, has_label, np.ones(n_bags))
    scores, grown, curve = np.full((columns.shape[1], 1), start), [], []
    gradient, trial = np.empty_like(scores), np.empty_like(scores)
    value = loss(*known, scores, gradient)
    for _ in track(range(n_estimators)):
        weights = -gradient[:, 0]
        tree = trees.grow_tree(columns, order, weights, max_depth, bounds)
        feature, threshold, leaf, place = tree
        outputs = leaf[place][:, None]
        if weights @ outputs[:, 0] <= tol * n_bags:
            break
        step = learning_rate * trees.best_step(*known, scores, outputs, LONGEST, trial, gradient)
        scores += step * outputs
        value = loss(*known, scores, gradient)
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

    # As 1 - n u < n u / (exp(n u) - 1) < 1, u is between these two.
    low, high = np.log(len(n) / sizes.sum()), np.log(len(n) / n_negative)
    u = np.exp(brentq(slope, low - 1e-6, high + 1e-6))
    return float(u + np.log(-np.expm1(-u)))
