"""Rank-loss support instance machines (Briggs, Fern, Raich 2012), with softmax scores.

    min_W  reg/2 |W|^2 + 1/N sum_X 1/(|Y| |not Y|) sum_{p in Y, q not in Y} (1 - F_p(X) + F_q(X))_+
    F_j(X) = sum_i a_ij w_j . x_i,   a_ij = softmax over the instances of the bag of w_j . x_i

Alternately: the softmax weights are held while the convex problem is solved, then renewed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from bagwise import kernels
from bagwise.solvers.lbfgs import lbfgs
from bagwise.solvers.result import SolverResult

__all__ = ["rank_loss_sim"]

Vector = NDArray[np.float64]
ROUND = 0.05  # the corner of the hinge is rounded over this width, so that L-BFGS applies


def rank_loss_sim(
    X: Any,
    offsets: NDArray[np.int64],
    label_sets: NDArray[Any],
    *,
    reg: float,
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
    max_iter : int
        Most rounds.
    tol : float
        Relative fall of the objective below which the rounds end.
    track : callable, default=iter
        Wraps the range of rounds, to show progress.

    Returns
    -------
    SolverResult
        ``solution = (W,)``, of the round with the lowest objective; the curve is the objective
        with renewed weights.
    """
    bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    carried = label_sets == 1
    W = np.zeros((label_sets.shape[1], X.shape[1]))
    best, converged = W, False
    curve: list[float] = []
    for _ in track(range(max_iter)):
        weights = _softmax_weights(_scores(X, W), offsets)
        W = _convex(X, offsets, bag, carried, weights, reg, W)
        scores = _scores(X, W)
        pooled = kernels.segments.sum(_softmax_weights(scores, offsets) * scores, offsets)
        value = 0.5 * reg * float(np.sum(W**2)) + _rank_loss(pooled, carried, 0.0)[0]
        if not curve or value < min(curve):
            best = W
        curve.append(value)
        converged = len(curve) > 1 and curve[-2] - value <= tol * abs(value)
        if converged:
            break
    return SolverResult((best,), np.array(curve), len(curve), converged)


def _rank_loss(scores: Vector, carried: NDArray[np.bool_], width: float) -> tuple[float, Vector]:
    gradient = np.empty_like(scores)
    return kernels.label_pairs.rank_loss(scores, carried, width, gradient), gradient


def _scores(X: Any, W: Vector) -> Vector:
    product = safe_sparse_dot(X, W.T.astype(X.dtype), dense_output=True)
    return np.asarray(product, dtype=np.float64)


def _softmax_weights(scores: Vector, offsets: NDArray[np.int64]) -> Vector:
    return kernels.segments.softmax(scores, offsets)


def _convex(
    X: Any,
    offsets: NDArray[np.int64],
    bag: NDArray[np.int64],
    carried: NDArray[np.bool_],
    weights: Vector,
    reg: float,
    start: Vector,
) -> Vector:
    def objective(W: Vector) -> tuple[float, Vector]:
        pooled = kernels.segments.sum(weights * _scores(X, W), offsets)
        loss, slope = _rank_loss(pooled, carried, ROUND)
        pulled = safe_sparse_dot(X.T, (weights * slope[bag]).astype(X.dtype), dense_output=True)
        return loss + 0.5 * reg * float(np.sum(W**2)), pulled.T + reg * W

    return lbfgs(objective, start, max_iter=1000, gtol=1e-5, ftol=1e-7).x
