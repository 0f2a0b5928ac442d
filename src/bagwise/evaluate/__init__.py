"""Evaluation by cross-validation: scores per fold, comparisons, predictions for held-out bags."""

from bagwise.evaluate._comparison import Comparison, Difference, compare
from bagwise.evaluate._evaluation import Evaluation, evaluate
from bagwise.evaluate._held_out import HeldOut, held_out_predictions
from bagwise.evaluate._ranks import Ranks, ranks
from bagwise.evaluate._significance import corrected_t_test

__all__ = [
    "Comparison",
    "Difference",
    "Evaluation",
    "HeldOut",
    "Ranks",
    "compare",
    "corrected_t_test",
    "evaluate",
    "held_out_predictions",
    "ranks",
]
