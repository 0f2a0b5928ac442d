"""Review of uncertain instances: a web page, and a file that stores every decision."""

from bagwise.review.queue import ReviewQueue
from bagwise.review.store import (
    Correction,
    Corrections,
    SetCorrection,
    read_corrections,
    read_set_corrections,
)

__all__ = [
    "Correction",
    "Corrections",
    "ReviewQueue",
    "SetCorrection",
    "read_corrections",
    "read_set_corrections",
]
