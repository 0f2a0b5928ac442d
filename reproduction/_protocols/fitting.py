"""Shared by the protocols: timed fits on standardised instances, and scores."""

from __future__ import annotations

import json
import time
import warnings
from contextlib import suppress
from functools import cache
from typing import Any

from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from bagwise.bags import Bags
from bagwise.datasets import make_bags
from bagwise.preprocessing import InstanceTransformer
from reproduction._building import build_model, find_target, training_sizes
from reproduction._units import Unit

__all__ = ["Fitted", "fit_model", "scores"]


class Fitted:
    """A model fitted on standardised instances, and its fit time."""

    def __init__(self, model: Any, scaler: InstanceTransformer, seconds: float) -> None:
        self.model = model
        self.scaler = scaler
        self.seconds = seconds

    def scale(self, bags: Bags) -> Bags:
        return self.scaler.transform(bags)


def fit_model(unit: Unit, bags: Bags, y: NDArray[Any]) -> Fitted:
    """Standardise on the training bags and fit; only the fit of the model is timed."""
    standard = StandardScaler(with_mean=not sparse.issparse(bags.instances))
    scaler = InstanceTransformer(standard if unit.settings["scale"] else None)
    scaled = scaler.fit_transform(bags)
    model = unit.model(bags, y)
    _warm_up(json.dumps(unit.settings["model"]))
    start = time.perf_counter()
    model.fit(scaled, y)
    return Fitted(model, scaler, time.perf_counter() - start)


@cache
def _warm_up(model: str) -> None:
    """Fit a model on a dozen bags, so that compilation is not timed."""
    data = make_bags(n_bags=12, n_features=4, random_state=0)
    sizes = training_sizes(data.bags, data.y)
    with warnings.catch_warnings(), suppress(Exception):  # errors show in the real fit
        warnings.simplefilter("ignore")
        build_model(json.loads(model), sizes).fit(data.bags, data.y)


def scores(unit: Unit, truth: NDArray[Any], predicted: NDArray[Any]) -> dict[str, float]:
    """Measure predictions by the metrics of the experiment."""
    return {
        name: float(find_target(function)(truth, predicted))
        for name, function in unit.settings["metrics"].items()
        if function is not None
    }
