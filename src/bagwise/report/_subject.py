"""What a report is about: a model, bags, their labels, and all that the model predicts for them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import is_clusterer

from bagwise import compiled
from bagwise._types import Array
from bagwise._validation import check_known_labels
from bagwise.bags import Bags
from bagwise.base import RowEstimator
from bagwise.base._pipelines import final_estimator, instance_model, last_step
from bagwise.exceptions import InputError
from bagwise.inspection import instance_attributions
from bagwise.inspection._tables import keys_of_sets
from bagwise.labels import Labels

_POOLINGS = {
    "max": "the largest of the scores of its instances",
    "mean": "the mean of the scores of its instances",
    "sum": "the sum of the scores of its instances",
    "lse": "a smooth maximum of the scores of its instances",
    "noisy-or": "the noisy-or of its instances, whose scores are log-odds",
}
# Contributions for models without instance scores that pool to the score of the bag; best first.
CONTRIBUTIONS = {
    "sampled": "its weight in a linear approximation of the score on random subsets of the bag",
    "one_removed": "the score minus the score without the instance",
}
N_SUBSETS = 50  # of a bag
MOST_SCORED = 300_000  # instances that a model scores for the contributions on a page


@dataclass
class Subject:
    """A model, bags, and its predictions for them, in one form for every kind of model.

    What a model does not predict is None.

    Attributes
    ----------
    model : estimator
        As it was given.
    estimator : estimator
        What predicts instances: the last step of a pipeline, the best model of a search.
    bags : Bags
        As they were given.
    transformed : Bags or None
        The bags as the estimator sees them; None where a step before makes a row of a bag.
    names : list of str
        What its classes are called.
    known : Labels or None
        The labels of the bags, where they are known.
    predicted : Labels or None
        The predicted class, or label set, of each bag.
    true_numbers, predicted_numbers : ndarray of shape (n_bags,) or None
        Of a regressor: the number of each bag, NaN where it is not known, and its prediction.
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

    model: Any
    estimator: Any
    bags: Bags
    transformed: Bags | None
    names: list[str]
    known: Labels | None = None
    predicted: Labels | None = None
    true_numbers: Array | None = None
    predicted_numbers: Array | None = None
    raw_scores: Array | None = None
    raw_proba: Array | None = None
    scores: Array | None = None
    score_name: str = "score"
    certainty: Array | None = None
    instance_scores: Array | None = None
    instance_score_name: str = "score"
    instance_labels: Labels | None = None
    instance_heading: str = "on its own"
    instance_proba: Array | None = None
    posterior: Array | None = None
    keys: dict[int, str] = field(default_factory=dict)
    explanation: str = ""

    @property
    def works_on_rows(self) -> bool:
        """Whether the model takes plain rows, not bags."""
        return isinstance(self.estimator, RowEstimator)

    @property
    def is_clusterer(self) -> bool:
        """Whether it finds groups."""
        return bool(is_clusterer(self.estimator))

    @property
    def classes(self) -> list[Any]:
        """The classes of the model, as plain values; none where it has none."""
        found = getattr(self.estimator, "classes_", None)
        return [] if found is None else np.asarray(found).tolist()

    @property
    def unit(self) -> str:
        """What the model is about: "bag" or "row"."""
        return "row" if self.works_on_rows and (self.bags.sizes == 1).all() else "bag"

    @cached_property
    def bag_names(self) -> list[str]:
        """The names of the bags."""
        return [str(name) for name in self.bags.names.tolist()]

    def labels(self, predicted: Any, kind: str = "partial") -> Labels:
        """Predictions of the model, or of one fitted anew, as labels; other labels are unknown.

        The classes are those of the model, then further labels of the bags. Among instances the
        background, where the model has one, is the last class.
        """
        values, classes, names = np.asarray(predicted), self.classes, list(self.names)
        if values.ndim == 2:
            indicator = np.where(values < 0, -1, values > 0)
            return Labels("sets", classes, indicator=indicator, names=names)
        if kind == "partial" and self.known is not None:
            classes, names = self.known.classes.tolist(), self.known.names
        background = getattr(self.estimator, "background_label_", None)
        if kind == "instances" and background is not None:
            classes = [*classes, background]
            names.append(background if isinstance(background, str) else "background")
        position = {label: k for k, label in enumerate(classes)}
        codes = [position.get(label, -1) for label in values.tolist()]
        return Labels(kind, classes, codes, names=names)

    def call(self, method: str) -> Array | None:
        """Call a method of the model on the bags, or on their rows; None where it has none."""
        caller, X = self.estimator, self.transformed
        if X is None:
            caller, X = self.model, self.bags
        if not hasattr(caller, method):
            return None
        return np.asarray(getattr(caller, method)(X.instances if self.works_on_rows else X))


def look_into(model: Any, bags: Bags, y: Any, classes: Sequence[Any] | None) -> Subject:
    """Find the part of a model that predicts instances, and compute all that a page shows.

    Parameters
    ----------
    model : estimator
        Any fitted estimator.
    bags : Bags
        The bags.
    y : labels or None
        What is known of them; it helps an annotator.
    classes : sequence or None
        Names to show instead of the values of ``classes_``.

    Returns
    -------
    Subject
    """
    last = final_estimator(model)
    if isinstance(last, RowEstimator):
        if not is_clusterer(last) and (bags.sizes != 1).any():
            raise InputError(
                f"{type(last).__name__} works on rows: give bags of one instance each, such as a "
                "2-D array."
            )
        estimator, rows = last_step(model, bags.instances)
        transformed: Bags | None = bags.with_instances(rows)
    else:
        estimator, transformed = instance_model(model, bags)
    subject = Subject(model, estimator, bags, transformed, [])
    subject.names = [str(label) for label in (subject.classes if classes is None else classes)]
    if len(subject.names) != len(subject.classes):
        raise InputError(
            f"classes has {len(subject.names)} names, and the model knows {len(subject.classes)} "
            "classes: give one name each."
        )
    subject.known = check_known_labels(y, bags, classes=subject.classes, names=subject.names)
    if subject.is_clusterer:
        _find_clusters(subject)
    elif hasattr(estimator, "predict"):
        _predict_bags(subject)
        if transformed is not None and not subject.works_on_rows:
            _predict_instances(subject, transformed)
        if _needs_contributions(subject):
            _attribute(subject)
        if subject.known is not None and transformed is not None and hasattr(estimator, "annotate"):
            _annotate(subject, subject.known)
    elif transformed is not None and hasattr(estimator, "predict_instances"):
        _assign(subject, transformed)
    return subject


def _predict_bags(subject: Subject) -> None:
    subject.predicted = predicted = subject.labels(subject.call("predict"))
    subject.raw_scores = raw = subject.call("decision_function")
    subject.raw_proba = subject.call("predict_proba")
    if predicted.has_sets:
        subject.certainty = None if raw is None else np.abs(raw).min(axis=1)
    elif raw is None:
        subject.certainty = None if subject.raw_proba is None else _lead(subject.raw_proba)
    elif raw.ndim == 1:
        subject.scores, subject.certainty = raw, np.abs(raw)
        if len(subject.names) > 1:
            subject.score_name = f"score for “{subject.names[1]}”"
    else:
        subject.scores, subject.certainty = of_labels(raw, predicted), _lead(raw)
        subject.score_name = "score of that class"


def _lead(values: Array) -> Array:
    """By how much the first of each row is ahead of the second."""
    if values.shape[1] < 2:
        return values[:, 0]
    top = np.sort(values, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


def of_labels(values: Array, labels: Labels) -> Array:
    """The value in each row, of shape (n_classes,), that is about the label of the row."""
    return values[np.arange(len(values)), labels.codes]


def _predict_instances(subject: Subject, bags: Bags) -> None:
    scores, predicted = subject.call("score_instances"), subject.predicted
    assert predicted is not None
    if scores is not None:
        if scores.ndim == 1:
            column = getattr(subject.estimator, "_positive_column", 1)
            positive = subject.names[-1 if column else 0]
            subject.instance_scores = scores if column else -scores  # of the positive class
            subject.instance_score_name = f"score for “{positive}”"
            subject.explanation = (
                f"Scores are for “{positive}”, the positive label, for which one instance is "
                "enough. The key instance has the highest score, whatever the label of the bag."
            )
        elif not predicted.has_sets:
            subject.instance_scores = of_labels(scores, predicted[bags.bag_index])
            subject.instance_score_name = "score for the predicted class"
            subject.explanation = "The key instance has the highest score for that class."
        else:
            carried = predicted.indicator[bags.bag_index] > 0
            carried |= ~carried.any(axis=1, keepdims=True)  # no label predicted: the best of all
            own = scores[:, : carried.shape[1]]
            subject.instance_scores = np.where(carried, own, -np.inf).max(axis=1)
            subject.instance_score_name = "best score for a predicted label"
            subject.explanation = "A key instance has the highest score for a predicted label."
        pooling = getattr(subject.estimator, "instance_pooling", None)
        if pooling in _POOLINGS:
            subject.explanation += f" The score of a bag is {_POOLINGS[pooling]}."
        named = subject.call("predict_instances")
        if named is not None:
            subject.instance_labels = subject.labels(named, "instances")
            proba = subject.call("predict_proba_instances")
            if proba is not None and proba.ndim == 2:
                subject.instance_proba = of_labels(proba, subject.instance_labels)
    if hasattr(subject.estimator, "key_instances"):
        subject.keys = _keys(subject, predicted, bags)


def _needs_contributions(subject: Subject) -> bool:
    """Whether the model says neither how instances make the score of their bag, nor which decides.

    The scores of instances by an ensemble do not pool to the score of the bag.
    """
    scores_bags = any(hasattr(subject.model, m) for m in ("decision_function", "predict_proba"))
    if not scores_bags or subject.works_on_rows:
        return False
    if subject.instance_scores is None:
        return not subject.keys
    return getattr(subject.estimator, "instance_pooling", None) is None


def _attribute(subject: Subject) -> None:
    """Order the instances by their contributions to the score of the bag, as far as affordable."""
    model, bags, predicted = subject.model, subject.bags, subject.predicted
    sizes = bags.sizes.astype(float)
    costs = {"sampled": sizes.sum() * N_SUBSETS / 2, "one_removed": (sizes**2).sum()}
    method = next((name for name in CONTRIBUTIONS if costs[name] <= MOST_SCORED), None)
    if method is None:
        subject.explanation += (
            f" Contributions of the instances are left out: the model would have to score "
            f"{min(costs.values()):,.0f} instances, and the limit is {MOST_SCORED:,}."
        )
        return
    found = instance_attributions(model, bags, method=method, n_samples=N_SUBSETS, random_state=0)
    assert predicted is not None
    if found.ndim == 1:
        column = getattr(subject.estimator, "_positive_column", 1)
        found = found if column else -found
        of_class = f"“{subject.names[-1 if column else 0]}”" if subject.names else "positive class"
    elif predicted.has_sets:
        carried = predicted.indicator[bags.bag_index] > 0
        carried |= ~carried.any(axis=1, keepdims=True)
        found, of_class = np.where(carried, found, -np.inf).max(axis=1), "a predicted label"
    else:
        found, of_class = of_labels(found, predicted[bags.bag_index]), "the predicted class"
    subject.instance_scores = found
    subject.instance_score_name = f"contribution to {of_class}"
    subject.explanation = (
        f"The score of an instance is its contribution to the score of the bag for {of_class}: "
        f"{CONTRIBUTIONS[method]}. The key instance has the largest contribution."
    )
    rows = bags.offsets[:-1] + compiled.segments.argmax(found, bags.offsets)
    subject.keys = dict.fromkeys(rows.tolist(), "key instance")


def _keys(subject: Subject, predicted: Labels, bags: Bags) -> dict[int, str]:
    first = bags.offsets[:-1]
    if not predicted.has_sets:
        rows = first + subject.estimator.key_instances(bags)
        return dict.fromkeys(rows.tolist(), "key instance")
    found: dict[int, list[str]] = {}
    for k, holders, rows in keys_of_sets(subject.estimator, bags, predicted.indicator):
        for row in (first[holders] + rows).tolist():
            found.setdefault(row, []).append(subject.names[k])
    return {row: f"key for {', '.join(names)}" for row, names in sorted(found.items())}


def _annotate(subject: Subject, known: Labels) -> None:
    """Name the instances given the label sets of their bags, which is more than their scores."""
    own = subject.classes
    rows = known.indicator[:, : len(own)] == 1
    # A set without any class of the model carries no information for it.
    given = [{own[k] for k in np.flatnonzero(row)} or None for row in rows]
    bags, estimator = subject.transformed, subject.estimator
    subject.instance_labels = subject.labels(estimator.annotate(bags, given), "instances")
    subject.instance_heading = "label given the bag's"
    subject.instance_proba = None
    if hasattr(estimator, "annotate_proba"):
        subject.posterior = np.asarray(estimator.annotate_proba(bags, given))
        subject.instance_proba = of_labels(subject.posterior, subject.instance_labels)


def _find_clusters(subject: Subject) -> None:
    estimator, bags = subject.estimator, subject.transformed
    if bags is None:
        raise InputError(f"{type(estimator).__name__} clusters rows, not the instances of bags.")
    fitted = getattr(estimator, "labels_", None)
    found = subject.call("predict_instances")
    found = subject.call("predict") if found is None else found
    found = fitted if found is None else found
    if found is None or len(found) != bags.n_instances:
        raise InputError(
            f"{type(estimator).__name__} knows only the rows it was fitted on: give those."
        )
    if are_those_of_fit(fitted, found):
        found = fitted
    assert found is not None
    n_clusters = max(int(found.max()) + 1, int(getattr(estimator, "n_clusters", 0) or 0))
    named = getattr(estimator, "cluster_classes_", None)
    names = [str(k) if named is None else f"{k} ({named[k]})" for k in range(n_clusters)]
    subject.instance_labels = Labels("instances", range(n_clusters), found, names=names)
    subject.instance_heading = "cluster"


def are_those_of_fit(fitted: Any, found: Array) -> bool:
    """Whether instances are those of the fit, as far as the predictions show.

    An extension to new instances differs a little from the fit, and other instances differ a lot.
    """
    return (
        fitted is not None and len(fitted) == len(found) and float(np.mean(fitted == found)) >= 0.9
    )


def _assign(subject: Subject, bags: Bags) -> None:
    """Assign instances to labels: as in the fit, where they are its instances; else the nearest."""
    learner = subject.estimator
    found = subject.labels(subject.call("predict_instances"), "instances")
    subject.instance_labels, subject.instance_heading = found, "nearest label"
    assigned = getattr(learner, "assignments_", None)
    if assigned is None or len(assigned) != len(found) or not hasattr(learner, "centroids_"):
        return
    if (assigned >= 0).any():
        # The assigned instances have the fitted centroids where they are those of the fit.
        label = int(learner.category_sizes_.argmax())
        rows = bags.instances[np.flatnonzero(assigned == label)]
        centre = np.asarray(learner._features(rows).mean(axis=0)).ravel()
        if np.allclose(centre, learner.centroids_[label], rtol=1e-3, atol=1e-6):
            subject.instance_labels = Labels(
                "instances", found.classes, assigned, names=found.names
            )
            subject.instance_heading = "assigned label"
