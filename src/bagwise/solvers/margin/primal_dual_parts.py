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
from bagwise.compute import Part, read_bag_blocks, readable_table, rows_of
from bagwise.compute.arrays import beside, like, product, to_numpy, zeros
from bagwise.compute.tensors import has_kernels, segment_argmax, segment_max, torch
from bagwise.loops import threads
from bagwise.loops.arguments import Copy, Entries, Settings, read_only
from bagwise.loops.threads import bag_bounds, blas_cores, even_bounds, run_blocks

LARGEST_WITH_KERNELS = 256  # classes of a bag that fit in the registers of a GPU


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

    @property
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
        n_bags, n_columns = len(self.bags), self.problem.n_columns
        self.changed = np.empty_like(self.scores)
        self.moments = np.empty((2, n_bags, n_columns))
        self.report = np.empty((n_bags, 3))

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
        p, (first, second) = self.problem, self.moments
        if sparse.issparse(self.X):
            self.changed[:] = product(self.X, step)
        else:
            self._change_all(step)
        loop = loops.primal_dual.moments
        arrays = p.codes, p.weights, p.n_copies, first, second
        threads.over_bags(loop, p.offsets, self.changed, *arrays)
        return first.sum(axis=0), second.sum(axis=0)

    def update(self, settings: Settings) -> tuple[Array, Array, Array]:
        """Run lines 9 to 16 of Algorithm 1; return squared gaps, their scale, hinge, `project`."""
        self._update_bags(slice(0, len(self.bags)), settings)
        return self.report.sum(axis=0), *self.project()

    def advance(self, step: Array, settings: Settings) -> tuple[Array, Array, Array]:
        """Run `change` and `update` on dense instances in one pass, block by block."""
        projected = np.zeros(step.shape, self.X.dtype)
        # Products are limited by memory bandwidth; one core reads the file.
        with blas_cores(max(1, threads.n_threads() // 4)):
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
        with blas_cores(1):
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
