"""Regressors of bags: a number per bag."""

from bagwise.regression._set_kernel import SetKernelRegressor

__all__ = ["SetKernelRegressor"]
