"""Bags whose instances are on the workers of a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from bagwise._common.tables import ConvertedTable, Source, StreamedTable, float_type
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.compiled.threads import block_bounds
from bagwise.engines import connection
from bagwise.engines.arrays import is_tensor
from bagwise.engines.mapped import is_mapped
from bagwise.engines.partitions import Loader, Partitions, joined
from bagwise.engines.parts import digest
from bagwise.exceptions import InputError
from bagwise.extras import import_extra


class DistributedBags(Bags):
    """Bags with offsets, ids and names in this process and instances in partitions on workers.

    Created by `Bags.distribute` or `read_bags` with a client.

    Parameters
    ----------
    partitions : Partitions
        The instances, on the workers.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    features : tuple (n_features, dtype)
        Number and type of the features.
    ids : ndarray of shape (n_bags,) or None
        Names of the bags.
    feature_names : list of str or None
        Names of the columns.
    """

    def __init__(
        self,
        partitions: Partitions,
        offsets: Ints,
        features: tuple[int, Any],
        ids: Array | None,
        feature_names: list[str] | None,
    ) -> None:
        n_features, dtype = features
        shape = int(offsets[-1]), n_features
        self._source = Source(SimpleNamespace(shape=shape, dtype=np.dtype(dtype)), offsets)
        self._offsets, self._ids, self._feature_names = offsets, ids, feature_names
        self.partitions = partitions

    @property
    def where(self) -> str:
        """Location of the instances: the workers of a Dask cluster."""
        return "cluster"

    @property
    def instances(self) -> NoReturn:
        """Not available in this process: raises InputError."""
        raise InputError(
            "the instances are on the workers of a cluster, but this runs in one process: use "
            "bags.collect()."
        )

    @property
    def npartitions(self) -> int:
        """Number of partitions."""
        return len(self.partitions)

    def worker_share(self) -> tuple[float, int]:
        """Memory of the smallest worker, and the largest number of instances on a worker.

        Returns
        -------
        n_bytes : float
            Infinity if workers have no limit.
        n_instances : int
            Size of the largest partition times the number of partitions per worker.
        """
        limits = connection.memory_limits(self.partitions.client) or [float("inf")]
        rows = np.diff(self._offsets[self.partitions.bounds])
        return min(limits), int(rows.max()) * -(-len(rows) // len(limits))

    def collect(self) -> Bags:
        """Bring all instances into this process.

        Returns
        -------
        Bags
        """
        return joined(self._offsets, self._ids, self._feature_names, self.map(lambda bags: bags))

    def map(self, function: Callable[[Bags], Any]) -> list[Any]:
        """Call a function with the bags of each partition, on its worker.

        Parameters
        ----------
        function : callable
            Takes `Bags`.

        Returns
        -------
        list
            One result per partition, in the order of the bags.
        """
        return self.partitions.map(function)

    def map_tasks(
        self, function: Callable[[Bags, list[Any]], Any], tasks: Sequence[Any]
    ) -> list[Any]:
        """Distribute tasks over all workers; each call gets all bags and some of the tasks.

        Parameters
        ----------
        function : callable
            Takes `Bags` and a list of tasks.
        tasks : sequence
            The tasks.

        Returns
        -------
        list
            One result per run of tasks, in order.
        """
        join = partial(joined, self._offsets, self._ids, self._feature_names)
        return self.partitions.map_tasks(lambda parts, some: function(join(parts), some), tasks)

    def fold(self, function: Callable[[Any, Bags], Any], state: Any) -> Any:
        """Pass a small state through all partitions in order, as `functools.reduce` does.

        Parameters
        ----------
        function : callable
            ``function(state, bags)`` gives the next state.
        state : object
            The first state.

        Returns
        -------
        object
            The last state.
        """
        for i in range(self.npartitions):
            state = self.partitions.map(partial(function, state), only=i)[0]
        return state

    def transformed(self, function: Callable[[Bags], Bags]) -> DistributedBags:
        """Bags with other columns, computed and kept on the workers.

        Parameters
        ----------
        function : callable
            Maps bags to the same bags with other instances.

        Returns
        -------
        DistributedBags
        """
        sample = self.partitions.map(lambda bags: function(bags[:1]), only=0)[0]
        return DistributedBags(
            self.partitions.transformed(function),
            self._offsets,
            (sample.n_features, sample.dtype),
            self._ids,
            sample.feature_names,
        )

    def _gather(self, key: Ints) -> Bags:
        offsets = offsets_of(self.sizes[key])
        ids = None if self._ids is None else self._ids[key]
        if not len(key):
            nothing = np.empty((0, self.n_features), self.dtype)
            return Bags(nothing, offsets, ids, feature_names=self._feature_names)
        changes = np.diff(self.partitions.source_of(key))
        if np.all(changes >= 0):  # in the order of the partitions: no bag changes its worker
            bounds = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(key)]])
        else:
            bounds = block_bounds(offsets, self.npartitions)
        taken = self.partitions.take(key, bounds)
        return DistributedBags(
            taken, offsets, (self.n_features, self.dtype), ids, self._feature_names
        )

    def _one(self, i: int) -> Any:
        partition = int(self.partitions.source_of(i))
        position = i - int(self.partitions.bounds[partition])
        return self.partitions.map(lambda bags: bags[position], only=partition)[0]

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, npartitions={self.npartitions})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("distributed bags cannot be pickled: use bags.collect().")


def distribute(bags: Bags, client: Any, npartitions: int | None = None) -> DistributedBags:
    """Send bags to the workers of a Dask cluster.

    Parameters
    ----------
    bags : Bags
        The bags.
    client : distributed.Client
        The Dask cluster.
    npartitions : int, default=None
        Number of partitions; one per worker by default.

    Returns
    -------
    DistributedBags
    """
    if is_tensor(bags.source):
        raise InputError("tensors are not distributed: use bags.to('numpy') first.")
    bounds = partition_bounds(client, bags.offsets, npartitions)
    loaders = [_loader(client, bags[int(start) : int(stop)]) for start, stop in pairwise(bounds)]
    dtype = bags.dtype
    if dtype not in (np.float32, np.float64):
        dtype = float_type(dtype)
        loaders = [loader.then(partial(_as_floats, dtype)) for loader in loaders]
    return DistributedBags(
        Partitions(client, loaders, bounds),
        bags.offsets,
        (bags.n_features, dtype),
        bags.ids,
        bags.feature_names,
    )


def _as_floats(dtype: Any, bags: Bags) -> Bags:
    """Convert the values of bags to a float type, on the worker."""
    if is_mapped(bags.source):  # converted when rows are read
        return bags.with_source(ConvertedTable(bags.source), feature_names=bags.feature_names)
    return bags.with_instances(bags.instances.astype(dtype), feature_names=bags.feature_names)


def load_on_workers(
    client: Any,
    npartitions: int | None,
    load: Callable[..., Bags],
    offsets: Ints,
    features: tuple[int, Any],
    ids: Array | None,
    feature_names: list[str] | None,
) -> DistributedBags:
    """Distributed bags whose partitions are read from files by the workers.

    Parameters
    ----------
    client : distributed.Client
        The Dask cluster.
    npartitions : int or None
        Number of partitions; one per worker by default.
    load : callable
        ``load(start, stop, ids)`` reads some of the bags.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    features : tuple (n_features, dtype)
        Number and type of the features.
    ids : ndarray of shape (n_bags,) or None
        Names of the bags.
    feature_names : list of str or None
        Names of the columns.

    Returns
    -------
    DistributedBags
    """
    bounds = partition_bounds(client, offsets, npartitions)
    loaders = [
        Loader(partial(load, a, b, None if ids is None else ids[a:b]), on_worker=True)
        for a, b in pairwise(bounds.tolist())
    ]
    return DistributedBags(
        Partitions(client, loaders, bounds), offsets, features, ids, feature_names
    )


def partition_bounds(client: Any, offsets: Ints, npartitions: int | None) -> Ints:
    """Split bags into partitions with about the same number of instances.

    Parameters
    ----------
    client : distributed.Client
        The Dask cluster.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    npartitions : int or None
        Number of partitions; one per worker by default.

    Returns
    -------
    ndarray
        The first bag of each partition, and the number of bags.
    """
    if not hasattr(client, "scheduler_info"):
        import_extra("distributed", extra="dask")
        raise InputError(f"client= is a {type(client).__name__}: expected a distributed.Client.")
    if npartitions is None:
        npartitions = max(1, len(connection.worker_addresses(client)))
    if npartitions < 1 or len(offsets) < 2:
        raise InputError(f"{len(offsets) - 1} bags cannot be cut into {npartitions} partitions.")
    return block_bounds(offsets, npartitions)


def _loader(client: Any, bags: Bags) -> Loader:
    if isinstance(bags.source, StreamedTable):  # read in this process when they are sent
        return Loader(
            lambda: bags[:].with_instances(bags.instances, feature_names=bags.feature_names),
            on_worker=False,
        )
    mapped = _mapped_rows(bags)
    if mapped is not None and _all_workers_see(client, mapped):
        return Loader(mapped.load, on_worker=True)
    return Loader(lambda: bags, on_worker=False)


def _all_workers_see(client: Any, mapped: _MappedRows) -> bool:
    return all(seen is True for seen in client.run(mapped.is_visible, on_error="return").values())


def _mapped_rows(bags: Bags) -> _MappedRows | None:
    """Position of the instances in a memory-mapped file; None if they are not in one."""
    table = bags.instances
    origin = table
    while isinstance(origin, np.ndarray) and not hasattr(origin, "filename"):
        origin = origin.base
    while isinstance(getattr(origin, "base", None), np.memmap):
        origin = origin.base
    path = getattr(origin, "filename", None)
    if path is None or not table.flags.c_contiguous or not Path(path).exists():
        return None
    position = table.__array_interface__["data"][0] - origin.__array_interface__["data"][0]
    return _MappedRows(
        str(Path(path).absolute()),  # not resolved: a temporary file has only this path
        int(origin.offset + position),
        table.shape,
        table.dtype,
        bags.offsets,
        bags.ids,
        bags.feature_names,
        digest(bags),
    )


@dataclass(frozen=True)
class _MappedRows:
    """Rows of a memory-mapped file, for a worker to map by itself."""

    path: str
    position: int
    shape: tuple[int, int]
    dtype: Any
    offsets: Ints
    ids: Array | None
    feature_names: list[str] | None
    sample: str

    def is_visible(self) -> bool:
        try:
            self.load()
        except (OSError, ValueError):
            return False
        return True

    def load(self) -> Bags:
        if not Path(self.path).is_file():  # opening a pipe of that name would wait for a writer
            raise InputError(f"{self.path} is not a file on this worker.")
        end = self.position + int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize
        if os.stat(self.path).st_size < end:
            raise InputError(f"{self.path} has become shorter than {end} bytes: write it again.")
        table = np.memmap(self.path, self.dtype, "r", self.position, self.shape)
        bags = Bags(table, self.offsets, self.ids, feature_names=self.feature_names)
        if digest(bags) != self.sample:
            raise InputError(
                f"{self.path} has changed since it was mapped: map it again, and distribute the "
                "bags again."
            )
        return bags
