"""The subject of a report: a model, bags, their labels, and the predictions of the model."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import is_clusterer

from bagwise import compiled
from bagwise._common.types import Array, Floats
from bagwise._validation import check_known_labels, check_length
from bagwise.bags import Bags
from bagwise.base import RowEstimator
from bagwise.base._pipelines import (
    final_estimator,
    instance_model,
    last_step,
    predicts_numbers,
)
from bagwise.exceptions import InputError, LabelError
from bagwise.inspection._attributions import affordable_attributions
from bagwise.inspection._tables import keys_of_sets
from bagwise.labels import Labels

_POOLINGS = {
    "max": "the largest of the scores of its instances",
    "mean": "the mean of the scores of its instances",
    "sum": "the sum of the scores of its instances",
    "lse": "a smooth maximum of the scores of its instances",
    "noisy-or": "the noisy-or of its instances, whose scores are log-odds",
}
# Contributions for models without instance scores that pool to the score of the bag.
CONTRIBUTIONS = {
    "sampled": "its weight in a linear approximation of the score on random subsets of the bag",
    "one_removed": "the score minus the score without the instance",
}


@dataclass(frozen=True, kw_only=True)
class _Fitted:
    model: Any
    estimator: Any
    bags: Bags
    transformed: Bags | None
    names: list[str]
    known: Labels | None = None

    @property
    def works_on_rows(self) -> bool:
        """Whether the model works on rows instead of bags."""
        return isinstance(self.estimator, RowEstimator)

    @property
    def is_clusterer(self) -> bool:
        """Whether the model is a clusterer."""
        return bool(is_clusterer(self.estimator))

    @property
    def classes(self) -> list[Any]:
        """The classes of the model, as plain values; empty if it has none."""
        return _classes_of(self.estimator)

    @property
    def unit(self) -> str:
        """The unit of prediction: "bag" or "row"."""
        return "row" if self.works_on_rows and (self.bags.sizes == 1).all() else "bag"

    def labels(self, predicted: Any, kind: str = "partial") -> Labels:
        """Predictions of the model, or of a refitted one, as labels; other labels are unknown.

        The classes are those of the model, then further labels of the bags. For instances the
        background is the last class, if the model has one.
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
        """Call a method of the model on the bags, or on their rows; None if it has none."""
        caller, X = self.estimator, self.transformed
        if X is None:
            caller, X = self.model, self.bags
        if not hasattr(caller, method):
            return None
        return np.asarray(getattr(caller, method)(X.instances if self.works_on_rows else X))


@dataclass(frozen=True, kw_only=True)
class _OfBags:
    predicted: Labels | None = None
    true_numbers: Array | None = None
    predicted_numbers: Array | None = None
    raw_scores: Array | None = None
    raw_proba: Array | None = None
    scores: Array | None = None
    score_name: str = "score"
    certainty: Array | None = None


@dataclass(frozen=True, kw_only=True)
class _OfInstances:
    instance_scores: Array | None = None
    instance_score_name: str = "score"
    instance_labels: Labels | None = None
    instance_heading: str = "on its own"
    instance_proba: Array | None = None
    posterior: Array | None = None
    keys: dict[int, str] = field(default_factory=dict)
    explanation: str = ""


@dataclass(frozen=True, kw_only=True)
class Subject(_OfInstances, _OfBags, _Fitted):
    """A model, bags, and its predictions, in one form for every kind of model.

    `look_into` creates it. Values that a model does not predict are None.

    Attributes
    ----------
    model : estimator
        The given model.
    estimator : estimator
        The last step of a pipeline, or the best model of a search.
    bags : Bags
        The given bags.
    transformed : Bags or None
        The input of the estimator; None if an earlier step converts a bag to a row.
    names : list of str
        The names of the classes.
    known : Labels or None
        The labels of the bags, if they are known.
    predicted : Labels or None
        The predicted class, or label set, of each bag.
    true_numbers, predicted_numbers : ndarray of shape (n_bags,) or None
        For a regressor: the number of each bag, NaN if unknown, and its prediction.
    raw_scores, raw_proba : ndarray or None
        Results of ``decision_function`` and ``predict_proba``.
    scores : ndarray of shape (n_bags,) or None
        One score per bag, called `score_name`.
    certainty : ndarray of shape (n_bags,) or None
        Margin between the predicted class and the next one.
    instance_scores : ndarray of shape (n_instances,) or None
        The score by which instances are ordered, called `instance_score_name`.
    instance_labels : Labels or None
        The class or cluster of each instance, under the heading `instance_heading`.
    instance_proba : ndarray of shape (n_instances,) or None
        The probability of that class.
    posterior : ndarray of shape (n_instances, n_names) or None
        The probability of each class, given the label set of the bag.
    keys : dict of int to str
        The rows of the key instances, and a text such as "key for wren".
    explanation : str
        How instances are ordered, which is the key, and how their scores determine that of the bag.
    """

    @cached_property
    def bag_names(self) -> list[str]:
        """The names of the bags."""
        return [str(name) for name in self.bags.names.tolist()]


def look_into(model: Any, bags: Bags, y: Any, classes: Sequence[Any] | None) -> Subject:
    """Find the part of a model that predicts instances, and compute everything on the page.

    Parameters
    ----------
    model : estimator
        Any fitted estimator.
    bags : Bags
        The bags.
    y : labels, numbers or None
        The known labels, which an annotator uses. For a regressor the numbers of the bags, NaN or
        None if unknown.
    classes : sequence or None
        Names to show instead of the values of ``classes_``.

    Returns
    -------
    Subject
    """
    of_bags, of_instances = _OfBags(), _OfInstances()
    if predicts_numbers(model):
        estimator, transformed = instance_model(model, bags)
        fitted = _Fitted(
            model=model, estimator=estimator, bags=bags, transformed=transformed, names=[]
        )
        of_bags, of_instances = _numbers_of_bags(fitted, y), _parts_of_numbers(fitted)
    else:
        fitted = _with_classes(model, bags, y, classes)
        if fitted.is_clusterer:
            of_instances = _clusters(fitted)
        elif hasattr(fitted.estimator, "predict"):
            of_bags = _predicted_bags(fitted)
            of_instances = _predicted_instances(fitted, of_bags.predicted)
        elif fitted.transformed is not None and hasattr(fitted.estimator, "predict_instances"):
            of_instances = _assigned(fitted, fitted.transformed)
    return Subject(**vars(fitted), **vars(of_bags), **vars(of_instances))


def _with_classes(model: Any, bags: Bags, y: Any, classes: Sequence[Any] | None) -> _Fitted:
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
    own = _classes_of(estimator)
    names = [str(label) for label in (own if classes is None else classes)]
    if len(names) != len(own):
        raise InputError(
            f"classes has {len(names)} names, but the model has {len(own)} classes: give one "
            "name each."
        )
    known = check_known_labels(y, bags, classes=own, names=names)
    return _Fitted(
        model=model,
        estimator=estimator,
        bags=bags,
        transformed=transformed,
        names=names,
        known=known,
    )


def _classes_of(estimator: Any) -> list[Any]:
    found = getattr(estimator, "classes_", None)
    return [] if found is None else np.asarray(found).tolist()


def _predicted_bags(fitted: _Fitted) -> _OfBags:
    predicted = fitted.labels(fitted.call("predict"))
    raw, proba = fitted.call("decision_function"), fitted.call("predict_proba")
    found = _OfBags(predicted=predicted, raw_scores=raw, raw_proba=proba)
    if predicted.has_sets:
        return replace(found, certainty=None if raw is None else np.abs(raw).min(axis=1))
    if raw is None:
        return replace(found, certainty=None if proba is None else _lead(proba))
    if raw.ndim == 1:
        name = f"score for “{fitted.names[1]}”" if len(fitted.names) > 1 else "score"
        return replace(found, scores=raw, certainty=np.abs(raw), score_name=name)
    return replace(
        found,
        scores=of_labels(raw, predicted),
        certainty=_lead(raw),
        score_name="score of that class",
    )


def _lead(values: Array) -> Array:
    """The difference of the two largest values of each row."""
    if values.shape[1] < 2:
        return values[:, 0]
    top = np.sort(values, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


def of_labels(values: Array, labels: Labels) -> Array:
    """The value of each row in the column of its label."""
    return values[np.arange(len(values)), labels.codes]


def _predicted_instances(fitted: _Fitted, predicted: Labels | None) -> _OfInstances:
    """Scores of instances: the model's own if they pool to the bag score, else contributions."""
    assert predicted is not None
    found, bags = _OfInstances(), fitted.transformed
    if bags is not None and not fitted.works_on_rows:
        scores, explanation = fitted.call("score_instances"), ""
        labels = proba = None
        name = found.instance_score_name
        if scores is not None:
            scores, name, explanation = _ordering(fitted, predicted, bags, scores)
            named = fitted.call("predict_instances")
            if named is not None:
                proba = fitted.call("predict_proba_instances")
                labels = _with_background(fitted, fitted.labels(named, "instances"), proba)
                proba = of_labels(proba, labels) if proba is not None and proba.ndim == 2 else None
        found = _OfInstances(
            instance_scores=scores,
            instance_score_name=name,
            explanation=explanation,
            instance_labels=labels,
            instance_proba=proba,
            keys=_keys(fitted, predicted, bags),
        )
    if _needs_contributions(fitted, found):
        found = _contributions(fitted, predicted, found)
    if fitted.known is not None and bags is not None and hasattr(fitted.estimator, "annotate"):
        found = _annotated(fitted, fitted.known, bags, found)
    return found


def _ordering(
    fitted: _Fitted, predicted: Labels, bags: Bags, scores: Array
) -> tuple[Array, str, str]:
    """The score by which instances are ordered, its name, and what it means."""
    if scores.ndim == 1:
        column = getattr(fitted.estimator, "_positive_column", 1)
        positive = fitted.names[-1 if column else 0]
        own = scores if column else -scores  # for the positive class
        name = f"score for “{positive}”"
        explanation = (
            f"Scores are for “{positive}”, the positive label: one positive instance makes a bag "
            "positive. The key instance has the highest score, for bags of either label."
        )
    elif not predicted.has_sets:
        own = of_labels(scores, predicted[bags.bag_index])
        name = "score for the predicted class"
        explanation = "The key instance has the highest score for that class."
    else:
        own = _best_carried(scores, predicted, bags)
        name = "best score for a predicted label"
        explanation = "A key instance has the highest score for a predicted label."
    pooling = getattr(fitted.estimator, "instance_pooling", None)
    if pooling in _POOLINGS:
        explanation += f" The score of a bag is {_POOLINGS[pooling]}."
    return own, name, explanation


def _best_carried(values: Array, predicted: Labels, bags: Bags) -> Array:
    """The largest value of each instance among the labels predicted for its bag."""
    carried = predicted.indicator[bags.bag_index] > 0
    carried |= ~carried.any(axis=1, keepdims=True)  # no label predicted: the best of all labels
    return np.where(carried, values[:, : carried.shape[1]], -np.inf).max(axis=1)


def _needs_contributions(fitted: _Fitted, found: _OfInstances) -> bool:
    """Whether the model has neither instance scores that pool to the bag score, nor key instances.

    Instance scores of an ensemble, for example, do not pool to the score of the bag.
    """
    scores_bags = any(hasattr(fitted.model, m) for m in ("decision_function", "predict_proba"))
    if not scores_bags or fitted.works_on_rows:
        return False
    if found.instance_scores is None:
        return not found.keys
    return getattr(fitted.estimator, "instance_pooling", None) is None


def _contributions(fitted: _Fitted, predicted: Labels, found: _OfInstances) -> _OfInstances:
    """Order the instances by their contributions to the score of the bag, if affordable."""
    bags = fitted.bags
    values, method = affordable_attributions(fitted.model, bags)
    if values is None:
        return replace(found, explanation=f"{found.explanation} {method}")
    if values.ndim == 1:
        column = getattr(fitted.estimator, "_positive_column", 1)
        values = values if column else -values
        of_class = f"“{fitted.names[-1 if column else 0]}”" if fitted.names else "positive class"
    elif predicted.has_sets:
        values, of_class = _best_carried(values, predicted, bags), "a predicted label"
    else:
        values, of_class = of_labels(values, predicted[bags.bag_index]), "the predicted class"
    return replace(
        found,
        instance_scores=values,
        instance_score_name=f"contribution to {of_class}",
        explanation=(
            "The score of an instance is its contribution to the score of the bag for "
            f"{of_class}: {CONTRIBUTIONS[method]} (attribution method “{method}”). The key "
            "instance has the largest contribution."
        ),
        keys=_highest(values, bags),
    )


def _highest(values: Array, bags: Bags) -> dict[int, str]:
    rows = bags.offsets[:-1] + compiled.segments.argmax(values, bags.offsets)
    return dict.fromkeys(rows.tolist(), "key instance")


def _keys(fitted: _Fitted, predicted: Labels, bags: Bags) -> dict[int, str]:
    if not hasattr(fitted.estimator, "key_instances"):
        return {}
    first = bags.offsets[:-1]
    if not predicted.has_sets:
        rows = first + fitted.estimator.key_instances(bags)
        return dict.fromkeys(rows.tolist(), "key instance")
    found: dict[int, list[str]] = {}
    for k, holders, rows in keys_of_sets(fitted.estimator, bags, predicted.indicator):
        for row in (first[holders] + rows).tolist():
            found.setdefault(row, []).append(fitted.names[k])
    return {row: f"key for {', '.join(names)}" for row, names in sorted(found.items())}


def _annotated(fitted: _Fitted, known: Labels, bags: Bags, found: _OfInstances) -> _OfInstances:
    """Label the instances given the label sets of their bags."""
    own, estimator = fitted.classes, fitted.estimator
    rows = known.indicator[:, : len(own)] == 1
    # A set without any class of the model is unknown to it.
    given = [{own[k] for k in np.flatnonzero(row)} or None for row in rows]
    posterior = None
    if hasattr(estimator, "annotate_proba"):
        posterior = np.asarray(estimator.annotate_proba(bags, given))
    labels = fitted.labels(estimator.annotate(bags, given), "instances")
    labels = _with_background(fitted, labels, posterior)
    return replace(
        found,
        instance_labels=labels,
        instance_heading="label given the label set",
        posterior=posterior,
        instance_proba=None if posterior is None else of_labels(posterior, labels),
    )


def _with_background(fitted: _Fitted, labels: Labels, proba: Array | None) -> Labels:
    """Set labels of instances to background if it is most probable: models predict a label."""
    if proba is None or proba.ndim != 2 or proba.shape[1] == len(fitted.classes):
        return labels
    codes = np.where(proba.argmax(axis=1) == proba.shape[1] - 1, proba.shape[1] - 1, labels.codes)
    return Labels("instances", labels.classes, codes, names=labels.names)


def _clusters(fitted: _Fitted) -> _OfInstances:
    estimator, bags = fitted.estimator, fitted.transformed
    if bags is None:
        raise InputError(f"{type(estimator).__name__} clusters rows, not the instances of bags.")
    learned = getattr(estimator, "labels_", None)
    found = fitted.call("predict_instances")
    found = fitted.call("predict") if found is None else found
    found = learned if found is None else found
    if found is None or len(found) != bags.n_instances:
        raise InputError(
            f"{type(estimator).__name__} cannot cluster new rows: give the rows it was fitted on."
        )
    if are_those_of_fit(learned, found):
        found = learned
    assert found is not None
    n_clusters = max(int(found.max()) + 1, int(getattr(estimator, "n_clusters", 0) or 0))
    named = getattr(estimator, "cluster_classes_", None)
    names = [str(k) if named is None else f"{k} ({named[k]})" for k in range(n_clusters)]
    labels = Labels("instances", range(n_clusters), found, names=names)
    return _OfInstances(instance_labels=labels, instance_heading="cluster")


def are_those_of_fit(fitted: Any, found: Array) -> bool:
    """Whether instances are probably those of the fit, by their predictions.

    Predictions for the same instances differ little from the fit, those for others differ a lot.
    """
    return (
        fitted is not None and len(fitted) == len(found) and float(np.mean(fitted == found)) >= 0.9
    )


def _assigned(fitted: _Fitted, bags: Bags) -> _OfInstances:
    """Assign instances to labels: as in the fit if they are its instances, else to the nearest."""
    learner = fitted.estimator
    found = fitted.labels(fitted.call("predict_instances"), "instances")
    nearest = _OfInstances(instance_labels=found, instance_heading="nearest label")
    assigned = getattr(learner, "assignments_", None)
    if assigned is None or len(assigned) != len(found) or not hasattr(learner, "centroids_"):
        return nearest
    if not (assigned >= 0).any():
        return nearest
    # If the instances are those of the fit, their mean is the fitted centroid.
    label = int(learner.category_sizes_.argmax())
    rows = bags.instances[np.flatnonzero(assigned == label)]
    centre = np.asarray(learner._features(rows).mean(axis=0)).ravel()
    if not np.allclose(centre, learner.centroids_[label], rtol=1e-3, atol=1e-6):
        return nearest
    labels = Labels("instances", found.classes, assigned, names=found.names)
    return _OfInstances(instance_labels=labels, instance_heading="assigned label")


def _numbers_of_bags(fitted: _Fitted, y: Any) -> _OfBags:
    predicted = np.asarray(fitted.model.predict(fitted.bags), dtype=np.float64)
    return _OfBags(
        true_numbers=_true_numbers(y, fitted.bags),
        predicted_numbers=predicted,
        scores=predicted,
        score_name="prediction",
    )


def _true_numbers(y: Any, bags: Bags) -> Floats | None:
    if y is None:
        return None
    values = getattr(y, "tolist", lambda: list(y))()
    check_length(values, bags)
    try:
        numbers = np.array([np.nan if v is None else float(v) for v in values])
    except (TypeError, ValueError) as error:
        raise LabelError(f"y holds values that are not numbers: {error}.") from error
    return numbers if np.isfinite(numbers).any() else None


def _parts_of_numbers(fitted: _Fitted) -> _OfInstances:
    """Scores or contributions of the instances, for a regressor."""
    values = fitted.call("score_instances") if fitted.transformed is not None else None
    name = "score"
    explanation = (
        "The prediction of a bag is the mean of the scores of its instances. The key instance "
        "has the highest."
    )
    if values is None:
        values, method = affordable_attributions(fitted.model, fitted.bags)
        if values is None:
            return _OfInstances(explanation=method)
        name, what = "contribution", CONTRIBUTIONS[method].replace("score", "prediction")
        explanation = (
            f"The contribution of an instance to the prediction is {what} (attribution method "
            f"“{method}”). The key instance has the largest."
        )
    return _OfInstances(
        instance_scores=values,
        instance_score_name=name,
        explanation=explanation,
        keys=_highest(values, fitted.bags),
    )
