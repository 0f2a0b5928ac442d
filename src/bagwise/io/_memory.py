"""Arrays in memory or, above a limit, in memory-mapped files."""

from __future__ import annotations

import math
import os
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse
from sklearn.utils import gen_batches

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
        if not self._is_large(shape, dtype):
            return np.empty(shape, dtype)
        array, finalizer = mapped_array(shape, dtype, self.scratch)
        if self.scratch is not None:
            self._unfinished.append(finalizer)
        return array

    def streams(self, shape: tuple[int, ...], dtype: DTypeLike) -> bool:
        """Whether an array stays in its files: it is too large, and there is no `scratch`."""
        return self.scratch is None and self._is_large(shape, dtype)

    def _is_large(self, shape: tuple[int, ...], dtype: DTypeLike) -> bool:
        return np.dtype(dtype).itemsize * math.prod(shape) > self.limit

    def copy(
        self, table: Any, *, rows: Ints | None, columns: Ints | None, dtype: DTypeLike | None
    ) -> Any:
        """Copy rows and columns of a 2-D array or CSR, a dense one block by block."""
        every = slice(None)
        which, dtype = every if columns is None else columns, dtype or table.dtype
        if sparse.issparse(table):
            return table[every if rows is None else rows][:, which].astype(dtype)
        n_rows = table.shape[0] if rows is None else len(rows)
        out = self.empty((n_rows, table[:0, which].shape[1]), dtype)
        for block in gen_batches(n_rows, max(1, _BLOCK // max(table.shape[1], 1))):
            assign(out[block], table[block if rows is None else rows[block]][:, which])
        return out

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
            f"{values.dtype} values do not fit {target.dtype} exactly: choose another dtype=."
        )
    release_pages(target)
