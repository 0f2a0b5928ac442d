"""pdMISVM: the primal-dual multi-instance SVM of Brand et al. (2021), Algorithm 1.

    J(W, b) = 1/2 sum_m |w_m|^2 + C sum_i sum_{m != y_i} (1 + max_j s_ij^m - max_j s_ij^{y_i})_+

with s_ij^m = w_m . x_ij + b_m, by a multi-block ADMM. The iterates are those of the paper; the
state is one number and one index per (bag, class) instead of a column of instances, so that an
iteration costs one product of X with a (d x K) matrix.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from bagwise import kernels
from bagwise.kernels.threads import SMALL, block_bounds, n_threads, over_bags, run_blocks
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
            kernels.primal_dual.pull(
                start, stop, X, p.codes, self.row_start, self.rank, self.rows, self.values,
                p.shared, out,
            )  # fmt: skip
            return out

        return sum(run_blocks(work, block_bounds(p.offsets, n_blocks)))


class Space(Protocol):
    """Where W lives: as vectors of features, or as coefficients of instances."""

    size: int

    def start(self, rng: np.random.RandomState, n_classes: int) -> Array:
        """A small random W."""

    def scores(self, W: Array) -> Array:
        """X W, of shape (n_instances, n_classes)."""

    def pull(self, wish: Wish) -> Array:
        """X' times what the scores should change by, as a W."""

    def squared_norms(self, W: Array, scores: Array, b: Array | float = 0.0) -> Array:
        """|w_m|^2 of each class, given X W + b."""

    def prepare(self, problem: Problem) -> None:
        """Decompose what the exact update inverts."""

    def solve(self, target: Array, mu: float) -> Array:
        """(I/mu + X' D_m X)^-1 target_m for each class (Eq. 10)."""


class LinearSpace:
    """W as vectors of features.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_instances, n_features)
        The instances.
    idle : ndarray of bool of shape (n_features,), default=None
        Features that stay out: a constant one only doubles the intercept.
    """

    def __init__(self, X: Any, idle: NDArray[np.bool_] | None = None) -> None:
        self.X = X
        self.size = X.shape[1]
        self.idle = np.zeros(self.size, bool) if idle is None else idle

    def start(self, rng: np.random.RandomState, n_classes: int) -> Array:
        """A small random W; the inexact update never forgets a large one."""
        W = 1e-3 * rng.standard_normal((n_classes, self.size))
        W[:, self.idle] = 0.0
        return W.astype(self.X.dtype)

    def scores(self, W: Array) -> Array:
        """X W."""
        return np.ascontiguousarray(safe_sparse_dot(self.X, W.T, dense_output=True))

    def pull(self, wish: Wish) -> Array:
        """X' R; dense instances bag by bag, which reads each row once."""
        if sparse.issparse(self.X):
            product = (wish.matrix.astype(self.X.dtype) @ self.X).toarray()
        else:
            product = wish.times(self.X)
        product[:, self.idle] = 0.0
        return product

    def squared_norms(self, W: Array, scores: Array, b: Array | float = 0.0) -> Array:
        """|w_m|^2."""
        return row_norms(W, squared=True)

    def prepare(self, problem: Problem) -> None:
        """Eigenvectors of A_m = G + K G_m, good for every mu."""
        grams = _class_grams(self.X, problem)
        grams[:, self.idle] = 0.0
        grams[:, :, self.idle] = 0.0
        if not problem.shared:
            total = grams.sum(axis=0)
            grams *= problem.extra
            grams += total
        self._eigen = [linalg.eigh(A, driver="evd", check_finite=False) for A in grams]

    def solve(self, target: Array, mu: float) -> Array:
        """(I/mu + A_m)^-1 target_m."""
        if len(self._eigen) == 1:
            values, vectors = self._eigen[0]
            return ((target @ vectors) / (1 / mu + values)) @ vectors.T
        return np.stack(
            [
                vectors @ ((t @ vectors) / (1 / mu + values))
                for t, (values, vectors) in zip(target, self._eigen, strict=True)
            ]
        )


class KernelSpace:
    """W as coefficients of the training instances, w_m = sum_i a_mi phi(x_i)."""

    def __init__(self, gram: Array) -> None:
        self.gram = gram
        self.size = len(gram)

    def start(self, rng: np.random.RandomState, n_classes: int) -> Array:
        """W = 0."""
        return np.zeros((n_classes, len(self.gram)), self.gram.dtype)

    def scores(self, W: Array) -> Array:
        """K A."""
        return self.gram @ W.T

    def pull(self, wish: Wish) -> Array:
        """The sparse matrix itself: X' R has the coefficients R."""
        return wish.matrix.toarray().astype(self.gram.dtype)

    def squared_norms(self, W: Array, scores: Array, b: Array | float = 0.0) -> Array:
        """a_m' K a_m."""
        return np.einsum("mi,im->m", W, scores) - b * W.sum(axis=1)

    def prepare(self, problem: Problem) -> None:
        """Eigenvectors of D^1/2 K D^1/2."""
        self._eigen = []
        for m in _distinct(problem):
            root = np.sqrt(problem.instance_weights(m)).astype(self.gram.dtype)
            values, vectors = linalg.eigh(
                root[:, None] * self.gram * root, driver="evd", overwrite_a=True, check_finite=False
            )
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
    offsets: NDArray[np.int64],
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
) -> SolverResult:
    """Run Algorithm 1 until the constraints hold to a relative `tol`.

    Parameters
    ----------
    space : LinearSpace or KernelSpace
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
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
        Wraps the range of iterations, to show progress.

    Returns
    -------
    SolverResult
        ``solution = (W, b)``; `objective_curve` is J.
    """
    problem = Problem(offsets, codes, weights, n_classes, shared)
    if exact:
        space.prepare(problem)
    W = space.start(rng, n_classes)
    b = np.zeros(n_classes)
    scores = space.scores(W)
    state = _State(problem, scores)
    total = np.bincount(codes, weights * np.diff(offsets), n_classes) * problem.extra
    total += (weights * np.diff(offsets)).sum()
    curve, residuals = [], []
    cap = 1e10 * max(1.0, C)  # beyond it nothing moves, and single precision would overflow
    for _ in track(range(max_iter)):
        pulled = space.pull(state.wish)
        if exact:
            step = space.solve(pulled - W / mu, mu)
            change, factor = space.scores(step), np.ones(n_classes)
            sums, _ = _moments(problem, change)
        else:
            step = W - mu * pulled  # the gradient, Eq. 21
            change = space.scores(step)
            sums, squares = _moments(problem, change)
            norms = space.squared_norms(step, change).astype(np.float64)
            factor = -norms / np.maximum(norms + mu * squares, np.finfo(float).tiny)  # Eq. 23
        W = W + factor[:, None].astype(W.dtype) * step
        shift = np.zeros(n_classes)
        if fit_intercept:  # Eq. 11, counting instances
            shift = (state.wish.sums - factor * sums) / total
        b += shift
        next_mu = min(mu * rho, cap)
        gaps, scale, hinge = state.update(
            scores, change, factor, shift, C, mu, next_mu, mask=mask_own_class
        )
        mu = next_mu
        norm = float(space.squared_norms(W, scores, b).sum())
        curve.append(0.5 * norm + C * hinge)
        residuals.append(float(np.sqrt(gaps / scale)))
        if residuals[-1] < tol:
            break
    return SolverResult(
        (W, b),
        np.array(curve),
        len(curve),
        residuals[-1] < tol,
        np.array(residuals),
    )


class _State:
    """Everything the ADMM remembers besides W, b and the scores: O(n_bags x n_classes)."""

    def __init__(self, problem: Problem, scores: Array) -> None:
        self.problem = problem
        n_bags, K = len(problem.codes), problem.n_classes
        offsets, codes = problem.offsets, problem.codes
        self.place_t = kernels.segments.argmax(scores, offsets) + offsets[:-1, None]
        self.max_t = kernels.segments.maximum(scores, offsets).astype(np.float64)
        own = np.arange(n_bags), codes
        self.place_u = np.repeat(self.place_t[own][:, None], K, axis=1)
        self.max_u = np.repeat(self.max_t[own][:, None], K, axis=1)
        self.q = self.max_t.copy()
        self.r = np.zeros((n_bags, K + 1))
        self.r[:, :K] = self.max_u
        self.theta, self.xi, self.lam, self.sigma, self.omega = np.zeros((5, n_bags, K))
        self.wish = Wish(problem)
        self.report = np.zeros((n_bags, 3))

    def update(
        self,
        scores: Array,
        change: Array,
        factor: NDArray[np.float64],
        shift: NDArray[np.float64],
        C: float,
        mu: float,
        next_mu: float,
        *,
        mask: bool,
    ) -> Iterable[float]:
        """Lines 9 to 16 of Algorithm 1; returns squared gaps, their scale and the hinge loss."""
        p = self.problem
        over_bags(
            kernels.primal_dual.update_bags, p.offsets, scores,
            change, factor, shift, p.codes, p.weights, C, mu, next_mu, p.shared, mask,
            self.place_t, self.theta, self.max_t, self.place_u, self.xi, self.max_u,
            self.q, self.r, self.lam, self.sigma, self.omega,
            self.wish.row_start, self.wish.rank, self.wish.rows, self.wish.values, self.report,
        )  # fmt: skip
        return self.report.sum(axis=0).tolist()


def _moments(problem: Problem, values: Array) -> tuple[Array, Array]:
    """Sums of D_m values_m and D_m values_m^2."""
    first, second = np.empty((2, len(problem.codes), problem.n_classes))
    over_bags(
        kernels.primal_dual.moments, problem.offsets, values,
        problem.codes, problem.weights, problem.extra, first, second,
    )  # fmt: skip
    return first.sum(axis=0), second.sum(axis=0)


def _distinct(problem: Problem) -> range:
    """The classes whose systems differ: all, or one for all when the splitting is shared."""
    return range(1 if problem.shared else problem.n_classes)


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
