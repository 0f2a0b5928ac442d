"""Inspection of fitted models: contributions of instances, tables, and plots."""

from bagwise.inspection._attributions import instance_attributions
from bagwise.inspection._cluster_displays import ClusterChoiceDisplay, ClusterMapDisplay
from bagwise.inspection._comparison_displays import DifferenceDisplay, RankDisplay
from bagwise.inspection._doubts import doubted_bags
from bagwise.inspection._fit_displays import ComparisonDisplay, ObjectiveDisplay
from bagwise.inspection._heat_maps import HeatMapDisplay
from bagwise.inspection._importance import permutation_importance
from bagwise.inspection._instance_displays import (
    InstanceScoreDisplay,
    KeyFeatureDisplay,
    KeyInstanceDisplay,
    PosteriorDisplay,
)
from bagwise.inspection._tables import bag_table, instance_table, key_instance_table

__all__ = [
    "ClusterChoiceDisplay",
    "ClusterMapDisplay",
    "ComparisonDisplay",
    "DifferenceDisplay",
    "HeatMapDisplay",
    "InstanceScoreDisplay",
    "KeyFeatureDisplay",
    "KeyInstanceDisplay",
    "ObjectiveDisplay",
    "PosteriorDisplay",
    "RankDisplay",
    "bag_table",
    "doubted_bags",
    "instance_attributions",
    "instance_table",
    "key_instance_table",
    "permutation_importance",
]
