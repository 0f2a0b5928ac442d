"""The measures of bag classifiers, for labels and for label sets."""

from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, recall_score, roc_auc_score

from bagwise import metrics
from bagwise._types import Array, Bools


def label_measures(truth: Array, predicted: Array | None) -> dict[str, float]:
    """Compare predicted labels with the true ones.

    Balanced accuracy is the mean recall of the classes that are present, so that a fold without
    one of them is still measured.
    """
    recall = recall_score(
        truth, predicted, labels=np.unique(truth), average="macro", zero_division=0
    )
    return {"accuracy": float(accuracy_score(truth, predicted)), "balanced accuracy": float(recall)}


def label_set_measures(truth: Array, scores: Array) -> dict[str, float]:
    """Compare the ranking of the labels by their scores with the true label sets."""
    return {
        "one-error": metrics.one_error(truth, scores),
        "coverage": metrics.coverage(truth, scores),
        "average precision": metrics.average_precision(truth, scores),
    }


def area_under_roc(positive: Bools, scores: Array) -> float:
    """The area under the ROC curve; NaN where one class is absent or a score is not finite."""
    defined = 0 < positive.sum() < len(positive) and bool(np.isfinite(scores).all())
    return float(roc_auc_score(positive, scores)) if defined else float("nan")


def model_measures(model: Any, bags: Any, y: Array, *, n_classes: int) -> dict[str, float]:
    """Measure a fitted model on bags: a scorer for scikit-learn's ``cross_validate``.

    `n_classes` counts the labels of all folds: each fold has the same measures, also where its
    model has not seen every label.
    """
    has_scores = hasattr(model, "decision_function")
    if y.ndim == 2:
        method = model.decision_function if has_scores else model.predict_proba
        return label_set_measures(y, method(bags))
    measures = label_measures(y, model.predict(bags))
    if n_classes == 2:
        scores = model.decision_function(bags) if has_scores else model.predict_proba(bags)[:, -1]
        unseen = len(model.classes_) < 2
        measures["AUC"] = np.nan if unseen else area_under_roc(y == model.classes_[1], scores)
    return measures
