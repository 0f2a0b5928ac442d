"""File formats, one error for damaged files, and cells that a spreadsheet would run."""

import contextlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bagwise.exceptions import BagwiseError, DataNotFoundError, FileFormatError, InputError

FORMATS = {
    "csv": (".csv", ".csv.gz"),
    "tsv": (".tsv", ".tsv.gz"),
    "parquet": (".parquet", ".pq"),
    "npz": (".npz",),
    "hdf5": (".h5", ".hdf5"),
}
TABLES = ("csv", "tsv", "parquet")


def format_of(path: Path, format: str | None, *, writing: bool = False) -> str:
    """Return the format of a path: as given, or by its suffix; a folder contains HDF5 files."""
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
    if not writing:
        _refuse_special(path)
    every = ", ".join(itertools.chain(*FORMATS.values()))
    raise FileFormatError(
        f"{path} has an unknown suffix: expected {every}, a folder of HDF5 files, or format=."
    )


@contextlib.contextmanager
def format_errors(path: Path) -> Iterator[None]:
    """Convert the errors of the libraries on damaged files to one FileFormatError."""
    _refuse_special(path)
    try:
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
        raise type(error)(f"{path}: {error}") from error


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
