"""The report on a model: one HTML page with figures, tables and an explorer of bags."""

from bagwise.report._media import Media
from bagwise.report._report import Report

__all__ = ["Media", "Report"]
