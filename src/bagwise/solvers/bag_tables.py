"""Machines on a table with a row per bag, or on the kernel between bags.

LIBSVM, with a limit on its steps and an error if its solution is not finite; ridge regression with
a free intercept; and the 1-norm SVM of MILES, a linear program, by column generation.
"""

import warnings
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from bagwise._common.types import Bools, Floats, Ints
from bagwise.exceptions import InputError
from bagwise.solvers.margin.max_margin import best_intercept
from bagwise.solvers.result import SolverResult

# LIBSVM's default limit, ten million steps, takes minutes if features are of order one million.
LEAST_STEPS, STEPS_PER_ROW = 100_000, 100
LEAST_REG = 1e-12  # relative to the mean diagonal: smaller values are lost to rounding
GAP, LOOSE_GAP = 1e-11, 1e-6  # of the linear program, relative: to stop at, and to accept
MOST_STEPS, SHRINKING = 100, 0.1  # a step aims at this share of the gap
TINY = np.finfo(float).tiny


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
        interval of intercepts is optimal, its middle is returned. Not converged if the relative
        gap to the dual objective stays above 1e-6, as costs of very different sizes can make it.
    """
    y = np.where(positive, 1.0, -1.0)
    n_rows, n_features = M.shape
    batch = max(n_rows // 2, 20)
    active = np.zeros(n_features, np.bool_)
    active[_largest(np.abs((y * costs) @ M), batch)] = True
    curve: list[float] = []
    while True:
        columns = np.flatnonzero(active)
        table = np.empty((n_rows, len(columns) + 1))
        for place, column in enumerate(columns):  # one by one: M[:, columns] would be a copy of M
            table[:, place] = M[:, column]
        table[:, -1] = 1.0
        table *= y[:, None]
        coef, objective, prices = _solve(table, costs)
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
    scores = M @ weights
    intercept = best_intercept(y - scores, y, costs, noise=1e-9)
    losses = np.maximum(0.0, 1 - y * (scores + intercept))
    least = min(objective, np.abs(weights).sum() + costs @ losses)  # rounding times large costs
    converged = bool(least - prices.sum() <= LOOSE_GAP * least)
    return SolverResult((weights, np.array(intercept)), curve, converged)


def _solve(S: Floats, costs: Floats) -> tuple[Floats, float, Floats]:
    """Solve the program by a primal-dual interior-point method; also return its dual variables.

    S has the rows y_i (m_i, 1). The dual is to maximise 1'p over 0 <= p <= C, y'p = 0 and
    -1 <= t <= 1 with t = M'(y p). The slacks of the four bounds and their multipliers s, xi, u, v
    (w = u - v) start feasible and stay so. A step costs one product of S with itself.
    """
    n, y = len(S), S[:, -1]
    total = np.where(y > 0, costs[y > 0].sum(), costs[y < 0].sum())
    p = costs / total
    p *= 0.5 * min(float(total.min()), 1 / max(float(np.abs(S.T @ p).max()), TINY))
    t = S[:, :-1].T @ p
    bounds = [n, 2 * n, 2 * n + len(t)]
    slack = np.concatenate([p, costs - p, 1 - t, 1 + t])
    dual = np.repeat([1.0, 2.0, 2 * p.sum() / n], [n, n, 2 * len(t)])
    before = np.inf
    for _ in range(MOST_STEPS):
        gap, value = float(slack @ dual), float(slack[:n].sum())
        if gap <= GAP * value or LOOSE_GAP * value >= gap > 0.9 * before:  # no more digits
            break
        before = gap
        ratios, residual = dual / slack, SHRINKING * gap / len(slack) / slack - dual
        s, xi, u, v = np.split(ratios, bounds)
        low, high, above, below = np.split(residual, bounds)
        theta, free = s + xi, np.append(1 / (u + v), 0.0)  # y'p = 0 is not free
        there = np.append(above - below, 0.0)
        scaled = S / np.sqrt(theta[:, None])
        system = scaled.T @ scaled  # of a product with itself BLAS computes half
        system[np.diag_indices(len(system))] += free + LEAST_REG * (np.diagonal(system) + free)
        right = S.T @ ((low - high) / theta) + free * there
        factor = linalg.cho_factor(system, overwrite_a=True, check_finite=False)
        found = linalg.cho_solve(factor, right, check_finite=False)
        dp, dt = (low - high - S @ found) / theta, (free * (found - there))[:-1]
        move = np.concatenate([dp, -dp, -dt, dt])
        values, steps = np.stack([slack, dual]), np.stack([move, residual - ratios * move])
        ends = np.divide(-values, steps, out=np.full(steps.shape, np.inf), where=steps < 0)
        # To .995 of the way to a value of 0 at most.
        slack, dual = values + np.minimum(1.0, 0.995 * ends.min(axis=1, keepdims=True)) * steps
    _, xi, u, v = np.split(dual, bounds)
    coef = np.where(np.maximum(u, v) > np.minimum(*np.split(slack[2 * n :], 2)), u - v, 0.0)
    return coef, float(u.sum() + v.sum() + costs @ xi), slack[:n]


def _largest(values: Floats, number: int) -> Ints:
    return np.argsort(-values, kind="stable")[:number]
