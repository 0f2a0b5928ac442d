r"""The SVM of SVMlin (Sindhwani and Keerthi 2006): deterministic annealing of label probabilities.

.. math:: \min_{w, p} \tfrac12 |w|^2 + \tfrac{C_1}2 \sum_{labelled} (1 - y_i f_i)_+^2
    + \tfrac{C_2}2 \sum_{unlabelled} \bigl(p_j (1 - f_j)_+^2 + (1 - p_j) (1 + f_j)_+^2\bigr)
    - C_2 T \sum_{unlabelled} H(p_j)

subject to mean p = share of positive rows, H the entropy. The constant feature 1 represents the
intercept. At each temperature T the solver alternates between the probabilities for given w and w
for given probabilities until the probabilities converge; then T decreases. At high temperatures all
labels are equally likely; at low ones each is certain.

p has a closed form up to one number, the multiplier of its mean: p = sigmoid((nu - g) / T) with
2 g = (1 - f)_+^2 - (1 + f)_+^2. w is found by Newton's method: the loss is piecewise quadratic, and
each step is a least-squares problem, solved by conjugate gradients with products of X and X'.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import expit, xlogy

from bagwise._common.types import Floats, Ints
from bagwise.solvers.margin.feature_space import mean_square
from bagwise.solvers.result import SolverResult
from reproduction.rivals.solvers.line_search import line_search

HOT = 10.0
COOLING = 1.5
MAX_STAGES = 30
MAX_TURNS = 100
EPS = float(np.finfo(np.float64).eps)
SETTLED = 1e-6  # divergence of probabilities between turns, and entropy, at which to stop


def squared_hinge_svm(
    X: Any, up: Floats, down: Floats, w: Floats, *, tol: float, max_iter: int = 200
) -> tuple[Floats, Floats, bool]:
    """Minimise 1/2 |w|^2 + 1/2 sum up (1 - f)_+^2 + 1/2 sum down (1 + f)_+^2, f = X w[:-1] + w[-1].

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features)
        The rows.
    up, down : ndarray of shape (n_rows,)
        Cost of a row as a positive and as a negative one.
    w : ndarray of shape (n_features + 1,)
        Starting point.
    tol : float
        Norm of the gradient at which to stop, relative to that at w = 0.
    max_iter : int, default=200
        Maximum number of Newton steps.

    Returns
    -------
    w : ndarray of shape (n_features + 1,)
    f : ndarray of shape (n_rows,)
    converged : bool
    """
    f = X @ w[:-1] + w[-1]
    enough = tol * float(np.linalg.norm(_project(X, up - down)))
    length_of_X = np.sqrt(X.shape[0] * (1 + mean_square(X)))
    for _ in range(max_iter):
        slopes = _slopes(f, up, down)
        gradient = w - _project(X, slopes)
        size = float(np.linalg.norm(gradient))
        # The gradient cannot be smaller than the rounding error of its terms.
        if size <= max(enough, EPS * length_of_X * float(np.linalg.norm(slopes))):
            return w, f, True
        curvature = up * (f < 1) + down * (f > -1)
        step = _newton_step(X, curvature, gradient, max(0.1 * size, 0.5 * enough))
        way = X @ step[:-1] + step[-1]
        slope = _slope_along(w, step, f, way, up, down)
        length = line_search(slope, slope(0.0))
        if length == 0:  # the step is at the level of rounding
            break
        w, f = w + length * step, f + length * way
    return w, f, False


def probabilities(f: Floats, temperature: float, share: float) -> Floats:
    """Probabilities of being positive, with a given mean, at a temperature.

    Parameters
    ----------
    f : ndarray of shape (n,)
        Scores.
    temperature : float
        T.
    share : float
        The mean of the probabilities, between 0 and 1.

    Returns
    -------
    ndarray of shape (n,)
    """
    g = 0.5 * (np.maximum(0.0, 1 - f) ** 2 - np.maximum(0.0, 1 + f) ** 2) / temperature
    # The mean increases with nu.
    reach = np.log(share / (1 - share))
    low, high = float(g.min()) + reach - 1, float(g.max()) + reach + 1
    nu = brentq(lambda nu: float(expit(nu - g).mean()) - share, low, high, xtol=1e-14)
    return expit(nu - g)


def entropy(p: Floats) -> Floats:
    """The entropy of labels that are positive with these probabilities.

    Parameters
    ----------
    p : ndarray
        Probabilities.

    Returns
    -------
    ndarray of the shape of p
    """
    return -xlogy(p, p) - xlogy(1 - p, 1 - p)


def annealed_svm(
    X: Any, signs: Ints, *, C1: float, C2: float, share: float, tol: float
) -> SolverResult:
    """Learn by deterministic annealing.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features)
        All rows.
    signs : ndarray of shape (n_rows,)
        1, -1, and 0 for unlabelled rows.
    C1, C2 : float
        Cost of a labelled and of an unlabelled row.
    share : float
        Share of positive rows among the unlabelled ones.
    tol : float
        Relative size of the gradient at which an SVM counts as solved.

    Returns
    -------
    SolverResult
        ``solution`` is (weights, intercept, probabilities, temperature of each turn); the curve is
        the objective after each turn, at its temperature.
    """
    unknown = signs == 0
    up, down = (C1 * (sign * signs > 0).astype(np.float64) for sign in (1, -1))
    w, f, converged = squared_hinge_svm(X, up, down, np.zeros(X.shape[1] + 1), tol=tol)

    def objective(T: float) -> float:
        loss = up @ np.maximum(0.0, 1 - f) ** 2 + down @ np.maximum(0.0, 1 + f) ** 2
        return float(0.5 * (w @ w + loss) - C2 * T * entropy(p).sum())

    p = np.full(int(unknown.sum()), share)
    curve, temperatures = [], []
    stages = HOT / COOLING ** np.arange(MAX_STAGES) if len(p) else ()
    for T in stages:
        for _ in range(MAX_TURNS):
            before, p = p, probabilities(f[unknown], T, share)
            up[unknown], down[unknown] = C2 * p, C2 * (1 - p)
            w, f, solved = squared_hinge_svm(X, up, down, w, tol=tol)
            converged &= solved
            curve.append(objective(T))
            temperatures.append(T)
            if _divergence(p, before) < SETTLED:
                break
        if entropy(p).mean() < SETTLED:
            break
    solution = w[:-1], np.array(w[-1]), p, np.array(temperatures)
    return SolverResult(solution, curve or [objective(0.0)], converged)


def _divergence(p: Floats, q: Floats) -> float:
    """Mean Kullback-Leibler divergence of p from q."""
    tiny = np.finfo(np.float64).tiny
    q = np.clip(q, tiny, 1 - 1e-16)
    return float(np.mean(xlogy(p, p / q) + xlogy(1 - p, (1 - p) / (1 - q))))


def _slopes(f: Floats, up: Floats, down: Floats) -> Floats:
    """Minus the derivative of the loss with respect to f."""
    return up * np.maximum(0.0, 1 - f) - down * np.maximum(0.0, 1 + f)


def _project(X: Any, v: Floats) -> Floats:
    """X' v, with the constant feature."""
    return np.append(X.T @ v, v.sum())


def _newton_step(X: Any, curvature: Floats, gradient: Floats, enough: float) -> Floats:
    """Solve (I + X' diag(curvature) X) step = -gradient until the residual is small enough."""
    n = len(gradient)

    def hessian(v: Floats) -> Floats:
        return v + _project(X, curvature * (X @ v[:-1] + v[-1]))

    operator = LinearOperator((n, n), matvec=hessian, dtype=np.float64)
    return cg(operator, -gradient, rtol=0.0, atol=enough, maxiter=10 * n)[0]


def _slope_along(
    w: Floats, step: Floats, f: Floats, way: Floats, up: Floats, down: Floats
) -> Callable[[float], float]:
    """The derivative of the objective at w + t step, as a function of t."""
    at_w, along = float(w @ step), float(step @ step)
    return lambda t: at_w + t * along - float(_slopes(f + t * way, up, down) @ way)
