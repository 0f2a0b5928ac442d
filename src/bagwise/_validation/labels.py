"""Labels of bags, of rows and of instances, as they come in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from bagwise.bags import Bags, _is_missing
from bagwise.exceptions import InputError, LabelError

__all__ = [
    "LabelSets",
    "check_bag_labels",
    "check_instance_labels",
    "check_label",
    "check_label_sets",
    "check_length",
    "check_partial_labels",
    "check_sample_weight",
]

LARGEST_WHOLE = 2**53  # floats beyond it cannot tell neighbouring whole numbers apart
UNKNOWN = -2  # code of a label that is no class
LARGEST_WEIGHT = 1e70  # products with weights and squared values stay finite
LARGEST_LABEL_TABLE = 2**32  # label sets are held as one byte per bag and class


def check_bag_labels(
    y: Any, bags: Bags, *, min_classes: int = 1
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Read one label per bag.

    Parameters
    ----------
    y : array-like of shape (n_bags,)
        The labels: any type that can be sorted.
    bags : Bags
        The bags they belong to.
    min_classes : int, default=1
        How many distinct labels the model needs.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        The distinct labels, sorted.
    codes : ndarray of shape (n_bags,)
        The position of each bag's label in `classes`.
    """
    labels = _label_column(y)
    check_length(labels, bags)
    _check_labels_present(labels, bags)
    classes, codes = _classes_of(labels)
    if len(classes) < min_classes:
        raise LabelError(
            f"y holds one class only ({classes.tolist()[0]!r}): this model learns from at least "
            f"{min_classes} classes."
        )
    return classes, codes


def check_partial_labels(
    y: Any, n_rows: int, *, min_classes: int = 2
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Read one label per row, -1 where it is not known.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        The labels: any type that can be sorted; -1 also among strings, in a list or an object
        array.
    n_rows : int
        How many there should be.
    min_classes : int, default=2
        How many distinct labels the model needs.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        The distinct labels, sorted.
    codes : ndarray of shape (n_rows,)
        The position of each row's label in `classes`; -1 for unlabelled rows.

    Examples
    --------
    >>> from bagwise._validation import check_partial_labels
    >>> check_partial_labels(["no", -1, "yes"], 3)
    (array(['no', 'yes'], dtype=object), array([ 0, -1,  1]))
    """
    labels = _label_column(y)
    if len(labels) != n_rows:
        raise LabelError(
            f"y has {len(labels)} labels for {n_rows} rows: give one per row, -1 where it is not "
            "known."
        )
    unlabelled = _is_unlabelled(labels)
    known = labels[~unlabelled]
    if len(known) == 0:
        raise LabelError(f"y labels none of the {n_rows} rows (all are -1): label some of them.")
    known_classes, known_codes = _classes_of(known)
    if len(known_classes) < min_classes:
        only = known_classes.tolist()[0]
        message = (
            f"y holds one class only ({only!r}): this model learns from at least {min_classes} "
            "classes among the labelled rows."
        )
        if only == 1 and unlabelled.any():
            message += (
                " -1 means unlabelled here: if it is your negative class, call it 0, as in "
                "np.where(y == -1, 0, y)."
            )
        raise LabelError(message)
    codes = np.full(n_rows, -1, dtype=np.int64)
    codes[~unlabelled] = known_codes
    return known_classes, codes


@dataclass(frozen=True)
class LabelSets:
    """Label sets of bags, as the door hands them on.

    Attributes
    ----------
    indicator : ndarray of int8 of shape (n_bags, n_classes)
        1 where the bag carries the label, 0 where it does not; a row of -1: nothing is known.
    classes : ndarray of shape (n_classes,)
        The label of each column.
    single : bool
        True when y was one label per bag; predictions then are too.
    """

    indicator: NDArray[np.int8]
    classes: NDArray[Any]
    single: bool

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which bags have a label set, of shape (n_bags,)."""
        return np.all(self.indicator >= 0, axis=1)


def check_label_sets(y: Any, bags: Bags, *, classes: NDArray[Any] | None = None) -> LabelSets:
    """Read a label set per bag.

    Parameters
    ----------
    y : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
        An array may be sparse; a row of -1, or None in a list, means that nothing is known about
        the bag. An empty set is knowledge: none of the labels is present.
    bags : Bags
        The bags they belong to.
    classes : ndarray, default=None
        The labels a fitted model knows; None to learn them from `y`.

    Returns
    -------
    LabelSets
    """
    if sparse.issparse(y):
        _check_label_table(*y.shape)
        compact = y.astype(np.int8)
        return _from_indicator((y if (compact != y).nnz else compact).toarray(), bags, classes)
    if (
        y is None
        or isinstance(y, Iterator)
        or not (hasattr(y, "__len__") or hasattr(y, "__array__"))
    ):
        _label_column(y)  # refuses it
        raise LabelError(f"y is {y!r}: give a label set or a label per bag.")
    listed = hasattr(y, "__len__")
    nothing_known = classes is not None and listed and all(labels is None for labels in y)
    if _is_list_of_sets(y) or nothing_known:
        return _from_sets(y, bags, classes)
    try:
        array = y if hasattr(y, "ndim") else np.asarray(y)
    except ValueError as error:
        raise LabelError(
            "y holds rows of different lengths: give a 0/1 array, or a list of sets of labels."
        ) from error
    if array.ndim == 2 and array.shape[1] > 1:
        return _from_indicator(np.asarray(array), bags, classes)
    return _from_single_labels(y, bags, classes)


def check_instance_labels(
    values: Any, bags: Bags, label_sets: LabelSets, *, background: Any = None
) -> NDArray[np.int64] | None:
    """Read the labels of those instances whose label is known.

    Parameters
    ----------
    values : array-like of shape (n_instances,) or None
        A label where it is known; None, or -1 where that is no class, where it is not.
    bags : Bags
        The bags of the instances.
    label_sets : LabelSets
        The label sets of the bags: a known label is in that of its bag.
    background : object, default=None
        What instances of none of the labels are called; None where there are none.

    Returns
    -------
    ndarray of shape (n_instances,) or None
        The position of each label in ``label_sets.classes``, their number for the background, -1
        where it is not known; None where no label is.
    """
    if values is None:
        return None
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    if len(listed) != bags.n_instances:
        raise LabelError(
            f"instance_labels has {len(listed)} entries for {bags.n_instances} instances: give one "
            "per instance, None (or -1) where it is not known."
        )
    classes = label_sets.classes.tolist()
    names = classes if background in (None, -1) else [*classes, background]
    place = {label: code for code, label in enumerate(names)}
    place.setdefault(-1, -1)
    codes = np.array([_code_of(label, place) for label in listed], dtype=np.int64)
    known = np.flatnonzero(codes != -1)
    if not len(known):
        return None
    strange = codes[known] == UNKNOWN
    sets = label_sets.indicator[bags.bag_index[known]]
    column = np.clip(codes[known], 0, len(classes) - 1)
    carried = (sets[np.arange(len(known)), column] != 0) | (codes[known] == len(classes))
    for i in known[strange | ~carried][:1]:
        bag = bags.bag_index[i]
        at = f"instance {i - bags.offsets[bag]} of {bags.name_of(bag)}"
        if codes[i] == UNKNOWN:
            raise LabelError(
                f"{at} is given the unknown label {listed[i]!r}: the classes are "
                f"{_short(np.array(names, dtype=object))}."
            )
        labels = label_sets.classes[label_sets.indicator[bag] == 1]
        raise LabelError(
            f"{at} is given the label {listed[i]!r}, which its bag does not carry: its labels are "
            f"{_short(labels)}. Correct the label set of the bag, or the label of the instance."
        )
    return codes


def check_label(label: Any, classes: NDArray[Any]) -> int:
    """Find a label among the classes of a fitted model.

    Parameters
    ----------
    label : object
        A class label.
    classes : ndarray of shape (n_classes,)
        The labels the model knows.

    Returns
    -------
    int
        Its position in `classes`.
    """
    label = label.item() if isinstance(label, np.generic) else label
    found = [i for i, known in enumerate(classes) if known == label]
    if not found:
        raise LabelError(f"the model knows no label {label!r}: its classes are {_short(classes)}.")
    return found[0]


def check_length(y: Any, bags: Bags) -> Any:
    """Refuse labels that are not one per bag.

    Parameters
    ----------
    y : array or sequence
        Something per bag.
    bags : Bags
        The bags it belongs to.

    Returns
    -------
    y
        As it came.
    """
    if getattr(y, "shape", None) == ():
        raise LabelError(f"y is the single value {y!r}: give one label per bag.")
    n_labels = y.shape[0] if hasattr(y, "shape") else len(y)
    if n_labels != len(bags):
        raise LabelError(f"y has {n_labels} labels for {len(bags)} bags: give one per bag.")
    return y


def check_sample_weight(sample_weight: Any, bags: Bags) -> NDArray[np.float64]:
    """Read one weight per bag.

    Parameters
    ----------
    sample_weight : array-like of shape (n_bags,), a number or None
        None: all bags weigh 1.
    bags : Bags
        The bags they belong to.

    Returns
    -------
    ndarray of shape (n_bags,)
        Finite, nowhere negative, not all zero.
    """
    try:
        weights = _check_sample_weight(sample_weight, np.empty(len(bags)), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight cannot be used: {error}") from error
    largest = weights.max(initial=0)
    for wrong, expected in (
        (weights < 0, "weights must not be negative (negative values in data passed)"),
        (weights > LARGEST_WEIGHT, f"expected at most {LARGEST_WEIGHT:.0e}"),
    ):
        for i in np.flatnonzero(wrong)[:1]:
            raise InputError(f"sample_weight of {bags.name_of(i)} is {weights[i]:.3g}: {expected}.")
    if largest * LARGEST_WEIGHT < 1:
        raise InputError(
            f"the largest sample_weight is {largest:.3g}: at least one bag needs a weight of "
            f"{1 / LARGEST_WEIGHT:.0e} or more."
        )
    return weights


def _label_column(y: Any) -> NDArray[Any]:
    if y is None:
        raise LabelError("this estimator requires y to be passed, but the target y is None.")
    if _is_list_of_sets(y) and any(isinstance(v, set | frozenset | list) for v in y):
        raise LabelError(
            "y holds label sets, and this model learns from one label per bag: use CitationKNN, "
            "ClassToBag or bagwise.annotation, or OneVsRestClassifier on a 0/1 array."
        )
    if getattr(getattr(y, "dtype", None), "kind", "") in ("V", "c"):
        raise LabelError(
            f"y has type {y.dtype}: expected one label per bag, text or whole numbers. Give one "
            "field of a structured array, as in y['name']."
        )
    if isinstance(y, Iterator):
        raise LabelError(f"y is an iterator ({type(y).__name__}): give list(y).")
    if isinstance(y, list | tuple) and any(isinstance(label, tuple) for label in y):
        column = np.empty(len(y), dtype=object)
        column[:] = y
        return column
    if isinstance(y, list | tuple) and len({isinstance(label, str) for label in y}) > 1:
        return np.array(y, dtype=object)  # numpy would turn the numbers into text
    try:
        return column_or_1d(y, warn=True)
    except (TypeError, ValueError) as error:
        raise LabelError(f"{error} Give one label per bag.") from error


def _classes_of(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The distinct labels, sorted, and the position of each label among them."""
    if labels.dtype.kind == "f" and np.abs(labels).max(initial=0) > LARGEST_WHOLE:
        raise LabelError(
            f"Unknown label type: y holds the number {np.abs(labels).max():.3g}, which is no name "
            "of a class: give text or small whole numbers."
        )
    try:
        if labels.dtype != object:  # scikit-learn knows no tuples as labels
            check_classification_targets(labels)
        return np.unique(labels, return_inverse=True)
    except ValueError as error:
        raise LabelError(str(error)) from error
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels})
        raise LabelError(f"y mixes {kinds}: give labels of one type.") from error


def _is_unlabelled(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels are -1; gaps of other kinds are refused."""
    if labels.dtype.kind in "US":
        if (labels == "-1").any():
            raise LabelError(
                "y is an array of text and holds the text '-1': to leave rows unlabelled, give a "
                "list or an object array with the number -1."
            )
        return np.zeros(len(labels), dtype=bool)
    for i, label in enumerate(labels if labels.dtype == object else ()):
        if _is_missing(label):
            raise LabelError(
                f"the label of row {i} is {label!r} (Input y contains NaN): mark unlabelled rows "
                "with -1."
            )
    if labels.dtype.kind == "f":
        try:
            assert_all_finite(labels, input_name="y")
        except ValueError as error:
            raise LabelError(f"{error} Mark unlabelled rows with -1.") from error
    if labels.dtype == object:  # a tuple is a label, not an array to compare
        return np.array([isinstance(v, Real) and v == -1 for v in labels], dtype=bool)
    return labels == -1


def _check_labels_present(labels: NDArray[Any], bags: Bags) -> None:
    if labels.dtype.kind == "f":
        try:
            assert_all_finite(labels, input_name="y")
        except ValueError as error:
            first = int(np.flatnonzero(~np.isfinite(labels))[0])
            raise LabelError(f"{error} ({bags.name_of(first)})") from error
    if labels.dtype == object:
        for i, label in enumerate(labels):
            if _is_missing(label):
                raise LabelError(
                    f"{bags.name_of(i)} has no label ({label!r}; Input y contains NaN): leave it "
                    "out or give it one."
                )


def _code_of(label: Any, place: dict[Any, int]) -> int:
    try:
        return -1 if _is_missing(label) else place.get(label, UNKNOWN)
    except TypeError:  # a list, which cannot be a label
        return UNKNOWN


def _is_list_of_sets(y: Any) -> bool:
    if not isinstance(y, list | tuple) and getattr(y, "dtype", None) != np.dtype(object):
        return False
    if getattr(y, "ndim", 1) != 1:
        return False
    if any(isinstance(labels, set | frozenset) for labels in y):
        return True
    known = [labels for labels in y if labels is not None]
    if not known or not all(isinstance(labels, list | tuple) for labels in known):
        return False
    words = all(isinstance(label, str) for labels in known for label in labels)
    return words or len({len(labels) for labels in known}) > 1


def _check_label_table(n_bags: int, n_classes: int) -> None:
    if n_bags * n_classes > LARGEST_LABEL_TABLE:
        raise LabelError(
            f"the label sets of {n_bags:,} bags with {n_classes:,} classes make a table of "
            f"{n_bags * n_classes / 1e9:.1f} GB: leave out labels that few bags carry, or work on "
            "fewer bags at a time."
        )


def _from_sets(y: Sequence[Any], bags: Bags, classes: NDArray[Any] | None) -> LabelSets:
    check_length(y, bags)
    if classes is None:
        members = set().union(*(labels for labels in y if labels is not None))
        if not members:
            raise LabelError("the label sets are all empty: at least one bag needs a label.")
        try:
            classes = np.array(sorted(members))
        except TypeError as error:
            raise LabelError("the label sets mix types of labels: use one type.") from error
    _check_label_table(len(y), len(classes))
    column = {label: k for k, label in enumerate(classes.tolist())}
    indicator = np.zeros((len(y), len(classes)), dtype=np.int8)
    for i, labels in enumerate(y):
        if labels is None:
            indicator[i] = -1
            continue
        for label in labels:
            if label not in column:
                raise LabelError(
                    f"{bags.name_of(i)} carries the unknown label {label!r}: the classes are "
                    f"{_short(classes)}."
                )
            indicator[i, column[label]] = 1
    return LabelSets(indicator, classes, single=False)


def _from_indicator(array: NDArray[Any], bags: Bags, classes: NDArray[Any] | None) -> LabelSets:
    check_length(array, bags)
    if classes is None:
        classes = np.arange(array.shape[1])
    if array.shape[1] != len(classes):
        raise LabelError(
            f"the label sets have {array.shape[1]} columns for {len(classes)} classes: "
            f"{_short(classes)}."
        )
    unknown = (array == -1).all(axis=1)
    odd = np.flatnonzero(~unknown & ~((array == 0) | (array == 1)).all(axis=1))
    if len(odd):
        raise LabelError(
            f"Unknown label type: the label set of {bags.name_of(odd[0])} is "
            f"{array[odd[0]].tolist()}: expected 0 and 1 only (or all -1 where nothing is known)."
        )
    return LabelSets(array.astype(np.int8), classes, single=False)


def _from_single_labels(y: Any, bags: Bags, classes: NDArray[Any] | None) -> LabelSets:
    found, codes = check_bag_labels(y, bags)
    if classes is None:
        classes, columns = found, np.arange(len(found))
    else:
        columns = np.array([check_label(label, classes) for label in found])
    indicator = np.zeros((len(bags), len(classes)), dtype=np.int8)
    indicator[np.arange(len(bags)), columns[codes]] = 1
    return LabelSets(indicator, classes, single=True)


def _short(classes: NDArray[Any]) -> str:
    names = classes.tolist()
    return str(names) if len(names) <= 10 else f"{names[:10]} and {len(names) - 10} more"
