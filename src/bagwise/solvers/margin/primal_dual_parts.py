"""The state of pdMISVM for a block of bags: numpy arrays with compiled loops, or Triton kernels.

For each copy of the scores, T and U, both store one index and one number per (bag, class) instead
of a column of instances. Bags on a device without Triton are copied to this process.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import min_max_axis

from bagwise import loops
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.compute import (
    Part,
    bag_blocks_ahead,
    read_bag_blocks,
    readable_table,
    rows_of,
    to_numpy,
)
from bagwise.compute.arrays import beside, like, product, zeros
from bagwise.compute.tensors import has_kernels, segment_argmax, segment_max, torch
from bagwise.loops.arguments import read_only
from bagwise.loops.threads import (
    bag_bounds,
    blas_cores,
    even_bounds,
    n_threads,
    over_bags,
    run_blocks,
)

LARGEST_WITH_KERNELS = 256  # classes of a bag that fit in the registers of a GPU


@dataclass(frozen=True)
class Problem:
    """Bags, classes and weights, and the weight of each instance for each class."""

    offsets: Ints
    codes: Ints
    weights: Floats
    n_classes: int
    shared: bool

    @property
    def extra(self) -> float:
        """Number of copies U that a class fits besides T; zero if shared."""
        return 0.0 if self.shared else float(self.n_classes)

    def instance_weights(self, m: int) -> Floats:
        """D_m: the weight of each instance in the fit of w_m."""
        times = self.weights * np.where(self.codes == m, 1.0 + self.extra, 1.0)
        return np.repeat(times, np.diff(self.offsets))


class Residual:
    """Targets of the next update of W: T - S + Theta/mu, and the same for U; nearly all zeros.

    Each class has two entries per bag, and 2 K more per bag of that class. Their positions are
    fixed; only instances and values change.

    Parameters
    ----------
    problem : Problem
        The bags.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        n_bags, K, codes = len(problem.codes), problem.n_classes, problem.codes
        per_class = np.bincount(codes, minlength=K)
        lengths = 2 * n_bags + (0 if problem.shared else 2 * K) * per_class
        self.class_start = offsets_of(lengths)
        self.rank = np.empty(n_bags, np.int64)  # of each bag within its class
        for m in range(K):
            self.rank[codes == m] = np.arange(per_class[m])
        self.instances = np.zeros(self.class_start[-1], np.int64)
        self.values = np.zeros(self.class_start[-1])

    @property
    def matrix(self) -> sparse.csr_array:
        """Transposed residual, of shape (n_classes, n_instances)."""
        shape = self.problem.n_classes, int(self.problem.offsets[-1])
        return sparse.csr_array((self.values, self.instances, self.class_start), shape=shape)

    @property
    def sums(self) -> Floats:
        """The sum over instances for each class."""
        return np.add.reduceat(self.values, self.class_start[:-1])

    def times(self, block: slice, X: Array) -> Array:
        """Residual' X of a block of bags, (n_classes, n_features), given their dense instances."""
        p = self.problem
        first_row = int(p.offsets[block.start])
        bounds = bounds_of(block, p.offsets, len(self.values) * X.shape[1])

        def work(start: int, stop: int) -> Array:
            out = np.zeros((p.n_classes, X.shape[1]), X.dtype)
            loops.primal_dual.project(
                start, stop, X, first_row, p.codes, self.class_start, self.rank, self.instances,
                self.values, p.shared, out,
            )  # fmt: skip
            return out

        return sum(run_blocks(work, bounds))


class BasePart(Part):
    """A block of whole bags and its ADMM variables, except W and b.

    Parameters
    ----------
    bags : Bags
        The bags; for a kernel, the instances are rows of the kernel matrix.
    codes, weights : ndarray of shape (n_bags,)
        Class and weight of each bag.
    n_classes : int
        K.
    shared : bool
        Whether all classes share one copy of the scores.
    mask : bool
        Whether to leave out the term of the bag's class.
    cost : float
        C.

    Attributes
    ----------
    scores : array of shape (n_instances, n_classes)
        X W' + b.
    place_t, max_t, theta : array of shape (n_bags, n_classes)
        For T: the instance at which it differs from the scores, its maximum, its multiplier there.
    place_u, max_u, xi : array of shape (n_bags, n_classes)
        The same for U.
    q, r, lam, sigma, omega : array of shape (n_bags, n_classes)
        Q, R and the multipliers of the constraints on E, Q and R. The shared splitting stores Z in
        q and E in r.
    changed : array of shape (n_instances, n_classes)
        X step' of the last `change`, which `update` adds to the scores.
    """

    STATE: tuple[str, ...] = (
        "scores", "place_t", "max_t", "place_u", "max_u", "q", "r", "theta", "xi", "lam", "sigma",
        "omega",
    )  # fmt: skip

    def __init__(
        self,
        bags: Bags,
        codes: Ints,
        weights: Floats,
        *,
        n_classes: int,
        shared: bool,
        mask: bool,
        cost: float,
    ) -> None:
        self.bags, self.X = bags, readable_table(bags)
        offsets, codes = read_only(bags.offsets, codes)
        self.problem = Problem(offsets, codes, weights, n_classes, shared)
        self.mask, self.cost = mask, float(cost)
        self.changed: Any = None

    def grams(self) -> Any:
        """X' D X over the instances of each class, or over all if the splitting is shared."""
        p, X = self.problem, self.X
        groups = np.zeros(len(p.codes), np.int64) if p.shared else p.codes
        group = np.repeat(groups, self.bags.sizes)
        root = np.sqrt(np.repeat(p.weights, self.bags.sizes))
        n_features = X.shape[1]
        grams = zeros(X, (1 if p.shared else p.n_classes, n_features, n_features))
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
        n_bags, K = len(self.bags), self.problem.n_classes
        self.scores, place, largest = self._first_scores(W)
        zeros = like(np.zeros((5, n_bags, K)), largest)
        own = np.arange(n_bags), self.problem.codes
        self.place_t, self.max_t = place, largest
        self.place_u = place[own][:, None] + 0 * place
        self.max_u = largest[own][:, None] + zeros[0]
        self.q, self.r = self.max_t + zeros[0], self.max_u + zeros[0]
        self.theta, self.xi, self.lam, self.sigma, self.omega = zeros
        self._begin_residual()

    def _first_scores(self, W: Any) -> tuple[Any, Any, Any]:
        """X W', and row and value (float64) of the largest score of each bag and class."""
        raise NotImplementedError

    def _begin_residual(self) -> None:
        """Set the residual to zero, and allocate the workspace of an iteration."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Arrays that an iteration changes."""
        return {name: getattr(self, name) for name in self.STATE}

    def restore(self, state: dict[str, Array]) -> None:
        """Replace the arrays that an iteration changes."""
        for name in self.STATE:
            setattr(self, name, state[name])

    def feature_ranges(self) -> tuple[Any, Any]:
        """Smallest and largest value of each feature."""
        raise NotImplementedError

    def change(self, step: Any) -> tuple[Floats, Floats]:
        """Weighted sums and sums of squares, per class, of the change of the scores by a step of W.

        Stores X step' for the next `update`.
        """
        raise NotImplementedError

    def update(
        self, factor: Floats, shift: Floats, mu: float, next_mu: float
    ) -> tuple[Floats, Any, Floats]:
        """Run lines 9 to 16 of Algorithm 1; return squared gaps, their scale, hinge, `project`.

        The scores change by `factor` times the last `change`, plus `shift`.
        """
        raise NotImplementedError

    def project(self) -> tuple[Any, Floats]:
        """Compute residual' X and the sums of the residual, per class."""
        raise NotImplementedError


class TritonPrimalDualPart(BasePart):
    """All bags on a device, with a Triton kernel that loops over bags.

    Instances and scores keep their precision; the variables per bag and class are float64. The
    residual is a dense tensor (n_instances, n_classes), `residual_sums` its sums over instances.
    """

    def __init__(self, bags: Bags, codes: Array, weights: Floats, **options: Any) -> None:
        super().__init__(bags, codes, weights, **options)
        device = self.X.device
        self.codes = torch.as_tensor(codes, dtype=torch.int64, device=device)
        self.weights = torch.as_tensor(weights, dtype=torch.float64, device=device)[:, None]
        self.bag = torch.as_tensor(bags.bag_index, dtype=torch.int64, device=device)
        is_own = self.codes[:, None] == torch.arange(self.problem.n_classes, device=device)
        self.times = self.weights * (1.0 + self.problem.extra * is_own)  # D_m, per bag
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
        self.residual_sums = self.max_t.new_zeros(self.problem.n_classes)

    def project(self) -> tuple[Any, Floats]:
        """Compute residual' X and the sums of the residual, per class."""
        return self.residual.T @ self.X, to_numpy(self.residual_sums)

    def change(self, step: Any) -> tuple[Floats, Floats]:
        """Sums and sums of squares, per class, of the change of the scores by a step of W."""
        from bagwise.solvers.margin import primal_dual_kernels

        self.changed = (self.X @ step.T).contiguous()
        moments = primal_dual_kernels.moments(self.offsets, self.changed)
        first, second = to_numpy((moments * self.times).sum(dim=1))
        return first, second

    def _settings(self, factor: Floats, shift: Floats, mu: float, next_mu: float) -> Any:
        """Parameters of a kernel besides the state, copied to the device once."""
        return beside(np.concatenate([factor, shift, [self.cost, mu, next_mu]]), self.X)

    def update(
        self, factor: Floats, shift: Floats, mu: float, next_mu: float
    ) -> tuple[Floats, Any, Floats]:
        """Run lines 9 to 16 of Algorithm 1, then `project`."""
        from bagwise.solvers.margin import primal_dual_kernels

        found = primal_dual_kernels.update_bags(self, self._settings(factor, shift, mu, next_mu))
        self.residual_sums = found[3:]
        report = to_numpy(found)  # before the product starts, so as not to wait for it
        return report[:3], self.residual.T @ self.X, report[3:]


class PrimalDualPart(BasePart):
    """Bags in this process or on a worker, with compiled loops over bags."""

    @staticmethod
    def tensor_part(bags: Bags, *per_bag: Any, **options: Any) -> BasePart:
        """The part of bags on a device."""
        if runs_triton(bags, options["n_classes"]):
            return TritonPrimalDualPart(bags, *per_bag, **options)
        return PrimalDualPart(bags.to("numpy"), *per_bag, **options)

    def feature_ranges(self) -> tuple[Array, Array]:
        """Smallest and largest value of each feature, block by block."""
        X = self.X
        if sparse.issparse(X):
            return min_max_axis(X, axis=0)
        lowest, highest = X[0].copy(), X[0].copy()
        step = max(1, 2**20 // X.shape[1])
        for start in range(0, len(X), step):  # reads a file once
            block = X[start : start + step]
            np.minimum(lowest, block.min(axis=0), out=lowest)
            np.maximum(highest, block.max(axis=0), out=highest)
        return lowest, highest

    def _first_scores(self, W: Array) -> tuple[Array, Array, Array]:
        offsets, scores = self.bags.offsets, self._scores(W)
        place = loops.segments.argmax(scores, offsets) + offsets[:-1, None]
        return scores, place, loops.segments.maximum(scores, offsets).astype(np.float64)

    def _scores(self, W: Array) -> Array:
        """X W', block by block if the instances are in a file."""
        if sparse.issparse(self.X):
            return np.ascontiguousarray(product(self.X, W))
        scores = np.empty((self.bags.n_instances, len(W)), np.result_type(self.X.dtype, W.dtype))
        for block, instances in read_bag_blocks(self.bags):
            np.matmul(instances, W.T, out=scores[rows_of(self.bags, block)])
        return scores

    def _begin_residual(self) -> None:
        self.residual = Residual(self.problem)
        # Workspace of an iteration: allocating it each time costs as much as filling it.
        n_bags, K = self.max_t.shape
        self.changed = np.empty_like(self.scores)
        self.moments = np.empty((2, n_bags, K))
        self.report = np.empty((n_bags, 3))

    def project(self) -> tuple[Array, Array]:
        """Compute residual' X and the sums of the residual, per class."""
        if sparse.issparse(self.X):
            projected = (self._residual_matrix().astype(self.X.dtype) @ self.X).toarray()
        else:
            projected = sum(self._project_bags(*block) for block in read_bag_blocks(self.bags))
        return projected, self._residual_sums()

    def _residual_matrix(self) -> sparse.csr_array:
        """Transposed residual, of shape (n_classes, n_instances)."""
        return self.residual.matrix

    def _project_bags(self, block: slice, X: Array) -> Array:
        """Compute residual' X over a block of bags, given their dense instances."""
        return self.residual.times(block, X)  # bag by bag, which reads each row once

    def change(self, step: Array) -> tuple[Array, Array]:
        """Sums and sums of squares, per class, of the change of the scores by a step of W."""
        p, (first, second) = self.problem, self.moments
        if sparse.issparse(self.X):
            self.changed[:] = product(self.X, step)
        else:
            self._change_all(step)
        over_bags(
            loops.primal_dual.moments, p.offsets, self.changed,
            p.codes, p.weights, p.extra, first, second,
        )  # fmt: skip
        return first.sum(axis=0), second.sum(axis=0)

    def update(
        self, factor: Floats, shift: Floats, mu: float, next_mu: float
    ) -> tuple[Array, Array, Array]:
        """Run lines 9 to 16 of Algorithm 1, then `project`."""
        self._update_bags(slice(0, len(self.bags)), factor, shift, mu, next_mu)
        return self.report.sum(axis=0), *self.project()

    def advance(
        self, step: Array, factor: Floats, shift: Floats, mu: float, next_mu: float
    ) -> tuple[Array, Array, Array]:
        """Run `change` and `update` on dense instances in one pass, block by block."""
        projected = np.zeros(step.shape, self.X.dtype)
        with blas_cores(
            max(1, n_threads() // 4)
        ):  # products are limited by memory bandwidth; one core reads the file
            for block, X in bag_blocks_ahead(self.bags):
                self._change_bags(block, X, step)
                self._update_bags(block, factor, shift, mu, next_mu)
                projected += self._project_bags(block, X)
        return self.report.sum(axis=0), projected, self._residual_sums()

    def weighted_sums(self) -> Floats:
        """X' D_m 1 of each class, of shape (n_classes, n_features), for dense instances."""
        p = self.problem
        own = p.codes[:, None] == np.arange(p.n_classes)
        times = (p.weights[:, None] * (1.0 + p.extra * own)).astype(self.X.dtype)
        total = np.zeros((p.n_classes, self.X.shape[1]))
        for block, X in bag_blocks_ahead(self.bags):
            total += np.repeat(times[block], self.bags.sizes[block], axis=0).T @ X
        return total

    def _residual_sums(self) -> Floats:
        return self.residual.sums

    def _change_bags(self, block: slice, X: Array, step: Array) -> None:
        """X step' of a block of bags; one product over a large file would read it several times."""
        np.matmul(X, step.T, out=self.changed[rows_of(self.bags, block)])

    def _change_all(self, step: Array) -> None:
        """X step' on our own threads: BLAS threads would keep spinning after the product."""
        with blas_cores(1):
            for block, X in read_bag_blocks(self.bags):
                changed = self.changed[rows_of(self.bags, block)]
                run_blocks(
                    lambda i, j, X=X, out=changed: np.matmul(X[i:j], step.T, out=out[i:j]),
                    even_bounds(len(X), X.size * len(step)),
                )

    def _update_bags(
        self, block: slice, factor: Floats, shift: Floats, mu: float, next_mu: float
    ) -> None:
        """Run lines 9 to 16 of Algorithm 1 for a block of bags."""
        p, residual = self.problem, self.residual
        run_blocks(
            loops.primal_dual.update_bags, bounds_of(block, p.offsets, self.scores.size),
            p.offsets, self.scores,
            self.changed, factor, shift, p.codes, p.weights, self.cost, mu, next_mu, p.shared,
            self.mask, self.place_t, self.theta, self.max_t, self.place_u, self.xi, self.max_u,
            self.q, self.r, self.lam, self.sigma, self.omega,
            residual.class_start, residual.rank, residual.instances, residual.values, self.report,
        )  # fmt: skip

    def state(self) -> dict[str, Array]:
        """Arrays that an iteration changes."""
        return super().state() | {"rows": self.residual.instances, "values": self.residual.values}

    def restore(self, state: dict[str, Array]) -> None:
        """Replace the arrays that an iteration changes."""
        super().restore(state)
        self._begin_residual()
        self.residual.instances = state["rows"]
        self.residual.values = state["values"]


class KernelPart(PrimalDualPart):
    """`PrimalDualPart` for a kernel: W holds coefficients, and X' residual is the residual."""

    tensor_part: ClassVar[Any] = None

    def project(self) -> tuple[Array, Array]:
        """Transposed residual and its sums."""
        return self._residual_matrix().toarray().astype(self.X.dtype), self._residual_sums()

    def norms_of_step(self, W: Array) -> Array:
        """a_m' K a_m of each class for the step of the last `change`."""
        return np.einsum("mi,im->m", W, self.changed)

    def norms_of_scores(self, W: Array) -> Array:
        """a_m' (K a_m + b_m) of each class for the coefficients of the scores."""
        return np.einsum("mi,im->m", W, self.scores)


def runs_triton(bags: Bags, n_columns: int) -> bool:
    """Whether the Triton kernels run on bags on a device; else they are copied to this process."""
    return has_kernels(bags.instances) and n_columns <= LARGEST_WITH_KERNELS


def bounds_of(block: slice, offsets: Ints, n_values: float) -> Ints:
    """Split a slice of bags into one block per thread, or a single block for little work."""
    some = offsets[block.start : block.stop + 1]
    return block.start + bag_bounds(some - some[0], n_values)
