"""Pages about a model and bags: the report, with all bags to explore, and heat maps of slides."""

from bagwise.report._heat_maps import HeatMaps
from bagwise.report._media import Media
from bagwise.report._report import Report

__all__ = ["HeatMaps", "Media", "Report"]
