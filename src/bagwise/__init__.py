"""bagwise: multiple-instance learning (MIL) for scikit-learn."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers know the name; importing typing would load many modules
if TYPE_CHECKING:
    from typing import Any

    from bagwise.bags import Bags
    from bagwise.cli.fitting import fit

__version__ = "0.3.0"

__all__ = ["Bags", "__version__", "fit"]

_PACKAGES = (
    "annotation",
    "assumptions",
    "auto",
    "classification",
    "cluster",
    "datasets",
    "displays",
    "embedding",
    "exceptions",
    "io",
    "labels",
    "metric_learning",
    "metrics",
    "evaluate",
    "pairwise",
    "persistence",
    "predictions",
    "preprocessing",
    "published",
    "regression",
    "report",
    "semi_supervised",
    "survival",
)


def __getattr__(name: str) -> Any:
    # Modules are loaded on first use, so that `import bagwise` is fast: NumPy and SciPy, which
    # Bags need, take most of a second.
    if name in _PACKAGES or name == "bags":
        return importlib.import_module(f"bagwise.{name}")
    if name == "Bags":
        return importlib.import_module("bagwise.bags").Bags
    if name == "fit":
        return importlib.import_module("bagwise.cli.fitting").fit
    raise AttributeError(f"module 'bagwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES])
