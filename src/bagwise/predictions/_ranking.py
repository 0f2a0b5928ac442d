"""Instances as a reader sees them: ordered by score or contribution, labelled, with their keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_clusterer

from bagwise import loops
from bagwise._common.types import Array
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.predictions._attributions import METHODS

if TYPE_CHECKING:
    from bagwise.predictions._predictions import Predictions

POOLINGS = {
    "max": "the largest of the scores of its instances",
    "mean": "the mean of the scores of its instances",
    "sum": "the sum of the scores of its instances",
    "lse": "a smooth maximum of the scores of its instances",
    "noisy-or": "the noisy-or of its instances, whose scores are log-odds",
}


@dataclass
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
    keys : dict of int to str
        The rows of the key instances, and a string such as "key for wren".
    explanation : str
        How instances are ordered, which is the key, and how their scores determine that of the bag.
    """

    scores: Array | None = None
    score_name: str = "score"
    labels: Labels | None = None
    heading: str = "on its own"
    proba: Array | None = None
    keys: dict[int, str] = field(default_factory=dict)
    explanation: str = ""


def rank_instances(found: Predictions) -> Ranking:
    """Order and label the instances by the predictions of the model."""
    ranking = Ranking()
    if found.is_regressor:
        _add_numbers(found, ranking)
    elif is_clusterer(found.estimator):
        _add_clusters(found, ranking)
    elif found.predicted is not None:
        _add_classes(found, found.predicted, ranking)
    elif found.seen is not None and hasattr(found.estimator, "predict_instances"):
        _add_nearest(found, ranking)
    return ranking


def of_labels(values: Array, labels: Labels) -> Array:
    """The value of each row in the column of its label."""
    return values[np.arange(len(values)), labels.codes]


def _add_numbers(found: Predictions, ranking: Ranking) -> None:
    """Scores or contributions of the instances, for a regressor."""
    if not found.scores_instances:
        _add_contributions(found, ranking)
        return
    ranking.scores = found.instance_scores()
    ranking.keys = _highest(ranking.scores, found)
    ranking.explanation = (
        "The prediction of a bag is the mean of the scores of its instances. The key instance has "
        "the highest."
    )


def _add_classes(found: Predictions, predicted: Labels, ranking: Ranking) -> None:
    """Scores of instances: the model's own if they pool to the bag score, else contributions."""
    if not found.works_on_rows:
        ranking.keys = _key_instances(found)
        if found.scores_instances:
            _add_scores(found, predicted, ranking)
        pools = getattr(found.estimator, "instance_pooling", None) is not None
        explained = bool(ranking.keys) if ranking.scores is None else pools
        scores_bags = any(hasattr(found.model, m) for m in ("decision_function", "predict_proba"))
        if scores_bags and not explained:
            _add_contributions(found, ranking)
    if found.known is None or found.seen is None or not hasattr(found.estimator, "annotate"):
        return
    # Labels given the label set of the bag; one without any class of the model is unknown to it.
    rows = found.known.indicator[:, : len(found.classes)] == 1
    given = [set(found.classes[row].tolist()) or None for row in rows]
    posterior = None
    if hasattr(found.estimator, "annotate_proba"):
        posterior = np.asarray(found.estimator.annotate_proba(found.seen, given))
    _add_labels(found, ranking, found.estimator.annotate(found.seen, given), posterior)
    ranking.heading = "label given the label set"


def _add_scores(found: Predictions, predicted: Labels, ranking: Ranking) -> None:
    """The scores of the instances, and the labels that they have on their own."""
    ranking.scores, of_class = _of_class(found, predicted, found.instance_scores())
    ranking.score_name = f"score for {of_class}"
    ranking.explanation = f"Scores are for {of_class}. The key instance has the highest."
    pooling = getattr(found.estimator, "instance_pooling", None)
    if pooling in POOLINGS:
        ranking.explanation += f" The score of a bag is {POOLINGS[pooling]}."
    if (named := found.call("predict_instances")) is not None:
        _add_labels(found, ranking, named, found.call("predict_proba_instances"))


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


def _add_labels(found: Predictions, ranking: Ranking, named: Array, proba: Array | None) -> None:
    """Label instances, as background where it is most probable: models predict a label."""
    labels, ranking.proba = found.labels(named, "instances"), None
    if proba is not None and proba.ndim == 2:
        last = proba.shape[1] - 1
        if last == len(found.classes):
            codes = np.where(proba.argmax(axis=1) == last, last, labels.codes)
            labels = Labels("instances", labels.classes, codes, names=labels.names)
        ranking.proba = of_labels(proba, labels)
    ranking.labels = labels


def _add_contributions(found: Predictions, ranking: Ranking) -> None:
    """Order the instances by their contributions to the score of the bag."""
    method, name = found.usual_method, "the prediction"
    values = found.attributions(method)
    if found.predicted is not None:
        values, name = _of_class(found, found.predicted, values)
    ranking.scores, ranking.score_name = values, f"contribution to {name}"
    ranking.keys = _highest(values, found)
    ranking.explanation = (
        f"The score of an instance is its {ranking.score_name}: {METHODS[method]} (attribution "
        f"method “{method}”). The key instance has the largest contribution."
    )


def _highest(values: Array, found: Predictions) -> dict[int, str]:
    offsets = found.bags.offsets
    rows = offsets[:-1] + loops.segments.argmax(values, offsets)
    return dict.fromkeys(rows.tolist(), "key instance")


def _key_instances(found: Predictions) -> dict[int, str]:
    """The rows of the key instances, and a string such as "key for wren"."""
    labels: dict[int, list[str]] = {}
    for row, k in found.keys:
        labels.setdefault(row, []).extend([] if k < 0 else [found.names[k]])
    return {
        row: f"key for {', '.join(names)}" if names else "key instance"
        for row, names in sorted(labels.items())
    }


def _add_clusters(found: Predictions, ranking: Ranking) -> None:
    estimator, bags = found.estimator, found.seen
    learned = getattr(estimator, "labels_", None)
    clusters = found.call("predict_instances")
    clusters = found.call("predict") if clusters is None else clusters
    clusters = learned if clusters is None else clusters
    if bags is None or clusters is None or len(clusters) != bags.n_instances:
        raise InputError(
            f"{type(estimator).__name__} cannot cluster these instances: give those it was fitted "
            "on, as rows if it clusters rows."
        )
    if are_those_of_fit(learned, clusters):
        clusters = learned
    n_clusters = max(int(clusters.max()) + 1, int(getattr(estimator, "n_clusters", 0) or 0))
    named = getattr(estimator, "cluster_classes_", None)
    names = [str(k) if named is None else f"{k} ({named[k]})" for k in range(n_clusters)]
    ranking.labels = Labels("instances", range(n_clusters), clusters, names=names)
    ranking.heading = "cluster"


def are_those_of_fit(fitted: Any, found: Array) -> bool:
    """Whether instances are probably those of the fit, by their predictions.

    Predictions for the same instances differ little from the fit, those for others differ a lot.
    """
    return (
        fitted is not None and len(fitted) == len(found) and float(np.mean(fitted == found)) >= 0.9
    )


def _add_nearest(found: Predictions, ranking: Ranking) -> None:
    """Assign instances to labels: as in the fit if they are its instances, else to the nearest."""
    labels = found.labels(found.call("predict_instances"), "instances")
    ranking.heading = "nearest label"
    assigned = getattr(found.estimator, "assignments_", None)
    if assigned is not None and len(assigned) == len(labels) and (assigned >= 0).any():
        rows = assigned >= 0  # the others belong to no label
        if are_those_of_fit(assigned[rows], labels.codes[rows]):
            labels = Labels("instances", labels.classes, assigned, names=labels.names)
            ranking.heading = "assigned label"
    ranking.labels = labels
