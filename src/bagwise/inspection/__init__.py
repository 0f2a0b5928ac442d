"""Inspection of fitted models: tables of key instances and scores, and plots."""

from bagwise.inspection._cluster_displays import ClusterChoiceDisplay, ClusterMapDisplay
from bagwise.inspection._comparison_display import ComparisonDisplay
from bagwise.inspection._image_display import KeyInstanceDisplay
from bagwise.inspection._objective_display import ObjectiveDisplay
from bagwise.inspection._posterior_display import PosteriorDisplay
from bagwise.inspection._score_display import InstanceScoreDisplay
from bagwise.inspection._tables import bag_table, instance_table, key_instance_table

__all__ = [
    "ClusterChoiceDisplay",
    "ClusterMapDisplay",
    "ComparisonDisplay",
    "InstanceScoreDisplay",
    "KeyInstanceDisplay",
    "ObjectiveDisplay",
    "PosteriorDisplay",
    "bag_table",
    "instance_table",
    "key_instance_table",
]
