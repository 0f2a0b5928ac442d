r"""A small dense quadratic program: Mehrotra's predictor-corrector interior point method.

.. math:: \min_x \tfrac12 x' H x + q' x \quad\text{s.t.}\quad A x = b, \; x \ge 0
"""

import numpy as np

from bagwise._common.types import Floats


def solve_small_qp(
    H: Floats, q: Floats, A: Floats, b: Floats, *, tol: float = 1e-10, max_iter: int = 100
) -> tuple[Floats, Floats]:
    """Solve a convex quadratic program of at most a few hundred variables.

    Parameters
    ----------
    H : ndarray of shape (n, n)
        Positive semi-definite.
    q : ndarray of shape (n,)
        The linear part.
    A, b : ndarray of shape (m, n), (m,)
        The equations, independent of each other.
    tol : float, default=1e-10
        Relative size of residuals and gap at which to stop.
    max_iter : int, default=100
        Maximum number of steps.

    Returns
    -------
    x : ndarray of shape (n,)
        The solution.
    y : ndarray of shape (m,)
        The multipliers of the equations: entries of H x + q - A' y are zero where x is positive.

    Examples
    --------
    >>> import numpy as np
    >>> from reproduction.rivals.solvers.small_qp import solve_small_qp
    >>> x, y = solve_small_qp(np.eye(2), np.array([-3.0, 0.0]), np.ones((1, 2)), np.array([1.0]))
    >>> x.round(6), y.round(6)
    (array([1., 0.]), array([-2.]))
    """
    n, m = len(q), len(b)
    scale = 1.0 + max(float(np.abs(q).max()), float(np.abs(b).max()))
    x, y, z = np.full(n, scale), np.zeros(m), np.full(n, scale)
    system = np.zeros((n + m, n + m))
    system[n:, :n], system[:n, n:] = A, -A.T
    for _ in range(max_iter):
        dual, primal, gap = H @ x + q - A.T @ y - z, A @ x - b, float(x @ z) / n
        if max(np.abs(dual).max(), np.abs(primal).max(), gap) <= tol * scale:
            break
        system[:n, :n] = H + np.diag(z / x)

        def step(complement: Floats) -> tuple[Floats, Floats, Floats]:
            """Newton step towards x z = x z + complement."""
            right = np.concatenate([complement / x - dual, -primal])  # noqa: B023
            found = np.linalg.solve(system, right)
            dx = found[:n]
            return dx, found[n:], (complement - z * dx) / x  # noqa: B023

        try:
            dx, dy, dz = step(-x * z)
        except np.linalg.LinAlgError:  # badly scaled: no step can be computed
            break
        affine = float((x + _reach(x, dx) * dx) @ (z + _reach(z, dz) * dz)) / n
        centre = (affine / gap) ** 3 * gap
        dx, dy, dz = step(centre - x * z - dx * dz)
        length = 0.995 * min(_reach(x, dx), _reach(z, dz))
        x, y, z = x + length * dx, y + length * dy, z + length * dz
    return x, y


def _reach(x: Floats, dx: Floats) -> float:
    """Longest step along dx, at most 1, that keeps x non-negative."""
    shrinking = dx < 0
    return min(1.0, float(np.min(-x[shrinking] / dx[shrinking]))) if shrinking.any() else 1.0
