"""Find the columns with the bag, the labels and the features of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise._warnings import warn_user
from bagwise.bags import Bags
from bagwise.exceptions import DataWarning, InputError
from bagwise.io.contents import Contents, check_contents
from bagwise.io.labels import (
    Column,
    Grouping,
    bag_groups,
    bag_labels,
    constant_in_bags,
    encode_columns,
)
from bagwise.io.sources import Source

ROLES = ("bag", "label", "label_set", "instance_label")
_NUMERIC = ("number", "vector", "numbers", "vectors")


@dataclass(frozen=True)
class Request:
    """The columns to read from a file, and how."""

    roles: dict[str, str | None]
    features: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    classes: Sequence[Any] | NDArray[Any] | None = None
    separator: str = ";"
    dtype: np.dtype[Any] | None = None
    group: str | None = None  # the column with the group of each bag
    columns: tuple[str, ...] = ()  # further columns, read as strings

    @property
    def beside(self) -> tuple[str, ...]:
        """Columns that are read but are neither features nor labels."""
        return self.columns if self.group is None else (self.group, *self.columns)

    def without(self, *roles: str) -> Request:
        """Return the same request without names for these roles."""
        return replace(self, roles=self.roles | dict.fromkeys(roles))


@dataclass(frozen=True)
class Layout:
    """The columns of a table: name for each role (or None), and the features in order."""

    roles: dict[str, str | None]
    features: list[str]


def find_columns(source: Source, request: Request) -> Layout:
    """Find the role of every column, or raise an error if it is ambiguous."""
    for name in [*request.exclude, *(request.features or ()), *request.beside]:
        require_column(source, name)
    roles = find_roles(source, request)
    return Layout(roles, _features(source, request, roles))


def find_roles(
    source: Source, request: Request, among: Sequence[str] = ROLES
) -> dict[str, str | None]:
    """Find the bag and label columns: as requested, as noted in the file, or by usual names."""
    roles: dict[str, str | None] = {}
    for role in among:
        name = request.roles.get(role)
        if name is not None:
            require_column(source, name, f" (asked for with {role}=)")
        else:
            usual = source.notes.get(role, role)
            free = usual in source.names and usual not in (
                *request.exclude,
                *request.beside,
                *(request.features or ()),
                *request.roles.values(),
            )
            name = usual if free else None
        roles[role] = name
    given = [name for name in roles.values() if name is not None]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"the column {twice!r} cannot be two of {', '.join(roles)} at once.")
    return roles


def label_bags(
    bags: Bags,
    source: Source,
    request: Request,
    layout: Layout,
    rows: Grouping,
    instances: Column | None,
) -> Contents:
    """Read all columns but the features."""
    of_bags = {
        role: constant_in_bags(source.column(name, role), rows, name)
        for role in ("label", "label_set")
        if (name := layout.roles[role]) is not None
    }
    label = of_bags.get("label")
    known = request.classes if request.classes is not None else source.notes.get("classes")
    label_sets, instance_labels, classes = encode_columns(
        of_bags.get("label_set"),
        instances,
        bag_values=[] if label is None else label.values,
        classes=known,
        separator=source.notes.get("separator", request.separator),
    )
    contents = check_contents(
        bags,
        y=None if label is None else bag_labels(label, str(layout.roles["label"])),
        label_sets=label_sets,
        instance_labels=instance_labels,
        classes=classes,
    )
    if request.group is not None:
        groups = constant_in_bags(source.column(request.group, "label"), rows, request.group)
        contents.groups = bag_groups(groups, bags, request.group)
    for name in request.columns:
        values = written_values(source, name)
        contents.columns[name] = [values[row] for row in rows.order]
    return contents


def written_values(source: Source, name: str) -> list[Any]:
    """The value of each row of a column as a string, None where it is missing."""
    if "list" in source.kind(name) or source.kind(name) in ("numbers", "vectors"):
        raise InputError(
            f"the column {name!r} holds lists: it is read from tables with one row per instance."
        )
    column = source.column(name, "label_set")  # a role whose strings are not converted
    values = [*column.values, None]  # code -1 selects the last
    return [values[code] for code in column.codes]


def require_column(source: Source, name: str, detail: str = "") -> None:
    """Raise an error where a table has no column of this name."""
    if name not in source.names:
        raise InputError(
            f"there is no column {name!r}{detail}: the columns are {listed(source.names)}."
        )


def listed(names: Iterable[str], most: int = 20) -> str:
    """Column names for a message, at most the first few."""
    names = list(names)
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more


def _with_names(source: Source, names: list[str]) -> list[str]:
    """Leave out an empty column without a name; warn about one with values."""
    if "" not in names:
        return names
    if source.kind("") == "number" and source.is_empty(""):
        warn_user(
            "a column without a name and without values is left out: do all rows end with a "
            "separator?",
            DataWarning,
        )
        return [name for name in names if name]
    warn_user(
        "a column without a name is read as a feature. If it numbers the rows, as pandas writes "
        "its index, leave it out of the file (index=False), or name the columns with "
        "features=[...].",
        DataWarning,
    )
    return names


def _features(source: Source, request: Request, roles: dict[str, str | None]) -> list[str]:
    taken = {name for name in roles.values() if name is not None}
    if request.features is None:
        out = taken | {*request.exclude, *request.beside}
        left = _with_names(source, [n for n in source.names if n not in out])
    else:
        left = list(request.features)
    leaked = [name for name in left if name in taken]
    if leaked:
        raise InputError(f"the column {leaked[0]!r} cannot be a feature and the bag or a label.")
    odd = [name for name in left if source.kind(name) not in _NUMERIC]
    if odd:
        kinds = ", ".join(f"{name!r} ({source.kind(name)})" for name in odd[:10])
        raise InputError(
            f"these columns are not numbers: {kinds}{', ...' if len(odd) > 10 else ''}. Name the "
            "feature columns with features=[...], leave these out with exclude=[...], or say what "
            "they are with bag=, label=, label_set= or instance_label=."
        )
    if not left:
        raise InputError(f"no feature column is left of {listed(source.names)}.")
    return left
