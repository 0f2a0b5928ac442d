"""Formats of files, and one error for damaged ones."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator
from pathlib import Path

from bagwise.exceptions import (
    BagwiseError,
    DataNotFoundError,
    FileFormatError,
    InputError,
)

__all__ = ["FORMATS", "format_of", "reading"]

FORMATS = {
    "csv": (".csv", ".csv.gz"),
    "tsv": (".tsv", ".tsv.gz"),
    "parquet": (".parquet", ".pq"),
    "npz": (".npz",),
    "hdf5": (".h5", ".hdf5"),
}


def format_of(path: Path, format: str | None, *, writing: bool = False) -> str:
    """Name the format of a path: as told, or by its ending; a folder holds HDF5 files."""
    if format is not None:
        if format not in FORMATS:
            raise InputError(f"unknown format {format!r}: expected one of {sorted(FORMATS)}.")
        return format
    name = path.name.lower()
    for known, endings in FORMATS.items():
        if name.endswith(endings) and (writing or not path.is_dir()):
            return known
    if path.is_dir():
        return "hdf5"
    every = ", ".join(ending for endings in FORMATS.values() for ending in endings)
    raise FileFormatError(
        f"{path} has an ending bagwise does not know: expected {every} or a folder of HDF5 "
        f"files; or say which it is with format= ({', '.join(FORMATS)})."
    )


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a format's own library raises on a damaged file into one clear error."""
    _refuse_special(path)
    try:
        yield
    except (BagwiseError, Warning):  # a warning, where the user made errors of warnings
        raise
    except MemoryError as error:
        raise FileFormatError(
            f"{path} asks for more memory than there is: it is damaged, or memory_limit= is too "
            "high for this machine."
        ) from error
    # Four libraries parse untrusted bytes here, and their errors have no common root.
    except Exception as error:
        detail = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise FileFormatError(
            f"{path} could not be read: {detail}. Is the file complete, and of the format its "
            "name says?"
        ) from error


def _refuse_special(path: Path) -> None:
    """Refuse what is neither a file nor a folder: reading a pipe could wait for ever."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise DataNotFoundError(f"no file or folder {str(path)!r}.") from error
    except OSError as error:
        raise DataNotFoundError(f"{str(path)!r} cannot be read: {error.strerror}.") from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise FileFormatError(
            f"{path} is a {_special_kind(mode)}, and files are read more than once: write it to a "
            "file first."
        )


def _special_kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "pipe"
    return "socket" if stat.S_ISSOCK(mode) else "device"
