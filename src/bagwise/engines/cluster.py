"""Dask: bags on the workers of a cluster, and the parts of a solver beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bagwise.bags import Bags
from bagwise.engines.arrays import add, is_tensor
from bagwise.engines.parts import digest
from bagwise.exceptions import InputError, WorkerLostError
from bagwise.extras import import_extra
from bagwise.kernels.threads import block_bounds

__all__ = ["ClusterParts", "DistributedBags", "Loader", "distribute", "partition_bounds"]

PATIENCE = 60  # seconds in which a worker that was lost may be replaced
WATCH = 5  # seconds between two looks at whether the workers that are waited for are there


@dataclass(frozen=True)
class _MappedRows:
    """Rows of a memory-mapped file, for a worker to map by itself."""

    path: str
    position: int
    shape: tuple[int, int]
    dtype: Any
    offsets: NDArray[np.int64]
    ids: NDArray[Any] | None
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
            raise OSError(f"{self.path} is not a file here")
        table = np.memmap(self.path, self.dtype, "r", self.position, self.shape)
        bags = Bags(table, self.offsets, self.ids, feature_names=self.feature_names)
        if digest(bags) != self.sample:
            raise OSError(f"{self.path} has another content here")
        return bags


@dataclass(frozen=True)
class _Shape:
    """What remains here of instances that are elsewhere."""

    shape: tuple[int, int]
    dtype: Any


class DistributedBags(Bags):
    """Bags whose instances lie on the workers of a Dask cluster, in partitions of whole bags.

    Made by `Bags.distribute` or `read_bags` with a client. Offsets, ids and names are here too.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    loaders : list of Loader
        What gives the bags of each partition.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    bounds : ndarray of shape (n_partitions + 1,)
        The first bag of each partition, and the number of bags.
    dtype : dtype
        The type of the instances.
    n_features : int
        Their width.
    ids : ndarray of shape (n_bags,) or None
        Names of the bags.
    feature_names : list of str or None
        Names of the columns.
    futures : list of futures, default=None
        The partitions, where workers have them already.
    """

    def __init__(
        self,
        client: Any,
        loaders: list[Loader],
        offsets: NDArray[np.int64],
        bounds: NDArray[np.int64],
        dtype: Any,
        n_features: int,
        ids: NDArray[Any] | None,
        feature_names: list[str] | None,
        futures: list[Any] | None = None,
    ) -> None:
        self._instances = _Shape((int(offsets[-1]), n_features), np.dtype(dtype))
        self._offsets, self._ids, self._feature_names = offsets, ids, feature_names
        self._client, self._loaders, self._bounds = client, loaders, bounds
        self._futures: list[Any] = [None] * len(loaders) if futures is None else futures
        self._asked: list[str | None] = [None] * len(loaders)  # the worker that was to load each
        if futures is None:
            self.restore()

    @property
    def instances(self) -> NoReturn:
        """Not here."""
        raise InputError(
            "the instances are on the workers of a cluster, and this is done in one process: use "
            "bags.collect()."
        )

    @property
    def npartitions(self) -> int:
        """Number of partitions."""
        return len(self._loaders)

    def collect(self) -> Bags:
        """Bring all instances into this process.

        Returns
        -------
        Bags
        """
        return _joined(self._offsets, self._ids, self._feature_names, *self.map(_itself))

    def map(self, function: Callable[[Bags], Any], *, only: int | None = None) -> list[Any]:
        """Call a function with the bags of each partition, on its worker.

        Parameters
        ----------
        function : callable
            Takes `Bags`.
        only : int, default=None
            One partition instead of all.

        Returns
        -------
        list
            One answer per partition, in the order of the bags.
        """
        chosen = slice(None) if only is None else slice(only, only + 1)

        def submit() -> tuple[list[Any], set[str]]:
            places = self.holders()[chosen]
            calls = [
                self._client.submit(_guarded, function, future, pure=False, **where)
                for future, where in zip(self._futures[chosen], places, strict=True)
            ]
            return calls, _named(places)

        return self._gathered(submit)

    def map_tasks(
        self, function: Callable[[Bags, list[Any]], Any], tasks: Sequence[Any]
    ) -> list[Any]:
        """Call a function with all bags and some of the tasks, on as many workers as there are.

        Each of these workers fetches all partitions from the others.

        Parameters
        ----------
        function : callable
            Takes `Bags` and a list of tasks.
        tasks : sequence
            The tasks.

        Returns
        -------
        list
            One answer per run of tasks, in order.
        """
        facts = self._offsets, self._ids, self._feature_names

        def submit() -> tuple[list[Any], set[str]]:
            workers = sorted(self._client.scheduler_info(n_workers=-1)["workers"])
            runs = np.array_split(np.arange(len(tasks)), min(len(tasks), len(workers)))
            self.holders()
            calls = [
                self._client.submit(
                    _guarded_on_all, function, [tasks[i] for i in run], facts, self._futures,
                    pure=False, workers=[worker], allow_other_workers=True,
                )
                for run, worker in zip(runs, workers, strict=False)
            ]  # fmt: skip
            return calls, set(workers)

        return self._gathered(submit)

    def _gathered(self, submit: Callable[[], tuple[list[Any], set[str]]]) -> list[Any]:
        """The answers of tasks on the workers, which are submitted again when a worker is lost."""
        for last in (False, False, True):
            try:
                answers = _results(self._client, *submit())
                break
            except _infrastructure_errors() as error:
                if last:
                    raise WorkerLostError(f"workers were lost three times: {error}") from error
                self.restore()
        return [_unpack(answer) for answer in answers]

    def fold(self, function: Callable[[Any, Bags], Any], state: Any) -> Any:
        """Let something small visit all partitions in order, learning from each.

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
            state = self.map(partial(_visit, function, state), only=i)[0]
        return state

    def transformed(self, function: Callable[[Bags], Bags]) -> DistributedBags:
        """The same bags with other columns, made and kept on the workers.

        Parameters
        ----------
        function : callable
            From bags to the same bags with other instances.

        Returns
        -------
        DistributedBags
        """
        sample = self.map(partial(_first_of, function), only=0)[0]
        futures = [
            self._client.submit(function, future, pure=False, **where)
            for future, where in zip(self._futures, self.holders(), strict=True)
        ]
        return DistributedBags(
            self._client,
            [loader.then(function) for loader in self._loaders],
            self._offsets,
            self._bounds,
            sample.dtype,
            sample.n_features,
            self._ids,
            sample.feature_names,
            futures,
        )

    def place(self, part: type[Any], *per_bag: NDArray[Any], **options: Any) -> ClusterParts:
        """Make the parts of a solver on the workers.

        Parameters
        ----------
        part : class
            Makes the part of a block of bags.
        *per_bag : ndarray of shape (n_bags, ...)
            Cut like the bags.
        **options : object
            The same for every part.

        Returns
        -------
        ClusterParts
        """
        return ClusterParts(self, part, per_bag, options)

    def holders(self) -> list[dict[str, Any]]:
        """Where each partition is, as options for Dask: work goes to the bags, not they to it."""
        _wait(self._client, self._futures, {worker for worker in self._asked if worker})
        found = self._client.who_has(self._futures)
        return [
            {"workers": list(found[future.key]), "allow_other_workers": True}
            if found.get(future.key)
            else {}
            for future in self._futures
        ]

    def restore(self) -> None:
        """Bring partitions that no worker holds any more back to workers."""
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise WorkerLostError("the cluster has no workers: start some.") from error
        workers = sorted(self._client.scheduler_info(n_workers=-1)["workers"])
        present = [f for f in self._futures if f is not None and f.status == "finished"]
        held = self._client.who_has(present) if present else {}
        for i, loader in enumerate(self._loaders):
            future = self._futures[i]
            if future is None or not held.get(future.key):
                worker = workers[i % len(workers)]
                try:
                    self._futures[i] = loader.put(self._client, worker)
                    self._asked[i] = worker
                except _infrastructure_errors() as error:
                    raise WorkerLostError(f"the worker {worker} was lost: {error!r}") from error

    def _slice(self, key: slice) -> Bags:
        raise InputError("distributed bags are not indexed: index first, then distribute.")

    def _gather(self, key: NDArray[Any]) -> Bags:
        return self._slice(slice(0))

    def _one(self, i: int) -> Any:
        return self._slice(slice(i))

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, npartitions={self.npartitions})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("distributed bags cannot be pickled: use bags.collect().")


class ClusterParts:
    """The parts of a solver on the workers that hold the bags, as Dask actors.

    An actor that was lost comes back without its state; a counter of calls tells.

    Parameters
    ----------
    bags : DistributedBags
        The bags.
    part : class
        Makes the part of a block of bags.
    per_bag : tuple of ndarray
        Cut like the bags.
    options : dict
        The same for every part.
    """

    def __init__(
        self,
        bags: DistributedBags,
        part: type[Any],
        per_bag: tuple[NDArray[Any], ...],
        options: dict[str, Any],
    ) -> None:
        self.bags, self.part, self.per_bag, self.options = bags, part, per_bag, options
        self._make()

    def total(self, method: str, *args: Any) -> Any:
        """Call a method of every part with the same arguments and add up the answers."""
        return add(self.each(method, *args))

    def each(self, method: str, *args: Any) -> list[Any]:
        """Call a method of every part and collect the answers, in the order of the bags."""
        return self._call(method, [args] * len(self._actors))

    def hand_out(self, method: str, values: list[Any]) -> None:
        """Call a method of every part, each with a value of its own."""
        self._call(method, [(value,) for value in values])

    def rebuild(self) -> None:
        """Make all parts anew, without state, after one was lost."""
        self.bags.restore()
        self._make()

    def _make(self) -> None:
        for last in (False, False, True):  # nothing is lost yet by doing it again
            try:
                self._actors = _results(self.bags._client, *self._submit())
                self._n_calls = 0
                return
            except _infrastructure_errors() as error:
                if last:
                    raise WorkerLostError(f"workers were lost three times: {error}") from error
                self.bags.restore()

    def _submit(self) -> tuple[list[Any], set[str]]:
        client, bounds = self.bags._client, self.bags._bounds
        futures, places = [], self.bags.holders()
        for i, where in enumerate(places):
            cut = [array[bounds[i] : bounds[i + 1]] for array in self.per_bag]
            arguments = self.part, self.bags._futures[i], cut, self.options
            futures.append(client.submit(_Cell, *arguments, actor=True, pure=False, **where))
        return futures, _named(places)

    def _call(self, method: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        try:
            calls = [
                actor.call(self._n_calls, method, args)
                for actor, args in zip(self._actors, arguments, strict=True)
            ]
            answers = [call.result() for call in calls]
        except _infrastructure_errors() as error:
            raise WorkerLostError(f"a worker was lost in {method!r}: {error}") from error
        self._n_calls += 1
        return [_unpack(answer) for answer in answers]


class _Cell:
    """A part on a worker, and how often it was called."""

    def __init__(
        self, part: type[Any], bags: Bags, per_bag: list[Any], options: dict[str, Any]
    ) -> None:
        self.part = part(bags, *per_bag, **options)
        self.n_calls = 0

    def call(self, n_calls: int, method: str, args: tuple[Any, ...]) -> Any:
        if n_calls != self.n_calls:
            return "lost", None
        self.n_calls += 1
        return _guarded(getattr(self.part, method), *args)


class Loader:
    """Bags of one partition, and how they get to a worker.

    Parameters
    ----------
    load : callable
        Gives the bags, without arguments.
    on_worker : bool
        Whether the worker calls it, because it can; else they travel from here.
    """

    def __init__(self, load: Callable[[], Bags], *, on_worker: bool) -> None:
        self.load, self.on_worker = load, on_worker

    steps: tuple[Callable[[Bags], Bags], ...] = ()

    def then(self, function: Callable[[Bags], Bags]) -> Loader:
        """The same with one more step, made on the worker."""
        longer = Loader(self.load, on_worker=self.on_worker)
        longer.steps = (*self.steps, function)
        return longer

    def put(self, client: Any, worker: str) -> Any:
        """Make a future of the bags on a worker."""
        where = {"workers": [worker], "allow_other_workers": True, "pure": False}
        if self.on_worker:
            future = client.submit(self.load, **where)
        else:
            arrived = client.scatter(self.load(), workers=[worker], hash=False)
            future = client.submit(_settled, arrived, **where)
        for step in self.steps:
            future = client.submit(step, future, **where)
        return future


def distribute(bags: Bags, client: Any, npartitions: int | None = None) -> DistributedBags:
    """Hand bags out to the workers of a cluster.

    Parameters
    ----------
    bags : Bags
        The bags.
    client : distributed.Client
        The cluster.
    npartitions : int, default=None
        Number of parts; one per worker by default.

    Returns
    -------
    DistributedBags
    """
    if is_tensor(bags.instances):
        raise InputError("tensors are not distributed: use bags.to('numpy') first.")
    if bags.dtype.kind != "f":
        bags = bags.with_instances(
            bags.instances.astype(np.float64), feature_names=bags.feature_names
        )
    bounds = partition_bounds(client, bags.offsets, npartitions)
    loaders = [_loader(client, bags[int(start) : int(stop)]) for start, stop in pairwise(bounds)]
    return DistributedBags(
        client,
        loaders,
        bags.offsets,
        bounds,
        bags.dtype,
        bags.n_features,
        bags.ids,
        bags.feature_names,
    )


def partition_bounds(
    client: Any, offsets: NDArray[np.int64], npartitions: int | None
) -> NDArray[np.int64]:
    """Cut bags into partitions with about equally many instances.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    npartitions : int or None
        How many; one per worker by default.

    Returns
    -------
    ndarray
        The first bag of each partition, and the number of bags.
    """
    if not hasattr(client, "scheduler_info"):
        import_extra("distributed", extra="dask")
        raise InputError(f"client= is a {type(client).__name__}: expected a distributed.Client.")
    if npartitions is None:
        npartitions = max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
    if npartitions < 1 or len(offsets) < 2:
        raise InputError(f"{len(offsets) - 1} bags cannot be cut into {npartitions} partitions.")
    return block_bounds(offsets, npartitions)


def _loader(client: Any, bags: Bags) -> Loader:
    mapped = _mapped_rows(bags)
    if mapped is not None and all(client.run(mapped.is_visible).values()):
        return Loader(mapped.load, on_worker=True)
    return Loader(lambda: bags, on_worker=False)


def _mapped_rows(bags: Bags) -> _MappedRows | None:
    """Where in a memory-mapped file the instances are; None when they are not in one."""
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
        str(Path(path).absolute()),  # not resolved: a temporary file has no other name
        int(origin.offset + position),
        table.shape,
        table.dtype,
        bags.offsets,
        bags.ids,
        bags.feature_names,
        digest(bags),
    )


def _named(places: list[dict[str, Any]]) -> set[str]:
    return {worker for where in places for worker in where.get("workers", ())}


def _results(client: Any, futures: list[Any], workers: set[str]) -> list[Any]:
    _wait(client, futures, workers)
    return client.gather(futures)


def _wait(client: Any, futures: list[Any], workers: set[str]) -> None:
    """Wait for futures, as long as the workers are there that were asked for them.

    A task that was sent to a worker by name waits for ever in Dask when all workers were gone for a
    moment, whoever comes after: so somebody has to look.
    """
    distributed = import_extra("distributed", extra="dask")
    while True:
        try:
            distributed.wait(futures, timeout=WATCH)
            return
        except (TimeoutError, distributed.TimeoutError):
            gone = workers - set(client.scheduler_info(n_workers=-1)["workers"])
            if gone:
                raise OSError(f"the worker {min(gone)} is gone") from None


def _visit(function: Callable[[Any, Bags], Any], state: Any, bags: Bags) -> Any:
    return function(state, bags)


def _first_of(function: Callable[[Bags], Bags], bags: Bags) -> Bags:
    return function(bags[:1])


def _itself(bags: Bags) -> Bags:
    return bags


def _settled(bags: Bags) -> Bags:
    """The same in memory of NumPy's own.

    What came over the wire lies at odd addresses and in small pages: products of it take twice as
    long.
    """
    return bags.with_instances(bags.instances.copy(), feature_names=bags.feature_names)


def _joined(
    offsets: NDArray[np.int64],
    ids: NDArray[Any] | None,
    feature_names: list[str] | None,
    *partitions: Bags,
) -> Bags:
    tables = [bags.instances for bags in partitions]
    in_csr = sparse.issparse(tables[0])
    rows = sparse.vstack(tables, format="csr") if in_csr else np.concatenate(tables)
    return Bags(rows, offsets, ids, feature_names=feature_names)


def _guarded_on_all(
    function: Callable[[Bags, list[Any]], Any],
    tasks: list[Any],
    facts: tuple[Any, ...],
    partitions: list[Bags],
) -> tuple[str, Any]:
    return _guarded(lambda: function(_joined(*facts, *partitions), tasks))


def _guarded(function: Callable[..., Any], *args: Any) -> tuple[str, Any]:
    """Call a function; its own errors come back as values, apart from those of the cluster."""
    try:
        return "done", function(*args)
    except Exception as error:
        return "failed", error


def _unpack(answer: tuple[str, Any]) -> Any:
    status, value = answer
    if status == "lost":
        raise WorkerLostError("a worker was lost, and with it the state of its part.")
    if status == "failed":
        raise value
    return value


def _infrastructure_errors() -> tuple[type[BaseException], ...]:
    """What Dask raises when a worker, or what lay on it, is gone."""
    distributed = import_extra("distributed", extra="dask")
    return (
        OSError,  # CommClosedError among them
        RuntimeError,  # "Worker holding Actor was lost"
        ValueError,
        KeyError,  # a worker that the scheduler named, and has forgotten since
        CancelledError,
        TimeoutError,
        distributed.scheduler.KilledWorker,
    )
