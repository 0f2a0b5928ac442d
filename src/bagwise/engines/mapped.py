"""Arrays in files: larger than memory, and gone with the last view of them."""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["empty_beside", "is_mapped", "mapped_array"]


def is_mapped(table: Any) -> bool:
    """Tell whether an array lies in a memory-mapped file.

    Parameters
    ----------
    table : object
        Instances.

    Returns
    -------
    bool
    """
    while isinstance(table, np.ndarray):
        if isinstance(table, np.memmap):
            return True
        table = table.base
    return False


def empty_beside(table: Any, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array to be filled, in a temporary file where the table it goes with is in a file.

    Parameters
    ----------
    table : ndarray or CSR
        Shows whether memory is scarce.
    shape : tuple of int
        Of the new array.
    dtype : dtype
        Its type.

    Returns
    -------
    ndarray
    """
    return mapped_array(shape, dtype)[0] if is_mapped(table) else np.empty(shape, dtype)


def mapped_array(
    shape: tuple[int, ...], dtype: DTypeLike, folder: str | os.PathLike[str] | None = None
) -> tuple[NDArray[Any], weakref.finalize[Any, Any]]:
    """An array in a new file, which is removed when nothing refers to it any more.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    dtype : dtype
        Its type.
    folder : path, default=None
        Where the file is; the system's temporary folder by default.

    Returns
    -------
    array : ndarray
    remove : weakref.finalize
        Detach it, and the file stays.
    """
    handle, path = tempfile.mkstemp(prefix="bagwise-", suffix=".npy", dir=folder)
    os.close(handle)
    try:
        array = np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape)
    except BaseException:
        os.unlink(path)
        raise
    # Every view keeps the mmap object alive, so its end is the end of the last view.
    return array, weakref.finalize(array._mmap, _remove, path)  # type: ignore[attr-defined]


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
