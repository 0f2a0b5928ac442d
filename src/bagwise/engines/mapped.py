"""Arrays in files, for data larger than memory; temporary files are removed after use."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from bagwise._common.memory import require_memory
from bagwise._common.tables import ComputedTable, Source, StreamedTable, read_only
from bagwise._common.types import Array
from bagwise.exceptions import InputError

_PREFIX = "bagwise-"
_OPEN_FILES = Path("/proc/self/fd")  # Linux
_NOT_SUPPORTED = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)
KEPT_IN_MEMORY = 2**28  # bytes up to which a streamed table is gathered in memory
_BLOCK = 2**22  # values copied at a time
_READ = 2**20  # bytes read at a time
_ZEROS = 2**22  # bytes written at a time without posix_fallocate


def is_mapped(table: Any) -> bool:
    """Whether a table is in a file: memory-mapped or streamed."""
    while isinstance(table, np.ndarray):
        if isinstance(table, np.memmap):
            return True
        table = table.base
    return isinstance(table, StreamedTable)


def check_mapped_size(table: Any) -> None:
    """Raise an error if the file of a mapped table has become too short for it.

    Reading a page beyond the end of the file kills the process with SIGBUS, which Python cannot
    catch; so the size is checked before rows are read. Other tables are accepted.
    """
    while isinstance(table, ComputedTable):
        table = table.base
    origin = _origin(table)
    if not isinstance(origin, np.memmap) or not table.size:
        return
    start = origin.__array_interface__["data"][0]
    end = origin.offset + int(np.lib.array_utils.byte_bounds(table)[1]) - start
    mapping: Any = origin.base
    size = mapping.size()  # of the mapped file, even if another file has its name now
    if size < end:
        raise InputError(
            f"the file {origin.filename} has become shorter: it has {size} bytes, and the mapped "
            f"instances end at byte {end}. Write it again, and map it again."
        )


def release_pages(table: Any) -> None:
    """Release the pages of a mapped file that were read, so that they do not count as used memory.

    They are read again, from the file or the page cache, when they are needed. Nothing is done for
    a table that is not in a memory-mapped file.
    """
    origin = _origin(table)
    # In a copy-on-write mapping, modified pages would be lost.
    if isinstance(origin, np.memmap) and origin.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
        mapping: Any = origin.base
        mapping.madvise(mmap.MADV_DONTNEED)


def read_ahead(table: Array, blocks: Sequence[slice]) -> Iterator[slice]:
    """Yield blocks of rows, while a thread reads the next block of a mapped file.

    The thread reads into the page cache, where the mapping finds the rows without waiting. The
    operating system reads ahead too, but less than a fast disk allows.

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
    origin = _origin(table)
    by_rows = isinstance(origin, np.memmap) and table.flags.c_contiguous
    if not by_rows or not hasattr(os, "preadv"):
        yield from blocks
        return
    first = origin.__array_interface__["data"][0] - origin.offset
    ends = [np.lib.array_utils.byte_bounds(table[rows]) for rows in blocks]
    pieces = [(int(low) - first, int(high) - first) for low, high in ends]
    with contextlib.ExitStack() as stack:
        try:  # the file may have been removed: only the mapping can read it then
            file = stack.enter_context(open(str(origin.filename), "rb", buffering=0))
        except OSError:
            yield from blocks
            return
        pool = stack.enter_context(ThreadPoolExecutor(1, "bagwise-read"))
        pending = [pool.submit(_read, file.fileno(), *piece) for piece in pieces[:1]]
        for i, rows in enumerate(blocks):
            pending[i].result()
            pending += [pool.submit(_read, file.fileno(), *p) for p in pieces[i + 1 : i + 2]]
            yield rows


def _read(handle: int, start: int, stop: int) -> None:
    """Read bytes of a file into the page cache, and discard them."""
    buffer = memoryview(bytearray(min(_READ, max(0, stop - start))))
    with contextlib.suppress(OSError):
        while start < stop:
            n_read = os.preadv(handle, [buffer[: stop - start]], start)
            if not n_read:
                break
            start += n_read


def gathered(source: Source) -> Source:
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
    is_small = isinstance(table, StreamedTable) and n_bytes <= KEPT_IN_MEMORY
    in_file = is_mapped(table) and not is_small
    if not in_file:
        require_memory(
            n_bytes,
            purpose=f"a copy of the {source.n_rows:,} instances of {n_bags:,} bags",
            remedy="use fewer bags, or read them with a memory_limit, which keeps them in a file",
        )
    if sparse.issparse(table):
        return Source(read_only(source.rows(slice(None))), source.offsets)
    shape = source.n_rows, table.shape[1]
    out = mapped_array(shape, table.dtype)[0] if in_file else np.empty(shape, table.dtype)
    step = max(1, _BLOCK // max(1, shape[1]))
    for start in range(0, len(out), step):
        block = slice(start, start + step)
        out[block] = source.rows(block)
        if in_file:
            release_pages(table)
            release_pages(out)
    return Source(read_only(out), source.offsets)


def empty_beside(table: Any, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """An uninitialised array, in a temporary file if `table` is in a file."""
    return mapped_array(shape, dtype)[0] if is_mapped(table) else np.empty(shape, dtype)


def _origin(table: Any) -> Any:
    """The array that a view refers to, or from which rows are computed."""
    while isinstance(table, ComputedTable) or (
        isinstance(table, np.ndarray) and isinstance(table.base, np.ndarray)
    ):
        table = table.base
    return table


def mapped_array(
    shape: tuple[int, ...], dtype: DTypeLike, folder: str | os.PathLike[str] | None = None
) -> tuple[Array, weakref.finalize[Any, Any]]:
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
        raise InputError(_no_room(folder, n_bytes, error)) from error
    if end != file.close:
        file.close()  # the mapping holds the file open
    array.filename = name
    # Every view keeps the mmap object alive, so it is finalised with the last view.
    return array, weakref.finalize(array._mmap, end)  # type: ignore[attr-defined]


def _new_file(folder: str | os.PathLike[str] | None) -> tuple[Any, str, Callable[[], None]]:
    """Create a file; return it, its path for other processes, and a function that removes it.

    On Linux a temporary file has no name in its folder, so that nothing is left of it however the
    process ends. Processes of the same user open it through the ``/proc`` folder of this one.
    """
    if folder is None and _OPEN_FILES.is_dir():
        file = tempfile.TemporaryFile(prefix=_PREFIX)  # noqa: SIM115 it is open as long as the array
        return file, f"/proc/{os.getpid()}/fd/{file.fileno()}", file.close
    handle, path = tempfile.mkstemp(prefix=_PREFIX, suffix=".npy", dir=folder)
    return os.fdopen(handle, "w+b"), path, partial(_remove, path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _allocate(handle: int, n_bytes: int) -> None:
    """Allocate the blocks of a file: writing to a mapped page without one causes SIGBUS."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(handle, 0, n_bytes)
            return
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
    zeros = memoryview(bytes(_ZEROS))
    at = os.lseek(handle, 0, os.SEEK_END)
    while at < n_bytes:
        at += os.write(handle, zeros[: n_bytes - at])


def _no_room(folder: str | os.PathLike[str] | None, n_bytes: int, error: OSError) -> str:
    where = folder
    if folder is None:
        with contextlib.suppress(OSError):
            where = tempfile.gettempdir()
    return (
        f"no file of {n_bytes / 1e9:.3g} GB can be made in {where or 'a temporary folder'} "
        f"({error.strerror or error}), where an array larger than the memory allowed is kept: "
        "free some space there, set the environment variable TMPDIR to a folder on a larger disk, "
        "or allow more memory with memory_limit=."
    )
