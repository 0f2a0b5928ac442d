"""The parts of a solver on Dask workers, as actors beside the bags."""

from concurrent.futures import CancelledError
from typing import Any

from bagwise._types import Array
from bagwise.bags import Bags
from bagwise.engines import connection
from bagwise.engines.losses import retry_work
from bagwise.engines.partitions import Partitions, workers_in
from bagwise.engines.parts import Parts
from bagwise.engines.sending import LOST, aligned, call_guarded, unpack
from bagwise.exceptions import WorkerLostError

# What Dask raises when the worker of an actor is gone. No error of a part is among them: those
# come back as values.
_ACTOR_ERRORS = (OSError, RuntimeError, ValueError, KeyError, CancelledError)


class DaskParts(Parts):
    """One part per partition, on the worker that holds the partition.

    An actor that was lost comes back without its state; a counter of calls shows that.

    Parameters
    ----------
    partitions : Partitions
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

    def rebuild(self) -> None:
        """Make all parts anew, without state, after one was lost."""
        self.partitions.restore()
        retry_work(self._make, self.partitions.restore)

    def release(self) -> None:
        """Remove the parts from the workers."""
        connection.cancel(self.partitions.client, self._futures)
        self._actors, self._futures = [], []

    def _make(self) -> None:
        client, bounds = self.partitions.client, self.partitions.bounds
        places = self.partitions.holders()
        futures = []
        for i, where in enumerate(places):
            cut = [array[bounds[i] : bounds[i + 1]] for array in self.per_bag]
            arguments = self.part, self.partitions.futures[i], cut, self.options
            futures.append(connection.submit(client, _Actor, *arguments, actor=True, **where))
        self._actors = connection.results(client, futures, workers_in(places))
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
            results = connection.actor_results(
                self.partitions.client, calls, self._futures, self._workers
            )
        except WorkerLostError:
            raise
        except _ACTOR_ERRORS as error:
            raise WorkerLostError(f"a worker was lost in {method!r}: {error!r}.") from error
        except BaseException:  # an interrupted fit leaves nothing on the workers
            self.release()
            raise
        self._n_calls += 1
        return [unpack(result) for result in results]


class _Actor:
    """A part on a worker, and how often it was called."""

    def __init__(
        self, part: type[Any], bags: Bags, per_bag: list[Any], options: dict[str, Any]
    ) -> None:
        self.part = part(aligned(bags), *aligned(per_bag), **aligned(options))
        self.n_calls = 0

    def call(self, n_calls: int, method: str, args: tuple[Any, ...]) -> Any:
        if n_calls != self.n_calls:
            return LOST
        self.n_calls += 1
        return call_guarded(getattr(self.part, method), *args)
