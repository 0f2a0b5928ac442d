"""Convert columns of a table to bags and labels.

Every column that is not a feature is represented as codes into its distinct values: a column of a
million rows has few labels, and only those are parsed and compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from bagwise._common.types import Array, Ints
from bagwise.bags import offsets_of
from bagwise.exceptions import InputError, LabelError
from bagwise.labels import Labels, is_missing, plain_array, sorted_labels

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")  # as Python writes it
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


@dataclass(frozen=True)
class Column:
    """The codes of the rows of a column (-1: missing) into its distinct values."""

    codes: Ints
    values: list[Any]

    @classmethod
    def of(cls, values: Iterable[Any]) -> Column:
        """Encode Python values in order of first appearance; None and NaN are missing."""
        position: dict[Any, int] = {}
        codes = []
        for v in values:
            if isinstance(v, list | set | frozenset | np.ndarray):
                v = tuple(v.tolist() if isinstance(v, np.ndarray) else v)  # hashable
            codes.append(-1 if is_missing(v) else position.setdefault(v, len(position)))
        return cls(np.array(codes, dtype=np.int64), list(position))

    def take(self, rows: Ints) -> Column:
        """Select rows of the column; row -1 is missing."""
        return Column(np.append(self.codes, -1)[rows], self.values)

    def tolist(self, rows: Ints | slice = slice(None)) -> list[Any]:
        """The values of some rows, None if missing."""
        values = [*self.values, None]  # code -1 selects the last
        return [values[code] for code in self.codes[rows]]


@dataclass(frozen=True)
class Grouping:
    """The bag of each row of a table, and its position in `Bags.instances`."""

    codes: Ints  # bag of each row
    order: Ints  # rows[order] are grouped by bag
    offsets: Ints
    ids: Array

    @property
    def positions(self) -> Ints:
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
            f"row {missing[0]} belongs to no bag: the bag column {name!r} is empty there. Empty "
            f"cells in this column: {len(missing)}. Fill them or drop these rows."
        )
    offsets = offsets_of(np.bincount(column.codes, minlength=len(column.values)))
    order = np.argsort(column.codes, kind="stable")
    return Grouping(column.codes, order, offsets, plain_array(column.values))


def constant_in_bags(column: Column, rows: Grouping, name: str) -> Column:
    """The value of each bag in a column; an error if a bag has several."""
    first = rows.order[rows.offsets[:-1]]
    expected = column.codes[first]
    for row in np.flatnonzero(column.codes != expected[rows.codes])[:1]:
        bag = int(rows.codes[row])
        one, other = column.tolist(np.array([first[bag], row]))
        raise LabelError(
            f"{rows.name_of(bag)} has several values in the column {name!r}: {one!r} in row "
            f"{first[bag]} and {other!r} in row {row}. A bag has one; a label per row goes into "
            "instance_label=."
        )
    return column.take(first)


def bag_labels(column: Column, name: str) -> Labels:
    """The label of each bag, from the codes of the bags into the values of a column."""
    values, codes = plain_array(column.values), column.codes
    if values.dtype == object and len({str(v) for v in values}) < len(values):
        raise LabelError(
            f"the label column {name!r} has labels that are written the same, such as 1 and '1'."
        )
    if not (codes < 0).any():
        return labels_in_file(values[codes])
    whole = values.dtype.kind == "f" and np.all(values == np.trunc(values))
    if whole or values.dtype.kind == "b":  # pandas converts integers with missing values to floats
        values = values.astype(np.int64)
    return labels_in_file(Column(codes, values.tolist()).tolist())


def labels_in_file(values: Sequence[Any] | Array) -> Labels:
    """Make labels from one value per bag: -1 is a label among numbers, and unknown among texts."""
    numbers = all(isinstance(v, Real) or is_missing(v) for v in plain_array(values).tolist())
    return Labels.from_values(values, classes=(-1,) if numbers else ())


def encode_columns(
    sets: Column | None,
    instances: Column | None,
    *,
    bag_values: Sequence[Any],
    classes: Sequence[Any] | Array | None,
    separator: str,
) -> tuple[Labels | None, Ints | None, Array | None]:
    """Turn label sets and instance labels of a table into indices into common classes.

    Labels are matched by their string form, so the classes 1 and "1" are the same in a table.

    Parameters
    ----------
    sets : Column or None
        The label set of each bag: strings, or lists of labels; missing is unknown.
    instances : Column or None
        The label of each instance; missing and -1 are unknown.
    bag_values : sequence
        The labels of the bags, which are added to the classes if instance labels are not numbers.
    classes : sequence or None
        The classes, if they are known; any other label is then an error.
    separator : str
        Separator of the labels of a set.

    Returns
    -------
    label_sets : Labels or None
    instance_labels : ndarray of shape (n_rows,) or None
    classes : ndarray or None
    """
    members = [] if sets is None else [_labels_of(value, separator) for value in sets.values]
    values = [] if instances is None else instances.values
    if classes is None and sets is None and all(map(_is_integer, values)):
        place: Callable[[Any], int] = int
        names = None
    else:
        found = _common_classes(members, values, bag_values) if classes is None else list(classes)
        place, names = _places(found), plain_array(found)
    label_sets = instance_labels = None
    if sets is not None and names is not None:
        indicator = np.zeros((len(members) + 1, len(names)), dtype=np.int8)
        indicator[-1] = -1  # code -1: unknown
        for row, labels in enumerate(members):
            indicator[row, [place(label) for label in labels]] = 1
        label_sets = Labels("sets", names, indicator=indicator[sets.codes])
    if instances is not None:
        codes = [-1 if _written(v) == "-1" else place(v) for v in values]
        instance_labels = np.array([*codes, -1], dtype=np.int64)[instances.codes]
    return label_sets, instance_labels, names


def typed_texts(texts: Sequence[str], *, integers_only: bool = False) -> list[Any]:
    """Convert strings to integers, booleans or floats if all of them have that form.

    ``"007"`` stays a string, as does any column in which two strings are the same number.

    Examples
    --------
    >>> from bagwise.io._labels import typed_texts
    >>> typed_texts(["1", "20"]), typed_texts(["1", "02"], integers_only=True)
    ([1, 20], ['1', '02'])
    """
    typed: list[Any] = list(texts)
    if all(map(_INTEGER.fullmatch, texts)) and all(-(2**63) <= int(t) < 2**63 for t in texts):
        typed = [int(text) for text in texts]
    elif integers_only:
        return typed
    elif all(text.lower() in ("true", "false") for text in texts):
        typed = [text.lower() == "true" for text in texts]
    elif all(map(_NUMBER.fullmatch, texts)):
        typed = [float(text) for text in texts]
    return typed if len(set(typed)) == len(texts) else list(texts)


def _common_classes(
    sets: list[tuple[Any, ...]], instance_values: Sequence[Any], bag_values: Sequence[Any]
) -> list[Any]:
    labels = {label for labels in sets for label in labels}
    own = {v for v in instance_values if _written(v) != "-1"}
    has_texts = any(isinstance(v, str) for v in own)
    if not has_texts and all(isinstance(label, str) for label in labels):
        labels = set(typed_texts(sorted(labels), integers_only=True))
    written = {_written(label) for label in labels}
    labels |= {v for v in own if _written(v) not in written}
    if not sets and has_texts:
        labels |= {v for v in bag_values if isinstance(v, str)}
    return sorted_labels(labels)


def _labels_of(value: Any, separator: str) -> tuple[Any, ...]:
    if isinstance(value, str):
        parts = (part.strip() for part in value.split(separator))
        return tuple(part for part in parts if part)  # "owl;" has one label, ";" none
    return value if isinstance(value, tuple) else (value,)


def _places(classes: list[Any]) -> Callable[[Any], int]:
    """A function that finds the index of a label among the classes, by its string form."""
    position = {_written(label): k for k, label in enumerate(classes)}
    if len(position) < len(classes):
        raise LabelError(f"two of the classes {classes} are written the same in a table.")

    def place(label: Any) -> int:
        if _written(label) not in position:
            raise LabelError(
                f"the label {label!r} is not among the classes {sorted(position)} (classes=)."
            )
        return position[_written(label)]

    return place


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 2**63 and float(value).is_integer()


def _written(label: Any) -> str:
    return str(int(label) if _is_integer(label) and not isinstance(label, bool) else label)
