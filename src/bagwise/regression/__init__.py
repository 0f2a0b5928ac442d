"""Regressors of bags: a numeric target per bag."""

from bagwise.regression._censored import CensoredBagRegressor
from bagwise.regression._set_kernel import SetKernelRegressor

__all__ = ["CensoredBagRegressor", "SetKernelRegressor"]
