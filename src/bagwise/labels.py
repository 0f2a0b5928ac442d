"""Labels of bags or of instances, some unknown; numbers and counts known to an interval."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import starmap
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.lib.recfunctions import structured_to_unstructured
from numpy.typing import NDArray
from scipy import sparse

from bagwise._common.intervals import is_share, read_count, read_interval
from bagwise._common.types import Array, Bools, Ints
from bagwise.exceptions import DataWarning, LabelError, warn_user

__all__ = ["Intervals", "LabelCounts", "Labels"]

_DATA = {"sets": "indicator", "counts": "bounds"}  # by kind; otherwise codes
UNLABELLED = -1  # the code of an unknown label, and scikit-learn's value for one

# Names that identify the positive one of two classes.
PRESENT = {"true", "yes", "positive", "pos", "+", "present", "presence", "active", "hit", "case"}
DISEASED = {"tumor", "tumour", "cancer", "malignant", "metastasis", "disease", "diseased", "sick"}
POSITIVE_NAMES = PRESENT | DISEASED | {"abnormal", "mutagenic", "toxic"}
ABSENT = {"false", "no", "none", "nothing", "negative", "neg", "-", "absent", "absence", "inactive"}
HEALTHY = {"healthy", "normal", "benign", "control"}
CONTROLS = {"ctrl", "ctl", "ctr", "controls", "hc", "healthy control", "healthy controls", "hd"}
CONTROLS |= {"healthy donor", "healthy donors", "hv", "volunteer", "cn", "td", "wt", "wild type"}
CONTROLS |= {"wild-type", "wildtype", "wild_type", "untreated", "unstimulated", "unexposed", "mock"}
CONTROLS |= {"vehicle", "dmso", "placebo", "sham", "naive", "scramble", "scrambled", "reference"}
NEGATIVE_NAMES = ABSENT | HEALTHY | CONTROLS | {"background", "other", "rest"}
NEGATIONS = ("in", "non", "not", "no", "un")


class Labels:
    """The labels of bags or of instances: read-only, and indexed like `Bags`.

    Parameters
    ----------
    kind : {"single", "sets", "counts", "partial", "instances"}
        One label per bag; a set of labels per bag; the number of instances with each label; one
        label per bag (or row), some of them unknown; one label per instance, some of them unknown.
    classes : array-like of shape (n_classes,)
        The distinct labels.
    codes : array-like of shape (n,), default=None
        The position of each label in `classes`, -1 if it is unknown. Not for label sets.
    indicator : array-like of shape (n, n_classes), default=None
        For label sets: 1 if the bag has the label, 0 if not, -1 if that is unknown.
    bounds : array-like of shape (n, n_classes, 2), default=None
        For counts: the least and the largest number of instances, -1 if there is no largest.
    names : sequence of str, default=None
        The displayed names of the classes; ``str`` of each class by default.
    positive : int, default=1
        The position of the positive one of two classes; a single instance can make a bag positive.

    Examples
    --------
    >>> from bagwise.labels import Labels
    >>> labels = Labels("partial", ["no", "yes"], [0, -1, 1])
    >>> labels.tolist(), labels.known.tolist(), labels.signs(1).tolist()
    (['no', None, 'yes'], [True, False, True], [-1, 0, 1])
    >>> labels[labels.known].codes
    array([0, 1])
    """

    _is_validated = False  # whether `check_bag_labels` made them: all are known, no class is absent

    def __init__(
        self,
        kind: str,
        classes: Any,
        codes: Any = None,
        *,
        indicator: Any = None,
        bounds: Any = None,
        names: Sequence[str] | None = None,
        positive: int = 1,
    ) -> None:
        self.kind, self._positive = kind, positive
        self.has_sets = kind in ("sets", "counts")  # whether a bag may have several labels
        self.classes = (classes if type(classes) is np.ndarray else plain_array(classes)).view()
        self._names = None if names is None else list(names)
        given = (indicator, np.int8) if kind == "sets" else (codes, np.int64)
        given = (bounds, np.int64) if kind == "counts" else given
        self._data = np.asarray(*given).view()
        self.classes.flags.writeable = self._data.flags.writeable = False

    @classmethod
    def from_sets(
        cls,
        sets: Sequence[Collection[Any] | None],
        classes: Any = None,
        *,
        name_of: Callable[[int], str] = "bag {}".format,
    ) -> Labels:
        """Make labels from one set of labels per bag.

        Parameters
        ----------
        sets : sequence of collections or None
            The labels of each bag; None if nothing is known. An empty set means that the bag has
            none of the classes.
        classes : array-like of shape (n_classes,), default=None
            The classes; by default the labels found, sorted.
        name_of : callable, default="bag {}".format
            The name of bag `i` in error messages.

        Returns
        -------
        Labels
        """
        if classes is None:
            classes = sorted_labels(_python(v) for labels in sets for v in labels or ())
        classes = plain_array(classes)
        column = {_python(label): k for k, label in enumerate(classes)}
        indicator = np.zeros((len(sets), len(classes)), dtype=np.int8)
        for i, labels in enumerate(sets):
            if labels is None:
                indicator[i] = UNLABELLED
                continue
            for label in labels:
                if _python(label) not in column:
                    raise LabelError(
                        f"{name_of(i)} has the unknown label {label!r}: not {short_list(classes)}."
                    )
                indicator[i, column[_python(label)]] = 1
        return cls("sets", classes, indicator=indicator)

    @classmethod
    def from_indicator(
        cls, array: Any, classes: Any = None, *, name_of: Callable[[int], str] = "bag {}".format
    ) -> Labels:
        """Make labels from a 0/1 array of label sets.

        Parameters
        ----------
        array : array-like or sparse of shape (n_bags, n_classes)
            1 if a bag has a label, 0 if not, -1 if that is unknown.
        classes : array-like of shape (n_classes,), default=None
            The classes; by default their column numbers.
        name_of : callable, default="bag {}".format
            The name of bag `i` in error messages.

        Returns
        -------
        Labels
        """
        refuse_masked(array, "the label sets")
        if sparse.issparse(array):
            array = array.toarray()
        array = np.asarray(array)
        classes = np.arange(array.shape[-1]) if classes is None else np.asarray(classes)
        if array.ndim != 2 or array.shape[1] != len(classes):
            raise LabelError(
                f"the label sets have shape {array.shape}, {array.shape[-1]} columns for "
                f"{len(classes)} classes: {short_list(classes)}."
            )
        odd = ~((array == 0) | (array == 1) | (array == UNLABELLED)).all(axis=1)
        if odd.any():
            first = int(np.argmax(odd))
            raise LabelError(
                f"Unknown label type: the label set of {name_of(first)} is "
                f"{array[first].tolist()}: expected 0 and 1, or -1 for a label that is unknown; "
                "for numbers of instances, give labels.LabelCounts."
            )
        return cls("sets", classes, indicator=array.astype(np.int8))

    @classmethod
    def from_counts(cls, counts: LabelCounts, sizes: Ints) -> Labels:
        """Make labels from counts: label sets, if all are only "one or more", 0 or unknown.

        Parameters
        ----------
        counts : LabelCounts
            The counts.
        sizes : ndarray of shape (n_bags,)
            The sizes of the bags, for shares.

        Returns
        -------
        Labels
            Of the kind "sets" or "counts".
        """
        counts = counts.of_sizes(sizes)
        indicator = counts.indicator
        if counts.simple.all():
            return cls("sets", counts.classes, indicator=indicator)
        return cls("counts", counts.classes, bounds=np.stack([counts.lower, counts.upper], axis=2))

    @classmethod
    def from_values(cls, values: Any, classes: Collection[Any] | None = None) -> Labels:
        """Make labels from one label per bag, some of them unknown.

        Parameters
        ----------
        values : array-like of shape (n_bags,)
            The labels. Missing values are unknown, and so is the number -1 unless it is a class.
        classes : collection, default=None
            -1 is a class if it is one of these. By default it is a class if at most one other
            number occurs (the two classes of an SVM), or if some labels are not whole numbers.

        Returns
        -------
        Labels
            Of the kind "single" or "partial"; the classes are the labels found, sorted.
        """
        array = plain_array(values if isinstance(values, np.ndarray) else list(values))
        listed = array.tolist()
        try:
            found = sorted_labels(v for v in listed if not is_missing(v))
        except TypeError as error:
            raise LabelError(f"y contains values that are not labels: {error}.") from error
        if classes is None:
            numbers = array.dtype.kind in "iuf"
            fractions = array.dtype.kind == "f" and any(v != int(v) for v in found if abs(v) < 1e15)
            classes = found if fractions or (numbers and len(found) <= 2) else ()
        found = [v for v in found if not is_unlabelled(v, classes)]
        position = {label: code for code, label in enumerate(found)}
        codes = np.array([position.get(v, UNLABELLED) for v in listed], dtype=np.int64)
        typed = plain_array(found) if array.dtype == object else np.array(found, array.dtype)
        return cls.from_codes(typed, codes)

    @classmethod
    def from_codes(cls, classes: Any, codes: Ints) -> Labels:
        """Make labels of the kind "single", or "partial" if a code is -1."""
        return cls("partial" if (codes < 0).any() else "single", classes, codes)

    @property
    def names(self) -> list[str]:
        """The displayed names of the classes."""
        return [str(v) for v in self.classes.tolist()] if self._names is None else self._names

    @property
    def codes(self) -> Ints:
        """The position of each label in `classes`, -1 if it is unknown, of shape (n,)."""
        if self.has_sets:
            raise LabelError("label sets have no codes: use the indicator.")
        return self._data

    @cached_property
    def indicator(self) -> NDArray[np.int8]:
        """1 if a bag has a label, 0 if not, -1 if that is unknown: (n, n_classes)."""
        if self.kind == "counts":
            return self.as_counts.indicator
        if self.has_sets:
            return self._data
        table = (self.codes[:, None] == np.arange(len(self.classes))).astype(np.int8)
        table[self.codes < 0] = UNLABELLED
        table.flags.writeable = False
        return table

    @cached_property
    def known(self) -> Bools:
        """Which bags (or instances) have a label, or something known of their label set: (n,)."""
        known = self._data >= 0
        if self.kind == "counts":
            known = (self._data != (0, UNLABELLED)).any(axis=(1, 2))
        elif self.has_sets:
            known = known.any(axis=1) | (known.shape[1] == 0)
        known.flags.writeable = False
        return known

    @property
    def whole(self) -> Bools:
        """Which bags have a known label set, or nothing known: no label alone is unknown."""
        return ~self.known | (self.indicator >= 0).all(axis=1)

    @property
    def bounds(self) -> Ints:
        """The least and the largest count of each label (-1: no limit): (n, n_classes, 2)."""
        if self.kind == "counts":
            return self._data
        lower, upper = self.indicator == 1, np.where(self.indicator == 0, 0, -1)
        return np.stack([lower.astype(np.int64), upper], axis=2)

    def first_classes(self, n: int) -> Labels:
        """Return label sets or counts of the first classes only."""
        return self._like(self._data[:, :n], classes=self.classes[:n], names=self.names[:n])

    def with_bounds(self, bounds: Ints) -> Labels:
        """Return label sets or counts with other bounds, of the same kind."""
        indicator = np.where(bounds[..., 0] > 0, 1, np.where(bounds[..., 1] == 0, 0, -1))
        return self._like(bounds if self.kind == "counts" else indicator)

    @property
    def as_counts(self) -> LabelCounts:
        """Label sets or counts as counts."""
        bounds = self.bounds
        return LabelCounts(bounds[..., 0], bounds[..., 1], self.classes)

    @property
    def values(self) -> Any:
        """The labels in scikit-learn's format, -1 if unknown.

        An array of labels of shape (n,), or for label sets a 0/1 array of shape (n, n_classes);
        `LabelCounts` for counts. Float labels are NaN if unknown, because -1 may be a label.
        """
        if self.kind == "counts":
            return self.as_counts
        if self.has_sets:
            return self._data
        classes, unknown = self.classes, np.array([UNLABELLED], np.int8)
        if self.known.all():
            return classes[self._data]
        if classes.dtype.kind == "f":
            unknown = np.array([np.nan], classes.dtype)
        elif classes.dtype.kind not in "iu":
            classes = classes.astype(object if len(classes) else np.int64)
        return np.concatenate([classes, unknown])[self._data]  # the code -1 takes the last entry

    @property
    def texts(self) -> list[str | None]:
        """The label or label set of each bag as a string; None if nothing is known."""
        return [None if names is None else "; ".join(names) for names in self.name_lists]

    @property
    def name_lists(self) -> list[list[str] | None]:
        """The names of the labels of each bag, in the order of `classes`; None if unknown."""
        return self._members(self.names)

    @property
    def counts(self) -> Ints:
        """Number of bags with each class, of shape (n_classes,)."""
        if self.has_sets:
            return (self.indicator == 1).sum(axis=0)
        return np.bincount(self._data[self.known], minlength=len(self.classes))

    @property
    def positives(self) -> Sequence[int]:
        """The positive class of each one-vs-rest problem: one for two classes, else all."""
        two = len(self.classes) == 2 and not self.has_sets
        return [self._positive] if two else range(len(self.classes))

    @property
    def oriented_codes(self) -> Ints:
        """The codes; if there are two classes, the positive one has code 1."""
        return self.codes if self.pos_label is None else (self.codes == self._positive).astype(int)

    @property
    def pos_label(self) -> Any:
        """The positive one of two classes; None unless there are two."""
        two = len(self.classes) == 2 and not self.has_sets
        return self.classes.tolist()[self._positive] if two else None

    def with_positive(self, positive: int) -> Labels:
        """Return the same labels with another of two classes as the positive one."""
        return self._like(self._data, positive=positive)

    def signs(self, k: int) -> Ints:
        """Return 1 for bags with class `k`, -1 for others, 0 for unknown labels: (n,)."""
        if self.has_sets:
            return np.array([-1, 1, 0])[self.indicator[:, k]]
        return np.where(self.known, np.where(self._data == k, 1, -1), 0)

    def without(self, mask: Bools) -> Labels:
        """Return a copy in which the labels selected by a mask of shape (n,) are unknown."""
        kind = "partial" if self.kind == "single" else self.kind
        data = self._data.copy()
        data[mask] = (0, UNLABELLED) if self.kind == "counts" else UNLABELLED
        return self._like(data, kind=kind)

    def aligned(self, classes: Sequence[Any], names: Sequence[str]) -> Labels:
        """Return the same labels, coded by other classes, such as the classes of a model.

        Parameters
        ----------
        classes : sequence
            The first classes of the result. Labels are matched by value, or else by their names.
        names : sequence of str
            The names of `classes`. Labels that match none of them are appended as new classes.
            Classes that are not among these labels are absent; in counts they are unknown.

        Returns
        -------
        Labels
        """
        position = {name: k for k, name in enumerate(names)}
        position |= {label: k for k, label in enumerate(classes)}
        merged, merged_names, columns = list(classes), list(names), []
        for label in self.classes.tolist():
            k = position.get(label, position.get(str(label), len(merged)))
            if k == len(merged):
                merged.append(label)
                merged_names.append(str(label))
            columns.append(k)
        if not self.has_sets:
            codes = np.array([*columns, UNLABELLED])[self._data]
            return Labels(self.kind, merged, codes, names=merged_names)
        if self.kind == "counts":
            bounds = np.tile([0, UNLABELLED], (len(self), len(merged), 1))
            bounds[:, columns] = self._data
            return Labels("counts", merged, bounds=bounds, names=merged_names)
        indicator = np.zeros((len(self), len(merged)), dtype=np.int8)
        indicator[:, columns] = self._data
        indicator[~self.known] = UNLABELLED
        return Labels("sets", merged, indicator=indicator, names=merged_names)

    def as_sets(self) -> Labels:
        """Return the labels as label sets or counts; a single label becomes a set of one."""
        if self.has_sets:
            return self
        return Labels("sets", self.classes, indicator=self.indicator, names=self._names)

    @property
    def targets(self) -> Any:
        """What a model learns from: labels, a list of sets, or counts if a label is unknown."""
        if not self.has_sets:
            return self.values
        return self.tolist() if self.kind == "sets" and self.whole.all() else self.as_counts

    def tolist(self) -> list[Any]:
        """Return the label of each bag, or the labels it surely has; None if nothing is known."""
        members = self._members(self.classes.tolist())
        if self.has_sets:
            return [None if labels is None else set(labels) for labels in members]
        return [None if labels is None else labels[0] for labels in members]

    def _members(self, items: list[Any]) -> list[list[Any] | None]:
        """List, for each bag, the entries of `items` (one per class) for its labels."""
        if not self.has_sets:
            return [None if code < 0 else [items[code]] for code in self._data.tolist()]
        return [
            [items[k] for k in np.flatnonzero(row == 1)] if known else None
            for row, known in zip(self.indicator, self.known, strict=True)
        ]

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            return self._like(self._data[key][None]).tolist()[0]
        return self._like(self._data[key])

    def __repr__(self) -> str:
        n_unknown = len(self) - int(self.known.sum())
        unknown = f", unknown={n_unknown}" if n_unknown else ""
        return f"Labels({self.kind!r}, n={len(self)}, classes={short_list(self.classes)}{unknown})"

    def _like(self, data: Array, **changed: Any) -> Labels:
        given: dict[str, Any] = {_DATA.get(self.kind, "codes"): data}
        given |= {"kind": self.kind, "names": self._names, "positive": self._positive}
        return Labels(**{"classes": self.classes} | given | changed)


class Intervals:
    """Numbers of bags, each known to lie in an interval: read-only, and indexed like `Bags`.

    Both ends are included. A number is exact if its ends are equal, and censored otherwise.

    Parameters
    ----------
    lower, upper : array-like of shape (n_bags,)
        The ends; minus infinity and infinity if there is no bound.

    Attributes
    ----------
    lower, upper : ndarray of shape (n_bags,)
        The ends.
    exact : ndarray of bool of shape (n_bags,)
        Which numbers are known exactly.

    See Also
    --------
    bagwise.regression.CensoredBagRegressor : Learns from them.

    Examples
    --------
    >>> from bagwise.labels import Intervals
    >>> numbers = Intervals.from_strings(["5.3", "<=5", ">=10", "4-6"])
    >>> numbers.lower.tolist(), numbers.upper.tolist()
    ([5.3, -inf, 10.0, 4.0], [5.3, 5.0, inf, 6.0])
    >>> numbers[1:]
    Intervals(['<=5', '>=10', '4 to 6'])
    """

    ndim = 1

    def __init__(self, lower: Any, upper: Any) -> None:
        self.lower, self.upper = np.array([lower, upper], dtype=np.float64)
        self.lower.flags.writeable = self.upper.flags.writeable = False

    @classmethod
    def from_strings(
        cls, cells: Iterable[Any], *, name_of: Callable[[int], str] = "bag {}".format
    ) -> Intervals:
        """Read ``5.3``, ``<5``, ``<=5``, ``>10``, ``>=10``, ``4-6``, ``4 to 6``, ``3+``, ``40%``.

        Parameters
        ----------
        cells : iterable of str, float or None
            What is known of each bag. None, NaN, ``NA`` and an empty string are the interval of all
            numbers. ``<5`` ends at the largest number below 5.
        name_of : callable, default="bag {}".format
            The name of bag `i` in error messages.

        Returns
        -------
        Intervals
        """
        ends = [read_interval(v, f"the number of {name_of(i)}") for i, v in enumerate(cells)]
        return cls(*np.reshape(ends, (-1, 2)).T)

    @property
    def shape(self) -> tuple[int]:
        """The number of bags, in a tuple."""
        return self.lower.shape

    @property
    def exact(self) -> Bools:
        """Which numbers are known exactly, of shape (n_bags,)."""
        return self.lower == self.upper

    @property
    def texts(self) -> list[str]:
        """Each number as a string: ``5.3``, ``<5``, ``>=10`` or ``4 to 6``."""
        return [*starmap(_interval_text, self)]

    def __len__(self) -> int:
        return len(self.lower)

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return zip(self.lower.tolist(), self.upper.tolist(), strict=True)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # scikit-learn indexes y[key, ...]
        lower, upper = self.lower[key], self.upper[key]
        return Intervals(lower, upper) if lower.ndim else (float(lower), float(upper))

    def __repr__(self) -> str:
        return f"Intervals({short_list(self.texts)})"


def _interval_text(lower: float, upper: float) -> str:
    low, high = f"{lower:.6g}", f"{upper:.6g}"
    if not (lower > -np.inf or upper < np.inf):
        return "unknown"
    if lower == -np.inf:  # below 5 ends at the largest number below 5
        return f"<{'=' * (float(high) <= upper)}{high}"
    if upper == np.inf:
        return f">{'=' * (float(low) >= lower)}{low}"
    return low if lower == upper else f"{low} to {high}"


class LabelCounts:
    """The number of instances with each label, in each bag: read-only, and indexed like `Bags`.

    It is known to lie between two bounds, which are included.

    Parameters
    ----------
    lower, upper : array-like of int of shape (n_bags, n_classes)
        The bounds; an upper bound of -1 is no limit. Present is 1 and -1, absent 0 and 0, unknown 0
        and -1, exactly three 3 and 3.
    classes : array-like of shape (n_classes,), default=None
        The labels; by default their column numbers.

    Attributes
    ----------
    lower, upper : ndarray of int of shape (n_bags, n_classes)
        The bounds. Shares have 0 and -1 until the sizes of the bags are known.
    classes : ndarray of shape (n_classes,)
        The labels.

    See Also
    --------
    bagwise.annotation.ORedLogisticRegression : Learns from them.

    Examples
    --------
    >>> from bagwise.labels import LabelCounts
    >>> cells = [["3+", "0", ""], ["2-5", "yes", "40%"]]
    >>> counts = LabelCounts.from_strings(cells, ["owl", "wren", "crow"])
    >>> counts.lower.tolist(), counts.upper.tolist()
    ([[3, 0, 0], [2, 1, 0]], [[-1, 0, -1], [5, -1, -1]])
    >>> counts[1:]
    LabelCounts([['2-5', '1+', '40%']], classes=['owl', 'wren', 'crow'])
    >>> counts.of_sizes([4, 10])[1:]
    LabelCounts([['2-5', '1+', '4']], classes=['owl', 'wren', 'crow'])
    """

    ndim = 2

    def __init__(self, lower: Any, upper: Any, classes: Any = None) -> None:
        self.lower, self.upper = (_whole_numbers(ends) for ends in (lower, upper))
        if self.lower.ndim != 2 or self.lower.shape != self.upper.shape:
            raise LabelError(
                f"the bounds of the counts have the shapes {self.lower.shape} and "
                f"{self.upper.shape}: expected (n_bags, n_classes) for both."
            )
        n_classes = self.lower.shape[1]
        self.classes = np.arange(n_classes) if classes is None else plain_array(classes)
        if len(self.classes) != n_classes or len(set(self.classes.tolist())) < n_classes:
            raise LabelError(
                f"{n_classes} columns for the classes {short_list(self.classes)}: give one each."
            )
        self._shares: Array | None = None  # (n_bags, n_classes, 2), NaN where there is none
        limited = self.upper != UNLABELLED
        wrong = (self.lower < 0) | (limited & (self.upper < self.lower))
        for bag, k in np.argwhere(wrong)[:1]:
            raise LabelError(
                f"bag {bag} has {self.lower[bag, k]} to {self.upper[bag, k]} instances with the "
                f"label {self.classes.tolist()[k]!r}: expected 0 or more, and an upper bound that "
                "is not smaller, or -1 for no limit."
            )
        self.lower.flags.writeable = self.upper.flags.writeable = False

    @classmethod
    def from_strings(
        cls, cells: Any, classes: Any = None, *, name_of: Callable[[int], str] = "bag {}".format
    ) -> LabelCounts:
        """Read ``1``, ``yes`` or ``present``; ``0``, ``no`` or ``absent``; ``3``, ``3+``, ``2-5``.

        Parameters
        ----------
        cells : array-like of shape (n_bags, n_classes), or data frame
            What is known of each label: also ``<5``, ``=1`` (exactly one; ``1`` is one or more),
            and ``40%`` or ``30-50%``, a share of the instances. Unknown: None, NaN, an empty
            string, ``?`` or ``NA``.
        classes : array-like of shape (n_classes,), default=None
            The labels; by default the columns of a data frame, or column numbers.
        name_of : callable, default="bag {}".format
            The name of bag `i` in error messages.

        Returns
        -------
        LabelCounts
        """
        if classes is None and hasattr(cells, "columns"):
            classes = list(cells.columns)
        table = np.asarray(cells, dtype=object)
        table = table if table.ndim == 2 else table.reshape(len(table), -1)
        labels = range(table.shape[1]) if classes is None else list(classes)
        bounds = np.tile([0, UNLABELLED], (*table.shape, 1))
        shares = np.full((*table.shape, 2), np.nan)
        for (bag, k), cell in np.ndenumerate(table):
            name = f"{labels[k]!r} of {name_of(bag)}"
            if not is_share(cell):
                bounds[bag, k] = read_count(None if is_missing(cell) else cell, name)
                continue
            low, high = read_interval(cell, name)
            shares[bag, k] = max(low, 0.0), min(high, 1.0)
            if not 0 <= low <= high <= 1 and not (np.isinf([low, high]).any() and low <= 1):
                raise LabelError(f"{name} is {cell!r}: expected a share of 0 to 100 %.")
        return cls(bounds[..., 0], bounds[..., 1], classes)._with_shares(shares)

    @classmethod
    def from_shares(cls, shares: Any, tolerance: float | None = None, classes: Any = None) -> Self:
        """Make counts from the share of the instances of a bag that have each label.

        Parameters
        ----------
        shares : array-like of shape (n_bags, n_classes)
            From 0 to 1; NaN if unknown.
        tolerance : float, default=None
            How much larger or smaller a share may be. By default, and where no whole number is
            within it, the share of n instances is rounded down and up.
        classes : array-like of shape (n_classes,), default=None
            The labels; by default their column numbers.

        Returns
        -------
        LabelCounts
        """
        shares = np.array(shares, dtype=np.float64)
        if shares.ndim != 2:
            raise LabelError(f"shares have the shape {shares.shape}: give one column per label.")
        for bag, k in np.argwhere((shares < 0) | (shares > 1))[:1]:
            raise LabelError(f"bag {bag} has the share {shares[bag, k]}: expected 0 to 1.")
        for bag in np.flatnonzero(np.nansum(shares, axis=1) > 1 + 1e-6)[:1]:
            total = np.nansum(shares[bag])
            raise LabelError(f"the shares of bag {bag} sum to {total:.6g}: at most 1 is possible.")
        unknown = np.zeros(shares.shape, np.int64)
        ends = shares[..., None] + np.array([-1.0, 1.0]) * (tolerance or 0.0)
        return cls(unknown, unknown - 1, classes)._with_shares(ends.clip(0, 1))

    def _with_shares(self, shares: Array) -> Self:
        self._shares = None if np.isnan(shares).all() else shares
        return self

    def of_sizes(self, sizes: Any) -> LabelCounts:
        """Return the counts in bags of these sizes: shares become numbers of instances."""
        if self._shares is None:
            return self
        ends = np.asarray(sizes)[:, None, None] * self._shares
        given = ~np.isnan(ends[..., 0])
        lower, upper = np.ceil(ends[..., 0] - 1e-9), np.floor(ends[..., 1] + 1e-9)
        empty = lower > upper
        lower = np.where(empty, np.floor(ends[..., 0]), lower)
        upper = np.where(empty, np.ceil(ends[..., 1]), upper)
        return LabelCounts(
            np.where(given, lower, self.lower), np.where(given, upper, self.upper), self.classes
        )

    @property
    def indicator(self) -> NDArray[np.int8]:
        """1 if a bag has a label, 0 if not, -1 if that is unknown: (n_bags, n_classes)."""
        return np.where(self.lower > 0, 1, np.where(self.upper == 0, 0, -1)).astype(np.int8)

    @property
    def simple(self) -> Bools:
        """Which labels are only known to be present, to be absent, or unknown."""
        return (self.upper == 0) | ((self.lower <= 1) & (self.upper == UNLABELLED))

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of bags and of labels."""
        return self.lower.shape

    @property
    def texts(self) -> list[list[str]]:
        """The counts of each bag as strings, as `from_strings` reads them."""
        found = []
        for bag, row in enumerate(zip(self.lower.tolist(), self.upper.tolist(), strict=True)):
            found.append([_count_text(*ends) for ends in zip(*row, strict=True)])
            if self._shares is not None:
                for k in np.flatnonzero(~np.isnan(self._shares[bag, :, 0])):
                    low, high = 100 * self._shares[bag, k]
                    found[-1][k] = f"{low:.6g}%" if low == high else f"{low:.6g}-{high:.6g}%"
        return found

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # scikit-learn indexes y[key, ...]
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            return self.lower[key], self.upper[key]
        found = LabelCounts(self.lower[key], self.upper[key], self.classes)
        return found if self._shares is None else found._with_shares(self._shares[key])

    def __repr__(self) -> str:
        shown = str(self.texts) if len(self) <= 3 else f"{self.texts[:3]} and {len(self) - 3} more"
        return f"LabelCounts({shown}, classes={short_list(self.classes)})"


def _whole_numbers(values: Any) -> Ints:
    refuse_masked(values, "the bounds of the counts")
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or not np.array_equal(array, np.trunc(array)):
        raise LabelError("the bounds of the counts are not all whole numbers: -1 is no limit.")
    return array.astype(np.int64)


def _count_text(lower: int, upper: int) -> str:
    """A count as a string: ``""``, ``3``, ``=1``, ``3+`` or ``2-5``."""
    if upper == UNLABELLED:
        return f"{lower}+" if lower else ""
    return f"{lower}-{upper}" if lower != upper else "=1" if lower == 1 else str(lower)


def positive_by_name(classes: Any) -> int | None:
    """Find the positive one of two classes by their values, or by their names.

    The larger of two numbers is positive, and so is True. A string is positive if it is a common
    name for presence ("active", "yes", "tumor"), or if the other string is one for absence
    ("inactive", "control", "ctrl", "wt", "untreated", or "non-musk" next to "musk").

    Parameters
    ----------
    classes : array-like of shape (2,)
        The classes.

    Returns
    -------
    int or None
        The position of the positive class; None if the names do not determine it.

    Examples
    --------
    >>> from bagwise.labels import positive_by_name
    >>> positive_by_name(["active", "inactive"]), positive_by_name(["cat", "dog"])
    (0, None)
    """
    first, second = [str(v).strip().lower() for v in np.asarray(classes, dtype=object).tolist()]
    try:
        return int(float(second) > float(first))
    except ValueError:  # not numbers; True and False are among the known names
        pass
    found = [_is_positive(first, second), _is_positive(second, first)]
    return found.index(True) if sum(found) == 1 else None


def _is_positive(name: str, other: str) -> bool:
    """Whether a class name stands for presence, or the name of the other class for absence."""
    negations = [prefix + link + name for prefix in NEGATIONS for link in ("", "-", "_", " ")]
    return name in POSITIVE_NAMES or other in NEGATIVE_NAMES or other in negations


def is_missing(value: Any) -> bool:
    """Tell whether a value stands for "no value": None, NaN, NaT or pandas.NA."""
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return False
    try:
        return value is None or value is np.ma.masked or bool(value != value)
    except (TypeError, ValueError):  # pandas.NA has no truth value
        return True


def is_unlabelled(label: Any, classes: Collection[Any] = ()) -> bool:
    """Tell whether a label is missing, or is the number -1 and -1 is not a class."""
    minus_one = isinstance(label, Real) and label == UNLABELLED
    return UNLABELLED not in classes if minus_one else is_missing(label)


def is_known(numbers: Any) -> Bools:
    """Tell which numbers, intervals or times are known: finite, or with a finite end."""
    if isinstance(numbers, Intervals):
        return np.isfinite(numbers.lower) | np.isfinite(numbers.upper)
    numbers = structured_to_unstructured(numbers) if numbers.dtype.names else numbers
    return np.isfinite(numbers.reshape(len(numbers), -1)).all(axis=1)


def plain_array(values: Sequence[Any] | Array) -> Array:
    """Return a 1-D array: bool, int, float or str if all values have that type, else object."""
    refuse_masked(values)
    array = values if isinstance(values, np.ndarray) else np.empty(len(values), dtype=object)
    if array is not values:
        for i, value in enumerate(values):  # one by one: array[:] = values would unpack tuples
            array[i] = value
    if array.dtype != object:
        return array
    refuse_nul(array)
    items = [_python(v) for v in array]
    kinds = {type(v) for v in items}
    return np.array(items) if len(kinds) == 1 and kinds <= {bool, int, float, str} else array


def refuse_masked(values: Any, what: str = "labels, ids or weights") -> None:
    """Raise `LabelError` for a masked array: the values under its mask would count as given."""
    if isinstance(values, np.ma.MaskedArray):
        raise LabelError(
            f"{what} are a masked array: leave the masked out, or use astype(object).filled(None)."
        )


def refuse_other_order(values: Any, ids: Any, name: str = "y") -> None:
    """Raise `LabelError` if values of pandas have ids of bags as index, in another order."""
    if ids is None or not hasattr(values, "iloc"):
        return
    names, own = values.index.tolist(), ids.tolist()
    moved = {one for one, other in zip(names, own, strict=False) if one != other}.intersection(own)
    # Integers may be row numbers: they are ids if the bags have no others.
    if any(isinstance(one, str) for one in moved) or (moved and set(own) == set(names)):
        raise LabelError(
            f"the index of {name} has the ids of the bags in another order: give {name}.loc"
            f"[bags.ids], or {name}.to_numpy() if its rows are in the order of the bags."
        )


def warn_of_minus_one(classes: Array) -> None:
    """Warn if -1 is one of several integer labels: elsewhere it means unknown."""
    if classes.dtype.kind == "i" and len(classes) > 2 and -1 in classes:
        warn_user(
            "bags have the label -1, which is read as a label like the others. If it means "
            "unknown, leave its cells empty, or the bags out (bags[y != -1]).",
            DataWarning,
        )


def refuse_nul(values: Iterable[Any]) -> None:
    """Raise `LabelError` for a string that ends with NUL, which arrays of strings drop."""
    for value in values:
        if isinstance(value, str) and value.endswith("\0"):
            raise LabelError(f"{value!r} ends with a NUL character, which is lost: rename it.")


def sorted_labels(labels: Iterable[Any]) -> list[Any]:
    """Return the distinct labels, sorted by type and then by value."""
    return sorted(set(labels), key=lambda label: (type(label).__name__, label))


def short_list(classes: Array | list[Any]) -> str:
    """Format classes for a message; only the first ten if there are more."""
    names = classes if isinstance(classes, list) else classes.tolist()
    return str(names) if len(names) <= 10 else f"{names[:10]} and {len(names) - 10} more"


def _python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
