"""Protocols: functions that measure a unit of work and return plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reproduction._protocols import (
    annotation,
    classification,
    clustering,
    metric_learning,
    observations,
    weak_labels,
)
from reproduction._units import Unit

__all__ = ["PROTOCOLS"]

PROTOCOLS: Mapping[str, Callable[[Unit], dict[str, Any]]] = {
    name: getattr(topic, name)
    for topic in (
        annotation,
        classification,
        clustering,
        metric_learning,
        observations,
        weak_labels,
    )
    for name in topic.__all__
}
