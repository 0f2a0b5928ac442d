"""The ratio of two sums of norms, minimised over a projection (M-C2B, Wang, Nie, Huang 2012)."""

from functools import cached_property

import numpy as np
from scipy import linalg

from bagwise._common.types import Floats
from bagwise.compute.arrays import eigh
from bagwise.loops.lapack import eigenvectors, with_fixed_signs
from bagwise.solvers.result import SolverResult

# Smooths the norms in both sums, since the direction of a row of zeros is undefined. Such rows then
# add almost nothing to the objective and nothing to its gradient.
SHORTEST = 1e-9


def minimise_norm_ratio(
    A: Floats,
    B: Floats,
    *,
    n_components: int,
    orthonormal: bool,
    reg: float,
    max_iter: int,
    tol: float,
) -> SolverResult:
    r"""Find U that shortens the rows of A relative to the rows of B, with norms not squared.

    .. math:: \min_U \lambda(U) = \frac{\sum_i |a_i U| + \tau |U|_F}{\sum_j |b_j U|}

    Let :math:`N_A = \sum_i a_i a_i^\top / |a_i U|`, and :math:`N_B` alike. A stationary U with
    orthonormal columns spans eigenvectors of :math:`N_A - \lambda N_B`. So each step takes the
    eigenvectors of its smallest eigenvalues. This usually lowers the ratio, but without guarantee.
    If it does not, a majorisation step is made instead, which never raises the ratio. With
    :math:`\lambda` fixed the numerator lies below a quadratic and the denominator above a linear
    function that touch at the current U, and U becomes the polar factor of
    :math:`(\alpha I - N_A + \lambda N_B) U`, :math:`\alpha` the largest eigenvalue of
    :math:`N_A`. Without constraint (the algorithm as published) the minimum of that difference is
    :math:`\lambda N_A^{-1} N_B U`; the columns of U then become parallel, since one direction
    alone has the smallest ratio.

    Parameters
    ----------
    A, B : ndarray of shape (n_rows, n_features)
        Differences that should become short (A) and long (B).
    n_components : int
        Number of columns of U.
    orthonormal : bool
        Whether the columns of U are kept orthonormal.
    reg : float
        The penalty :math:`\tau |U|_F` for U = I, relative to the sum over A. Without it, directions
        orthogonal to the rows of A would have ratio 0.
    max_iter : int
        Maximum number of steps.
    tol : float
        Relative decrease of the ratio at which to stop.

    Returns
    -------
    SolverResult
        ``solution`` is (U,), scaled so that the mean norm of the rows of B is 1; the curve holds
        the ratio, with means instead of sums.
    """
    n_features = A.shape[1]
    penalty = reg * _lengths(A).sum() / np.sqrt(n_features)
    here = _Place(np.eye(n_features), A, B, penalty)
    if n_components < n_features:
        U = here.eigenvectors(n_components) if orthonormal else leading_directions(B, n_components)
        here = _Place(U, A, B, penalty)
    curve, converged = [here.ratio], False
    while len(curve) < max_iter and not converged:
        U = here.eigenvectors(n_components) if orthonormal else here.unconstrained()
        after = _Place(U, A, B, penalty)
        if orthonormal and after.ratio > here.ratio:
            after = _Place(here.polar_factor(), A, B, penalty)
        converged = here.ratio - after.ratio <= tol * here.ratio
        here = after
        curve.append(here.ratio)
    curve_of_means = np.array(curve) * len(B) / len(A)
    return SolverResult((here.U / here.long.mean(),), curve_of_means, converged)


class _Place:
    """A matrix U, its ratio, and the steps from there."""

    def __init__(self, U: Floats, A: Floats, B: Floats, penalty: float) -> None:
        size = np.linalg.norm(U)
        self.U, self.A, self.B, self.shrinkage = U, A, B, penalty / size
        self.short, self.long = _lengths(A @ U), _lengths(B @ U)
        self.ratio = float((self.short.sum() + penalty * size) / self.long.sum())

    @cached_property
    def near(self) -> Floats:
        """N_A; the gradient of the numerator is N_A U."""
        gram = (self.A / self.short[:, None]).T @ self.A
        gram.flat[:: len(gram) + 1] += self.shrinkage
        return gram

    @cached_property
    def far(self) -> Floats:
        """N_B; the gradient of the denominator is N_B U."""
        return (self.B / self.long[:, None]).T @ self.B

    def eigenvectors(self, n_components: int) -> Floats:
        difference = self.near - self.ratio * self.far
        return eigenvectors(difference, 0, n_components - 1)[1]

    def polar_factor(self) -> Floats:
        largest = np.linalg.eigvalsh(self.near)[-1]
        target = largest * self.U - self.near @ self.U + self.ratio * self.far @ self.U
        left, _, right = np.linalg.svd(target, full_matrices=False)
        return left @ right

    def unconstrained(self) -> Floats:
        factor = linalg.cho_factor(self.near, check_finite=False)
        return self.ratio * linalg.cho_solve(factor, self.far @ self.U, check_finite=False)


def widest_directions(B: Floats, n_components: int) -> Floats:
    """Find the directions in which rows are longest, if there are no rows A to compare with.

    Parameters
    ----------
    B : ndarray of shape (n_rows, n_features)
        Differences, not all of them zero.
    n_components : int
        Number of directions.

    Returns
    -------
    ndarray of shape (n_features, n_components)
        Orthogonal columns of equal norm, scaled so that the mean norm of the rows of B is 1.
    """
    U = leading_directions(B, n_components)
    return U / _lengths(B @ U).mean()


def leading_directions(B: Floats, n_components: int) -> Floats:
    """Leading right singular vectors of a table; the principal directions if it is centred.

    Parameters
    ----------
    B : ndarray of shape (n_rows, n_features)
        The table.
    n_components : int
        Number of directions.

    Returns
    -------
    ndarray of shape (n_features, n_components)
    """
    return with_fixed_signs(eigh(B.T @ B)[1][:, : -n_components - 1 : -1])


def _lengths(rows: Floats) -> Floats:
    return np.sqrt((rows**2).sum(axis=1) + SHORTEST**2)
