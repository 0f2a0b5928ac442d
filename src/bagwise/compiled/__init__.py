"""Numba functions on plain arrays; modules load, and functions compile, when first used."""

import importlib
from typing import Any

_LEAVES = (
    "assignment",
    "boosted_trees",
    "diverse_density",
    "dual_descent",
    "group_descent",
    "label_pairs",
    "label_subsets",
    "level_set",
    "primal_dual",
    "row_order",
    "segments",
    "set_distances",
    "simplex",
    "ties",
)

__all__ = list(_LEAVES)


def __getattr__(name: str) -> Any:
    # numba takes a third of a second to import: it is imported with the first compiled function.
    if name in _LEAVES:
        return importlib.import_module(f"bagwise.compiled.{name}")
    raise AttributeError(f"module 'bagwise.compiled' has no attribute {name!r}")
