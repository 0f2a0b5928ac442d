r"""Semi-supervised SVMs by gradient descent (Chapelle, Sindhwani and Keerthi 2008).

.. math:: \min_{w, b} \tfrac12 |w|^2 + \tfrac{C_1}2 \sum_{labelled} (1 - y_i f_i)_+^2
    + C_2 U(f_{unlabelled})

subject to the constraint that the mean score of the unlabelled rows is 2 share - 1. U is large at
scores near 0, so the problem is not convex. A schedule solves easier problems first, each starting
from the previous solution:

"smoothed"        U = sum of exp(-3 f^2) / 2, convolved with a Gaussian whose width shrinks to 0
                  (cS3VM);
"annealed"        the same U, with a cost that grows to C2 (nabla-S3VM);
"deterministic"   U = min over probabilities p with mean share of the sum of
                  p V(f) + (1 - p) V(-f) - T H(p), where V(f) = (1 - f)_+^2 / 2, H is the entropy,
                  and the temperature T falls (nabla-DA).

The constraint is eliminated: if the mean of the unlabelled rows is at the origin, b equals its
right-hand side. Without unlabelled rows b is free.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg
from scipy.optimize import minimize

from bagwise._common.types import Floats, Ints
from bagwise.exceptions import InputError
from bagwise.solvers.result import SolverResult, lbfgs
from reproduction.rivals.solvers.annealed_svm import entropy, probabilities


@dataclass(frozen=True)
class Expansion:
    """Second-order expansion of a function of the scores.

    Attributes
    ----------
    value : float
        The value.
    slopes : ndarray of shape (n,)
        The gradient.
    curvatures, coupling : ndarray of shape (n,)
        The Hessian is diag(curvatures) + coupling coupling'.
    """

    value: float
    slopes: Floats
    curvatures: Floats
    coupling: Floats


Loss = Callable[[Floats], Expansion]

COSTS = 2.0 ** np.arange(-10, 1)  # factors of C2, as published
WIDTHS = np.append(3.0 / 2.0 ** np.arange(10), 0.0)  # standard deviations of a score
TEMPERATURES = 10.0 / 2.0 ** np.arange(14)
JITTER = 1e-10  # relative to the mean diagonal of a kernel matrix
LOOSE = 100.0  # factor of the tolerance for all stages but the last


def gaussian_loss(f: Floats, width: float) -> Expansion:
    """The sum of exp(-3 f^2) / 2, convolved with a Gaussian.

    Parameters
    ----------
    f : ndarray of shape (n,)
        Scores.
    width : float
        Standard deviation of the Gaussian.

    Returns
    -------
    Expansion
    """
    spread = 1 + 6 * width**2
    values = 0.5 * np.exp(-3 * f**2 / spread) / np.sqrt(spread)
    slopes = -6 * f / spread * values
    return Expansion(
        float(values.sum()), slopes, -6 / spread * (values + f * slopes), np.zeros_like(f)
    )


def label_loss(f: Floats, temperature: float, share: float) -> Expansion:
    """The free energy of uncertain labels, of which a given share is positive.

    Parameters
    ----------
    f : ndarray of shape (n,)
        Scores.
    temperature : float
        T > 0; as T goes to 0, each label becomes certain.
    share : float
        The mean of the probabilities.

    Returns
    -------
    Expansion
    """
    up, down = np.maximum(0.0, 1 - f), np.maximum(0.0, 1 + f)  # -V'(f) and V'(-f)
    p = probabilities(f, temperature, share)
    value = 0.5 * float(p @ up**2 + (1 - p) @ down**2) - temperature * float(entropy(p).sum())
    # The multiplier of the mean depends on every score, which couples the rows.
    tilt, variance = up + down, p * (1 - p)
    total = temperature * max(float(variance.sum()), np.finfo(float).tiny)
    return Expansion(
        value,
        (1 - p) * down - p * up,
        p * (f < 1) + (1 - p) * (f > -1) - variance * tilt**2 / temperature,
        variance * tilt / np.sqrt(total),
    )


def stages(schedule: str, share: float) -> list[tuple[float, Loss]]:
    """The problems of a schedule: factors of C2 and losses of unlabelled rows.

    Parameters
    ----------
    schedule : {"annealed", "smoothed", "deterministic"}
        Name of the schedule.
    share : float
        Share of positive rows among the unlabelled ones.

    Returns
    -------
    list of (float, callable)
    """
    if schedule == "annealed":
        return [(float(cost), partial(gaussian_loss, width=0.0)) for cost in COSTS]
    if schedule == "smoothed":
        return [(1.0, partial(gaussian_loss, width=float(width))) for width in WIDTHS]
    return [(1.0, partial(label_loss, temperature=float(T), share=share)) for T in TEMPERATURES]


class PartlyLabelledRisk:
    """The objective of one stage, its gradient and its Hessian, at points (w, b).

    Parameters
    ----------
    rows : ndarray or CSR of shape (n_rows, n_features)
        All rows.
    signs : ndarray of shape (n_rows,)
        1, -1, and 0 for unlabelled rows.
    C1, C2 : float
        Cost of a labelled and of an unlabelled row.
    loss : callable
        The loss of the scores of unlabelled rows.
    """

    def __init__(self, rows: Any, signs: Ints, *, C1: float, C2: float, loss: Loss) -> None:
        self.rows, self.signs, self.C1, self.C2, self.loss = rows, signs, C1, C2, loss
        self.unlabelled = signs == 0
        n_unlabelled = int(self.unlabelled.sum())
        self.free_intercept = n_unlabelled == 0
        self.mean = np.asarray(rows.T @ (self.unlabelled / max(1, n_unlabelled)))

    def scores(self, point: Floats) -> Floats:
        """Score all rows; b is the mean score of the unlabelled ones."""
        return self._along(point[:-1]) + point[-1]

    def value(self, point: Floats) -> tuple[float, Floats]:
        """The objective and its gradient."""
        f, w = self.scores(point), point[:-1]
        missed = np.where(self.unlabelled, 0.0, np.maximum(0.0, 1 - self.signs * f))
        slopes = np.asarray(-self.C1 * (self.signs * missed), np.float64)
        value = 0.5 * float(w @ w) + 0.5 * self.C1 * float(missed @ missed)
        if not self.free_intercept:
            loss = self.loss(f[self.unlabelled])
            value += self.C2 * loss.value
            slopes[self.unlabelled] = self.C2 * loss.slopes
        return value, self._back(w, slopes)

    def hessian(self, point: Floats) -> Callable[[Floats], Floats]:
        """The product of the Hessian at a point with a step, as a function of the step."""
        f = self.scores(point)
        curvatures, coupling = np.where(self.signs * f < 1, self.C1, 0.0), np.zeros(len(f))
        if not self.free_intercept:
            loss = self.loss(f[self.unlabelled])
            curvatures[self.unlabelled] = self.C2 * loss.curvatures
            coupling[self.unlabelled] = np.sqrt(self.C2) * loss.coupling

        def product(step: Floats) -> Floats:
            along = self._along(step[:-1]) + step[-1] * self.free_intercept
            return self._back(step[:-1], curvatures * along + coupling * (coupling @ along))

        return product

    def _along(self, w: Floats) -> Floats:
        return self.rows @ w - self.mean @ w

    def _back(self, w: Floats, slopes: Floats) -> Floats:
        """Gradient in (w, b) from the gradient in the scores."""
        total = float(slopes.sum())
        by_w = w + self.rows.T @ slopes - total * self.mean
        return np.append(by_w, total * self.free_intercept)


def gradient_s3vm(
    rows: Any,
    signs: Ints,
    *,
    C1: float,
    C2: float,
    share: float,
    schedule: str,
    solver: str,
    max_iter: int,
    tol: float,
) -> SolverResult:
    """Solve the problems of a schedule by L-BFGS or Newton's method.

    Parameters
    ----------
    rows : ndarray or CSR of shape (n_rows, n_features)
        All rows, or features of a kernel.
    signs : ndarray of shape (n_rows,)
        1, -1, and 0 for unlabelled rows.
    C1, C2 : float
        Cost of a labelled and of an unlabelled row.
    share : float
        Share of positive rows among the unlabelled ones.
    schedule : {"annealed", "smoothed", "deterministic"}
        The sequence of problems.
    solver : {"lbfgs", "newton"}
        The minimiser of each problem.
    max_iter : int
        Maximum number of iterations per problem.
    tol : float
        Size of the gradient at which to stop, relative to that at w = 0.

    Returns
    -------
    SolverResult
        ``solution`` is (weights, intercept); the curve is the objective after each stage, with the
        cost and the loss of that stage.
    """
    level = 2 * share - 1 if (signs == 0).any() else 0.0
    point = np.append(np.zeros(rows.shape[1]), level)
    start = PartlyLabelledRisk(rows, signs, C1=C1, C2=0.0, loss=_no_loss)
    enough = tol * max(float(np.abs(start.value(point)[1]).max()), np.finfo(float).tiny)
    plan = [(0.0, _no_loss), *(stages(schedule, share) if not start.free_intercept else [])]
    curve, converged = [], True
    for k, (cost, loss) in enumerate(plan):
        risk = PartlyLabelledRisk(rows, signs, C1=C1, C2=cost * C2, loss=loss)
        last = k == len(plan) - 1
        found = _minimum(risk, point, solver, max_iter, enough if last else LOOSE * enough)
        point = found.x
        converged &= found.status != 1  # 1: iteration limit; other failures are due to rounding
        curve.append(float(found.fun))
    w = point[:-1]
    return SolverResult((w, np.array(point[-1] - risk.mean @ w)), curve, converged)


def kernel_factor(gram: Floats) -> Floats:
    """Features whose inner products are a kernel matrix: its Cholesky factor.

    Parameters
    ----------
    gram : ndarray of shape (n_rows, n_rows)
        The kernel matrix; it may be singular.

    Returns
    -------
    ndarray of shape (n_rows, n_rows)
        L, with L L' equal to `gram` plus a tiny diagonal.
    """
    shifted = np.array(gram, order="F")
    shifted[np.diag_indices(len(gram))] += JITTER * (float(np.trace(gram)) / len(gram) or 1.0)
    try:
        return linalg.cholesky(shifted, lower=True, overwrite_a=True)
    except np.linalg.LinAlgError as error:
        raise InputError(
            "the kernel is not positive semi-definite on the training rows: choose another kernel "
            "or other parameters."
        ) from error


def _minimum(
    risk: PartlyLabelledRisk, point: Floats, solver: str, max_iter: int, gtol: float
) -> Any:
    if solver == "lbfgs":
        return lbfgs(risk.value, point, max_iter=max_iter, ftol=1e-14, gtol=gtol)
    last: list[Any] = []  # a point and the Hessian there

    def hessian_product(at: Floats, step: Floats) -> Floats:
        if not last or not np.array_equal(at, last[0]):
            last[:] = at.copy(), risk.hessian(at)
        return np.asarray(last[1](step))

    return minimize(
        risk.value, point, jac=True, hessp=hessian_product, method="trust-ncg",
        options={"maxiter": max_iter, "gtol": gtol},
    )  # fmt: skip


def _no_loss(f: Floats) -> Expansion:
    return Expansion(0.0, *np.zeros((3, len(f))))
