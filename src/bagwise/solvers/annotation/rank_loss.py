"""Rank-loss support instance machines (Briggs, Fern, Raich 2012), with softmax scores.

    min_W  reg/2 |W|^2 + 1/N sum_X 1/(|Y| |not Y|) sum_{p in Y, q not in Y} (1 - F_p(X) + F_q(X))_+
    F_j(X) = sum_i a_ij w_j . x_i,   a_ij = softmax over the instances of the bag of w_j . x_i

The intercept is the weight of a constant feature, penalised like the others. Instances are centred,
so that it does not depend on their origin. The solver alternates: it solves the convex problem at
fixed softmax weights, then updates them.
"""

from typing import Any

import numpy as np

from bagwise import loops
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.solvers.result import SolverResult, lbfgs

ROUND = 0.05  # the corner of the hinge is rounded over this width, so that L-BFGS applies


def rank_loss_sim(
    X: Floats,
    offsets: Ints,
    label_sets: Array,
    *,
    reg: float,
    max_iter: int,
    tol: float,
    track: Any = iter,
) -> SolverResult:
    """Alternate between softmax weights and the convex rank-loss problem.

    Parameters
    ----------
    X : ndarray of float64 of shape (n_instances, n_features)
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    label_sets : 0/1 array of shape (n_bags, n_classes)
        The label set of each bag.
    reg : float
        lambda.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Relative decrease of the objective at which to stop.
    track : callable, default=iter
        Wraps the range of rounds, to show progress.

    Returns
    -------
    SolverResult
        ``solution = (W, b)`` of the round with the lowest objective; the curve is the objective
        with updated weights.
    """
    bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    carried = label_sets == 1
    # Column j is divided by sqrt(variance + reg), and the penalty of its weights by the square of
    # that: the problem is the same, but its second derivatives are of order 1 for any unit.
    origin = X.mean(axis=0)
    scale = np.append(np.sqrt(X.var(axis=0) + reg), 1.0)
    rows = np.column_stack([X - origin, np.ones(len(X))]) / scale
    penalty = reg / scale**2
    W = np.zeros((label_sets.shape[1], len(scale)))

    def solve(weights: Floats, start: Floats) -> tuple[Floats, bool]:
        """Solve the convex problem at given softmax weights; return whether it converged."""

        def objective(W: Floats) -> tuple[float, Floats]:
            pooled = loops.segments.sum(weights * (rows @ W.T), offsets)
            loss, slope = rank_loss(pooled, carried, ROUND)
            gradient = (weights * slope[bag]).T @ rows + penalty * W
            return loss + 0.5 * float(np.sum(penalty * W**2)), gradient

        # The softmax of the next round amplifies the error of this one a hundredfold and more:
        # solve until the gradient vanishes, which needs double precision.
        found = lbfgs(objective, start, max_iter=1000, gtol=1e-9, ftol=0.0, maxcor=30)
        # Status 1: the iteration limit was reached. A moderate precision still counts as solved.
        return found.x, found.status != 1 or float(np.abs(found.jac).max()) <= 1e-5

    best, converged, solved = W, False, True
    curve: list[float] = []
    for _ in track(range(max_iter)):
        weights = loops.segments.softmax(rows @ W.T, offsets)
        W, exactly = solve(weights, W)
        solved &= exactly
        scores = rows @ W.T
        pooled = loops.segments.sum(loops.segments.softmax(scores, offsets) * scores, offsets)
        value = 0.5 * float(np.sum(penalty * W**2)) + rank_loss(pooled, carried, 0.0)[0]
        if not curve or value < min(curve):
            best = W
        curve.append(value)
        converged = len(curve) > 1 and curve[-2] - value <= tol * abs(value)
        if converged:
            break
    weights = best / scale
    planes = weights[:, :-1], weights[:, -1] - weights[:, :-1] @ origin
    return SolverResult(planes, curve, converged and solved)


def rank_loss(scores: Floats, carried: Bools, width: float) -> tuple[float, Floats]:
    """Mean over bags of the mean over pairs of (1 - score of carried + score of other)_+.

    The hinge is smoothed: quadratic up to `width`, then linear. Also returns the derivative in the
    scores.
    """
    bag, label = np.nonzero(carried)
    n_carried = np.count_nonzero(carried, axis=1)
    n_pairs = n_carried * (carried.shape[1] - n_carried)
    missed = np.where(carried[bag], 0.0, 1.0 - scores[bag, label, None] + scores[bag])
    missed = np.maximum(missed, 0.0)
    weights = 1.0 / (np.maximum(n_pairs, 1) * len(scores))[bag, None]
    slope = weights * (np.minimum(missed / width, 1.0) if width else missed > 0.0)
    loss = float((slope * (missed - 0.5 * np.minimum(missed, width))).sum())
    gradient = loops.segments.sum(slope, np.append(0, n_carried.cumsum()))
    gradient[bag, label] -= slope.sum(axis=1)
    return loss, gradient
