"""All public estimators, for the common checks."""

import inspect
import pkgutil
from importlib import import_module
from importlib.util import find_spec

from sklearn.base import BaseEstimator

import bagwise
from survival_data import AutoBagSurvivalOfNumbers, SetKernelCoxOfNumbers

# Estimators that need an extra to be fitted, and the package of the extra.
NEEDS = {"AttentionMIL": "torch", "MINet": "torch"}


# Parameters with which the common checks take seconds, not minutes.
QUICK = {
    "AttentionMIL": {
        "hidden_size": 16,
        "n_models": 2,
        "learning_rate": 0.01,
        "max_epochs": 20,
        "validation_fraction": None,
    },
    "AutoBagClassifier": {"candidates": ["nsk", "mind"], "cv": 2},
    "AutoBagRegressor": {"candidates": ["nsk", "mind"], "cv": 2},
    "AutoBagSurvival": {"candidates": ["nsk", "nsk-max"], "cv": 2},
    "ConceptCountsClassifier": {"n_landmarks": 20, "n_folds": 2, "C": 30.0},
    "OrdinalBagClassifier": {"ordered_classes": "sorted"},
}


# Survival models learn from times, the checks give labels and numbers.
OF_NUMBERS = {
    "AutoBagSurvival": AutoBagSurvivalOfNumbers,
    "SetKernelCox": SetKernelCoxOfNumbers,
}


def quick(cls):
    """An estimator with its defaults, or with the parameters of the common checks."""
    return OF_NUMBERS.get(cls.__name__, cls)(**QUICK.get(cls.__name__, {}))


def estimator_classes():
    """Find all public estimator classes by name, by walking the package."""
    found = {}
    for module in pkgutil.walk_packages(bagwise.__path__, "bagwise."):
        if any(part.startswith("_") for part in module.name.split(".")) or ".cli" in module.name:
            continue
        package = import_module(module.name)
        for name in getattr(package, "__all__", []):
            thing = getattr(package, name)
            if inspect.isclass(thing) and issubclass(thing, BaseEstimator):
                found[name] = thing
    return found


def public_estimators():
    """Public estimator classes without base classes; skip those of missing extras."""
    found = estimator_classes()
    absent = {name for name, package in NEEDS.items() if find_spec(package) is None}
    # Base classes, and estimators that need steps or a module and have separate tests.
    roots = {"BagEstimator", "RowEstimator", "BagPipeline", "TorchBagClassifier"}
    return [found[name] for name in sorted(found) if name not in roots | absent]
