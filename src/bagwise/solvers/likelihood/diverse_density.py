"""Diverse density (Maron and Lozano-Pérez 1998) and EM-DD (Zhang and Goldman 2001)."""

import numpy as np

from bagwise import loops
from bagwise._common.types import Bools, Floats, Ints
from bagwise.loops.threads import run_blocks
from bagwise.solvers.result import SolverResult


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
