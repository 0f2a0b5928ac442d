"""Diverse density (Maron and Lozano-Pérez 1998): the most likely point concept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bagwise import compiled
from bagwise.solvers.result import SolverResult

__all__ = ["best_of", "diverse_density", "starts_at"]


def diverse_density(
    X: NDArray[np.float64],
    offsets: NDArray[np.int64],
    positive: NDArray[np.bool_],
    starts: NDArray[np.float64],
    *,
    max_iter: int,
    tol: float,
) -> SolverResult:
    """Descend from each start by L-BFGS and keep the most likely concept.

    Parameters
    ----------
    X : ndarray of shape (n_instances, n_features)
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive.
    starts : ndarray of shape (n_starts, 2 * n_features)
        Concepts: points and square roots of feature weights, see `starts_at`.
    max_iter : int
        Budget of L-BFGS steps per start.
    tol : float
        A descent ends when a step gains less than this share of the objective.

    Returns
    -------
    SolverResult
        ``solution`` is (point, weights), each of shape (n_features,).
    """
    return best_of(
        *compiled.diverse_density.descend_from_all(
            X, offsets, positive, starts, select=False, max_rounds=1, max_iter=max_iter, tol=tol
        )
    )


def starts_at(points: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
    """Concepts at points, with one weight for all features.

    Parameters
    ----------
    points : ndarray of shape (n_starts, n_features)
        The points.
    weight : float
        The feature weight.

    Returns
    -------
    ndarray of shape (n_starts, 2 * n_features)
    """
    return np.hstack([points, np.full(points.shape, np.sqrt(weight))])


def best_of(
    concepts: NDArray[np.float64],
    curves: NDArray[np.float64],
    n_iter: NDArray[np.int64],
    converged: NDArray[np.bool_],
) -> SolverResult:
    """The deepest descent (the first of equals), out of those of ``compiled.diverse_density``.

    Parameters
    ----------
    concepts, curves, n_iter, converged : ndarray
        As `descend_from_all` returns them.

    Returns
    -------
    SolverResult
        ``solution`` is (point, weights).
    """
    ends = curves[np.arange(len(curves)), n_iter - 1]
    best = int(np.argmax(ends <= (1 + 1e-12) * ends.min()))  # the first up to rounding
    point, root = np.split(concepts[best], 2)
    return SolverResult(
        solution=(point, root**2),
        objective_curve=curves[best, : n_iter[best]],
        n_iter=int(n_iter[best]),
        converged=bool(converged[best]),
    )
