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

from typing import Any

import numpy as np

from bagwise import compiled
from bagwise._common.memory import as_float64
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.bags import Bags
from bagwise.engines import Checkpoint, Parts, place, retry_on_new_parts
from bagwise.engines.arrays import like, product
from bagwise.solvers.margin.feature_space import (
    FeatureSpace,
    KernelFeatures,
    LinearFeatures,
    dense_gram,
)
from bagwise.solvers.margin.misvm import bag_margin
from bagwise.solvers.margin.one_sided_parts import OneSidedKernelPart, OneSidedPart
from bagwise.solvers.margin.primal_dual import KernelSpace, LinearSpace, alternate_directions
from bagwise.solvers.margin.primal_dual_parts import Problem
from bagwise.solvers.result import SolverResult, total_curve

MU, RHO, MAX_ITER = 1e-3, 1.02, 2000  # defaults: first penalty, its growth, iterations
AFFORDABLE = 1e11  # operations of an eigendecomposition (about 9 d^3) for exact updates
START = 1e-3  # norm of the first w
TINY = float(np.finfo(np.float32).tiny)
MAX_ROUNDS = 50  # of updating witnesses, after the ADMM
TOL = 1e-6  # tolerance on the margins of the SVM for given witnesses


def one_sided(
    space: LinearSpace,
    signs: Floats,
    *,
    C: float,
    mu: float,
    rho: float,
    max_iter: int,
    tol: float,
    exact: bool,
    fit_intercept: bool,
    weights: Floats,
    track: Any = iter,
    checkpoint: Any = None,
) -> SolverResult:
    """Run the ADMM until the constraints hold to a relative `tol`.

    Parameters
    ----------
    space : LinearSpace or KernelSpace
        The bags.
    signs : ndarray of shape (n_bags, n_columns)
        Y: 1 if a bag contains the concept of the column, -1 if not.
    C, mu, rho : float
        Cost of a margin error, penalty of the constraints, its growth per iteration.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Relative tolerance on the constraints.
    exact : bool
        Whether W is updated by a linear system (True) or by one optimal gradient step.
    fit_intercept : bool
        Whether b is fitted.
    weights : ndarray of shape (n_bags,)
        Weights of the bags: a weight of 2 is equivalent to a repeated bag.
    track : callable, default=iter
        Wraps the iterations, to show progress.
    checkpoint : path, default=None
        File to save intermediate results in, and to resume from.

    Returns
    -------
    SolverResult
        ``solution = (W, b)``; `objective_curve` is J.
    """
    n_bags, n_columns = signs.shape
    offsets = space.bags.offsets
    problem = Problem(offsets, np.zeros(n_bags, np.int64), weights, n_columns, shared=True)
    n_instances = weights * np.diff(offsets)
    total = np.full(n_columns, n_instances.sum())
    # If a column has no bags of one sign, its mean is zero.
    shares = np.array([1 / np.maximum(n_instances @ (signs == sign), TINY) for sign in (1, -1)])
    part = OneSidedKernelPart if isinstance(space, KernelSpace) else OneSidedPart
    settings = "one-sided pdMISVM", C, mu, rho, exact, fit_intercept, n_columns
    with place(space.bags, part, signs.astype(np.float64), weights, cost=C) as parts:

        def start(used: Any) -> Any:
            return retry_on_new_parts(parts, lambda: _mean_difference(space, parts, shares, used))

        return alternate_directions(
            space, parts, problem, total, start, C=C, mu=mu, rho=rho, max_iter=max_iter, tol=tol,
            exact=exact, fit_intercept=fit_intercept, track=track,
            file=None if checkpoint is None else Checkpoint(checkpoint, settings),
        )  # fmt: skip


def _mean_difference(space: LinearSpace, parts: Parts, shares: Floats, used: Any) -> Any:
    """A small initial W: mean instance of bags with the concept minus that of bags without it."""
    W = parts.total("mean_difference", *shares) * used
    parts.do("begin", W)
    norms = space.squared_norms(parts, W, 0.0)
    return like(START / np.sqrt(np.maximum(norms, TINY))[:, None], W) * W


def polished(bags: Bags, signs: Floats, start: tuple[Array, ...], costs: Floats) -> SolverResult:
    """Lower J by the concave-convex procedure of MI-SVM; never return a worse point.

    -max_j s_ij is concave for a bag with the concept: if its best instance is fixed, the rest is
    convex, and its minimum is not above J at the start. The procedure ends in a local minimum, so
    it also runs from the start of MI-SVM, the means of the bags, and the lower result is kept.

    Parameters
    ----------
    bags : Bags
        The bags.
    signs : ndarray of shape (n_bags, n_columns)
        Y.
    start : tuple (W, b)
        Starting point, of shape (n_columns, n_features) and (n_columns,).
    costs : ndarray of shape (n_bags,)
        C times the weight of each bag.

    Returns
    -------
    SolverResult
        ``solution = (W, b)``; `objective_curve` is J after each round.
    """
    W, b = (np.array(array, dtype=np.float64) for array in start)
    scores = np.asarray(product(bags.instances, W), np.float64) + b
    before = column_objectives(W, scores, bags.offsets, signs, costs)
    space = LinearFeatures(as_float64(bags.instances))
    results = []
    for m, sign in enumerate(signs.T):
        if np.all(sign == sign[0]):  # optimal: w = 0, and b at zero loss
            W[m], b[m], result = 0.0, sign[0], SolverResult((), [0.0], converged=True)
        else:
            starts = best_rows(scores[:, m], bags.offsets)[sign > 0], None
            result = min(
                (
                    bag_margin(
                        space, bags.offsets, sign > 0, costs,
                        slack_per_bag=True, max_iter=MAX_ROUNDS, tol=TOL, witnesses=witnesses,
                    )
                    for witnesses in starts
                ),
                key=lambda result: result.objective_curve.min(),
            )  # fmt: skip
            if min(result.objective_curve) < before[m]:
                coef, intercept = result.solution
                W[m : m + 1], b[m : m + 1] = space.planes(coef[None], np.atleast_1d(intercept))
        results.append(result)
    curve = np.minimum(np.minimum.accumulate(total_curve(results)), before.sum())
    converged = all(result.converged for result in results)
    return SolverResult((W.astype(start[0].dtype), b), curve, converged)


def primal_dual_witnesses(
    space: FeatureSpace, offsets: Ints, positive: Bools, costs: Floats, *, C: float
) -> Ints:
    """Find the best instance of each positive bag by the one-sided primal-dual method.

    Parameters
    ----------
    space : FeatureSpace
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive; both kinds must occur.
    costs : ndarray of shape (n_bags,)
        C of each bag.
    C : float
        The cost without bag weights.

    Returns
    -------
    ndarray of int of shape (n_positive_bags,)
        Row of each witness.
    """
    rows: Any = space.rows
    if isinstance(space, KernelFeatures):
        rows = dense_gram(space)
    bags = Bags(rows, offsets)
    exact = 9.0 * float(bags.n_features) ** 3 <= AFFORDABLE
    result = one_sided(
        KernelSpace(bags) if isinstance(space, KernelFeatures) else LinearSpace(bags),
        np.where(positive, 1.0, -1.0)[:, None],
        C=C, mu=MU, rho=RHO, max_iter=MAX_ITER, tol=1e-4, exact=exact, fit_intercept=True,
        weights=costs / C,
    )  # fmt: skip
    W, _ = result.solution
    return best_rows(product(rows, W)[:, 0], offsets)[positive]


def column_objectives(
    W: Floats, scores: Floats, offsets: Ints, signs: Floats, costs: Floats
) -> Floats:
    """Objective J of each column of W."""
    best = compiled.segments.maximum(scores, offsets)
    return 0.5 * (W**2).sum(axis=1) + costs @ np.maximum(0.0, 1.0 - signs * best)


def best_rows(scores: Floats, offsets: Ints) -> Ints:
    """Row of the highest-scoring instance of each bag."""
    return offsets[:-1] + compiled.segments.argmax(scores, offsets)
