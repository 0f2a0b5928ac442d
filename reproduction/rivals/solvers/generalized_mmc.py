r"""GMMC (Valizadegan and Jin 2006): max-margin clustering by a semi-definite program.

The SVM with squared slacks for labels y requires scores g_i = f_i + b + y_i xi_i with g_i^2 >= 1;
squared slacks only add to the diagonal of the kernel, so the problem over all labels is

.. math:: \min_{g, b} \tfrac12 (g - b)' M (g - b) + \tfrac{e}{2 n} (1' g)^2
    \quad\text{s.t.}\quad g_i^2 \ge 1, \qquad M = (K + I / C)^{-1}

where the second term keeps the clusters balanced. Minimised over b it is 1/2 g'Qg, and its Lagrange
dual is the semi-definite program

    max 1/2 sum_i gamma_i    s.t.    Q - diag(gamma) positive semi-definite, gamma >= 0

a lower bound of the problem. The dual of this program is over W = g g', relaxed to any positive
semi-definite matrix. Both are solved by an interior-point method (Helmberg 1996), whose Newton
system has n unknowns; the leading eigenvector of W is rounded to its signs.

References
----------
Helmberg, Rendl, Vanderbei, Wolkowicz. An interior-point method for semidefinite programming. SIAM
Journal on Optimization 6, 1996.
"""

from collections.abc import Iterable

import numpy as np
from scipy import linalg
from scipy.linalg import LinAlgError, solve_triangular
from scipy.sparse.linalg import LinearOperator, eigsh

from bagwise._common.types import Floats
from bagwise.compute.arrays import eigenvectors
from bagwise.exceptions import InputError
from bagwise.loops.threads import one_core_if_few
from bagwise.solvers.margin.feature_space import FeatureSpace
from bagwise.solvers.result import SolverResult
from reproduction.rivals.solvers.linear_algebra import cholesky_inverse, cholesky_solve, dense_gram

DENSE = 100  # number of rows up to which all eigenvalues are computed


def generalized_mmc(
    space: FeatureSpace, *, C: float, balance: float, tol: float, steps: Iterable[int]
) -> SolverResult:
    """Cluster by the semi-definite relaxation.

    Parameters
    ----------
    space : LinearFeatures or KernelFeatures
        The rows.
    C : float
        Cost of a squared slack.
    balance : float
        e: cost of a non-zero mean score.
    tol : float
        Relative duality gap.
    steps : iterable
        One item per allowed Newton step.

    Returns
    -------
    SolverResult
        ``solution`` is (coef of rows, intercept); the curve is 1/2 sum gamma before each step, each
        a lower bound.
    """
    K = dense_gram(space)
    n = len(K)
    K[np.diag_indices(n)] += 1 / C
    with one_core_if_few(K.size):
        try:
            M = cholesky_inverse(linalg.cholesky(K, lower=True))
        except LinAlgError as error:
            raise InputError(
                "the kernel is not positive semi-definite on these rows: choose another kernel or "
                "other parameters."
            ) from error
        columns = M.sum(axis=0)
        Q = M - np.outer(columns, columns / columns.sum()) + balance / n
        _, relaxed, curve, converged = diagonal_bound(Q, tol=tol, steps=steps)
        g = eigenvectors(relaxed, n - 1, n - 1)[1][:, 0]
        g *= np.sqrt(n)
        b = float(columns @ g / columns.sum())
        coef = M @ (g - b)
        return SolverResult((coef, np.array(b)), curve, converged)


def diagonal_bound(
    Q: Floats, *, tol: float, steps: Iterable[int]
) -> tuple[Floats, Floats, Floats, bool]:
    """Maximise 1/2 sum gamma with Z = Q - diag(gamma) positive semi-definite and gamma >= 0.

    The dual is to minimise 1/2 tr(Q W) over positive semi-definite W with diag W - s = 1, s >= 0.
    The iterates follow the central path W Z = mu I, gamma s = mu.

    Parameters
    ----------
    Q : ndarray of shape (n, n)
        Positive definite.
    tol : float
        Relative duality gap.
    steps : iterable
        One item per allowed Newton step.

    Returns
    -------
    gamma : ndarray of shape (n,)
    W : ndarray of shape (n, n)
    curve : ndarray
        The bound before each step.
    converged : bool
    """
    n = len(Q)
    lowest = float(np.linalg.eigvalsh(Q)[0])
    if not lowest > 4 * np.finfo(np.float64).eps * float(np.abs(np.diagonal(Q)).max()):
        raise InputError(
            "the matrix of the semi-definite program is singular to rounding: raise balance, lower "
            "C, or scale the features (StandardScaler)."
        )
    gamma = np.full(n, 0.5 * lowest)
    of_Z = linalg.cholesky(Q - np.diag(gamma), lower=True)
    # Start on the central path, where steps are long; W is feasible after the first full step.
    mu = 1 / float(np.diagonal(cholesky_inverse(of_Z)).mean())
    W, s = mu * cholesky_inverse(of_Z), mu / gamma
    curve: list[float] = []
    for _ in steps:
        Z = Q - np.diag(gamma)
        curve.append(0.5 * float(gamma.sum()))
        gap = float(np.vdot(Z, W) + gamma @ s)
        unmet = float(np.abs(np.diagonal(W) - s - 1).max())
        if gap <= tol * float(gamma.sum()) and unmet <= tol:
            return gamma, W, np.array(curve), True
        try:
            of_Z, of_W = linalg.cholesky(Z, lower=True), linalg.cholesky(W, lower=True)
            Z_inverse = cholesky_inverse(of_Z)
            system = linalg.cholesky(W * Z_inverse + np.diag(s / gamma), lower=True)
        except LinAlgError:  # only due to rounding
            break
        shrink = 0.0  # a predictor step first: its length determines the centring
        for _ in range(2):
            mu = shrink * gap / (2 * n)
            d_gamma = cholesky_solve(
                system, 1 + mu / gamma - mu * np.diagonal(Z_inverse), lower=True
            )
            d_W = mu * Z_inverse - W + np.matmul(W * d_gamma, Z_inverse)
            d_W = 0.5 * (d_W + d_W.T)
            d_s = mu / gamma - s - s / gamma * d_gamma
            up = _length(of_W, d_W, s, d_s)
            down = _length(of_Z, -np.diag(d_gamma), gamma, d_gamma)
            # The gap must not shrink faster than the infeasibility of W.
            shrink = (1 - 0.9 * min(up, down)) ** 2 if unmet < 0.01 else 0.8
        W, s, gamma = W + up * d_W, s + up * d_s, gamma + down * d_gamma
    return gamma, W, np.array(curve), False


def _length(factor: Floats, step: Floats, x: Floats, dx: Floats) -> float:
    """Step length that keeps A = factor factor' positive definite and x positive, with a margin.

    It follows from the lowest eigenvalue of factor^-1 step factor^-T, found by Lanczos iteration.
    """
    n = len(x)

    def seen(v: Floats) -> Floats:
        back = solve_triangular(factor, v, lower=True, trans=1, check_finite=False)
        return solve_triangular(factor, step @ back, lower=True, check_finite=False)

    if n <= DENSE:
        lowest = float(np.linalg.eigvalsh(seen(np.eye(n)))[0])
    else:
        start = np.cos(np.arange(n, dtype=np.float64))  # arbitrary, but the same in every call
        operator = LinearOperator((n, n), matvec=seen, dtype=np.float64)
        lowest = float(eigsh(operator, k=1, which="SA", tol=1e-3, v0=start)[0][0])
    lowest = min(lowest, float(np.min(dx / x)))
    return min(1.0, 0.95 / -lowest) if lowest < 0 else 1.0
