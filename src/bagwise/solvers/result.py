"""What every solver returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

__all__ = ["SolverResult"]


@dataclass(frozen=True)
class SolverResult:
    """The outcome of an iterative solver.

    Attributes
    ----------
    solution : tuple of ndarray
        What was solved for, such as ``(coef, intercept)``.
    objective_curve : ndarray of shape (n_iter,)
        The objective after each iteration.
    n_iter : int
        Number of iterations made.
    converged : bool
        False when the budget ran out first.
    residuals : ndarray of shape (n_iter,) or None
        How far the constraints are from holding, where the method has constraints.
    """

    solution: tuple[NDArray[Any], ...]
    objective_curve: NDArray[Any]
    n_iter: int
    converged: bool
    residuals: NDArray[Any] | None = None
