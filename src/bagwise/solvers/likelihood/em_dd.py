"""EM-DD (Zhang and Goldman 2001): diverse density with one instance per bag, chosen by EM."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bagwise import compiled
from bagwise.solvers.likelihood.diverse_density import best_of
from bagwise.solvers.result import SolverResult

__all__ = ["em_dd"]


def em_dd(
    X: NDArray[np.float64],
    offsets: NDArray[np.int64],
    positive: NDArray[np.bool_],
    starts: NDArray[np.float64],
    *,
    max_rounds: int,
    max_iter: int,
    tol: float,
) -> SolverResult:
    """Alternate from each start, and keep the most likely concept.

    E: the instance nearest to the concept stands for its bag. M: L-BFGS on these. The rounds end
    when they no longer lower the negative log-likelihood of the bags under their nearest instances.

    Parameters
    ----------
    X : ndarray of shape (n_instances, n_features)
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive.
    starts : ndarray of shape (n_starts, 2 * n_features)
        Concepts: points and square roots of feature weights.
    max_rounds : int
        Budget of rounds per start.
    max_iter : int
        Budget of L-BFGS steps per round.
    tol : float
        Rounds and steps end when they gain less than this share of the objective.

    Returns
    -------
    SolverResult
        ``solution`` is (point, weights), each of shape (n_features,).
    """
    return best_of(
        *compiled.diverse_density.descend_from_all(
            X,
            offsets,
            positive,
            starts,
            select=True,
            max_rounds=max_rounds,
            max_iter=max_iter,
            tol=tol,
        )
    )
