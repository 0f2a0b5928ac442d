"""The ratio of two sums of norms, minimised over a projection (M-C2B, Wang, Nie, Huang 2012)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from bagwise.solvers.result import SolverResult

__all__ = ["minimise_norm_ratio"]

# A row shorter than this share of the mean counts as that long, in both sums: its direction is
# not known. Rows of zeros then cost nothing and pull nowhere.
SHORTEST = 1e-9


def minimise_norm_ratio(
    A: NDArray[np.float64],
    B: NDArray[np.float64],
    *,
    n_components: int | None,
    reg: float,
    max_iter: int,
    tol: float,
) -> SolverResult:
    r"""Find U with short rows of AU and long rows of BU, all in Euclidean norm, not squared.

    .. math:: \min_U \lambda(U) = \frac{\sum_i |a_i U| + \rho \sum_k |e_k U|}{\sum_j |b_j U|}

    With :math:`\lambda` fixed, the numerator lies below a quadratic and the denominator above a
    linear function that touch at the present U; minimising the difference of these solves
    :math:`2 A^\top D A\,U = \lambda B^\top S` and never raises the ratio.

    Parameters
    ----------
    A, B : ndarray of shape (n_rows, n_features)
        Differences that should become short, and long.
    n_components : int or None
        Number of columns of U; None for as many as features.
    reg : float
        Size of the second term, as a share of the first one for U = I. It keeps U from directions
        that rows of A never take.
    max_iter : int
        Budget of steps.
    tol : float
        The end comes when a step lowers the ratio by less than this share of it.

    Returns
    -------
    SolverResult
        ``solution`` is (U,), scaled so that the mean norm of the rows of BU is 1; the curve holds
        the ratio of the means.
    """
    n_features = A.shape[1]
    ridge = reg * np.sqrt((A**2).sum(axis=1)).sum() / n_features
    A = np.vstack([A, max(ridge, np.finfo(float).tiny) * np.eye(n_features)])
    U = np.eye(n_features)
    if n_components is not None and n_components < n_features:
        U = np.linalg.eigh(B.T @ B)[1][:, : -n_components - 1 : -1]
    n_A, curve, converged = len(A) - n_features, [], False
    U /= _lengths(B @ U).mean()
    for _ in range(max_iter):
        short, BU = _lengths(A @ U), B @ U
        long = _lengths(BU)
        ratio = short.sum() / long.sum()
        curve.append(ratio * len(B) / n_A)
        if len(curve) > 1 and curve[-2] - curve[-1] <= tol * curve[-2]:
            converged = True
            break
        normal = (A / short[:, None]).T @ A  # 2 A'DA
        U = ratio * cho_solve(cho_factor(normal), B.T @ (BU / long[:, None]))
        U /= _lengths(B @ U).mean()
    return SolverResult(
        solution=(U,), objective_curve=np.array(curve), n_iter=len(curve), converged=converged
    )


def _lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sqrt((rows**2).sum(axis=1) + SHORTEST**2)
