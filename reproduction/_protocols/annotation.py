"""Protocols for annotators, which label instances by the label sets of their bags."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score, label_ranking_average_precision_score
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from bagwise.apps.review import ReviewQueue
from bagwise.bags import Bags
from bagwise.predictions import doubted_bags
from bagwise.preprocessing import InstanceTransformer
from reproduction._building import build_model, with_seed
from reproduction._protocols.fitting import Fitted
from reproduction._units import Unit

__all__ = [
    "annotate_all",
    "annotate_folds",
    "annotate_overlaps",
    "annotate_wrong_sets",
    "correct_some",
    "doubt_sets",
    "reliability",
]

N_BINS = 10
LIKELY = 0.3


def annotate_all(unit: Unit) -> dict[str, Any]:
    """Fit on all bags and label their instances given the label sets (transductive).

    A single-instance model cannot use label sets: it is fitted on true instance labels and tested
    on held-out bags (ten folds). ``accuracy`` is over labelled instances and takes the most
    probable label. ``accuracy_or_background`` counts a background probability above 0.5 as an
    error.
    """
    data = unit.load()
    if not _annotates(_model(unit, data.bags)):
        folds = KFold(10, shuffle=True, random_state=unit.shared_seed).split(data.label_sets)
        right = np.concatenate([_supervised(unit, data, *fold)[0] for fold in folds])
        return {"accuracy": float(right.mean()), "accuracy_or_background": float(right.mean())}
    fitted = _fit(unit, data.bags, data.label_sets)
    scaled, known = fitted.scale(data.bags), data.instance_labels >= 0
    named = fitted.model.annotate(scaled, data.label_sets)[known]
    strictly = named
    if getattr(fitted.model, "background_label_", None) is not None:
        strictly = fitted.model.annotate(scaled, data.label_sets, background_above=0.5)[known]
    return {
        "accuracy": float(np.mean(named == data.instance_labels[known])),
        "accuracy_or_background": float(np.mean(strictly == data.instance_labels[known])),
        "fit_seconds": fitted.seconds,
    }


def annotate_folds(unit: Unit) -> dict[str, Any]:
    """Fit on the training folds and label test instances without their label sets (inductive).

    Folds split the bags and are the same for all methods. A single-instance model is fitted on true
    instance labels.
    """
    data = unit.load()
    folds = KFold(unit.settings["folds"], shuffle=True, random_state=unit.shared_seed)
    train, test = list(folds.split(data.label_sets))[unit.fold or 0]
    if not _annotates(_model(unit, data.bags)):
        right, seconds = _supervised(unit, data, train, test)
        return {"accuracy": float(right.mean()), "fit_seconds": seconds}
    fitted = _fit(unit, data.bags[train], data.label_sets[train])
    truth = np.concatenate([data.bags.split(data.instance_labels)[i] for i in test])
    named = fitted.model.predict_instances(fitted.scale(data.bags[test]))
    right = (named == truth)[truth >= 0]
    return {"accuracy": float(right.mean()), "fit_seconds": fitted.seconds}


def annotate_overlaps(unit: Unit) -> dict[str, Any]:
    """Run `annotate_folds` on instances that may have several labels.

    ``average_precision`` ranks the labels of test instances by probability, without a threshold.
    ``f1`` (micro-averaged over labels) compares the predicted label sets of test instances,
    ``known_f1`` those of training instances given the label sets of their bags. A predicted set has
    all labels with a probability of at least 0.3; if the model has one label per instance, also
    the most probable label.
    """
    data = unit.load()
    shown = data.get("instance_label_sets")
    if shown is None:
        shown = (data.instance_labels[:, None] == np.arange(len(data.classes))).astype(int)
    folds = KFold(unit.settings["folds"], shuffle=True, random_state=unit.shared_seed)
    train, test = list(folds.split(data.label_sets))[unit.fold or 0]
    fitted = _fit(unit, data.bags[train], data.label_sets[train])
    in_test = np.isin(data.bags.bag_index, test)
    new, known = fitted.scale(data.bags[test]), fitted.scale(data.bags[train])
    labelled = shown[in_test].any(axis=1)
    n_labels, model = shown.shape[1], fitted.model
    proba = model.predict_proba_instances(new)
    ranked = label_ranking_average_precision_score(
        shown[in_test][labelled], proba[labelled, :n_labels]
    )
    if hasattr(model, "annotate_sets"):
        found = model.predict_instance_sets(new)
        given = model.annotate_sets(known, data.label_sets[train])
    else:
        found = _likely(proba)[:, :n_labels]
        given = _likely(model.annotate_proba(known, data.label_sets[train]))[:, :n_labels]
    return {
        "average_precision": float(ranked),
        "f1": float(f1_score(shown[in_test], found, average="micro")),
        "known_f1": float(f1_score(shown[~in_test], given, average="micro")),
    }


def _likely(proba: NDArray[Any]) -> NDArray[Any]:
    """The most probable label, and all labels with a probability of at least `LIKELY`."""
    return ((proba >= LIKELY) | (proba == proba.max(axis=1, keepdims=True))).astype(int)


def annotate_wrong_sets(unit: Unit) -> dict[str, Any]:
    """Run `annotate_folds` with clean label sets, with spurious labels and with missing labels.

    A method whose name ends in "right-sets" is an oracle: it sees only bags with a correct set.
    """
    data = unit.load()
    folds = KFold(unit.settings["folds"], shuffle=True, random_state=unit.shared_seed)
    train, test = list(folds.split(data.label_sets))[unit.fold or 0]
    truth = np.concatenate([data.bags.split(data.instance_labels)[i] for i in test])
    found = {}
    for error in ("clean", "spurious", "missing"):
        wrong = _with_errors(data.label_sets, error, 0.3, unit.shared_seed)
        used = train
        if unit.method.endswith("right-sets"):
            used = train[(wrong[train] == data.label_sets[train]).all(axis=1)]
        fitted = _fit(unit, data.bags[used], wrong[used])
        named = fitted.model.predict_instances(fitted.scale(data.bags[test]))
        found[error] = float((named == truth)[truth >= 0].mean())
    return found


def doubt_sets(unit: Unit) -> dict[str, Any]:
    """Share of wrong label sets among the 20 that a model doubts most; a tenth of all are wrong.

    A method whose name ends in "right-sets" is an oracle: it is fitted on the correct sets.
    """
    data, found = unit.load(), {}
    for error in ("spurious", "missing"):
        written = _with_errors(data.label_sets, error, 0.1, unit.shared_seed)
        seen = data.label_sets if unit.method.endswith("right-sets") else written
        fitted = _fit(unit, data.bags, seen)
        table = doubted_bags(fitted.model, fitted.scale(data.bags), written)
        names = data.bags.names[(written != data.label_sets).any(axis=1)]
        found[error] = float(np.isin(table["bag"][:20], names).mean())
    return found


def _with_errors(sets: NDArray[Any], error: str, share: float, seed: int) -> NDArray[Any]:
    """Add a wrong label to a share of the label sets, or remove one of several labels."""
    rng, wrong = np.random.default_rng(seed), sets.copy()
    if error == "clean":
        return wrong
    possible = np.flatnonzero((sets == 0).any(axis=1) if error == "spurious" else sets.sum(1) > 1)
    for i in rng.choice(possible, round(share * len(sets)), replace=False):
        label = rng.choice(np.flatnonzero(sets[i] == (error == "missing")))
        wrong[i, label] = 1 - wrong[i, label]
    return wrong


def reliability(unit: Unit) -> dict[str, Any]:
    """Compare the probability of the predicted label with its accuracy (calibration).

    The model is fitted on all bags and predicts given their label sets. With ``options.folds`` it
    predicts the instances of held-out bags without their label sets; all folds are pooled.
    """
    data = unit.load()
    n_folds, labels = unit.settings["options"].get("folds"), data.instance_labels
    if n_folds is None:
        fitted = _fit(unit, data.bags, data.label_sets)
        posterior = fitted.model.annotate_proba(fitted.scale(data.bags), data.label_sets)
    else:
        posterior = np.empty((data.bags.n_instances, len(data.classes)))
        folds = KFold(n_folds, shuffle=True, random_state=unit.shared_seed)
        for train, test in folds.split(data.label_sets):
            fitted = _fit(unit, data.bags[train], data.label_sets[train])
            found = fitted.model.predict_proba_instances(fitted.scale(data.bags[test]))
            posterior[np.isin(data.bags.bag_index, test)] = found
    known = labels >= 0
    sure = posterior.max(axis=1)[known]
    right = (posterior.argmax(axis=1) == labels)[known]
    bins = np.minimum((sure * N_BINS).astype(int), N_BINS - 1)
    return {
        "calibration_error": float(np.abs(np.bincount(bins, sure - right)).sum() / len(sure)),
        "counts": np.bincount(bins, minlength=N_BINS),
        "confidence": np.bincount(bins, sure, N_BINS),
        "hits": np.bincount(bins, right, N_BINS),
    }


def correct_some(unit: Unit) -> dict[str, Any]:
    """Simulate a reviewer who corrects a share of the training instances, and refit.

    A tenth of the bags is held out. The first model is fitted on label sets. Then the share
    ``options.corrected`` of the instances is reviewed, as in ``bagwise review``: the least certain
    first, given earlier decisions, or (a method whose name ends in "random") random instances of
    bags with several labels. Accuracies after the second fit: ``untouched`` (training instances
    that were not reviewed, given label sets and corrections), ``untouched_before`` (the same
    instances by the first model, as they are easier than the reviewed ones), ``training`` (all
    training instances; the reviewed ones are right) and ``inductive`` (instances of the held-out
    bags, without label sets).
    """
    share = unit.settings["options"]["corrected"]
    same = {key: unit.settings[key] for key in ("data", "model", "scale", "metrics")}
    task = json.dumps(same), unit.experiment, unit.data, unit.repetition
    review = _review(*task)
    n_corrected = round(share * len(review.truth))
    # Not the unit's own seed: larger shares must contain the smaller ones.
    order = np.random.default_rng(review.seed).permutation(review.chosen)
    if not unit.method.endswith("random"):
        order = review.least_certain(n_corrected)
    known = np.full(len(review.truth), -1)
    known[order[:n_corrected]] = review.truth[order[:n_corrected]]
    model = review.first.model
    if n_corrected:
        model = _model(unit, review.bags)
        model.fit(review.bags, review.sets, instance_labels=known)
    untouched = known < 0
    right = model.annotate(review.bags, review.sets, instance_labels=known) == review.truth
    before = review.first.model.annotate(review.bags, review.sets) == review.truth
    return {
        "untouched": float(right[untouched].mean()),
        "untouched_before": float(before[untouched].mean()),
        "training": float(right.mean()),
        "inductive": float(np.mean(model.predict_instances(review.new) == review.new_truth)),
    }


@dataclass(frozen=True)
class _Review:
    """Starting point of a review, common to all shares and both ways to choose instances."""

    first: Fitted
    bags: Bags  # standardised
    sets: NDArray[Any]
    truth: NDArray[np.int64]
    new: Bags
    new_truth: NDArray[np.int64]
    seed: int

    @property
    def chosen(self) -> NDArray[np.intp]:
        """The instances of bags with several labels, in order."""
        return np.sort(ReviewQueue(self.first.model, self.bags, self.sets).chosen)

    def least_certain(self, n: int) -> NDArray[np.intp]:
        """The first n instances of a review in which every decision is right."""
        queue = ReviewQueue(self.first.model, self.bags, self.sets)
        order: list[int] = []
        while len(order) < n and (instance := queue.next()) is not None:
            queue.decide(instance, queue.names[self.truth[instance]])
            order.append(instance)
        return np.array(order, dtype=np.intp)


@lru_cache(maxsize=1)
def _review(settings: str, experiment: str, data_set: str, repetition: int) -> _Review:
    unit = Unit(experiment, data_set, "", repetition, None, None, json.loads(settings))
    data, seed = unit.load(), unit.shared_seed
    train, test = next(KFold(10, shuffle=True, random_state=seed).split(data.label_sets))
    by_bag = data.bags.split(data.instance_labels)
    truth, new_truth = (np.concatenate([by_bag[i] for i in part]) for part in (train, test))
    bags, sets = data.bags[train], data.label_sets[train]
    first = _fit(unit, bags, sets)
    new = first.scale(data.bags[test])
    return _Review(first, first.scale(bags), sets, truth, new, new_truth, seed)


def _annotates(model: Any) -> bool:
    return hasattr(model, "annotate")


def _model(unit: Unit, bags: Bags) -> Any:
    sizes = {"bags": len(bags), "instances": bags.n_instances}
    return with_seed(build_model(unit.settings["model"], sizes), unit.seed)


def _fit(unit: Unit, bags: Bags, label_sets: NDArray[Any]) -> Fitted:
    scaler = InstanceTransformer(StandardScaler() if unit.settings["scale"] else None)
    scaled, model = scaler.fit_transform(bags), _model(unit, bags)
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Some label sets of HJA have more labels than the recording has labelled syllables.
        warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ bags are left out")
        model.fit(scaled, label_sets)
    return Fitted(model, scaler, time.perf_counter() - start)


def _supervised(
    unit: Unit, data: Bunch, train: NDArray[np.intp], test: NDArray[np.intp]
) -> tuple[NDArray[np.bool_], float]:
    """Which labelled test instances a supervised model predicts correctly, and its fit time."""
    in_test = np.isin(data.bags.bag_index, test)
    known = data.instance_labels >= 0
    rows, labels = np.asarray(data.bags.instances, float), data.instance_labels
    scaler = StandardScaler().fit(rows[~in_test])
    model = _model(unit, data.bags[train])
    start = time.perf_counter()
    model.fit(scaler.transform(rows[~in_test & known]), labels[~in_test & known])
    seconds = time.perf_counter() - start
    predicted = model.predict(scaler.transform(rows[in_test & known]))
    return predicted == labels[in_test & known], seconds
