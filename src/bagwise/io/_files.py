"""What is asked of a file, and how it is read: formats, errors, memory, formulas."""

import contextlib
import itertools
import math
import os
import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from bagwise._common.memory import byte_count
from bagwise._common.tables import StreamedTable, slices
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.compute.mapped import mapped_array, release_pages
from bagwise.exceptions import BagwiseError, DataNotFoundError, FileFormatError, InputError

ROLES = ("bag", "label", "label_set", "instance_label")
FORMATS = {
    "csv": (".csv", ".csv.gz"),
    "tsv": (".tsv", ".tsv.gz"),
    "parquet": (".parquet", ".pq"),
    "npz": (".npz",),
    "hdf5": (".h5", ".hdf5", ".pt"),
    "h5ad": (".h5ad",),
}
TABLES = ("csv", "tsv", "parquet")
_BLOCK = 2**22  # values copied at a time


def format_of(path: Path, format: str | None, *, writing: bool = False) -> str:
    """Return the format of a path: as given, or by its suffix; a folder contains HDF5 files."""
    if format is not None:
        if format not in FORMATS:
            raise InputError(f"unknown format {format!r}: expected one of {sorted(FORMATS)}.")
        return format
    name = path.name.lower()
    for known, endings in FORMATS.items():
        if name.endswith(endings) and (writing or not path.is_dir()):
            if writing and known == "h5ad":
                raise FileFormatError(f"{path}: bagwise reads .h5ad files and does not write them.")
            return known
    if path.is_dir():
        return "hdf5"
    if not writing:
        _refuse_special(path)
    every = ", ".join(itertools.chain(*FORMATS.values()))
    raise FileFormatError(
        f"{path} has an unknown suffix: expected {every}, a folder of HDF5 files, or format=."
    )


@contextlib.contextmanager
def format_errors(path: Path) -> Iterator[None]:
    """Convert errors of the libraries on damaged files to FileFormatError; name the file in all."""
    _refuse_special(path)
    try:
        with naming(path):
            yield
    except (BagwiseError, Warning):  # a warning that the user turned into an error
        raise
    # Four libraries parse untrusted bytes here; their errors have no common base class.
    except Exception as error:
        detail = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")[:300]
        encoding = "UTF8" in detail  # of pyarrow
        remedy = "Save it as UTF-8." if encoding else "Is it complete, and is its suffix right?"
        raise FileFormatError(f"{path} could not be read: {detail}. {remedy}") from error


@contextlib.contextmanager
def naming(path: Path, other: Any = None) -> Iterator[None]:
    """Add the name of the file to error messages that name neither this nor the other file."""
    try:
        yield
    except InputError as error:
        others = [Path(other).name] if isinstance(other, str | os.PathLike) else []
        if any(name in str(error) for name in [path.name, *others]):
            raise
        raise type(error)(f"{' with '.join([str(path), *others])}: {error}") from error


def _refuse_special(path: Path) -> None:
    """Refuse anything but a file or a folder: reading a pipe could block for ever."""
    if not os.path.exists(path):
        raise DataNotFoundError(f"no file or folder {str(path)!r} that can be read.")
    if not (os.path.isfile(path) or os.path.isdir(path)):
        raise FileFormatError(f"{path} is a pipe or a device: write it to a file first.")


def listed(names: Iterable[str], most: int = 20) -> str:
    """Quote column names for a message; at most the first `most`."""
    names = list(names)
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more


# Formulas: a spreadsheet runs a cell that begins with one of these characters, so that an id such
# as ``=HYPERLINK(...)`` could send the user's data away. bagwise writes an apostrophe before it,
# which spreadsheets show or hide but never run, and removes it when reading. A string that already
# has apostrophes there gets one more. Numbers stay unchanged, also as strings.
_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")  # and full-width forms
_NUMBER = re.compile(r"'*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


def escaped(text: str) -> str:
    """Put an apostrophe before a string that a spreadsheet would run.

    Examples
    --------
    >>> from bagwise.io._files import escaped
    >>> escaped("=1+1"), escaped("'=1+1"), escaped("-1"), escaped("it's")
    ("'=1+1", "''=1+1", '-1', "it's")
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unescaped(text: str) -> str:
    """Remove the apostrophe added by `escaped`.

    Examples
    --------
    >>> from bagwise.io._files import unescaped
    >>> unescaped("'=1+1"), unescaped("''=1+1"), unescaped("=1+1"), unescaped("'tis")
    ('=1+1', "'=1+1", '=1+1', "'tis")
    """
    return text[1:] if text.startswith("'") and escaped(text) != text else text


class Cluster(NamedTuple):
    """Dask workers and the number of partitions."""

    client: Any
    npartitions: int | None

    def sees(self, path: Path) -> bool:
        """Whether every worker can access this file, with the same size."""
        path = path.resolve()
        return {*self.client.run(_size_of, path).values()} == {_size_of(path)}

    def load(
        self, table: StreamedTable, offsets: Ints, ids: Array | None, names: list[str] | None
    ) -> Bags:
        """Bags in a table of which each worker reads some rows."""
        from bagwise.compute.dask import load_on_workers

        features = table.shape[1], table.dtype
        load = partial(partial, _read_some, table, offsets, names)
        return load_on_workers(self.client, self.npartitions, load, offsets, features, ids, names)


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1


def _read_some(
    table: StreamedTable, offsets: Ints, names: Any, first: int, last: int, ids: Array | None
) -> Bags:
    """Read some bags, on a Dask worker."""
    rows = table[int(offsets[first]) : int(offsets[last])]
    return Bags(rows, offsets[first : last + 1] - offsets[first], ids, feature_names=names)


@dataclass(frozen=True)
class Request:
    """What to read from a file, and how: the arguments of `read_bags`, and a few more.

    `label_columns` are columns with what is known of one label each, `looked_for` that with the
    labels that were looked for. `group` names the column with the group of each bag, `bag_columns`
    further columns of bags, `merge` the column with the merged bag that a bag becomes part of,
    `extra_columns` further columns that are read as strings, and `clips` the columns with the file,
    start and end of clips.
    """

    bag: str | None = None
    label: str | None = None
    label_set: str | None = None
    instance_label: str | None = None
    label_columns: tuple[str, ...] = ()
    looked_for: str | None = None
    group: str | None = None
    bag_columns: Sequence[str] = ()
    merge: str | None = None
    id_column: str | None = None
    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    extra_columns: Sequence[str] = ()
    keep: Sequence[str] = ()
    clips: tuple[str | None, str, str] | None = None
    labels: Any = None
    missing: str = "unlabelled"
    classes: Sequence[Any] | Array | None = None
    separator: str = ";"
    dtype: np.dtype[Any] | None = None
    format: str | None = None
    memory_limit: int | float | str | None = None
    scratch: str | os.PathLike[str] | None = None
    cluster: Cluster | None = None
    allow_external: bool = False
    use_rep: str | None = None

    @property
    def roles(self) -> dict[str, str | None]:
        """The name of the column of each role; None if it was not given or not found."""
        return {role: getattr(self, role) for role in ROLES}

    @property
    def beside(self) -> list[str]:
        """Columns that are read but are neither features nor labels."""
        named = [n for n in (self.group, self.merge, self.looked_for) if n is not None]
        named += [*self.label_columns, *self.bag_columns, *self.extra_columns, *self.keep]
        return [*dict.fromkeys(named)]


# Arrays in memory or, above a limit, in memory-mapped files


@dataclass(frozen=True)
class Workspace:
    """Allocates arrays; those above `limit` bytes are memory maps in `scratch`.

    A map in the temporary folder of the system is deleted with the last reference to it. A map
    in a folder of the user is kept if `keep` is called, that is if reading succeeded.
    """

    limit: int
    scratch: Path | None = None
    _unfinished: list["weakref.finalize[Any, Any]"] = field(default_factory=list)

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
        for block in slices(n_rows, max(1, _BLOCK // max(table.shape[1], 1))):
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
        raise InputError(f"{values.dtype} values do not fit {target.dtype}: set another dtype=.")
    release_pages(target)
