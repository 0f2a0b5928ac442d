"""Machines on a table with a row per bag, or on the kernel between bags.

LIBSVM, with a limit on its steps and an error if its solution is not finite; ridge regression with
a free intercept; and the 1-norm SVM of MILES, a linear program, by column generation.
"""

import warnings
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from bagwise._common.types import Bools, Floats, Ints
from bagwise.exceptions import InputError
from bagwise.solvers.margin.max_margin import best_intercept
from bagwise.solvers.result import SolverResult

# LIBSVM's default limit, ten million steps, takes minutes if features are of order one million.
LEAST_STEPS, STEPS_PER_ROW = 100_000, 100
LEAST_REG = 1e-12  # relative to the mean diagonal: smaller values are lost to rounding


def fit_libsvm(model: Any, table: Any, y: Any, weights: Any = None) -> bool:
    """Fit an `SVC` or `SVR` of scikit-learn with a limit on its steps.

    Parameters
    ----------
    model : SVC or SVR
        The model; its `max_iter` is set.
    table : ndarray or CSR of shape (n_rows, n_columns)
        The rows, or the kernel between them.
    y : ndarray of shape (n_rows,)
        The targets.
    weights : ndarray of shape (n_rows,), default=None
        Factors of the cost of each row.

    Returns
    -------
    bool
        Whether the tolerance of the model was reached.
    """
    model.random_state = 0  # LIBSVM draws nothing; None would advance NumPy's global state
    model.set_params(max_iter=LEAST_STEPS + STEPS_PER_ROW * table.shape[0])
    try:
        with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
            warnings.simplefilter("ignore", ConvergenceWarning)
            return bool(model.fit(table, y, weights).fit_status_ == 0)
    except ValueError as error:  # coefficients that are not finite, or values that are too large
        raise InputError(
            f"LIBSVM cannot represent the solution (C={model.C:.3g}, largest value "
            f"{abs(table).max():.3g}): scale the features, and choose C nearer to 1."
        ) from error


def kernel_ridge(gram: Floats, y: Floats, C: float) -> tuple[Floats, float]:
    r"""Minimise :math:`|f|^2 + C \sum_i (y_i - f(x_i) - b)^2` over functions of the kernel.

    The intercept b is free: it is the solution for the centred kernel and the centred targets.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        The kernel of all pairs; overwritten.
    y : ndarray of shape (n,)
        The targets.
    C : float
        Weight of the errors.

    Returns
    -------
    dual : ndarray of shape (n,)
        Weights of the points; their sum is 0.
    intercept : float
    """
    means = gram.mean(axis=0)
    centre = y.mean()
    gram -= means
    gram -= (means - means.mean())[:, None]
    gram.flat[:: len(y) + 1] += _ridge(np.trace(gram) / len(y), C)
    dual = linalg.solve(gram, y - centre, assume_a="pos", overwrite_a=True)
    dual -= dual.mean()
    return dual, float(centre - means @ dual)


def ridge(features: Floats, y: Floats, C: float) -> tuple[Floats, float]:
    """Minimise the objective of `kernel_ridge` over linear functions of features.

    Parameters
    ----------
    features : ndarray of shape (n, n_features)
        The features.
    y : ndarray of shape (n,)
        The targets.
    C : float
        Weight of the errors.

    Returns
    -------
    coef : ndarray of shape (n_features,)
    intercept : float
    """
    means, centre = features.mean(axis=0), y.mean()
    moments = features.T @ features - len(y) * np.outer(means, means)
    moments.flat[:: len(means) + 1] += _ridge(np.trace(moments) / len(y), C)
    coef = linalg.solve(moments, (y - centre) @ (features - means), assume_a="pos")
    return coef, float(centre - means @ coef)


def _ridge(size: float, C: float) -> float:
    """Term to add to the diagonal: 1 / C, but large enough to survive rounding."""
    return max(1 / C, LEAST_REG * max(size, 1.0))


def l1_svm(M: Floats, positive: Bools, costs: Floats, *, tol: float = 1e-9) -> SolverResult:
    r"""Minimise :math:`|w|_1 + \sum_i C_i (1 - y_i (w \cdot m_i + b))_+` exactly.

    Few features have non-zero weights. The program is solved on some of them; its dual variables
    show which others would lower the objective. These are added until there are none.

    Parameters
    ----------
    M : ndarray of shape (n_rows, n_features)
        The table, usually wide.
    positive : ndarray of bool of shape (n_rows,)
        Which rows are positive.
    costs : ndarray of shape (n_rows,)
        Cost of a margin error of each row.
    tol : float, default=1e-9
        A feature that violates its dual constraint by more than this is added.

    Returns
    -------
    SolverResult
        ``solution`` is (coef, intercept); the curve has the objective of each program. If an
        interval of intercepts is optimal, its middle is returned.
    """
    y = np.where(positive, 1.0, -1.0)
    n_rows, n_features = M.shape
    batch = max(n_rows // 2, 20)
    active = np.zeros(n_features, np.bool_)
    active[_largest(np.abs((y * costs) @ M), batch)] = True
    curve: list[float] = []
    while True:
        columns = np.flatnonzero(active)
        coef, objective, prices = _solve(M[:, columns], y, costs)
        curve.append(objective)
        gains = np.abs((prices * y) @ M)
        gains[active] = 0.0
        if not np.any(gains > 1 + tol):
            break
        wanted = _largest(gains, batch)
        active[wanted[gains[wanted] > 1 + tol]] = True
    weights = np.zeros(n_features)
    weights[columns] = coef
    # The loss of row i becomes zero at b = y_i - score_i.
    intercept = best_intercept(y - M[:, columns] @ coef, y, costs, noise=1e-9)
    return SolverResult((weights, np.array(intercept)), curve, converged=True)


def _solve(M: Floats, y: Floats, costs: Floats) -> tuple[Floats, float, Floats]:
    """Solve the program over w = u - v, u, v >= 0, b and the slacks; also return its duals."""
    n, k = M.shape
    signed = y[:, None] * M
    table = sparse.hstack(
        [sparse.csc_array(np.hstack([-signed, signed, -y[:, None]])), -sparse.eye_array(n)],
        format="csc",
    )
    bounds = np.zeros((2 * k + 1 + n, 2))
    bounds[:, 1] = np.inf
    bounds[2 * k, 0] = -np.inf
    cost = np.concatenate([np.ones(2 * k), [0.0], costs])
    found = linprog(cost, table, -np.ones(n), bounds=bounds, method="highs-ds")
    return found.x[:k] - found.x[k : 2 * k], found.fun, -found.ineqlin.marginals


def _largest(values: Floats, number: int) -> Ints:
    return np.argsort(-values, kind="stable")[:number]
