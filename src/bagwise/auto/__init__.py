"""Automatic choice of a method: several methods, calibrated and combined."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bagwise.auto._classifier import AutoBagClassifier
    from bagwise.auto._regressor import AutoBagRegressor

__all__ = ["AutoBagClassifier", "AutoBagRegressor"]

_MODULES = {"AutoBagClassifier": "_classifier", "AutoBagRegressor": "_regressor"}


def __getattr__(name: str) -> type:
    # Loaded on first use: the command line reads the list of methods without any estimator.
    if name in _MODULES:
        module = importlib.import_module(f"bagwise.auto.{_MODULES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'bagwise.auto' has no attribute {name!r}")
