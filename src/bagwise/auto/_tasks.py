"""What an ensemble predicts: classes, label sets or numbers, with their folds, weights, metrics."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.metrics import average_precision_score, log_loss

from bagwise._common.types import Array, Floats
from bagwise.evaluate._folds import Fold, make_folds
from bagwise.evaluate._measures import (
    label_measures,
    label_set_log_loss,
    mean_area_under_roc,
    number_measures,
)
from bagwise.exceptions import InputError, LabelError
from bagwise.labels import Labels
from bagwise.solvers.stacking import Stack, fit_linear_stack, fit_stack

LOWER_IS_BETTER = {"log_loss", "mae"}
LABEL_METRICS = ("log_loss", "accuracy", "balanced_accuracy", "roc_auc")
SET_METRICS = ("log_loss", "average_precision")
NUMBER_METRICS = {"r2": "R2", "mae": "MAE", "spearman": "Spearman"}


@dataclass(frozen=True)
class Task:
    """The targets of an ensemble.

    Attributes
    ----------
    y : ndarray of shape (n_bags,) or (n_bags, n_labels)
        The targets of the candidates: codes of classes, label sets as zeros and ones, or numbers.
    targets : ndarray of shape (n_bags, n_columns)
        The targets of the stack: one 0/1 column for two classes, else one per class; or numbers.
    fit : callable
        Fits a `Stack` to scores of shape (n_bags, n_columns, n_models) and targets.
    score : callable
        ``score(metric, combined, targets)`` of some bags; NaN if it is undefined.
    """

    y: Array
    targets: Array
    fit: Callable[[Floats, Array], Stack]
    score: Callable[[str, Floats, Array], float]

    @property
    def n_columns(self) -> int:
        """Number of columns of scores."""
        return self.targets.shape[1]

    def judge(
        self, metric: str, scores: Floats, folds: list[Fold]
    ) -> tuple[list[tuple[float, float]], tuple[float, float]]:
        """Score each candidate and the stack on folds held out from the calibration.

        Returns score and standard error of each candidate, then of the stack.
        """
        alone, together = np.empty_like(scores), np.empty(scores.shape[:2])
        for train, test in folds:
            part = self.fit(scores[train], self.targets[train])
            alone[test], together[test] = part.log_odds(scores[test]), part.logits(scores[test])

        def over_folds(values: Floats) -> tuple[float, float]:
            found = [self.score(metric, values[test], self.targets[test]) for _, test in folds]
            return mean_and_error(found)

        return [over_folds(alone[:, :, m]) for m in range(scores.shape[2])], over_folds(together)


def task_of_labels(labels: Labels, reg: float) -> Task:
    """The task of predicting classes or label sets; `reg` is the penalty of the weights."""
    exclusive = not labels.has_sets and len(labels.classes) > 2
    if labels.has_sets:
        y = targets = (labels.indicator == 1).astype(int)
    else:
        y = labels.oriented_codes
        targets = (labels.codes[:, None] == np.array(labels.positives)).astype(int)

    def score(metric: str, logits: Floats, truth: Array) -> float:
        return label_score(metric, logits, truth, exclusive=exclusive)

    return Task(y, targets, lambda s, t: fit_stack(s, t, exclusive=exclusive, reg=reg), score)


def task_of_numbers(numbers: Floats, reg: float) -> Task:
    """The task of predicting numbers; `reg` is the penalty of the weights."""

    def fit(scores: Floats, targets: Floats) -> Stack:
        weights, intercept = fit_linear_stack(scores[:, 0], targets[:, 0], reg=reg)
        same = np.ones((len(weights), 1))  # predictions are combined as they are
        unlimited = float(np.finfo(np.float64).max)
        return Stack(same, 0 * same, weights, np.array([intercept]), unlimited)

    def score(metric: str, predicted: Floats, truth: Floats) -> float:
        return number_measures(truth[:, 0], predicted[:, 0])[NUMBER_METRICS[metric]]

    return Task(numbers, numbers[:, None], fit, score)


def draw_folds(labels: Labels, cv: int, groups: Array | None, seed: int) -> list[Fold]:
    """Draw folds by label and group, at most as many as the rarest class has bags."""
    if labels.has_sets:
        return make_folds(labels.indicator, n_folds=min(cv, len(labels)), seed=seed, groups=groups)
    rarest = int(np.argmin(labels.counts))
    n_bags = int(labels.counts[rarest])
    if n_bags < 2:
        raise LabelError(
            f"the label {labels.names[rarest]} has one bag: cross-validation needs two. Leave the "
            "bag out, or label another."
        )
    return make_folds(labels.codes, n_folds=min(cv, n_bags), seed=seed, groups=groups)


def check_metric(metric: str, *, sets: bool) -> None:
    """Refuse a metric that is not defined for this kind of labels."""
    known = SET_METRICS if sets else LABEL_METRICS
    if metric not in known:
        kind = "label sets" if sets else "one label per bag"
        raise InputError(
            f"metric={metric!r} is not a metric for {kind}: choose one of {', '.join(known)}."
        )


def label_score(metric: str, logits: Floats, targets: Array, *, exclusive: bool) -> float:
    """One of `LABEL_METRICS` or `SET_METRICS`, from logits of shape (n_bags, n_columns).

    `exclusive` tells whether a bag has exactly one of several classes.
    """
    proba = softmax(logits, axis=1) if exclusive else expit(logits)
    if metric == "average_precision":
        present = targets.any(axis=0)
        if not present.any():
            return float("nan")
        return float(average_precision_score(targets[:, present], proba[:, present]))
    if proba.shape[1] > 1 and not exclusive:
        return label_set_log_loss(targets, proba)
    if proba.shape[1] == 1:
        proba, truth = np.column_stack([1 - proba, proba]), targets.ravel()
    else:
        truth = targets.argmax(axis=1)
    classes = np.arange(proba.shape[1])
    if metric == "log_loss":
        return float(log_loss(truth, proba, labels=classes))
    if metric == "roc_auc":
        return mean_area_under_roc(truth, proba, classes)
    return label_measures(truth, proba.argmax(axis=1))[metric.replace("_", " ")]


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Mean of scores of folds, and its standard error; undefined scores are left out."""
    defined = np.array([value for value in values if not np.isnan(value)])
    if not len(defined):
        return float("nan"), float("nan")
    spread = defined.std(ddof=1) if len(defined) > 1 else float("nan")
    return float(defined.mean()), float(spread / np.sqrt(len(defined)))


def leaderboard(rows: list[dict[str, Any]], metric: str) -> dict[str, list[Any]]:
    """Make the table of all candidates and, if there is one, the ensemble; the best first."""
    sign = 1 if metric in LOWER_IS_BETTER else -1
    rows = sorted(
        rows,
        key=lambda row: (np.isnan(row[metric]), sign * np.nan_to_num(row[metric]), row["method"]),
    )
    return {name: [row[name] for row in rows] for name in rows[0]}
