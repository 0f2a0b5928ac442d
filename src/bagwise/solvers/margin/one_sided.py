"""The one-sided primal-dual MI-SVM: the ADMM of pdMISVM for the problem of MI-SVM.

    J(W, b) = 1/2 sum_m |w_m|^2 + C sum_i v_i sum_m (1 - Y_im max_j s_ij^m)_+ ,  Y_im = 1 or -1

with s_ij^m = w_m . x_ij + b_m. A column of W is a concept, and only its presence is evidence: an
instance can raise the score of its bag but never lower it. The ADMM has two splitting variables, t
for the scores and q for max_j t_ij, with multipliers theta and sigma:

- w fits t + theta/mu; all columns share the system I/mu + X'X.
- q is the proximal point of the hinge at max t - sigma/mu.
- t is closest to phi = s - theta/mu with a maximum close to q + sigma/mu: the largest entry is
  raised, or all entries above a level are clipped to it.

Several instances of a negative bag may be active at a time, so the copy t of the scores has a
multiplier for each instance. Most are zero: only instances that are clipped to the margin of their
bag, or raised to it, have one.
"""

from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from bagwise import loops
from bagwise._common.types import Array, Floats
from bagwise.bags import Bags
from bagwise.compute import Parts, in_blocks, place, rows_of, to_numpy
from bagwise.compute.arrays import beside, like
from bagwise.compute.tensors import torch
from bagwise.loops.arguments import Settings
from bagwise.loops.threads import bag_bounds, even_bounds, library_cores, run_blocks
from bagwise.solvers.margin import primal_dual
from bagwise.solvers.result import SolverResult

FEW = 0.25  # share of non-zeros in the residual up to which the product with X skips zeros
START = 1e-3  # norm of the first w
TINY = float(np.finfo(np.float32).tiny)


class _OneSided(primal_dual.BasePart):
    """State of numpy and torch parts, in addition to the state shared with pdMISVM.

    Parameters
    ----------
    bags : Bags
        The bags; for a kernel, the instances are rows of the kernel matrix.
    signs : ndarray of shape (n_bags, n_columns)
        1 if a bag contains the concept of the column, -1 if not.
    weights : ndarray of shape (n_bags,)
        Weight of each bag.

    Attributes
    ----------
    scores, theta : array of shape (n_instances, n_columns)
        X W' + b, and the multipliers of its copy t.
    max_t, sigma : array of shape (n_bags, n_columns)
        The maximum of t, and the multiplier of q = max t.
    changed : array of shape (n_instances, n_columns)
        Also the residual, which overwrites the last change of the scores.
    """

    STATE = ("scores", "theta", "max_t", "sigma")

    def __init__(self, bags: Bags, signs: Floats, weights: Floats) -> None:
        nobody = np.zeros(len(signs), np.int64)  # bags have no classes
        super().__init__(bags, nobody, weights, n_columns=signs.shape[1], n_copies=0)
        self.signs = signs

    def begin(self, W: Any) -> None:
        """Set the initial state: the copy equals the scores, multipliers are zero."""
        self.changed = None  # free the array of `mean_difference` first
        self.scores, _, self.max_t = self._first_scores(W)
        self.theta, self.sigma = 0 * self.scores, 0 * self.max_t
        self._allocate()

    def mean_difference(self, up: Floats, down: Floats) -> Any:
        """Sum of the instances, times `up` in bags with the concept, times -`down` in others."""
        shares = self.problem.weights[:, None] * np.where(self.signs > 0, up, -down)
        shares = np.repeat(shares, self.bags.sizes, axis=0)
        self.changed = beside(shares.astype(str(self.X.dtype).removeprefix("torch.")), self.X)
        return self.project()[0]


class TritonOneSidedPart(_OneSided, primal_dual.TritonPrimalDualPart):
    """All bags on a device, with a Triton kernel that loops over bags."""

    def __init__(self, bags: Bags, signs: Floats, weights: Floats) -> None:
        super().__init__(bags, signs, weights)
        self.column_signs = beside(np.ascontiguousarray(signs, np.float64), self.X)

    def project(self) -> tuple[Any, Floats]:
        """Compute residual' X and the sums of the residual, per column."""
        sums = self.changed.sum(dim=0, dtype=torch.float64)
        return self.changed.T @ self.X, to_numpy(sums)

    def update(self, settings: Settings) -> tuple[Floats, Any, Floats]:
        """Update q, t and the multipliers, then `project`."""
        from bagwise.solvers.margin import one_sided_kernels

        settings = beside(np.hstack(settings), self.X)
        found = to_numpy(one_sided_kernels.update_bags(self, settings))
        return found[:3].sum(axis=1), self.changed.T @ self.X, found[3]


class OneSidedPart(_OneSided, primal_dual.PrimalDualPart):
    """Bags in this process or on a worker, with compiled loops over bags."""

    @staticmethod
    def tensor_part(bags: Bags, signs: Floats, *per_bag: Any) -> primal_dual.BasePart:
        """The part of bags on a device."""
        if primal_dual.runs_triton(bags, signs.shape[1]):
            return TritonOneSidedPart(bags, signs, *per_bag)
        return OneSidedPart(bags.to("numpy"), signs, *per_bag)

    def _residual_matrix(self) -> sparse.csr_array:
        return sparse.csr_array(self.changed.T)

    def update(self, settings: Settings) -> tuple[Array, Array, Array]:
        """Update q, t and the multipliers, then `project`; each thread does both for its bags."""
        if sparse.issparse(self.X) or in_blocks(self.bags):
            return super().update(settings)
        offsets = self.problem.offsets

        def work(start: int, stop: int) -> tuple[Array, Array]:
            self._update_some(start, stop, settings)
            rows = slice(int(offsets[start]), int(offsets[stop]))
            return _times(self.changed[rows], self.X[rows]), _sums(self.changed[rows])

        with library_cores(1):
            found = run_blocks(work, bag_bounds(offsets, self.scores.size))
        projected, sums = (sum(arrays) for arrays in zip(*found, strict=True))
        return self.report.sum(axis=0), projected, sums

    def _residual_sums(self) -> Floats:
        return _sums(self.changed)

    def _project_bags(self, block: slice, X: Array) -> Array:
        residual = self.changed[rows_of(self.bags, block)]
        bounds = even_bounds(len(X), X.size)
        return sum(run_blocks(lambda i, j: _times(residual[i:j], X[i:j]), bounds))

    def _update_some(self, start: int, stop: int, settings: Settings) -> None:
        p, state = self.problem, (self.scores, self.changed, self.theta, self.max_t, self.sigma)
        bags = start, stop, p.offsets, self.signs, p.weights
        loops.one_sided.update_bags(*bags, settings, *state, self.report)


class OneSidedKernelPart(OneSidedPart, primal_dual.KernelPart):
    """`OneSidedPart` for a kernel: W contains coefficients, and X' residual is the residual."""

    tensor_part: ClassVar[Any] = None
    update = primal_dual.PrimalDualPart.update


def _times(residual: Array, X: Array) -> Array:
    """Compute residual' X for some rows, on one core."""
    if np.count_nonzero(residual) > FEW * residual.size:
        return residual.T @ X
    out = np.zeros((residual.shape[1], X.shape[1]), X.dtype)
    loops.one_sided.project(0, len(X), X, residual, out)
    return out


def _sums(residual: Array) -> Floats:
    """The sum of each column; several times faster than ``residual.sum(axis=0)``."""
    return np.einsum("im->m", residual, dtype=np.float64)


def one_sided(
    space: primal_dual.LinearSpace, signs: Floats, *, weights: Floats, **options: Any
) -> SolverResult:
    """Run the ADMM until the constraints hold to a relative tolerance.

    Parameters
    ----------
    space : LinearSpace or KernelSpace
        The bags.
    signs : ndarray of shape (n_bags, n_columns)
        Y: 1 if a bag contains the concept of the column, -1 if not.
    weights : ndarray of shape (n_bags,)
        Weights of the bags: a weight of 2 is equivalent to a repeated bag.
    **options
        As for `alternate_directions`.

    Returns
    -------
    SolverResult
        ``solution = (W, b)``; `objective_curve` is J.
    """
    n_bags, n_columns = signs.shape
    nobody = np.zeros(n_bags, np.int64)
    problem = primal_dual.Problem(space.bags.offsets, nobody, weights, n_columns, n_copies=0)
    n_instances = weights * space.bags.sizes
    # If a column has no bags of one sign, its mean is zero.
    shares = np.array([1 / np.maximum(n_instances @ (signs == sign), TINY) for sign in (1, -1)])
    part = OneSidedKernelPart if isinstance(space, primal_dual.KernelSpace) else OneSidedPart
    with place(space.bags, part, signs.astype(np.float64), weights) as parts:
        start = partial(_mean_difference, space, parts, shares)
        return primal_dual.alternate_directions(space, parts, problem, start, **options)


def _mean_difference(
    space: primal_dual.LinearSpace, parts: Parts, shares: Floats, used: Any
) -> Any:
    """A small initial W: mean instance of bags with the concept minus bags without it."""
    W = parts.step("mean_difference", *shares) * used
    parts.do("begin", W)
    norms = space.squared_norms(parts, W, 0.0)
    return like(START / np.sqrt(np.maximum(norms, TINY))[:, None], W) * W
