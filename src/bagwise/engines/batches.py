"""Mini-batches of bags for training with torch, read from wherever the bags are."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from bagwise import compiled
from bagwise._types import Floats, Ints
from bagwise.bags import Bags
from bagwise.engines.arrays import dense, is_tensor, to_numpy
from bagwise.engines.blocks import bag_blocks, in_blocks
from bagwise.engines.mapped import release_pages
from bagwise.engines.tensors import free_memory, torch
from bagwise.exceptions import InputError


class Batches:
    """Bags on a device, a few at a time.

    The instances are copied to the device once where they take less than half of its free memory;
    otherwise they are read batch by batch from main memory or a file.

    Parameters
    ----------
    bags : Bags
        The bags, in this process or on a device.
    device : str or None
        Where the batches go, by torch's names; None for where the bags are.

    Attributes
    ----------
    device : torch.device
        Where the batches go.
    dtype : torch.dtype
        The type of their values.
    free : float or None
        Free bytes of a device with a memory of its own, after the copy; None for main memory.
    """

    def __init__(self, bags: Bags, device: str | None) -> None:
        self.device = device_named(bags.device if device is None else device)
        free = free_memory(self.device)
        n_bytes = bags.n_instances * bags.n_features * 8.0
        fits = free is not None and not bags.is_sparse and n_bytes < free / 2
        self.bags = bags.to(self.device) if fits and bags.device != str(self.device) else bags
        self.free = free_memory(self.device)
        self.dtype = getattr(torch, str(bags.dtype).removeprefix("torch."))

    def each(self, blocks: Iterable[Ints]) -> Iterator[tuple[Any, Ints]]:
        """Read runs of bags one after the other.

        While one is used, a thread reads the next, where bags are in a file or chosen from a larger
        table.

        Parameters
        ----------
        blocks : iterable of ndarray of int
            Positions of bags.

        Yields
        ------
        rows, sizes
            As `read` returns them.
        """
        if not in_blocks(self.bags):
            yield from map(self.read, blocks)
            return
        with ThreadPoolExecutor(max_workers=1) as pool:
            coming: deque[Future[tuple[Any, Ints]]] = deque()
            for block in blocks:
                coming.append(pool.submit(self.read, block))
                if len(coming) > 1:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()

    def read(self, chosen: Ints) -> tuple[Any, Ints]:
        """Read some bags.

        Parameters
        ----------
        chosen : ndarray of int
            Positions of bags.

        Returns
        -------
        rows : tensor of shape (n_rows, n_features)
            Their instances, bag after bag.
        sizes : ndarray of shape (n_bags,)
            Instances of each bag.
        """
        some = self.bags[chosen]
        rows = dense(some.rows(slice(None)))
        if not is_tensor(rows):
            # torch refuses negative strides, as those of X[:, ::-1], and warns of read-only arrays.
            rows = torch.tensor(np.ascontiguousarray(rows))
            release_pages(some.source)
        return rows.to(self.device), some.sizes


def device_named(device: str | None) -> Any:
    """Find a device of torch, or say that it cannot be used.

    Parameters
    ----------
    device : str or None
        Its name; None for the CPU.

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
        rows = dense(some.rows(slice(None))[:, :n_columns])
        if is_tensor(rows):
            each = some.split(rows)
            lowest[block] = [to_numpy(bag.amin(dim=0)) for bag in each]
            highest[block] = [to_numpy(bag.amax(dim=0)) for bag in each]
        else:
            lowest[block] = compiled.segments.minimum(rows, some.offsets)
            highest[block] = compiled.segments.maximum(rows, some.offsets)
    return lowest, highest
