"""Automatic choice of a method: several methods, calibrated and combined."""

from bagwise.auto._classifier import AutoBagClassifier
from bagwise.auto._regressor import AutoBagRegressor

__all__ = ["AutoBagClassifier", "AutoBagRegressor"]
