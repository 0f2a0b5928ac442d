"""Predictions of a model for bags and instances, in one form for every kind of model."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.exceptions import InputError
from bagwise.inspection._tables import keys_of_sets
from bagwise.labels import Labels
from bagwise.report._subject import Subject

_POOLINGS = {
    "max": "the largest of the scores of its instances",
    "mean": "the mean of the scores of its instances",
    "sum": "the sum of the scores of its instances",
    "lse": "a smooth maximum of the scores of its instances",
    "noisy-or": "the noisy-or of its instances, whose scores are log-odds",
}


@dataclass
class Predictions:
    """Predictions as a page shows them: numbers per bag and per instance, or None.

    Attributes
    ----------
    predicted : Labels or None
        The predicted class, or label set, of each bag.
    raw_scores, raw_proba : ndarray or None
        ``decision_function`` and ``predict_proba`` as they came.
    scores : ndarray of shape (n_bags,) or None
        One score per bag, called `score_name`.
    certainty : ndarray of shape (n_bags,) or None
        Margin between the predicted class and the next one.
    instance_scores : ndarray of shape (n_instances,) or None
        What orders the instances, called `instance_score_name`.
    instance_labels : Labels or None
        The class, or cluster, of each instance; `instance_heading` names what they are.
    instance_proba : ndarray of shape (n_instances,) or None
        How probable that name is.
    posterior : ndarray of shape (n_instances, n_names) or None
        The probability of each name, given the label set of the bag.
    keys : dict of int to str
        The key instances, and what each is the key for.
    explanation : str
        How instances are ordered, which is the key, and how they make the score of their bag.
    """

    predicted: Labels | None = None
    raw_scores: NDArray[Any] | None = None
    raw_proba: NDArray[Any] | None = None
    scores: NDArray[Any] | None = None
    score_name: str = "score"
    certainty: NDArray[Any] | None = None
    instance_scores: NDArray[Any] | None = None
    instance_score_name: str = "score"
    instance_labels: Labels | None = None
    instance_heading: str = "on its own"
    instance_proba: NDArray[Any] | None = None
    posterior: NDArray[Any] | None = None
    keys: dict[int, str] = field(default_factory=dict)
    explanation: str = ""


def collect_predictions(subject: Subject, known: Labels | None) -> Predictions:
    """Compute all predictions of a model that a page shows.

    Parameters
    ----------
    subject : Subject
        The model and the bags.
    known : Labels or None
        The labels of the bags; they help an annotator.

    Returns
    -------
    Predictions
    """
    predictions = Predictions()
    if subject.is_classifier:
        _about_bags(subject, predictions)
        if subject.transformed is not None and not subject.works_on_rows:
            _about_instances(subject, predictions)
            _keys(subject, predictions)
        if known is not None and subject.can("annotate"):
            _annotation(subject, known, predictions)
    elif subject.is_clusterer:
        _clusters(subject, predictions)
    elif subject.can("predict_instances"):
        _assignments(subject, predictions)
    return predictions


def _about_bags(subject: Subject, predictions: Predictions) -> None:
    predictions.predicted = predicted = subject.labels(subject.call("predict"))
    model = subject.estimator if subject.transformed is not None else subject.model
    if hasattr(model, "decision_function"):
        predictions.raw_scores = np.asarray(subject.call("decision_function"))
    if hasattr(model, "predict_proba"):
        predictions.raw_proba = np.asarray(subject.call("predict_proba"))
    raw = predictions.raw_scores
    if predicted.has_sets:
        if raw is not None:
            predictions.certainty = np.abs(raw).min(axis=1)
        return
    if raw is not None and raw.ndim == 1:
        predictions.scores, predictions.certainty = raw, np.abs(raw)
        predictions.score_name = (
            f"score for “{subject.names[1]}”" if len(subject.names) > 1 else "score"
        )
    elif raw is not None:
        predictions.scores = raw[np.arange(len(raw)), predicted.codes]
        predictions.certainty = _lead(raw)
        predictions.score_name = "score of that class"
    elif predictions.raw_proba is not None:
        predictions.certainty = _lead(predictions.raw_proba)


def _lead(values: NDArray[Any]) -> NDArray[Any]:
    """By how much the first of each row is ahead of the second."""
    if values.shape[1] < 2:
        return values[:, 0]
    top = np.sort(values, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


def _about_instances(subject: Subject, predictions: Predictions) -> None:
    if not subject.can("score_instances"):
        return
    bags, predicted = subject.transformed, predictions.predicted
    assert bags is not None
    assert predicted is not None
    scores = np.asarray(subject.call("score_instances"))
    if scores.ndim == 1:
        positive = subject.names[-1]
        predictions.instance_scores = scores
        predictions.instance_score_name = f"score for “{positive}”"
        predictions.explanation = (
            f"Scores are for “{positive}”, the label that a single instance can cause. The key "
            "instance is the one with the highest, whichever label the bag has."
        )
    elif not predicted.has_sets:
        columns = predicted.codes[bags.bag_index]
        predictions.instance_scores = scores[np.arange(len(scores)), columns]
        predictions.instance_score_name = "score for the predicted class"
        predictions.explanation = "The key instance has the highest score for that class."
    else:
        carried = predicted.indicator[bags.bag_index] > 0
        carried |= ~carried.any(axis=1, keepdims=True)  # no label predicted: the best of all
        own = scores[:, : carried.shape[1]]
        predictions.instance_scores = np.where(carried, own, -np.inf).max(axis=1)
        predictions.instance_score_name = "best score for a predicted label"
        predictions.explanation = "A key instance has the highest score for a predicted label."
    pooling = getattr(subject.estimator, "instance_pooling", None)
    if pooling in _POOLINGS:
        predictions.explanation += f" The score of a bag is {_POOLINGS[pooling]}."
    if subject.can("predict_instances"):
        predictions.instance_labels = subject.labels(subject.call("predict_instances"), "instances")
        if subject.can("predict_proba_instances"):
            proba = np.asarray(subject.call("predict_proba_instances"))
            if proba.ndim == 2:
                predictions.instance_proba = _of_labels(proba, predictions.instance_labels)


def _of_labels(proba: NDArray[Any], labels: Labels) -> NDArray[Any]:
    """The probability of the label of each instance."""
    return proba[np.arange(len(proba)), labels.codes]


def _keys(subject: Subject, predictions: Predictions) -> None:
    if not subject.can("key_instances"):
        return
    bags, predicted = subject.transformed, predictions.predicted
    assert bags is not None
    assert predicted is not None
    first = bags.offsets[:-1]
    if not predicted.has_sets:
        rows = first + subject.call("key_instances")
        predictions.keys = dict.fromkeys(rows.tolist(), "key instance")
        return
    found: dict[int, list[str]] = {}
    for k, holders, rows in keys_of_sets(subject.estimator, bags, predicted.indicator):
        for row in (first[holders] + rows).tolist():
            found.setdefault(row, []).append(subject.names[k])
    predictions.keys = {row: f"key for {', '.join(names)}" for row, names in sorted(found.items())}


def _annotation(subject: Subject, known: Labels, predictions: Predictions) -> None:
    """Name the instances given the label sets of their bags, which is more than their scores."""
    own = subject.classes
    rows = known.indicator[:, : len(own)] == 1
    # A set without any class of the model carries no information for it.
    given = [{own[k] for k in np.flatnonzero(row)} or None for row in rows]
    bags, estimator = subject.transformed, subject.estimator
    predictions.instance_labels = subject.labels(estimator.annotate(bags, given), "instances")
    predictions.instance_heading = "label given the bag's"
    predictions.instance_proba = None
    if hasattr(estimator, "annotate_proba"):
        predictions.posterior = np.asarray(estimator.annotate_proba(bags, given))
        predictions.instance_proba = _of_labels(predictions.posterior, predictions.instance_labels)


def _clusters(subject: Subject, predictions: Predictions) -> None:
    estimator, bags = subject.estimator, subject.transformed
    if bags is None:
        raise InputError(f"{type(estimator).__name__} clusters rows, not the instances of bags.")
    fitted = getattr(estimator, "labels_", None)
    method = "predict_instances" if hasattr(estimator, "predict_instances") else "predict"
    found = np.asarray(subject.call(method)) if hasattr(estimator, method) else fitted
    if found is None or len(found) != bags.n_instances:
        raise InputError(
            f"{type(estimator).__name__} knows only the rows it was fitted on: give those."
        )
    if are_those_of_fit(fitted, found):
        found = fitted
    assert found is not None
    n_clusters = max(int(found.max()) + 1, int(getattr(estimator, "n_clusters", 0) or 0))
    named = getattr(estimator, "cluster_classes_", None)
    clusters = range(n_clusters)
    names = [str(k) if named is None else f"{k} ({named[k]})" for k in clusters]
    predictions.instance_labels = Labels("instances", clusters, found, names=names)
    predictions.instance_heading = "cluster"


def are_those_of_fit(fitted: Any, found: NDArray[Any]) -> bool:
    """Whether instances are those of the fit, as far as the predictions show.

    An extension to new instances differs a little from the fit, and other instances differ a lot.
    """
    return (
        fitted is not None and len(fitted) == len(found) and float(np.mean(fitted == found)) >= 0.9
    )


def _assignments(subject: Subject, predictions: Predictions) -> None:
    found = subject.labels(subject.call("predict_instances"), "instances")
    predictions.instance_labels = found
    predictions.instance_heading = "nearest label"
    assigned = getattr(subject.estimator, "assignments_", None)
    if assigned is not None and len(assigned) == len(found) and _have_the_centroids(subject):
        predictions.instance_labels = Labels(
            "instances", found.classes, assigned, names=found.names
        )
        predictions.instance_heading = "assigned label"


def _have_the_centroids(subject: Subject) -> bool:
    """Whether instances are those of the fit: the assigned ones then have the fitted centroids."""
    learner = subject.estimator
    if not hasattr(learner, "centroids_") or not (learner.assignments_ >= 0).any():
        return False
    assert subject.transformed is not None
    label = int(learner.category_sizes_.argmax())
    rows = subject.transformed.instances[np.flatnonzero(learner.assignments_ == label)]
    centre = np.asarray(learner._features(rows).mean(axis=0)).ravel()
    return bool(np.allclose(centre, learner.centroids_[label], rtol=1e-3, atol=1e-6))
