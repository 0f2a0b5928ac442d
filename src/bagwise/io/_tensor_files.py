"""Files of tensors (.pt), one per bag, as CLAM and TRIDENT write them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bagwise._common.extras import import_extra
from bagwise._common.types import Array
from bagwise.exceptions import FileFormatError
from bagwise.io._files import assign, format_errors, listed

_BESIDE = ("coords", "instance_labels")  # optional tensors of a file with a dict


class TensorFile:
    """The file of a bag: a tensor of features, or a dict of tensors with one of this name.

    Only tensors are read (``torch.load(weights_only=True)``), which runs no code of the file. A
    leading axis of length 1 is dropped. `dataset` is the name of the features in a dict.
    """

    def __init__(self, path: Path, dataset: str) -> None:
        self.path, self.dataset = path, dataset
        found = self._tensors()
        self.shapes = {name: tuple(part.shape) for name, part in found.items()}
        self.dtypes = {name: part[:0].numpy().dtype for name, part in found.items()}
        features = self.shapes["features"]
        if len(features) != 2:
            raise FileFormatError(
                f"{path} has a tensor of shape {features}: expected instances x features."
            )
        for name, shape in self.shapes.items():
            if shape[:1] != features[:1]:
                raise FileFormatError(
                    f"{path}: {name} has shape {shape} for {features[0]} instances."
                )
        self.patch_size, self.slide_size = math.nan, (math.nan, math.nan)
        self._changed = path.stat().st_mtime_ns

    def read(self, rows: slice, targets: Mapping[str, Array]) -> None:
        """Read rows of some tensors into arrays."""
        if self.path.stat().st_mtime_ns != self._changed:
            raise FileFormatError(f"{self.path} has changed: read the bags again.")
        found = self._tensors()
        for name in targets.keys() & found.keys():
            assign(targets[name], found[name][rows].numpy())

    def _tensors(self) -> dict[str, Any]:
        """The tensors of the file, not read before they are used."""
        torch = import_extra("torch", extra="torch")
        with format_errors(self.path):
            try:
                content = torch.load(self.path, map_location="cpu", weights_only=True, mmap=True)
            except RuntimeError:  # written by an old version, which cannot be mapped
                content = torch.load(self.path, map_location="cpu", weights_only=True)
        parts = content if isinstance(content, dict) else {self.dataset: content}
        if not isinstance(parts.get(self.dataset), torch.Tensor):
            raise FileFormatError(
                f"{self.path} has no tensor {self.dataset!r}: there are {listed(map(str, parts))}. "
                "Name the one with the features with features=."
            )
        names = {"features": self.dataset} | {name: name for name in _BESIDE}
        found = {
            n: parts[k].detach() for n, k in names.items() if isinstance(parts.get(k), torch.Tensor)
        }
        found = {
            n: part[0] if part.ndim == 3 and len(part) == 1 else part for n, part in found.items()
        }
        return {n: p.float() if p.dtype == torch.bfloat16 else p for n, p in found.items()}
