"""Parts: blocks of whole bags with their state, in this process, on a device or on Dask workers."""

import asyncio
import hashlib
from concurrent.futures import CancelledError
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from scipy import sparse

from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.engines import connection
from bagwise.engines.arrays import add, to_numpy
from bagwise.engines.connection import LOST, aligned, call_guarded, retry_work, unpack
from bagwise.engines.partitions import Partitions, workers_in
from bagwise.exceptions import WorkerLostError

FAN = 8  # number of parts whose results one part adds to its own

# Errors that Dask raises if the worker of an actor is gone. They are never errors of a part itself,
# which are returned as values.
_ACTOR_ERRORS = (OSError, RuntimeError, ValueError, KeyError, CancelledError)


class Part(Protocol):
    """A block of whole bags with the state that a solver keeps for them.

    ``part(bags, *per_bag, **options)`` creates it from bags with arrays or tensors in its process.
    A solver adds the methods of its algorithm; `Parts` calls them by name. Results that are added
    up are numbers, arrays, or tuples of both.

    Attributes
    ----------
    tensor_part : class or None
        The class for instances that are torch tensors; without one the part runs on the CPU only.
    """

    tensor_part: ClassVar[Any] = None

    def identity(self) -> str:
        """A string that identifies the bags, labels and weights, such as a `digest`.

        A checkpoint of parts with another identity is refused.
        """
        return ""

    def state(self) -> dict[str, Any]:
        """Arrays that change during a fit, by name, for a checkpoint."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`, as numpy arrays; called on a new part."""


class Parts:
    """All parts of a solver: in this process, on a device or on Dask workers.

    A context manager that removes the parts from the workers on exit. A subclass implements `each`.
    """

    def each(self, method: str, *args: Any, own: list[Any] | None = None) -> list[Any]:
        """Call a method of every part and collect the results, in the order of the bags.

        Parameters
        ----------
        method : str
            The name of a method of `Part`, or of the solver's own part.
        *args : object
            Arguments for all parts.
        own : list, default=None
            An additional first argument for each part.

        Returns
        -------
        list
        """
        raise NotImplementedError

    def total(self, method: str, *args: Any) -> Any:
        """Call a method of every part and add up the results."""
        return add(self.each(method, *args))

    def do(self, method: str, *args: Any, own: list[Any] | None = None) -> None:
        """Call a method of every part for its effect on the state of the part."""
        self.each(method, *args, own=own)

    def rebuild(self) -> None:
        """Create all parts again, without state, after a loss; does nothing in one process."""

    def release(self) -> None:
        """Remove the parts from the workers; does nothing in one process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


class LocalParts(Parts):
    """All bags as one part in this process, which uses threads or a device.

    Parameters
    ----------
    part : object
        The part.
    """

    def __init__(self, part: Any) -> None:
        self.part = part

    def each(self, method: str, *args: Any, own: list[Any] | None = None) -> list[Any]:
        """Call the method of the only part."""
        return [getattr(self.part, method)(*(own or ()), *args)]


class DaskParts(Parts):
    """One part per partition, on the worker that holds the partition.

    Dask recreates a lost actor without its state; a counter of calls detects this. Results of many
    parts are added in a tree: a part calls `FAN` others, which call others in turn, and adds their
    results to its own. The client then sends and receives one message.

    Parameters
    ----------
    partitions : Partitions
        The bags.
    part : class
        The class of the parts.
    per_bag : tuple of ndarray
        Arrays with a row per bag, partitioned like the bags.
    options : dict
        Keyword arguments of every part.
    """

    def __init__(
        self,
        partitions: Partitions,
        part: type[Any],
        per_bag: tuple[Array, ...],
        options: dict[str, Any],
    ) -> None:
        self.partitions, self.part = partitions, part
        self.per_bag, self.options = per_bag, options
        self._actors: list[Any] = []
        self._futures: list[Any] = []
        retry_work(self._make, partitions.restore)

    def each(self, method: str, *args: Any, own: list[Any] | None = None) -> list[Any]:
        """Call a method of every part and collect the results, in the order of the bags."""
        if own is None:
            return self._call(method, [args] * len(self._actors))
        return self._call(method, [(value, *args) for value in own])

    def total(self, method: str, *args: Any) -> Any:
        """Call a method of every part and add up the results, in a tree if there are many parts."""
        if len(self._actors) <= FAN:
            return super().total(method, *args)
        return self._call(method, [args], through="total")[0]

    def rebuild(self) -> None:
        """Create all parts again, without state, after a loss."""
        self.release()
        self.partitions.restore()
        retry_work(self._make, self.partitions.restore)

    def release(self) -> None:
        """Remove the parts from the workers."""
        connection.cancel(self.partitions.client, self._futures)
        self._actors, self._futures = [], []

    def _make(self) -> None:
        client, bounds = self.partitions.client, self.partitions.bounds
        places = self.partitions.places()
        futures = []
        for i, where in enumerate(places):
            cut = [array[bounds[i] : bounds[i + 1]] for array in self.per_bag]
            arguments = self.part, self.partitions.futures[i], cut, self.options
            futures.append(connection.submit(client, _Actor, *arguments, actor=True, **where))
        self._actors = connection.results(client, futures, workers_in(places))
        self._futures = futures
        self._workers = {w for held in connection.holders_of(client, futures) for w in held}
        self._n_calls = 0
        if len(self._actors) > FAN:
            below = (self._actors[FAN * i + 1 : FAN * (i + 1) + 1] for i in range(len(futures)))
            self._ask("adopt", [(actors,) for actors in below if actors], "adopt")

    def _call(
        self, method: str, arguments: list[tuple[Any, ...]], *, through: str = "call"
    ) -> list[Any]:
        """Call a method of the first parts, one part per tuple of arguments."""
        if not self._actors:
            raise WorkerLostError("the parts were released.")
        calls = [(self._n_calls, method, args) for args in arguments]
        results = self._ask(through, calls, method)
        self._n_calls += 1
        return [unpack(result) for result in results]

    def _ask(self, name: str, arguments: list[tuple[Any, ...]], method: str) -> list[Any]:
        """Call a method of the first actors and wait; `method` is named in errors."""
        try:
            calls = [
                getattr(actor, name)(*args)
                for actor, args in zip(self._actors, arguments, strict=False)
            ]
            return connection.actor_results(
                self.partitions.client, calls, self._futures[: len(calls)], self._workers
            )
        except WorkerLostError:
            raise
        except _ACTOR_ERRORS as error:
            raise WorkerLostError(f"a worker was lost in {method!r}: {error!r}.") from error


class _Actor:
    """A part on a worker, with a counter of its calls."""

    def __init__(
        self, part: type[Any], bags: Bags, per_bag: list[Any], options: dict[str, Any]
    ) -> None:
        self.part = part(aligned(bags), *aligned(per_bag), **aligned(options))
        self.n_calls = 0
        self.below: list[Any] = []

    def adopt(self, actors: list[Any]) -> None:
        """Keep the actors whose results this one adds to its own."""
        self.below = actors

    async def total(self, n_calls: int, method: str, args: tuple[Any, ...]) -> Any:
        """Call the method here and in the subtree, and add the results in the order of the actors.

        It waits on the event loop of the worker, so that actors of one worker can call each other.
        """
        calls = [actor.total(n_calls, method, args) for actor in self.below]
        own = await asyncio.to_thread(self.call, n_calls, method, args)
        results = [own, *[await call for call in calls]]
        for status, value in results:
            if status != "done":
                return status, value
        return call_guarded(add, [value for _, value in results])

    def call(self, n_calls: int, method: str, args: tuple[Any, ...]) -> Any:
        if n_calls != self.n_calls:
            return LOST
        self.n_calls += 1
        return call_guarded(getattr(self.part, method), *args)


def codes_by_bag(codes: Ints, offsets: Ints) -> sparse.csr_array:
    """Convert codes of few instances to one row per bag, which `place` partitions like the bags.

    Parameters
    ----------
    codes : ndarray of shape (n_instances,)
        A code of each instance, -1 for most.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.

    Returns
    -------
    csr_array of shape (n_bags, largest size)
        Code + 1 at the position of the instance in its bag.
    """
    rows = np.flatnonzero(codes >= 0)
    bag = np.searchsorted(offsets, rows, side="right") - 1
    shape = len(offsets) - 1, int(np.diff(offsets).max(initial=1))
    return sparse.csr_array((codes[rows] + 1, (bag, rows - offsets[bag])), shape=shape)


def codes_of_instances(by_bag: sparse.csr_array, offsets: Ints) -> Ints:
    """Undo `codes_by_bag`.

    Parameters
    ----------
    by_bag : csr_array of shape (n_bags, largest size)
        Rows of `codes_by_bag`.
    offsets : ndarray of shape (n_bags + 1,)
        Where each of these bags begins.

    Returns
    -------
    ndarray of shape (n_instances,)
    """
    codes = np.full(offsets[-1], -1, np.int64)
    bag, row = by_bag.tocoo().coords
    codes[offsets[bag] + row] = by_bag.data - 1
    return codes


def digest(bags: Bags, *arrays: Array) -> str:
    """A hash that identifies bags, computed from offsets, some of the rows, and `arrays`.

    Parameters
    ----------
    bags : Bags
        The bags.
    *arrays : ndarray
        Further arrays, such as labels.

    Returns
    -------
    str
        Empty for bags on Dask workers, whose parts identify themselves.
    """
    if bags.where == "cluster":
        return ""
    rows = np.linspace(0, bags.n_instances - 1, min(bags.n_instances, 256)).astype(np.int64)
    sample = to_numpy(bags.rows(rows))
    sample = sample.toarray() if sparse.issparse(sample) else np.ascontiguousarray(sample)
    found = hashlib.sha256(f"{bags.n_features} {sample.dtype}".encode())
    for array in (sample, bags.offsets, *arrays):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
