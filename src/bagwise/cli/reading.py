"""From a file and the options of a command to bags and labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import Bunch

from bagwise._validation import check_bags, is_mapped
from bagwise.bags import Bags
from bagwise.cli.output import note, progress
from bagwise.exceptions import InputError, LabelError
from bagwise.io import read_bags
from bagwise.io.columns import Request, listed
from bagwise.io.files import format_of, reading
from bagwise.io.memory import Workspace
from bagwise.io.sources import Source
from bagwise.io.table import open_table

__all__ = [
    "ColumnChoice",
    "Labelled",
    "as_written",
    "choose_columns",
    "known_sets",
    "named_labels",
    "named_sets",
    "open_columns",
    "read_for_model",
    "read_labelled",
    "refuse_gaps",
]

_TABLES = ("csv", "tsv", "parquet")


@dataclass(frozen=True)
class ColumnChoice:
    """What the user said about the columns of a file.

    Attributes
    ----------
    bag, label, label_set, group : str or None
        Names of columns; None for the usual ones, and for no groups.
    features : list of str or None
        The feature columns; None for all that are left.
    exclude : list of str
        Columns to leave out.
    separator : str
        What separates the labels of a set.
    labels : Path or None
        The table in which labels and groups stand, where it is not the file itself.
    memory_limit : str or None
        The size from which instances are kept in a file instead of memory.
    """

    bag: str | None = None
    label: str | None = None
    label_set: str | None = None
    group: str | None = None
    features: list[str] | None = None
    exclude: list[str] = field(default_factory=list)
    separator: str = ";"
    labels: Path | None = None
    memory_limit: str | None = None

    def read(self, path: Path) -> Bunch:
        """Read a file so."""
        exclude = list(self.exclude)
        grouped = self.group is not None and self.labels is None and _is_table(path)
        if grouped and self.group not in exclude:
            exclude.append(str(self.group))  # a group is no feature
        with progress(f"Reading {path.name}"), _naming(path):
            return read_bags(
                path,
                bag=self.bag,
                label=self.label,
                label_set=self.label_set,
                features=self.features,
                exclude=exclude,
                separator=self.separator,
                labels=self.labels,
                memory_limit=self.memory_limit,
            )


@dataclass(frozen=True)
class Labelled:
    """Labelled bags, ready to learn from.

    Attributes
    ----------
    bags : Bags
        The bags whose label is known.
    y : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Their labels, or their label sets as zeros and ones.
    classes : ndarray of shape (n_classes,)
        The labels; where a positive label was chosen, those that 0 and 1 stand for.
    groups : ndarray of shape (n_bags,) or None
        The group of each bag.
    """

    bags: Bags
    y: NDArray[Any]
    classes: NDArray[Any]
    groups: NDArray[Any] | None = None

    @property
    def has_sets(self) -> bool:
        """Whether the labels are label sets."""
        return self.y.ndim == 2

    @property
    def positive_note(self) -> str:
        """Which label is the positive one, for a message; nothing where there are not two."""
        two = self.y.ndim == 1 and len(self.classes) == 2
        return f" ({self.classes[1]!s} is positive)" if two else ""

    @property
    def is_sparse(self) -> bool:
        """Whether the instances are sparse."""
        return bool(sparse.issparse(self.bags.instances))


def choose_columns(
    bag: str | None,
    label: str | None,
    label_set: str | None,
    *,
    group: str | None = None,
    features: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    separator: str = ";",
    labels: Path | None = None,
    memory_limit: str | None = None,
) -> ColumnChoice:
    """Bring the options of a command together.

    Parameters
    ----------
    bag, label, label_set, group : str or None
        Names of columns.
    features, exclude : iterable of str or None
        Names of columns, or several separated by commas.
    separator : str, default=";"
        What separates the labels of a set.
    labels : Path or None
        The table in which labels stand, where it is not the file itself.
    memory_limit : str or None
        The size from which instances are kept in a file instead of memory.

    Returns
    -------
    ColumnChoice
    """
    if label is not None and label_set is not None:
        raise InputError("label= and label_set= exclude each other: a bag has one or the other.")
    if not separator:
        raise InputError("separator= is empty: give what stands between the labels of a set.")
    chosen = _split(features) or None
    return ColumnChoice(
        bag, label, label_set, group, chosen, _split(exclude), separator, labels, memory_limit
    )


def read_labelled(path: Path, choice: ColumnChoice, *, positive: str | None = None) -> Labelled:
    """Read bags to learn from: those without a label are left out, with a note.

    Parameters
    ----------
    path : Path
        The file of bags.
    choice : ColumnChoice
        Its columns.
    positive : str or None
        The positive one of two labels; the last in order by default.

    Returns
    -------
    Labelled
    """
    data = choice.read(path)
    if data.y is None and data.label_sets is None:
        raise LabelError("the bags have no labels: name their column with label= or label_set=.")
    if choice.label is None and data.label_sets is not None:
        if choice.label_set is None and data.y is not None:
            raise LabelError("the bags have labels and label sets: choose label= or label_set=.")
        y, known = data.label_sets, np.all(data.label_sets >= 0, axis=1)
    else:
        y, known = data.y, ~_is_unlabelled(data.y)
    if not known.all():
        note(f"{(~known).sum()} of {len(known)} bags have no label and are left out.")
    if not known.any():
        raise LabelError("no bag has a label.")
    y = y[known]
    if y.ndim == 2:
        classes = np.arange(y.shape[1]) if data.classes is None else data.classes
    else:
        y = np.array(y.tolist())  # without the gaps, labels are of one type
        classes = np.unique(y)
    if positive is not None:
        y, classes = _positive_last(y, classes, positive)
    groups = None if choice.group is None else _groups(path, choice, data)[known]
    bags = refuse_gaps(_chosen(data.bags, known))
    return Labelled(bags, y, classes, groups)


def refuse_gaps(bags: Bags) -> Bags:
    """Return bags of finite values as they are, and refuse others before they are scaled.

    Parameters
    ----------
    bags : Bags
        Bags to learn from.

    Returns
    -------
    Bags
        `bags`.
    """
    check_bags(None, bags, reset=True)
    return bags


def read_for_model(
    path: Path,
    model: Any,
    metadata: Mapping[str, Any],
    said: ColumnChoice,
    *,
    labelled: bool = True,
) -> Bunch:
    """Read the columns a saved model was fitted on, in its order, and labels where there are any.

    Parameters
    ----------
    path : Path
        The file of bags.
    model : estimator
        The saved model.
    metadata : mapping
        What is known of it: under ``columns``, what was asked for when it was fitted.
    said : ColumnChoice
        What the user says now; the rest is as it was then. A label column that is not there is no
        error: new bags need no labels.
    labelled : bool, default=True
        Whether labels are read; without, the label columns of the model are left out.

    Returns
    -------
    Bunch
        What `read_bags` gives, the features in the order of the model; and ``groups``, the group of
        each bag, None where no column of groups was named.
    """
    names = getattr(model, "feature_names_in_", None)
    names = None if names is None else list(names)
    choice = _as_fitted(path, metadata.get("columns", {}), names, said, labelled=labelled)
    data = choice.read(path)
    if names is not None and data.bags.feature_names is not None:
        data.bags = _in_order(data.bags, names)
    data.groups = None if choice.group is None else _groups(path, choice, data)
    return data


def open_columns(path: Path, wanted: list[str], also: Iterable[str] = ()) -> Source:
    """Open a table of which some columns are read as they are written.

    Parameters
    ----------
    path : Path
        A CSV, TSV or Parquet file.
    wanted : list of str
        Columns that must be there.
    also : iterable of str, default=()
        Columns that are read where they are there.

    Returns
    -------
    Source
    """
    format = format_of(path, None)
    if format not in _TABLES:
        raise InputError(
            f"{path.name} has no such columns: {', '.join(wanted)} can be read from CSV, TSV and "
            "Parquet tables."
        )
    table = open_table(path, format, Request({}), more_texts=[*wanted, *also])
    for name in wanted:
        if name not in table.names:
            raise InputError(
                f"there is no column {name!r} in {path.name}: the columns are "
                f"{listed(table.names)}."
            )
    return table


def as_written(table: Source, name: str) -> list[Any]:
    """Read a column with one value per row.

    Parameters
    ----------
    table : Source
        What `open_columns` gives.
    name : str
        The column.

    Returns
    -------
    list
        The value of each row as it is written, None where there is nothing.
    """
    if "list" in table.kind(name) or table.kind(name) in ("numbers", "vectors"):
        raise InputError(
            f"the column {name!r} holds lists: it is read from tables with one row per instance."
        )
    column = table.column(name, "label_set")  # as it is written
    values = [*column.values, None]  # code -1, a gap, is the last
    return [values[code] for code in column.codes]


def named_sets(data: Bunch) -> list[set[Any] | None]:
    """Name the labels of each bag that has a label set.

    Parameters
    ----------
    data : Bunch
        What `read_bags` gives, with label sets.

    Returns
    -------
    list of set or None
        None where nothing is known.
    """
    n_classes = data.label_sets.shape[1]
    names = list(range(n_classes)) if data.classes is None else data.classes.tolist()
    return [
        None if (row < 0).any() else {names[k] for k in row.nonzero()[0]} for row in data.label_sets
    ]


def named_labels(data: Bunch) -> list[Any]:
    """List the label of each bag.

    Parameters
    ----------
    data : Bunch
        What `read_bags` gives, with one label per bag.

    Returns
    -------
    list
        None where nothing is known.
    """
    gone = _is_unlabelled(data.y)
    return [None if g else label for label, g in zip(data.y.tolist(), gone, strict=True)]


def known_sets(data: Bunch, *, single: bool = False) -> list[set[Any] | None] | None:
    """List what is known of each bag as a set, also where it has one label.

    Parameters
    ----------
    data : Bunch
        What `read_bags` gives.
    single : bool, default=False
        Whether one label per bag is meant, where a file has labels and label sets.

    Returns
    -------
    list of set or None, or None
        None for a bag of which nothing is known; None where there are no labels at all.
    """
    if data.label_sets is not None and not (single and data.y is not None):
        return named_sets(data)
    if data.y is None:
        return None
    return [None if label is None else {label} for label in named_labels(data)]


def _as_fitted(
    path: Path,
    columns: Mapping[str, Any],
    names: list[str] | None,
    said: ColumnChoice,
    *,
    labelled: bool,
) -> ColumnChoice:
    """Fill in what the user did not say with what was said when the model was fitted."""
    present = _column_names(path)
    beside = present if said.labels is None else _column_names(said.labels)
    then = {role: columns.get(role) for role in ("label", "label_set")}
    usual: dict[str, Any] = {}
    left_out = list(columns.get("exclude") or [])
    if not labelled:
        left_out += [name for name in then.values() if name is not None]
    elif said.label is None and said.label_set is None:
        usual = {role: name for role, name in then.items() if name in beside}
    # A folder of HDF5 files, and lists in Parquet, are asked as the model was asked: their
    # features have no columns of their own.
    format = format_of(path, None) if path.exists() else None
    has_lists = format == "parquet" and not set(names or ()) & set(present)
    features = columns.get("features") if has_lists or format == "hdf5" else names
    return replace(
        said,
        bag=said.bag or (columns.get("bag") if beside else None),
        features=said.features or features,
        exclude=list(dict.fromkeys([*said.exclude, *(n for n in left_out if n in present)])),
        separator=said.separator if said.separator != ";" else columns.get("separator") or ";",
        **usual,
    )


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Put the name of the file into messages that lack it."""
    try:
        yield
    except InputError as error:
        if path.name in str(error):
            raise
        raise type(error)(f"{path}: {error}") from error


def _chosen(bags: Bags, known: NDArray[np.bool_]) -> Bags:
    """Some of the bags; those of a file are copied into another one, not into memory."""
    if known.all() or not is_mapped(bags.instances):
        return bags[known]
    rows = np.flatnonzero(np.repeat(known, bags.sizes))
    offsets = np.concatenate([[0], np.cumsum(bags.sizes[known])])
    ids = None if bags.ids is None else bags.ids[known]
    table = Workspace(limit=0).copy(bags.instances, rows=rows)
    return Bags(table, offsets, ids, feature_names=bags.feature_names)


def _positive_last(
    y: NDArray[Any], classes: NDArray[Any], positive: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Code two labels as 0 and 1, the positive one as 1: models sort labels, and text sorts."""
    if y.ndim == 2 or len(classes) != 2:
        raise LabelError(f"positive= chooses one of two labels: there are {len(classes)}.")
    written = [str(label) for label in classes]
    if positive not in written:
        raise LabelError(f"no bag has the label {positive!r} (positive=): there are {written}.")
    column = written.index(positive)
    return (y == classes[column]).astype(np.int64), classes[[1 - column, column]]


def _groups(path: Path, choice: ColumnChoice, data: Bunch) -> NDArray[Any]:
    """Read the group of each bag from a column (npz: an array) with one value per bag."""
    group = str(choice.group)
    if choice.labels is None and not _is_table(path):
        if group not in data.extras or data.extras[group].shape != (len(data.bags),):
            raise InputError(
                f"{path} has no array {group!r} with a value per bag: give a table of bags and "
                "groups with labels=."
            )
        return data.extras[group]
    exclude = list(choice.exclude)
    if choice.labels is None:
        named = {group, choice.label, choice.label_set}
        exclude += [name for name in named if name is not None and name not in exclude]
    # To the reader a group is one more label, kept in a table that may be the file itself.
    table = choice.labels or path
    as_label = replace(
        choice, label=group, label_set=None, group=None, exclude=exclude, labels=table
    )
    groups = as_label.read(path).y
    missing = np.flatnonzero(groups == -1)
    if len(missing):
        raise InputError(f"{data.bags.name_of(missing[0])} has no value in the column {group!r}.")
    return groups


def _is_table(path: Path) -> bool:
    return path.exists() and format_of(path, None) in _TABLES


def _split(names: Iterable[str] | None) -> list[str]:
    return [part.strip() for name in names or () for part in name.split(",") if part.strip()]


def _is_unlabelled(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Where the reader put -1 for a missing label; but -1 and one other number are two classes."""
    if y.dtype.kind not in "iO" or (y.dtype.kind == "i" and len(np.unique(y)) <= 2):
        return np.zeros(len(y), dtype=bool)
    return np.array([label == -1 for label in y.tolist()])


def _column_names(path: Path) -> list[str]:
    """The columns of a table; none for other files."""
    if not _is_table(path):
        return []
    with reading(path):
        return open_table(path, format_of(path, None), Request({})).names


def _in_order(bags: Bags, names: list[str]) -> Bags:
    present = bags.feature_names or []
    if present == names:
        return bags
    missing = [name for name in names if name not in present]
    if missing:
        raise InputError(
            f"the model was fitted with the feature {missing[0]!r}, which is not in the file "
            f"({len(missing)} of {len(names)} are missing)."
        )
    place = {name: j for j, name in enumerate(present)}
    columns = [place[name] for name in names]
    return bags.with_instances(bags.instances[:, columns], feature_names=names)
