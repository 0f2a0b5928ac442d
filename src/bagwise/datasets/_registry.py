"""Data sets read from a file: their descriptions, the folders searched, and how they are read."""

import os
import re
import string
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from bagwise._common.files import user_cache
from bagwise._common.types import Array
from bagwise.bags import Bags, offsets_of
from bagwise.exceptions import DataNotFoundError, FileFormatError, InputError, did_you_mean

PACKAGE_DATA = Path(__file__).parent / "data"
FOLDER_VARIABLE = "BAGWISE_DATA"
MUSK_FEATURES = [f"f{i}" for i in range(1, 167)]
LETTERS = np.array(list(string.ascii_uppercase))
LETTER_FEATURES = [
    *("x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar"),
    *("y2bar", "xybar", "x2ybr", "xy2br", "x-ege", "xegvy", "y-ege", "yegvx"),
]


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
        "bag classification", "bag regression", "instance annotation" (label sets per bag and
        instance labels), "bag label sets" or "partial labels" (rows with candidate labels, each a
        bag of one instance).
    n_bags : int or None
        Number of bags; None for rows without bags.
    n_instances, n_features, n_classes : int
        Sizes with default options (averages for generated sets); 0 classes if y is numeric.
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
        The names of the classes 0 and 1 of a set whose file does not contain them.
    per_bag, per_instance, names : dict of str to str
        Fields of a set that has no loader of its own, and the arrays of its file; `names` are of
        neither bags nor instances.
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
    per_bag: dict[str, str] = field(default_factory=dict)
    per_instance: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def found(self) -> bool:
        """Whether the data set can be loaded now."""
        return self.path is not None or self.where == "drawn"

    @property
    def details(self) -> str:
        """The text of `DESCR` of the loaded data set."""
        usually = "By default, about: " if self.where == "drawn" else ""
        bags = "" if self.n_bags is None else f"{self.n_bags} bags, "
        classes = f", {self.n_classes} classes" if self.n_classes else ""
        return (
            f"{self.title}\n{'=' * len(self.title)}\n{self.description}\n\n"
            f"{usually}{bags}{self.n_instances} instances, {self.n_features} features"
            f"{classes} ({self.task}).\n\n{self.notes.strip()}\n\n"
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
            f"{path} cannot be read as an npz file, and may be damaged ({error}): replace it."
        ) from error
    if missing := [name for name in names if name not in arrays]:
        raise FileFormatError(f"{path} lacks the arrays {missing}: it is another file.")
    return arrays


@cache
def _registry() -> dict[str, DatasetInfo]:
    text = Path(__file__).with_name("registry.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["dataset"]
    return {entry["name"]: DatasetInfo(**entry) for entry in entries}


# --- Data sets of bags ----------------------------------------------------------------------------


def load_dataset(name: str, **options: Any) -> Bunch:
    """Load a data set by its name: ``load_dataset("musk1")`` is ``load_musk1()``.

    Parameters
    ----------
    name : str
        A name listed by :func:`list_datasets`.
    **options
        Passed to its loader, if it has one: ``load_letter_carroll`` of "letter_carroll".

    Returns
    -------
    Bunch
        Sets of the data home have the same fields as Musk1 (see `load_musk1`), `label_sets` instead
        of `y` for "partial labels", and those that DESCR names: `groups` (patient, scaffold, image
        or recording of each bag, None if unknown), `coords` (positions of instances), marks of the
        published test parts.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home; the message states how to get it.
    FileFormatError
        When the file is damaged.

    Examples
    --------
    >>> from bagwise.datasets import load_dataset
    >>> load_dataset("musk1").bags
    Bags(n_bags=92, n_instances=476, n_features=166, dtype=float64)
    """
    from bagwise import datasets

    info = dataset_info(name)
    if info.loader is None:
        return _from_file(info)
    return getattr(datasets, info.loader)(**options)


def load_musk1() -> Bunch:
    """Load Musk1: which molecules smell of musk (shipped with bagwise).

    Returns
    -------
    Bunch
        - ``bags``: 92 molecules, 476 conformers, 166 features (whole numbers, as float64);
        - ``y``: 1 for a musk (47), 0 for others (45); ``classes`` names them;
        - ``fold``: (5, 92) test-fold numbers of five repetitions of 10-fold cross-validation;
        - ``instance_labels``: None, as it is unknown which conformer smells;
        - ``feature_names``, ``DESCR``.

    References
    ----------
    Dietterich, Lathrop & Lozano-Perez, "Solving the multiple instance problem with axis-parallel
    rectangles", Artificial Intelligence 89, 1997.

    Examples
    --------
    >>> from bagwise.datasets import load_musk1
    >>> musk = load_musk1()
    >>> musk.bags
    Bags(n_bags=92, n_instances=476, n_features=166, dtype=float64)
    >>> int(musk.y.sum()), musk.classes.tolist()
    (47, ['non-musk', 'musk'])
    """
    return _from_file(dataset_info("musk1"))


def _from_file(info: DatasetInfo) -> Bunch:
    """Load a set without a loader of its own: the arrays that its record names."""
    target = "label_sets" if info.task == "partial labels" else "y"
    ours = {target: "candidates" if target == "label_sets" else "y"} | info.per_bag
    needed = {**ours, **info.per_instance, **info.names}.values()
    arrays = read_dataset(info, ["X", *(["bag"] if target == "y" else []), *needed])
    arrays.setdefault("bag", np.arange(len(arrays["X"])))  # a row is a bag of one instance
    found: dict[str, Any] = {"instance_labels": None, "groups": None, "fold": arrays.get("fold")}
    found |= {name: arrays[array] for name, array in info.names.items()}
    found.setdefault("classes", info.classes and np.array(info.classes))
    features = found.pop("feature_names", MUSK_FEATURES if info.name.startswith("musk") else None)
    ids = arrays[info.per_bag["ids"]] if "ids" in info.per_bag else None
    bags = bags_of(info, arrays, ids, features)
    for fields, n_rows in ((ours, len(bags)), (info.per_instance, bags.n_instances)):
        found |= {name: _rows_of(info, n_rows, arrays[array]) for name, array in fields.items()}
    for name in {"y", "instance_labels"} & found.keys():
        if found[name] is not None and found[name].dtype.kind in "iu":
            found[name] = found[name].astype(np.int64)
    if found["classes"] is None and info.n_classes:
        found["classes"] = np.arange(info.n_classes)
    return bag_bunch(info, bags, **{name: found[name] for name in found if name != "ids"})


# --- The words of a poem as bags of letters -------------------------------------------------------


def load_letter_carroll(random_state: Any = 0, *, published_words: bool = False) -> Bunch:
    """Load Letter-Carroll: the words of Jabberwocky as bags of letters (shipped with bagwise).

    Each letter of a word is a row of UCI Letter of that class, drawn without replacement; the
    label set of a word is the set of its letters. The published sample is not available: the
    words are the same, but the rows differ.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=0
        Seed for drawing rows of UCI Letter.
    published_words : bool, default=False
        False: words are split at the hyphen and the one-letter word "O" is left out, which gives
        the published 166 bags and 717 instances. True: "snicker-snack" is one word, "O" is kept
        and "hast" reads "has", as in many copies of the poem; only this variant also gives the
        published one bag with a single label and 3.93 labels per bag.

    Returns
    -------
    Bunch
        - ``bags``: 166 words, 717 letters, 16 features; ``bags.ids`` are position and word;
        - ``label_sets``: (166, 26) zeros and ones; Q and Z never occur;
        - ``instance_labels``: the letter of each instance, an index into ``classes``;
        - ``classes``: the letters A to Z;
        - ``letter_row``: (717,) the row of ``letter.npz`` of each instance;
        - ``feature_names``, ``DESCR``.

    References
    ----------
    Briggs, Fern & Raich, "Rank-loss support instance machines for MIML instance annotation",
    KDD 2012; counts in Pham et al. 2014 (Table 1) and Pei & Fern 2014 (Table 2).

    Examples
    --------
    >>> from bagwise.datasets import load_letter_carroll
    >>> carroll = load_letter_carroll(random_state=0)
    >>> carroll.bags
    Bags(n_bags=166, n_instances=717, n_features=16, dtype=float64)
    >>> carroll.bags.ids[:2].tolist()
    ['000 Twas', '001 brillig']
    >>> carroll.classes[carroll.label_sets[1] == 1].tolist()
    ['B', 'G', 'I', 'L', 'R']
    """
    poem = _poem("jabberwocky.txt")
    if published_words:
        words = re.findall(r"[A-Za-z-]*[A-Za-z]", poem.replace("hast thou", "has thou"))
    else:
        words = re.findall(r"[A-Za-z]{2,}", poem)
    return _letters_of("letter_carroll", words, random_state)


def load_letter_frost(random_state: Any = 0) -> Bunch:
    """Load Letter-Frost: the words of The Road Not Taken as bags of letters (shipped).

    Like :func:`load_letter_carroll`, with Robert Frost's poem. All words are kept, including "I"
    and "a", which gives every published count.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=0
        Seed for drawing rows of UCI Letter.

    Returns
    -------
    Bunch
        - ``bags``: 144 words, 565 letters, 16 features; ``bags.ids`` are position and word;
        - ``label_sets``: (144, 26) zeros and ones; X and Z never occur;
        - ``instance_labels``, ``classes``, ``letter_row``, ``feature_names``, ``DESCR`` as in
          :func:`load_letter_carroll`.

    Examples
    --------
    >>> from bagwise.datasets import load_letter_frost
    >>> load_letter_frost(random_state=0).bags
    Bags(n_bags=144, n_instances=565, n_features=16, dtype=float64)
    """
    words = re.findall(r"[A-Za-z]+", _poem("the_road_not_taken.txt"))
    return _letters_of("letter_frost", words, random_state)


def _poem(file: str) -> str:
    return (files("bagwise.datasets") / "data" / file).read_text(encoding="utf-8")


def _letters_of(name: str, words: list[str], random_state: Any) -> Bunch:
    """Make a bag of each word; its letters are drawn from UCI Letter without replacement."""
    rng = check_random_state(random_state)
    info = dataset_info(name)
    letter = read_dataset(info, ["X", "y"])  # the rows of UCI Letter
    spelled = [re.sub("[^A-Z]", "", word.upper()) for word in words]
    instance_labels = np.searchsorted(LETTERS, list("".join(spelled)))
    rows = np.empty(len(instance_labels), dtype=np.int64)
    for c in np.unique(instance_labels):
        places = np.flatnonzero(instance_labels == c)
        rows[places] = rng.choice(np.flatnonzero(letter["y"] == c), size=len(places), replace=False)
    offsets = offsets_of([len(word) for word in spelled])
    ids = np.array([f"{i:03d} {word}" for i, word in enumerate(words)])
    X = letter["X"][rows].astype(np.float64)
    bags = Bags(X, offsets, ids, feature_names=LETTER_FEATURES)
    label_sets = np.zeros((len(bags), len(LETTERS)), dtype=np.uint8)
    label_sets[bags.bag_index, instance_labels] = 1
    found: dict[str, Any] = {"label_sets": label_sets, "instance_labels": instance_labels}
    return bag_bunch(info, bags, **found, classes=LETTERS.copy(), letter_row=rows)


# --- From arrays to bags ------------------------------------------------------------------------


def bags_of(
    info: DatasetInfo,
    arrays: dict[str, Array],
    ids: Array | None = None,
    feature_names: list[str] | None = None,
) -> Bags:
    """Make bags of the rows of X; bag numbers start from 0 without gaps."""
    X, bag = arrays["X"], arrays["bag"]
    numbered = bag.ndim == 1 and bag.dtype.kind in "iu" and len(bag) > 0 and bag[0] == 0
    if not numbered or not np.isin(np.diff(bag.astype(np.int64)), (0, 1)).all():
        raise damaged(info, "bags that are not numbered 0, 1, 2, ... in order")
    offsets = offsets_of(np.bincount(bag))
    try:
        return Bags(X.astype(np.float64), offsets, ids, feature_names=feature_names)
    except ValueError as error:
        raise damaged(info, str(error)) from error


def per_bag(info: DatasetInfo, bags: Bags, values: Array) -> Array:
    return _rows_of(info, len(bags), values)


def _rows_of(info: DatasetInfo, n_rows: int, values: Array) -> Array:
    if values.ndim == 0 or len(values) != n_rows:
        raise damaged(info, f"labels of shape {values.shape} for {n_rows} bags or instances")
    return values
