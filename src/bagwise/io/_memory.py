"""Arrays in memory or, above a limit, in memory-mapped files."""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from bagwise._common.memory import byte_count
from bagwise._common.types import Array, Ints
from bagwise.compute.mapped import mapped_array, release_pages
from bagwise.exceptions import DataNotFoundError, InputError

_BLOCK = 2**22  # values copied at a time


@dataclass(frozen=True)
class Workspace:
    """Allocates arrays; those above `limit` bytes are memory maps in `scratch`.

    A map in the temporary folder of the system is deleted with the last reference to it. A map
    in a folder of the user is kept if `keep` is called, that is if reading succeeded.
    """

    limit: int
    scratch: Path | None = None
    _unfinished: list[weakref.finalize[Any, Any]] = field(default_factory=list)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """An uninitialised array: in memory, or memory-mapped if it is too large."""
        dtype = np.dtype(dtype)
        if dtype.itemsize * int(np.prod(shape, dtype=object)) <= self.limit:
            return np.empty(shape, dtype)
        array, finalizer = mapped_array(shape, dtype, self.scratch)
        if self.scratch is not None:
            self._unfinished.append(finalizer)
        return array

    def streams(self, shape: tuple[int, ...], dtype: DTypeLike) -> bool:
        """Whether an array stays in its files: it is too large, and there is no `scratch`."""
        n_bytes = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=object))
        return n_bytes > self.limit and self.scratch is None

    def copy(
        self,
        array: Array,
        *,
        dtype: DTypeLike | None = None,
        rows: Ints | None = None,
        columns: Ints | None = None,
    ) -> Array:
        """Copy rows and columns of a 2-D array block by block, optionally to another type."""
        n_rows = array.shape[0] if rows is None else len(rows)
        n_columns = array.shape[1] if columns is None else len(columns)
        result = self.empty((n_rows, n_columns), array.dtype if dtype is None else dtype)
        step = max(1, _BLOCK // max(array.shape[1], 1))
        for start in range(0, n_rows, step):
            block = array[start : start + step] if rows is None else array[rows[start:][:step]]
            assign(result[start : start + step], block if columns is None else block[:, columns])
        return result

    def keep(self) -> None:
        """Keep the maps in a folder of the user, after reading succeeded."""
        for finalizer in self._unfinished:
            finalizer.detach()
        self._unfinished.clear()


def make_workspace(
    memory_limit: int | float | str | None, scratch: str | os.PathLike[str] | None
) -> Workspace:
    """Check `memory_limit` and `scratch` of `read_bags`."""
    folder = None if scratch is None else Path(scratch)
    if folder is not None and not folder.is_dir():
        raise DataNotFoundError(f"scratch={str(folder)!r} is not a folder.")
    return Workspace(byte_count(memory_limit), folder)


def assign(target: Array, values: Array) -> None:
    """Copy values into an array of another type, or raise an error if they do not fit."""
    try:
        with np.errstate(over="raise", invalid="raise"):
            target[...] = values
    except (FloatingPointError, OverflowError) as error:
        raise InputError(f"a value does not fit {target.dtype}: choose another dtype=.") from error
    exact = target.dtype.kind == "f" or target.dtype == values.dtype
    if not exact and not np.array_equal(target, values):
        raise InputError(
            f"{values.dtype} values cannot be stored as {target.dtype} without loss: choose "
            "another dtype=."
        )
    release_pages(target)
