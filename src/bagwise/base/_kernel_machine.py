"""Models whose score is a weighted sum of features, or of kernel values with training rows.

The rows are instances of bags, or plain rows.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import KERNEL_PARAMS
from sklearn.utils.extmath import safe_sparse_dot

from bagwise._common.memory import require_memory
from bagwise._common.tables import slices
from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.base._estimator import BagEstimator
from bagwise.compute import to_numpy
from bagwise.compute.arrays import product
from bagwise.exceptions import InputError
from bagwise.pairwise import for_kernel, instance_kernel, kernel_width
from bagwise.solvers.margin import feature_space
from bagwise.solvers.result import SolverResult

BLOCK = 2**19  # kernel values or features in memory at once


class KernelMachine(BagEstimator):
    """Base class of kernel models: the training space, the fitted state and the scores of rows.

    A subclass has the parameters `kernel`, `gamma`, `degree` and `coef0`. Its ``fit`` sets
    `intercept_`, and either `coef_`, or `dual_coef_`, `support_`, `support_vectors_` and `gamma_`,
    or `coef_`, `nystroem_` and `gamma_`.

    Parameters
    ----------
    kernel : str or callable
        The kernel: "linear", or another of scikit-learn's names ("rbf", "poly", "laplacian",
        ...), or a function of two vectors.
    degree : float
        Degree of the polynomial kernel.
    coef0 : float
        Constant of the polynomial kernel.

    Attributes
    ----------
    coef_ : ndarray of shape (n_machines, n_features)
        The weights of the features (linear kernel), or of the Nystroem features; one row for
        two classes, else one per class.
    support_ : ndarray of shape (n_support,)
        Positions of the training instances with non-zero weight (nonlinear kernels).
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        The training instances with non-zero weight.
    dual_coef_ : ndarray of shape (n_machines, n_support)
        The weights of the support vectors.
    nystroem_ : Nystroem
        The approximation of the kernel, if one is used.
    gamma_ : float
        The kernel width used (nonlinear kernels).
    intercept_ : ndarray of shape (n_machines,)
        The intercepts.
    """

    def _width(self, rows: Any) -> float:
        """Kernel width for these rows."""
        return kernel_width(self.gamma, Bags(rows, np.arange(rows.shape[0] + 1)))

    def _space(
        self, rows: Any, *, n_landmarks: int | None = None, seed: int | None = None
    ) -> feature_space.FeatureSpace:
        """Feature space of the kernel on the training rows, in double precision.

        Sets `gamma_`, and `nystroem_` for the approximation.
        With `n_landmarks`, the kernel is approximated by this number of Nystroem features.
        """
        costs = {name: getattr(self, name, None) for name in ("C", "C1", "C2")}
        if self.kernel == "linear":
            space = feature_space.LinearFeatures(rows)
            feature_space.check_costs(feature_space.mean_square(space.rows), **costs)
            return space
        feature_space.check_costs(1.0, **costs)
        self.gamma_ = width = self._width(rows)
        if n_landmarks is not None:
            self.nystroem_ = nystroem_of(self, width, n_landmarks, seed, rows)
            return NystroemFeatures(transformed(self.nystroem_, rows))
        return feature_space.KernelFeatures(rows, lambda A, B: self._kernel_values(A, B, width))

    def _keep_each(
        self, space: feature_space.FeatureSpace, results: Sequence[SolverResult]
    ) -> None:
        """Store one model per result; ``solution`` begins with (coef of rows, intercept)."""
        coef, intercept = zip(*(result.solution[:2] for result in results), strict=True)
        self._keep(space, np.array(coef), np.array(intercept, dtype=np.float64))

    def _keep(self, space: feature_space.FeatureSpace, coef: Array, intercept: Array) -> None:
        """Store the fitted state; each row of `coef` has the weights of the training rows."""
        if isinstance(space, feature_space.LinearFeatures):
            self.coef_, self.intercept_ = space.planes(coef, intercept)
            return
        assert isinstance(space, feature_space.KernelFeatures)
        self.support_ = np.flatnonzero(np.any(coef != 0, axis=0))
        self.support_vectors_ = space.rows[self.support_]
        self.dual_coef_, self.intercept_ = coef[:, self.support_], intercept

    def _kernel_values(self, A: Any, B: Any, gamma: float) -> Array:
        if B.shape[0] == 0:
            return np.zeros((A.shape[0], 0))
        return instance_kernel(A, B, self.kernel, kernel_params(self, gamma))

    def _score(self, bags: Bags) -> Array:
        return self._score_rows(bags.instances)

    def _score_rows(self, rows: Any) -> Array:
        """Scores of validated rows, of shape (n_rows, n_machines)."""
        if hasattr(self, "nystroem_"):
            features = partial(nystroem_features, self.nystroem_)
            return kernel_scores(rows, features, self.coef_) + self.intercept_
        if hasattr(self, "coef_"):
            return safe_sparse_dot(rows, self.coef_.T, dense_output=True) + self.intercept_

        def values(block: Any) -> Array:
            return self._kernel_values(block, self.support_vectors_, self.gamma_)

        return kernel_scores(rows, values, self.dual_coef_) + self.intercept_


class NystroemFeatures(feature_space.LinearFeatures):
    """Nystroem features of rows."""

    # The approximation error is larger, and with a lower tol huge bags take minutes.
    least_tol = 1e-6


def nystroem_of(
    model: Any, gamma: float, n_landmarks: int, seed: int | None, rows: Any
) -> Nystroem:
    """Nystroem approximation of the kernel of a model, fitted on rows.

    Parameters
    ----------
    model : estimator
        A model with the parameters `kernel`, `degree` and `coef0`.
    gamma : float
        Width of the kernel.
    n_landmarks : int
        Number of features; at most the number of rows.
    seed : int or None
        Seed of the choice of landmarks.
    rows : ndarray or CSR of shape (n_rows, n_features)
        The rows.

    Returns
    -------
    Nystroem
    """
    params = {}
    if not callable(model.kernel):
        known = kernel_params(model, gamma)
        params = {n: known[n] for n in KERNEL_PARAMS[model.kernel] if known.get(n) is not None}
    n_landmarks = min(n_landmarks, rows.shape[0])
    nystroem = Nystroem(kernel=model.kernel, n_components=n_landmarks, random_state=seed, **params)
    try:
        try:
            return nystroem.fit(for_kernel(rows, model.kernel))
        except np.linalg.LinAlgError:  # LAPACK's SVD did not converge, which is rare
            other = None if seed is None else seed + 1
            return nystroem.set_params(random_state=other).fit(for_kernel(rows, model.kernel))
    except ValueError as error:
        raise _unsuitable(nystroem, error) from error


def nystroem_features(nystroem: Nystroem, rows: Any) -> Array:
    """Nystroem features of a block of rows.

    Parameters
    ----------
    nystroem : Nystroem
        The fitted transformer.
    rows : ndarray or CSR of shape (n_rows, n_features)
        The rows.

    Returns
    -------
    ndarray of shape (n_rows, n_landmarks)
    """
    try:
        return nystroem.transform(for_kernel(rows, nystroem.kernel))
    except ValueError as error:
        raise _unsuitable(nystroem, error) from error


def _unsuitable(nystroem: Nystroem, error: ValueError) -> InputError:
    """Make the same error as `instance_kernel`, for example for chi2 on negative values."""
    return InputError(f"kernel={nystroem.kernel!r} does not suit these instances: {error}")


def transformed(nystroem: Nystroem, rows: Any, dtype: Any = np.float64) -> Array:
    """Nystroem features of rows, a block of rows at a time.

    Parameters
    ----------
    nystroem : Nystroem
        The fitted transformer.
    rows : ndarray or CSR of shape (n_rows, n_features)
        The rows.
    dtype : data-type, default=float64
        Precision of the features.

    Returns
    -------
    ndarray of shape (n_rows, n_landmarks)
    """
    n_landmarks = len(nystroem.component_indices_)
    require_memory(
        1.7 * np.dtype(dtype).itemsize * rows.shape[0] * n_landmarks,
        purpose=f"{n_landmarks:,} Nystroem features of {rows.shape[0]:,} rows, and copies",
        remedy="fit part of the rows, or use fewer landmarks or kernel='linear'",
    )
    out = np.empty((rows.shape[0], n_landmarks), dtype)
    for block in slices(rows.shape[0], max(1, BLOCK // n_landmarks)):
        out[block] = nystroem_features(nystroem, rows[block])
    return out


def kernel_params(model: Any, gamma: float | None) -> dict[str, Any]:
    """Kernel parameters of a model, for `instance_kernel`; None for scikit-learn's defaults."""
    return {"gamma": gamma} | {n: getattr(model, n, None) for n in ("degree", "coef0")}


def kernel_scores(rows: Any, kernel: Callable[[Any], Array], dual_coef: Array) -> Array:
    """Weighted sums of kernel values, a block of rows at a time.

    Parameters
    ----------
    rows : ndarray, CSR or tensor of shape (n_rows, n_features)
        The rows.
    kernel : callable
        Maps a block of rows to its kernel values with the support vectors, or to its features.
    dual_coef : ndarray of shape (n_machines, n_support)
        The weights of the support vectors, or of the features.

    Returns
    -------
    ndarray of shape (n_rows, n_machines)
    """
    size = max(1, BLOCK // max(1, dual_coef.shape[1]))
    blocks = slices(rows.shape[0], size)
    return np.concatenate([to_numpy(product(kernel(rows[b]), dual_coef)) for b in blocks])
