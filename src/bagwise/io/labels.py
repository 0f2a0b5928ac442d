"""Convert columns of a table to bags and labels.

Every column that is not a feature is represented as codes into its distinct values: a column of a
million rows has few labels, and only those are parsed and compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags, offsets_of
from bagwise.exceptions import InputError, LabelError
from bagwise.labels import Labels, is_missing, plain_array, sorted_labels

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")  # as Python writes it
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


@dataclass(frozen=True)
class Column:
    """The codes of the rows of a column (-1: missing) into its distinct values."""

    codes: NDArray[np.int64]
    values: list[Any]

    @classmethod
    def of(cls, values: Iterable[Any]) -> Column:
        """Encode Python values in order of first appearance; None and NaN are missing."""
        position: dict[Any, int] = {}
        codes = [
            -1 if is_missing(v) else position.setdefault(_hashable(v), len(position))
            for v in values
        ]
        return cls(np.array(codes, dtype=np.int64), list(position))

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True)
class Grouping:
    """The bag of each row of a table, and its position in `Bags.instances`."""

    codes: NDArray[np.int64]  # bag of each row
    order: NDArray[np.int64]  # rows[order] are grouped by bag
    offsets: NDArray[np.int64]
    ids: NDArray[Any]

    @property
    def positions(self) -> NDArray[np.int64]:
        """The position of each row of the table among the instances."""
        places = np.empty_like(self.order)
        places[self.order] = np.arange(len(self.order))
        return places

    def name_of(self, i: int) -> str:
        """Bag `i` by position and id."""
        return f"bag {i} ({self.ids[i : i + 1].tolist()[0]!r})"


def group(column: Column, name: str) -> Grouping:
    """Group the rows of a table by its bag column, bags in order of first appearance."""
    missing = np.flatnonzero(column.codes < 0)
    if len(missing):
        raise InputError(
            f"row {missing[0]} belongs to no bag: the bag column {name!r} is empty there "
            f"({len(missing)} such rows). Fill it or drop these rows."
        )
    counts = np.bincount(column.codes, minlength=len(column.values))
    offsets = offsets_of(counts)
    order = np.argsort(column.codes, kind="stable")
    return Grouping(column.codes, order, offsets, plain_array(column.values))


def constant_in_bags(column: Column, rows: Grouping, name: str) -> Column:
    """The value of each bag in a column; an error if a bag has several."""
    first = rows.order[rows.offsets[:-1]]
    expected = column.codes[first]
    differing = np.flatnonzero(column.codes != expected[rows.codes])
    if len(differing):
        row = differing[0]
        bag = int(rows.codes[row])
        values = [*column.values, None]  # code -1 is the last
        raise LabelError(
            f"{rows.name_of(bag)} has several values in the column {name!r}: "
            f"{values[expected[bag]]!r} in row {first[bag]} and {values[column.codes[row]]!r} in "
            f"row {row}. A bag has one; a label per row goes into instance_label=."
        )
    return Column(expected, column.values)


def bag_labels(column: Column, name: str) -> Labels:
    """The label of each bag, from the codes of the bags into the values of a column."""
    values, codes = plain_array(column.values), column.codes
    if values.dtype == object and len({str(v) for v in values}) < len(values):
        raise LabelError(
            f"the label column {name!r} has labels of different types that are written the same, "
            f"such as 1 and '1' (among {column.values[:5]}): use one type."
        )
    unknown = codes < 0
    if not unknown.any():
        return Labels.from_values(values[codes])
    whole = values.dtype.kind == "f" and np.all(values == np.trunc(values))
    if whole or values.dtype.kind == "b":  # pandas converts integers with missing values to floats
        values = values.astype(np.int64)
    if values.dtype.kind in "iu" and (values == -1).any():
        bag = int(np.flatnonzero(unknown)[0])
        raise LabelError(
            f"the label column {name!r} has both -1 and missing values (bag {bag}): missing labels "
            "are read as -1. Rename the class -1, for example to 0."
        )
    found = values.tolist()
    position = {label: k for k, label in enumerate(sorted_labels(found))}
    places = np.array([*(position[label] for label in found), -1])
    return Labels.from_codes(list(position), places[codes])


def bag_groups(column: Column, bags: Bags, name: str) -> NDArray[Any]:
    """The group of each bag; none may be missing."""
    missing = np.flatnonzero(column.codes < 0)
    if len(missing):
        raise InputError(f"{bags.name_of(int(missing[0]))} has no value in the column {name!r}.")
    return plain_array(column.values)[column.codes]


def encode_columns(
    sets: Column | None,
    instances: Column | None,
    *,
    bag_values: Sequence[Any] = (),
    classes: Sequence[Any] | NDArray[Any] | None = None,
    separator: str = ";",
) -> tuple[Labels | None, NDArray[np.int64] | None, NDArray[Any] | None]:
    """Turn label sets and instance labels of a table into indices into common classes.

    A text such as ``"a;b"`` and a label are matched by how the label is written, so the classes 1
    and "1" are the same in a table.

    Parameters
    ----------
    sets : Column or None
        The label set of each bag: strings, or lists of labels; missing is unknown.
    instances : Column or None
        The label of each instance; missing and -1 are unknown.
    bag_values : sequence
        The labels of the bags, which are added to the classes if instance labels are not numbers.
    classes : sequence, default=None
        The classes, if they are known; any other label is then an error.
    separator : str
        Separator of the labels of a set.

    Returns
    -------
    label_sets : Labels or None
    instance_labels : ndarray of shape (n_rows,) or None
    classes : ndarray or None
    """
    parsed = None if sets is None else [_labels_of(value, separator) for value in sets.values]
    if classes is None:
        if sets is None and (instances is None or _are_integers(instances.values)):
            return None, _integers(instances), None
        classes = _common_classes(parsed or [], instances, bag_values)
    position = {_written(label): k for k, label in enumerate(classes)}
    if len(position) < len(classes):
        raise LabelError(f"two of the classes {list(classes)} are written the same in a table.")
    names = plain_array(list(classes))
    return (
        None if sets is None else _label_sets(sets.codes, parsed or [], position, names),
        None if instances is None else _indices(instances, position),
        names,
    )


def typed_texts(texts: Sequence[str], *, integers_only: bool = False) -> list[Any]:
    """Convert strings to integers, booleans or floats if all of them have that form.

    ``"007"`` stays a string, as does any column in which two strings are the same number.

    Examples
    --------
    >>> from bagwise.io.labels import typed_texts
    >>> typed_texts(["1", "20"]), typed_texts(["1", "02"], integers_only=True)
    ([1, 20], ['1', '02'])
    """
    if not texts:
        return []
    if all(_INTEGER.fullmatch(text) for text in texts):
        integers = [int(text) for text in texts]
        if all(-(2**63) <= i < 2**63 for i in integers):
            return integers
    if integers_only:
        return list(texts)
    if all(text in _TRUTH for text in texts):
        typed: list[Any] = [_TRUTH[text] for text in texts]
    elif all(_NUMBER.fullmatch(text) for text in texts):
        typed = [float(text) for text in texts]
    else:
        return list(texts)
    return typed if len(set(typed)) == len(texts) else list(texts)


def _common_classes(
    sets: list[tuple[Any, ...]], instances: Column | None, bag_values: Sequence[Any]
) -> list[Any]:
    labels = {label for labels in sets for label in labels}
    texts = [label for label in labels if isinstance(label, str)]
    own = [] if instances is None else [v for v in instances.values if not _is_unknown(v)]
    if texts and len(texts) == len(labels) and not any(isinstance(v, str) for v in own):
        labels = set(typed_texts(sorted(texts), integers_only=True))
    written = {_written(label) for label in labels}
    labels |= {v for v in own if _written(v) not in written}
    if not sets and any(isinstance(v, str) for v in own):
        labels |= {v for v in bag_values if isinstance(v, str)}
    return sorted_labels(labels)


def _labels_of(value: Any, separator: str) -> tuple[Any, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(separator)) if value.strip() else ()
    return value if isinstance(value, tuple) else (value,)


def _label_sets(
    codes: NDArray[np.int64],
    sets: list[tuple[Any, ...]],
    position: dict[str, int],
    classes: NDArray[Any],
) -> Labels:
    rows = np.zeros((len(sets) + 1, len(position)), dtype=np.int8)
    rows[-1] = -1  # code -1: unknown
    for code, labels in enumerate(sets):
        for label in labels:
            rows[code, _place(label, position)] = 1
    return Labels("sets", classes, indicator=rows[codes])


def _indices(column: Column, position: dict[str, int]) -> NDArray[np.int64]:
    places = [-1 if _is_unknown(v) else _place(v, position) for v in column.values]
    return np.array([*places, -1], dtype=np.int64)[column.codes]


def _place(label: Any, position: dict[str, int]) -> int:
    if _written(label) not in position:
        raise LabelError(
            f"the label {label!r} is not among the classes {sorted(position)}. Add it to classes=, "
            "or correct the table."
        )
    return position[_written(label)]


def _integers(column: Column | None) -> NDArray[np.int64] | None:
    if column is None:
        return None
    return np.array([*(int(v) for v in column.values), -1], dtype=np.int64)[column.codes]


def _are_integers(values: Iterable[Any]) -> bool:
    return all(
        isinstance(v, int | float) and abs(v) < 2**63 and float(v).is_integer() for v in values
    )


def _is_unknown(label: Any) -> bool:
    return _written(label) == "-1"


def _written(label: Any) -> str:
    if isinstance(label, float | np.floating) and float(label).is_integer():
        label = int(label)
    return str(label)


def _hashable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(value) if isinstance(value, list | set | frozenset) else value
