"""What a model says about bags and their instances, in one shape for every kind of model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.exceptions import InputError
from bagwise.inspection._tables import keys_of_sets
from bagwise.labels import Labels
from bagwise.report._subject import Subject

__all__ = ["Answers", "are_those_of_fit", "collect_answers"]

_POOLINGS = {
    "max": "the largest of the scores of its instances",
    "mean": "the mean of the scores of its instances",
    "sum": "the sum of the scores of its instances",
    "lse": "a smooth maximum of the scores of its instances",
    "noisy-or": "the noisy-or of its instances, whose scores are log-odds",
}


@dataclass
class Answers:
    """What a model says, as a page shows it: numbers per bag and per instance, or None.

    Attributes
    ----------
    predicted : Labels or None
        The predicted class, or label set, of each bag.
    raw_scores, raw_proba : ndarray or None
        ``decision_function`` and ``predict_proba`` as they came.
    scores : ndarray of shape (n_bags,) or None
        One score per bag, called `score_name`.
    certainty : ndarray of shape (n_bags,) or None
        How far a bag is from another answer.
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


def collect_answers(subject: Subject, known: Labels | None) -> Answers:
    """Ask a model everything a page shows.

    Parameters
    ----------
    subject : Subject
        The model and the bags.
    known : Labels or None
        The labels of the bags; they help an annotator.

    Returns
    -------
    Answers
    """
    answers = Answers()
    if subject.is_classifier:
        _about_bags(subject, answers)
        if subject.seen is not None and not subject.works_on_rows:
            _about_instances(subject, answers)
            _keys(subject, answers)
        if known is not None and subject.can("annotate"):
            _annotation(subject, known, answers)
    elif subject.is_clusterer:
        _clusters(subject, answers)
    elif subject.can("predict_instances"):
        _assignments(subject, answers)
    return answers


def _about_bags(subject: Subject, answers: Answers) -> None:
    answers.predicted = predicted = subject.labels(subject.ask("predict"))
    asked = subject.estimator if subject.seen is not None else subject.model
    if hasattr(asked, "decision_function"):
        answers.raw_scores = np.asarray(subject.ask("decision_function"))
    if hasattr(asked, "predict_proba"):
        answers.raw_proba = np.asarray(subject.ask("predict_proba"))
    raw = answers.raw_scores
    if predicted.has_sets:
        if raw is not None:
            answers.certainty = np.abs(raw).min(axis=1)
        return
    if raw is not None and raw.ndim == 1:
        answers.scores, answers.certainty = raw, np.abs(raw)
        answers.score_name = (
            f"score for “{subject.names[1]}”" if len(subject.names) > 1 else "score"
        )
    elif raw is not None:
        answers.scores = raw[np.arange(len(raw)), predicted.codes]
        answers.certainty = _lead(raw)
        answers.score_name = "score of that class"
    elif answers.raw_proba is not None:
        answers.certainty = _lead(answers.raw_proba)


def _lead(values: NDArray[Any]) -> NDArray[Any]:
    """By how much the first of each row is ahead of the second."""
    if values.shape[1] < 2:
        return values[:, 0]
    top = np.sort(values, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


def _about_instances(subject: Subject, answers: Answers) -> None:
    if not subject.can("score_instances"):
        return
    bags, predicted = subject.seen, answers.predicted
    assert bags is not None
    assert predicted is not None
    scores = np.asarray(subject.ask("score_instances"))
    if scores.ndim == 1:
        positive = subject.names[-1]
        answers.instance_scores = scores
        answers.instance_score_name = f"score for “{positive}”"
        answers.explanation = (
            f"Scores are for “{positive}”, the label that a single instance can cause. The key "
            "instance is the one with the highest, whichever label the bag has."
        )
    elif not predicted.has_sets:
        columns = predicted.codes[bags.bag_index]
        answers.instance_scores = scores[np.arange(len(scores)), columns]
        answers.instance_score_name = "score for the predicted class"
        answers.explanation = "The key instance is the one that speaks most for that class."
    else:
        carried = predicted.indicator[bags.bag_index] > 0
        carried |= ~carried.any(axis=1, keepdims=True)  # no label predicted: the best of all
        own = scores[:, : carried.shape[1]]
        answers.instance_scores = np.where(carried, own, -np.inf).max(axis=1)
        answers.instance_score_name = "best score for a predicted label"
        answers.explanation = "A key instance is the one that speaks most for a predicted label."
    pooling = getattr(subject.estimator, "instance_pooling", None)
    if pooling in _POOLINGS:
        answers.explanation += f" The score of a bag is {_POOLINGS[pooling]}."
    if subject.can("predict_instances"):
        answers.instance_labels = _instance_labels(subject.ask("predict_instances"), subject)
        if subject.can("predict_proba_instances"):
            proba = np.asarray(subject.ask("predict_proba_instances"))
            if proba.ndim == 2:
                answers.instance_proba = _of_labels(proba, answers.instance_labels)


def _instance_labels(labels: Any, subject: Subject) -> Labels:
    """Labels of instances; the background, where the model has one, is the last class."""
    classes, names = list(subject.classes), list(subject.names)
    background = getattr(subject.estimator, "background_label_", None)
    if background is not None:
        classes.append(background)
        names.append(background if isinstance(background, str) else "background")
    position = {label: k for k, label in enumerate(classes)}
    codes = [position[label] for label in np.asarray(labels).tolist()]
    return Labels("instances", classes, codes, names=names)


def _of_labels(proba: NDArray[Any], labels: Labels) -> NDArray[Any]:
    """The probability of the label of each instance."""
    return proba[np.arange(len(proba)), labels.codes]


def _keys(subject: Subject, answers: Answers) -> None:
    if not subject.can("key_instances"):
        return
    bags, predicted = subject.seen, answers.predicted
    assert bags is not None
    assert predicted is not None
    first = bags.offsets[:-1]
    if not predicted.has_sets:
        rows = first + subject.ask("key_instances")
        answers.keys = dict.fromkeys(rows.tolist(), "key instance")
        return
    found: dict[int, list[str]] = {}
    for k, holders, rows in keys_of_sets(subject.estimator, bags, predicted.indicator):
        for row in (first[holders] + rows).tolist():
            found.setdefault(row, []).append(subject.names[k])
    answers.keys = {row: f"key for {', '.join(names)}" for row, names in sorted(found.items())}


def _annotation(subject: Subject, known: Labels, answers: Answers) -> None:
    """Name the instances given the label sets of their bags, which is more than their scores."""
    own = subject.classes
    rows = known.indicator[:, : len(own)] == 1
    # A set without any class of the model tells it nothing.
    given = [{own[k] for k in np.flatnonzero(row)} or None for row in rows]
    bags, estimator = subject.seen, subject.estimator
    answers.instance_labels = _instance_labels(estimator.annotate(bags, given), subject)
    answers.instance_heading = "label given the bag's"
    answers.instance_proba = None
    if hasattr(estimator, "annotate_proba"):
        answers.posterior = np.asarray(estimator.annotate_proba(bags, given))
        answers.instance_proba = _of_labels(answers.posterior, answers.instance_labels)


def _clusters(subject: Subject, answers: Answers) -> None:
    estimator, bags = subject.estimator, subject.seen
    if bags is None:
        raise InputError(f"{type(estimator).__name__} clusters rows, not the instances of bags.")
    fitted = getattr(estimator, "labels_", None)
    method = "predict_instances" if hasattr(estimator, "predict_instances") else "predict"
    found = np.asarray(subject.ask(method)) if hasattr(estimator, method) else fitted
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
    answers.instance_labels = Labels("instances", clusters, found, names=names)
    answers.instance_heading = "cluster"


def are_those_of_fit(fitted: Any, found: NDArray[Any]) -> bool:
    """Whether instances are those of the fit, as far as the answers for them tell.

    An extension to new instances differs a little from the fit, and other instances differ a lot.
    """
    return (
        fitted is not None and len(fitted) == len(found) and float(np.mean(fitted == found)) >= 0.9
    )


def _assignments(subject: Subject, answers: Answers) -> None:
    found = _instance_labels(subject.ask("predict_instances"), subject)
    answers.instance_labels = found
    answers.instance_heading = "nearest label"
    assigned = getattr(subject.estimator, "assignments_", None)
    if assigned is not None and len(assigned) == len(found) and _have_the_centroids(subject):
        answers.instance_labels = Labels("instances", found.classes, assigned, names=found.names)
        answers.instance_heading = "assigned label"


def _have_the_centroids(subject: Subject) -> bool:
    """Whether instances are those of the fit: the assigned ones then have the fitted centroids."""
    learner = subject.estimator
    if not hasattr(learner, "centroids_") or not (learner.assignments_ >= 0).any():
        return False
    assert subject.seen is not None
    label = int(learner.category_sizes_.argmax())
    rows = subject.seen.instances[np.flatnonzero(learner.assignments_ == label)]
    centre = np.asarray(learner._features(rows).mean(axis=0)).ravel()
    return bool(np.allclose(centre, learner.centroids_[label], rtol=1e-3, atol=1e-6))
