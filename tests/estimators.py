"""Every public estimator, once, for the common checks."""

import inspect
import pkgutil
from importlib import import_module
from importlib.util import find_spec

from sklearn.base import BaseEstimator

import bagwise

# Estimators that cannot be fitted without an extra, and the package it installs.
NEEDS = {"AttentionMIL": "torch", "MINet": "torch"}


# Parameters with which the common checks take seconds, not minutes.
QUICK = {
    "AttentionMIL": {
        "hidden_size": 16,
        "attention_size": 8,
        "n_models": 2,
        "learning_rate": 0.01,
        "tol": 0.05,
    },
    "AutoBagClassifier": {"candidates": ["nsk", "mind"], "cv": 2},
    "AutoBagRegressor": {"candidates": ["nsk", "mind"], "cv": 2},
}


def quick(cls):
    """An estimator with its defaults, or those of the common checks."""
    return cls(**QUICK.get(cls.__name__, {}))


def public_estimators():
    """Find all public estimator classes by walking the package; those of absent extras apart."""
    found = {}
    for module in pkgutil.walk_packages(bagwise.__path__, "bagwise."):
        if any(part.startswith("_") for part in module.name.split(".")) or ".cli" in module.name:
            continue
        room = import_module(module.name)
        for name in getattr(room, "__all__", []):
            thing = getattr(room, name)
            if inspect.isclass(thing) and issubclass(thing, BaseEstimator):
                found[name] = thing
    absent = {name for name, package in NEEDS.items() if find_spec(package) is None}
    # Without steps, or without a module, these cannot be made: they have tests of their own.
    roots = {"BagEstimator", "RowEstimator", "BagPipeline", "TorchBagClassifier"}
    return [found[name] for name in sorted(found) if name not in roots | absent]
