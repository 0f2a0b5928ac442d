"""What a fitted model predicts for bags and instances, and why."""

from bagwise.predictions._attributions import instance_attributions, permutation_importance
from bagwise.predictions._keys import score_keys
from bagwise.predictions._likeness import remember_training
from bagwise.predictions._predictions import Predictions
from bagwise.predictions._ranking import doubted_bags

__all__ = [
    "Predictions",
    "doubted_bags",
    "instance_attributions",
    "permutation_importance",
    "remember_training",
    "score_keys",
]
