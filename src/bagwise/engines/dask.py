"""Dask: bags on the workers of a cluster, and the parts of a solver beside them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bagwise.bags import Bags
from bagwise.compiled.threads import block_bounds
from bagwise.engines import connection
from bagwise.engines.arrays import is_tensor
from bagwise.engines.losses import again
from bagwise.engines.parts import Parts, digest
from bagwise.exceptions import InputError, WorkerLostError
from bagwise.extras import import_extra

__all__ = ["ClusterParts", "DistributedBags", "Loader", "distribute", "partition_bounds"]


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
            raise InputError(f"{self.path} is not a file on this worker.")
        end = self.position + int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize
        if os.stat(self.path).st_size < end:
            raise InputError(f"{self.path} has become shorter than {end} bytes: write it again.")
        table = np.memmap(self.path, self.dtype, "r", self.position, self.shape)
        bags = Bags(table, self.offsets, self.ids, feature_names=self.feature_names)
        if digest(bags) != self.sample:
            raise InputError(
                f"{self.path} has another content than when it was mapped: map it anew, and "
                "distribute the bags again."
            )
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
    made : list of (Future, str), default=None
        The partitions and the worker each was asked from, where they are made already.
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
        made: list[tuple[Any, str | None]] | None = None,
    ) -> None:
        self._instances = _Shape((int(offsets[-1]), n_features), np.dtype(dtype))
        self._offsets, self._ids, self._feature_names = offsets, ids, feature_names
        self._client, self._loaders, self._bounds = client, loaders, bounds
        made = [(None, None)] * len(loaders) if made is None else made
        self._futures: list[Any] = [future for future, _ in made]
        self._asked = [worker for _, worker in made]  # the worker that was to make each
        if None in self._futures:
            self.restore()

    @property
    def where(self) -> str:
        """On a cluster."""
        return "cluster"

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

    def worker_share(self) -> tuple[float, int]:
        """Memory of the smallest worker, and how many instances a worker holds at most.

        Returns
        -------
        n_bytes : float
            Infinity where workers have no limit.
        n_instances : int
            As many as the largest partitions have, where each worker holds equally many.
        """
        limits = connection.memory_limits(self._client) or [float("inf")]
        rows = np.diff(self._offsets[self._bounds])
        return min(limits), int(rows.max()) * -(-len(rows) // len(limits))

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
        sent = _Sent(function)

        def submit() -> tuple[list[Any], set[str]]:
            places = self.holders()[chosen]
            calls = [
                connection.submit(self._client, _guarded, sent, future, **where)
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
        sent = _Sent(function)

        def submit() -> tuple[list[Any], set[str]]:
            workers = connection.workers_of(self._client)
            runs = np.array_split(np.arange(len(tasks)), min(len(tasks), len(workers)))
            self.holders()
            calls = [
                connection.submit(
                    self._client, _guarded_on_all, sent, [tasks[i] for i in run], facts,
                    self._futures, workers=[worker], allow_other_workers=True,
                )
                for run, worker in zip(runs, workers, strict=False)
            ]  # fmt: skip
            return calls, set(workers)

        return self._gathered(submit)

    def _gathered(self, submit: Callable[[], tuple[list[Any], set[str]]]) -> list[Any]:
        """The answers of tasks on the workers, which are submitted again when a worker is lost."""
        answers = again(lambda: connection.results(self._client, *submit()), self.restore)
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
        sent = _Sent(function)

        def submit() -> list[tuple[Any, str | None]]:
            places = self.holders()
            return [
                (connection.submit(self._client, sent, future, **where), _first(where))
                for future, where in zip(self._futures, places, strict=True)
            ]

        return DistributedBags(
            self._client,
            [loader.then(sent) for loader in self._loaders],
            self._offsets,
            self._bounds,
            sample.dtype,
            sample.n_features,
            self._ids,
            sample.feature_names,
            again(submit, self.restore),
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
        asked = {worker for worker in self._asked if worker}
        connection.wait(self._client, self._futures, asked)
        return [
            {"workers": workers, "allow_other_workers": True} if workers else {}
            for workers in connection.holders_of(self._client, self._futures)
        ]

    def restore(self) -> None:
        """Bring partitions that no worker holds any more back to workers."""
        again(self._restore, lambda: None)

    def _restore(self) -> None:
        workers = connection.workers_of(self._client)
        present = [f for f in self._futures if f is not None and f.status == "finished"]
        held = connection.holders_of(self._client, present)
        safe = {future.key for future, where in zip(present, held, strict=True) if where}
        for i, loader in enumerate(self._loaders):
            if self._futures[i] is None or self._futures[i].key not in safe:
                worker = workers[i % len(workers)]
                self._asked[i], self._futures[i] = worker, loader.put(self._client, worker)

    def _slice(self, key: slice) -> Bags:
        return self._chosen(np.array(self._range(key), np.int64))

    def _gather(self, key: NDArray[Any]) -> Bags:
        return self._chosen(self._positions(key))

    def _one(self, i: int) -> Any:
        i = self._position(i)
        partition = int(np.searchsorted(self._bounds, i, side="right")) - 1
        at = i - int(self._bounds[partition])
        return self.map(partial(_bag_at, at), only=partition)[0]

    def _chosen(self, key: NDArray[np.int64]) -> Bags:
        """Some of the bags, in the order asked for.

        In rising order bags stay where they are; otherwise they travel between the workers.
        """
        sizes = self.sizes[key]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        ids = None if self._ids is None else self._ids[key]
        if not len(key):
            nothing = np.empty((0, self.n_features), self.dtype)
            return Bags(nothing, offsets, ids, feature_names=self._feature_names)
        partition = np.searchsorted(self._bounds, key, side="right") - 1
        if np.all(np.diff(partition) >= 0):
            new = np.flatnonzero(np.diff(partition)) + 1
            bounds = np.concatenate([[0], new, [len(key)]])
        else:
            bounds = block_bounds(offsets, self.npartitions)
        pieces = [
            _Pieces.of(partition[a:b], key[a:b] - self._bounds[partition[a:b]])
            for a, b in pairwise(bounds.tolist())
        ]
        whole = np.diff(self._bounds)

        def submit() -> list[tuple[Any, str | None]]:
            places = self.holders()
            return [each.submit(self._client, self._futures, places, whole) for each in pieces]

        return DistributedBags(
            self._client,
            [each.loader(self._loaders, whole) for each in pieces],
            offsets,
            bounds,
            self.dtype,
            self.n_features,
            ids,
            self._feature_names,
            again(submit, self.restore),
        )

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, npartitions={self.npartitions})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("distributed bags cannot be pickled: use bags.collect().")


class ClusterParts(Parts):
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
        self._actors: list[Any] = []
        self._futures: list[Any] = []
        self._make()

    def each(self, method: str, *args: Any, own: list[Any] | None = None) -> list[Any]:
        """Call a method of every part and collect the results, in the order of the bags."""
        if own is None:
            return self._call(method, [args] * len(self._actors))
        return self._call(method, [(value, *args) for value in own])

    def rebuild(self) -> None:
        """Make all parts anew, without state, after one was lost."""
        self.bags.restore()
        self._make()

    def release(self) -> None:
        """Free the workers of the parts."""
        connection.cancel(self.bags._client, self._futures)
        self._actors, self._futures = [], []

    def _make(self) -> None:
        again(self._make_once, self.bags.restore)

    def _make_once(self) -> None:
        client, bounds = self.bags._client, self.bags._bounds
        places = self.bags.holders()
        futures = []
        for i, where in enumerate(places):
            cut = [array[bounds[i] : bounds[i + 1]] for array in self.per_bag]
            arguments = self.part, self.bags._futures[i], cut, self.options
            futures.append(connection.submit(client, _Cell, *arguments, actor=True, **where))
        self._actors = connection.results(client, futures, _named(places))
        self._futures = futures
        self._workers = {w for held in connection.holders_of(client, futures) for w in held}
        self._n_calls = 0

    def _call(self, method: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        if not self._actors:
            raise WorkerLostError("the parts were released.")
        try:
            calls = [
                actor.call(self._n_calls, method, args)
                for actor, args in zip(self._actors, arguments, strict=True)
            ]
            answers = connection.actor_results(
                self.bags._client, calls, self._futures, self._workers
            )
        except WorkerLostError:
            raise
        except _ACTOR_ERRORS as error:
            raise WorkerLostError(f"a worker was lost in {method!r}: {error!r}.") from error
        except BaseException:  # an interrupted fit leaves nothing on the workers
            self.release()
            raise
        self._n_calls += 1
        return [_unpack(answer) for answer in answers]


# What Dask raises when the worker of an actor is gone. No error of a part is among them: those
# come back as values.
_ACTOR_ERRORS = (OSError, RuntimeError, ValueError, KeyError, CancelledError)


class _Cell:
    """A part on a worker, and how often it was called."""

    def __init__(
        self, part: type[Any], bags: Bags, per_bag: list[Any], options: dict[str, Any]
    ) -> None:
        self.part = part(_aligned(bags), *_aligned(per_bag), **_aligned(options))
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
        longer = copy(self)
        longer.steps = (*self.steps, function)
        return longer

    def put(self, client: Any, worker: str) -> Any:
        """Make a future of the bags on a worker."""
        where = {"workers": [worker], "allow_other_workers": True}
        future = self._first(client, worker, where)
        for step in self.steps:
            future = connection.submit(client, step, future, **where)
        return future

    def _first(self, client: Any, worker: str, where: dict[str, Any]) -> Any:
        """A future of the bags before the steps."""
        if self.on_worker:
            return connection.submit(client, self.load, **where)
        bags = self.load()

        def scatter() -> Any:
            return client.scatter(bags, workers=[worker], hash=False, asynchronous=True)

        return connection.submit(
            client, _settled, connection.ask(client, scatter, [worker]), **where
        )


class _Joined(Loader):
    """Bags out of several partitions, joined in a new order.

    Parameters
    ----------
    pieces : list of Loader
        The bags of each partition.
    order : ndarray of int64 of shape (n_bags,)
        Where each bag is, when the pieces stand one after the other.
    """

    def __init__(self, pieces: list[Loader], order: NDArray[np.int64]) -> None:
        self.pieces, self.order = pieces, order

    on_worker = True

    def _first(self, client: Any, worker: str, where: dict[str, Any]) -> Any:
        pieces = [loader.put(client, worker) for loader in self.pieces]
        return connection.submit(client, _in_order, self.order, pieces, **where)


@dataclass(frozen=True)
class _Pieces:
    """Which bags of which partitions make a new one.

    Attributes
    ----------
    bags : dict of int to ndarray of int64
        Of each partition, positions of bags in it.
    order : ndarray of int64 of shape (n_bags,)
        Where each bag is, when the pieces stand one after the other.
    """

    bags: dict[int, NDArray[np.int64]]
    order: NDArray[np.int64]

    @classmethod
    def of(cls, partition: NDArray[np.int64], position: NDArray[np.int64]) -> _Pieces:
        """Sort the bags of a new partition by the partition they come from."""
        bags = {int(p): position[partition == p] for p in np.unique(partition)}
        return cls(bags, np.argsort(np.argsort(partition, kind="stable"), kind="stable"))

    def loader(self, loaders: list[Loader], sizes: NDArray[np.int64]) -> Loader:
        """What loads them again, after a loss."""
        pieces = [
            loaders[p] if _is_all(chosen, sizes[p]) else loaders[p].then(partial(_take, chosen))
            for p, chosen in self.bags.items()
        ]
        return pieces[0] if len(pieces) == 1 else _Joined(pieces, self.order)

    def submit(
        self,
        client: Any,
        futures: list[Any],
        places: list[dict[str, Any]],
        sizes: NDArray[np.int64],
    ) -> tuple[Any, str | None]:
        """Make them of partitions that workers hold; returns the future and its worker."""
        pieces = [
            futures[p]
            if _is_all(chosen, sizes[p])
            else connection.submit(client, _take, chosen, futures[p], **places[p])
            for p, chosen in self.bags.items()
        ]
        home = places[max(self.bags, key=lambda p: len(self.bags[p]))]
        if len(pieces) > 1:
            return connection.submit(client, _in_order, self.order, pieces, **home), _first(home)
        return pieces[0], _first(home)


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
        npartitions = max(1, len(connection.worker_addresses(client)))
    if npartitions < 1 or len(offsets) < 2:
        raise InputError(f"{len(offsets) - 1} bags cannot be cut into {npartitions} partitions.")
    return block_bounds(offsets, npartitions)


def _loader(client: Any, bags: Bags) -> Loader:
    mapped = _mapped_rows(bags)
    if mapped is not None and _all_see(client, mapped):
        return Loader(mapped.load, on_worker=True)
    return Loader(lambda: bags, on_worker=False)


def _all_see(client: Any, mapped: _MappedRows) -> bool:
    return all(seen is True for seen in client.run(mapped.is_visible, on_error="return").values())


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


def _first(where: dict[str, Any]) -> str | None:
    return next(iter(where.get("workers", ())), None)


def _is_all(chosen: NDArray[np.int64], n_bags: int) -> bool:
    return bool(np.array_equal(chosen, np.arange(n_bags)))


def _take(chosen: NDArray[np.int64], bags: Bags) -> Bags:
    return bags[chosen]


def _bag_at(i: int, bags: Bags) -> Any:
    return bags[i]


def _in_order(order: NDArray[np.int64], pieces: list[Bags]) -> Bags:
    """Pieces one after the other, then in an order."""
    sizes = np.concatenate([piece.sizes for piece in pieces])
    ids = None if pieces[0].ids is None else np.concatenate([piece.ids for piece in pieces])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return _joined(offsets, ids, pieces[0].feature_names, *pieces)[order]


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


def _aligned(value: Any) -> Any:
    """The same value with its arrays at addresses that are multiples of their item size.

    An array that was sent to another process may lie anywhere. BLAS kernels without AVX, and
    compiled code of scikit-learn that calls them, crash on such arrays.
    """
    if isinstance(value, np.ndarray):
        return value if value.flags.aligned else value.copy()
    if isinstance(value, tuple | list):
        items = [_aligned(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: _aligned(item) for key, item in value.items()}
    if sparse.issparse(value) and not value.data.flags.aligned:
        return value.copy()
    if isinstance(value, Bags):
        rows = _aligned(value.instances)
        same = rows is value.instances
        return value if same else value.with_instances(rows, feature_names=value.feature_names)
    return value


class _Sent:
    """A function for workers, whose arrays are aligned where it arrives.

    Dask sends arrays beside the pickle of what holds them, and they stay where they arrived. Here
    they are part of the pickle, and NumPy gives them memory of their own.

    Parameters
    ----------
    function : callable
        The function, with all that it refers to: a fitted model, for example.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        pickled = import_extra("cloudpickle", extra="dask").dumps(self.function, protocol=4)
        return _received, (pickled,)


def _received(pickled: bytes) -> _Sent:
    return _Sent(pickle.loads(pickled))


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
        return "done", function(*_aligned(args))
    except Exception as error:
        return "failed", error


def _unpack(answer: tuple[str, Any]) -> Any:
    status, value = answer
    if status == "lost":
        raise WorkerLostError("a worker was lost, and with it the state of its part.")
    if status == "failed":
        raise value
    return value
