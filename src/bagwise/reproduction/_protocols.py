"""How a unit of work is measured. A protocol is a function of a unit that returns plain values."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from bagwise.bags import Bags
from bagwise.datasets import make_bags
from bagwise.preprocessing import InstanceTransformer
from bagwise.reproduction._building import build_model, find_target, training_sizes
from bagwise.reproduction._units import Unit

__all__ = ["PROTOCOLS"]


def cross_validation(unit: Unit) -> dict[str, Any]:
    """Fit on all folds but one, and score the bags of that one.

    Folds are stratified; all methods see the same. With ``confusion = true`` the confusion matrix
    is kept.
    """
    data = unit.load()
    folds = StratifiedKFold(unit.settings["folds"], shuffle=True, random_state=unit.shared_seed)
    train, test = list(folds.split(np.zeros(len(data.y)), data.y))[unit.fold or 0]
    fitted = _fit(unit, data.bags[train], data.y[train])
    predicted = fitted.model.predict(fitted.scale(data.bags[test]))
    result = _scores(unit, data.y[test], predicted) | {"fit_seconds": fitted.seconds}
    if unit.settings["options"].get("confusion"):
        labels = np.unique(data.y)
        result["confusion"] = confusion_matrix(data.y[test], predicted, labels=labels)
    return result


def fit_time(unit: Unit) -> dict[str, Any]:
    """Fit on all the data, and take the time."""
    data = unit.load()
    return {"fit_seconds": _fit(unit, data.bags, data.y).seconds}


def decision_regions(unit: Unit) -> dict[str, Any]:
    """Fit bags in the plane, score newly drawn ones, and keep the label of each point of a grid.

    Options: ``n_test`` bags to score, ``n_grid`` points along each axis.
    """
    options = unit.settings["options"]
    data = unit.load()
    fitted = _fit(unit, data.bags, data.y)
    # A stream of its own: with the seed of the training bags, the same points would come again.
    test = find_target(unit.settings["data"]["source"])(
        **unit.settings["data"]["options"] | {"n_bags": options["n_test"]},
        random_state=unit.seed,
    )
    predicted = fitted.model.predict(fitted.scale(test.bags))
    low, high = data.bags.instances.min(axis=0) - 0.3, data.bags.instances.max(axis=0) + 0.3
    axes = np.linspace(low, high, options["n_grid"])
    points = np.stack(np.meshgrid(axes[:, 0], axes[:, 1]), axis=-1).reshape(-1, 2)
    grid = fitted.model.predict(fitted.scale(Bags(points, np.arange(len(points) + 1))))
    return _scores(unit, test.y, predicted) | {
        "fit_seconds": fitted.seconds,
        "extent": [low[0], high[0], low[1], high[1]],
        "grid": grid.reshape(len(axes), -1),
        "points": data.bags.instances.round(3),
        "point_labels": data.instance_labels,
    }


def key_images(unit: Unit) -> dict[str, Any]:
    """Fit bags of images; keep the hyperplanes, and the key instance of a few test bags.

    Options: ``test`` (what the data are loaded with for testing), ``n_shown`` bags,
    ``image_shape``. The key instance is that of the last class, the positive one.
    """
    options = unit.settings["options"]
    data, test = unit.load(), unit.load(**options["test"])
    fitted = _fit(unit, data.bags, data.y)
    predicted = fitted.model.predict(fitted.scale(test.bags))
    shown = test.bags[: options["n_shown"]]
    n = shown.n_instances
    return _scores(unit, test.y, predicted) | {
        "fit_seconds": fitted.seconds,
        "classes": [str(name) for name in data.classes],
        "hyperplanes": fitted.model.coef_.round(5),
        "truth": test.y[: len(shown)],
        "predicted": predicted[: len(shown)],
        "key_instances": fitted.model.key_instances(fitted.scale(shown), label=data.y.max()),
        "offsets": shown.offsets,
        "images": shown.instances.astype(np.int64),
        "digits": test.digits[:n],
    }


PROTOCOLS: Mapping[str, Callable[[Unit], dict[str, Any]]] = {
    protocol.__name__: protocol
    for protocol in (cross_validation, fit_time, decision_regions, key_images)
}


class _Fitted:
    """A model fitted on standardised instances, and the time that took."""

    def __init__(self, model: Any, scaler: InstanceTransformer, seconds: float) -> None:
        self.model = model
        self.scaler = scaler
        self.seconds = seconds

    def scale(self, bags: Bags) -> Bags:
        return self.scaler.transform(bags)


def _fit(unit: Unit, bags: Bags, y: NDArray[Any]) -> _Fitted:
    """Standardise on the training bags and fit; only the fit of the model is timed."""
    scaler = InstanceTransformer(StandardScaler() if unit.settings["scale"] else None)
    scaled = scaler.fit_transform(bags)
    model = unit.model(bags, y)
    _warm_up(json.dumps(unit.settings["model"]))
    start = time.perf_counter()
    model.fit(scaled, y)
    return _Fitted(model, scaler, time.perf_counter() - start)


@cache
def _warm_up(model: str) -> None:
    """Fit a model on a dozen bags, so that compilation is not timed."""
    data = make_bags(n_bags=12, n_features=4, random_state=0)
    sizes = training_sizes(data.bags, data.y)
    with warnings.catch_warnings(), suppress(Exception):  # what is wrong shows in the true fit
        warnings.simplefilter("ignore")
        build_model(json.loads(model), sizes).fit(data.bags, data.y)


def _scores(unit: Unit, truth: NDArray[Any], predicted: NDArray[Any]) -> dict[str, float]:
    return {
        name: float(find_target(function)(truth, predicted))
        for name, function in unit.settings["metrics"].items()
        if function is not None
    }
