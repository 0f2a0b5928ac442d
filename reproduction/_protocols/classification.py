"""Protocols for bag classifiers: bags with one label each."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from bagwise.bags import Bags
from bagwise.evaluate._evaluation import make_folds
from reproduction._building import find_target
from reproduction._protocols.fitting import fit_model, scores
from reproduction._units import Unit

__all__ = ["cross_validation", "decision_regions", "fit_time", "key_images"]


def cross_validation(unit: Unit) -> dict[str, Any]:
    """Fit on all folds but one, and score the bags of the test fold.

    Folds are stratified and the same for all methods. With ``confusion = true`` the confusion
    matrix is stored.
    """
    data = unit.load()
    folds = make_folds(data.y, n_folds=unit.settings["folds"], seed=unit.shared_seed)
    train, test = folds[unit.fold or 0]
    fitted = fit_model(unit, data.bags[train], data.y[train])
    predicted = fitted.model.predict(fitted.scale(data.bags[test]))
    result = scores(unit, data.y[test], predicted) | {"fit_seconds": fitted.seconds}
    if unit.settings["options"].get("confusion"):
        labels = np.unique(data.y)
        result["confusion"] = confusion_matrix(data.y[test], predicted, labels=labels)
    return result


def fit_time(unit: Unit) -> dict[str, Any]:
    """Measure the time of a fit on all the data."""
    data = unit.load()
    return {"fit_seconds": fit_model(unit, data.bags, data.y).seconds}


def decision_regions(unit: Unit) -> dict[str, Any]:
    """Fit on 2-D bags, score newly drawn ones, and store the predicted label of each grid point.

    Options: ``n_test`` bags to score, ``n_grid`` points along each axis.
    """
    options = unit.settings["options"]
    data = unit.load()
    fitted = fit_model(unit, data.bags, data.y)
    # Another seed: that of the training bags would draw the same points again.
    test = find_target(unit.settings["data"]["source"])(
        **unit.settings["data"]["options"] | {"n_bags": options["n_test"]},
        random_state=unit.seed,
    )
    predicted = fitted.model.predict(fitted.scale(test.bags))
    low, high = data.bags.instances.min(axis=0) - 0.3, data.bags.instances.max(axis=0) + 0.3
    axes = np.linspace(low, high, options["n_grid"])
    points = np.stack(np.meshgrid(axes[:, 0], axes[:, 1]), axis=-1).reshape(-1, 2)
    grid = fitted.model.predict(fitted.scale(Bags(points, np.arange(len(points) + 1))))
    return scores(unit, test.y, predicted) | {
        "fit_seconds": fitted.seconds,
        "extent": [low[0], high[0], low[1], high[1]],
        "grid": grid.reshape(len(axes), -1),
        "points": data.bags.instances.round(3),
        "point_labels": data.instance_labels,
    }


def key_images(unit: Unit) -> dict[str, Any]:
    """Fit on bags of images; store the hyperplanes and the key instances of a few test bags.

    Options: ``test`` (options that load the test data), ``n_shown`` bags, ``image_shape``. The key
    instance is that of the last class, the positive one.
    """
    options = unit.settings["options"]
    data, test = unit.load(), unit.load(**options["test"])
    fitted = fit_model(unit, data.bags, data.y)
    predicted = fitted.model.predict(fitted.scale(test.bags))
    shown = test.bags[: options["n_shown"]]
    n = shown.n_instances
    return scores(unit, test.y, predicted) | {
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
