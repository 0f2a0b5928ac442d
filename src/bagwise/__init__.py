"""bagwise: learning from bags when only the bags are labelled."""

from __future__ import annotations

import importlib
from typing import Any

from bagwise.bags import Bags

__version__ = "0.1.0"

_ROOMS = (
    "annotation",
    "classification",
    "cluster",
    "datasets",
    "embedding",
    "exceptions",
    "inspection",
    "io",
    "metric_learning",
    "metrics",
    "pairwise",
    "persistence",
    "preprocessing",
    "reproduction",
    "review",
    "semi_supervised",
)

__all__ = ["Bags", "__version__", *_ROOMS]


def __getattr__(name: str) -> Any:
    # Rooms load when first used, so that `import bagwise` stays light.
    if name in _ROOMS:
        return importlib.import_module(f"bagwise.{name}")
    raise AttributeError(f"module 'bagwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
