"""Instances as a reader sees them: ordered by score or contribution, labelled, with their keys."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_clusterer

from bagwise import loops
from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.predictions._attributions import METHODS, affordable_attributions

if TYPE_CHECKING:
    from bagwise.predictions._predictions import Predictions

POOLINGS = {
    "max": "the largest of the scores of its instances",
    "mean": "the mean of the scores of its instances",
    "sum": "the sum of the scores of its instances",
    "lse": "a smooth maximum of the scores of its instances",
    "noisy-or": "the noisy-or of its instances, whose scores are log-odds",
}


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The order, labels and key instances of the instances, for any kind of model.

    Attributes
    ----------
    scores : ndarray of shape (n_instances,) or None
        The score by which instances are ordered, called `score_name`.
    labels : Labels or None
        The class or cluster of each instance, under `heading`.
    proba : ndarray of shape (n_instances,) or None
        The probability of that class.
    posterior : ndarray of shape (n_instances, n_names) or None
        The probability of each class, given the label set of the bag.
    keys : dict of int to str
        The rows of the key instances, and a text such as "key for wren".
    explanation : str
        How instances are ordered, which is the key, and how their scores determine that of the bag.
    """

    scores: Array | None = None
    score_name: str = "score"
    labels: Labels | None = None
    heading: str = "on its own"
    proba: Array | None = None
    posterior: Array | None = None
    keys: dict[int, str] = field(default_factory=dict)
    explanation: str = ""


def rank_instances(found: Predictions) -> Ranking:
    """Order and label the instances by what the model says about them."""
    if found.is_regressor:
        return _by_numbers(found)
    if is_clusterer(found.estimator):
        return _clusters(found)
    if found.predicted is not None:
        return _by_classes(found, found.predicted)
    if found.seen is not None and hasattr(found.estimator, "predict_instances"):
        return _assigned(found)
    return Ranking()


def of_labels(values: Array, labels: Labels) -> Array:
    """The value of each row in the column of its label."""
    return values[np.arange(len(values)), labels.codes]


def _by_classes(found: Predictions, predicted: Labels) -> Ranking:
    """Scores of instances: the model's own if they pool to the bag score, else contributions."""
    from bagwise.predictions._predictions import key_rows

    ranking = Ranking(keys={} if found.works_on_rows else dict(key_rows(found)))
    scores = None if found.works_on_rows or found.seen is None else found.call("score_instances")
    if scores is not None:
        own, of_class = _of_class(found, predicted, scores)
        ranking = replace(ranking, scores=own, score_name=f"score for {of_class}")
        if scores.ndim == 1:
            text = (
                f"Scores are for {of_class}, the positive label: one positive instance makes a bag "
                "positive. The key instance has the highest score, for bags of either label."
            )
        elif not predicted.has_sets:
            text = "The key instance has the highest score for that class."
        else:
            ranking = replace(ranking, score_name="best score for a predicted label")
            text = "A key instance has the highest score for a predicted label."
        pooling = getattr(found.estimator, "instance_pooling", None)
        if pooling in POOLINGS:
            text += f" The score of a bag is {POOLINGS[pooling]}."
        ranking = replace(ranking, explanation=text)
        if (named := found.call("predict_instances")) is not None:
            proba = found.call("predict_proba_instances")
            labels = _with_background(found, found.labels(named, "instances"), proba)
            share = of_labels(proba, labels) if proba is not None and proba.ndim == 2 else None
            ranking = replace(ranking, labels=labels, proba=share)
    if _needs_contributions(found, ranking):
        ranking = _with_contributions(found, ranking)
    if found.known is not None and found.seen is not None and hasattr(found.estimator, "annotate"):
        ranking = _annotated(found, found.known, ranking)
    return ranking


def _of_class(found: Predictions, predicted: Labels, values: Array) -> tuple[Array, str]:
    """The values for the positive class, the predicted class, or the best predicted label."""
    if values.ndim == 1:
        column = getattr(found.estimator, "_positive_column", 1)
        name = f"“{found.names[-1 if column else 0]}”" if found.names else "positive class"
        return (values if column else -values), name
    index = found.bags.bag_index
    if not predicted.has_sets:
        return of_labels(values, predicted[index]), "the predicted class"
    carried = predicted.indicator[index] > 0
    carried |= ~carried.any(axis=1, keepdims=True)  # no label predicted: the best of all labels
    best = np.where(carried, values[:, : carried.shape[1]], -np.inf).max(axis=1)
    return best, "a predicted label"


def _needs_contributions(found: Predictions, ranking: Ranking) -> bool:
    """Whether the model has neither instance scores that pool to the bag score, nor key instances.

    Instance scores of an ensemble, for example, do not pool to the score of the bag.
    """
    scores_bags = any(hasattr(found.model, m) for m in ("decision_function", "predict_proba"))
    if not scores_bags or found.works_on_rows:
        return False
    if ranking.scores is None:
        return not ranking.keys
    return getattr(found.estimator, "instance_pooling", None) is None


def _with_contributions(found: Predictions, ranking: Ranking) -> Ranking:
    """Order the instances by their contributions to the score of the bag, if affordable."""
    values, method = affordable_attributions(found.model, found.bags)
    if values is None:
        return replace(ranking, explanation=f"{ranking.explanation} {method}".strip())
    name = "contribution to the prediction"
    if found.predicted is not None:
        values, of_class = _of_class(found, found.predicted, values)
        name = f"contribution to {of_class}"
    return replace(
        ranking,
        scores=values,
        score_name=name,
        explanation=(
            f"The score of an instance is its {name}: {METHODS[method]} (attribution method "
            f"“{method}”). The key instance has the largest contribution."
        ),
        keys=_highest(values, found.bags),
    )


def _highest(values: Array, bags: Bags) -> dict[int, str]:
    rows = bags.offsets[:-1] + loops.segments.argmax(values, bags.offsets)
    return dict.fromkeys(rows.tolist(), "key instance")


def _annotated(found: Predictions, known: Labels, ranking: Ranking) -> Ranking:
    """Label the instances given the label sets of their bags."""
    # A set without any class of the model is unknown to it.
    rows = known.indicator[:, : len(found.classes)] == 1
    given = [set(found.classes[row].tolist()) or None for row in rows]
    posterior = None
    if hasattr(found.estimator, "annotate_proba"):
        posterior = np.asarray(found.estimator.annotate_proba(found.seen, given))
    labels = found.labels(found.estimator.annotate(found.seen, given), "instances")
    labels = _with_background(found, labels, posterior)
    proba = None if posterior is None else of_labels(posterior, labels)
    heading = "label given the label set"
    return replace(ranking, labels=labels, heading=heading, posterior=posterior, proba=proba)


def _with_background(found: Predictions, labels: Labels, proba: Array | None) -> Labels:
    """Set labels of instances to background if it is most probable: models predict a label."""
    if proba is None or proba.ndim != 2 or proba.shape[1] == len(found.classes):
        return labels
    last = proba.shape[1] - 1
    codes = np.where(proba.argmax(axis=1) == last, last, labels.codes)
    return Labels("instances", labels.classes, codes, names=labels.names)


def _clusters(found: Predictions) -> Ranking:
    estimator, bags = found.estimator, found.seen
    if bags is None:
        raise InputError(f"{type(estimator).__name__} clusters rows, not the instances of bags.")
    learned = getattr(estimator, "labels_", None)
    clusters = found.call("predict_instances")
    clusters = found.call("predict") if clusters is None else clusters
    clusters = learned if clusters is None else clusters
    if clusters is None or len(clusters) != bags.n_instances:
        raise InputError(
            f"{type(estimator).__name__} cannot cluster new rows: give the rows it was fitted on."
        )
    if are_those_of_fit(learned, clusters):
        clusters = learned
    n_clusters = max(int(clusters.max()) + 1, int(getattr(estimator, "n_clusters", 0) or 0))
    named = getattr(estimator, "cluster_classes_", None)
    names = [str(k) if named is None else f"{k} ({named[k]})" for k in range(n_clusters)]
    labels = Labels("instances", range(n_clusters), clusters, names=names)
    return Ranking(labels=labels, heading="cluster")


def are_those_of_fit(fitted: Any, found: Array) -> bool:
    """Whether instances are probably those of the fit, by their predictions.

    Predictions for the same instances differ little from the fit, those for others differ a lot.
    """
    return (
        fitted is not None and len(fitted) == len(found) and float(np.mean(fitted == found)) >= 0.9
    )


def _assigned(found: Predictions) -> Ranking:
    """Assign instances to labels: as in the fit if they are its instances, else to the nearest."""
    labels = found.labels(found.call("predict_instances"), "instances")
    assigned = getattr(found.estimator, "assignments_", None)
    if assigned is not None and len(assigned) == len(labels) and (assigned >= 0).any():
        rows = assigned >= 0  # the others belong to no label
        if are_those_of_fit(assigned[rows], labels.codes[rows]):
            labels = Labels("instances", labels.classes, assigned, names=labels.names)
            return Ranking(labels=labels, heading="assigned label")
    return Ranking(labels=labels, heading="nearest label")


def _by_numbers(found: Predictions) -> Ranking:
    """Scores or contributions of the instances, for a regressor."""
    values = None if found.seen is None else found.call("score_instances")
    if values is None:
        return _with_contributions(found, Ranking())
    text = "The prediction of a bag is the mean of the scores of its instances. The key instance "
    keys = _highest(values, found.bags)
    return Ranking(scores=values, keys=keys, explanation=f"{text}has the highest.")
