"""pdMISVM: the primal-dual multi-instance SVM of Brand et al. (2021), Algorithm 1.

    J(W, b) = 1/2 sum_m |w_m|^2 + C sum_i sum_{m != y_i} (1 + max_j s_ij^m - max_j s_ij^{y_i})_+

with s_ij^m = w_m . x_ij + b_m, by a multi-block ADMM. The iterates are as in the paper. The
state is one number and one index per (bag, class) instead of a column of instances, so that an
iteration costs one product of X with a (d x K) matrix.

The state is stored in parts, blocks of whole bags. An iteration calls them twice: the first call
sends a step (K x d) and returns O(K) numbers; the second sends the length of the step and returns
X' times the residual (K x d), which determines the next step.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bagwise._common.memory import available_memory
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.compute import Parts, bytes_in_file, iterate, place, to_numpy
from bagwise.compute.arrays import eigh, like
from bagwise.loops.arguments import Settings
from bagwise.solvers.margin.primal_dual_parts import KernelPart, PrimalDualPart, Problem
from bagwise.solvers.result import SolverResult

SHARE_OF_MEMORY = 0.25  # limit for X'X, which saves a pass over the file per iteration


class LinearSpace:
    """W as vectors of features; constant ones, redundant with the intercept, are left out.

    Parameters
    ----------
    bags : Bags
        The bags: in memory, in a file, on a device or on workers.
    """

    part: type[PrimalDualPart] = PrimalDualPart

    def __init__(self, bags: Bags) -> None:
        self.bags = bags

    def used_features(self, parts: Parts) -> Any:
        """1 for each feature that W uses, 0 for each that is left out."""
        lowest, highest = zip(*parts.each("feature_ranges"), strict=True)
        low, high = (np.array([to_numpy(a) for a in side]) for side in (lowest, highest))
        return like(low.min(axis=0) != high.max(axis=0), lowest[0])

    def start(self, used: Any, rng: np.random.RandomState, n_classes: int) -> Any:
        """A small random initial W: a large one decays slowly in the inexact update."""
        W = 1e-3 * rng.standard_normal((n_classes, self.bags.n_features))
        return like(W, used) * used

    def step_norms(self, parts: Parts, step: Any) -> Array:
        """|step_m|^2 of each class, for the step of the last ``change`` of the parts."""
        return to_numpy((step * step).sum(axis=1))

    def squared_norms(self, parts: Parts, W: Any, b: Any) -> Array:
        """|w_m|^2 of each class; W and b must be the ones of the scores in the parts."""
        return to_numpy((W * W).sum(axis=1))

    def solver(self, parts: Parts, problem: Problem, used: Any) -> Callable[[Any, float], Any]:
        """Make the function (target, mu) -> (I/mu + A_m)^-1 target_m, A_m = G + K G_m (Eq. 10).

        The eigendecomposition of A_m is used for every mu.
        """
        grams = self._grams(parts, problem, used)
        eigen = [(values * (values > 0), vectors) for values, vectors in map(eigh, grams)]

        def solve(target: Any, mu: float) -> Any:
            if len(eigen) == 1:
                values, vectors = eigen[0]
                return ((target @ vectors) / (1 / mu + values)) @ vectors.T
            solved = 0.0 * target
            for m, (values, vectors) in enumerate(eigen):
                solved[m] = vectors @ ((target[m] @ vectors) / (1 / mu + values))
            return solved

        return solve

    def moments(
        self, parts: Parts, problem: Problem, used: Any, *, exact: bool
    ) -> Callable[[Any], tuple[Floats, Floats]] | None:
        """Make a function of the step that equals `change` of the parts but reads no instances.

        The sums are X'D_m 1 times the step, the squares a quadratic form of A_m (Eq. 10), which the
        exact update does not need. None if a pass over the instances is cheaper: if they are in
        memory, or in a file that the system can cache.
        """
        n_bytes = bytes_in_file(self.bags)
        matrices = 0 if exact else 8 * problem.n_systems * self.bags.n_features**2
        if n_bytes <= available_memory() or matrices > SHARE_OF_MEMORY * available_memory():
            return None
        centre = parts.total("weighted_sums")
        grams = None if exact else self._grams(parts, problem, used)

        def find(step: Any) -> tuple[Floats, Floats]:
            sums = np.einsum("md,md->m", step, centre)
            if grams is None:
                return sums, np.zeros(len(step))
            each = np.broadcast_to(grams, (len(step), *grams.shape[1:]))
            products = np.stack([gram @ move for gram, move in zip(each, step, strict=True)])
            return sums, np.einsum("md,md->m", step, products).astype(np.float64)

        return find

    def _grams(self, parts: Parts, problem: Problem, used: Any) -> Any:
        """A_m = G + K G_m of each class, or G alone if there are no copies U."""
        grams = parts.total("grams")
        grams *= used * used[:, None]
        if problem.n_copies:
            total = grams.sum(axis=0)
            grams *= problem.n_copies
            grams += total
        return grams


class KernelSpace(LinearSpace):
    """W as coefficients of the training instances, w_m = sum_i a_mi phi(x_i).

    Parameters
    ----------
    bags : Bags
        The bags, whose instances are the rows of the kernel matrix.
    """

    part = KernelPart

    def __init__(self, bags: Bags) -> None:
        super().__init__(bags)
        self.gram = bags.instances

    def used_features(self, parts: Parts) -> float:
        """1: all coefficients are used."""
        return 1.0

    def start(self, used: float, rng: np.random.RandomState, n_classes: int) -> Array:
        """The initial W = 0."""
        return np.zeros((n_classes, len(self.gram)), self.gram.dtype)

    def step_norms(self, parts: Parts, step: Array) -> Array:
        """a_m' K a_m."""
        return parts.total("norms_of_step", step)

    def squared_norms(self, parts: Parts, W: Array, b: Any) -> Array:
        """a_m' K a_m."""
        return parts.total("norms_of_scores", W) - b * W.sum(axis=1)

    def solver(self, parts: Parts, problem: Problem, used: float) -> Callable[[Any, float], Any]:
        """Make the function (target, mu) -> (I/mu + D K)^-1 target_m (Eq. 28).

        It equals D^1/2 (I/mu + D^1/2 K D^1/2)^-1 D^-1/2 target_m.
        """
        eigen = []
        for m in range(problem.n_systems):
            weights = np.repeat(problem.bag_weights[:, m], self.bags.sizes)
            root = np.sqrt(weights).astype(self.gram.dtype)
            values, vectors = eigh(root[:, None] * self.gram * root)
            eigen.append((np.maximum(values, 0.0), vectors, root))

        def solve(target: Array, mu: float) -> Array:
            each = eigen * len(target) if len(eigen) == 1 else eigen
            return np.stack(
                [
                    root * (vectors @ (((t / root) @ vectors) / (1 / mu + values)))
                    for t, (values, vectors, root) in zip(target, each, strict=True)
                ]
            )

        return solve


def primal_dual(
    space: LinearSpace,
    codes: Ints,
    n_classes: int,
    *,
    weights: Floats,
    rng: np.random.RandomState,
    mask_own_class: bool = True,
    **options: Any,
) -> SolverResult:
    """Run Algorithm 1 until the constraints hold to a relative tolerance.

    Parameters
    ----------
    space : LinearSpace or KernelSpace
        The bags.
    codes : ndarray of shape (n_bags,)
        The class of each bag, 0 .. n_classes - 1.
    n_classes : int
        K.
    weights : ndarray of shape (n_bags,)
        Weights of the bags: a weight of 2 is equivalent to a repeated bag.
    rng : RandomState
        Random generator for the initial W.
    mask_own_class : bool, default=True
        Whether to leave the constant term m = y_i out of the ADMM.
    **options
        As for `alternate_directions`.

    Returns
    -------
    SolverResult
        ``solution = (W, b)``; `objective_curve` is J.
    """
    size = {"n_columns": n_classes, "n_copies": n_classes}
    problem = Problem(space.bags.offsets, codes, weights, **size)
    start = partial(space.start, rng=rng, n_classes=n_classes)
    with place(space.bags, space.part, codes, weights, **size, mask=mask_own_class) as parts:
        return alternate_directions(space, parts, problem, start, **options)


def alternate_directions(
    space: LinearSpace,
    parts: Parts,
    problem: Problem,
    start: Callable[[Any], Any],
    *,
    C: float,
    mu: float,
    rho: float,
    max_iter: int,
    tol: float,
    exact: bool,
    track: Any = iter,
) -> SolverResult:
    """Run the ADMM: update W and b here, and all other variables in the parts.

    Parameters
    ----------
    space : LinearSpace or KernelSpace
        The bags.
    parts : Parts
        The variables of each bag; their `update` performs the steps of the algorithm.
    problem : Problem
        Weight of each instance for each column of W.
    start : callable
        Makes the initial W, given which features it may use.
    C, mu, rho : float
        Cost of a margin error, penalty of the constraints, its growth per iteration.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Relative tolerance on the constraints.
    exact : bool
        Whether W is updated by Eq. 10 (True) or by one optimal gradient step, Eq. 25.
    track : callable, default=iter
        Wraps the iterations, to show progress.

    Returns
    -------
    SolverResult
        ``solution = (W, b)``; `objective_curve` is J.
    """
    n_columns, total = problem.n_columns, problem.totals
    cap = 1e10 * max(1.0, C)  # larger mu change nothing, and single precision would overflow
    used = space.used_features(parts)
    first_W = start(used)
    solve = space.solver(parts, problem, used) if exact else None
    moments = space.moments(parts, problem, used, exact=solve is not None)
    change = moments or partial(parts.step, "change")

    def begin(now: dict[str, Any]) -> None:
        parts.do("begin", now["W"])

    def step(now: dict[str, Any]) -> bool:
        W, mu = now["W"], float(now["mu"])
        projected = now["projected"] * used
        if solve is not None:
            move, factor = solve(projected - W / mu, mu), np.ones(n_columns)
            sums, _ = change(move)
        else:
            move = W - mu * projected  # the gradient, Eq. 21
            sums, squares = change(move)
            norms = space.step_norms(parts, move).astype(np.float64)
            factor = -norms / np.maximum(norms + mu * squares, np.finfo(float).tiny)  # Eq. 23
        now["W"] = W = W + like(factor[:, None], W) * move
        shift = (now["residual_sums"] - factor * sums) / total  # Eq. 11, counting instances
        now["b"] = now["b"] + shift
        now["mu"] = min(mu * rho, cap)
        settings = Settings(factor, shift, float(C), mu, now["mu"])
        call = ("update",) if moments is None else ("advance", move)
        report, now["projected"], now["residual_sums"] = parts.step(*call, settings)
        gaps, scale, hinge = report.tolist()
        norm = float(space.squared_norms(parts, W, now["b"]).sum())
        now["curve"] = np.append(now["curve"], 0.5 * norm + C * hinge)
        now["residuals"] = np.append(now["residuals"], np.sqrt(gaps / scale))
        return bool(now["residuals"][-1] < tol)

    first = {"W": first_W, "b": np.zeros(n_columns), "mu": mu, "curve": [], "residuals": []}
    # The residual is zero at the start.
    first |= {"projected": 0.0 * first_W, "residual_sums": np.zeros(n_columns)}
    end = iterate(parts, first, begin, step, max_iter=max_iter, track=track)
    solution = to_numpy(end["W"]), end["b"]
    converged = bool(end["residuals"][-1] < tol)
    return SolverResult(solution, end["curve"], converged, end["residuals"])
