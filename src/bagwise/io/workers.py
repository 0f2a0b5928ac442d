"""Files that Dask workers read themselves, each its own part."""

from pathlib import Path
from typing import Any, NamedTuple


class Cluster(NamedTuple):
    """Dask workers and the number of partitions."""

    client: Any
    npartitions: int | None

    def sees(self, path: Path) -> bool:
        """Whether every worker sees this file, with the same size."""
        path = path.resolve()
        found = self.client.run(_size_of, path)
        return all(size == _size_of(path) for size in found.values())


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1
