"""pdMISVM: the primal-dual multi-instance SVM of Brand et al. (2021), Algorithm 1.

    J(W, b) = 1/2 sum_m |w_m|^2 + C sum_i sum_{m != y_i} (1 + max_j s_ij^m - max_j s_ij^{y_i})_+

with s_ij^m = w_m . x_ij + b_m, by a multi-block ADMM. The iterates are those of the paper; the
state is one number and one index per (bag, class) instead of a column of instances, so that an
iteration costs one product of X with a (d x K) matrix.

The state lives in parts, blocks of whole bags; an iteration asks them twice: for O(K) numbers about
a step (K x d), and, having told how far to go, for what the next step needs (X'R, K x d).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.sparsefuncs import min_max_axis

from bagwise import compiled
from bagwise.bags import Bags
from bagwise.compiled.threads import SMALL, block_bounds, n_threads, over_bags, run_blocks
from bagwise.engines import Checkpoint, Parts, digest, iterate, persist, place, to_numpy
from bagwise.engines.arrays import eigh, like, product
from bagwise.solvers.result import SolverResult

__all__ = ["KernelSpace", "LinearSpace", "primal_dual"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Problem:
    """Bags, classes and weights, and how often each instance is fitted for each class."""

    offsets: NDArray[np.int64]
    codes: NDArray[np.int64]
    weights: NDArray[np.float64]
    n_classes: int
    shared: bool

    @property
    def extra(self) -> float:
        """Copies of the own scores that the own class fits besides (U); none when shared."""
        return 0.0 if self.shared else float(self.n_classes)

    def instance_weights(self, m: int) -> NDArray[np.float64]:
        """D_m: how much each instance weighs in the fit of w_m."""
        times = self.weights * np.where(self.codes == m, 1.0 + self.extra, 1.0)
        return np.repeat(times, np.diff(self.offsets))


class Wish:
    """What the scores should change by: T - S + Theta/mu and the same of U; nearly all zeros.

    Per class two entries for each bag, and 2 K more for each bag of that class: the places are
    fixed, only instances and values change.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        n_bags, K, codes = len(problem.codes), problem.n_classes, problem.codes
        per_class = np.bincount(codes, minlength=K)
        lengths = 2 * n_bags + (0 if problem.shared else 2 * K) * per_class
        self.row_start = np.concatenate([[0], np.cumsum(lengths)])
        self.rank = np.empty(n_bags, np.int64)  # of each bag among those of its class
        for m in range(K):
            self.rank[codes == m] = np.arange(per_class[m])
        self.rows = np.zeros(self.row_start[-1], np.int64)
        self.values = np.zeros(self.row_start[-1])

    @property
    def matrix(self) -> sparse.csr_array:
        """All of it, of shape (n_classes, n_instances)."""
        shape = self.problem.n_classes, int(self.problem.offsets[-1])
        return sparse.csr_array((self.values, self.rows, self.row_start), shape=shape)

    @property
    def sums(self) -> NDArray[np.float64]:
        """The sum over instances for each class."""
        return np.add.reduceat(self.values, self.row_start[:-1])

    def times(self, X: Array) -> Array:
        """The product with dense instances, of shape (n_classes, n_features)."""
        p = self.problem
        n_blocks = n_threads() if len(self.values) * X.shape[1] > SMALL else 1

        def work(start: int, stop: int) -> Array:
            out = np.zeros((p.n_classes, X.shape[1]), X.dtype)
            compiled.primal_dual.pull(
                start, stop, X, p.codes, self.row_start, self.rank, self.rows, self.values,
                p.shared, out,
            )  # fmt: skip
            return out

        return sum(run_blocks(work, block_bounds(p.offsets, n_blocks)))


class Part:
    """A block of whole bags and everything the ADMM remembers of it besides W and b.

    Parameters
    ----------
    bags : Bags
        The bags; for a kernel, the instances are rows of the kernel matrix.
    codes, weights : ndarray of shape (n_bags,)
        Class and weight of each bag.
    n_classes : int
        K.
    shared : bool
        One copy of the scores for all classes.
    mask : bool
        Leave the term of the own class out.
    cost : float
        C.
    """

    on_tensors = "tensor_primal_dual"

    def __init__(
        self,
        bags: Bags,
        codes: NDArray[np.int64],
        weights: NDArray[np.float64],
        *,
        n_classes: int,
        shared: bool,
        mask: bool,
        cost: float,
    ) -> None:
        self.bags, self.X = bags, bags.instances
        self.problem = Problem(bags.offsets, codes, weights, n_classes, shared)
        self.mask, self.cost = mask, cost

    def identity(self) -> str:
        """Which bags these are."""
        return digest(self.bags, self.problem.codes, self.problem.weights)

    def extremes(self) -> tuple[Array, Array]:
        """Smallest and largest value of each feature."""
        return _extremes(self.X)

    def grams(self) -> Array:
        """X' D X over the instances of each class, or of all when the splitting is shared."""
        return _class_grams(self.X, self.problem)

    def begin(self, W: Array) -> None:
        """First state: copies equal to the scores, no multipliers."""
        p = self.problem
        self.scores = np.ascontiguousarray(product(self.X, W))
        n_bags, K = len(p.codes), p.n_classes
        place_t = compiled.segments.argmax(self.scores, p.offsets) + p.offsets[:-1, None]
        max_t = compiled.segments.maximum(self.scores, p.offsets).astype(np.float64)
        own = np.arange(n_bags), p.codes
        self.place_t, self.max_t = place_t, max_t
        self.place_u = np.repeat(place_t[own][:, None], K, axis=1)
        self.max_u = np.repeat(max_t[own][:, None], K, axis=1)
        self.q = max_t.copy()
        self.r = self.max_u.copy()
        self.theta, self.xi, self.lam, self.sigma, self.omega = np.zeros((5, n_bags, K))
        self.wish = Wish(p)
        self._make_room()

    def _make_room(self) -> None:
        """Room for what an iteration computes; asked of the system anew, it costs as much again."""
        n_bags, K = len(self.problem.codes), self.problem.n_classes
        self.changed = np.empty_like(self.scores)
        self.moments = np.empty((2, n_bags, K))
        self.report = np.empty((n_bags, 3))

    def pull(self) -> tuple[Array, Array]:
        """X' times what the scores should change by, and its sum, per class."""
        if sparse.issparse(self.X):
            pulled = (self.wish.matrix.astype(self.X.dtype) @ self.X).toarray()
        else:
            pulled = self.wish.times(self.X)  # bag by bag, which reads each row once
        return pulled, self.wish.sums

    def change(self, step: Array) -> tuple[Array, Array]:
        """How the scores change with a step of W: weighted sums and sums of squares, per class."""
        p, (first, second) = self.problem, self.moments
        if sparse.issparse(self.X):
            self.changed[:] = product(self.X, step)
        else:
            np.matmul(self.X, step.T, out=self.changed)
        over_bags(
            compiled.primal_dual.moments, p.offsets, self.changed,
            p.codes, p.weights, p.extra, first, second,
        )  # fmt: skip
        return first.sum(axis=0), second.sum(axis=0)

    def update(
        self,
        factor: NDArray[np.float64],
        shift: NDArray[np.float64],
        mu: float,
        next_mu: float,
    ) -> tuple[Array, Array, Array]:
        """Lines 9 to 16 of Algorithm 1; returns squared gaps, their scale and hinge; and `pull`."""
        p, wish, report = self.problem, self.wish, self.report
        over_bags(
            compiled.primal_dual.update_bags, p.offsets, self.scores,
            self.changed, factor, shift, p.codes, p.weights, self.cost, mu, next_mu, p.shared,
            self.mask, self.place_t, self.theta, self.max_t, self.place_u, self.xi, self.max_u,
            self.q, self.r, self.lam, self.sigma, self.omega,
            wish.row_start, wish.rank, wish.rows, wish.values, report,
        )  # fmt: skip
        return report.sum(axis=0), *self.pull()

    def state(self) -> dict[str, Array]:
        """All that changes, for a checkpoint."""
        mine = {name: getattr(self, name) for name in _STATE}
        return mine | {"rows": self.wish.rows, "values": self.wish.values}

    def restore(self, state: dict[str, Array]) -> None:
        """Continue from a checkpoint."""
        mine = {name: np.require(value, requirements="W") for name, value in state.items()}
        for name in _STATE:
            setattr(self, name, mine[name])
        self.wish = Wish(self.problem)
        self.wish.rows, self.wish.values = mine["rows"], mine["values"]
        self._make_room()


class KernelPart(Part):
    """The same where W is a list of coefficients of instances: X'R has the coefficients R."""

    on_tensors = None  # type: ignore[assignment]

    def pull(self) -> tuple[Array, Array]:
        """The sparse matrix itself."""
        return self.wish.matrix.toarray().astype(self.X.dtype), self.wish.sums

    def quadratic(self, W: Array, of: str) -> Array:
        """a_m' (K a_m) for each class, given K a_m (+ b) as "scores" or "changed"."""
        return np.einsum("mi,im->m", W, getattr(self, of))


_STATE = (
    "scores", "place_t", "max_t", "place_u", "max_u", "q", "r", "theta", "xi", "lam", "sigma",
    "omega",
)  # fmt: skip


class Space(Protocol):
    """Where W lives: as vectors of features, or as coefficients of instances."""

    bags: Bags

    @property
    def part(self) -> type[Part]:
        """How a block of bags is held."""

    def start(self, parts: Parts, rng: np.random.RandomState, n_classes: int) -> Any:
        """A small random W."""

    def keep(self, W: Any) -> Any:
        """W without the directions that stay out."""

    def squared_norms(self, parts: Parts, W: Any, of: str, b: Any = 0.0) -> Array:
        """|w_m|^2 of each class, given that the parts have X W (+ b) as "scores" or "changed"."""

    def prepare(self, parts: Parts, problem: Problem) -> None:
        """Decompose what the exact update inverts."""

    def solve(self, target: Any, mu: float) -> Any:
        """(I/mu + X' D_m X)^-1 target_m for each class (Eq. 10)."""


class LinearSpace:
    """W as vectors of features.

    Parameters
    ----------
    bags : Bags
        The bags, wherever they are.
    leave_out_constants : bool, default=False
        Whether features with one value stay out: with an intercept they only double it.
    """

    part = Part

    def __init__(self, bags: Bags, *, leave_out_constants: bool = False) -> None:
        self.bags = bags
        self.leave_out_constants = leave_out_constants

    def start(self, parts: Parts, rng: np.random.RandomState, n_classes: int) -> Any:
        """A small random W; the inexact update never forgets a large one."""
        lowest, highest = zip(*parts.each("extremes"), strict=True)
        self._live = like(np.ones(self.bags.n_features), lowest[0])
        if self.leave_out_constants:
            low, high = (np.array([to_numpy(a) for a in side]) for side in (lowest, highest))
            self._live = like(low.min(axis=0) != high.max(axis=0), lowest[0])
        W = 1e-3 * rng.standard_normal((n_classes, self.bags.n_features))
        return self.keep(like(W, self._live))

    def keep(self, W: Any) -> Any:
        """W without the features that stay out."""
        return W * self._live

    def squared_norms(self, parts: Parts, W: Any, of: str, b: Any = 0.0) -> Array:
        """|w_m|^2."""
        return to_numpy((W * W).sum(axis=1))

    def prepare(self, parts: Parts, problem: Problem) -> None:
        """Eigenvectors of A_m = G + K G_m, good for every mu."""
        grams = parts.total("grams")
        grams *= self._live * self._live[:, None]
        if not problem.shared:
            total = grams.sum(axis=0)
            grams *= problem.extra
            grams += total
        self._eigen = []
        for A in grams:
            values, vectors = eigh(A)
            self._eigen.append((values * (values > 0), vectors))  # below 0 is rounding

    def solve(self, target: Any, mu: float) -> Any:
        """(I/mu + A_m)^-1 target_m."""
        if len(self._eigen) == 1:
            values, vectors = self._eigen[0]
            return ((target @ vectors) / (1 / mu + values)) @ vectors.T
        solved = 0.0 * target
        for m, (values, vectors) in enumerate(self._eigen):
            solved[m] = vectors @ ((target[m] @ vectors) / (1 / mu + values))
        return solved


class KernelSpace:
    """W as coefficients of the training instances, w_m = sum_i a_mi phi(x_i).

    Parameters
    ----------
    bags : Bags
        The bags, whose instances are the rows of the kernel matrix.
    """

    part = KernelPart

    def __init__(self, bags: Bags) -> None:
        self.bags = bags
        self.gram = bags.instances

    def start(self, parts: Parts, rng: np.random.RandomState, n_classes: int) -> Array:
        """W = 0."""
        return np.zeros((n_classes, len(self.gram)), self.gram.dtype)

    def keep(self, W: Array) -> Array:
        """All of W."""
        return W

    def squared_norms(self, parts: Parts, W: Array, of: str, b: Any = 0.0) -> Array:
        """a_m' K a_m."""
        return parts.total("quadratic", W, of) - b * W.sum(axis=1)

    def prepare(self, parts: Parts, problem: Problem) -> None:
        """Eigenvectors of D^1/2 K D^1/2."""
        self._eigen = []
        for m in range(1 if problem.shared else problem.n_classes):
            root = np.sqrt(problem.instance_weights(m)).astype(self.gram.dtype)
            values, vectors = eigh(root[:, None] * self.gram * root)
            self._eigen.append((np.maximum(values, 0.0), vectors, root))

    def solve(self, target: Array, mu: float) -> Array:
        """(I/mu + D K)^-1 target_m = D^1/2 (I/mu + D^1/2 K D^1/2)^-1 D^-1/2 target_m (Eq. 28)."""
        eigen = self._eigen * len(target) if len(self._eigen) == 1 else self._eigen
        return np.stack(
            [
                root * (vectors @ (((t / root) @ vectors) / (1 / mu + values)))
                for t, (values, vectors, root) in zip(target, eigen, strict=True)
            ]
        )


def primal_dual(
    space: Space,
    codes: NDArray[np.int64],
    n_classes: int,
    *,
    C: float,
    mu: float,
    rho: float,
    max_iter: int,
    tol: float,
    exact: bool,
    shared: bool,
    mask_own_class: bool,
    fit_intercept: bool,
    weights: NDArray[np.float64],
    rng: np.random.RandomState,
    track: Any = iter,
    checkpoint: Any = None,
) -> SolverResult:
    """Run Algorithm 1 until the constraints hold to a relative `tol`.

    Parameters
    ----------
    space : LinearSpace or KernelSpace
        The bags.
    codes : ndarray of shape (n_bags,)
        The class of each bag, 0 .. n_classes - 1.
    n_classes : int
        K.
    C, mu, rho : float
        Cost of a margin error, penalty of the constraints, its growth per iteration.
    max_iter : int
        Budget of iterations.
    tol : float
        Relative tolerance on the constraints.
    exact : bool
        W by Eq. 10 (True) or by one optimal gradient step, Eq. 25.
    shared : bool
        One copy of the scores for all classes instead of the paper's two kinds.
    mask_own_class : bool
        Leave the constant term m = y_i out of the ADMM.
    fit_intercept : bool
        Whether b is fitted.
    weights : ndarray of shape (n_bags,)
        A weight multiplies the whole term of its bag: 2 equals the bag twice.
    rng : RandomState
        For the start.
    track : callable, default=iter
        Wraps the iterations, to show progress.
    checkpoint : path, default=None
        Where to save now and then, and to resume from.

    Returns
    -------
    SolverResult
        ``solution = (W, b)``; `objective_curve` is J.
    """
    problem = Problem(space.bags.offsets, codes, weights, n_classes, shared)
    parts = place(
        space.bags, space.part, codes, weights,
        n_classes=n_classes, shared=shared, mask=mask_own_class, cost=C,
    )  # fmt: skip
    start = persist(parts, lambda: space.start(parts, rng, n_classes))
    if exact:
        persist(parts, lambda: space.prepare(parts, problem))
    sizes = weights * np.diff(problem.offsets)
    total = np.bincount(codes, sizes, n_classes) * problem.extra + sizes.sum()
    cap = 1e10 * max(1.0, C)  # beyond it nothing moves, and single precision would overflow

    def begin(now: dict[str, Any]) -> None:
        parts.total("begin", now["W"])

    def step(now: dict[str, Any]) -> bool:
        W, mu = now["W"], float(now["mu"])
        pulled = space.keep(now["pulled"])
        if exact:
            move, factor = space.solve(pulled - W / mu, mu), np.ones(n_classes)
            sums, _ = parts.total("change", move)
        else:
            move = W - mu * pulled  # the gradient, Eq. 21
            sums, squares = parts.total("change", move)
            norms = space.squared_norms(parts, move, "changed").astype(np.float64)
            factor = -norms / np.maximum(norms + mu * squares, np.finfo(float).tiny)  # Eq. 23
        now["W"] = W = W + like(factor[:, None], W) * move
        shift = np.zeros(n_classes)
        if fit_intercept:  # Eq. 11, counting instances
            shift = (now["wished"] - factor * sums) / total
        now["b"] = now["b"] + shift
        now["mu"] = min(mu * rho, cap)
        report, now["pulled"], now["wished"] = parts.total("update", factor, shift, mu, now["mu"])
        gaps, scale, hinge = report.tolist()
        norm = float(space.squared_norms(parts, W, "scores", now["b"]).sum())
        now["curve"] = np.append(now["curve"], 0.5 * norm + C * hinge)
        now["residuals"] = np.append(now["residuals"], np.sqrt(gaps / scale))
        return bool(now["residuals"][-1] < tol)

    settings = (
        "pdMISVM", C, mu, rho, exact, shared, mask_own_class, fit_intercept, n_classes,
    )  # fmt: skip
    first = {"W": start, "b": np.zeros(n_classes), "mu": mu, "curve": [], "residuals": []}
    end = iterate(
        parts,
        first | {"pulled": 0.0 * start, "wished": np.zeros(n_classes)},  # copies equal the scores
        begin,
        step,
        max_iter=max_iter,
        track=track,
        checkpoint=None if checkpoint is None else Checkpoint(checkpoint, settings),
    )
    residuals = np.asarray(end["residuals"])
    return SolverResult(
        (to_numpy(end["W"]), end["b"]),
        np.asarray(end["curve"]),
        int(end["n_iter"]),
        bool(residuals[-1] < tol),
        residuals,
    )


def _extremes(X: Any) -> tuple[Array, Array]:
    """Smallest and largest value of each column, block by block: a mapped file is read once."""
    if sparse.issparse(X):
        return min_max_axis(X, axis=0)
    lowest, highest = X[0].copy(), X[0].copy()
    step = max(1, 2**20 // X.shape[1])
    for start in range(0, len(X), step):
        np.minimum(lowest, X[start : start + step].min(axis=0), out=lowest)
        np.maximum(highest, X[start : start + step].max(axis=0), out=highest)
    return lowest, highest


def _class_grams(X: Any, problem: Problem) -> Array:
    """X' D X over the instances of each class (of all, when shared), block by block.

    Blocks keep the weighted copy of the rows small; each row enters one product only.
    """
    groups = np.zeros(len(problem.codes), np.int64) if problem.shared else problem.codes
    rows = np.repeat(groups, np.diff(problem.offsets))
    root = np.sqrt(np.repeat(problem.weights, np.diff(problem.offsets))).astype(X.dtype)
    n_features = X.shape[1]
    grams = np.zeros((1 if problem.shared else problem.n_classes, n_features, n_features), X.dtype)
    step = max(n_features, 8192)
    for start in range(0, X.shape[0], step):
        block = slice(start, start + step)
        for m in np.unique(rows[block]):
            mine = rows[block] == m
            part = X[block] if mine.all() else X[block][mine]
            if np.any(root[block][mine] != 1):
                scale = root[block][mine][:, None]
                part = part.multiply(scale).tocsr() if sparse.issparse(part) else part * scale
            grams[m] += safe_sparse_dot(part.T, part, dense_output=True)
    return grams
