"""Rank-loss support instance machines (Briggs, Fern, Raich 2012), with softmax scores.

    min_W  reg/2 |W|^2 + 1/N sum_X 1/(|Y| |not Y|) sum_{p in Y, q not in Y} (1 - F_p(X) + F_q(X))_+
    F_j(X) = sum_i a_ij w_j . x_i,   a_ij = softmax over the instances of the bag of w_j . x_i

Alternately: the softmax weights are held while the convex problem is solved, then renewed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from bagwise import compiled
from bagwise._types import Array, Bools, Floats, Ints
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
        Whether scores have an intercept: the weight of a constant feature, penalised as the others
        are. Instances are centred then, so that it does not depend on their origin.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Relative fall of the objective below which the rounds end.
    track : callable, default=iter
        Wraps the range of rounds, to show progress.

    Returns
    -------
    SolverResult
        ``solution = (W, b)``, of the round with the lowest objective; the curve is the objective
        with renewed weights.
    """
    bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    carried = label_sets == 1
    rows = _Rows.of(X, reg, fit_intercept)
    penalty = reg / rows.scale**2
    W = np.zeros((label_sets.shape[1], len(rows.scale)))

    def solve(weights: Floats, start: Floats) -> tuple[Floats, bool]:
        """The convex problem at given softmax weights; whether it was solved."""

        def objective(W: Floats) -> tuple[float, Floats]:
            pooled = compiled.segments.sum(weights * rows.scores(W), offsets)
            loss, slope = _rank_loss(pooled, carried, ROUND)
            gradient = rows.gradient(weights * slope[bag]) + penalty * W
            return loss + 0.5 * float(np.sum(penalty * W**2)), gradient

        # The softmax of the next round amplifies what this one leaves unsolved, a hundredfold and
        # more: solve until the gradient vanishes, which takes double precision.
        found = lbfgs(objective, start, max_iter=1000, gtol=1e-9, ftol=0.0, maxcor=30)
        # Status 1 is a spent budget; what is solved to a moderate precision is solved.
        return found.x, found.status != 1 or float(np.abs(found.jac).max()) <= 1e-5

    best, converged, solved = W, False, True
    curve: list[float] = []
    for _ in track(range(max_iter)):
        weights = compiled.segments.softmax(rows.scores(W), offsets)
        W, exactly = solve(weights, W)
        solved &= exactly
        scores = rows.scores(W)
        pooled = compiled.segments.sum(compiled.segments.softmax(scores, offsets) * scores, offsets)
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
    """Centred rows, which sparse ones only seem to be: scores of their origin are taken off.

    Column j is divided by sqrt(variance + reg), and the penalty of its weights by the square of
    that: the same problem, whose second derivatives are of the size of 1 whatever the unit of the
    feature is.
    """

    table: Any  # (n_instances, n_features), and a column of ones with intercept
    scale: Floats
    origin: Floats  # what the rows were moved by, in their own unit
    left: Floats  # what is still to be taken off, in the unit of the table

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
        intercept = int(fit_intercept)  # a column more, which is neither scaled nor centred
        table = table.astype(np.float64, copy=False)
        return cls(table, np.append(scale, [1.0] * intercept), origin, np.pad(left, (0, intercept)))

    def scores(self, W: Floats) -> Floats:
        return safe_sparse_dot(self.table, W.T, dense_output=True) - W @ self.left

    def gradient(self, slopes: Floats) -> Floats:
        """By W, of a function of the scores with these derivatives."""
        product = safe_sparse_dot(self.table.T, slopes, dense_output=True)
        return product.T - np.outer(slopes.sum(axis=0), self.left)

    def planes(self, W: Floats) -> tuple[Floats, Floats]:
        """Weights and intercepts for rows as they came."""
        n_features = len(self.origin)
        weights = W / self.scale
        intercept = weights[:, n_features:].sum(axis=1) - weights[:, :n_features] @ self.origin
        return weights[:, :n_features], intercept


def _rank_loss(scores: Floats, carried: Bools, width: float) -> tuple[float, Floats]:
    gradient = np.empty_like(scores)
    return compiled.label_pairs.rank_loss(scores, carried, width, gradient), gradient
