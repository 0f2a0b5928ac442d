"""What did the model see? Key instances, scores, plots, and a page to send to a colleague."""

from bagwise.inspection._cluster_displays import ClusterChoiceDisplay, ClusterMapDisplay
from bagwise.inspection._comparison_display import ComparisonDisplay
from bagwise.inspection._evaluation import HeldOut
from bagwise.inspection._image_display import KeyInstanceDisplay
from bagwise.inspection._media import Media
from bagwise.inspection._objective_display import ObjectiveDisplay
from bagwise.inspection._page import Code, Figure, Section, Table, render_page
from bagwise.inspection._posterior_display import PosteriorDisplay
from bagwise.inspection._report import Report
from bagwise.inspection._score_display import InstanceScoreDisplay
from bagwise.inspection._tables import bag_table, instance_model, instance_table, key_instance_table

__all__ = [
    "ClusterChoiceDisplay",
    "ClusterMapDisplay",
    "Code",
    "ComparisonDisplay",
    "Figure",
    "HeldOut",
    "InstanceScoreDisplay",
    "KeyInstanceDisplay",
    "Media",
    "ObjectiveDisplay",
    "PosteriorDisplay",
    "Report",
    "Section",
    "Table",
    "bag_table",
    "instance_model",
    "instance_table",
    "key_instance_table",
    "render_page",
]
