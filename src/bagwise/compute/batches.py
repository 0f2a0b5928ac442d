"""Mini-batches of bags for training with torch, from memory, a file or a device."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from bagwise import loops
from bagwise._common.types import Floats, Ints
from bagwise.bags import Bags
from bagwise.compute.arrays import dense, is_tensor, to_numpy
from bagwise.compute.blocks import ahead, bag_blocks, row_blocks
from bagwise.compute.mapped import release_pages
from bagwise.compute.tensors import free_memory, torch
from bagwise.exceptions import InputError

ON_DEVICE = 2**26  # values read at a time for a GPU
KEPT = 2**28  # bytes below which instances are kept in main memory as a tensor


class Batches:
    """Mini-batches of bags on a device.

    Instances that need less than half of the free memory of the device, or little main memory, are
    prepared and copied once. Others are read and prepared batch by batch, from main memory or a
    file.

    Parameters
    ----------
    bags : Bags
        The bags, in this process or on a device.
    device : str or None
        Target device of the batches, as torch names it; None for the device of the bags.
    prepare : callable, default=None
        Maps a tensor of instances on the device to a new one of the same shape; None for no change.

    Attributes
    ----------
    device : torch.device
        Target device of the batches.
    dtype : torch.dtype
        Type of the values.
    free : float or None
        Free bytes of device memory after the copy; None for main memory.
    """

    def __init__(
        self, bags: Bags, device: str | None, prepare: Callable[[Any], Any] | None = None
    ) -> None:
        self.bags, self.prepare = bags, prepare
        self.device = device_named(bags.device if device is None else device)
        self.dtype = getattr(torch, str(bags.dtype).removeprefix("torch."))
        self.table: Any = None  # all prepared instances, on the device
        free = free_memory(self.device)
        room = KEPT if free is None else free / 2
        shape = bags.n_instances, bags.n_features
        if prepare is None and is_tensor(bags.source) and bags.device == str(self.device):
            self.table = bags.instances
        elif shape[0] * shape[1] * self.dtype.itemsize < room:
            self.table = torch.empty(shape, dtype=self.dtype, device=self.device)
            for rows, block in blocks_on(bags, device):
                self.table[rows] = block if prepare is None else prepare(block)
        self.free = free_memory(self.device)

    def each(self, blocks: Iterable[Ints]) -> Iterator[Any]:
        """Read batches of bags one after the other.

        While one batch is used, a thread reads the next from main memory or a file.

        Parameters
        ----------
        blocks : iterable of ndarray of int
            Positions of the bags of each batch.

        Yields
        ------
        tensor
            The result of `read` for each batch.
        """
        if self.table is not None:
            yield from map(self.read, blocks)
            return
        # Copies to a GPU use a separate stream, so that they do not wait for computations.
        stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None

        def copied(block: Ints) -> Any:
            if stream is None:
                return self.read(block)
            with torch.cuda.stream(stream):
                rows = self.read(block)
            stream.synchronize()
            return rows

        for rows in ahead(copied, blocks):
            if stream is not None:
                rows.record_stream(torch.cuda.current_stream(self.device))
            yield rows

    def read(self, chosen: Ints) -> Any:
        """Read the instances of some bags.

        Parameters
        ----------
        chosen : ndarray of int
            Positions of bags.

        Returns
        -------
        tensor of shape (n_rows, n_features)
            Their instances, bag after bag.
        """
        runs = np.split(chosen, np.flatnonzero(np.diff(chosen) != 1) + 1)
        if self.table is None:
            rows = _copied([self.bags[run].rows(slice(None)) for run in runs], self.device)
            release_pages(self.bags.source)
            return rows if self.prepare is None else self.prepare(rows)
        offsets = self.bags.offsets
        parts = [self.table[offsets[run[0]] : offsets[run[-1] + 1]] for run in runs]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def blocks_on(bags: Bags, device: str | None) -> Iterator[tuple[slice, Any]]:
    """Read all instances in order, block by block, onto a device.

    Parameters
    ----------
    bags : Bags
        The bags, in this process or on a device.
    device : str or None
        Target device of the blocks, as torch names it; None for the device of the bags.

    Yields
    ------
    rows : slice
        Positions of the instances.
    block : tensor of shape (n_rows, n_features)
        Their values, dense.
    """
    place = device_named(bags.device if device is None else device)
    for rows, block in row_blocks(bags, None if place.type == "cpu" else ON_DEVICE):
        yield rows, _copied([block], place)


def _copied(parts: list[Any], device: Any) -> Any:
    """Concatenate the rows of several parts on a device."""
    parts = [*map(dense, parts)]
    if is_tensor(parts[0]):
        rows = parts[0] if len(parts) == 1 else torch.cat(parts)
    else:
        shape = sum(map(len, parts)), parts[0].shape[1]
        dtype = getattr(torch, str(parts[0].dtype))
        # The GPU copies pinned memory directly.
        rows = torch.empty(shape, dtype=dtype, pin_memory=device.type == "cuda")
        np.concatenate(parts, out=rows.numpy())
    return rows.to(device, non_blocking=True)


def device_named(device: str | None) -> Any:
    """Return a torch device by name; raise InputError if it cannot be used.

    Parameters
    ----------
    device : str or None
        Name of the device; None for the CPU.

    Returns
    -------
    torch.device
    """
    try:
        return torch.empty(0, device="cpu" if device is None else device).device  # "cuda:0"
    except (RuntimeError, AssertionError) as error:  # torch built without CUDA asserts
        raise InputError(
            f"torch cannot work on device={device!r} here ({error}): use device='cpu'."
        ) from error


def extremes_of_bags(bags: Bags, n_columns: int) -> tuple[Floats, Floats]:
    """Smallest and largest value of the first features in each bag.

    Parameters
    ----------
    bags : Bags
        The bags, in this process or on a device.
    n_columns : int
        Number of features.

    Returns
    -------
    lowest, highest : ndarray of shape (n_bags, n_columns)
    """
    lowest, highest = np.empty((2, len(bags), n_columns))
    for block in bag_blocks(bags):
        some = bags[block]
        rows = to_numpy(dense(some.rows(slice(None))[:, :n_columns]))
        lowest[block] = loops.segments.minimum(rows, some.offsets)
        highest[block] = loops.segments.maximum(rows, some.offsets)
    return lowest, highest
