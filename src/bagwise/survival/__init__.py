"""Survival models of bags: the time to an event, which may be censored."""

from bagwise.survival._auto import AutoBagSurvival
from bagwise.survival._set_kernel import SetKernelCox

__all__ = ["AutoBagSurvival", "SetKernelCox"]
