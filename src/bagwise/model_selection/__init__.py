"""Evaluation by cross-validation: scores per fold, and predictions for held-out bags."""

from bagwise.model_selection._evaluation import (
    Evaluation,
    HeldOut,
    compare,
    evaluate,
    held_out_predictions,
)

__all__ = ["Evaluation", "HeldOut", "compare", "evaluate", "held_out_predictions"]
