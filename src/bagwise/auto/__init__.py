"""The best prediction without a choice of method: several methods, weighted and combined."""

from bagwise.auto._auto import AutoBagClassifier
from bagwise.auto._regressor import AutoBagRegressor

__all__ = ["AutoBagClassifier", "AutoBagRegressor"]
