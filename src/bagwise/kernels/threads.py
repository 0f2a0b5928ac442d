"""Threads for compiled kernels: blocks of whole bags, one block per core.

Kernels release the GIL, so plain Python threads run them side by side. Unlike numba's own
parallel back ends this survives a fork and calls from several threads at once, and needs no
OpenMP on the machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

__all__ = [
    "block_bounds",
    "n_threads",
    "one_core_if_small",
    "one_core_if_sparse",
    "over_bags",
    "run_blocks",
]

# Below this many values the threads cost more than they save.
SMALL = 100_000


def n_threads() -> int:
    """Number of threads to use: OMP_NUM_THREADS where set (joblib sets it in workers), else cores.

    Returns
    -------
    int
    """
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return int(limit) if limit.isdigit() and int(limit) > 0 else _cores()


def one_core_if_small(table: Any) -> AbstractContextManager[Any]:
    """Keep BLAS on one core while it works on a small table.

    Its threads gain nothing there, and on a busy machine they wait for each other: a factorisation
    of a hundred columns then takes fifty times longer.

    Parameters
    ----------
    table : ndarray or CSR
        The instances.

    Returns
    -------
    context manager
    """
    small = table.shape[0] * table.shape[1] < 1_000_000
    return threadpool_limits(1, user_api="blas") if small else nullcontext()


def one_core_if_sparse(table: Any) -> AbstractContextManager[Any]:
    """Keep BLAS on one core for methods that ask it for no more than vectors where X is sparse.

    Parameters
    ----------
    table : ndarray or CSR
        The rows.

    Returns
    -------
    context manager
    """
    return threadpool_limits(1, user_api="blas") if sparse.issparse(table) else nullcontext()


def block_bounds(offsets: NDArray[np.int64], n_blocks: int) -> NDArray[np.int64]:
    """Cut bags into at most `n_blocks` runs of whole bags with about equally many instances.

    Parameters
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    n_blocks : int
        The number of blocks wanted.

    Returns
    -------
    ndarray
        Rising bag indices from 0 to n_bags; block b is ``bounds[b]:bounds[b + 1]``.
    """
    targets = np.linspace(0, offsets[-1], n_blocks + 1)[1:-1]
    inner = np.searchsorted(offsets, targets)
    return np.unique(np.concatenate([[0], inner, [len(offsets) - 1]]))


def run_blocks(work: Callable[[int, int], Any], bounds: NDArray[np.int64]) -> list[Any]:
    """Run ``work(start, stop)`` on each block, on threads when there are several.

    Parameters
    ----------
    work : callable
        A function of the first and the past-the-last bag of a block; releases the GIL.
    bounds : ndarray
        The blocks, as `block_bounds` gives them.

    Returns
    -------
    list
        The results, in the order of the blocks.
    """
    blocks = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    if len(blocks) < 2 or n_threads() < 2:
        return [work(*block) for block in blocks]
    return list(_pool(os.getpid(), n_threads()).map(lambda block: work(*block), blocks))


def over_bags(
    kernel: Callable[..., None], offsets: NDArray[np.int64], values: NDArray[Any], *out: Any
) -> None:
    """Run a compiled ``kernel(start, stop, offsets, values, *out)`` over all bags.

    Parameters
    ----------
    kernel : callable
        Handles the bags ``start:stop`` and writes its results into `out`.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    values : ndarray of shape (n_instances, ...)
        What the kernel reads.
    *out : ndarray
        What it writes; each bag has its own place.
    """
    n_blocks = n_threads() if values.size > SMALL else 1
    run_blocks(
        lambda start, stop: kernel(start, stop, offsets, values, *out),
        block_bounds(offsets, n_blocks),
    )


@cache
def _cores() -> int:
    return joblib.cpu_count()  # counts what the container allows; reads several files


@cache
def _pool(pid: int, n_workers: int) -> ThreadPoolExecutor:
    # Keyed by process: a forked child must not wait for threads that stayed with its parent.
    return ThreadPoolExecutor(n_workers, thread_name_prefix="bagwise")
