"""Leading eigenvectors of a large symmetric matrix whose eigenvalues may repeat."""

from typing import Any

import numpy as np
from scipy import linalg

from bagwise._common.types import Array
from bagwise.loops.lapack import with_fixed_signs
from bagwise.loops.threads import one_core_if_small
from bagwise.solvers.result import SolverResult

DEPTH = 6  # blocks added per restart


def leading_eigenvectors(
    operator: Any, n_vectors: int, rng: np.random.RandomState, *, tol: float, max_iter: int = 100
) -> SolverResult:
    """Find the eigenvectors of the largest (algebraic) eigenvalues, by block Krylov-Schur.

    The multiplicity of the eigenvalue 1 is the number of connected components of the graph, and
    well separated clusters are similar. A method that multiplies single vectors finds such an
    eigenvalue only once. This one multiplies blocks of vectors, and accepts the result only if new
    random vectors, orthogonal to it, add nothing.

    Parameters
    ----------
    operator : object with ``shape``, ``dtype``, ``@`` and ``toarray``
        The symmetric matrix; `toarray` is called for small ones only.
    n_vectors : int
        Number of eigenvectors; at most the size of the matrix.
    rng : RandomState
        Random generator for the vectors.
    tol : float
        Tolerance on the residual of each eigenvector, relative to its eigenvalue (or to a hundredth
        of the largest, if that is larger).
    max_iter : int, default=100
        Maximum number of restarts.

    Returns
    -------
    SolverResult
        ``solution`` is (vectors, values), largest first, with the signs of
        `lapack.with_fixed_signs`; the objective is the sum of the eigenvalues (Eq. 13), which never
        decreases.
    """
    n = operator.shape[0]
    block = n_vectors // 4 + 4
    kept = block * (n_vectors // block + 2)
    size = kept + DEPTH * block
    if n <= size + block:  # the Krylov space would be the whole space
        values, vectors = linalg.eigh(operator.toarray())
        leading = with_fixed_signs(vectors[:, ::-1][:, :n_vectors]), values[::-1][:n_vectors]
        return SolverResult(leading, [leading[1].sum()], True)
    basis = np.zeros((n, size), operator.dtype, order="F")
    projected = np.zeros((size, size))  # basis' A basis
    filled, fresh = 0, _random_block(block, basis[:, :0], rng)
    curve: list[float] = []
    verified, converged = -np.inf, False
    with one_core_if_small(basis):
        while not converged and len(curve) < max_iter:
            while filled < size:
                step = slice(filled, filled + block)
                basis[:, step] = fresh
                filled += block
                fresh, shares, coupling = _orthonormal(operator @ fresh, basis[:, :filled], rng)
                projected[:filled, step], projected[step, :filled] = shares, shares.T
            values, rotation = linalg.eigh((projected + projected.T) / 2)
            values, rotation = values[::-1][:kept], rotation[:, ::-1][:, :kept]
            basis[:, :kept] = basis @ rotation.astype(basis.dtype)
            curve.append(float(values[:n_vectors].sum()))
            if verified == -np.inf:
                gaps = np.linalg.norm(coupling @ rotation[-block:, :n_vectors], axis=0)
            else:  # random vectors replaced the remaining block
                found = basis[:, :n_vectors]
                gaps = np.linalg.norm(operator @ found - values[:n_vectors] * found, axis=0)
            sizes = np.abs(values[:n_vectors])
            if (gaps <= tol * np.maximum(sizes, 0.01 * sizes.max())).all():
                converged = curve[-1] - verified <= tol * sizes.max()
                verified = curve[-1]
                fresh = _random_block(block, basis[:, :kept], rng)
            projected[:] = 0
            projected[range(kept), range(kept)] = values
            filled = kept
    found = with_fixed_signs(np.ascontiguousarray(basis[:, :n_vectors]))
    return SolverResult((found, values[:n_vectors]), curve, converged)


def _orthonormal(
    block: Array, basis: Array, rng: np.random.RandomState
) -> tuple[Array, Array, Array]:
    """Split a block into basis @ shares + q @ r, with q orthonormal and orthogonal to the basis.

    Two passes are enough unless the block is rank-deficient: q is then filled with random vectors,
    and r with zeros.
    """
    q, shares, r = block, np.zeros((basis.shape[1], block.shape[1])), np.eye(block.shape[1])
    eps = np.finfo(block.dtype).eps
    noise = (100 * eps * max(1.0, float(np.abs(block).max()))) ** 2
    for turn in range(5):
        part = basis.T @ q
        q = q - basis @ part
        shares += part @ r
        squares, axes = linalg.eigh(q.T @ q, check_finite=False)
        lost = squares <= max(10 * eps * squares[-1], noise)
        lengths = np.sqrt(np.where(lost, 1.0, squares)).astype(q.dtype)
        q = q @ (axes / lengths)
        r = (np.where(lost, 0.0, lengths)[:, None] * axes.T) @ r
        q[:, lost] = rng.standard_normal((len(q), int(lost.sum()))) / np.sqrt(len(q))
        if turn > 0 and squares[0] > 0.5:
            break
    return q, shares, r


def _random_block(n_columns: int, basis: Array, rng: np.random.RandomState) -> Array:
    draw = rng.standard_normal((len(basis), n_columns)).astype(basis.dtype)
    return _orthonormal(draw, basis, rng)[0]
