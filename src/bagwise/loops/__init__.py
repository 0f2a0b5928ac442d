"""Numba functions on plain arrays; modules are imported, and functions compiled, on first use."""

import importlib
import pkgutil
from typing import Any

_MODULES = {module.name for module in pkgutil.iter_modules(__path__)}


def __getattr__(name: str) -> Any:
    # Importing numba takes a third of a second: it is imported with the first compiled function.
    if name in _MODULES:
        return importlib.import_module(f"bagwise.loops.{name}")
    raise AttributeError(f"module 'bagwise.loops' has no attribute {name!r}")
