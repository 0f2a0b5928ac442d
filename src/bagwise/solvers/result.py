"""What every solver returns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bagwise._types import Array, Floats


@dataclass(frozen=True)
class SolverResult:
    """The outcome of an iterative solver.

    Attributes
    ----------
    solution : tuple of ndarray
        What was solved for, such as ``(coef, intercept)``.
    objective_curve : ndarray of shape (n_iterations,)
        The objective after each iteration.
    n_iter : int
        Number of iterations made.
    converged : bool
        False when the budget ran out first.
    residuals : ndarray of shape (n_iterations,) or None
        How far the constraints are from holding, where the method has constraints.
    """

    solution: tuple[Array, ...]
    objective_curve: Array
    n_iter: int
    converged: bool
    residuals: Array | None = None


def total_curve(results: Sequence[SolverResult]) -> Floats:
    """Sum the objectives of several machines; one that has settled stays where it is.

    Parameters
    ----------
    results : sequence of SolverResult
        The outcome of each machine.

    Returns
    -------
    ndarray of shape (n_iterations,)
        As long as the longest curve.
    """
    curves = [result.objective_curve for result in results]
    length = max(len(curve) for curve in curves)
    padded = [np.pad(curve, (0, length - len(curve)), mode="edge") for curve in curves]
    return np.sum(padded, axis=0)
