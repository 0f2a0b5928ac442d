"""Rank-loss support instance machines (Briggs, Fern, Raich 2012), with softmax scores.

    min_W  reg/2 |W|^2 + 1/N sum_X 1/(|Y| |not Y|) sum_{p in Y, q not in Y} (1 - F_p(X) + F_q(X))_+
    F_j(X) = sum_i a_ij w_j . x_i,   a_ij = softmax over the instances of the bag of w_j . x_i

The solver alternates: it solves the convex problem at fixed softmax weights, then updates them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from bagwise import loops
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.solvers.lbfgs import lbfgs
from bagwise.solvers.result import SolverResult

ROUND = 0.05  # the corner of the hinge is rounded over this width, so that L-BFGS applies


def rank_loss_sim(
    X: Any,
    offsets: Ints,
    label_sets: Array,
    *,
    reg: float,
    fit_intercept: bool,
    max_iter: int,
    tol: float,
    track: Any = iter,
) -> SolverResult:
    """Alternate between softmax weights and the convex rank-loss problem.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_instances, n_features)
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    label_sets : 0/1 array of shape (n_bags, n_classes)
        The label set of each bag.
    reg : float
        lambda.
    fit_intercept : bool
        Whether scores have an intercept: the weight of a constant feature, penalised like the
        others. Instances are then centred, so that the intercept does not depend on their origin.
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
    rows = _Rows.of(X, reg, fit_intercept)
    penalty = reg / rows.scale**2
    W = np.zeros((label_sets.shape[1], len(rows.scale)))

    def solve(weights: Floats, start: Floats) -> tuple[Floats, bool]:
        """Solve the convex problem at given softmax weights; return whether it converged."""

        def objective(W: Floats) -> tuple[float, Floats]:
            pooled = loops.segments.sum(weights * rows.scores(W), offsets)
            loss, slope = _rank_loss(pooled, carried, ROUND)
            gradient = rows.gradient(weights * slope[bag]) + penalty * W
            return loss + 0.5 * float(np.sum(penalty * W**2)), gradient

        # The softmax of the next round amplifies the error of this one a hundredfold and more:
        # solve until the gradient vanishes, which needs double precision.
        found = lbfgs(objective, start, max_iter=1000, gtol=1e-9, ftol=0.0, maxcor=30)
        # Status 1: the iteration limit was reached. A moderate precision still counts as solved.
        return found.x, found.status != 1 or float(np.abs(found.jac).max()) <= 1e-5

    best, converged, solved = W, False, True
    curve: list[float] = []
    for _ in track(range(max_iter)):
        weights = loops.segments.softmax(rows.scores(W), offsets)
        W, exactly = solve(weights, W)
        solved &= exactly
        scores = rows.scores(W)
        pooled = loops.segments.sum(loops.segments.softmax(scores, offsets) * scores, offsets)
        value = 0.5 * float(np.sum(penalty * W**2)) + _rank_loss(pooled, carried, 0.0)[0]
        if not curve or value < min(curve):
            best = W
        curve.append(value)
        converged = len(curve) > 1 and curve[-2] - value <= tol * abs(value)
        if converged:
            break
    return SolverResult(rows.planes(best), curve, converged and solved)


@dataclass(frozen=True)
class _Rows:
    """Centred and scaled rows; sparse rows are centred implicitly, by shifting their scores.

    Column j is divided by sqrt(variance + reg), and the penalty of its weights by the square of
    that. The problem is the same, but its second derivatives are of order 1 for any unit of the
    features.
    """

    table: Any  # (n_instances, n_features), and a column of ones with intercept
    scale: Floats
    origin: Floats  # mean of the rows, in the unit of X
    left: Floats  # the part of the mean not yet subtracted, in the unit of the table

    @classmethod
    def of(cls, X: Any, reg: float, fit_intercept: bool) -> _Rows:
        n_rows, n_features = X.shape
        origin = np.zeros(n_features)
        if fit_intercept:
            origin = np.asarray(X.sum(axis=0, dtype=np.float64)).ravel() / n_rows
        one = np.ones((n_rows, int(fit_intercept)))
        if sparse.issparse(X):
            squares = np.asarray(X.power(2).sum(axis=0, dtype=np.float64)).ravel() / n_rows
            scale = np.sqrt(np.maximum(squares - origin**2, 0.0) + reg)
            table = sparse.hstack([X @ sparse.diags_array(1 / scale), one], format="csr")
            left = origin / scale
        else:
            centred = X - origin
            scale = np.sqrt(np.einsum("ij,ij->j", centred, centred) / n_rows + reg)
            table, left = np.hstack([centred / scale, one]), np.zeros(n_features)
        intercept = int(fit_intercept)  # one more column, neither scaled nor centred
        table = table.astype(np.float64, copy=False)
        return cls(table, np.append(scale, [1.0] * intercept), origin, np.pad(left, (0, intercept)))

    def scores(self, W: Floats) -> Floats:
        return safe_sparse_dot(self.table, W.T, dense_output=True) - W @ self.left

    def gradient(self, slopes: Floats) -> Floats:
        """Gradient in W of a function whose derivatives in the scores are `slopes`."""
        product = safe_sparse_dot(self.table.T, slopes, dense_output=True)
        return product.T - np.outer(slopes.sum(axis=0), self.left)

    def planes(self, W: Floats) -> tuple[Floats, Floats]:
        """Weights and intercepts for the rows of X, neither centred nor scaled."""
        n_features = len(self.origin)
        weights = W / self.scale
        intercept = weights[:, n_features:].sum(axis=1) - weights[:, :n_features] @ self.origin
        return weights[:, :n_features], intercept


def _rank_loss(scores: Floats, carried: Bools, width: float) -> tuple[float, Floats]:
    gradient = np.empty_like(scores)
    return loops.label_pairs.rank_loss(scores, carried, width, gradient), gradient
