"""Bags and parts on the workers of a Dask cluster, as futures.

A future of Dask has a lineage: if its worker is lost, Dask computes it again on another one, from
the file or from the copy of the bags that the scheduler keeps. A part changes in each iteration, so
its state is collected now and then, and its lineage begins again from there.
"""

import pickle
from collections.abc import Callable
from copy import copy
from functools import partial
from itertools import pairwise
from operator import getitem
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import numpy as np

from bagwise._common.extras import import_extra
from bagwise._common.tables import ConvertedTable, Source, StreamedTable, float_type
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags, offsets_of, taken
from bagwise.compute.arrays import add, is_tensor, stacked
from bagwise.compute.mapped import origin_of
from bagwise.compute.parts import Parts, digest
from bagwise.exceptions import InputError
from bagwise.loops.threads import block_bounds

FAN = 8  # largest number of results that are added in one process
KEPT = 100  # changes of the parts after which their state is collected


class About(NamedTuple):
    """What this process knows of distributed bags: all but the instances.

    Attributes
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    features : tuple (n_features, dtype)
        Number and type of the features.
    ids : ndarray of shape (n_bags,) or None
        Names of the bags.
    feature_names : list of str or None
        Names of the columns.
    """

    offsets: Ints
    features: tuple[int, Any]
    ids: Array | None
    feature_names: list[str] | None

    def joined(self, partitions: list[Bags]) -> Bags:
        """Concatenate the bags of several partitions."""
        rows = stacked([bags.instances for bags in partitions])
        return Bags(rows, self.offsets, self.ids, feature_names=self.feature_names)


class DistributedBags(Bags):
    """Bags with offsets, ids and names in this process and instances in partitions on workers.

    Created by `Bags.distribute` or `read_bags` with a client.

    Parameters
    ----------
    client : distributed.Client
        The Dask cluster.
    futures : list of Future
        The bags of each partition.
    bounds : ndarray of shape (n_partitions + 1,)
        The first bag of each partition, and the number of bags.
    about : About
        All but the instances.
    """

    def __init__(self, client: Any, futures: list[Any], bounds: Ints, about: About) -> None:
        self.client, self.futures, self.bounds, self.about = client, futures, bounds, about
        offsets, (n_features, dtype), self._ids, self._feature_names = about
        table = SimpleNamespace(shape=(int(offsets[-1]), n_features), dtype=np.dtype(dtype))
        self._source = Source(table, offsets)
        client.gather(client.map(len, futures, pure=False))  # raises the errors of the workers

    @property
    def where(self) -> str:
        """Location of the instances: the workers of a Dask cluster."""
        return "cluster"

    @property
    def instances(self) -> NoReturn:
        """Not available in this process: raises InputError."""
        raise InputError(
            "this runs in one process, and the bags are on a cluster: use bags.collect()."
        )

    @property
    def npartitions(self) -> int:
        """Number of partitions."""
        return len(self.futures)

    def collect(self) -> Bags:
        """Bring all instances into this process.

        Returns
        -------
        Bags
        """
        bags = self.about.joined(self.client.gather(self.futures))
        return self._same_bags(bags)

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
        return self.client.gather(self._mapped(function))

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
        for future in self.futures:
            work = _packed(partial(function, state))
            state = self._submit(_apply, future, work).result()
        return state

    def transformed(self, function: Callable[[Bags], Bags]) -> "DistributedBags":
        """Bags with other columns, computed and kept on the workers.

        Parameters
        ----------
        function : callable
            Maps bags to the same bags with other instances.

        Returns
        -------
        DistributedBags
        """
        first = _packed(lambda bags: function(bags[:1]))
        sample = self._submit(_apply, self.futures[0], first).result()
        features = sample.n_features, sample.dtype
        about = self.about._replace(features=features, feature_names=sample.feature_names)
        bags = DistributedBags(self.client, self._mapped(function), self.bounds, about)
        self._same_bags(bags)
        return bags

    def _mapped(self, function: Callable[[Bags], Any]) -> list[Any]:
        calls = [_packed(function)] * self.npartitions
        return self.client.map(_apply, self.futures, calls, pure=False)

    def _gather(self, key: Ints) -> Bags:
        ids = None if self._ids is None else self._ids[key]
        about = self.about._replace(offsets=offsets_of(self.sizes[key]), ids=ids)
        if not len(key):
            return about.joined([Bags(np.empty((0, self.n_features), self.dtype), [0])])
        source = np.searchsorted(self.bounds, key, side="right") - 1
        changes = np.diff(source)
        if np.all(changes >= 0):  # in the order of the partitions: no bag changes its worker
            bounds = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(key)]])
        else:
            bounds = block_bounds(about.offsets, self.npartitions)
        futures = [self._taken(key[a:b], source[a:b]) for a, b in pairwise(bounds.tolist())]
        bags = DistributedBags(self.client, futures, bounds, about)
        order, starts, n_rows = self._origin or (None, self.offsets, self.n_instances)
        bags._origin = order, starts[key], n_rows
        bags._columns, bags._group = taken(self._columns, key), self._group
        return bags

    def _taken(self, key: Ints, source: Ints) -> Any:
        """A future of some bags, from one or several partitions."""
        pieces = []
        for i in np.unique(source):
            chosen, n_bags = key[source == i] - self.bounds[i], np.diff(self.bounds)[i]
            is_all = np.array_equal(chosen, np.arange(n_bags))
            future = self.futures[i]
            pieces.append(future if is_all else self._submit(getitem, future, chosen))
        if len(pieces) == 1:
            return pieces[0]
        order = np.argsort(np.argsort(source, kind="stable"), kind="stable")
        return self._submit(_in_order, pieces, order)

    def _one(self, i: int) -> Any:
        source = np.searchsorted(self.bounds, [i], side="right") - 1
        return self._taken(np.array([i]), source).result()[0]

    def _submit(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return self.client.submit(function, *args, pure=False, **options)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, npartitions={self.npartitions})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("distributed bags cannot be pickled: use bags.collect().")


class DaskParts(Parts):
    """One part per partition, as a future that each change replaces.

    Only the newest future of a part is kept, and each has one successor: a part may change its
    arrays in place. The results of many parts are added in a tree.

    Parameters
    ----------
    bags : DistributedBags
        The bags.
    part : class
        The class of the parts.
    per_bag : tuple
        Arrays with a row per bag and the like, partitioned like the bags.
    options : dict
        Keyword arguments of every part.
    """

    def __init__(
        self,
        bags: DistributedBags,
        part: type[Any],
        per_bag: tuple[Any, ...],
        options: dict[str, Any],
    ) -> None:
        self._bags, self._client = bags, bags.client
        made = [
            _packed((part, [each[i:j] for each in per_bag], options))
            for i, j in pairwise(bags.bounds.tolist())
        ]
        self._held = self._first = self._client.map(_begin, bags.futures, made, pure=False)
        self._n_changes = 0

    def each(self, method: str, *args: Any) -> list[Any]:
        """Call a method of every part and collect the results, in the order of the bags."""
        return self._client.gather(self._call(_read, method, args))

    def total(self, method: str, *args: Any) -> Any:
        """Call a method of every part and add up the results, in a tree if there are many parts."""
        return self._added(self._call(_read, method, args))

    def step(self, method: str, *args: Any) -> Any:
        """Call a method that changes every part, and add up the results."""
        self.do(method, *args)
        return self._added(self._client.map(_result, self._held, pure=False))

    def do(self, method: str, *args: Any, own: list[Any] | None = None) -> None:
        """Call a method of every part for its effect on the state of the part."""
        self._held = self._call(_change, method, args, own)
        self._n_changes += 1

    def hold(self) -> None:
        """Begin a loop: from here on, `state` has all that changes."""
        self._first = self._held
        self._held = self._client.map(_fork, self._bags.futures, self._first, pure=False)
        self._n_changes = 0

    def renew(self) -> None:
        """Begin the lineage of all parts again if it has become long."""
        if self._n_changes >= KEPT:
            states = [_packed(state) for state in self.each("state")]
            futures = self._bags.futures, self._first, states
            self._held, self._n_changes = self._client.map(_fork, *futures, pure=False), 0

    def release(self) -> None:
        """Remove the parts from the workers."""
        self._held = self._first = []

    def _call(
        self, task: Any, method: str, args: tuple[Any, ...], own: list[Any] | None = None
    ) -> list[Any]:
        calls = [_packed((method, args))] * len(self._held)
        if own is not None:
            calls = [_packed((method, (value, *args))) for value in own]
        # The bags are not used, but tell Dask which worker is near.
        return self._client.map(task, self._bags.futures, self._held, calls, pure=False)

    def _added(self, futures: list[Any]) -> Any:
        while len(futures) > FAN:
            groups = [futures[i : i + FAN] for i in range(0, len(futures), FAN)]
            futures = self._client.map(add, groups, pure=False)
        return add(self._client.gather(futures))


class _Held(NamedTuple):
    """A part, and the result of the call that changed it."""

    part: Any
    result: Any = None


def _begin(bags: Bags, made: bytes) -> _Held:
    part, per_bag, options = pickle.loads(made)
    return _Held(part(bags, *per_bag, **options))


def _read(bags: Bags, held: _Held, call: bytes) -> Any:
    method, args = pickle.loads(call)
    return getattr(held.part, method)(*args)


def _change(bags: Bags, held: _Held, call: bytes) -> _Held:
    return _Held(held.part, _read(bags, held, call))


def _result(held: _Held) -> Any:
    return held.result


def _fork(bags: Bags, held: _Held, state: bytes | None = None) -> _Held:
    """A part that shares with another one only what does not change."""
    part = copy(held.part)
    kept = _packed(part.state()) if state is None else state
    part.restore(pickle.loads(kept))
    return _Held(part)


def _apply(bags: Bags, function: bytes) -> Any:
    return pickle.loads(function)(bags)


def _packed(value: Any) -> bytes:
    """Pickle a value as a whole: NumPy then allocates the memory of its arrays.

    Dask sends arrays separately, and they stay in the buffer that received them, at any address.
    BLAS routines without AVX, and compiled code, need aligned ones.
    """
    return import_extra("cloudpickle", extra="dask").dumps(value, protocol=4)


def _in_order(pieces: list[Bags], order: Ints) -> Bags:
    """Concatenate pieces and reorder their bags."""
    offsets = offsets_of(np.concatenate([piece.sizes for piece in pieces]))
    ids = None if pieces[0].ids is None else np.concatenate([piece.ids for piece in pieces])
    return About(offsets, (0, None), ids, pieces[0].feature_names).joined(pieces)[order]


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

    def load(start: int, stop: int, ids: Any) -> Callable[[], Bags]:
        return partial(_as_floats, dtype, _to_send(client, bags[start:stop]))

    dtype = bags.dtype if bags.dtype in (np.float32, np.float64) else float_type(bags.dtype)
    about = bags.offsets, (bags.n_features, dtype), bags.ids, bags.feature_names
    distributed = load_on_workers(client, npartitions, load, *about)
    return distributed.with_columns(bags.columns, groups=bags.group_name)


def load_on_workers(
    client: Any, npartitions: int | None, loader: Callable[..., Callable[[], Bags]], *fields: Any
) -> DistributedBags:
    """Distributed bags whose partitions are made by the workers.

    Parameters
    ----------
    client : distributed.Client
        The Dask cluster.
    npartitions : int or None
        Number of partitions; one per worker by default.
    loader : callable
        ``loader(start, stop, ids)()`` makes some of the bags on a worker.
    *fields : object
        The fields of `About`.

    Returns
    -------
    DistributedBags
    """
    about = About(*fields)
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    n = max(1, len(workers)) if npartitions is None else npartitions
    if n < 1 or len(about.offsets) < 2:
        raise InputError(f"{len(about.offsets) - 1} bags cannot be cut into {n} partitions.")
    bounds, futures = block_bounds(about.offsets, n), []
    options = {"pure": False, "allow_other_workers": bool(workers)}
    for i, (a, b) in enumerate(pairwise(bounds.tolist())):
        load = _packed(loader(a, b, None if about.ids is None else about.ids[a:b]))
        where = [workers[i % len(workers)]] if workers else None
        futures.append(client.submit(_load, load, workers=where, **options))
    return DistributedBags(client, futures, bounds, about)


def _load(load: bytes) -> Bags:
    return pickle.loads(load)()


def _as_floats(dtype: Any, bags: Bags) -> Bags:
    """The bags with values of a float type."""
    if bags.dtype == dtype:
        return bags
    if bags.is_mapped:  # converted when rows are read
        return bags.with_source(ConvertedTable(bags.source), feature_names=bags.feature_names)
    return bags.with_instances(bags.instances.astype(dtype), feature_names=bags.feature_names)


def _to_send(client: Any, bags: Bags) -> Bags:
    """The same bags; those in a file that all workers see are pickled as a position in it."""
    table = bags.instances
    if isinstance(bags.source, StreamedTable):  # read in this process
        return bags[:].with_instances(table, feature_names=bags.feature_names)
    origin = origin_of(table)
    path = getattr(origin, "filename", None)
    if path is None or not table.flags.c_contiguous or not Path(path).exists():
        return bags
    position = table.__array_interface__["data"][0] - origin.__array_interface__["data"][0]
    about = About(bags.offsets, (bags.n_features, table.dtype), bags.ids, bags.feature_names)
    # The path is not resolved: a temporary file has only this one.
    rows = str(Path(path).absolute()), int(origin.offset + position), about, digest(bags)
    seen = client.run(_mapped_rows, *rows, on_error="return").values()
    return _mapped_rows(*rows) if all(isinstance(each, Bags) for each in seen) else bags


class _FileBags(Bags):
    """Bags that are pickled as the position of their rows in a file."""

    in_file: tuple[Any, ...]

    def __reduce__(self) -> Any:
        return _mapped_rows, self.in_file


def _mapped_rows(path: str, position: int, about: About, sample: str) -> Bags:
    """Map rows of a file; refuse a file with another digest than `sample`."""
    offsets, (n_features, dtype), ids, names = about
    try:
        table = np.memmap(path, dtype, "r", position, (offsets[-1], n_features))
        bags = _FileBags(table, offsets, ids, feature_names=names)
        is_same = digest(bags) == sample
    except ValueError:  # the file is too short
        is_same = False
    if not is_same:
        raise InputError(
            f"{path} has changed since it was mapped: map it again, and distribute the bags again."
        )
    bags.in_file = path, position, about, sample
    return bags
