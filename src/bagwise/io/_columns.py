"""Find the columns of a table with the bags, the labels and the features."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bagwise._common.types import Array, Floats
from bagwise._common.warnings import warn_user
from bagwise.bags import Bags
from bagwise.exceptions import DataWarning, InputError
from bagwise.io._clips import ClipColumns, Clips, clip_columns
from bagwise.io._contents import Contents
from bagwise.io._data_warnings import are_ids, is_id_name
from bagwise.io._files import Cluster, listed
from bagwise.io._labels import Column, Grouping, bag_labels, constant_in_bags, encode_columns
from bagwise.io._sources import Conversion, Source
from bagwise.labels import plain_array

ROLES = ("bag", "label", "label_set", "instance_label")
_NUMERIC = ("number", "vector", "numbers", "vectors")
_CONVERSIONS: dict[str, Conversion]
_CONVERSIONS = {"label": "all", "label_set": "none", "group": "all", "merge": "integers"}


@dataclass(frozen=True)
class Request:
    """What to read from a file, and how: the arguments of `read_bags`, and a few more.

    `group` names the column with the group of each bag, `merge` the column with the merged bag that
    it becomes part of, `extra_columns` further columns that are read as strings, and `clips` the
    columns with the file, start and end of clips.
    """

    bag: str | None = None
    label: str | None = None
    label_set: str | None = None
    instance_label: str | None = None
    group: str | None = None
    merge: str | None = None
    id_column: str | None = None
    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    extra_columns: Sequence[str] = ()
    keep: Sequence[str] = ()
    clips: ClipColumns | None = None
    labels: Any = None
    missing: str = "unlabelled"
    classes: Sequence[Any] | Array | None = None
    separator: str = ";"
    dtype: np.dtype[Any] | None = None
    format: str | None = None
    memory_limit: int | float | str | None = None
    scratch: str | os.PathLike[str] | None = None
    cluster: Cluster | None = None
    allow_external: bool = False

    @property
    def roles(self) -> dict[str, str | None]:
        """The name of the column of each role; None if it was not given or not found."""
        return {role: getattr(self, role) for role in ROLES}

    @property
    def beside(self) -> list[str]:
        """Columns that are read but are neither features nor labels."""
        named = [name for name in (self.group, self.merge) if name is not None]
        return [*dict.fromkeys([*named, *self.extra_columns, *self.keep])]


def find_columns(source: Source, request: Request) -> Request:
    """Complete a request: find the column of each role, the clips and the features."""
    if request.labels is not None:  # that table may have the other columns
        request = replace(request, keep=[name for name in request.keep if name in source.names])
    for name in [*request.exclude, *(request.features or ()), *request.beside]:
        require_column(source, name)
    found = find_roles(source, request)
    found = replace(found, clips=_clips(source, found))
    return replace(found, features=_features(source, found))


def id_columns(source: Source, names: Iterable[str], rows: Grouping) -> list[str]:
    """The columns that hold ids, by their names and values."""
    candidates = [name for name in names if is_id_name(name) and source.kind(name) == "number"]
    bags = rows.codes[rows.order]
    return [name for name in candidates if are_ids(_numbers(source, [name])[rows.order, 0], bags)]


def _numbers(source: Source, names: Sequence[str]) -> Floats:
    return np.concatenate([np.empty((0, len(names))), *source.blocks(names, np.dtype(np.float64))])


def _clips(source: Source, request: Request) -> ClipColumns | None:
    """The columns of the times of clips, unless they are requested as something else."""
    taken = {*request.roles.values(), *request.exclude, *(request.features or ())}
    clips = clip_columns(name for name in source.names if name not in taken - {request.bag})
    if clips is None or any(source.kind(name) != "number" for name in clips[1:]):
        return None
    return clips._replace(file=None) if clips.file == request.bag else clips


def find_roles(source: Source, request: Request, among: Sequence[str] = ROLES) -> Request:
    """Find the bag and label columns: as requested, as noted in the file, or by usual names."""
    taken = {*request.exclude, *request.beside, *(request.features or ()), *request.roles.values()}
    roles: dict[str, Any] = {}
    for role in among:
        name = getattr(request, role)
        if name is not None:
            require_column(source, name, f" for {role}=")
        else:
            usual = source.notes.get(role, role)
            name = usual if usual in source.names and usual not in taken else None
            if role == "bag" and name is None:
                clips = clip_columns(name for name in source.names if name not in taken)
                name = None if clips is None else clips.file
        roles[role] = name
    given = [name for name in roles.values() if name is not None]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"the column {twice!r} cannot be two of {', '.join(roles)} at once.")
    return replace(request, separator=source.notes.get("separator", request.separator), **roles)


def bag_columns(source: Source, request: Request, rows: Grouping) -> dict[str, Column]:
    """Read the label, label set and group of each bag, and the merged bag it becomes part of."""
    return {
        role: constant_in_bags(source.column(name, convert=convert), rows, name)
        for role, convert in _CONVERSIONS.items()
        if (name := getattr(request, role)) is not None
    }


def label_bags(
    contents: Contents, columns: dict[str, Column], request: Request, instances: Column | None
) -> None:
    """Add labels, label sets, instance labels, groups and merged bags to the contents."""
    label = columns.get("label")
    sets, instance_labels, classes = encode_columns(
        columns.get("label_set"),
        instances,
        bag_values=[] if label is None else label.values,
        classes=contents.classes if request.classes is None else request.classes,
        separator=request.separator,
    )
    if label is not None:
        contents.labels = bag_labels(label, request.label or "labels")
    if sets is not None:
        contents.label_sets = sets
    if instance_labels is not None:
        contents.instance_labels = instance_labels
    if classes is not None:
        contents.classes = classes
    if "group" in columns:
        contents.groups = _complete(columns["group"], contents.bags, request.group)
    if "merge" in columns:
        contents.wholes = _complete(columns["merge"], contents.bags, request.merge)


def _complete(column: Column, bags: Bags, name: str | None) -> Array:
    """The values of a column; an error if a bag has none."""
    for i in np.flatnonzero(column.codes < 0)[:1]:
        raise InputError(f"{bags.name_of(int(i))} has no value in the column {name!r}.")
    return plain_array(column.values)[column.codes]


def read_clips(source: Source, request: Request, rows: Grouping) -> Clips | None:
    """Read the file, start and end of each instance, if the table has them."""
    if request.clips is None:
        return None
    file, *times = request.clips
    start, end = _numbers(source, times)[rows.order].T
    files = None if file is None else read_column(source, file, "none").tolist(rows.order)
    return Clips(start, end, files)


def read_column(source: Source, name: str, convert: Conversion) -> Column:
    """A column of single values."""
    if source.kind(name) in _NUMERIC[1:] or "list" in source.kind(name):
        raise InputError(f"the column {name!r} has lists: only columns of single values are kept.")
    return source.column(name, convert=convert)


def require_column(source: Source, name: str, detail: str = "") -> None:
    """Raise an error if a table has no column of this name."""
    if name not in source.names:
        raise InputError(
            f"there is no column {name!r}{detail}: the columns are {listed(source.names)}."
        )


def _features(source: Source, request: Request) -> list[str]:
    taken = {name for name in request.roles.values() if name is not None}
    if request.features is None:
        out = taken | {
            *request.exclude,
            *request.beside,
            *(request.clips or ()),
            *source.not_features,
        }
        left = [name for name in source.names if name not in out]
        if "" in left:  # the index of pandas, or the end of rows that end with a separator
            left.remove("")
            warn_user("a column without a name is left out: name it to use it.", DataWarning)
    else:
        left = list(request.features)
    if len(set(left)) < len(left):
        raise InputError(f"features= names a column twice: {listed(left)}.")
    leaked = [name for name in left if name in taken]
    if leaked:
        raise InputError(f"the column {leaked[0]!r} cannot be a feature and the bag or a label.")
    odd = [name for name in left if source.kind(name) not in _NUMERIC]
    if odd:
        kinds = ", ".join(f"{name!r} ({source.kind(name)})" for name in odd[:10])
        raise InputError(
            f"these columns are not numbers: {kinds}{', ...' if len(odd) > 10 else ''}. Name the "
            "feature columns with features=[...], leave these out with exclude=[...], keep them "
            "beside the results with meta=[...], or declare them with bag=, label= or "
            "label_set=."
        )
    if not left:
        raise InputError(f"no feature column is left of {listed(source.names)}.")
    return left
