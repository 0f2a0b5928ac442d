"""Evaluation by cross-validation: scores per fold, comparisons, predictions for held-out bags."""

from bagwise.evaluate._comparison import Comparison, Evaluation, corrected_t_test, ranks
from bagwise.evaluate._evaluation import compare, evaluate
from bagwise.evaluate._held_out import HeldOut, held_out_predictions
from bagwise.evaluate._thresholds import choose_threshold
from bagwise.validation.leaks import find_leaks

__all__ = [
    "Comparison",
    "Evaluation",
    "HeldOut",
    "choose_threshold",
    "compare",
    "corrected_t_test",
    "evaluate",
    "find_leaks",
    "held_out_predictions",
    "ranks",
]
