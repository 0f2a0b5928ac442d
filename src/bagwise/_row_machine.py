"""Machines on rows that are trained in a feature space."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise._kernel_machine import KernelMachine
from bagwise.base import RowEstimator
from bagwise.solvers.feature_space import FeatureSpace, KernelFeatures, LinearFeatures

__all__ = ["RowMachine"]


class RowMachine(KernelMachine, RowEstimator):
    """Linear and kernel machines on rows: where they are trained and kept."""

    def _space(self, rows: Any) -> FeatureSpace:
        """The training rows, in double precision, seen through the kernel."""
        self._forget()
        if self.kernel == "linear":
            return LinearFeatures(rows)
        width = self._width(rows)
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
        self.gamma_ = self._width(space.rows)
