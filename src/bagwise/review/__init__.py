"""Review of uncertain instances: a page for a person, and a file that keeps every decision."""

from bagwise.review.queue import ReviewQueue
from bagwise.review.store import Correction, Corrections, read_corrections

__all__ = ["Correction", "Corrections", "ReviewQueue", "read_corrections"]
