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
from bagwise.extras import import_extra
from bagwise.io import read_bags
from bagwise.io.columns import Request
from bagwise.io.files import format_of, reading
from bagwise.io.memory import Workspace
from bagwise.io.table import open_table

__all__ = [
    "ColumnChoice",
    "Labelled",
    "choose_columns",
    "is_unlabelled",
    "read_for_model",
    "read_for_report",
    "read_labelled",
    "read_sets_for_model",
    "read_texts",
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
        y, known = data.y, ~is_unlabelled(data.y)
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
    columns: Mapping[str, Any],
    names: list[str] | None,
    *,
    bag: str | None,
    memory_limit: str | None = None,
) -> Bags:
    """Read the columns a saved model was fitted on, in its order.

    Parameters
    ----------
    path : Path
        The file of bags.
    columns : mapping
        What was asked for when it was fitted: ``bag``, ``label``, ``label_set``, ``features`` and
        ``exclude``.
    names : list of str or None
        The names of its features, where they have any.
    bag : str or None
        Another name for the bag column.
    memory_limit : str or None
        The size from which instances are kept in a file instead of memory.

    Returns
    -------
    Bags
    """
    choice = _choice_of_model(path, columns, names, bag)
    nested = _columns_of_lists(path, names) if _is_table(path) else None
    if nested is not None:  # leave out labels, which new bags need not have
        labels = (columns.get("label"), columns.get("label_set"))
        choice.exclude.extend(name for name in labels if name in nested)
    bags = replace(choice, memory_limit=memory_limit).read(path).bags
    return bags if names is None or bags.feature_names is None else _in_order(bags, names)


def read_for_report(
    path: Path, columns: Mapping[str, Any], names: list[str] | None, choice: ColumnChoice
) -> tuple[Bunch, NDArray[Any] | None]:
    """Read the columns a saved model was fitted on, and the labels and groups where there are any.

    Parameters
    ----------
    path : Path
        The file of bags.
    columns : mapping
        What was asked for when the model was fitted.
    names : list of str or None
        The names of its features, where they have any.
    choice : ColumnChoice
        What the user said; what is not said is as it was when the model was fitted. A label column
        that the file does not have is no error then: new bags need no labels.

    Returns
    -------
    data : Bunch
        What `read_bags` gives, the features in the order of the model.
    groups : ndarray of shape (n_bags,) or None
        The group of each bag.
    """
    if _is_table(path):
        with reading(path):
            source = open_table(path, format_of(path, None), Request({}))
        said = choice.label is not None or choice.label_set is not None or choice.labels is not None
        usual: dict[str, Any] = {
            role: columns.get(role)
            for role in ("label", "label_set")
            if not said and columns.get(role) in source.names
        }
        nested = names is not None and not set(names) & set(source.names)
        left_out = [*choice.exclude, *(columns.get("exclude") or [])]
        choice = replace(
            choice,
            bag=choice.bag or columns.get("bag"),
            features=choice.features or (columns.get("features") if nested else names),
            exclude=[name for name in dict.fromkeys(left_out) if name in source.names],
            **usual,
        )
    elif format_of(path, None) == "hdf5":
        choice = replace(choice, features=choice.features or columns.get("features"))
    else:
        choice = replace(choice, features=choice.features or names)
    data = choice.read(path)
    if names is not None and data.bags.feature_names is not None:
        data.bags = _in_order(data.bags, names)
    return data, None if choice.group is None else _groups(path, choice, data)


def read_sets_for_model(
    path: Path,
    columns: Mapping[str, Any],
    names: list[str] | None,
    *,
    bag: str | None,
    labels: Path | None = None,
) -> tuple[Bags, list[set[Any] | None], ColumnChoice]:
    """Read the columns a saved model was fitted on, and what is known of each bag.

    Parameters
    ----------
    path, columns, names, bag
        As in `read_for_model`.
    labels : Path or None
        The table in which labels stand, where it is not the file itself.

    Returns
    -------
    bags : Bags
        The bags.
    label_sets : list of set or None
        The labels of each bag; None where nothing is known.
    choice : ColumnChoice
        The columns that were read.
    """
    choice = _choice_of_model(path, columns, names, bag)
    choice = replace(
        choice,
        label=columns.get("label"),
        label_set=columns.get("label_set"),
        separator=columns.get("separator", ";"),
        labels=labels,
    )
    data = choice.read(path)
    bags = data.bags
    if names is not None and bags.feature_names is not None:
        bags = _in_order(bags, names)
    sets: list[set[Any] | None]
    if choice.label is None and data.label_sets is not None:
        classes = list(range(data.label_sets.shape[1])) if data.classes is None else data.classes
        sets = [
            None if (row < 0).any() else {classes[k] for k in row.nonzero()[0]}
            for row in data.label_sets
        ]
    elif data.y is not None:
        unknown = is_unlabelled(data.y)
        sets = [
            None if gone else {label} for label, gone in zip(data.y.tolist(), unknown, strict=True)
        ]
    else:
        raise LabelError(f"{path} has no labels of bags: say where they are with labels=.")
    return bags, sets, choice


def read_texts(path: Path, choice: ColumnChoice, column: str) -> list[str | None]:
    """Read a column with a text per row, in the order of the instances.

    Parameters
    ----------
    path : Path
        A table.
    choice : ColumnChoice
        Its other columns.
    column : str
        The column.

    Returns
    -------
    list of str or None
        None where there is nothing.
    """
    if not _is_table(path):
        raise InputError(f"{path} is no table: a column of texts or files needs CSV or Parquet.")
    # To the reader it is one more label of the row.
    data = read_bags(
        path,
        bag=choice.bag,
        label=choice.label,
        label_set=choice.label_set,
        instance_label=column,
        features=choice.features[:1] if choice.features else None,
        exclude=choice.exclude,
        separator=choice.separator,
    )
    codes = data.instance_labels
    if data.classes is None:
        return [None if code == -1 else str(code) for code in codes]
    return [None if code == -1 else str(data.classes[code]) for code in codes]


def _choice_of_model(
    path: Path, columns: Mapping[str, Any], names: list[str] | None, bag: str | None
) -> ColumnChoice:
    if not _is_table(path):
        is_folder = path.exists() and format_of(path, None) == "hdf5"
        return (
            ColumnChoice(features=columns.get("features"))
            if is_folder
            else (ColumnChoice(bag, features=names))
        )
    bag = bag or columns.get("bag")
    nested = _columns_of_lists(path, names)
    if nested is None:
        return ColumnChoice(bag, features=names)
    # Features inside lists have no columns of their own: ask as the model was asked.
    exclude = [name for name in columns.get("exclude") or [] if name in nested]
    return ColumnChoice(bag, features=columns.get("features"), exclude=exclude)


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


def is_unlabelled(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Where the reader put -1 for a missing label; but -1 and one other number are two classes.

    Parameters
    ----------
    y : ndarray of shape (n_bags,)
        Labels as they were read.

    Returns
    -------
    ndarray of bool of shape (n_bags,)
    """
    if y.dtype.kind not in "iO" or (y.dtype.kind == "i" and len(np.unique(y)) <= 2):
        return np.zeros(len(y), dtype=bool)
    return np.array([label == -1 for label in y.tolist()])


def _columns_of_lists(path: Path, names: list[str] | None) -> list[str] | None:
    """The columns of a Parquet file in which none is called as a feature; None for other files."""
    if format_of(path, None) != "parquet":
        return None
    with reading(path):
        present = import_extra("pyarrow.parquet", extra="io").read_schema(path).names
    return None if set(names or ()) & set(present) else present


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
