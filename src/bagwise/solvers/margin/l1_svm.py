"""The 1-norm SVM of MILES, a linear program, by column generation."""

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from bagwise._common.types import Bools, Floats, Ints
from bagwise.solvers.margin.max_margin import best_intercept
from bagwise.solvers.result import SolverResult


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
