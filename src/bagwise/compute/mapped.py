"""Arrays in files, for data larger than memory; temporary files are removed after use."""

import contextlib
import errno
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from bagwise._common import tables
from bagwise._common.memory import require_memory
from bagwise._common.types import Array
from bagwise.exceptions import InputError

_PREFIX = "bagwise-"
_OPEN_FILES = Path("/proc/self/fd")  # Linux
KEPT_IN_MEMORY = 2**28  # bytes up to which a streamed table is gathered in memory
_BLOCK = 2**22  # values copied at a time


def release_pages(table: Any) -> None:
    """Release the pages of a mapped file that were read, so that they do not count as used memory.

    They are read again, from the file or the page cache, when they are needed. Nothing is done for
    a table that is not in a memory-mapped file.
    """
    origin = origin_of(table)
    # In a copy-on-write mapping, modified pages would be lost.
    if isinstance(origin, np.memmap) and origin.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
        mapping: Any = origin.base
        mapping.madvise(mmap.MADV_DONTNEED)


def read_ahead(table: Array, blocks: Sequence[slice]) -> Iterator[slice]:
    """Yield blocks of rows, while the operating system reads the next block of a mapped file.

    It reads ahead without being asked too, but less than a fast disk allows.

    Parameters
    ----------
    table : ndarray
        Instances; read ahead only if they are in a memory-mapped file in C order.
    blocks : sequence of slice
        Rows, in the order in which they are needed.

    Yields
    ------
    slice
        The blocks.
    """
    origin = origin_of(table)
    by_rows = isinstance(origin, np.memmap) and table.flags.c_contiguous
    if not by_rows or not hasattr(mmap, "MADV_WILLNEED"):
        yield from blocks
        return
    mapping: Any = origin.base
    # The mapping begins at a page of the file before the array.
    first = origin.__array_interface__["data"][0] - origin.offset % mmap.ALLOCATIONGRANULARITY
    for i, rows in enumerate(blocks):
        for following in blocks[i + 1 : i + 2]:
            low, high = np.lib.array_utils.byte_bounds(table[following])
            start = (low - first) // mmap.PAGESIZE * mmap.PAGESIZE
            mapping.madvise(mmap.MADV_WILLNEED, start, high - first - start)
        yield rows


def gathered(source: tables.Source) -> tables.Source:
    """Copy the rows of bags to a new table: in memory, or in a file if they are in a file.

    Parameters
    ----------
    source : Source
        The table, and the rows of the bags in it.

    Returns
    -------
    Source
    """
    table, n_bytes, n_bags = source.table, source.n_bytes(), len(source.offsets) - 1
    is_small = isinstance(table, tables.StreamedTable) and n_bytes <= KEPT_IN_MEMORY
    in_file = tables.is_mapped(table) and not is_small
    if not in_file:
        require_memory(
            n_bytes,
            purpose=f"a copy of the {source.n_rows:,} instances of {n_bags:,} bags",
            remedy="use fewer bags, or read them with a memory_limit, which keeps them in a file",
        )
    if sparse.issparse(table):
        return tables.Source(tables.read_only(source.rows(slice(None))), source.offsets)
    shape = source.n_rows, table.shape[1]
    out = mapped_array(shape, table.dtype)[0] if in_file else np.empty(shape, table.dtype)
    for block in tables.slices(len(out), max(1, _BLOCK // max(1, shape[1]))):
        out[block] = source.rows(block)
        if in_file:
            release_pages(table)
            release_pages(out)
    return tables.Source(tables.read_only(out), source.offsets)


def empty_beside(table: Any, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """An uninitialised array, in a temporary file if `table` is in a file."""
    return mapped_array(shape, dtype)[0] if tables.is_mapped(table) else np.empty(shape, dtype)


def origin_of(table: Any) -> Any:
    """The array that a view refers to, or from which rows are computed."""
    while isinstance(table, tables.ComputedTable) or (
        isinstance(table, np.ndarray) and isinstance(table.base, np.ndarray)
    ):
        table = table.base
    return table


def mapped_array(
    shape: tuple[int, ...], dtype: DTypeLike, folder: str | os.PathLike[str] | None = None
) -> tuple[Array, "weakref.finalize[Any, Any]"]:
    """Create an array in a new file, which is removed when nothing refers to the array any more.

    Parameters
    ----------
    shape : tuple of int
        Shape of the array.
    dtype : dtype
        Type of the array.
    folder : path, default=None
        Folder of the file; the system's temporary folder by default.

    Returns
    -------
    array : ndarray
    remove : weakref.finalize
        Removes the file; detach it to keep a file in a given `folder`.

    Raises
    ------
    InputError
        If there is not enough space.
    """
    dtype = np.dtype(dtype)
    n_bytes = dtype.itemsize * int(np.prod(shape, dtype=object))
    try:
        file, name, end = _new_file(folder)
        try:
            head = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False}
            np.lib.format.write_array_header_2_0(file, {**head, "shape": shape})
            file.flush()
            start = file.tell()
            _allocate(file.fileno(), start + n_bytes)
            array = np.memmap(file, dtype, "r+", start, shape)
        except BaseException:
            file.close()
            end()
            raise
    except OSError as error:
        raise InputError(
            f"no file of {n_bytes / 1e9:.3g} GB can be made in {folder or 'TMPDIR'} "
            f"({error.strerror or error}), where an array larger than the memory allowed is kept: "
            "free some space there, set the environment variable TMPDIR to a folder on a larger "
            "disk, or allow more memory with memory_limit=."
        ) from error
    if end != file.close:
        file.close()  # the mapping keeps the file open
    array.filename = name
    # Every view keeps the mmap object alive, so it is finalised with the last view.
    return array, weakref.finalize(array._mmap, end)  # type: ignore[attr-defined]


def _new_file(folder: str | os.PathLike[str] | None) -> tuple[Any, str, Callable[[], None]]:
    """Create a file; return it, its path for other processes, and a function that removes it.

    On Linux a temporary file has no name in its folder, so that nothing is left of it however the
    process ends. Processes of the same user open it through the ``/proc`` folder of this one.
    """
    if folder is None and _OPEN_FILES.is_dir():
        # The file is open as long as the array.
        file = tempfile.TemporaryFile(prefix=_PREFIX)  # noqa: SIM115
        return file, f"/proc/{os.getpid()}/fd/{file.fileno()}", file.close
    handle, path = tempfile.mkstemp(prefix=_PREFIX, suffix=".npy", dir=folder)
    return os.fdopen(handle, "w+b"), path, partial(_remove, path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _allocate(handle: int, n_bytes: int) -> None:
    """Allocate the blocks of a file: writing to a mapped page without one causes SIGBUS."""
    try:
        os.posix_fallocate(handle, 0, n_bytes)
    except AttributeError:  # not on this system
        return
    except OSError as error:  # not on this file system, or the disk is full
        if error.errno == errno.ENOSPC:
            raise
