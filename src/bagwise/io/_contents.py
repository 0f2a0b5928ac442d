"""What is asked of a file, and what is in it: bags and labels, checked for consistency."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Bunch

from bagwise._common.tables import StreamedTable
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags, group_rows
from bagwise.exceptions import InputError, LabelError
from bagwise.io._clips import ClipColumns, Clips
from bagwise.io._labels import labels_in_file
from bagwise.labels import Labels, plain_array, refuse_masked

ROLES = ("bag", "label", "label_set", "instance_label")
_PER_BAG = ("labels", "label_sets", "patch_sizes", "slide_sizes", "groups", "wholes")
_PER_INSTANCE = ("instance_labels", "coords", "clips")


class Cluster(NamedTuple):
    """Dask workers and the number of partitions."""

    client: Any
    npartitions: int | None

    def sees(self, path: Path) -> bool:
        """Whether every worker can access this file, with the same size."""
        path = path.resolve()
        return {*self.client.run(_size_of, path).values()} == {_size_of(path)}

    def load(
        self, table: StreamedTable, offsets: Ints, ids: Array | None, names: list[str] | None
    ) -> Bags:
        """Bags in a table of which each worker reads some rows."""
        from bagwise.compute.dask import load_on_workers

        read, about = partial(_read_some, table, offsets, names), (table.shape[1], table.dtype)
        return load_on_workers(self.client, self.npartitions, read, offsets, about, ids, names)


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1


def _read_some(
    table: StreamedTable, offsets: Ints, names: Any, first: int, last: int, ids: Array | None
) -> Bags:
    """Read some bags, on a Dask worker."""
    rows = table[int(offsets[first]) : int(offsets[last])]
    return Bags(rows, offsets[first : last + 1] - offsets[first], ids, feature_names=names)


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


@dataclass
class Contents:
    """Bags with their labels and other data.

    Attributes
    ----------
    bags : Bags
        The bags.
    labels, label_sets : Labels or None
        One label per bag; a label set per bag.
    instance_labels : ndarray of shape (n_instances,) or None
        Indices into `classes`, or the integers of the file if there are no classes; -1 unknown.
    classes : ndarray of shape (n_classes,) or None
        The classes of label sets and instance labels.
    coords : ndarray of shape (n_instances, ...) or None
        The position of each instance in its bag.
    patch_sizes : ndarray of shape (n_bags,) or None
        Edge of the square that an instance covers, in the unit of `coords`; NaN unknown.
    slide_sizes : ndarray of shape (n_bags, 2) or None
        Width and height of the slide of each bag, in the unit of `coords`; NaN unknown.
    extras : dict of str to ndarray
        Other arrays of an npz file.
    groups : ndarray of shape (n_bags,) or None
        The group of each bag.
    wholes : ndarray of shape (n_bags,) or None
        The merged bag that each bag becomes part of, such as a patient.
    columns : dict of str to list
        Further columns of a table, in the order of the instances: as strings, or with their own
        types if they are kept for results.
    clips : Clips or None
        Position of each instance in its recording.
    left_out : list of str
        Columns that are not features, because they look like ids or times of clips.
    suspects : list of str
        Features that are constant within every bag and differ between bags, as labels do.
    absent : list of str
        The bags that a second table or dict of labels does not mention.
    n_other_entries : int
        Number of entries in that table or dict about bags that are not in the file.
    """

    bags: Bags
    labels: Labels | None = None
    label_sets: Labels | None = None
    instance_labels: Array | None = None
    classes: Array | None = None
    coords: Array | None = None
    patch_sizes: Floats | None = None
    slide_sizes: Floats | None = None
    extras: dict[str, Array] = field(default_factory=dict)
    groups: Array | None = None
    wholes: Array | None = None
    columns: dict[str, list[Any]] = field(default_factory=dict)
    clips: Clips | None = None
    left_out: list[str] = field(default_factory=list)
    suspects: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    n_other_entries: int = 0

    def __post_init__(self) -> None:
        """Reject ids that are equal as strings, because labels are matched by these strings."""
        place: dict[str, int] = {}
        for i, name in enumerate([] if self.bags.ids is None else self.bags.ids.tolist()):
            first = place.setdefault(str(name), i)
            if first != i:
                raise InputError(
                    f"{self.bags.name_of(first)} and {self.bags.name_of(i)} have ids that are "
                    "written the same, and labels, predictions and review decisions are matched by "
                    "the written id: give each bag its own id, or leave the ids out."
                )

    def take(self, index: Ints) -> Contents:
        """Select bags, with their labels and other data.

        Parameters
        ----------
        index : ndarray of int
            Positions of the bags.

        Returns
        -------
        Contents
        """
        bags = self.bags[index]
        starts = np.repeat(self.bags.offsets[index] - bags.offsets[:-1], bags.sizes)
        rows = np.arange(bags.n_instances) + starts
        columns = {name: [values[row] for row in rows] for name, values in self.columns.items()}
        taken = replace(self, bags=bags, columns=columns)
        for names, which in ((_PER_BAG, index), (_PER_INSTANCE, rows)):
            for name in names:
                values = getattr(self, name)
                setattr(taken, name, None if values is None else values[which])
        return taken

    def to_bunch(self) -> Bunch:
        """Return the contents in the form of scikit-learn's data sets."""
        sets = self.label_sets
        if sets is not None:  # uint8 for 0/1, as in every data set; -1 needs a signed type
            indicator = sets.indicator.astype(np.uint8 if sets.known.all() else np.int8)
        return Bunch(
            bags=self.bags,
            y=None if self.labels is None else _with_missing(self.labels),
            label_sets=None if sets is None else indicator,
            instance_labels=self.instance_labels,
            classes=self.classes,
            feature_names=self.bags.feature_names,
            coords=self.coords,
            patch_sizes=self.patch_sizes,
            slide_sizes=self.slide_sizes,
            extras=self.extras,
            clips=self.clips,
            meta={name: plain_array(values) for name, values in self.columns.items()},
        )


def _with_missing(labels: Labels) -> Array:
    """The labels; NaN among numbers and None among texts if unknown, which no model accepts."""
    if labels.known.all():
        return labels.values
    if labels.classes.dtype.kind in "iuf" or not labels.known.any():
        return np.append(labels.classes.astype(np.float64), np.nan)[labels.codes]
    return np.array(labels.tolist(), dtype=object)


def check_contents(
    bags: Any,
    *,
    y: Any = None,
    label_sets: Any = None,
    instance_labels: ArrayLike | None = None,
    classes: Any = None,
    coords: ArrayLike | None = None,
    extras: Mapping[str, ArrayLike] | None = None,
) -> Contents:
    """Check that all labels match the bags, and convert them to one form."""
    contents = Contents(bags if isinstance(bags, Bags) else Bags.from_arrays(bags))
    bags = contents.bags
    if classes is not None:
        contents.classes = _array(classes)
        names = contents.classes.tolist()
        if contents.classes.ndim != 1 or len(set(names)) != len(names):
            raise LabelError(f"classes must be a list of distinct labels, got {names}.")
    if y is not None:
        labels = _array(y)
        if labels.shape != (len(bags),):
            hint = " Several labels per bag go into label_sets." if labels.ndim == 2 else ""
            raise LabelError(
                f"y has shape {labels.shape} for {len(bags)} bags: give one label per bag.{hint}"
            )
        contents.labels = labels_in_file(labels)
    if label_sets is not None:
        contents.label_sets = _label_sets(label_sets, contents.classes, bags)
        if contents.classes is None and not hasattr(label_sets, "ndim"):
            contents.classes = contents.label_sets.classes
    if instance_labels is not None:
        contents.instance_labels = _instance_labels(instance_labels, contents.classes, bags)
    if coords is not None:
        refuse_masked(coords, "coords")
        contents.coords = np.asarray(coords)
        if contents.coords.shape[:1] != (bags.n_instances,):
            raise InputError(
                f"coords has shape {contents.coords.shape} for {bags.n_instances} instances."
            )
    for name, values in (extras or {}).items():
        refuse_masked(values, f"the values of {name!r}")
    contents.extras = {name: np.asarray(values) for name, values in (extras or {}).items()}
    return contents


def _array(values: Any) -> Array:
    return plain_array(values if isinstance(values, np.ndarray) else list(values))


def _label_sets(label_sets: Any, classes: Array | None, bags: Bags) -> Labels:
    """Label sets from a 0/1 array or a list of sets."""
    is_array = hasattr(label_sets, "ndim")
    sets: Any = label_sets if is_array else list(label_sets)
    n_sets = sets.shape[0] if is_array else len(sets)
    if n_sets != len(bags):
        raise LabelError(f"{n_sets} label sets were given for {len(bags)} bags: give one each.")
    if is_array:
        return Labels.from_indicator(sets, classes, name_of=bags.name_of)
    for i, own in enumerate(sets):
        if own is not None and (not isinstance(own, Collection) or isinstance(own, str | bytes)):
            raise LabelError(
                f"the label set of {bags.name_of(i)} is {own!r}: expected a set, None if unknown."
            )
    return Labels.from_sets(sets, classes, name_of=bags.name_of)


def _instance_labels(labels: ArrayLike, classes: Array | None, bags: Bags) -> Ints:
    refuse_masked(labels, "instance_labels")
    array = np.asarray(labels)
    if array.dtype == bool:
        array = array.astype(np.int64)
    outside = array.dtype.kind in "iu" and classes is not None and array.size > 0
    outside = outside and (array.min() < -1 or array.max() >= len(classes))  # type: ignore[arg-type]
    if array.shape != (bags.n_instances,) or array.dtype.kind not in "iu" or outside:
        limit = "" if classes is None else f" of the {len(classes)} classes"
        raise LabelError(
            f"instance_labels has shape {array.shape} and type {array.dtype}: expected indices"
            f"{limit} for {bags.n_instances} instances, integers, -1 where unknown."
        )
    return array


# Bags that belong together, such as the slides of a patient


def merge_contents(contents: Contents, by: Array, column: str, part: str | None) -> Contents:
    """Merge the bags of a file, and reorder labels and other data accordingly.

    A merged bag has the common label of its parts; unknown labels are ignored. Its label set is the
    union of the sets of its parts, unknown if one of them is unknown.

    Parameters
    ----------
    contents : Contents
        Bags, labels, coordinates and further columns.
    by : ndarray of shape (n_bags,)
        The merged bag that each bag becomes part of.
    column : str
        The name of the column `by`, for messages.
    part : str or None
        The column with the ids of `contents.bags`, if the file has one.

    Returns
    -------
    Contents
        With the former id of each instance in ``columns[part]``.
    """
    order, offsets, ids = group_rows(by)
    contents = contents.take(order)
    bags, labels, sets, groups = (
        getattr(contents, name) for name in ("bags", "labels", "label_sets", "groups")
    )
    names = [f"{column} {name}" for name in ids.tolist()]
    former = bags.names[bags.bag_index].tolist()
    merged = replace(contents, bags=bags.merge(by[order]), wholes=None)
    merged.patch_sizes = merged.slide_sizes = None
    merged.columns = contents.columns | {part or "slide": former}
    if contents.clips is not None and contents.clips.file is None:
        merged.clips = replace(contents.clips, file=[str(name) for name in former])
    if labels is not None:
        merged.labels = labels[_agreed(labels.texts, offsets, names, "labels")]
    if groups is not None:
        merged.groups = groups[_agreed([str(g) for g in groups.tolist()], offsets, names, "groups")]
    if sets is not None:
        union = np.maximum.reduceat(sets.indicator, offsets[:-1])
        union[np.minimum.reduceat(sets.known, offsets[:-1]) == 0] = -1
        merged.label_sets = Labels("sets", sets.classes, indicator=union, names=sets.names)
    return merged


def _agreed(texts: list[str | None], offsets: Ints, names: list[str], what: str) -> Ints:
    """For each merged bag, a part with the common label (or group) of all known parts."""
    chosen = []
    for name, (start, stop) in zip(names, pairwise(offsets.tolist()), strict=True):
        known = [i for i in range(start, stop) if texts[i] is not None] or [start]
        distinct = list(dict.fromkeys(texts[i] for i in known))
        if len(distinct) > 1:
            raise LabelError(
                f"the bags of {name} have different {what}, {distinct[0]!r} and {distinct[1]!r}: "
                f"merge= needs bags that agree. Give all of them the same {what[:-1]}."
            )
        chosen.append(known[0])
    return np.array(chosen, dtype=np.int64)
