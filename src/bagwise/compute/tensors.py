"""Bags as torch tensors on a device, and reductions per bag."""

import importlib.util
import os
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from bagwise._common.tables import float_type
from bagwise.bags import Bags
from bagwise.compute.arrays import is_tensor, torch
from bagwise.compute.blocks import row_blocks
from bagwise.exceptions import InputError

COPIED = 2**25  # values copied to a device at a time


def on_device(bags: Bags, device: Any, dtype: Any = None) -> Bags:
    """Copy the instances to a device as a tensor.

    Parameters
    ----------
    bags : Bags
        The bags.
    device : str or torch.device
        Target device.
    dtype : torch.dtype or str, default=None
        "float32" or "float64". By default the type is kept, except that 8-bit and 16-bit numbers
        become float32, other whole numbers float64.

    Returns
    -------
    Bags
    """
    if bags.is_sparse:
        raise InputError("sparse instances stay on the CPU: use bags.instances.toarray() first.")
    wanted = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    try:
        # A copy: a tensor that shares memory with a read-only array could be written through.
        if is_tensor(bags.source):
            table = bags.source.to(device=device, dtype=wanted, copy=True)
        else:
            table = _copied_in_blocks(bags, device, wanted)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"the instances cannot go to {device!r}: {error}") from error
    return bags.with_instances(table, feature_names=bags.feature_names)


def _copied_in_blocks(bags: Bags, device: Any, dtype: Any) -> Any:
    """Copy the instances to a tensor, converted block by block and never as a whole."""
    floats = float_type(bags.dtype)
    wanted = getattr(torch, floats.name) if dtype is None else dtype
    table = torch.empty((bags.n_instances, bags.n_features), dtype=wanted, device=device)
    for rows, block in row_blocks(bags, COPIED):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about read-only memory
            table[rows] = torch.from_numpy(np.ascontiguousarray(block, floats)).to(device)
    return table


def free_memory(device: Any) -> float | None:
    """Free memory of a device in bytes.

    Parameters
    ----------
    device : torch.device
        The device.

    Returns
    -------
    float or None
        None if the device shares the memory of this process, or does not report it.
    """
    return float(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else None


def has_kernels(tensor: Any) -> bool:
    """Whether Triton kernels can be launched on a tensor.

    Parameters
    ----------
    tensor : tensor
        Any tensor.

    Returns
    -------
    bool
        True on a CUDA device on which Triton works; callers use plain torch otherwise. Also True if
        Triton interprets its kernels (TRITON_INTERPRET=1), for tests.
    """
    if not (tensor.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"):
        return False
    return importlib.util.find_spec("triton") is not None and _triton_works(tensor.device)


@cache
def _triton_works(device: Any) -> bool:
    from bagwise.compute.jit import probe

    out = torch.zeros(1, dtype=torch.float64, device=device)
    try:
        with torch.cuda.device_of(out):
            probe[(1,)](out)
        return float(out) == 2
    except Exception as error:  # no C compiler, an old Triton, a device it does not know
        message = " ".join(str(error).split())[:200]
        warnings.warn(
            f"Triton cannot compile here ({type(error).__name__}: {message}): plain torch.",
            stacklevel=2,
        )
        return False


class Replay:
    """A CUDA graph of a function of a tensor, recorded at its second call, then replayed.

    A replay launches all kernels of the function at once: for small tensors, launching them one by
    one would take most of the time. The first call compiles kernels and fills caches. A function
    that cannot be recorded is called each time.
    """

    def __init__(self) -> None:
        self._is_warm, self._can_record = False, True
        self._graph: Any = None
        self._input: Any = None
        self._output: Any = None

    def run(self, function: Callable[[Any], Any], tensor: Any) -> Any:
        """Call the function, or replay it.

        Parameters
        ----------
        function : callable
            The same function in each call: takes a tensor, returns tensors, never waits for the
            device.
        tensor : tensor
            Its argument.

        Returns
        -------
        object
            The result of the function; valid until the next call.
        """
        if not (tensor.is_cuda and self._is_warm and self._can_record):
            self._is_warm = True
            return function(tensor)
        with torch.cuda.device_of(tensor):
            if self._graph is None:
                try:
                    self._record(function, tensor)
                except RuntimeError:
                    self._can_record = False
                    return function(tensor)
            self._input.copy_(tensor)
            self._graph.replay()
        return self._output

    def _record(self, function: Callable[[Any], Any], tensor: Any) -> None:
        self._input, graph = tensor.clone(), torch.cuda.CUDAGraph()
        here, stream = torch.cuda.current_stream(), torch.cuda.Stream()
        stream.wait_stream(here)
        with torch.cuda.stream(stream):  # the default stream cannot be recorded
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                self._output = function(self._input)
            finally:
                graph.capture_end()
        here.wait_stream(stream)
        self._graph = graph


def segment_max(values: Any, bag: Any, n_bags: int) -> Any:
    """Largest value of each bag and column.

    Parameters
    ----------
    values : tensor of shape (n_instances, n_columns)
        Values aligned with the instances.
    bag : tensor of int64 of shape (n_instances,)
        The bag of each instance.
    n_bags : int
        Number of bags.

    Returns
    -------
    tensor of shape (n_bags, n_columns)
    """
    out = values.new_full((n_bags, values.shape[1]), -torch.inf)
    return out.scatter_reduce_(0, bag[:, None].expand_as(values), values, "amax")


def segment_argmax(values: Any, largest: Any, bag: Any) -> Any:
    """Row in the whole table of the first instance with the largest value of its bag.

    Parameters
    ----------
    values : tensor of shape (n_instances, n_columns)
        Values aligned with the instances.
    largest : tensor of shape (n_bags, n_columns)
        The result of `segment_max`.
    bag : tensor of int64 of shape (n_instances,)
        The bag of each instance.

    Returns
    -------
    tensor of int64 of shape (n_bags, n_columns)
    """
    n = len(values)
    row = torch.arange(n, device=values.device)[:, None].expand_as(values)
    row = torch.where(values == largest[bag], row, n)
    out = torch.full(largest.shape, n, dtype=torch.int64, device=values.device)
    return out.scatter_reduce_(0, bag[:, None].expand_as(row), row, "amin")
