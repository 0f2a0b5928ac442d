"""Protocols for weak labels: rows with few labels, rows without labels, key instances.

Parameters are chosen from ``options.grid``, ``{ method = { parameter = [values] } }``, or a list of
such tables; ``"method:data"`` takes precedence over ``method``. The entry ``width``, k, selects the
Gaussian kernel exp(-|x - z|^2 / (2 k^2 m)), where m is the mean squared distance between rows; 0
selects the linear kernel. ``spread``, k, is the width as the WellSVM paper prints it, with the mean
distance, not squared, in place of m. The entry ``weight`` is the total weight of the unlabelled
rows relative to the labelled ones: C2 = weight C1 n_l / n_u, where C1 is 1 / (mean squared length
of the rows in the space of the kernel).
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.metrics import adjusted_rand_score, confusion_matrix
from sklearn.metrics.pairwise import pairwise_distances, rbf_kernel
from sklearn.model_selection import (
    KFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.extmath import row_norms

from bagwise.bags import Bags
from bagwise.pairwise import kernel_width
from bagwise.published import wellsvm
from bagwise.semi_supervised import WellSVMClassifier
from reproduction._building import build_model, with_seed
from reproduction._protocols.fitting import scores
from reproduction._units import Unit
from reproduction.rivals import PublishedWellSVM
from reproduction.rivals._partly_labelled import PartlyLabelledClassifier

__all__ = ["few_labels", "no_labels", "official_splits", "region_of_interest", "tuned_bags"]

UNKNOWN = -1
WELL_SVMS = (
    WellSVMClassifier,
    PublishedWellSVM,
    type(wellsvm()),
)  # not an OffsetFreeSVM, which is supervised
FEW = 50  # rows of the untimed fit that compiles


def few_labels(unit: Unit) -> dict[str, Any]:
    """Label a few of the training rows, learn from all of them, score the test rows.

    Options: ``labelled``, the share (or number) of training rows with a label; ``test``, the share
    of rows for testing.
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
    """Learn from the labelled rows of an official split, features unscaled; score all others.

    The repetition is the number of the split. Options: ``labelled``, the key of the splits;
    ``choice``, "accuracy" or "margin" (see `_chosen`); ``prior``, the number of pseudo-labels,
    spread evenly over the classes, in the balance of WellSVM; ``true_shares``, whether models with
    `positive_share` or `balance` are given the true shares of the classes.
    """
    data = unit.load()
    rows = data.labeled[unit.settings["options"]["labelled"]][unit.repetition]
    partial = np.full(len(data.y), UNKNOWN)
    partial[rows] = data.y[rows]
    X = data.X.astype(np.float64)  # as the benchmark gives them, as in its own tables
    free = partial == UNKNOWN
    shares = np.unique(data.y[free], return_counts=True)[1] / np.sum(free)
    known = shares if unit.settings["options"].get("true_shares") else None
    model, chosen, seconds = _chosen(unit, X, partial, known)
    found = scores(unit, data.y[free], model.predict(X[free]))
    return found | {"fit_seconds": seconds, "chosen": chosen} | _curve(model)


def no_labels(unit: Unit) -> dict[str, Any]:
    """Cluster all rows, and report the most accurate setting, as in the paper: an upper bound.

    ``cluster_accuracy`` uses the better of the two matchings of clusters to classes. Options:
    ``scaling``, scalings of the features ("standard", "range" for [0, 1]), part of the grid.
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
        _compile(model, X[:FEW])
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
    """Cross-validate bags, with parameters chosen by five folds inside the training bags.

    Options: ``scaling`` of the features, "standard" or "range" for [0, 1]; ``inner``, the number of
    repetitions of the inner folds for each data set (1 by default).
    """
    data = unit.load()
    folds = StratifiedKFold(unit.settings["folds"], shuffle=True, random_state=unit.shared_seed)
    train, test = list(folds.split(np.zeros(len(data.y)), data.y))[unit.fold or 0]
    model, scale, chosen, seconds = _chosen_for_bags(unit, data.bags[train], data.y[train])
    predicted = model.predict(scale(data.bags[test]))
    return scores(unit, data.y[test], predicted) | {"fit_seconds": seconds, "chosen": chosen}


def region_of_interest(unit: Unit) -> dict[str, Any]:
    """Learn a concept from a few bags, and find the region that shows it in the others.

    Options: ``concept``, the class against the rest; ``per_class``, training bags of each class;
    and the options of `tuned_bags`.
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
    model, scale, chosen, seconds = _chosen_for_bags(unit, data.bags[train], concept[train] * 1)
    bags = scale(data.bags[test])
    inside = np.isin(data.bags.bag_index, test)
    regions = data.instance_labels[inside] == options["concept"]
    hits = regions[bags.offsets[:-1] + model.key_instances(bags, label=1)]
    found = roi_success_rate(concept[test], model.predict(bags) == 1, hits)
    return {"roi_success": found, "fit_seconds": seconds, "chosen": chosen}


def roi_success_rate(
    relevant: NDArray[np.bool_], predicted: NDArray[np.bool_], hits: NDArray[np.bool_]
) -> float:
    """Harmonic mean of the success rates of relevant and of predicted bags (Eqs. 33 and 34).

    A success is a relevant bag, predicted relevant, whose key instance is a true region (`hits`).
    """
    possible = relevant.sum() + predicted.sum()
    return float(2 * (relevant & predicted & hits).sum() / possible) if possible else 0.0


def _known(data: Any) -> tuple[Any, NDArray[np.int64]]:
    rows = np.flatnonzero(data.y >= 0)  # one row of echocardiogram has no class
    return data.X[rows], data.y[rows]


def _draw_labels(y: NDArray[Any], amount: float, rng: np.random.RandomState) -> NDArray[np.bool_]:
    """Choose labelled rows at random, at least one of each class."""
    n = round(amount * len(y)) if amount < 1 else int(amount)
    chosen = np.zeros(len(y), dtype=bool)
    for c in np.unique(y):
        chosen[rng.choice(np.flatnonzero(y == c))] = True
    rest = rng.permutation(np.flatnonzero(~chosen))
    chosen[rest[: max(0, n - int(chosen.sum()))]] = True
    return chosen


def _scaled(unit: Unit, train: Any, test: Any, scaling: str = "standard") -> tuple[Any, Any]:
    """Impute means and scale, both fitted on the training rows; sparse rows are unchanged."""
    if sparse.issparse(train) or not unit.settings["scale"]:
        return train, test
    steps = make_pipeline(SimpleImputer(), _scaler(scaling))
    return steps.fit_transform(train), steps.transform(test)


def _scaler(scaling: str) -> StandardScaler | MinMaxScaler:
    return StandardScaler() if scaling == "standard" else MinMaxScaler()


def _settings(unit: Unit, X: Any, labelled: float = 1.0) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the models of this method's grid; `labelled` is the share of labelled rows."""
    grids = unit.settings["options"].get("grid", {})
    grid = grids.get(f"{unit.method}:{unit.data}", grids.get(unit.method, {}))
    scale, distance = kernel_width("scale", Bags(X, np.arange(X.shape[0] + 1))), 0.0
    for chosen in _combinations(grid if isinstance(grid, list) else [grid]):
        options = {k: v for k, v in chosen.items() if k not in ("width", "spread", "weight")}
        if chosen.get("width", 0):
            # The mean squared distance between rows is twice the total variance.
            options |= {"kernel": "rbf", "gamma": scale / (4 * chosen["width"] ** 2)}
        if chosen.get("spread", 0):
            distance = distance or _mean_distance(X)
            options |= {"kernel": "rbf", "gamma": 1 / (2 * chosen["spread"] ** 2 * distance)}
        if "weight" in chosen:
            C1 = 1 / _mean_square(X, options.get("gamma"), options["center"])
            options |= {"C1": C1, "C2": chosen["weight"] * C1 * labelled / (1 - labelled)}
        model = with_seed(build_model(unit.settings["model"], {}), unit.seed)
        if "kernel" not in model.get_params():  # spectral clustering has `affinity` instead
            options.pop("kernel", None)
        yield chosen, model.set_params(**options)


def _mean_distance(X: Any) -> float:
    """Mean distance between two rows; of at most 2,000 rows."""
    rows = X[np.linspace(0, X.shape[0] - 1, min(X.shape[0], 2000)).astype(int)]
    return float(pairwise_distances(rows).sum() / (rows.shape[0] * (rows.shape[0] - 1)))


def _combinations(tables: list[dict[str, list[Any]]]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the values of each table, in order."""
    for table in tables:
        for values in itertools.product(*table.values()):
            yield dict(zip(table, values, strict=True))


def _mean_square(X: Any, gamma: float | None, center: bool) -> float:
    """Mean squared length of the rows, in the space of the linear or Gaussian kernel."""
    if gamma is not None:
        return 1 - float(rbf_kernel(X, gamma=gamma).mean()) if center else 1.0
    middle = np.asarray(X.mean(axis=0)).ravel()
    return float(row_norms(X, squared=True).mean()) - center * float(middle @ middle)


def _chosen(
    unit: Unit, X: Any, y: NDArray[Any], shares: NDArray[np.float64] | None = None
) -> tuple[Any, dict[str, Any], float]:
    """Choose a setting by cross-validation on the labelled rows and fit it; the first tie wins.

    The option ``choice`` is the criterion: "accuracy" in five folds, as in the paper; or "margin",
    the leave-one-out hinge loss (five folds from 20 labels on), which is more precise than accuracy
    with a dozen labels. "margin" uses the one-standard-error rule: of the settings within one
    standard error of the best, choose the one with the smallest ``weight`` of unlabelled rows.
    """
    known = np.flatnonzero(y != UNKNOWN)
    settings = list(_settings(unit, X, len(known) / len(y)))
    if "prior" in unit.settings["options"] and "balance" in settings[0][1].get_params():
        for _, model in settings:
            model.set_params(balance=_balance(y[known], unit.settings["options"]["prior"]))
    if shares is not None:
        known_as = {"positive_share", "balance"} & set(settings[0][1].get_params())
        for _, model in settings:
            model.set_params(**dict.fromkeys(known_as, shares))
    at = 0
    if len(settings) > 1:
        margin = unit.settings["options"].get("choice", "accuracy") == "margin"
        folds = _folds(y[known], leave_one=margin, seed=unit.shared_seed % 2**31)
        grams: dict[float, NDArray[np.float64]] = {}
        losses = [
            _hidden_losses(*_written_out(model, X, grams), y, known, folds, margin)
            for _, model in settings
        ]
        means = np.array([np.mean(loss) for loss in losses])
        at = int(np.argmin(means))
        if margin:
            error = np.std(losses[at]) / np.sqrt(len(losses[at]))
            weights = [chosen.get("weight", 0.0) for chosen, _ in settings]
            close = np.flatnonzero(means <= means[at] + error)
            at = int(min(close, key=lambda i: (weights[i], means[i])))
    few = np.union1d(known, np.arange(min(FEW, len(y))))
    _compile(settings[at][1], X[few], y[few])
    start = time.perf_counter()
    model = _fit_rows(settings[at][1], X, y)
    return model, settings[at][0], time.perf_counter() - start


def _balance(y: NDArray[Any], prior: float) -> NDArray[np.float64]:
    """Class shares of the labelled rows and `prior` pseudo-labels, spread over the classes."""
    counts = np.unique(y, return_counts=True)[1] + prior / len(np.unique(y))
    return counts / counts.sum()


def _folds(y: NDArray[Any], leave_one: bool, seed: int) -> list[NDArray[np.intp]]:
    """Groups of labelled rows whose labels are hidden together."""
    if leave_one and len(y) < 20:
        return list(np.arange(len(y))[:, None])
    n_folds = min(5, len(y))
    rare = np.unique(y, return_counts=True)[1].min()
    kind = StratifiedKFold if rare >= n_folds else KFold
    return [hidden for _, hidden in kind(n_folds, shuffle=True, random_state=seed).split(y, y)]


def _written_out(
    model: Any, X: Any, grams: dict[float, NDArray[np.float64]]
) -> tuple[Any, NDArray[np.float64]]:
    """A model and its input; a Gaussian kernel matrix is computed once for all fits."""
    if type(model) not in WELL_SVMS or model.kernel != "rbf":
        return model, X
    if model.gamma not in grams:
        grams[model.gamma] = rbf_kernel(X, gamma=model.gamma)
    return clone(model).set_params(kernel="precomputed"), grams[model.gamma]


def _hidden_losses(
    model: Any,
    X: Any,
    y: NDArray[Any],
    known: NDArray[np.intp],
    folds: list[NDArray[np.intp]],
    margin: bool,
) -> list[float]:
    """Errors or hinge losses on labelled rows whose label was hidden."""
    losses: list[float] = []
    for hidden in folds:
        rows, partial = known[hidden], y.copy()
        partial[rows] = UNKNOWN
        classes = np.unique(partial[partial != UNKNOWN])
        rows = rows[np.isin(y[rows], classes)] if margin else rows  # a hidden class has no score
        if len(classes) < 2 or len(rows) == 0:
            continue
        fitted = _fit_rows(
            _without(clone(model), np.isin(np.unique(y[known]), classes)), X, partial
        )
        if margin:
            margins = _margins(fitted.decision_function(X[rows]), np.searchsorted(classes, y[rows]))
            losses += list(np.maximum(0, 1 - margins))
        else:
            losses += list(fitted.predict(X[rows]) != y[rows])
    return losses


def _without(model: Any, kept: NDArray[np.bool_]) -> Any:
    """Restrict the balance of a model, if it has one, to the remaining classes."""
    shares = getattr(model, "balance", None)
    return model if shares is None else model.set_params(balance=shares[kept] / shares[kept].sum())


def _margins(scores: NDArray[Any], codes: NDArray[np.intp]) -> NDArray[Any]:
    """Signed scores of two classes; else half the gap from the true to the best other class."""
    if scores.ndim == 1:
        return np.where(codes == 1, scores, -scores)
    true = np.take_along_axis(scores, codes[:, None], axis=1)[:, 0]
    others = np.where(np.arange(scores.shape[1]) == codes[:, None], -np.inf, scores)
    return (true - others.max(axis=1)) / 2


def _fit_rows(model: Any, X: Any, y: NDArray[Any]) -> Any:
    """Fit a model; a supervised one sees only the labelled rows."""
    learns = isinstance(model, PartlyLabelledClassifier) or type(model) in WELL_SVMS
    if not learns:
        X, y = X[y != UNKNOWN], y[y != UNKNOWN]
    return _quietly(model.fit, X, y)


def _chosen_for_bags(
    unit: Unit, bags: Bags, y: NDArray[Any]
) -> tuple[Any, Any, dict[str, Any], float]:
    scaler = _scaler(unit.settings["options"].get("scaling", "standard")).fit(bags.instances)

    def scale(these: Bags) -> Bags:
        return these.with_instances(scaler.transform(these.instances))

    scaled, best = scale(bags), -1.0
    settings = list(_settings(unit, scaled.instances))
    model, chosen = settings[0][1], settings[0][0]
    folds = RepeatedStratifiedKFold(
        n_splits=5,
        n_repeats=unit.settings["options"].get("inner", {}).get(unit.data, 1),
        random_state=unit.shared_seed % 2**31,
    )
    for options, candidate in settings if len(settings) > 1 else ():
        right: list[bool] = []
        for train, test in folds.split(y, y):
            fitted = _quietly(clone(candidate).fit, scaled[train], y[train])
            right += list(fitted.predict(scaled[test]) == y[test])
        if np.mean(right) > best:
            best, model, chosen = float(np.mean(right)), candidate, options
    start = time.perf_counter()
    return _quietly(model.fit, scaled, y), scale, chosen, time.perf_counter() - start


def _compile(model: Any, *few: Any) -> None:
    """Compile before the timed fit; scikit-learn's models need no compilation."""
    if type(model).__module__.startswith(("bagwise.", "reproduction.rivals.")):
        _quietly(clone(model).fit, *few)


def _curve(model: Any) -> dict[str, Any]:
    if not hasattr(model, "objective_curve_"):
        return {}
    return {"curve": model.objective_curve_, "label_vectors": len(model.objective_curve_)}


def _quietly(function: Any, *arguments: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return function(*arguments)
