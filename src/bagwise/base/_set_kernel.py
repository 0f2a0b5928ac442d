"""The set kernel and its approximation by Nystroem features of instances.

SetKernelSVM and SetKernelRegressor share it. The features are computed in blocks, where the
instances are stored.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.kernel_approximation import Nystroem

from bagwise._common.memory import require_memory
from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base._kernel_machine import (
    BLOCK,
    kernel_params,
    kernel_scores,
    nystroem_features,
    nystroem_of,
    transformed,
)
from bagwise.base._parameters import with_parameters
from bagwise.compute import arrays, is_here, map_bags, memory_of_parts, over_partitions, to_numpy
from bagwise.compute.blocks import row_blocks
from bagwise.compute.mapped import release_pages
from bagwise.loops import threads
from bagwise.pairwise import (
    BAG_KERNELS,
    kernel_between,
    kernel_takes_long,
    kernel_width,
    minimax_statistics,
    set_kernel_norms,
)

LARGEST_GRAM = 10_000  # bags; beyond, the kernel is approximated
SUMMED = 2**18  # values per block, which stay in the cache between features and sums
LANDMARKS = 300  # features of the approximation


def width_of(gamma: str | float, bags: Bags) -> float:
    """Kernel width as in `kernel_width`, also for instances in files, on devices or on workers.

    Parameters
    ----------
    gamma : {"half_scale", "scale", "auto"} or float
        The parameter of the estimator; "half_scale" is half of "scale".
    bags : Bags
        The training bags.

    Returns
    -------
    float
    """
    if gamma == "half_scale":
        return 0.5 * width_of("scale", bags)
    if gamma != "scale" or (is_here(bags) and not bags.is_mapped):
        return kernel_width(gamma, bags)
    counts, means, variances = over_partitions(_moments, bags).T
    mean = np.average(means, weights=counts)
    variance = np.average(variances + (means - mean) ** 2, weights=counts)
    return float(1.0 / (bags.n_features * variance)) if variance > 0 else 1.0


def _moments(bags: Bags) -> Floats:
    """Number, mean and variance of all values."""
    X, n_values = bags.instances, float(bags.n_instances * bags.n_features)
    mean = float(arrays.column_sums(X).sum()) / n_values
    blocks = arrays.centred_blocks(X, np.full(bags.n_features, mean), double=True)
    squares = sum(float((block**2).sum()) for _, block in blocks)
    return np.array([[n_values, mean, squares / n_values]])


def nystroem_of_bags(
    model: Any, gamma: float, n_landmarks: int, rng: np.random.RandomState, bags: Bags
) -> Nystroem:
    """Nystroem approximation of the kernel of a model; landmarks are drawn from the instances.

    Parameters
    ----------
    model : estimator
        A model with the parameter `kernel`.
    gamma : float
        Width of the kernel.
    n_landmarks : int
        Number of landmarks; all instances if there are fewer.
    rng : RandomState
        Source of the draws, which do not depend on where the bags are stored.
    bags : Bags
        The training bags.

    Returns
    -------
    Nystroem
    """
    n_landmarks = min(n_landmarks, bags.n_instances)
    chosen = np.sort(rng.choice(bags.n_instances, n_landmarks, replace=False))
    rows = rows_at(bags, chosen).astype(np.float64)
    origin = _origin(model.kernel, rows)
    nystroem = nystroem_of(model, gamma, n_landmarks, 0, rows if origin is None else rows - origin)
    if origin is not None:
        nystroem.components_ = nystroem.components_ + origin
    return nystroem


def _origin(kernel: Any, landmarks: Any) -> Floats | None:
    """Mean of the landmarks, if the kernel is a function of differences.

    It is subtracted first: distances are differences of squares, which lose all digits far from 0.
    """
    return landmarks.mean(axis=0) if kernel == "rbf" and not issparse(landmarks) else None


def rows_at(bags: Bags, chosen: Ints) -> Any:
    """Fetch rows of the instances; from a device or workers, with the bags that contain them.

    Parameters
    ----------
    bags : Bags
        The bags.
    chosen : ndarray of int64
        Positions of instances.

    Returns
    -------
    ndarray or CSR
    """
    if is_here(bags):
        return bags.rows(chosen)
    bag = np.searchsorted(bags.offsets, chosen, side="right") - 1
    few, which = np.unique(bag, return_inverse=True)
    some = bags[few]
    rows = some.offsets[:-1][which] + chosen - bags.offsets[bag]
    return over_partitions(lambda bags: to_numpy(bags.instances), some)[rows]


def kernel_bags(nystroem: Nystroem, bags: Bags) -> Bags:
    """Replace instances by their Nystroem features, where the bags are stored.

    Parameters
    ----------
    nystroem : Nystroem
        The fitted approximation.
    bags : Bags
        The bags. Features of a memory-mapped table are written to a temporary file.

    Returns
    -------
    Bags
    """
    n_landmarks = len(nystroem.component_indices_)
    n_instances = bags.n_instances
    if not bags.is_mapped:
        require_memory(
            8.0 * n_instances * n_landmarks,
            available=memory_of_parts(bags),
            purpose=f"{n_landmarks:,} Nystroem features of {n_instances:,} instances",
            remedy="use fewer components or kernel='linear', or map the instances from a file",
        )
    return map_bags(partial(_with_features, nystroem), bags)


def _with_features(nystroem: Nystroem, bags: Bags) -> Bags:
    n_landmarks = len(nystroem.component_indices_)
    out = arrays.empty(bags.source, (bags.n_instances, n_landmarks))
    for rows, block in row_blocks(bags, max(1, BLOCK // n_landmarks) * bags.n_features):
        out[rows] = _features(nystroem, block)
        release_pages(out)
    return bags.with_instances(out)


def kernel_product(nystroem: Nystroem, X: Any, coef: Array) -> Array:
    """Product of the Nystroem features of rows and weights, a block of rows at a time.

    Parameters
    ----------
    nystroem : Nystroem
        The fitted approximation.
    X : ndarray, CSR or tensor of shape (n_rows, n_features)
        The rows.
    coef : ndarray of shape (n_columns, n_landmarks)
        The weights.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
    """
    return kernel_scores(X, partial(_features, nystroem), coef).astype(coef.dtype, copy=False)


def _features(nystroem: Nystroem, rows: Any) -> Any:
    """Features of a block in double precision: the inverse root of the kernel amplifies rounding.

    A callable kernel takes numpy arrays: rows of a tensor are converted.
    """
    rows = arrays.float64(rows)
    if nystroem.kernel == "rbf":
        origin, landmarks = _origin("rbf", nystroem.components_), nystroem.components_
        if origin is not None and not issparse(rows):
            rows, landmarks = rows - arrays.like(origin, rows), landmarks - origin
        kernel = arrays.gaussian(rows, landmarks, nystroem.gamma)
        return arrays.product(kernel, nystroem.normalization_)
    return arrays.like(nystroem_features(nystroem, to_numpy(rows)), rows)


@with_parameters
class SetKernelMixin:
    """Kernel between bags: its values, the parameters, the fit and the scores.

    A subclass defines ``_weights(table, labels, weight, kernel)``, which returns the weights of the
    columns, of shape (n_models, n_columns), and the intercepts. The table contains the kernel
    between bags (`kernel` is "precomputed") or features that approximate it ("linear"). Among the
    base classes the mixin comes before the one that uses `_score`.
    """

    _parameter_constraints: dict[str, Any] = {
        "bag_kernel": [StrOptions(set(BAG_KERNELS))],
        "normalization": [StrOptions({"feature", "average"}), None],
    }

    C: float = 10.0
    _: KW_ONLY
    bag_kernel: str = "nsk"
    kernel: Any = "rbf"
    gamma: Any = "scale"
    normalization: str | None = "feature"
    n_landmarks: Any = "auto"
    random_state: Any = 0

    @property
    def instance_pooling(self) -> str | None:
        """How instance scores are pooled into the score of the bag: their mean (NSK only)."""
        return "mean" if self.bag_kernel == "nsk" else None

    def _weights(
        self, table: Floats, labels: Any, weight: Floats, kernel: str
    ) -> tuple[Floats, Floats]:
        raise NotImplementedError

    def _solve(self, bags: Bags, labels: Any, weight: Floats, rng: Any) -> None:
        n_landmarks = self._n_landmarks_of(bags)
        self.gamma_ = self._width(bags)
        if n_landmarks is not None:
            seed = int(rng.randint(2**31 - 1))
            rows = bags.instances if self.bag_kernel == "nsk" else minimax_statistics(bags)
            self.nystroem_ = nystroem_of(self, self.gamma_, n_landmarks, seed, rows)
            features = self._features(bags)
            self.coef_, self.intercept_ = self._weights(features, labels, weight, "linear")
            return
        require_memory(
            3 * 8.0 * len(bags) ** 2,
            purpose=f"the kernel of {len(bags):,} bags",
            remedy="set n_landmarks, or use fewer bags",
        )
        gram = kernel_between(bags, kind=self.bag_kernel, **self._kernel_options())
        dual, self.intercept_ = self._weights(gram, labels, weight, "precomputed")
        support = np.any(dual != 0, axis=0)
        support[0] |= not support.any()  # with a large tol all weights may be 0; scores need a bag
        self.support_bags_, self.dual_coef_ = bags[support], dual[:, support]

    def _n_landmarks_of(self, bags: Bags) -> int | None:
        """Number of features that approximate the kernel; None for the exact kernel."""
        if self.n_landmarks != "auto":
            return self.n_landmarks
        # The kernel between all pairs of bags, or of instances, may be too expensive.
        pairs = self.bag_kernel == "nsk" and kernel_takes_long(self.kernel, bags)
        return LANDMARKS if len(bags) > LARGEST_GRAM or pairs else None

    def _features(self, bags: Bags) -> Floats:
        """Feature vectors of bags, whose inner products approximate the kernel."""
        if self.bag_kernel == "minimax":
            return transformed(self.nystroem_, minimax_statistics(bags))
        sums = self._sums(bags)
        return sums / self._feature_norms(sums, bags)[:, None]

    def _sums(self, bags: Bags) -> Floats:
        n_landmarks = len(self.nystroem_.component_indices_)
        return sums_by_bag(bags, partial(nystroem_features, self.nystroem_), n_landmarks)

    def _feature_norms(self, sums: Floats, bags: Bags) -> Floats:
        """The norm of each bag, as in `set_kernel_norms`."""
        if self.normalization == "feature":
            bags = Bags(sums, np.arange(len(bags) + 1))
        return set_kernel_norms(bags, kernel="linear", normalization=self.normalization)

    def _width(self, bags: Bags) -> float:
        """Kernel width, from the vectors that the kernel compares."""
        if self.bag_kernel == "minimax":
            bags = Bags(minimax_statistics(bags), np.arange(len(bags) + 1))
        return kernel_width(self.gamma, bags)

    def _bag_scores(self, bags: Bags) -> Array:
        if hasattr(self, "nystroem_"):
            return self._features(bags) @ self.coef_.T + self.intercept_
        options = {"kind": self.bag_kernel} | self._kernel_options()
        gram = kernel_between(bags, self.support_bags_, **options)
        return gram @ self.dual_coef_.T + self.intercept_

    def _score(self, bags: Bags) -> Array:
        """Instance scores, whose mean is the score of the bag."""
        if hasattr(self, "nystroem_"):
            norms = self._feature_norms(self._sums(bags), bags)
            sums = kernel_scores(bags.instances, self.nystroem_.transform, self.coef_)
            return sums * (bags.sizes / norms)[bags.bag_index, None] + self.intercept_
        options = self._kernel_options()
        norms = set_kernel_norms(bags, **options)
        # Each instance is scored as a bag of its own: the sum of weight x kernel sum over the
        # support bags, then the normalisation of the bag that contains the instance.
        alone = Bags(bags.instances, np.arange(bags.n_instances + 1))
        plain = options | {"normalization": None}
        weights = self.dual_coef_ / set_kernel_norms(self.support_bags_, **options)
        sums = kernel_between(alone, self.support_bags_, **plain) @ weights.T
        scale = (bags.sizes / norms)[bags.bag_index]
        return sums * scale[:, None] + self.intercept_

    def _kernel_options(self) -> dict[str, Any]:
        shape = {"kernel": self.kernel, "normalization": self.normalization}
        return shape | kernel_params(self, self.gamma_)


def sums_by_bag(bags: Bags, features: Callable[[Any], Floats], n_columns: int) -> Floats:
    """Sum the features of the instances of each bag, in blocks of instances.

    Parameters
    ----------
    bags : Bags
        The bags, none of them empty.
    features : callable
        From instances (n_rows, n_features) to features (n_rows, n_columns).
    n_columns : int
        Number of features.

    Returns
    -------
    ndarray of shape (n_bags, n_columns)
    """
    offsets, n_bags = bags.offsets, len(bags)
    require_memory(
        8.0 * n_bags * n_columns,
        purpose=f"{n_columns:,} features of {n_bags:,} bags",
        remedy="use fewer components or landmarks, or fewer bags at a time",
    )
    out = np.zeros((n_bags, n_columns))
    n_rows = max(1, SUMMED // max(n_columns, bags.n_features))

    def work(first: int, last: int) -> None:
        for start in range(offsets[first], offsets[last], n_rows):
            stop = min(start + n_rows, offsets[last])
            low, high = np.searchsorted(offsets, [start, stop - 1], side="right") - 1
            begins = np.maximum(offsets[low : high + 1] - start, 0)
            block = features(bags.rows(slice(start, stop)))
            out[low : high + 1] += np.add.reduceat(block, begins, axis=0)

    n_values = float(bags.n_instances) * max(n_columns, bags.n_features)
    with threads.library_cores(1):
        threads.run_blocks(work, threads.bag_bounds(offsets, n_values))
    return out
