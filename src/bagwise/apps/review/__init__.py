"""Review of uncertain instances: a web page, and a file that stores every decision."""

from bagwise.apps.review._queue import ReviewQueue
from bagwise.apps.review._store import Correction, Corrections

__all__ = ["Correction", "Corrections", "ReviewQueue"]
