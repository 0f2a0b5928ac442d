"""Threads for compiled functions: blocks of whole bags, one block per core.

Compiled functions release the GIL, so plain Python threads run them in parallel. Unlike numba's own
parallel back ends, this works after a fork and with calls from several threads at once, and needs
no OpenMP.
"""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from bagwise._common.types import Array, Ints

# Below this many values the threads cost more than they save.
SMALL = 100_000
# Below this many values, as in 30 MB, BLAS keeps to one core: methods factorise matrices of some
# hundred columns thousands of times. `AutoBagClassifier` on 1.5 million values took 13 times the
# CPU seconds, and 8 times the time, with two threads on a busy machine.
FEW = 4_000_000


def n_threads() -> int:
    """Number of threads to use: OMP_NUM_THREADS, which joblib sets in workers, or all cores."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return int(limit) if limit.isdigit() and int(limit) > 0 else _cores()


def library_cores(n_cores: int) -> AbstractContextManager[Any]:
    """Limit BLAS, OpenMP and torch to a number of cores.

    Unlike `threadpoolctl.threadpool_limits`, this does not search for the libraries in each call,
    which takes milliseconds.

    Parameters
    ----------
    n_cores : int
        The number of cores.

    Returns
    -------
    context manager
    """
    controller = _libraries(with_torch="torch" in sys.modules)
    return controller.limit(limits=n_cores)


def one_core_if_few(n_values: int) -> AbstractContextManager[Any]:
    """Keep BLAS and OpenMP on one core while they work on few values.

    Threads gain nothing there, and on a busy machine they wait for each other: a factorisation
    of a hundred columns then takes fifty times longer.
    """
    return library_cores(1) if n_values < FEW else nullcontext()


def block_bounds(offsets: Ints, n_blocks: int) -> Ints:
    """Split bags into at most `n_blocks` runs of whole bags with about equally many instances.

    Parameters
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    n_blocks : int
        Maximum number of blocks.

    Returns
    -------
    ndarray
        Increasing bag indices from 0 to n_bags; block b is ``bounds[b]:bounds[b + 1]``.
    """
    n_bags = len(offsets) - 1
    if n_blocks == 1:  # called thousands of times for small bags
        return np.array([0, n_bags] if n_bags else [0])
    targets = np.linspace(0, offsets[-1], n_blocks + 1)[1:-1]
    inner = np.searchsorted(offsets, targets)
    return np.unique(np.concatenate([[0], inner, [n_bags]]))


def even_bounds(n_rows: int, n_values: float) -> Ints:
    """Split rows into about equal blocks: one per thread, or a single one for little work.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_values : float
        Number of values that the work reads.

    Returns
    -------
    ndarray of shape (n_blocks + 1,)
        Where each block begins.
    """
    n_blocks = n_threads() if n_values > SMALL else 1
    return np.unique(np.linspace(0, n_rows, n_blocks + 1).astype(np.int64))


def bag_bounds(offsets: Ints, n_values: float) -> Ints:
    """Split bags into blocks of whole bags: one per thread, or a single one for little work.

    Parameters
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    n_values : float
        Number of values that the work reads.

    Returns
    -------
    ndarray
        Bounds as in `block_bounds`.
    """
    return block_bounds(offsets, n_threads() if n_values > SMALL else 1)


def run_blocks(work: Callable[..., Any], bounds: Ints, *arguments: Any) -> list[Any]:
    """Run ``work(start, stop, *arguments)`` on each block, on threads if there are several blocks.

    Parameters
    ----------
    work : callable
        A function of the first and the past-the-last bag of a block; releases the GIL.
    bounds : ndarray
        The blocks, as returned by `block_bounds`.
    *arguments : object
        Further arguments, the same for every block.

    Returns
    -------
    list
        The results, in the order of the blocks.
    """
    if len(bounds) == 2:  # called thousands of times for small bags
        return [work(int(bounds[0]), int(bounds[1]), *arguments)]
    blocks = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    if n_threads() < 2:
        return [work(*block, *arguments) for block in blocks]
    pool = _pool(os.getpid(), n_threads())
    return list(pool.map(lambda block: work(*block, *arguments), blocks))


def over_bags(kernel: Callable[..., None], offsets: Ints, values: Array, *arguments: Any) -> None:
    """Run a compiled function ``kernel(start, stop, offsets, values, *arguments)`` over all bags.

    Parameters
    ----------
    kernel : callable
        Processes the bags ``start:stop``; each bag writes to its own entries of the arguments.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    values : ndarray of shape (n_instances, ...)
        Values that the function reads.
    *arguments : object
        Further inputs, and the outputs.
    """
    if values.size <= SMALL:
        kernel(0, len(offsets) - 1, offsets, values, *arguments)
    else:
        run_blocks(kernel, bag_bounds(offsets, values.size), offsets, values, *arguments)


@cache
def _cores() -> int:
    import joblib

    return joblib.cpu_count()  # respects the limits of a container; slow, as it reads several files


@cache
def _libraries(*, with_torch: bool) -> ThreadpoolController:
    """Multi-threaded libraries of this process; importing torch adds its own."""
    return ThreadpoolController()


@cache
def _pool(pid: int, n_workers: int) -> ThreadPoolExecutor:
    # Keyed by process: a forked child must not wait for threads that exist only in its parent.
    return ThreadPoolExecutor(n_workers, "bagwise")
