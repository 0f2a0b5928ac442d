"""Instances ordered by score or contribution, with labels and keys; doubtful labels of bags."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_clusterer

from bagwise import loops
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base._pipelines import instance_model
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.predictions._attributions import METHODS
from bagwise.validation import check_bags, check_label_sets

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
        How instances are ordered, which is the key, and how their scores give the score of the bag.
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
    pooling = POOLINGS.get(getattr(found.estimator, "instance_pooling", None) or "")
    parts = "The scores combine those of several methods."
    ranking.explanation = (
        f"{parts if pooling is None else f'The prediction of a bag is {pooling}.'} The key "
        "instance has the highest."
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
    # Given what is known of the bag; nothing, if it has none of the classes of the model.
    known = found.known.as_sets().first_classes(len(found.classes))
    empty = (known.indicator == 0).all(axis=1)
    given = known.without(empty) if found.background_name is None else known
    if getattr(found.estimator, "_annotates", "") != "counts":
        given = Labels("sets", known.classes, indicator=given.indicator)
    compute = getattr(found.estimator, "annotate_proba", lambda *_: None)
    labels = found.estimator.annotate(found.seen, given)
    _add_labels(found, ranking, labels, compute(found.seen, given))
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
            f"{type(estimator).__name__} cannot cluster these instances: give those of its fit."
        )
    if are_those_of_fit(learned, clusters):
        clusters = learned
    n_clusters = max(int(clusters.max()) + 1, int(getattr(estimator, "n_clusters", 0) or 0))
    named = getattr(estimator, "cluster_classes_", None)
    names = [str(k) if named is None else f"{k} ({named[k]})" for k in range(n_clusters)]
    ranking.labels = Labels("instances", range(n_clusters), clusters, names=names)
    ranking.heading = "cluster"


def are_those_of_fit(fitted: Any, found: Array) -> bool:
    """Whether instances are probably from the fit, by their predictions.

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


# Label sets that are probably wrong: the bags that an annotator should review


def doubted_bags(model: Any, X: Any, label_sets: Any) -> dict[str, Array]:
    """List bags by the probability that their label set is wrong, most doubted first.

    A label of the set is *spurious* if no instance has it; a label outside the set is *missing* if
    some instance has it. Both probabilities are conditional on the features and the whole set. The
    probability that a set has an error combines the labels as if they were independent.

    Parameters
    ----------
    model : ORedLogisticRegression
        Fitted with `missing` or `spurious`, or a pipeline that ends in such a model.
    X : Bags or anything accepted as bags
        The bags.
    label_sets : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
        The given label sets. Bags whose label set is unknown are left out.

    Returns
    -------
    dict of str to ndarray
        A row per bag: ``bag``; ``doubt``, the probability that its set is wrong; ``label``, the
        label most likely to be wrong; ``error``, "missing" or "spurious".

    Raises
    ------
    InputError
        When the model assumes that all label sets are right.

    Examples
    --------
    >>> from bagwise.annotation import ORedLogisticRegression
    >>> from bagwise.predictions import doubted_bags
    >>> bags = [[[0.0], [3.1]], [[0.2], [0.1]], [[2.9], [0.1], [3.0]], [[3.2]], [[0.1], [0.0]]]
    >>> sets = [{"a", "b"}, {"a"}, {"a", "b"}, {"b"}, {"a", "b"}]  # the last bag has no "b"
    >>> model = ORedLogisticRegression(0.1, spurious=0.05).fit(bags, sets)
    >>> table = doubted_bags(model, bags, sets)
    >>> table["bag"][0].item(), table["label"][0].item(), table["error"][0].item()
    (4, 'b', 'spurious')
    """
    bags = check_bags(None, X, reset=True)
    estimator, seen = instance_model(model, bags)
    if seen is None or not hasattr(estimator, "spurious_"):
        raise InputError(
            f"{type(estimator).__name__} does not doubt labels: fit an ORedLogisticRegression."
        )
    if estimator.missing_ == estimator.spurious_ == 0:
        raise InputError(
            "the model trusts all label sets: fit it with missing='learn' and spurious='learn'."
        )
    sets = check_label_sets(label_sets, seen, classes=estimator.classes_).indicator
    doubts = wrong_labels(estimator, seen, sets)
    label = doubts.argmax(axis=1)
    with np.errstate(divide="ignore"):
        log_right = np.log1p(-np.minimum(doubts, 1.0)).sum(axis=1)
    order = np.argsort(log_right, kind="stable")
    order = order[(sets[order] >= 0).all(axis=1)]
    listed = sets[np.arange(len(seen)), label] == 1
    return {
        "bag": bags.names[order],
        "doubt": -np.expm1(log_right[order]),
        "label": estimator.classes_[label[order]],
        "error": np.where(listed, "spurious", "missing")[order],
    }


def wrong_labels(model: Any, bags: Bags, sets: Ints) -> Floats:
    """Probability that each label of each bag is wrong: listed but absent, or the reverse.

    Parameters
    ----------
    model : ORedLogisticRegression
        Fitted with `missing` or `spurious`.
    bags : Bags
        The bags.
    sets : ndarray of shape (n_bags, n_classes)
        Their label sets; rows of -1 are unknown and never doubted.

    Returns
    -------
    ndarray of shape (n_bags, n_classes)
    """
    n_labels = sets.shape[1]
    posterior: Array = model.annotate_proba(bags, sets)[:, :n_labels]
    with np.errstate(divide="ignore"):
        absent = loops.segments.sum(np.log1p(-np.minimum(posterior, 1.0)), bags.offsets)
    doubts = np.where(sets == 0, -np.expm1(absent), 0.0)
    # P(Y, no instance reports c) = spurious / (1 - spurious) P(Y - c).
    odds = model.spurious_ / (1 - model.spurious_)
    value = model.log_likelihood(bags, sets)
    bag, label = np.nonzero(sets == 1)
    rank = np.arange(len(bag)) - np.searchsorted(bag, bag)  # of the label in its set
    for r in range(rank.max(initial=-1) + 1):
        chosen, removed = bag[rank == r], label[rank == r]
        fewer = sets[chosen].copy()
        fewer[np.arange(len(chosen)), removed] = 0
        without = model.log_likelihood(bags[chosen], fewer)
        with np.errstate(invalid="ignore", over="ignore"):
            chance = odds * np.exp(without - value[chosen])
        doubts[chosen, removed] = np.nan_to_num(np.minimum(chance, 1.0))
    return doubts
