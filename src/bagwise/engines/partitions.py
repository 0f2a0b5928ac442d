"""Partitions of whole bags on the workers of a Dask cluster, and loaders to restore them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.types import Array, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.engines import connection
from bagwise.engines.connection import SentFunction, call_guarded, copied, retry_work, unpack

Made = tuple[Any, str | None]  # a future of bags, and the worker that computes it


class Partitions:
    """Bags on workers, in partitions of whole bags.

    Parameters
    ----------
    client : distributed.Client
        The Dask cluster.
    loaders : list of Loader
        The loader of each partition.
    bounds : ndarray of shape (n_partitions + 1,)
        The first bag of each partition, and the number of bags.
    made : list of (Future, str), default=None
        The partitions and the worker of each, if they already exist.
    """

    def __init__(
        self, client: Any, loaders: list[Loader], bounds: Ints, made: list[Made] | None = None
    ) -> None:
        self.client, self.loaders, self.bounds = client, loaders, bounds
        made = [(None, None)] * len(loaders) if made is None else made
        self.futures: list[Any] = [future for future, _ in made]
        self._workers = [worker for _, worker in made]
        if None in self.futures:
            self.restore()

    def __len__(self) -> int:
        return len(self.loaders)

    def map(self, function: Callable[[Bags], Any], *, only: int | None = None) -> list[Any]:
        """Call a function with the bags of each partition, or of one, on its worker.

        Parameters
        ----------
        function : callable
            Takes `Bags`.
        only : int, default=None
            One partition instead of all.

        Returns
        -------
        list
            One result per partition, in the order of the bags.
        """
        chosen = slice(None) if only is None else slice(only, only + 1)
        sent = SentFunction(function)

        def submit() -> tuple[list[Any], set[str]]:
            places = self.places()[chosen]
            calls = [
                connection.submit(self.client, call_guarded, sent, future, **where)
                for future, where in zip(self.futures[chosen], places, strict=True)
            ]
            return calls, workers_in(places)

        return self._results(submit)

    def map_tasks(
        self, function: Callable[[list[Bags], list[Any]], Any], tasks: Sequence[Any]
    ) -> list[Any]:
        """Distribute tasks over all workers; each call gets all partitions and some of the tasks.

        Each worker that gets tasks fetches the partitions of the others.

        Parameters
        ----------
        function : callable
            Takes a list of `Bags` and a list of tasks.
        tasks : sequence
            The tasks.

        Returns
        -------
        list
            One result per run of tasks, in order.
        """
        sent = SentFunction(function)

        def submit() -> tuple[list[Any], set[str]]:
            workers = connection.workers_of(self.client)
            runs = np.array_split(np.arange(len(tasks)), min(len(tasks), len(workers)))
            self.wait()
            calls = [
                connection.submit(
                    self.client, call_guarded, sent, self.futures, [tasks[i] for i in run],
                    workers=[worker], allow_other_workers=True,
                )
                for run, worker in zip(runs, workers, strict=False)
            ]  # fmt: skip
            return calls, set(workers)

        return self._results(submit)

    def _results(self, submit: Callable[[], tuple[list[Any], set[str]]]) -> list[Any]:
        """Results of tasks, which are submitted again if a worker is lost."""
        found = retry_work(lambda: connection.results(self.client, *submit()), self.restore)
        return [unpack(result) for result in found]

    def transformed(self, function: Callable[[Bags], Bags]) -> Partitions:
        """Bags with other instances, computed and kept on the workers.

        Parameters
        ----------
        function : callable
            Maps bags to the same bags with other instances.

        Returns
        -------
        Partitions
        """
        sent = SentFunction(function)

        def submit() -> list[Made]:
            return [
                (connection.submit(self.client, sent, future, **where), _first_worker(where))
                for future, where in zip(self.futures, self.places(), strict=True)
            ]

        loaders = [loader.then(sent) for loader in self.loaders]
        return Partitions(self.client, loaders, self.bounds, retry_work(submit, self.restore))

    def take(self, bags: Ints, bounds: Ints) -> Partitions:
        """Select bags into new partitions; bags in the order of the partitions are not moved.

        Parameters
        ----------
        bags : ndarray of int64
            Positions of bags, in the new order.
        bounds : ndarray of shape (n_partitions + 1,)
            Boundaries of the new partitions in `bags`.

        Returns
        -------
        Partitions
        """
        source = self.source_of(bags)
        pieces = [
            _Pieces.of(source[a:b], bags[a:b] - self.bounds[source[a:b]])
            for a, b in pairwise(bounds.tolist())
        ]
        n_bags = np.diff(self.bounds)

        def submit() -> list[Made]:
            places = self.places()
            return [each.submit(self.client, self.futures, places, n_bags) for each in pieces]

        loaders = [each.loader(self.loaders, n_bags) for each in pieces]
        return Partitions(self.client, loaders, bounds, retry_work(submit, self.restore))

    def source_of(self, bags: Any) -> Any:
        """The partition of each bag."""
        return np.searchsorted(self.bounds, bags, side="right") - 1

    def wait(self) -> None:
        """Wait until workers hold all partitions."""
        requested = {worker for worker in self._workers if worker}
        connection.wait(self.client, self.futures, requested)

    def places(self) -> list[dict[str, Any]]:
        """Wait for all partitions; return options of ``Client.submit`` that send work to each."""
        self.wait()
        return [
            {"workers": workers, "allow_other_workers": True} if workers else {}
            for workers in connection.holders_of(self.client, self.futures)
        ]

    def restore(self) -> None:
        """Reload partitions that no worker holds any more."""
        retry_work(self._restore, lambda: None)

    def _restore(self) -> None:
        workers = connection.workers_of(self.client)
        present = [f for f in self.futures if f is not None and f.status == "finished"]
        held = connection.holders_of(self.client, present)
        safe = {future.key for future, where in zip(present, held, strict=True) if where}
        for i, loader in enumerate(self.loaders):
            if self.futures[i] is None or self.futures[i].key not in safe:
                worker = workers[i % len(workers)]
                self._workers[i], self.futures[i] = worker, loader.put(self.client, worker)


class Loader:
    """Loads the bags of one partition onto a worker.

    Parameters
    ----------
    load : callable
        Takes no arguments and returns the bags.
    on_worker : bool
        Whether the worker calls `load`; otherwise the bags are sent from this process.
    """

    def __init__(self, load: Callable[[], Bags], *, on_worker: bool) -> None:
        self.load, self.on_worker = load, on_worker

    steps: tuple[Callable[[Bags], Bags], ...] = ()

    def then(self, function: Callable[[Bags], Bags]) -> Loader:
        """Return a loader with one more step, which runs on the worker."""
        longer = copy(self)
        longer.steps = (*self.steps, function)
        return longer

    def put(self, client: Any, worker: str) -> Any:
        """Create a future of the bags on a worker."""
        where = {"workers": [worker], "allow_other_workers": True}
        future = self._loaded(client, worker, where)
        for step in self.steps:
            future = connection.submit(client, step, future, **where)
        return future

    def _loaded(self, client: Any, worker: str, where: dict[str, Any]) -> Any:
        """A future of the bags before the steps."""
        if self.on_worker:
            return connection.submit(client, self.load, **where)
        bags = self.load()

        def scatter() -> Any:
            return client.scatter(bags, workers=[worker], hash=False, asynchronous=True)

        sent = connection.await_reply(client, scatter, [worker])
        return connection.submit(client, copied, sent, **where)


class _JoinedLoader(Loader):
    """Loads bags of several partitions, joined in a new order.

    Parameters
    ----------
    pieces : list of Loader
        The bags of each partition.
    order : ndarray of int64 of shape (n_bags,)
        Position of each bag in the concatenated pieces.
    """

    def __init__(self, pieces: list[Loader], order: Ints) -> None:
        self.pieces, self.order = pieces, order

    on_worker = True

    def _loaded(self, client: Any, worker: str, where: dict[str, Any]) -> Any:
        pieces = [loader.put(client, worker) for loader in self.pieces]
        return connection.submit(client, _in_order, self.order, pieces, **where)


@dataclass(frozen=True)
class _Pieces:
    """The bags of existing partitions that form a new partition.

    Attributes
    ----------
    bags : dict of int to ndarray of int64
        Positions of the bags in each existing partition.
    order : ndarray of int64 of shape (n_bags,)
        Position of each bag in the concatenated pieces.
    """

    bags: dict[int, Ints]
    order: Ints

    @classmethod
    def of(cls, partition: Ints, position: Ints) -> _Pieces:
        """Sort the bags of a new partition by the partition they come from."""
        bags = {int(p): position[partition == p] for p in np.unique(partition)}
        return cls(bags, np.argsort(np.argsort(partition, kind="stable"), kind="stable"))

    def loader(self, loaders: list[Loader], n_bags: Ints) -> Loader:
        """The loader of the new partition, for use after a loss."""
        pieces = [
            loaders[p] if _is_all(chosen, n_bags[p]) else loaders[p].then(partial(_take, chosen))
            for p, chosen in self.bags.items()
        ]
        return pieces[0] if len(pieces) == 1 else _JoinedLoader(pieces, self.order)

    def submit(
        self, client: Any, futures: list[Any], places: list[dict[str, Any]], n_bags: Ints
    ) -> Made:
        """Create the new partition from partitions that workers hold."""
        pieces = [
            futures[p]
            if _is_all(chosen, n_bags[p])
            else connection.submit(client, _take, chosen, futures[p], **places[p])
            for p, chosen in self.bags.items()
        ]
        largest = places[max(self.bags, key=lambda p: len(self.bags[p]))]
        if len(pieces) == 1:
            return pieces[0], _first_worker(largest)
        together = connection.submit(client, _in_order, self.order, pieces, **largest)
        return together, _first_worker(largest)


def workers_in(places: list[dict[str, Any]]) -> set[str]:
    """Workers that are named in options of ``Client.submit``.

    Parameters
    ----------
    places : list of dict
        The result of `Partitions.places`.

    Returns
    -------
    set of str
    """
    return {worker for where in places for worker in where.get("workers", ())}


def joined(
    offsets: Ints, ids: Array | None, feature_names: list[str] | None, partitions: list[Bags]
) -> Bags:
    """Concatenate the bags of several partitions.

    Parameters
    ----------
    offsets, ids, feature_names : object
        Attributes of the result.
    partitions : list of Bags
        The partitions.

    Returns
    -------
    Bags
    """
    tables = [bags.instances for bags in partitions]
    in_csr = sparse.issparse(tables[0])
    rows = sparse.vstack(tables, format="csr") if in_csr else np.concatenate(tables)
    return Bags(rows, offsets, ids, feature_names=feature_names)


def _first_worker(where: dict[str, Any]) -> str | None:
    return next(iter(where.get("workers", ())), None)


def _is_all(chosen: Ints, n_bags: int) -> bool:
    return bool(np.array_equal(chosen, np.arange(n_bags)))


def _take(chosen: Ints, bags: Bags) -> Bags:
    return bags[chosen]


def _in_order(order: Ints, pieces: list[Bags]) -> Bags:
    """Concatenate pieces and reorder their bags."""
    sizes = np.concatenate([piece.sizes for piece in pieces])
    ids = None if pieces[0].ids is None else np.concatenate([piece.ids for piece in pieces])
    offsets = offsets_of(sizes)
    return joined(offsets, ids, pieces[0].feature_names, pieces)[order]
