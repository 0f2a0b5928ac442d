"""Protocols of learning from weak labels: rows with few labels, rows with none, key instances.

Parameters are chosen from ``options.grid``, ``{ method = { parameter = [values] } }``. The entry
``width`` stands for a Gaussian kernel: with k, exp(-|x - z|^2 / (2 k^2 m)) where m is the mean
squared distance between rows; 0 is the linear kernel.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.metrics import adjusted_rand_score, confusion_matrix
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from bagwise.bags import Bags
from bagwise.metrics import roi_hits, roi_success_rate
from bagwise.pairwise import kernel_width
from bagwise.reproduction._building import build_model, with_seed
from bagwise.reproduction._protocols.fitting import fit_model, scores
from bagwise.reproduction._units import Unit

__all__ = ["few_labels", "no_labels", "official_splits", "region_of_interest", "tuned_bags"]

UNKNOWN = -1


def few_labels(unit: Unit) -> dict[str, Any]:
    """Label a few of the training rows, learn from all of them, score the test rows.

    Options: ``labelled``, the share (or number) of training rows with a label; ``test``, the share
    of rows for testing; ``n_rows``, where the data are drawn.
    """
    data, options = unit.load(), unit.settings["options"]
    X, y = _known(data)
    rng = np.random.RandomState(unit.shared_seed)
    train, test = train_test_split(
        np.arange(len(y)), test_size=options.get("test", 0.25), stratify=y, random_state=rng
    )
    labelled = _draw_labels(y[train], options["labelled"], rng)
    X, X_test = _scaled(unit, X[train], X[test])
    partial = np.where(labelled, y[train], UNKNOWN)
    model, chosen, seconds = _chosen(unit, X, partial)
    found = scores(unit, y[test], model.predict(X_test))
    return found | {"fit_seconds": seconds, "chosen": chosen} | _curve(model)


def official_splits(unit: Unit) -> dict[str, Any]:
    """Learn from the labelled rows of an official split, score all others.

    The repetition is the number of the split. Options: ``labelled``, the key of the splits.
    """
    data = unit.load()
    rows = data.labeled[unit.settings["options"]["labelled"]][unit.repetition]
    partial = np.full(len(data.y), UNKNOWN)
    partial[rows] = data.y[rows]
    X, _ = _scaled(unit, data.X, data.X[:1])
    model, chosen, seconds = _chosen(unit, X, partial)
    free = partial == UNKNOWN
    found = scores(unit, data.y[free], model.predict(X[free]))
    return found | {"fit_seconds": seconds, "chosen": chosen} | _curve(model)


def no_labels(unit: Unit) -> dict[str, Any]:
    """Cluster all rows; the best setting counts, as in the paper: an upper bound, not a choice.

    ``cluster_accuracy`` is that of the better way to name two clusters. Options: ``scaling``, ways
    to scale features ("standard", "range" for [0, 1]), tried like the rest of the grid.
    """
    raw, y = _known(unit.load())
    best: dict[str, Any] = {"cluster_accuracy": -1.0}
    tried = (
        (scaling, X, *setting)
        for scaling in unit.settings["options"].get("scaling", ["standard"])
        for X in [_scaled(unit, raw, raw[:1], scaling)[0]]
        for setting in _settings(unit, X)
    )
    for scaling, X, chosen, model in tried:
        start = time.perf_counter()
        labels = _quietly(model.fit, X).labels_
        seconds = time.perf_counter() - start
        table = confusion_matrix(y, labels)
        accuracy = max(np.trace(table), np.trace(table[:, ::-1])) / len(y)
        if accuracy > best["cluster_accuracy"]:
            best = {
                "cluster_accuracy": float(accuracy),
                "adjusted_rand": float(adjusted_rand_score(y, labels)),
                "smaller_share": float(np.bincount(labels, minlength=2).min() / len(y)),
                "majority": float(np.bincount(y).max() / len(y)),
                "fit_seconds": seconds,
                "chosen": chosen | {"scaling": scaling},
            } | _curve(model)
    return best


def tuned_bags(unit: Unit) -> dict[str, Any]:
    """Cross-validate bags, with parameters chosen by five folds inside the training bags."""
    data = unit.load()
    folds = StratifiedKFold(unit.settings["folds"], shuffle=True, random_state=unit.shared_seed)
    train, test = list(folds.split(np.zeros(len(data.y)), data.y))[unit.fold or 0]
    model, scale, chosen, seconds = _chosen_for_bags(unit, data.bags[train], data.y[train])
    predicted = model.predict(scale(data.bags[test]))
    return scores(unit, data.y[test], predicted) | {"fit_seconds": seconds, "chosen": chosen}


def region_of_interest(unit: Unit) -> dict[str, Any]:
    """Learn a concept from a few bags, and find the region that shows it in the others.

    Options: ``concept``, the class against the rest; ``per_class``, training bags of each class.
    """
    data, options = unit.load(), unit.settings["options"]
    rng = np.random.RandomState(unit.shared_seed)
    train = np.concatenate(
        [
            rng.permutation(np.flatnonzero(data.y == c))[: options["per_class"]]
            for c in np.unique(data.y)
        ]
    )
    test = np.setdiff1d(np.arange(len(data.y)), train)
    concept = data.y == options["concept"]
    fitted = fit_model(unit, data.bags[train], concept[train].astype(int))
    bags = fitted.scale(data.bags[test])
    inside = np.isin(data.bags.bag_index, test)
    hits = roi_hits(
        bags,
        fitted.model.key_instances(bags, label=1),
        data.instance_labels[inside] == options["concept"],
    )
    found = roi_success_rate(concept[test], fitted.model.predict(bags) == 1, hits)
    return {"roi_success": float(found), "fit_seconds": fitted.seconds}


def _known(data: Any) -> tuple[Any, NDArray[np.int64]]:
    rows = np.flatnonzero(data.y >= 0)  # one row of echocardiogram has no class
    return data.X[rows], data.y[rows]


def _draw_labels(y: NDArray[Any], amount: float, rng: np.random.RandomState) -> NDArray[np.bool_]:
    """A random choice with at least one row of each class."""
    n = round(amount * len(y)) if amount < 1 else int(amount)
    chosen = np.zeros(len(y), dtype=bool)
    for c in np.unique(y):
        chosen[rng.choice(np.flatnonzero(y == c))] = True
    rest = rng.permutation(np.flatnonzero(~chosen))
    chosen[rest[: max(0, n - int(chosen.sum()))]] = True
    return chosen


def _scaled(unit: Unit, train: Any, test: Any, scaling: str = "standard") -> tuple[Any, Any]:
    """Fill gaps by the mean and scale, by the training rows alone; sparse rows stay."""
    if sparse.issparse(train) or not unit.settings["scale"]:
        return train, test
    scaler = StandardScaler() if scaling == "standard" else MinMaxScaler()
    steps = make_pipeline(SimpleImputer(), scaler)
    return steps.fit_transform(train), steps.transform(test)


def _settings(unit: Unit, X: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """All models of the grid of this method."""
    grid: Mapping[str, Any] = unit.settings["options"].get("grid", {}).get(unit.method, {})
    scale = kernel_width("scale", Bags(X, np.arange(X.shape[0] + 1)))
    for values in itertools.product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        options = {name: value for name, value in chosen.items() if name != "width"}
        if chosen.get("width", 0):
            # Of all pairs of rows, the mean squared distance is twice the total variance.
            options |= {"kernel": "rbf", "gamma": scale / (4 * chosen["width"] ** 2)}
        model = with_seed(build_model(unit.settings["model"], {}), unit.seed)
        yield chosen, model.set_params(**options)


def _chosen(unit: Unit, X: Any, y: NDArray[Any]) -> tuple[Any, dict[str, Any], float]:
    """Choose by the accuracy on labelled rows whose label was hidden; the first of equals wins."""
    known = np.flatnonzero(y != UNKNOWN)
    n_folds = min(5, len(known))
    rare = np.unique(y[known], return_counts=True)[1].min()
    kind = StratifiedKFold if rare >= n_folds else KFold
    folds = kind(n_folds, shuffle=True, random_state=unit.shared_seed % 2**31)
    settings = list(_settings(unit, X))
    best, model, chosen = -1.0, settings[0][1], settings[0][0]
    for options, candidate in settings if len(settings) > 1 else ():
        right = []
        for _, hidden in folds.split(known, y[known]):
            partial = y.copy()
            partial[known[hidden]] = UNKNOWN
            if len(np.unique(partial[partial != UNKNOWN])) < 2:
                continue
            predicted = _fit_rows(clone(candidate), X, partial).predict(X[known[hidden]])
            right += list(predicted == y[known[hidden]])
        if np.mean(right) > best:
            best, model, chosen = float(np.mean(right)), candidate, options
    start = time.perf_counter()
    return _fit_rows(model, X, y), chosen, time.perf_counter() - start


def _fit_rows(model: Any, X: Any, y: NDArray[Any]) -> Any:
    """Fit; a supervised model sees the labelled rows only."""
    if ".semi_supervised." not in type(model).__module__:
        X, y = X[y != UNKNOWN], y[y != UNKNOWN]
    return _quietly(model.fit, X, y)


def _chosen_for_bags(
    unit: Unit, bags: Bags, y: NDArray[Any]
) -> tuple[Any, Any, dict[str, Any], float]:
    scaler = StandardScaler().fit(bags.instances)

    def scale(these: Bags) -> Bags:
        return these.with_instances(scaler.transform(these.instances))

    scaled, best = scale(bags), -1.0
    settings = list(_settings(unit, scaled.instances))
    model, chosen = settings[0][1], settings[0][0]
    folds = StratifiedKFold(5, shuffle=True, random_state=unit.shared_seed % 2**31)
    for options, candidate in settings if len(settings) > 1 else ():
        right: list[bool] = []
        for train, test in folds.split(y, y):
            fitted = _quietly(clone(candidate).fit, scaled[train], y[train])
            right += list(fitted.predict(scaled[test]) == y[test])
        if np.mean(right) > best:
            best, model, chosen = float(np.mean(right)), candidate, options
    start = time.perf_counter()
    return _quietly(model.fit, scaled, y), scale, chosen, time.perf_counter() - start


def _curve(model: Any) -> dict[str, Any]:
    return {"curve": model.objective_curve_} if hasattr(model, "objective_curve_") else {}


def _quietly(function: Any, *arguments: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return function(*arguments)
