"""The leaderboard: out-of-fold scores of the candidates, and their table."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.metrics import average_precision_score, log_loss

from bagwise._common.types import Array, Floats, Ints
from bagwise.auto._members import Member
from bagwise.exceptions import InputError
from bagwise.model_selection._measures import (
    label_measures,
    label_set_log_loss,
    mean_area_under_roc,
    number_measures,
)

LOWER_IS_BETTER = {"log_loss", "mae"}
LABEL_METRICS = ("log_loss", "accuracy", "balanced_accuracy", "roc_auc")
SET_METRICS = ("log_loss", "average_precision")
NUMBER_METRICS = {"r2": "R2", "mae": "MAE", "spearman": "Spearman"}


@dataclass
class Entry:
    """A candidate and its result.

    Attributes
    ----------
    member : Member
        The method.
    skipped : str
        Why the candidate was skipped; empty if it was not.
    scores : ndarray of shape (n_bags, n_columns) or None
        Out-of-fold scores.
    rows : object
        The input of the model: bags, or the rows of a shared embedding.
    expected : float
        Estimated seconds if they exceed the budget, infinite if there was no time for an estimate;
        else 0.
    seconds : float
        Time to embed the bags, and to fit and score the folds.
    weight, score, error : float
        The weight in the ensemble; the out-of-fold score with its standard error.
    """

    member: Member
    skipped: str = ""
    scores: Floats | None = None
    rows: Any = field(default=None, repr=False)
    expected: float = 0.0
    seconds: float = 0.0
    weight: float = 0.0
    score: float = float("nan")
    error: float = float("nan")


def check_metric(metric: str, *, sets: bool) -> None:
    """Refuse a metric that is not defined for this kind of labels."""
    known = SET_METRICS if sets else LABEL_METRICS
    if metric not in known:
        kind = "label sets" if sets else "one label per bag"
        raise InputError(
            f"metric={metric!r} is not a metric for {kind}: choose one of {', '.join(known)}."
        )


def probabilities_of(logits: Floats, *, exclusive: bool) -> Floats:
    """Probabilities from logits, one column each; two columns for a single logit."""
    if exclusive:
        return softmax(logits, axis=1)
    found = expit(logits)
    return np.column_stack([1 - found, found]) if found.shape[1] == 1 else found


def out_of_fold_score(
    metric: str, logits: Floats, targets: Array, folds: list[Ints], *, exclusive: bool
) -> tuple[float, float]:
    """Mean of a metric over folds, and its standard error.

    Parameters
    ----------
    metric : str
        One of `LABEL_METRICS` or `SET_METRICS`.
    logits : ndarray of shape (n_bags, n_columns)
        Out-of-fold logits.
    targets : 0/1 array of shape (n_bags, n_columns)
        Which classes a bag has.
    folds : list of ndarray
        Positions of the bags of each fold.
    exclusive : bool
        Whether a bag has exactly one of several classes.

    Returns
    -------
    score, error : float
    """
    return _over_folds([_score(metric, logits[f], targets[f], exclusive) for f in folds])


def out_of_fold_number_score(
    metric: str, predicted: Floats, targets: Floats, folds: list[Ints]
) -> tuple[float, float]:
    """Mean of one of `NUMBER_METRICS` over folds, and its standard error."""
    name = NUMBER_METRICS[metric]
    return _over_folds([number_measures(targets[f], predicted[f])[name] for f in folds])


def _over_folds(values: list[float]) -> tuple[float, float]:
    defined = np.array([value for value in values if not np.isnan(value)])
    if not len(defined):
        return float("nan"), float("nan")
    spread = defined.std(ddof=1) if len(defined) > 1 else float("nan")
    return float(defined.mean()), float(spread / np.sqrt(len(defined)))


def _score(metric: str, logits: Floats, targets: Array, exclusive: bool) -> float:
    proba = probabilities_of(logits, exclusive=exclusive)
    if metric == "average_precision":
        carried = targets.any(axis=0)
        defined = carried.any()
        return (
            float(average_precision_score(targets[:, carried], proba[:, carried]))
            if defined
            else float("nan")
        )
    if proba.shape[1] == targets.shape[1] and not exclusive:
        return label_set_log_loss(targets, proba)
    truth = targets.ravel() if targets.shape[1] == 1 else targets.argmax(axis=1)
    classes = np.arange(proba.shape[1])
    if metric == "log_loss":
        return float(log_loss(truth, proba, labels=classes))
    if metric == "roc_auc":
        return mean_area_under_roc(truth, proba, classes)
    return label_measures(truth, proba.argmax(axis=1))[metric.replace("_", " ")]


def leaderboard(
    entries: list[Entry], ensemble: tuple[float, float] | None, seconds: float, metric: str
) -> dict[str, list[Any]]:
    """Make the table of all candidates and, if there is one, the ensemble; the best first."""
    rows: list[dict[str, Any]] = [
        {
            "method": entry.member.name,
            metric: entry.score,
            "standard error": entry.error,
            "weight": entry.weight,
            "seconds": entry.seconds,
            "skipped": entry.skipped,
            "parameters": entry.member.parameters,
        }
        for entry in entries
    ]
    if ensemble is not None:
        rows.append(
            {
                "method": "ensemble",
                metric: ensemble[0],
                "standard error": ensemble[1],
                "weight": 1.0,
                "seconds": seconds,
                "skipped": "",
                "parameters": "",
            }
        )
    sign = 1 if metric in LOWER_IS_BETTER else -1
    rows.sort(
        key=lambda row: (np.isnan(row[metric]), sign * np.nan_to_num(row[metric]), row["method"])
    )
    return {name: [row[name] for row in rows] for name in rows[0]}
