"""Files that the workers of a cluster read themselves, each its own part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags

__all__ = ["Cluster", "on_workers"]


@dataclass(frozen=True)
class Cluster:
    """Workers, and how many partitions they shall have."""

    client: Any
    npartitions: int | None

    def sees(self, path: Path) -> bool:
        """Whether every worker finds this file, by its size."""
        path = path.resolve()
        found = self.client.run(_size_of, path)
        return all(size == _size_of(path) for size in found.values())


def on_workers(
    cluster: Cluster,
    load: Callable[..., Bags],
    offsets: NDArray[np.int64],
    ids: NDArray[Any] | None,
    feature_names: list[str] | None,
    shape: tuple[int, np.dtype[Any]],
) -> Bags:
    """Bags of which each worker reads its own; `load(start, stop, ids)` reads some of them.

    `shape` is the number of features and their type.
    """
    from bagwise.engines.dask import DistributedBags, partition_bounds
    from bagwise.engines.partitions import Loader, Partitions

    bounds = partition_bounds(cluster.client, offsets, cluster.npartitions)
    loaders = [
        Loader(partial(load, a, b, None if ids is None else ids[a:b]), on_worker=True)
        for a, b in pairwise(bounds.tolist())
    ]
    return DistributedBags(
        Partitions(cluster.client, loaders, bounds), offsets, shape, ids, feature_names
    )


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1
