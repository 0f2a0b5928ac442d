"""The data home: the folders searched for data sets, and reading of files."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bagwise._types import Array
from bagwise.exceptions import FileFormatError

FOLDER_VARIABLE = "BAGWISE_DATA"


def user_cache() -> Path:
    r"""Return the user's cache folder of bagwise, whether or not it exists.

    ``$XDG_CACHE_HOME/bagwise`` where that variable is set; otherwise ``~/.cache/bagwise``,
    ``~/Library/Caches/bagwise`` on macOS, ``%LOCALAPPDATA%\bagwise\Cache`` on Windows. Fetched
    data sets are written here.
    """
    home = Path(os.path.expanduser("~"))
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):  # XDG specification: ignore relative paths
        return Path(xdg) / "bagwise"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "bagwise"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or str(home / "AppData" / "Local")
        return Path(local) / "bagwise" / "Cache"
    return home / ".cache" / "bagwise"


def data_folders() -> list[Path]:
    """Return the folders searched for data files, in order.

    The folder in the environment variable ``BAGWISE_DATA``, if it is set, then the user's cache
    folder. bagwise writes only to the latter.

    Examples
    --------
    >>> from bagwise.datasets._home import data_folders
    >>> "bagwise" in str(data_folders()[-1])
    True
    """
    named = os.environ.get(FOLDER_VARIABLE, "")
    return ([Path(os.path.expanduser(named))] if named else []) + [user_cache()]


def find_file(name: str) -> Path | None:
    """Return the first file of that name in the data folders, or None."""
    paths = (folder / name for folder in data_folders())
    return next((path for path in paths if path.is_file()), None)


def read_arrays(path: Path, names: Iterable[str]) -> dict[str, Array]:
    """Read the named arrays of an npz file.

    Raises
    ------
    FileFormatError
        If the file is damaged, is not an npz file, or lacks one of the arrays.
    """
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            missing = [name for name in names if name not in file.files]
            if not missing:
                return {name: file[name] for name in file.files}
    except Exception as error:  # a damaged zip file raises many kinds of errors
        raise FileFormatError(
            f"{path} cannot be read as an npz file ({error}): it may be truncated or "
            "damaged. Replace it, or delete it and download the data set again."
        ) from error
    raise FileFormatError(
        f"{path} lacks the arrays {missing}: it is not the file that bagwise expects there."
    )
