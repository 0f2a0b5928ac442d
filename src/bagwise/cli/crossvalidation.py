"""Cross-validation of several models on the same folds, one step at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import accuracy_score, recall_score, roc_auc_score
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)

from bagwise import metrics
from bagwise.bags import Bags
from bagwise.exceptions import InputError, LabelError

__all__ = ["Outcome", "cross_validate", "held_out_answers", "make_folds", "outcome_table"]

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Outcome:
    """How a model did.

    Attributes
    ----------
    name : str
        The model.
    scores : dict of str to list of float
        The scores of each measure, one per fold; NaN where a fold leaves it undefined.
    seconds : list of float
        The time to fit and to score, one per fold.
    """

    name: str
    scores: dict[str, list[float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    def mean(self, measure: str) -> float | None:
        """The mean of a measure over the folds; None where no fold defines it."""
        known = self._known(measure)
        return float(np.mean(known)) if known else None

    def deviation(self, measure: str) -> float | None:
        """The standard deviation of a measure over the folds."""
        known = self._known(measure)
        return float(np.std(known)) if known else None

    def summary(self) -> dict[str, Any]:
        """The outcome as plain values, for JSON."""
        measures = {
            name: {
                "mean": self.mean(name),
                "sd": self.deviation(name),
                "folds": [None if np.isnan(value) else value for value in values],
            }
            for name, values in self.scores.items()
        }
        return {"name": self.name, **measures, "seconds": float(np.sum(self.seconds))}

    def _known(self, measure: str) -> list[float]:
        return [value for value in self.scores[measure] if not np.isnan(value)]


def make_folds(
    y: NDArray[Any],
    *,
    n_folds: int,
    n_repeats: int = 1,
    seed: int = 0,
    groups: NDArray[Any] | None = None,
) -> list[Fold]:
    """Draw the folds: stratified by label, and whole groups on one side.

    Label sets are not stratified.

    Parameters
    ----------
    y : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Labels or label sets.
    n_folds, n_repeats : int
        How many folds, and how often they are drawn anew.
    seed : int, default=0
        Seed of the first draw.
    groups : ndarray of shape (n_bags,), default=None
        The group of each bag.

    Returns
    -------
    list of (train, test)
        Positions of bags, one pair per fold and repeat.
    """
    _check_folds(y, n_folds, groups)
    stratified = y.ndim == 1
    if groups is not None:
        kind = StratifiedGroupKFold if stratified else GroupKFold
    else:
        kind = StratifiedKFold if stratified else KFold
    return [
        fold
        for repeat in range(n_repeats)
        for fold in kind(n_folds, shuffle=True, random_state=seed + repeat).split(
            np.zeros(len(y)), y if stratified else None, groups
        )
    ]


def cross_validate(
    models: Mapping[str, Any],
    bags: Bags,
    y: NDArray[Any],
    folds: list[Fold],
    *,
    after_step: Callable[[], None] = lambda: None,
) -> list[Outcome]:
    """Fit every model on the training part of every fold, and score it on the other.

    Parameters
    ----------
    models : mapping of str to estimator
        The models, by their names; they are cloned.
    bags : Bags
        The bags.
    y : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Labels, or label sets as zeros and ones.
    folds : list of (train, test)
        Positions of bags.
    after_step : callable
        Called after each fit.

    Returns
    -------
    list of Outcome
        In the order of `models`.
    """
    outcomes = [Outcome(name) for name in models]
    measure = _label_measures if y.ndim == 1 else _label_set_measures
    for train, test in folds:
        for outcome, model in zip(outcomes, models.values(), strict=True):
            start = time.perf_counter()
            fitted = clone(model).fit(bags[train], y[train])
            scores = measure(fitted, bags[test], y[test])
            outcome.seconds.append(time.perf_counter() - start)
            for name, value in scores.items():
                outcome.scores.setdefault(name, []).append(value)
            after_step()
    return outcomes


def held_out_answers(
    model: Any,
    bags: Bags,
    y: NDArray[Any],
    folds: list[Fold],
    *,
    after_step: Callable[[], None] = lambda: None,
) -> dict[str, NDArray[Any] | None]:
    """Ask about each bag a model that was fitted without it.

    Parameters
    ----------
    model : estimator
        The model; it is cloned.
    bags : Bags
        The bags.
    y : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Labels, or label sets as zeros and ones.
    folds : list of (train, test)
        Positions of bags; each is in one test part.
    after_step : callable
        Called after each fit.

    Returns
    -------
    dict of str to ndarray or None
        ``predict``, ``decision_function`` and ``predict_proba`` for each bag, None where the model
        has no such method.
    """
    found: dict[str, NDArray[Any] | None] = {}
    for train, test in folds:
        fitted = clone(model).fit(bags[train], y[train])
        for method in ("predict", "decision_function", "predict_proba"):
            if not hasattr(fitted, method):
                found[method] = None
                continue
            part = np.asarray(getattr(fitted, method)(bags[test]))
            whole = found.get(method)
            if whole is None:
                whole = found[method] = np.zeros((len(bags), *part.shape[1:]), dtype=part.dtype)
            whole[test] = part
        after_step()
    return found


def outcome_table(outcomes: list[Outcome]) -> dict[str, list[str]]:
    """Bring outcomes into columns: mean and deviation of each measure, and the time.

    Parameters
    ----------
    outcomes : list of Outcome
        What `cross_validate` gave.

    Returns
    -------
    dict of str to list of str
    """
    table = {"method": [outcome.name for outcome in outcomes]}
    for name in outcomes[0].scores:
        table[name] = [_with_deviation(outcome, name) for outcome in outcomes]
    table["time"] = [f"{sum(outcome.seconds):.1f} s" for outcome in outcomes]
    return table


def _with_deviation(outcome: Outcome, measure: str) -> str:
    mean = outcome.mean(measure)
    return "" if mean is None else f"{mean:.3f} ± {outcome.deviation(measure):.3f}"


def _label_measures(model: Any, bags: Bags, y: NDArray[Any]) -> dict[str, float]:
    predicted = model.predict(bags)
    present = np.unique(y)
    scores = {
        "accuracy": float(accuracy_score(y, predicted)),
        "balanced accuracy": float(
            recall_score(y, predicted, labels=present, average="macro", zero_division=0)
        ),
    }
    if len(model.classes_) == 2:
        positive = y == model.classes_[1]
        both = 0 < positive.sum() < len(positive)
        scores["AUC"] = (
            float(roc_auc_score(positive, _positive_scores(model, bags))) if both else np.nan
        )
    return scores


def _positive_scores(model: Any, bags: Bags) -> NDArray[Any]:
    if hasattr(model, "decision_function"):
        return model.decision_function(bags)
    return model.predict_proba(bags)[:, 1]


def _label_set_measures(model: Any, bags: Bags, y: NDArray[Any]) -> dict[str, float]:
    ask = model.decision_function if hasattr(model, "decision_function") else model.predict_proba
    scores = ask(bags)
    return {
        "one-error": metrics.one_error(y, scores),
        "coverage": metrics.coverage(y, scores),
        "average precision": metrics.average_precision(y, scores),
    }


def _check_folds(y: NDArray[Any], n_folds: int, groups: NDArray[Any] | None) -> None:
    if n_folds < 2:
        raise InputError(f"{n_folds} folds were asked for: at least 2 are needed.")
    if y.ndim == 1:
        classes, counts = np.unique(y, return_counts=True)
        if len(classes) < 2:
            raise LabelError(f"all bags have the label {classes[0]!r}: there is nothing to learn.")
        if counts.min() < n_folds:
            rare = classes[counts.argmin()]
            fewer = f"Use at most {counts.min()} folds, or leave" if counts.min() > 1 else "Leave"
            raise LabelError(
                f"the label {rare!s} has {counts.min()} bags for {n_folds} folds: each fold needs "
                f"one. {fewer} these bags out."
            )
    n_units = len(y) if groups is None else len(np.unique(groups))
    if n_units < n_folds:
        kind = "bags" if groups is None else "groups"
        raise InputError(f"there are {n_units} {kind} for {n_folds} folds: use fewer folds.")
