"""Plots of models and their predictions, drawn by matplotlib."""

from bagwise.displays._clusters import ClusterMapDisplay
from bagwise.displays._heat_maps import HeatMapDisplay
from bagwise.displays._instances import (
    InstanceScoreDisplay,
    KeyFeatureDisplay,
    PosteriorDisplay,
)
from bagwise.displays._models import (
    ComparisonDisplay,
    DifferenceDisplay,
    ObjectiveDisplay,
    RankDisplay,
)

__all__ = [
    "ClusterMapDisplay",
    "ComparisonDisplay",
    "DifferenceDisplay",
    "HeatMapDisplay",
    "InstanceScoreDisplay",
    "KeyFeatureDisplay",
    "ObjectiveDisplay",
    "PosteriorDisplay",
    "RankDisplay",
]
