"""The best prediction without a choice of method: several methods, calibrated and combined."""

from bagwise.auto._auto import AutoBagClassifier

__all__ = ["AutoBagClassifier"]
