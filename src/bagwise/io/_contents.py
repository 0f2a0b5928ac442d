"""What is in a file: bags, labels and clips, checked for consistency; warnings about mistakes.

Every column of a table that is not a feature is represented as codes into its distinct values: a
column of a million rows has few labels, and only those are parsed and compared.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.bags import Bags, group_rows, offsets_of
from bagwise.compute import readable_table
from bagwise.compute.arrays import dense
from bagwise.exceptions import DataWarning, InputError, LabelError, warn_user
from bagwise.io._files import listed
from bagwise.labels import (
    Intervals,
    LabelCounts,
    Labels,
    is_missing,
    plain_array,
    refuse_masked,
    refuse_other_order,
    sorted_labels,
    warn_of_minus_one,
)

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")  # as Python writes it
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_PER_BAG = ("labels", "label_sets", "targets", "patch_sizes", "slide_sizes", "wholes")
_PER_INSTANCE = ("instance_labels", "coords", "clips")
_IN_BUNCH = ("bags", "classes", "patch_sizes", "slide_sizes", "extras", *_PER_INSTANCE)
_STARTS = ("start", "start_time", "begin", "begin_time", "onset")
_ENDS = ("end", "end_time", "stop", "stop_time")
_SECONDS = re.compile(r" ?[([]s[)\]]$|[ _](s|sec|seconds)$")
_FILES = (
    "file_path",
    "filepath",
    "file",
    "filename",
    "file_name",
    "recording",
    "audio_file",
    "begin_path",
    "begin_file",
    "in_file",
    "source_id",
    "source_file",
    "source",
    "path",
)
CHANCE = 1e-6  # largest probability that a reported feature is constant within bags by chance
FIRST, LARGEST = 256, 2**22  # values compared at a time: in the first step, and at most

_ID = re.compile(r"(?i:(.*[\W_])?(id|ids|idx|index|uid|uuid)|unnamed: 0)|.*[a-z](ID|Id|Index)")


@dataclass(frozen=True)
class Clips:
    """Position of each instance in its recording.

    Attributes
    ----------
    start, end : ndarray of shape (n_instances,)
        In seconds.
    file : list of str, or None
        The file of each instance; None if the bag is the file.
    """

    start: Floats
    end: Floats
    file: list[str | None] | None = None

    def __getitem__(self, rows: Ints) -> "Clips":
        files = None if self.file is None else [self.file[row] for row in rows]
        return Clips(self.start[rows], self.end[rows], files)

    @property
    def texts(self) -> list[str]:
        """Start and end of each clip as a string: "1.5 to 4.5 s"."""
        times = zip(self.start.tolist(), self.end.tolist(), strict=True)
        return [f"{start:.7g} to {end:.7g} s" for start, end in times]


@dataclass
class Contents:
    """Bags with their labels and other data.

    Attributes
    ----------
    bags : Bags
        The bags.
    labels, label_sets : Labels or None
        One label per bag; a label set per bag.
    targets : structured array of shape (n_bags,) or None
        Whether the event of each bag was observed, and its time; or several numbers; NaN unknown.
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
    others : list of str
        The entries of that table or dict about bags that are not in the file.
    """

    bags: Bags
    labels: Labels | None = None
    label_sets: Labels | None = None
    targets: Array | None = None
    instance_labels: Array | None = None
    classes: Array | None = None
    coords: Array | None = None
    patch_sizes: Floats | None = None
    slide_sizes: Floats | None = None
    extras: dict[str, Array] = field(default_factory=dict)
    wholes: Array | None = None
    columns: dict[str, list[Any]] = field(default_factory=dict)
    clips: Clips | None = None
    left_out: list[str] = field(default_factory=list)
    suspects: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

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

    def take(self, index: Ints) -> "Contents":
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

    def to_bunch(self) -> Any:
        """Return the contents in the form of scikit-learn's data sets."""
        from sklearn.utils import Bunch

        sets = self.label_sets
        if sets is not None:  # uint8 for 0/1, as in every data set; -1 needs a signed type
            whole = sets.kind == "sets" and (sets.indicator >= 0).all()
            known = sets.indicator.astype(np.uint8) if whole else sets.values
        return Bunch(
            y=None if self.labels is None else _with_missing(self.labels),
            label_sets=None if sets is None else known,
            feature_names=self.bags.feature_names,
            meta={name: plain_array(values) for name, values in self.columns.items()},
            **{name: getattr(self, name) for name in _IN_BUNCH},
        )


def _with_missing(labels: Labels) -> Array:
    """The labels; NaN among numbers and None among strings if unknown, which no model accepts."""
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
        if isinstance(y, Intervals) or getattr(getattr(y, "dtype", None), "names", None):
            raise InputError(
                "intervals and times of bags cannot be written: keep them in a table with a row "
                "per bag, and read it with labels=."
            )
        refuse_other_order(y, bags.ids)
        labels = _array(y)
        if labels.shape != (len(bags),):
            hint = " Label sets are given as label_sets=." if labels.ndim == 2 else ""
            raise LabelError(
                f"y has shape {labels.shape} for {len(bags)} bags: give one label per bag.{hint}"
            )
        contents.labels = labels_in_file(labels)
    if label_sets is not None:
        contents.label_sets = _label_sets(label_sets, contents.classes, bags)
        if contents.classes is None and not hasattr(label_sets, "dtype"):
            contents.classes = contents.label_sets.classes
    if instance_labels is not None:
        contents.instance_labels = _instance_labels(instance_labels, contents.classes, bags)
    if coords is not None:
        refuse_masked(coords, "coords")
        contents.coords = np.asarray(coords)
        if contents.coords.shape[:1] != (bags.n_instances,):
            shape = contents.coords.shape
            raise InputError(f"coords has shape {shape} for {bags.n_instances} instances.")
    for name, values in (extras or {}).items():
        refuse_masked(values, f"the values of {name!r}")
    contents.extras = {name: np.asarray(values) for name, values in (extras or {}).items()}
    return contents


def _array(values: Any) -> Array:
    return plain_array(values if isinstance(values, np.ndarray) else list(values))


def _label_sets(label_sets: Any, classes: Array | None, bags: Bags) -> Labels:
    """Label sets from a 0/1 array or a list of sets, or counts, also as an array of bounds."""
    refuse_other_order(label_sets, bags.ids, "label_sets")
    is_array = hasattr(label_sets, "ndim")
    sets: Any = label_sets if is_array else list(label_sets)
    n_sets = sets.shape[0] if is_array else len(sets)
    if n_sets != len(bags):
        raise LabelError(f"{n_sets} label sets were given for {len(bags)} bags: give one each.")
    if getattr(sets, "shape", ())[2:] == (2,):
        sets = LabelCounts(sets[..., 0], sets[..., 1], classes)
    if isinstance(sets, LabelCounts):
        names = sets.classes if classes is None else classes
        counts = sets.of_sizes(bags.sizes)
        return Labels.from_counts(LabelCounts(counts.lower, counts.upper, names), bags.sizes)
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
    if outside:
        outside = array.min() < -1 or array.max() >= len(classes)  # type: ignore[arg-type]
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
    union of the sets of its parts, unknown if one of them is unknown; its counts are their sums.

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
    bags, labels, sets = contents.bags, contents.labels, contents.label_sets
    names = [f"{column} {name}" for name in ids.tolist()]
    former = bags.names[bags.bag_index].tolist()
    merged = replace(contents, bags=bags.merge(by[order]), wholes=None)
    merged.patch_sizes = merged.slide_sizes = None
    merged.columns = contents.columns | {part or "slide": former}
    if contents.clips is not None and contents.clips.file is None:
        merged.clips = replace(contents.clips, file=[str(name) for name in former])
    if labels is not None:
        merged.labels = labels[_agreed(labels.texts, offsets, names, "labels")]
    if sets is not None:
        total = np.add.reduceat(sets.bounds, offsets[:-1])
        endless = np.minimum.reduceat(sets.bounds[..., 1], offsets[:-1]) < 0
        total[..., 1] = np.where(endless, -1, total[..., 1])
        if sets.kind == "sets":  # several parts with a label need not have several instances
            total[np.minimum.reduceat(sets.known, offsets[:-1]) == 0] = 0, -1
        merged.label_sets = sets.with_bounds(total)
    return merged


def _agreed(texts: list[str | None], offsets: Ints, names: list[str], what: str) -> Ints:
    """For each merged bag, a part with the common label of all known parts."""
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


def clip_columns(names: Iterable[str]) -> tuple[str | None, str, str] | None:
    """Find the columns of the start and the end of clips, and of their file.

    Parameters
    ----------
    names : iterable of str
        The columns of a table.

    Returns
    -------
    tuple (file, start, end), or None
        None if the table has no start or no end; the file may be None.

    Examples
    --------
    >>> from bagwise.io._contents import clip_columns
    >>> clip_columns(["Start (s)", "End (s)", "Common name", "Confidence", "File"])
    ('File', 'Start (s)', 'End (s)')
    >>> clip_columns(["start", "label"]) is None
    True
    """
    # Names are compared in lower case, with underscores and without the unit.
    plain = {
        _SECONDS.sub("", name.strip().lower()).replace(" ", "_"): name
        for name in reversed(list(names))
    }
    file, start, end = (
        next((plain[name] for name in known if name in plain), None)
        for known in (_FILES, _STARTS, _ENDS)
    )
    return None if start is None or end is None else (file, start, end)


# Probable mistakes: ids and labels among the features, labels that look alike


def is_id_name(name: str) -> bool:
    """Whether a column has a typical name of ids or row numbers.

    Examples
    --------
    >>> from bagwise.io._contents import is_id_name
    >>> [is_id_name(name) for name in ("patch_id", "index", "PatientID", "acid", "Unnamed: 0")]
    [True, True, True, False, True]
    """
    return _ID.fullmatch(name.strip()) is not None


def are_ids(values: Floats, bags: Ints) -> bool:
    """Whether a column has ids: whole numbers, one per bag or all different inside each bag.

    Parameters
    ----------
    values : ndarray of shape (n_instances,)
        The column.
    bags : ndarray of int of shape (n_instances,)
        The bag of each row, numbered from 0.

    Returns
    -------
    bool
    """
    if not len(values) or not (np.isfinite(values) & (values == np.trunc(values))).all():
        return False
    n_pairs = len(np.unique(np.column_stack([bags, values]), axis=0))
    n_bags = len(np.unique(bags))
    return n_pairs == len(values) or (n_pairs == n_bags and len(np.unique(values)) > 1)


def bag_level_features(instances: Any, offsets: Ints) -> list[int]:
    """Find features that are constant within every bag and differ between bags.

    Labels and other properties of whole bags look like this. A feature with few values can be
    constant within small bags by chance: if values are drawn with their frequencies f_v in the
    table, a bag of n instances is constant with probability sum_v f_v^n. Features for which the
    product over the bags exceeds 1e-6 are not reported.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n_instances, n_features)
        The instances of all bags, bag after bag.
    offsets : ndarray of shape (n_bags + 1,)
        The first row of each bag, and the end of the last.

    Returns
    -------
    list of int
        Columns of `instances`.
    """
    sizes = np.diff(offsets)
    several = np.flatnonzero(sizes > 1)  # bags of one instance are always constant
    first, last = offsets[several], offsets[several + 1] - 1
    left = np.arange(instances.shape[1])
    # Two rows per bag exclude almost all features, without reading the whole table.
    left = left[_are_equal(instances, first, last, left)]
    left = left[~_are_equal(instances, first[1:], first[:-1], left)]
    if len(left):
        inner = np.delete(np.arange(offsets[-1]), offsets[1:] - 1)  # rows followed by one of a bag
        left = left[_are_equal(instances, inner, inner + 1, left)]
    values = dense(instances[first][:, left]).astype(float) if len(left) else np.zeros((0, 0))
    pairs = zip(left.tolist(), values.T, strict=True)
    return [j for j, column in pairs if _chance(column, sizes[several]) < CHANCE]


def _are_equal(instances: Any, rows: Ints, others: Ints, columns: Ints) -> Bools:
    """Which columns have equal values (or none) in all pairs of rows."""
    equal = np.ones(len(columns), dtype=bool)
    start, n_values = 0, FIRST
    while start < len(rows) and equal.any():
        stop = start + max(1, n_values // len(columns))
        one, other = (dense(instances[which[start:stop]][:, columns]) for which in (rows, others))
        equal &= ((one == other) | ((one != one) & (other != other))).all(axis=0)
        start, n_values = stop, min(LARGEST, 4 * n_values)
    return equal


def _chance(values: Floats, sizes: Ints) -> float:
    """The probability that all bags are constant by chance, given the value and size of each."""
    _, code = np.unique(values, return_inverse=True)
    shares = np.bincount(code, weights=sizes) / sizes.sum()
    lengths, n_bags = np.unique(sizes, return_counts=True)
    chances = np.array([(shares**length).sum() for length in lengths.tolist()])
    return float(np.exp((n_bags * np.log(np.maximum(chances, 1e-300))).sum()))


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
            f"{listed(others)}: constant within every bag, and different between bags, as labels "
            "and metadata are. Remove such features from the file, unless they are intended.",
            DataWarning,
        )


def suspicion(names: Sequence[str]) -> str:
    """A sentence about features that look like labels or metadata of bags."""
    return (
        f"{listed(names)}: constant within every bag, and different between bags, as labels and "
        "metadata are. Leave such columns out with exclude=[...], copy them to the results "
        "with meta=[...], or name the feature columns with features=[...]."
    )


def warn_of_labels(contents: Contents) -> None:
    """Warn about labels and ids that are probably typing errors, unknown, or several labels."""
    labels, classes, ids = contents.labels, contents.classes, contents.bags.ids
    if labels is not None:
        _warn_of_near(labels.classes, "labels", str.casefold)
        warn_of_minus_one(labels.classes)
    if classes is not None:
        _warn_of_near(classes, "classes", str.casefold)
    if ids is not None:
        _warn_of_near(ids, "bag ids", str)


def _warn_of_near(values: Array, what: str, fold: Callable[[str], str]) -> None:
    """Warn about strings that differ only by spaces around them, and labels also by case."""
    seen: dict[str, str] = {}
    for text in values.tolist() if values.dtype.kind in "UO" else ():
        other = seen.setdefault(fold(text.strip()), text) if isinstance(text, str) else text
        if other != text:
            warn_user(
                f"the {what} {other!r} and {text!r} differ only by upper and lower case or by "
                "spaces. If they mean the same, correct the file.",
                DataWarning,
            )
            return


# From the columns of a table to labels


@dataclass(frozen=True)
class Column:
    """The codes of the rows of a column (-1: missing) into its distinct values."""

    codes: Ints
    values: list[Any]

    @classmethod
    def of(cls, values: Iterable[Any]) -> "Column":
        """Encode Python values in order of first appearance; None and NaN are missing."""
        position: dict[Any, int] = {}
        codes = []
        for v in values:
            if isinstance(v, list | set | frozenset | np.ndarray):
                v = tuple(v.tolist() if isinstance(v, np.ndarray) else v)  # hashable
            codes.append(-1 if is_missing(v) else position.setdefault(v, len(position)))
        return cls(np.array(codes, dtype=np.int64), list(position))

    def take(self, rows: Ints) -> "Column":
        """Select rows of the column; row -1 is missing."""
        return Column(np.append(self.codes, -1)[rows], self.values)

    def tolist(self, rows: Ints | slice = slice(None)) -> list[Any]:
        """The values of some rows, None if missing."""
        values = [*self.values, None]  # code -1 selects the last
        return [values[code] for code in self.codes[rows]]

    def array(self) -> Array:
        """The values as an array: missing numbers are NaN, others None."""
        values = plain_array(self.values)
        if (self.codes >= 0).all():
            return values[self.codes]
        if values.dtype.kind in "iuf":
            return np.append(values.astype(np.float64), np.nan)[self.codes]
        return np.array([*self.tolist(), None], dtype=object)[:-1]


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
            f"{first[bag]} and {other!r} in row {row}. A bag has one: correct or average "
            "them; labels of rows go into instance_label= of read_bags."
        )
    return column.take(first)


def bag_labels(column: Column, name: str) -> Labels:
    """The label of each bag, from the codes of the bags into the values of a column."""
    values, codes = plain_array(column.values), column.codes
    if values.dtype == object and len({str(v) for v in values}) < len(values):
        raise LabelError(f"the label column {name!r} has labels written alike, such as 1 and '1'.")
    if not (codes < 0).any():
        return labels_in_file(values[codes])
    whole = values.dtype.kind == "f" and np.all(values == np.trunc(values))
    if whole or values.dtype.kind == "b":  # pandas converts integers with missing values to floats
        values = values.astype(np.int64)
    return labels_in_file(Column(codes, values.tolist()).tolist())


def labels_in_file(values: Sequence[Any] | Array) -> Labels:
    """Make labels from one value per bag: -1 is a label among numbers, unknown among strings."""
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


def read_counts(columns: list[Column], names: Sequence[str], bags: Bags) -> Labels:
    """Read what is known of one label per column: see `LabelCounts.from_strings`."""
    cells = np.empty((len(bags), len(names)), dtype=object)
    for k, column in enumerate(columns):
        cells[:, k] = column.tolist()
    counts = LabelCounts.from_strings(cells, list(names), name_of=bags.name_of)
    return Labels.from_counts(counts, bags.sizes)


def only_looked_for(sets: Labels, column: Column, separator: str) -> Labels:
    """Make absent labels unknown that nobody looked for; in an empty field all were looked for."""
    indicator = sets.indicator.copy()
    names = [_written(label) for label in sets.classes.tolist()]
    for bag, value in enumerate(column.tolist()):
        looked = {_written(label) for label in _labels_of(value or "", separator)}
        if looked:
            beyond = np.array([name not in looked for name in names])
            indicator[bag, beyond & (indicator[bag] == 0)] = -1
    return Labels("sets", sets.classes, indicator=indicator, names=sets.names)


def typed_texts(texts: Sequence[str], *, integers_only: bool = False) -> list[Any]:
    """Convert strings to integers, booleans or floats if all of them have that form.

    ``"007"`` stays a string, as does any column in which two strings are the same number.

    Examples
    --------
    >>> from bagwise.io._contents import typed_texts
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
            raise LabelError(f"the label {label!r} is not in classes={sorted(position)}.")
        return position[_written(label)]

    return place


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 2**63 and float(value).is_integer()


def _written(label: Any) -> str:
    return str(int(label) if _is_integer(label) and not isinstance(label, bool) else label)
