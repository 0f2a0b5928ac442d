"""What a fitted model predicts for bags and instances, and why."""

from bagwise.predictions._attributions import instance_attributions
from bagwise.predictions._doubts import doubted_bags
from bagwise.predictions._importance import permutation_importance
from bagwise.predictions._predictions import Predictions

__all__ = ["Predictions", "doubted_bags", "instance_attributions", "permutation_importance"]
