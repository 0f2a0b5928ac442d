"""Correct what a model is unsure of: a page for a person, and a file that keeps every decision."""

from __future__ import annotations

from bagwise.review.card import ServedMedia
from bagwise.review.queue import ReviewQueue
from bagwise.review.server import ReviewServer
from bagwise.review.store import (
    ConflictError,
    Correction,
    Corrections,
    match_corrections,
    read_corrections,
)

__all__ = [
    "ConflictError",
    "Correction",
    "Corrections",
    "ReviewQueue",
    "ReviewServer",
    "ServedMedia",
    "match_corrections",
    "read_corrections",
]
