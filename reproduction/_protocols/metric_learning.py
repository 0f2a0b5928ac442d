"""Protocols for metric learners: bags with label sets, and instances to be labelled."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.base import clone
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.utils import Bunch

from bagwise.bags import Bags
from reproduction._protocols.fitting import Fitted, fit_model, scores
from reproduction._units import Unit

__all__ = ["bag_annotation", "face_naming", "instance_assignment", "instance_naming"]

MLCA = "bagwise.metric_learning:MLCA"  # learns from named faces in every scenario


def bag_annotation(unit: Unit) -> dict[str, Any]:
    """Fit on bags with label sets, and rank the labels of test bags, or predict their sets.

    The test bags are a fold, or the bags that the data set marks as ``is_test``.
    """
    data = unit.load()
    train, test = _split(unit, data)
    fitted = _fit(unit, data.bags[train], data.label_sets[train])
    bags = fitted.scale(data.bags[test])
    rank, truth = getattr(fitted.model, "predict_proba", None), data.label_sets[test]
    found = scores(unit, truth, (rank or fitted.model.decision_function)(bags))
    if "micro_f1" in unit.settings["metrics"]:
        predicted = fitted.model.predict(bags)
        found["micro_f1"] = float(f1_score(truth, predicted, average="micro"))
        # Labels that are neither true nor predicted for any test bag do not count.
        found["macro_f1"] = float(f1_score(truth, predicted, average="macro", zero_division=np.nan))
    return found | {"fit_seconds": fitted.seconds}


def instance_assignment(unit: Unit) -> dict[str, Any]:
    """Fit on all bags; measure the share of assigned training instances with the right label.

    ``truth_over_found`` is the objective of the best error-free assignment over that of the model:
    above 1, the errors are not due to the search.
    """
    data = unit.load()
    fitted = _fit(unit, data.bags, data.label_sets)
    assigned = fitted.model.assignments_
    inside = assigned >= 0
    return {
        "assignment_accuracy": _share_right(data, assigned),
        "assigned_share": float(inside.mean()),
        "truth_over_found": _objective_of_truth(data, fitted) / fitted.model.objective_curve_[-1],
        "fit_seconds": fitted.seconds,
    }


def instance_naming(unit: Unit) -> dict[str, Any]:
    """Fit on all bags, and label their instances given the label sets.

    ``assignment_accuracy`` is the share of assigned instances with the right label. Models without
    `assignments_` label the instances with ``annotate``.
    """
    data = unit.load()
    fitted = _fit(unit, data.bags, data.label_sets)
    assigned = getattr(fitted.model, "assignments_", None)
    if assigned is None:
        assigned = fitted.model.annotate(fitted.scale(data.bags), data.label_sets)
    inside = assigned >= 0
    return {
        "assignment_accuracy": _share_right(data, assigned),
        "assigned_share": float(inside.mean()),
        "fit_seconds": fitted.seconds,
    }


def _objective_of_truth(data: Bunch, fitted: Fitted) -> float:
    """The objective of the same model if only true labels are candidates.

    The instances of a bag that have the same label become a bag of their own.
    """
    n_labels = data.label_sets.shape[1]
    kind = data.bags.bag_index * (n_labels + 1) + data.instance_labels + 1
    bags = Bags.from_groups(data.bags.instances, kind, feature_names=data.bags.feature_names)
    label = np.asarray(bags.ids) % (n_labels + 1) - 1  # -1: an instance of no label
    label_sets = np.equal.outer(label, np.arange(n_labels)).astype(np.int8)
    return float(clone(fitted.model).fit(fitted.scale(bags), label_sets).objective_curve_[-1])


def face_naming(unit: Unit) -> dict[str, Any]:
    """Fit on photos, and name the faces of test photos; categories need five test faces.

    Options: ``rule``. "centroid": the nearest centroid; if the model has none, the centroids of the
    true faces of each name, as in the paper. "instance": the name of the nearest training face in
    the learned metric. "projection": Eq. 16, for each of ``alphas``; metrics are then called
    ``accuracy-0.5`` and so on. "bag": a face is a bag of its own, for models without centroids.
    """
    data, rule = unit.load(), unit.settings["options"]["rule"]
    train, test = _split(unit, data)
    names = data.bags.split(data.instance_labels)
    known = np.concatenate([names[i] for i in train])
    truth = np.concatenate([names[i] for i in test])
    training, label_sets = data.bags[train], data.label_sets[train]
    if data.scenario == "a" or unit.settings["model"]["class"] == MLCA:
        named = known >= 0
        rows = training.instances[named]
        alone = Bags(rows, np.arange(len(rows) + 1), feature_names=training.feature_names)
        fitted = fit_model(unit, alone, known[named])
    else:
        fitted = _fit(unit, training, label_sets)
    faces = fitted.scale(data.bags[test])
    result: dict[str, Any] = {"fit_seconds": fitted.seconds}
    if rule == "projection":
        for alpha in unit.settings["options"]["alphas"]:
            predicted = fitted.model.predict_instances(faces, "projection", alpha)
            result |= _naming_scores(truth, predicted, f"-{alpha:g}")
        return result
    return result | _naming_scores(truth, _names(fitted, rule, training, known, faces))


def _names(
    fitted: Fitted, rule: str, training: Bags, known: NDArray[Any], faces: Bags
) -> NDArray[Any]:
    model = fitted.model
    if rule != "instance" and hasattr(model, "predict_instances"):
        return model.predict_instances(faces)
    if rule == "bag":
        offsets = np.arange(faces.n_instances + 1)
        alone = Bags(faces.instances, offsets, feature_names=faces.feature_names)
        rank = getattr(model, "decision_function", None) or model.predict_proba
        return rank(alone).argmax(axis=1)
    mapped = _mapped(model, fitted.scale(training))
    named = known >= 0
    judge = NearestCentroid() if rule == "centroid" else KNeighborsClassifier(1)
    judge.fit(mapped[named], known[named])
    return judge.predict(_mapped(model, faces))


def _mapped(model: Any, bags: Bags) -> NDArray[Any]:
    """Map instances to few dimensions, where the Euclidean distance is the learned metric."""
    components = getattr(model, "components_", None)
    if components is None or hasattr(model, "kernel_map_"):
        return model.transform(bags).instances
    factor = linalg.qr(components, mode="r")[0][: components.shape[1]]
    return bags.instances @ factor.T  # |Rx| = |QRx|


def _share_right(data: Bunch, assigned: NDArray[Any]) -> float:
    """Accuracy on the assigned instances whose label is known."""
    inside = (assigned >= 0) & (data.instance_labels >= 0)
    return float(accuracy_score(data.instance_labels[inside], assigned[inside]))


def _naming_scores(truth: NDArray[Any], predicted: NDArray[Any], end: str = "") -> dict[str, float]:
    """Scores of faces of people with at least five test faces (Law et al., Section 4.1).

    The "accuracy" is the mean over the people, the "precision" that over the faces.
    """
    known = truth >= 0
    _, person, n_faces = np.unique(truth[known], return_inverse=True, return_counts=True)
    n_right = np.bincount(person, predicted[known] == truth[known])
    frequent = n_faces >= 5
    return {
        f"accuracy{end}": float(np.mean(n_right[frequent] / n_faces[frequent])),
        f"precision{end}": float(n_right[frequent].sum() / n_faces[frequent].sum()),
    }


def _split(unit: Unit, data: Bunch) -> tuple[NDArray[Any], NDArray[Any]]:
    if "is_test" in data:
        return np.flatnonzero(~data.is_test.astype(bool)), np.flatnonzero(data.is_test)
    folds = KFold(unit.settings["folds"], shuffle=True, random_state=unit.shared_seed % 2**32)
    return list(folds.split(np.arange(len(data.bags))))[unit.fold or 0]


def _fit(unit: Unit, bags: Bags, label_sets: NDArray[Any]) -> Fitted:
    with warnings.catch_warnings():
        # One-vs-rest warns about every label that is in no training bag.
        warnings.filterwarnings("ignore", message="Label not .* is present in all")
        return fit_model(unit, bags, label_sets)
