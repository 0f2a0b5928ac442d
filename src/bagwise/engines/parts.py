"""Parts: blocks of whole bags with their state, here or on a device."""

import hashlib
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._types import Array, Ints
from bagwise.bags import Bags
from bagwise.engines.arrays import add, to_numpy
from bagwise.engines.mapped import check_mapped_size
from bagwise.exceptions import InputError


class Parts:
    """Blocks of whole bags with the state that a solver keeps for each, wherever the bags are.

    A subclass implements `each` and `rebuild`.
    """

    def each(self, method: str, *args: Any, own: list[Any] | None = None) -> list[Any]:
        """Call a method of every part and collect the results, in the order of the bags.

        Parameters
        ----------
        method : str
            The name of the method.
        *args : object
            Arguments that all parts get.
        own : list, default=None
            One more first argument for each part, different from part to part.

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
        """Make all parts anew, without state, after one was lost."""
        raise NotImplementedError


class LocalParts(Parts):
    """All bags as one part in this process; its threads, or the device, share the work.

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

    def rebuild(self) -> None:
        """Keep the part: nothing is lost in one process."""


def place(bags: Bags, part: type[Any], *per_bag: Array, **options: Any) -> Parts:
    """Make the parts of a solver where the bags are.

    Parameters
    ----------
    bags : Bags
        The bags: arrays, tensors, or distributed.
    part : class
        ``part(bags, *per_bag, **options)`` makes the part of a block of bags. Its attribute
        ``tensor_part`` is the class for instances that are torch tensors; a part without one runs
        on the CPU only.
    *per_bag : ndarray of shape (n_bags, ...)
        Cut like the bags.
    **options : object
        The same for every part.

    Returns
    -------
    Parts
    """
    if bags.where == "cluster":
        return bags.place(part, *per_bag, **options)  # type: ignore[attr-defined]
    if bags.where == "mapped":
        check_mapped_size(bags.instances)
    if bags.where == "device":
        part = getattr(part, "tensor_part", None)  # type: ignore[assignment]
        if part is None:
            raise InputError("this model has no code for torch tensors: use bags.to('numpy').")
    return LocalParts(part(bags, *per_bag, **options))


def codes_by_bag(codes: Ints, offsets: Ints) -> sparse.csr_array:
    """Turn codes of few instances into a row per bag, which `place` cuts like the bags.

    Parameters
    ----------
    codes : ndarray of shape (n_instances,)
        A code of each instance, -1 for most.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.

    Returns
    -------
    csr_array of shape (n_bags, largest size)
        Code + 1 at the place of the instance in its bag.
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
    """A short text that tells these bags from others: offsets, some of the rows, and `arrays`.

    Parameters
    ----------
    bags : Bags
        The bags.
    *arrays : ndarray
        More that matters, such as labels.

    Returns
    -------
    str
        Empty for bags on Dask workers, whose parts identify themselves.
    """
    if bags.where == "cluster":
        return ""
    rows = np.linspace(0, bags.n_instances - 1, min(bags.n_instances, 256)).astype(np.int64)
    sample = to_numpy(bags.instances[rows])
    sample = sample.toarray() if sparse.issparse(sample) else np.ascontiguousarray(sample)
    found = hashlib.sha256(f"{bags.n_features} {sample.dtype}".encode())
    for array in (sample, bags.offsets, *arrays):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
