"""Registry of data sets: their descriptions, the folders searched, and how files are read."""

import difflib
import importlib
import os
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.exceptions import DataNotFoundError, FileFormatError, InputError

PACKAGE_DATA = Path(__file__).parent / "data"
FOLDER_VARIABLE = "BAGWISE_DATA"


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a data set.

    Attributes
    ----------
    name : str
        The name for :func:`load_dataset`.
    title : str
        The usual name.
    description : str
        One-line description.
    task : str
        "bag classification", "instance annotation" (label sets per bag and instance labels) or
        "bag label sets".
    n_bags : int or None
        Number of bags; None for rows without bags.
    n_instances, n_features, n_classes : int
        Sizes with default options (averages for generated sets).
    where : str
        "shipped" with the package, "drawn" (generated when loaded), or "data home": a file that
        the user puts into the data home.
    licence : str
        Licence of the data.
    origin : str
        Source of the data.
    notes : str
        Content and known problems.
    loader : str
        The function of `bagwise.datasets` that loads the data set.
    file : str or None
        Name of the file.
    found : bool
        Whether the data set can be loaded now.
    """

    name: str
    title: str
    description: str
    task: str
    n_instances: int
    n_features: int
    n_classes: int
    where: str
    licence: str
    origin: str
    loader: str
    notes: str = field(repr=False)
    n_bags: int | None = None
    file: str | None = None

    @property
    def found(self) -> bool:
        """Whether the data set can be loaded now."""
        return self.path is not None or self.where == "drawn"

    @property
    def path(self) -> Path | None:
        """Path of the file, or None."""
        if self.file is None:
            return None
        return PACKAGE_DATA / self.file if self.where == "shipped" else find_file(self.file)


def list_datasets() -> list[DatasetInfo]:
    """List all data sets, available or not.

    Returns
    -------
    list of DatasetInfo

    Examples
    --------
    >>> from bagwise.datasets import list_datasets
    >>> [data.name for data in list_datasets() if data.where == "shipped"]
    ['musk1', 'letter_carroll', 'letter_frost']
    """
    return list(_registry().values())


def describe_dataset(name: str) -> str:
    """Return the ``DESCR`` of a data set, available or not.

    Parameters
    ----------
    name : str
        A name listed by :func:`list_datasets`.

    Returns
    -------
    str

    Examples
    --------
    >>> from bagwise.datasets import describe_dataset
    >>> print(describe_dataset("musk1"))
    Musk1 (UCI clean1)
    ==================
    Which molecules smell of musk, from the shapes they can take.
    ...
    """
    return describe(dataset_info(name))


def describe(info: DatasetInfo) -> str:
    """Return the text of ``DESCR``."""
    sizes = f"{info.n_instances} instances, {info.n_features} features, {info.n_classes} classes"
    bags = "" if info.n_bags is None else f"{info.n_bags} bags, "
    usually = "By default, about: " if info.where == "drawn" else ""
    return "\n".join(
        [
            info.title,
            "=" * len(info.title),
            info.description.rstrip(".?") + ("?" if info.description.endswith("?") else "."),
            f"{usually}{bags}{sizes} ({info.task}).",
            "",
            info.notes.strip(),
            "",
            f"Origin: {info.origin}.",
            f"Licence: {info.licence}.",
        ]
    )


def load_dataset(name: str, **options: Any) -> Bunch:
    """Load a data set by its name: ``load_dataset("musk1")`` is ``load_musk1()``.

    Parameters
    ----------
    name : str
        A name listed by :func:`list_datasets`.
    **options
        Passed to its loader.

    Returns
    -------
    Bunch

    Examples
    --------
    >>> from bagwise.datasets import load_dataset
    >>> load_dataset("musk1").bags
    Bags(n_bags=92, n_instances=476, n_features=166, dtype=float64)
    """
    load = getattr(importlib.import_module("bagwise.datasets"), dataset_info(name).loader)
    return load(**options)


def dataset_info(name: str) -> DatasetInfo:
    """Return the record of a data set, or raise an error with similar names."""
    known = _registry()
    if not isinstance(name, str) or name not in known:
        near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(known)}."
        raise InputError(f"no data set is called {name!r}. {hint}")
    return known[name]


def read_dataset(info: DatasetInfo, names: Iterable[str]) -> dict[str, Array]:
    """Read the file of a data set, or raise an error with the searched folders and a remedy."""
    path = info.path
    if path is not None:
        return read_arrays(path, names)
    searched = ", ".join(map(str, data_folders()))
    raise DataNotFoundError(
        f"{info.file} was not found in {searched}. bagwise does not download it (origin: "
        f"{info.origin}). Put the file there, or set the environment variable {FOLDER_VARIABLE} to "
        "the folder that contains it."
    )


def bag_bunch(info: DatasetInfo, bags: Bags, **fields: Any) -> Bunch:
    """Make a data set of bags, with its feature names and description."""
    return Bunch(bags=bags, feature_names=bags.feature_names, DESCR=describe(info), **fields)


def damaged(info: DatasetInfo, content: str) -> FileFormatError:
    """Return the error for a file with unexpected content."""
    return FileFormatError(
        f"{info.path} holds {content}: it is not the file that bagwise expects there."
    )


# --- The data home --------------------------------------------------------------------------------


def user_cache() -> Path:
    r"""Return the user's cache folder of bagwise, whether or not it exists.

    ``$XDG_CACHE_HOME/bagwise`` if that variable is set; otherwise ``~/.cache/bagwise``,
    ``~/Library/Caches/bagwise`` on macOS, ``%LOCALAPPDATA%\bagwise\Cache`` on Windows.
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
    folder.

    Examples
    --------
    >>> from bagwise.datasets._registry import data_folders
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
            "damaged. Replace it."
        ) from error
    raise FileFormatError(
        f"{path} lacks the arrays {missing}: it is not the file that bagwise expects there."
    )


@cache
def _registry() -> dict[str, DatasetInfo]:
    text = Path(__file__).with_name("registry.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["dataset"]
    return {entry["name"]: DatasetInfo(**entry) for entry in entries}
