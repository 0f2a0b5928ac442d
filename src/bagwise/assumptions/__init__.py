"""Tests of which assumption a model of bags keeps, on synthetic bags."""

from bagwise.assumptions._check import AssumptionCheck, check_assumptions

__all__ = ["AssumptionCheck", "check_assumptions"]
