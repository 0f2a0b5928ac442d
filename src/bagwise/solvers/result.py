"""What solvers share: their result object, and L-BFGS.

L-BFGS is scipy's L-BFGS-B without bounds, with an error if the objective overflows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from bagwise._common.types import Floats
from bagwise.exceptions import InputError


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
    if len(results) == 1:
        return results[0].objective_curve
    curves = [result.objective_curve for result in results]
    length = max(map(len, curves))
    padded = [np.pad(curve, (0, length - len(curve)), mode="edge") for curve in curves]
    return np.sum(padded, axis=0)


Objective = Callable[[Floats], tuple[float, Floats]]  # value and gradient at a point


def lbfgs(
    objective: Objective,
    start: Floats,
    *,
    max_iter: int,
    ftol: float,
    gtol: float,
    callback: Any = None,
    **options: Any,
) -> OptimizeResult:
    """Minimise a smooth function of an array.

    Parameters
    ----------
    objective : callable
        Returns value and gradient at an array of the shape of `start`.
    start : ndarray
        Starting point.
    max_iter : int
        Maximum number of iterations; evaluations are limited to ``4 * max_iter + 20``.
    ftol : float
        Relative decrease of the objective at which to stop.
    gtol : float
        Largest absolute entry of the gradient at which to stop.
    callback : callable, default=None
        Called by scipy after each iteration.
    **options
        Further options of scipy's L-BFGS-B.

    Returns
    -------
    OptimizeResult
        ``x`` has the shape of `start`.
    """
    shape = start.shape

    def checked(point: Floats) -> tuple[float, Floats]:
        value, gradient = objective(point.reshape(shape))
        # A sum of squares overflows before its terms do; scipy would continue with NaN.
        if not (np.isfinite(value) and np.isfinite(np.vdot(gradient, gradient))):
            raise InputError(
                "the objective exceeds the range of floating-point numbers: scale the features "
                "(InstanceTransformer(StandardScaler())), and regularise with values nearer to 1."
            )
        return value, gradient.ravel()

    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        limits = {"maxiter": max_iter, "maxfun": 4 * max_iter + 20, "gtol": gtol}
        limits["ftol"] = min(ftol, 1.0)  # a relative decrease cannot exceed 1
        found = minimize(
            checked,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            callback=callback,
            options=limits | options,
        )
    found.x = found.x.reshape(shape)
    return found
