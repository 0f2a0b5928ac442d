"""Tests of which assumption a model of bags keeps, on synthetic bags."""

from bagwise.assumptions._check import check_assumptions

__all__ = ["check_assumptions"]
