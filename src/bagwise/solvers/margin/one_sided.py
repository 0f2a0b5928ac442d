"""The one-sided primal-dual MI-SVM: the ADMM of pdMISVM for the problem of MI-SVM.

    J(W, b) = 1/2 sum_m |w_m|^2 + C sum_i v_i sum_m (1 - Y_im max_j s_ij^m)_+ ,  Y_im = 1 or -1

with s_ij^m = w_m . x_ij + b_m. A column of W is a concept, and only its presence is evidence: an
instance can raise the score of its bag but never lower it. The ADMM has two splitting variables, t
for the scores and q for max_j t_ij, with multipliers theta and sigma:

- w fits t + theta/mu; all columns share the system I/mu + X'X.
- q is the proximal point of the hinge at max t - sigma/mu.
- t is closest to phi = s - theta/mu with a maximum close to q + sigma/mu: the largest entry is
  raised, or all entries above a level are clipped to it.
"""

from functools import partial
from typing import Any

import numpy as np

from bagwise._common.types import Floats
from bagwise.compute import Parts, place
from bagwise.compute.arrays import like
from bagwise.solvers.margin.one_sided_parts import OneSidedKernelPart, OneSidedPart
from bagwise.solvers.margin.primal_dual import KernelSpace, LinearSpace, alternate_directions
from bagwise.solvers.margin.primal_dual_parts import Problem
from bagwise.solvers.result import SolverResult

START = 1e-3  # norm of the first w
TINY = float(np.finfo(np.float32).tiny)


def one_sided(
    space: LinearSpace, signs: Floats, *, weights: Floats, **options: Any
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
    problem = Problem(space.bags.offsets, nobody, weights, n_columns, n_copies=0)
    n_instances = weights * space.bags.sizes
    # If a column has no bags of one sign, its mean is zero.
    shares = np.array([1 / np.maximum(n_instances @ (signs == sign), TINY) for sign in (1, -1)])
    part = OneSidedKernelPart if isinstance(space, KernelSpace) else OneSidedPart
    with place(space.bags, part, signs.astype(np.float64), weights) as parts:
        start = partial(_mean_difference, space, parts, shares)
        return alternate_directions(space, parts, problem, start, **options)


def _mean_difference(space: LinearSpace, parts: Parts, shares: Floats, used: Any) -> Any:
    """A small initial W: mean instance of bags with the concept minus that of bags without it."""
    W = parts.step("mean_difference", *shares) * used
    parts.do("begin", W)
    norms = space.squared_norms(parts, W, 0.0)
    return like(START / np.sqrt(np.maximum(norms, TINY))[:, None], W) * W
