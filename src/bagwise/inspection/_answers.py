"""What is known of bags and what a model says about them, in one shape for every kind of model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_clusterer
from sklearn.pipeline import Pipeline

from bagwise._validation import check_label_sets, check_length
from bagwise.bags import Bags
from bagwise.base import RowEstimator
from bagwise.exceptions import InputError
from bagwise.inspection._tables import instance_model

__all__ = ["Answers", "KnownLabels", "Subject", "collect_answers", "look_into", "read_labels"]

_POOLINGS = {
    "max": "the largest of the scores of its instances",
    "mean": "the mean of the scores of its instances",
    "sum": "the sum of the scores of its instances",
    "lse": "a smooth maximum of the scores of its instances",
    "noisy-or": "the noisy-or of its instances, whose scores are log-odds",
}


@dataclass(frozen=True)
class Subject:
    """The model of a report, looked into.

    Attributes
    ----------
    model : estimator
        As it was given.
    estimator : estimator
        What answers for instances: the last step of a pipeline, the best model of a search.
    bags : Bags
        As they were given.
    seen : Bags or None
        The bags as the estimator sees them; None where a step before makes a row of a bag.
    names : list of str
        What its classes are called.
    """

    model: Any
    estimator: Any
    bags: Bags
    seen: Bags | None
    names: list[str]

    @property
    def works_on_rows(self) -> bool:
        """Whether the model takes plain rows, not bags."""
        return isinstance(self.estimator, RowEstimator)

    @property
    def is_clusterer(self) -> bool:
        """Whether it finds groups."""
        return bool(is_clusterer(self.estimator))

    @property
    def is_classifier(self) -> bool:
        """Whether it names bags (or rows)."""
        return not self.is_clusterer and hasattr(self.estimator, "predict")

    @property
    def classes(self) -> list[Any]:
        """The classes of the model, as plain values; none where it has none."""
        found = getattr(self.estimator, "classes_", None)
        return [] if found is None else np.asarray(found).tolist()

    def ask(self, method: str) -> NDArray[Any]:
        """Call a method of the model on the bags, or on their rows."""
        if self.works_on_rows:
            assert self.seen is not None
            return getattr(self.estimator, method)(self.seen.instances)
        if self.seen is None:
            return getattr(self.model, method)(self.bags)
        return getattr(self.estimator, method)(self.seen)

    def can(self, method: str) -> bool:
        """Whether instances can be asked about by a method."""
        return self.seen is not None and hasattr(self.estimator, method)


def look_into(model: Any, bags: Bags, classes: Sequence[Any] | None) -> Subject:
    """Find the part of a model that answers for instances, and the bags as it sees them.

    Parameters
    ----------
    model : estimator
        Any fitted estimator.
    bags : Bags
        The bags.
    classes : sequence or None
        Names to show instead of the values of ``classes_``.

    Returns
    -------
    Subject
    """
    last = model
    while isinstance(last, Pipeline) or hasattr(last, "best_estimator_"):
        last = last[-1] if isinstance(last, Pipeline) else last.best_estimator_
    if isinstance(last, RowEstimator):
        if not is_clusterer(last) and (bags.sizes != 1).any():
            raise InputError(
                f"{type(last).__name__} works on rows: give bags of one instance each, such as a "
                "2-D array."
            )
        estimator: Any = last
        seen: Bags | None = bags.with_instances(_rows_before(model, bags))
    else:
        estimator, seen = instance_model(model, bags)
    known = getattr(estimator, "classes_", None)
    names = [] if known is None else [str(label) for label in np.asarray(known).tolist()]
    if classes is not None:
        if len(classes) != len(names):
            raise InputError(
                f"classes has {len(classes)} names, and the model knows {len(names)} classes: give "
                "one name each."
            )
        names = [str(label) for label in classes]
    return Subject(model, estimator, bags, seen, names)


def _rows_before(model: Any, bags: Bags) -> Any:
    """The rows as the last step of a pipeline of ordinary transformers sees them."""
    rows = bags.instances
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_"):
        if isinstance(model, Pipeline):
            rows = model[:-1].transform(rows) if len(model) > 1 else rows
            model = model[-1]
        else:
            model = model.best_estimator_
    return rows


@dataclass(frozen=True)
class KnownLabels:
    """The labels that came with the bags.

    Attributes
    ----------
    names : list of str
        The classes of the model, then labels it does not know.
    codes : ndarray of shape (n_bags,) or None
        Places in `names`, -1 where nothing is known; None for label sets.
    sets : ndarray of shape (n_bags, n_names) or None
        Zeros and ones, a row of -1 where nothing is known; None for one label per bag.
    """

    names: list[str]
    codes: NDArray[np.int64] | None = None
    sets: NDArray[np.int8] | None = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which bags have a label (set)."""
        if self.codes is not None:
            return self.codes >= 0
        assert self.sets is not None
        return np.all(self.sets >= 0, axis=1)

    @property
    def texts(self) -> list[str | None]:
        """The label, or the labels, of each bag for a reader; None where nothing is known."""
        if self.codes is not None:
            return [None if code < 0 else self.names[code] for code in self.codes]
        assert self.sets is not None
        return [set_text(row, self.names) if known else None
                for row, known in zip(self.sets, self.known, strict=True)]  # fmt: skip

    @property
    def counts(self) -> NDArray[np.int64]:
        """In how many bags each label is."""
        if self.codes is not None:
            return np.bincount(self.codes[self.codes >= 0], minlength=len(self.names))
        assert self.sets is not None
        return (self.sets == 1).sum(axis=0)

    def as_sets(self) -> NDArray[np.int8]:
        """Zeros and ones also where a bag has one label."""
        if self.sets is not None:
            return self.sets
        assert self.codes is not None
        sets = (self.codes[:, None] == np.arange(len(self.names))).astype(np.int8)
        sets[self.codes < 0] = -1
        return sets


def set_text(row: NDArray[Any], names: Sequence[str]) -> str:
    """The labels of a set, separated by semicolons."""
    return "; ".join(names[k] for k in np.flatnonzero(row == 1).tolist())


def read_labels(y: Any, subject: Subject) -> KnownLabels | None:
    """Read the labels of the bags, for a reader and beside those of the model.

    Parameters
    ----------
    y : None, one label per bag, 0/1 array, or list of sets
        What is known. Of a bag of which nothing is known: None, -1 (where that is no class of the
        model), a row of -1.
    subject : Subject
        The model and the bags.

    Returns
    -------
    KnownLabels or None
        None where nothing is known of any bag.
    """
    if y is None or all(label is None for label in y):
        return None
    check_length(y, subject.bags)
    values = y.ravel() if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1 else y
    is_flat = getattr(values, "ndim", 1) == 1
    if is_flat and not any(isinstance(label, set | frozenset | list | tuple) for label in values):
        known = _single_labels(values, subject)
        return known if known.known.any() else None
    sets = check_label_sets(y, subject.bags)
    own = subject.classes
    if not isinstance(y, list | tuple) and len(own) == sets.indicator.shape[1]:
        return KnownLabels(subject.names, sets=sets.indicator)  # columns are the model's classes
    columns, names = _columns(sets.classes.tolist(), subject)
    indicator = np.zeros((len(subject.bags), len(names)), dtype=np.int8)
    indicator[:, columns] = sets.indicator
    indicator[~sets.known] = -1
    return KnownLabels(names, sets=indicator) if sets.known.any() else None


def _single_labels(y: Any, subject: Subject) -> KnownLabels:
    plain = np.asarray(y, dtype=object).tolist() if not hasattr(y, "tolist") else y.tolist()
    own = subject.classes
    missing = [_is_missing(label) or (label == -1 and -1 not in own) for label in plain]
    present = [label for label, gone in zip(plain, missing, strict=True) if not gone]
    distinct = list(dict.fromkeys(present))
    if not own:
        distinct = sorted(distinct, key=lambda label: (str(type(label)), label))
    columns, names = _columns(distinct, subject)
    place = dict(zip(distinct, columns, strict=True))
    codes = [-1 if gone else place[label] for label, gone in zip(plain, missing, strict=True)]
    return KnownLabels(names, codes=np.array(codes, dtype=np.int64))


def _columns(labels: list[Any], subject: Subject) -> tuple[list[int], list[str]]:
    """The place of each label among the names of the model, new ones after them."""
    own = {label: k for k, label in enumerate(subject.classes)}
    named = {name: k for k, name in enumerate(subject.names)}
    names, columns = list(subject.names), []
    for label in labels:
        place = own.get(label, named.get(str(label)))
        if place is None:
            place = len(names)
            names.append(str(label))
        columns.append(place)
    return columns, names


def _is_missing(label: Any) -> bool:
    return label is None or (isinstance(label, float) and np.isnan(label))


@dataclass
class Answers:
    """What a model says, as a page shows it: numbers per bag and per instance, or None.

    Attributes
    ----------
    codes : ndarray of shape (n_bags,) or None
        The predicted class of each bag.
    sets : ndarray of shape (n_bags, n_classes) or None
        The predicted label sets.
    raw_scores, raw_proba : ndarray or None
        ``decision_function`` and ``predict_proba`` as they came.
    scores : ndarray of shape (n_bags,) or None
        One score per bag, called `score_name`.
    certainty : ndarray of shape (n_bags,) or None
        How far a bag is from another answer.
    instance_scores : ndarray of shape (n_instances,) or None
        What orders the instances, called `instance_score_name`.
    instance_codes : ndarray of shape (n_instances,) or None
        Places in `instance_names` (-1: none); `instance_heading` says what they are.
    instance_proba : ndarray of shape (n_instances,) or None
        How probable that name is.
    posterior : ndarray of shape (n_instances, n_names) or None
        The probability of each name, given the label set of the bag.
    keys : dict of int to str
        The key instances, and what each is the key for.
    explanation : str
        How scores of instances make the score of their bag.
    """

    codes: NDArray[np.int64] | None = None
    sets: NDArray[np.int8] | None = None
    raw_scores: NDArray[Any] | None = None
    raw_proba: NDArray[Any] | None = None
    scores: NDArray[Any] | None = None
    score_name: str = "score"
    certainty: NDArray[Any] | None = None
    instance_scores: NDArray[Any] | None = None
    instance_score_name: str = "score"
    instance_codes: NDArray[np.int64] | None = None
    instance_names: list[str] = field(default_factory=list)
    instance_heading: str = "on its own"
    instance_proba: NDArray[Any] | None = None
    posterior: NDArray[Any] | None = None
    keys: dict[int, str] = field(default_factory=dict)
    explanation: str = ""

    def texts(self, names: Sequence[str]) -> list[str] | None:
        """The predicted label, or labels, of each bag."""
        if self.codes is not None:
            return ["" if code < 0 else names[code] for code in self.codes]
        if self.sets is not None:
            return [set_text(row, names) for row in self.sets]
        return None


def collect_answers(subject: Subject, known: KnownLabels | None) -> Answers:
    """Ask a model everything a page shows.

    Parameters
    ----------
    subject : Subject
        The model and the bags.
    known : KnownLabels or None
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
    predicted = np.asarray(subject.ask("predict"))
    if predicted.ndim == 2:
        answers.sets = (predicted > 0).astype(np.int8)
    else:
        place = {label: k for k, label in enumerate(subject.classes)}
        answers.codes = np.array([place[label] for label in predicted.tolist()], dtype=np.int64)
    asked = subject.estimator if subject.seen is not None else subject.model
    if hasattr(asked, "decision_function"):
        answers.raw_scores = np.asarray(subject.ask("decision_function"))
    if hasattr(asked, "predict_proba"):
        answers.raw_proba = np.asarray(subject.ask("predict_proba"))
    raw = answers.raw_scores
    if answers.codes is None:
        if raw is not None:
            answers.certainty = np.abs(raw).min(axis=1)
        return
    if raw is not None and raw.ndim == 1:
        answers.scores, answers.certainty = raw, np.abs(raw)
        answers.score_name = f"score for {subject.names[1]}" if len(subject.names) > 1 else "score"
    elif raw is not None:
        answers.scores = raw[np.arange(len(raw)), answers.codes]
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
    bags = subject.seen
    assert bags is not None
    scores = np.asarray(subject.ask("score_instances"))
    if scores.ndim == 1:
        answers.instance_scores = scores
        answers.instance_score_name = f"score for {subject.names[-1]}"
    elif answers.codes is not None:
        columns = answers.codes[bags.bag_index]
        answers.instance_scores = scores[np.arange(len(scores)), columns]
        answers.instance_score_name = "score for the predicted class"
    else:
        assert answers.sets is not None
        said = answers.sets[bags.bag_index] > 0
        said |= ~said.any(axis=1, keepdims=True)  # where no label is predicted: the best of all
        own = scores[:, : said.shape[1]]
        answers.instance_scores = np.where(said, own, -np.inf).max(axis=1)
        answers.instance_score_name = "best score for a predicted label"
    pooling = getattr(subject.estimator, "instance_pooling", None)
    if pooling in _POOLINGS:
        answers.explanation = f"The score of a bag is {_POOLINGS[pooling]}."
    if subject.can("predict_instances"):
        found = subject.ask("predict_instances")
        answers.instance_codes, answers.instance_names = _coded(found, subject)
        if subject.can("predict_proba_instances"):
            proba = np.asarray(subject.ask("predict_proba_instances"))
            if proba.ndim == 2:
                answers.instance_proba = proba[np.arange(len(proba)), answers.instance_codes]


def _coded(labels: NDArray[Any], subject: Subject) -> tuple[NDArray[np.int64], list[str]]:
    names, place = list(subject.names), {label: k for k, label in enumerate(subject.classes)}
    background = getattr(subject.estimator, "background_label_", None)
    if background is not None:
        place[background] = len(names)
        names.append(background if isinstance(background, str) else "background")
    return np.array([place[label] for label in np.asarray(labels).tolist()]), names


def _keys(subject: Subject, answers: Answers) -> None:
    if not subject.can("key_instances"):
        return
    bags = subject.seen
    assert bags is not None
    first = bags.offsets[:-1]
    if answers.codes is not None:
        rows = first + subject.ask("key_instances")
        answers.keys = dict.fromkeys(rows.tolist(), "key instance")
        return
    assert answers.sets is not None
    found: dict[int, list[str]] = {}
    for k in np.flatnonzero(answers.sets.any(axis=0)):
        holders = np.flatnonzero(answers.sets[:, k])
        label = subject.estimator.classes_[k]
        rows = subject.estimator.key_instances(bags[holders], label=label)
        for row in (first[holders] + rows).tolist():
            found.setdefault(row, []).append(subject.names[k])
    answers.keys = {row: f"key for {', '.join(names)}" for row, names in sorted(found.items())}


def _annotation(subject: Subject, known: KnownLabels, answers: Answers) -> None:
    """Name the instances given the label sets of their bags, which is more than their scores."""
    sets, own = known.as_sets(), subject.classes
    given: list[set[Any] | None] = []
    for row in sets:
        labels = {own[k] for k in np.flatnonzero(row[: len(own)] == 1)}
        given.append(labels or None)  # a set of labels unknown to the model tells it nothing
    bags, estimator = subject.seen, subject.estimator
    answers.instance_codes, answers.instance_names = _coded(
        estimator.annotate(bags, given), subject
    )
    answers.instance_heading = "label given the bag's"
    answers.instance_proba = None
    if hasattr(estimator, "annotate_proba"):
        answers.posterior = np.asarray(estimator.annotate_proba(bags, given))
        rows = np.arange(len(answers.posterior))
        answers.instance_proba = answers.posterior[rows, answers.instance_codes]


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
    answers.instance_codes = found.astype(np.int64)
    answers.instance_names = [
        str(k) if named is None else f"{k} ({named[k]})" for k in range(n_clusters)
    ]
    answers.instance_heading = "cluster"


def are_those_of_fit(fitted: Any, found: NDArray[Any]) -> bool:
    """Whether instances are those of the fit, as far as the answers for them tell.

    An extension to new instances differs a little from the fit, and other instances differ a lot.
    """
    return (
        fitted is not None and len(fitted) == len(found) and float(np.mean(fitted == found)) >= 0.9
    )


def _assignments(subject: Subject, answers: Answers) -> None:
    found, names = _coded(subject.ask("predict_instances"), subject)
    answers.instance_codes, answers.instance_names = found, names
    answers.instance_heading = "nearest label"
    assigned = getattr(subject.estimator, "assignments_", None)
    if assigned is not None and len(assigned) == len(found) and _have_the_centroids(subject):
        answers.instance_codes = np.asarray(assigned, dtype=np.int64)
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
