"""The result object of the solvers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise._common.types import Floats


@dataclass(frozen=True)
class SolverResult:
    """The outcome of an iterative solver.

    Attributes
    ----------
    solution : tuple of ndarray
        The fitted quantities, such as ``(coef, intercept)``.
    objective_curve : array-like of shape (n_iterations,)
        The objective after each iteration; stored as an array.
    converged : bool
        False if the iteration limit was reached first.
    residuals : array-like of shape (n_iterations,) or None
        Violation of the constraints after each iteration; None for methods without constraints.
    """

    solution: Any
    objective_curve: Any
    converged: bool
    residuals: Any = None

    def __post_init__(self) -> None:
        for name in ("objective_curve", "residuals"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.asarray(getattr(self, name)))

    @property
    def n_iter(self) -> int:
        """Number of iterations made."""
        return len(self.objective_curve)


def total_curve(results: Sequence[SolverResult]) -> Floats:
    """Sum the objective curves of several models; a curve that has ended keeps its last value.

    Parameters
    ----------
    results : sequence of SolverResult
        The result of each model.

    Returns
    -------
    ndarray of shape (n_iterations,)
        As long as the longest curve.
    """
    curves = [result.objective_curve for result in results]
    length = max(len(curve) for curve in curves)
    padded = [np.pad(curve, (0, length - len(curve)), mode="edge") for curve in curves]
    return np.sum(padded, axis=0)
