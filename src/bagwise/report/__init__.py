"""HTML pages: the report about a model and its bags, and heat maps of slides."""

from bagwise.report._heat_maps import HeatMaps
from bagwise.report._media import Media
from bagwise.report._report import Report

__all__ = ["HeatMaps", "Media", "Report"]
