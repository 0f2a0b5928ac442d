"""Automatic choice of a method: several methods, calibrated and combined."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bagwise.auto._classifier import AutoBagClassifier, AutoBagRegressor

__all__ = ["AutoBagClassifier", "AutoBagRegressor"]


def __getattr__(name: str) -> type:
    # Loaded on first use: the command line reads the list of methods without any estimator.
    if name in __all__:
        return getattr(importlib.import_module("bagwise.auto._classifier"), name)
    raise AttributeError(f"module 'bagwise.auto' has no attribute {name!r}")
