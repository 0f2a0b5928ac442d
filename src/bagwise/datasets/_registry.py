"""Registry of data sets: their descriptions, the folders searched, and how files are read."""

import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from bagwise._common.names import did_you_mean
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
    loader : str or None
        The function of `bagwise.datasets` that loads the data set, if it has its own.
    classes : list of str or None
        The names of the classes 0 and 1 of a set that has no loader of its own.
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
    notes: str = field(repr=False)
    n_bags: int | None = None
    file: str | None = None
    loader: str | None = None
    classes: list[str] | None = None

    @property
    def found(self) -> bool:
        """Whether the data set can be loaded now."""
        return self.path is not None or self.where == "drawn"

    @property
    def details(self) -> str:
        """The text of `DESCR` of the loaded data set."""
        usually = "By default, about: " if self.where == "drawn" else ""
        bags = "" if self.n_bags is None else f"{self.n_bags} bags, "
        return (
            f"{self.title}\n{'=' * len(self.title)}\n{self.description}\n\n"
            f"{usually}{bags}{self.n_instances} instances, {self.n_features} features, "
            f"{self.n_classes} classes ({self.task}).\n\n{self.notes.strip()}\n\n"
            f"Origin: {self.origin}.\nLicence: {self.licence}."
        )

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


def dataset_info(name: str) -> DatasetInfo:
    """Return the record of a data set, or raise an error with similar names."""
    known = _registry()
    if name not in known:
        hint = did_you_mean(name, known) or f" Known: {', '.join(known)}."
        raise InputError(f"no data set is called {name!r}.{hint}")
    return known[name]


def read_dataset(info: DatasetInfo, names: Iterable[str]) -> dict[str, Array]:
    """Read the file of a data set, or raise an error with the searched folders and a remedy."""
    if info.path is not None:
        return read_arrays(info.path, names)
    raise DataNotFoundError(
        f"{info.file} was not found in {', '.join(map(str, data_folders()))}. Put it there, or set "
        f"{FOLDER_VARIABLE} to its folder; bagwise does not download it (origin: {info.origin})."
    )


def bag_bunch(info: DatasetInfo, bags: Bags, **fields: Any) -> Bunch:
    """Make a data set of bags, with its feature names and description."""
    return Bunch(bags=bags, feature_names=bags.feature_names, DESCR=info.details, **fields)


def damaged(info: DatasetInfo, content: str) -> FileFormatError:
    """Return the error for a file with unexpected content."""
    return FileFormatError(f"{info.path} contains {content}: it is another file.")


# --- The data home --------------------------------------------------------------------------------


def user_cache() -> Path:
    """Return the user's cache folder of bagwise, whether or not it exists.

    ``$XDG_CACHE_HOME/bagwise``, or ``~/.cache/bagwise``.
    """
    cache_home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache_home).expanduser() / "bagwise"


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
    return ([Path(named).expanduser()] if named else []) + [user_cache()]


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
            arrays = {name: file[name] for name in file.files}
    except Exception as error:  # a damaged zip file raises many kinds of errors
        raise FileFormatError(
            f"{path} cannot be read as an npz file: it may be truncated or damaged ({error}). "
            "Replace it."
        ) from error
    if missing := [name for name in names if name not in arrays]:
        raise FileFormatError(f"{path} lacks the arrays {missing}: it is another file.")
    return arrays


@cache
def _registry() -> dict[str, DatasetInfo]:
    text = Path(__file__).with_name("registry.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["dataset"]
    return {entry["name"]: DatasetInfo(**entry) for entry in entries}
