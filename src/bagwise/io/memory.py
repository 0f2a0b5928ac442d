"""Where what is read is put: in memory while it fits, else in a memory-mapped file."""

from __future__ import annotations

import contextlib
import os
import re
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bagwise.engines.mapped import mapped_array
from bagwise.exceptions import DataNotFoundError, InputError

__all__ = ["Workspace", "byte_count", "make_workspace"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_FALLBACK = 4 * 2**30  # assumed to be there where the system does not say what is
_BLOCK = 2**22  # values copied at a time


@dataclass(frozen=True)
class Workspace:
    """Room for arrays: those above `limit` bytes become memory maps in `scratch`.

    A map in the system's temporary folder is deleted when nothing refers to it any more. One in a
    folder of the user's stays, once `keep` has said that the reading succeeded.
    """

    limit: int
    scratch: Path | None = None
    _unfinished: list[weakref.finalize[Any, Any]] = field(default_factory=list)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array to be filled: in memory, or memory-mapped when it is too large for that."""
        dtype = np.dtype(dtype)
        if dtype.itemsize * int(np.prod(shape, dtype=object)) <= self.limit:
            return np.empty(shape, dtype)
        array, finalizer = mapped_array(shape, dtype, self.scratch)
        if self.scratch is not None:
            self._unfinished.append(finalizer)
        return array

    def copy(
        self,
        array: NDArray[Any],
        *,
        dtype: DTypeLike | None = None,
        rows: NDArray[np.int64] | None = None,
        columns: NDArray[np.int64] | None = None,
    ) -> NDArray[Any]:
        """Chosen rows and columns of a 2-D array in another type, copied block by block."""
        n_rows = array.shape[0] if rows is None else len(rows)
        n_columns = array.shape[1] if columns is None else len(columns)
        result = self.empty((n_rows, n_columns), array.dtype if dtype is None else dtype)
        step = max(1, _BLOCK // max(array.shape[1], 1))
        for start in range(0, n_rows, step):
            block = array[start : start + step] if rows is None else array[rows[start:][:step]]
            assign(result[start : start + step], block if columns is None else block[:, columns])
        return result

    def keep(self) -> None:
        """Say that the reading succeeded: maps in the user's own folder are now the user's."""
        for finalizer in self._unfinished:
            finalizer.detach()
        self._unfinished.clear()


def make_workspace(
    memory_limit: int | float | str | None, scratch: str | os.PathLike[str] | None
) -> Workspace:
    """Check the two arguments of `read_bags` that say how much memory and which folder to use."""
    folder = None if scratch is None else Path(scratch)
    if folder is not None and not folder.is_dir():
        raise DataNotFoundError(f"scratch={str(folder)!r} is not a folder.")
    return Workspace(byte_count(memory_limit), folder)


def byte_count(limit: int | float | str | None) -> int:
    """Turn ``"2GB"``, ``"512MiB"`` or a number into bytes; None is half of what is available.

    Examples
    --------
    >>> from bagwise.io.memory import byte_count
    >>> byte_count("1.5GB"), byte_count("2 MiB"), byte_count(1000)
    (1500000000, 2097152, 1000)
    """
    if limit is None:
        return available_memory() // 2
    if isinstance(limit, int | float) and not isinstance(limit, bool) and 0 <= limit < np.inf:
        return int(limit)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", str(limit).lower())
    units = _UNITS | _BINARY_UNITS
    if not isinstance(limit, str) or match is None or match[2] not in units:
        raise InputError(
            f"memory_limit={limit!r} is not a size: give bytes, or a text such as '2GB' or "
            "'512MiB'."
        )
    return int(float(match[1]) * units[match[2]])


def available_memory() -> int:
    """Bytes that can be used without swapping, also inside a container with a limit."""
    found = [_FALLBACK]
    with contextlib.suppress(OSError, ValueError, AttributeError):
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text()
        found.append(1024 * int(text.partition("MemAvailable:")[2].split()[0]))
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        ceiling = int((group / "memory.max").read_text())
        found.append(max(0, ceiling - int((group / "memory.current").read_text())))
    return min(found)


def assign(target: NDArray[Any], values: NDArray[Any]) -> None:
    """Copy values into an array of another type, or say that they do not fit it."""
    try:
        with np.errstate(over="raise", invalid="raise"):
            target[...] = values
    except (FloatingPointError, OverflowError) as error:
        raise InputError(f"a value does not fit {target.dtype}: choose another dtype=.") from error
    exact = target.dtype.kind == "f" or target.dtype == values.dtype
    if not exact and not np.array_equal(target, values):
        raise InputError(
            f"values of type {values.dtype} would change as {target.dtype}: choose another dtype=."
        )
