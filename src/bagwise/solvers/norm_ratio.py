"""The ratio of two sums of norms, minimised over a projection (M-C2B, Wang, Nie, Huang 2012)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from bagwise.solvers.result import SolverResult

__all__ = ["minimise_norm_ratio", "widest_directions"]

# A row shorter than this share of the mean counts as that long, in both sums: its direction is
# not known. Rows of zeros then cost nothing and pull nowhere.
SHORTEST = 1e-9


def minimise_norm_ratio(
    A: NDArray[np.float64],
    B: NDArray[np.float64],
    *,
    n_components: int,
    orthonormal: bool,
    reg: float,
    max_iter: int,
    tol: float,
) -> SolverResult:
    r"""Find U that shortens the rows of A and lengthens those of B, norms not squared.

    .. math:: \min_U \lambda(U) = \frac{\sum_i |a_i U|}{\sum_j |b_j U|}

    With :math:`\lambda` fixed, the numerator lies below a quadratic and the denominator above a
    linear function that touch at the present U. A step that lowers the difference of these never
    raises the ratio. Unconstrained (the algorithm as printed) it solves
    :math:`N U = C`, :math:`N = 2 A^\top D A`, :math:`C = \lambda B^\top S`; the columns of U then
    become parallel, since one direction alone has the smallest ratio. With orthonormal columns U
    becomes the polar factor of :math:`(\alpha I - N) U + C`, :math:`\alpha` the largest eigenvalue
    of N.

    Parameters
    ----------
    A, B : ndarray of shape (n_rows, n_features)
        Differences that should become short, and long.
    n_components : int
        Number of columns of U.
    orthonormal : bool
        Whether these are kept orthonormal.
    reg : float
        Where they are not, the rows of a multiple of the identity join those of A, with this share
        of their sum for U = I: directions that rows of A never take would have the ratio 0.
    max_iter : int
        Budget of steps.
    tol : float
        The end comes when a step lowers the ratio by less than this share of it.

    Returns
    -------
    SolverResult
        ``solution`` is (U,), scaled so that the rows of B become 1 long on average; the curve holds
        the ratio of the means.
    """
    n_A, n_features = A.shape
    if not orthonormal:
        ridge = reg * np.sqrt((A**2).sum(axis=1)).sum() / n_features
        A = np.vstack([A, max(ridge, np.finfo(float).tiny) * np.eye(n_features)])
    U = np.eye(n_features)
    if n_components < n_features:
        U = _leading_directions(B, n_components)
    curve: list[float] = []
    converged = False
    for _ in range(max_iter):
        moved = B @ U
        short, long = _lengths(A @ U), _lengths(moved)
        ratio = short.sum() / long.sum()
        curve.append(ratio * len(B) / n_A)
        if len(curve) > 1 and curve[-2] - curve[-1] <= tol * curve[-2]:
            converged = True
            break
        N = (A / short[:, None]).T @ A
        C = ratio * B.T @ (moved / long[:, None])
        if orthonormal:
            left, _, right = np.linalg.svd(
                np.linalg.eigvalsh(N)[-1] * U - N @ U + C, full_matrices=False
            )
            U = left @ right
        else:
            U = cho_solve(cho_factor(N), C)
            U /= _lengths(B @ U).mean()
    U = U / _lengths(B @ U).mean()
    return SolverResult(
        solution=(U,), objective_curve=np.array(curve), n_iter=len(curve), converged=converged
    )


def widest_directions(B: NDArray[np.float64], n_components: int) -> NDArray[np.float64]:
    """The directions in which rows are longest: where there is nothing to compare them with.

    Parameters
    ----------
    B : ndarray of shape (n_rows, n_features)
        Differences, not all of them zero.
    n_components : int
        Number of directions.

    Returns
    -------
    ndarray of shape (n_features, n_components)
        Orthogonal columns of one length, so that the rows of B become 1 long on average.
    """
    U = _leading_directions(B, n_components)
    return U / _lengths(B @ U).mean()


def _leading_directions(B: NDArray[np.float64], n_components: int) -> NDArray[np.float64]:
    return np.linalg.eigh(B.T @ B)[1][:, : -n_components - 1 : -1]


def _lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sqrt((rows**2).sum(axis=1) + SHORTEST**2)
