"""The HTML report about a model and its bags."""

from bagwise.report._media import Media
from bagwise.report._report import Report

__all__ = ["Media", "Report"]
