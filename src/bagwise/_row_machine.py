"""Machines on rows: a score is a weighted sum of features, or of kernels with training rows."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot

from bagwise.bags import Bags
from bagwise.base import RowEstimator
from bagwise.pairwise import instance_kernel, kernel_width
from bagwise.solvers.feature_space import FeatureSpace, KernelFeatures, LinearFeatures

__all__ = ["RowMachine"]

BLOCK = 2**22  # kernel values held at once when scoring


class RowMachine(RowEstimator):
    """Linear and kernel machines on rows: where they are trained, kept, and asked.

    A subclass offers the parameters `kernel`, `gamma`, `degree` and `coef0`.
    """

    _parameter_constraints: dict[str, Any] = {
        "kernel": [StrOptions(set(PAIRWISE_KERNEL_FUNCTIONS)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Real],
    }

    kernel: Any
    gamma: Any
    degree: float
    coef0: float

    def _space(self, rows: Any) -> FeatureSpace:
        """The training rows, in double precision, seen through the kernel."""
        if self.kernel == "linear":
            return LinearFeatures(rows)
        width = kernel_width(self.gamma, Bags(rows, np.arange(rows.shape[0] + 1)))
        return KernelFeatures(rows, lambda A, B: self._kernel_values(A, B, width))

    def _keep(self, space: FeatureSpace, coef: NDArray[Any], intercept: NDArray[Any]) -> None:
        """Remember machines, rows of `coef` over the training rows, as fitted state."""
        if isinstance(space, LinearFeatures):
            self.coef_, self.intercept_ = space.planes(coef, intercept)
            return
        assert isinstance(space, KernelFeatures)
        self.support_ = np.flatnonzero(np.any(coef != 0, axis=0))
        self.support_vectors_ = space.rows[self.support_]
        self.dual_coef_, self.intercept_ = coef[:, self.support_], intercept
        rows = Bags(space.rows, np.arange(space.rows.shape[0] + 1))
        self.gamma_ = kernel_width(self.gamma, rows)

    def _score_rows(self, rows: Any) -> NDArray[np.float64]:
        """Score checked rows by each machine: shape (n_rows, n_machines)."""
        if self.kernel == "linear":
            return safe_sparse_dot(rows, self.coef_.T, dense_output=True) + self.intercept_
        n_rows = max(1, BLOCK // max(1, len(self.support_)))
        scores = [
            self._kernel_values(rows[batch], self.support_vectors_, self.gamma_) @ self.dual_coef_.T
            for batch in gen_batches(rows.shape[0], n_rows)
        ]
        return np.concatenate(scores) + self.intercept_

    def _kernel_values(self, A: Any, B: Any, gamma: float) -> NDArray[Any]:
        if B.shape[0] == 0:
            return np.zeros((A.shape[0], 0))
        params = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
        return instance_kernel(A, B, self.kernel, params)
