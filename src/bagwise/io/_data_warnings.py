"""Warnings about probable mistakes in a file."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from bagwise._common.types import Array
from bagwise._common.warnings import warn_user
from bagwise.bags import Bags
from bagwise.compute import readable_table
from bagwise.exceptions import DataWarning
from bagwise.io._contents import Contents
from bagwise.io._labels import Grouping
from bagwise.io._metadata import bag_level_features, quoted

_SEPARATORS = (",", ";", "|", "/", "+")  # between the labels of a set
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)")  # 00e1 may be a hexadecimal id


class ValueCheck:
    """Checks the features of a table block by block: infinite values, empty columns."""

    def __init__(self, n_features: int) -> None:
        self._known = np.zeros(n_features, dtype=bool)  # whether a column has a value
        self._n_infinite = 0
        self._first: tuple[int, int, float] | None = None  # row, column, value
        self._n_rows = 0

    def add(self, block: Array) -> None:
        """Check the next rows."""
        start, self._n_rows = self._n_rows, self._n_rows + len(block)
        if block.dtype.kind != "f":
            self._known[:] = True
            return
        given = ~np.isnan(block)
        self._known |= given.any(axis=0)
        infinite = np.isinf(block)
        n_infinite = int(np.count_nonzero(infinite))
        if n_infinite and self._first is None:
            row, column = np.argwhere(infinite)[0].tolist()
            self._first = start + row, column, float(block[row, column])
        self._n_infinite += n_infinite

    def report(self, names: Sequence[str], chosen: Iterable[str], rows: Grouping) -> None:
        """Warn about infinite values, and empty columns that were not requested."""
        chosen = set(chosen)
        empty = [n for n, known in zip(names, self._known, strict=True) if not known]
        empty = [name for name in empty if name not in chosen]
        if empty and self._n_rows:
            some = ", ".join(map(repr, empty[:10])) + (", ..." if len(empty) > 10 else "")
            warn_user(
                f"no row has a value in {len(empty)} of {len(names)} feature columns ({some}): "
                "they are read as missing values, which models refuse. Leave them out with "
                "exclude=[...].",
                DataWarning,
            )
        if self._first is not None:
            row, column, value = self._first
            bag = rows.name_of(int(rows.codes[row]))
            warn_user(
                f"{self._n_infinite} values are infinite, or too large for their type: the first "
                f"is {value} in row {row} ({bag}), column {names[column]!r}. Models refuse "
                "infinite values: correct them, or leave the rows out.",
                DataWarning,
            )


def find_suspects(contents: Contents, names: Collection[str]) -> None:
    """Find features that are constant within every bag, as labels are.

    Those among `names` can be excluded and go to ``contents.suspects``; others cause a warning.
    Bags on Dask workers are not checked.
    """
    bags = contents.bags
    if type(bags) is not Bags:
        return
    found = bag_level_features(readable_table(bags), bags.offsets)
    named = [f"x{j}" if bags.feature_names is None else bags.feature_names[j] for j in found]
    contents.suspects = [name for name in named if name in names]
    others = [name for name in named if name not in names]
    if others:
        warn_user(
            f"{quoted(others)}: constant within every bag, and different between bags, as labels "
            "and metadata are. Remove such features from the file, unless they are intended.",
            DataWarning,
        )


def warn_of_near_duplicates(contents: Contents) -> None:
    """Warn about labels and ids that differ so little that one may be a typing error.

    Labels may differ in case, ids may not; both may differ in surrounding spaces and in the form of
    a number.
    """
    if contents.labels is not None:
        _warn_of_near(contents.labels.values, "labels", "classes", str.casefold)
    if contents.classes is not None:
        _warn_of_near(contents.classes, "classes", "classes", str.casefold)
    if contents.bags.ids is not None:
        _warn_of_near(contents.bags.ids, "bag ids", "bags", str)


def warn_of_minus_one(contents: Contents) -> None:
    """Warn about the label -1 beside 0, 1, ...: it may mean that the label is unknown."""
    labels = contents.labels
    if labels is None or labels.classes.dtype.kind != "i" or len(labels.classes) < 3:
        return
    if labels.classes.min() == -1:
        warn_user(
            f"{labels.counts[0]} of {len(labels)} bags have the label -1, which is read as a label "
            "like the others. If it means that the label is unknown, leave these cells empty.",
            DataWarning,
        )


def warn_of_separators(contents: Contents) -> None:
    """Warn about labels of sets that are probably several labels, such as "owl, robin".

    A label is suspected if each of its parts also occurs in other labels.
    """
    if contents.label_sets is None or contents.classes is None:
        return
    for separator in _SEPARATORS:
        parts = {
            label: [part.strip() for part in label.split(separator)]
            for label in contents.classes.tolist()
            if isinstance(label, str)
        }
        n_labels = Counter(part for own in parts.values() for part in set(own))
        joined = [
            label
            for label, own in parts.items()
            if len(own) > 1 and all(part and n_labels[part] > 1 for part in own)
        ]
        if joined:
            warn_user(
                f"{len(joined)} labels contain {separator!r}, such as {joined[0]!r}: each is read "
                f"as one label. If they list several, set separator={separator!r}.",
                DataWarning,
            )
            return


def _warn_of_near(values: Array, what: str, read_as: str, fold: Callable[[str], str]) -> None:
    """Warn about different strings that are equal up to spaces, case and the form of numbers."""
    if values.dtype.kind not in "UO":
        return
    seen: dict[Any, str] = {}
    pairs = []
    for text in dict.fromkeys(values.tolist()):
        if isinstance(text, str):
            bare = text.strip()
            key = Decimal(bare) if _NUMBER.fullmatch(bare) else fold(bare)
            other = seen.setdefault(key, text)
            if other != text:
                pairs.append((other, text))
    if not pairs:
        return
    first, second = pairs[0]
    difference = "how they are written"
    if first.strip() == second.strip():
        difference = "the spaces around them"
    elif first.casefold() == second.casefold():
        difference = "upper and lower case"
    more = f", and {len(pairs) - 1} more such pairs" if len(pairs) > 1 else ""
    warn_user(
        f"the {what} {first!r} and {second!r} differ only by {difference}{more}: they are read as "
        f"different {read_as}. If they mean the same, correct the file.",
        DataWarning,
    )
