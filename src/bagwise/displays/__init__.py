"""Plots of models and their predictions, drawn by matplotlib."""

from bagwise.displays._clusters import ClusterChoiceDisplay, ClusterMapDisplay
from bagwise.displays._heat_maps import HeatMapDisplay
from bagwise.displays._instances import (
    InstanceScoreDisplay,
    KeyFeatureDisplay,
    KeyInstanceDisplay,
    PosteriorDisplay,
)
from bagwise.displays._models import (
    ComparisonDisplay,
    CurveDisplay,
    DifferenceDisplay,
    ObjectiveDisplay,
    RankDisplay,
)

__all__ = [
    "ClusterChoiceDisplay",
    "ClusterMapDisplay",
    "ComparisonDisplay",
    "CurveDisplay",
    "DifferenceDisplay",
    "HeatMapDisplay",
    "InstanceScoreDisplay",
    "KeyFeatureDisplay",
    "KeyInstanceDisplay",
    "ObjectiveDisplay",
    "PosteriorDisplay",
    "RankDisplay",
]
