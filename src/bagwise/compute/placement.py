"""Dispatch on the location of the bags: in this process, on a device or on Dask workers.

Only this package compares ``bags.where``; other packages call these functions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from bagwise.bags import Bags
from bagwise.compute.arrays import stacked
from bagwise.compute.blocks import bag_blocks, in_blocks
from bagwise.compute.parts import Parts
from bagwise.compute.tensors import free_memory
from bagwise.exceptions import InputError

Result = TypeVar("Result")
State = TypeVar("State")


def is_here(bags: Bags) -> bool:
    """Whether the instances are arrays in this process: numpy, memory-mapped or sparse."""
    return bags.where in ("local", "mapped")


def bytes_in_file(bags: Bags) -> int:
    """Size in bytes of instances in a memory-mapped file; 0 if they are elsewhere."""
    return bags.n_instances * bags.n_features * bags.dtype.itemsize if bags.is_mapped else 0


def check_place(bags: Bags, name: str, allowed: Sequence[str]) -> Bags:
    """Raise an error if a model cannot use bags where they are; convert tensors to float.

    Tensors of 8-bit and 16-bit numbers become float32, which represents them exactly.

    Parameters
    ----------
    bags : Bags
        The bags, not in this process.
    name : str
        The name of the model.
    allowed : sequence of {"device", "cluster"}
        Locations that the model supports besides this process.

    Returns
    -------
    Bags
    """
    on_device = bags.where == "device"
    if bags.where not in allowed:
        way = "bags.to('numpy')" if on_device else "bags.collect()"
        place = f"on {bags.device}" if on_device else "on a cluster"
        raise InputError(f"bags are {place}; {name} works on arrays in this process: use {way}.")
    if on_device and (not bags.instances.is_floating_point() or bags.instances.element_size() < 4):
        table = bags.instances
        rows = table.float() if table.element_size() <= 2 else table.double()
        return bags.with_instances(rows, feature_names=bags.feature_names)
    return bags


def check_each(check: Callable[..., None], bags: Bags) -> None:
    """Call a function that validates bags, on the workers if the bags are distributed.

    Parameters
    ----------
    check : callable
        ``check(bags, whole=...)``; ``whole`` is False if it gets one partition of the bags.
    bags : Bags
        The bags.
    """
    if bags.where == "cluster":
        bags.map(partial(check, whole=False))  # type: ignore[attr-defined]
    else:
        check(bags, whole=True)


def memory_of_parts(bags: Bags) -> float | None:
    """Free memory of the device in bytes; infinity on Dask workers, None in this process."""
    if bags.where == "cluster":
        return np.inf
    return free_memory(bags.instances.device) if bags.where == "device" else None


def place(bags: Bags, part: type[Any], *per_bag: Any, **options: Any) -> Parts:
    """Create the parts of a solver where the bags are.

    Parameters
    ----------
    bags : Bags
        The bags: arrays, tensors, or distributed.
    part : class
        A `Part`; ``part(bags, *per_bag, **options)`` creates the part of a block of bags.
    *per_bag : object
        Arrays with a row per bag, and other values that a slice of bags partitions.
    **options : object
        Keyword arguments of every part.

    Returns
    -------
    Parts
        To be used in a ``with`` statement, which removes the parts from the workers at its end.
    """
    if bags.where == "cluster":
        from bagwise.compute.dask import DaskParts, DistributedBags

        return DaskParts(cast("DistributedBags", bags), part, per_bag, options)
    if bags.where == "device":
        part = part.tensor_part
        if part is None:
            raise InputError("this model has no code for torch tensors: use bags.to('numpy').")
    return Parts(part(bags, *per_bag, **options))


def over_partitions(function: Callable[[Bags], Any], bags: Bags) -> Any:
    """Compute values per bag or per instance where the bags are, and collect them.

    Instances in a file, or chosen from a larger table, are read in blocks of whole bags.

    Parameters
    ----------
    function : callable
        Takes bags and returns an array or CSR with a row per bag or per instance.
    bags : Bags
        The bags.

    Returns
    -------
    ndarray or CSR
    """
    if in_blocks(bags):
        return stacked([function(bags[block]) for block in bag_blocks(bags)])
    return stacked(each_partition(function, bags))


def each_partition(function: Callable[[Bags], Result], bags: Bags) -> list[Result]:
    """Compute a small result for each partition on its worker; one for bags in this process.

    Parameters
    ----------
    function : callable
        Takes bags.
    bags : Bags
        The bags.

    Returns
    -------
    list
        One result per partition.
    """
    if bags.where == "cluster":
        return bags.map(function)  # type: ignore[attr-defined]
    return [function(bags)]


def over_blocks(
    function: Callable[[Bags], Any], bags: Bags, blocks: Iterable[tuple[slice, slice]]
) -> Iterator[Any]:
    """Compute values per instance, block by block; Dask workers compute all blocks at once.

    Parameters
    ----------
    function : callable
        Takes bags and returns an array with a row per instance.
    bags : Bags
        The bags.
    blocks : iterable of (slice, slice)
        Bags and their instances.

    Yields
    ------
    ndarray
        The rows of each block.
    """
    if bags.where == "cluster":
        everything = over_partitions(function, bags)
        yield from (everything[rows] for _, rows in blocks)
    else:
        yield from (function(bags[chosen]) for chosen, _ in blocks)


def map_bags(function: Callable[[Bags], Any], bags: Bags) -> Any:
    """Replace the instances of bags; on Dask workers the result stays there.

    Parameters
    ----------
    function : callable
        Maps bags to the same bags with other instances.
    bags : Bags
        The bags.

    Returns
    -------
    Bags
    """
    if bags.where == "cluster":
        return bags.transformed(function)  # type: ignore[attr-defined]
    return function(bags)


def fold_bags(function: Callable[[State, Bags], State], state: State, bags: Bags) -> State:
    """Pass a small state through the bags: one partition after the other on Dask workers.

    Parameters
    ----------
    function : callable
        ``function(state, bags)`` gives the next state.
    state : object
        The first state.
    bags : Bags
        The bags.

    Returns
    -------
    object
        The last state.
    """
    if bags.where == "cluster":
        return bags.fold(function, state)  # type: ignore[attr-defined]
    return function(state, bags)
