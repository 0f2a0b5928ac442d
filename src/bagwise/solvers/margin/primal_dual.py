"""pdMISVM: the primal-dual multi-instance SVM of Brand et al. (2021), Algorithm 1.

    J(W, b) = 1/2 sum_m |w_m|^2 + C sum_i sum_{m != y_i} (1 + max_j s_ij^m - max_j s_ij^{y_i})_+

with s_ij^m = w_m . x_ij + b_m, by a multi-block ADMM. The iterates are those of the paper. The
state is one number and one index per (bag, class) instead of a column of instances, so that an
iteration costs one product of X with a (d x K) matrix.

The state is stored in parts, blocks of whole bags. An iteration calls them twice: the first call
sends a step (K x d) and returns O(K) numbers; the second sends the length of the step and returns
X' times the residual (K x d), which determines the next step. For each copy of the scores, T and U,
both store one index and one number per (bag, class) instead of a column of instances. Compiled
loops work on numpy arrays, Triton kernels on tensors; bags on a device without Triton are copied to
this process.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import min_max_axis

from bagwise import loops
from bagwise._common.memory import available_memory
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.compute import (
    Part,
    Parts,
    bytes_in_file,
    iterate,
    place,
    read_bag_blocks,
    readable_table,
    rows_of,
)
from bagwise.compute.arrays import beside, eigh, like, product, to_numpy, zeros
from bagwise.compute.tensors import has_kernels, segment_argmax, segment_max, torch
from bagwise.loops import threads
from bagwise.loops.arguments import Copy, Entries, Settings, read_only
from bagwise.loops.threads import bag_bounds, even_bounds, library_cores, run_blocks
from bagwise.solvers.result import SolverResult

LARGEST_WITH_KERNELS = 256  # classes of a bag that fit in the registers of a GPU
SHARE_OF_MEMORY = 0.25  # limit for X'X, which saves a pass over the file per iteration


@dataclass(frozen=True)
class Problem:
    """Bags, classes and weights, and the weight of each instance for each column of W.

    A column fits the copy T of the scores, and in the bags of its class `n_copies` copies U:
    `n_columns` of them, or none if the bags have no classes.
    """

    offsets: Ints
    codes: Ints
    weights: Floats
    n_columns: int
    n_copies: int

    @property
    def n_systems(self) -> int:
        """Number of linear systems: one per column, unless all columns have the same weights."""
        return self.n_columns if self.n_copies else 1

    @cached_property
    def bag_weights(self) -> Floats:
        """D: the weight of the instances of each bag in the fit of each column."""
        own = self.codes[:, None] == np.arange(self.n_columns)
        return self.weights[:, None] * (1.0 + self.n_copies * own)

    @property
    def totals(self) -> Floats:
        """Total weight of the instances in the fit of each column."""
        return np.diff(self.offsets) @ self.bag_weights


class BasePart(Part):
    """A block of whole bags and its ADMM variables, except W and b.

    Parameters
    ----------
    bags : Bags
        The bags; for a kernel, the instances are rows of the kernel matrix.
    codes, weights : ndarray of shape (n_bags,)
        Class and weight of each bag.
    n_columns, n_copies : int
        As for `Problem`.
    mask : bool, default=True
        Whether to leave out the term of the bag's class.

    Attributes
    ----------
    scores : array of shape (n_instances, n_columns)
        X W' + b.
    t, u : Copy
        T and U, with Q and R.
    lam : array of shape (n_bags, n_columns)
        The multipliers of the constraints on E.
    changed : array of shape (n_instances, n_columns)
        X step' of the last `change`, which `update` adds to the scores.
    """

    STATE: tuple[str, ...] = ("scores", "t", "u", "lam", "entries")
    # Methods of each kind of part:
    project: Any  # () -> residual' X, and the sums of the residual of each column
    _first_scores: Any  # (W) -> X W'; row and value (float64) of the largest of each bag and class
    _begin_residual: Any  # () -> None, sets the residual to zero

    def __init__(
        self,
        bags: Bags,
        codes: Ints,
        weights: Floats,
        *,
        n_columns: int,
        n_copies: int,
        mask: bool = True,
    ) -> None:
        self.bags, self.X = bags, readable_table(bags)
        offsets, codes = read_only(bags.offsets, codes)
        self.problem = Problem(offsets, codes, weights, n_columns, n_copies)
        self.mask = mask
        self.changed: Any = None

    def grams(self) -> Any:
        """X' D X over the instances of each class, or over all if there are no copies U."""
        p, X = self.problem, self.X
        group = np.repeat(p.codes, self.bags.sizes)
        root = np.sqrt(np.repeat(p.weights, self.bags.sizes))
        n_features = X.shape[1]
        grams = zeros(X, (p.n_systems, n_features, n_features))
        # Blocks keep the weighted copy of the rows small; each row is used in one product only.
        step = max(n_features, 8192)
        for start in range(0, X.shape[0], step):
            block = slice(start, start + step)
            instances = X[block]
            for m in np.unique(group[block]):
                mine = np.flatnonzero(group[block] == m)
                rows = instances if len(mine) == len(group[block]) else instances[mine]
                if np.any(root[block][mine] != 1):
                    scale = like(root[block][mine][:, None], X)
                    rows = rows.multiply(scale).tocsr() if sparse.issparse(rows) else rows * scale
                grams[m] += product(rows.T, rows.T)
        return grams

    def begin(self, W: Any) -> None:
        """Set the initial state: copies equal the scores, multipliers are zero."""
        self.scores, place, largest = self._first_scores(W)
        theta, xi, self.lam, sigma, omega = like(np.zeros((5, *largest.shape)), largest)
        own = np.arange(len(self.bags)), self.problem.codes
        place_u, largest_u = place[own][:, None] + 0 * place, largest[own][:, None] + xi
        self.t = Copy(place, theta, largest, largest + theta, sigma)
        self.u = Copy(place_u, xi, largest_u, largest_u + xi, omega)
        self._begin_residual()
        self._allocate()

    def state(self) -> dict[str, Any]:
        """Arrays that an iteration changes."""
        return {name: getattr(self, name) for name in self.STATE}

    def restore(self, state: dict[str, Any]) -> None:
        """Replace the arrays that an iteration changes."""
        for name, value in state.items():
            setattr(self, name, value)
        self._allocate()

    def _allocate(self) -> None:
        """Allocate the workspace of an iteration."""


class TritonPrimalDualPart(BasePart):
    """All bags on a device, with a Triton kernel that loops over bags.

    Instances and scores keep their precision; the variables per bag and class are float64. The
    residual is a dense tensor (n_instances, n_classes).
    """

    def __init__(self, bags: Bags, codes: Array, weights: Floats, **options: Any) -> None:
        super().__init__(bags, codes, weights, **options)
        device = self.X.device
        self.codes = torch.as_tensor(codes, dtype=torch.int64, device=device)
        self.weights = torch.as_tensor(weights, dtype=torch.float64, device=device)[:, None]
        self.bag = torch.as_tensor(bags.bag_index, dtype=torch.int64, device=device)
        self.bag_weights = beside(self.problem.bag_weights, self.X)
        self.offsets = torch.as_tensor(bags.offsets, dtype=torch.int64, device=device)

    def feature_ranges(self) -> tuple[Any, Any]:
        """Smallest and largest value of each feature."""
        return self.X.amin(dim=0), self.X.amax(dim=0)

    def _first_scores(self, W: Any) -> tuple[Any, Any, Any]:
        scores = (self.X @ W.T).contiguous()
        largest = segment_max(scores, self.bag, len(self.bags))
        return scores, segment_argmax(scores, largest, self.bag), largest.double()

    def _begin_residual(self) -> None:
        self.residual = torch.zeros_like(self.scores)
        self.places = torch.stack([self.t.place, self.u.place], dim=1)
        self.variables = torch.stack([*self.t[1:], *self.u[1:], self.lam], dim=1)

    def change(self, step: Any) -> tuple[Floats, Floats]:
        """Sums and sums of squares, per class, of the change of the scores by a step of W."""
        from bagwise.solvers.margin import primal_dual_kernels

        self.changed = (self.X @ step.T).contiguous()
        moments = primal_dual_kernels.moments(self.offsets, self.changed)
        first, second = to_numpy((moments * self.bag_weights).sum(dim=1))
        return first, second

    def update(self, settings: Settings) -> tuple[Floats, Any, Floats]:
        """Run lines 9 to 16 of Algorithm 1, then `project`."""
        from bagwise.solvers.margin import primal_dual_kernels

        found = primal_dual_kernels.update_bags(self, beside(np.hstack(settings), self.X))
        report = to_numpy(found)  # before the product starts, so as not to wait for it
        return report[:3], self.residual.T @ self.X, report[3:]


class PrimalDualPart(BasePart):
    """Bags in this process or on a worker, with compiled loops over bags."""

    @staticmethod
    def tensor_part(bags: Bags, *per_bag: Any, **options: Any) -> BasePart:
        """The part of bags on a device."""
        if runs_triton(bags, options["n_columns"]):
            return TritonPrimalDualPart(bags, *per_bag, **options)
        return PrimalDualPart(bags.to("numpy"), *per_bag, **options)

    def feature_ranges(self) -> tuple[Array, Array]:
        """Smallest and largest value of each feature, block by block."""
        X = self.X
        if sparse.issparse(X):
            return min_max_axis(X, axis=0)
        step = max(1, 2**20 // X.shape[1])
        blocks = (X[start : start + step] for start in range(0, len(X), step))  # reads a file once
        lowest, highest = zip(*((b.min(axis=0), b.max(axis=0)) for b in blocks), strict=True)
        return np.min(lowest, axis=0), np.max(highest, axis=0)

    def _first_scores(self, W: Array) -> tuple[Array, Array, Array]:
        """Block by block if the instances are in a file."""
        offsets = self.bags.offsets
        if sparse.issparse(self.X):
            scores = np.ascontiguousarray(product(self.X, W))
        else:
            shape = self.bags.n_instances, len(W)
            scores = np.empty(shape, np.result_type(self.X.dtype, W.dtype))
            for block, instances in read_bag_blocks(self.bags):
                np.matmul(instances, W.T, out=scores[rows_of(self.bags, block)])
        place = loops.segments.argmax(scores, offsets) + offsets[:-1, None]
        return scores, place, loops.segments.maximum(scores, offsets).astype(np.float64)

    def _begin_residual(self) -> None:
        p, (n_bags, K) = self.problem, self.lam.shape
        per_class = np.bincount(p.codes, minlength=K)
        ranks = np.empty(n_bags, np.int64)
        for m in range(K):
            ranks[p.codes == m] = np.arange(per_class[m])
        starts = offsets_of(2 * n_bags + 2 * K * per_class)
        n_entries = starts[-1]
        self.entries = Entries(starts, ranks, np.zeros(n_entries, np.int64), np.zeros(n_entries))

    def _allocate(self) -> None:
        # Allocating these arrays in each iteration would cost as much as filling them.
        self.changed = np.empty_like(self.scores)
        self.report = np.empty((len(self.bags), 3))

    def project(self) -> tuple[Array, Array]:
        """Compute residual' X and the sums of the residual, per class."""
        if sparse.issparse(self.X):
            projected = (self._residual_matrix().astype(self.X.dtype) @ self.X).toarray()
        else:
            projected = sum(self._project_bags(*block) for block in read_bag_blocks(self.bags))
        return projected, self._residual_sums()

    def _residual_matrix(self) -> sparse.csr_array:
        """Transposed residual, of shape (n_columns, n_instances)."""
        starts, _, instances, values = self.entries
        shape = self.problem.n_columns, self.bags.n_instances
        return sparse.csr_array((values, instances, starts), shape=shape)

    def _residual_sums(self) -> Floats:
        """The sum over instances for each column."""
        return np.add.reduceat(self.entries.values, self.entries.starts[:-1])

    def _project_bags(self, block: slice, X: Array) -> Array:
        """Compute residual' X over a block of bags, given their dense instances."""
        p, entries = self.problem, self.entries
        first_row = int(p.offsets[block.start])

        def work(start: int, stop: int) -> Array:
            out = np.zeros((p.n_columns, X.shape[1]), X.dtype)
            loops.primal_dual.project(start, stop, X, first_row, p.codes, entries, out)
            return out

        bounds = bounds_of(block, p.offsets, len(entries.values) * X.shape[1])
        return sum(run_blocks(work, bounds))

    def change(self, step: Array) -> tuple[Array, Array]:
        """Weighted sums and sums of squares, per class, of the change of the scores by a step of W.

        Stores X step' for the next `update`.
        """
        p = self.problem
        if sparse.issparse(self.X):
            self.changed[:] = product(self.X, step)
        else:
            self._change_all(step)
        changed = self.changed.astype(np.float64, copy=False)
        sums = loops.segments.sum(np.stack([changed, changed * changed], axis=1), p.offsets)
        first, second = np.einsum("bsm,bm->sm", sums, p.bag_weights)
        return first, second

    def update(self, settings: Settings) -> tuple[Array, Array, Array]:
        """Run lines 9 to 16 of Algorithm 1; return squared gaps, their scale, hinge, `project`."""
        self._update_bags(slice(0, len(self.bags)), settings)
        return self.report.sum(axis=0), *self.project()

    def advance(self, step: Array, settings: Settings) -> tuple[Array, Array, Array]:
        """Run `change` and `update` on dense instances in one pass, block by block."""
        projected = np.zeros(step.shape, self.X.dtype)
        # Products are limited by memory bandwidth; one core reads the file.
        with library_cores(max(1, threads.n_threads() // 4)):
            for block, X in read_bag_blocks(self.bags):
                np.matmul(X, step.T, out=self.changed[rows_of(self.bags, block)])
                self._update_bags(block, settings)
                projected += self._project_bags(block, X)
        return self.report.sum(axis=0), projected, self._residual_sums()

    def weighted_sums(self) -> Floats:
        """X' D_m 1 of each column, of shape (n_columns, n_features), for dense instances."""
        weights = self.problem.bag_weights.astype(self.X.dtype)
        total = np.zeros((weights.shape[1], self.X.shape[1]))
        for block, X in read_bag_blocks(self.bags):
            total += np.repeat(weights[block], self.bags.sizes[block], axis=0).T @ X
        return total

    def _change_all(self, step: Array) -> None:
        """X step' on our own threads: BLAS threads would keep spinning after the product."""
        with library_cores(1):
            for block, X in read_bag_blocks(self.bags):
                changed = self.changed[rows_of(self.bags, block)]
                run_blocks(
                    lambda i, j, X=X, out=changed: np.matmul(X[i:j], step.T, out=out[i:j]),
                    even_bounds(len(X), X.size * len(step)),
                )

    def _update_bags(self, block: slice, settings: Settings) -> None:
        """Run lines 9 to 16 of Algorithm 1 for a block of bags."""
        bounds = bounds_of(block, self.problem.offsets, self.scores.size)
        run_blocks(self._update_some, bounds, settings)

    def _update_some(self, start: int, stop: int, settings: Settings) -> None:
        """The same for the bags start:stop, on one core."""
        p, copies = self.problem, (self.t, self.u, self.lam, self.entries)
        bags = start, stop, p.offsets, p.codes, p.weights
        loops.primal_dual.update_bags(
            *bags, self.mask, settings, self.scores, self.changed, *copies, self.report
        )


class KernelPart(PrimalDualPart):
    """`PrimalDualPart` for a kernel: W contains coefficients, and X' residual is the residual."""

    tensor_part: ClassVar[Any] = None

    def project(self) -> tuple[Array, Array]:
        """Transposed residual and its sums."""
        return self._residual_matrix().toarray().astype(self.X.dtype), self._residual_sums()

    def norms(self, W: Array, of: str) -> Array:
        """a_m' K a_m of each class, of the last step ("changed"), or with b_m of the "scores"."""
        return np.einsum("mi,im->m", W, getattr(self, of))


def runs_triton(bags: Bags, n_columns: int) -> bool:
    """Whether the Triton kernels run on bags on a device; else they are copied to this process."""
    return has_kernels(bags.instances) and n_columns <= LARGEST_WITH_KERNELS


def bounds_of(block: slice, offsets: Ints, n_values: float) -> Ints:
    """Split a slice of bags into one block per thread, or a single block for little work."""
    some = offsets[block.start : block.stop + 1]
    return block.start + bag_bounds(some - some[0], n_values)


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
        return parts.total("norms", step, "changed")

    def squared_norms(self, parts: Parts, W: Array, b: Any) -> Array:
        """a_m' K a_m."""
        return parts.total("norms", W, "scores") - b * W.sum(axis=1)

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
    largest_mu: float | None = None,
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
    largest_mu : float or None, default=None
        Where mu stops growing. Beyond the default, 1e10 or C times that, W hardly changes, and
        single precision would overflow; the paper has no limit.
    track : callable, default=iter
        Wraps the iterations, to show progress.

    Returns
    -------
    SolverResult
        ``solution = (W, b)``; `objective_curve` is J.
    """
    n_columns, total = problem.n_columns, problem.totals
    cap = 1e10 * max(1.0, C) if largest_mu is None else largest_mu
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
