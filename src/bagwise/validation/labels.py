"""Validation of y: labels of bags, of rows and of instances become `Labels`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.bags import Bags
from bagwise.exceptions import DataWarning, InputError, LabelError, warn_user
from bagwise.labels import (
    Intervals,
    LabelCounts,
    Labels,
    is_missing,
    is_unlabelled,
    plain_array,
    refuse_masked,
    refuse_nul,
    refuse_other_order,
    short_list,
    sorted_labels,
    warn_of_minus_one,
)

NO_CLASS = -2  # code of a label that is not among the classes
LARGEST_NUMBER = 1e100  # sums of squares stay finite
LARGEST_WEIGHT = 1e70  # products with weights and squared values stay finite


def check_bag_labels(y: Any, bags: Bags, *, min_classes: int = 1) -> Labels:
    """Check one label per bag.

    Parameters
    ----------
    y : array-like of shape (n_bags,)
        The labels, of any type that can be sorted.
    bags : Bags
        The bags they belong to.
    min_classes : int, default=1
        The number of distinct labels that the model needs.

    Returns
    -------
    Labels
        Of the kind "single"; the classes are sorted.
    """
    if isinstance(y, Labels) and y._is_validated and len(y.classes) >= min_classes:
        return check_length(y, bags)
    column = _label_column(y.values if isinstance(y, Labels) else y)
    check_length(y, bags)
    for i in _first_missing(column):
        raise LabelError(f"{_absent(column[i], bags.name_of(i))} Leave it out or label it.")
    labels = Labels("single", *_classes_of(column, min_classes))
    warn_of_minus_one(labels.classes)
    labels._is_validated = True
    return labels


def check_grades(y: Any, bags: Bags, ordered_classes: Any = None) -> Labels:
    """Check one grade per bag: a class among classes with an order.

    Parameters
    ----------
    y : array-like of shape (n_bags,)
        The grades. Numbers, and an ordered categorical of pandas, know their order.
    bags : Bags
        The bags they belong to.
    ordered_classes : list, "sorted" or None
        All grades, lowest first.

    Returns
    -------
    Labels
        Of the kind "single"; the classes are the grades that occur, lowest first.
    """
    labels = check_bag_labels(y, bags, min_classes=2)
    dtype: Any = getattr(y, "dtype", None)
    if ordered_classes is None and getattr(dtype, "ordered", False):
        ordered_classes = dtype.categories
    classes = labels.classes.tolist()
    if ordered_classes is None and labels.classes.dtype.kind not in "biuf":
        raise LabelError(
            f"the grades {short_list(classes)} have no order: give ordered_classes=[...], the "
            "lowest first (on the command line --order), numbers, or an ordered categorical."
        )
    if ordered_classes is None or isinstance(ordered_classes, str):  # "sorted"
        return labels
    order = plain_array(list(ordered_classes)).tolist()
    if len(set(order)) < len(order):
        raise LabelError(f"ordered_classes has a grade twice: {short_list(order)}.")
    for k in [k for k, label in enumerate(classes) if label not in order][:1]:
        i = int(np.argmax(labels.codes == k))
        raise LabelError(
            f"{bags.name_of(i)} has the grade {classes[k]!r}, not in ordered_classes {order}."
        )
    ranks = np.argsort([order.index(label) for label in classes])
    return Labels("single", labels.classes[ranks], np.argsort(ranks)[labels.codes])


def has_columns(y: Any) -> bool:
    """Whether y is an array, or a data frame, with several columns."""
    shape: tuple[int, ...] = () if isinstance(y, LabelCounts) else getattr(y, "shape", ())
    return len(shape) == 2 and shape[1] > 1


def check_numbers(y: Any, bags: Bags) -> Floats:
    """Check one number per bag, the target of a regression.

    Parameters
    ----------
    y : array-like of shape (n_bags,)
        The numbers.
    bags : Bags
        The bags they belong to.

    Returns
    -------
    ndarray of float64 of shape (n_bags,)
        Finite, and small enough that their squares do not overflow.
    """
    if has_columns(y):
        raise LabelError(
            f"y has {y.shape[1]} columns: for a model of each use AutoBagRegressor, or "
            "MultiOutputRegressor of scikit-learn with this regressor."
        )
    column = _label_column(y)
    check_length(y, bags)
    for i in _first_missing(column):
        raise LabelError(f"{_absent(column[i], bags.name_of(i), 'number')} Leave it out.")
    try:
        numbers = column.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise LabelError(
            f"y contains {short_list(column[:3])}, which are not all numbers: a regressor learns a "
            "number per bag, CensoredBagRegressor also intervals such as '<5', a classifier labels."
        ) from error
    largest = np.abs(numbers).max(initial=0)
    if not largest <= LARGEST_NUMBER:
        raise LabelError(f"y contains {largest:.3g}, whose square overflows: use a larger unit.")
    return numbers


def check_intervals(y: Any, bags: Bags) -> Intervals:
    """Check one number per bag, of which some are only known to lie in an interval.

    Parameters
    ----------
    y : Intervals, or array-like of shape (n_bags,)
        Intervals; numbers, which are exact; or strings, as for `Intervals.from_strings`.
    bags : Bags
        The bags they belong to.

    Returns
    -------
    Intervals
        None is empty or without a bound, and some are bounded below, some above.
    """
    if not isinstance(y, Intervals):
        column = _label_column(y)
        check_length(y, bags)
        if column.dtype.kind not in "OUST":
            return Intervals(*[check_numbers(column, bags)] * 2)
        cells = [None if is_missing(v) else v for v in column.tolist()]
        y = Intervals.from_strings(cells, name_of=bags.name_of)
    check_length(y, bags)
    ends = np.array([y.lower, y.upper])
    below, above = np.isfinite(ends)
    wrong = {
        "NaN as an end of its interval": np.isnan(ends).any(axis=0),
        "an interval whose lower end exceeds the upper one": y.lower > y.upper,
        "no number": ~(below | above),
        "a number whose square overflows": (np.isfinite(ends) & (abs(ends) > 1e100)).any(axis=0),
    }
    for reason, found in wrong.items():
        for i in np.flatnonzero(found)[:1]:
            raise LabelError(f"{bags.name_of(i)} has {reason} ({y.texts[i]}): leave it out.")
    if not (below.any() and above.any()):
        raise LabelError(
            f"all bags are censored on one side, such as {bags.name_of(0)} ({y.texts[0]}): some "
            "numbers must be known."
        )
    return y


def check_partial_labels(y: Any, n_rows: int, *, min_classes: int = 2) -> Labels:
    """Check one label per row, -1 if it is unknown.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        The labels, of any type that can be sorted. Among strings, -1 is the number, in a list or an
        object array.
    n_rows : int
        The number of rows.
    min_classes : int, default=2
        The number of distinct labels that the model needs.

    Returns
    -------
    Labels
        Of the kind "partial"; the classes are sorted.

    Examples
    --------
    >>> from bagwise.validation import check_partial_labels
    >>> check_partial_labels(["no", -1, "yes"], 3)
    Labels('partial', n=3, classes=['no', 'yes'], unknown=1)
    """
    column = _label_column(y)
    if len(column) != n_rows:
        raise LabelError(f"{len(column)} labels for {n_rows} rows: give one each, -1 if unknown.")
    for i in _first_missing(column):
        raise LabelError(f"{_absent(column[i], f'row {i}')} Mark unlabelled rows with -1.")
    known = ~_is_minus_one(column)
    if not known.any():
        raise LabelError(f"y labels none of the {n_rows} rows (all are -1): label some of them.")
    hint = " among the labelled rows"
    if not known.all():
        hint += ". -1 means unlabelled: a negative class is 0, as in np.where(y == -1, 0, y)"
    codes = np.full(n_rows, -1, dtype=np.int64)
    classes, codes[known] = _classes_of(column[known], min_classes, hint)
    return Labels("partial", classes, codes)


def check_label_sets(
    y: Any, bags: Bags, *, classes: Array | None = None, min_classes: int = 1, known: str = "whole"
) -> Labels:
    """Check a label set, or one label, per bag.

    Parameters
    ----------
    y : 0/1 array of shape (n_bags, n_classes), list of sets, LabelCounts, or one label per bag
        An array may be sparse; -1 means that a label is unknown. None in a list means that nothing
        is known about the bag. An empty set means that none of the labels is present.
    bags : Bags
        The bags they belong to.
    classes : ndarray, default=None
        The classes of a fitted model; None to learn them from `y`.
    min_classes : int, default=1
        The number of distinct labels that the model needs, if y is one label per bag.
    known : {"whole", "cells", "counts"}, default="whole"
        What the model can use of a bag: its whole label set; single labels, while others are
        unknown; or also numbers of instances.

    Returns
    -------
    Labels
        Of the kind "sets", "counts", or "single" if y is one label per bag.
    """
    labels = _label_sets(y, bags, classes, min_classes)
    if known != "counts" and labels.kind == "counts":
        counts = labels.as_counts
        for bag, k in np.argwhere(~counts.simple)[:1]:
            _refuse_labels(labels, bags.name_of(bag), k, f"a count ({counts.texts[bag][k]})")
    if known == "whole" and labels.has_sets:
        for bag in np.flatnonzero(~labels.whole)[:1]:
            k = int(np.argmin(labels.indicator[bag]))
            _refuse_labels(labels, bags.name_of(bag), k, "unknown")
    return labels


def _refuse_labels(labels: Labels, bag: str, k: int, what: str) -> None:
    raise LabelError(
        f"the label {labels.names[k]!r} of {bag} is {what}, and this needs to know of each bag "
        "which labels it has. annotation.ORedLogisticRegression (-m orlr) learns from counts and "
        "unknown labels; annotation.NoisyOrLogisticRegression (-m noisy-or) from unknown labels, "
        "and present (1 or more) for any count."
    )


def _label_sets(y: Any, bags: Bags, classes: Array | None, min_classes: int) -> Labels:
    if isinstance(y, LabelCounts):
        y = Labels.from_counts(check_length(y, bags), bags.sizes)
    if isinstance(y, Labels) and y.has_sets:
        check_length(y, bags)
        if classes is None or np.array_equal(classes, y.classes):
            return y
        for label in y.classes:
            check_label(label, classes)
        listed = classes.tolist()
        return y.aligned(listed, [str(label) for label in listed])
    listed = hasattr(y, "__len__") and not sparse.issparse(y)
    nothing_known = classes is not None and listed and all(labels is None for labels in y)
    if _is_list_of_sets(y) or nothing_known:
        return _from_sets(y, bags, classes)
    convertible = listed or hasattr(y, "__array__")
    try:
        array = np.asarray(y) if convertible and not hasattr(y, "ndim") else y
    except ValueError as error:
        raise LabelError(f"y has no table of label sets: {error}. Give a list of sets.") from error
    if sparse.issparse(y) or (getattr(array, "ndim", 0) == 2 and array.shape[1] > 1):
        check_length(array, bags)
        return Labels.from_indicator(array, classes, name_of=bags.name_of)
    labels = check_bag_labels(y, bags, min_classes=min_classes)
    if classes is None:
        strings = labels.classes.tolist() if labels.classes.dtype.kind == "U" else []
        for label in [v for v in strings if not v.strip() or ";" in v][:1]:
            several = "several labels, or none, are sets, as in [{'owl', 'wren'}, set()]."
            warn_user(f"{label!r} is read as one label: {several}", DataWarning)
        return labels
    columns = np.array([check_label(label, classes) for label in labels.classes])
    return Labels("single", classes, columns[labels.codes])


def check_known_labels(
    y: Any, bags: Bags, *, classes: Sequence[Any] = (), names: Sequence[str] = ()
) -> Labels | None:
    """Check the labels of bags on which a fitted model is evaluated.

    Parameters
    ----------
    y : None, Labels, one label per bag, 0/1 array, or list of sets
        The labels. The label of a bag may be unknown: None, -1 (unless -1 is a class of the model),
        or a row of -1.
    bags : Bags
        The bags they belong to.
    classes : sequence, default=()
        The classes of the model, which are the first classes of the result.
    names : sequence of str, default=()
        Their names.

    Returns
    -------
    Labels or None
        Of the kind "partial" or "sets"; None if no label is known.
    """
    refuse_masked(y, "the values of y")
    given = isinstance(y, Labels | LabelCounts)
    if y is None or (not given and all(label is None for label in y)):
        return None
    check_length(y, bags)
    if isinstance(y, Labels):
        labels = y
    elif isinstance(y, LabelCounts):
        labels = Labels.from_counts(y, bags.sizes)
    elif y.shape[1] == 1 if getattr(y, "ndim", 1) == 2 else not _has_sets(y):
        labels = Labels.from_values(np.asarray(y, dtype=object).ravel(), classes)
    else:
        labels = check_label_sets(y, bags, known="counts")
        if not isinstance(y, list | tuple) and len(classes) == len(labels.classes):
            labels = Labels("sets", classes, indicator=labels.indicator)  # the model's columns
    return labels.aligned(classes, names) if labels.known.any() else None


def check_instance_labels(
    values: Any, bags: Bags, label_sets: Labels, *, background: Any = None
) -> Labels | None:
    """Check the known labels of instances.

    Parameters
    ----------
    values : array-like of shape (n_instances,) or None
        The label of each instance; None if it is unknown, or -1 unless -1 is a class.
    bags : Bags
        The bags of the instances.
    label_sets : Labels
        The label sets of the bags. A known instance label must be in the label set of its bag.
    background : object, default=None
        The label of instances that have none of the classes; None without such instances.

    Returns
    -------
    Labels or None
        Of the kind "instances"; the background is the last class. None if no label is known.
    """
    if values is None:
        return None
    refuse_masked(values, "instance_labels")
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    if len(listed) != bags.n_instances:
        raise LabelError(
            f"instance_labels has {len(listed)} entries for {bags.n_instances} instances: give one "
            "per instance, None (or -1) where it is unknown."
        )
    classes = label_sets.classes.tolist()
    n_classes = len(classes)
    if background not in (None, -1):
        classes.append(background)
    position = {label: code for code, label in enumerate(classes)}
    codes = np.array([_code_of(label, position) for label in listed], dtype=np.int64)
    known = np.flatnonzero(codes != -1)
    if not len(known):
        return None
    sets = label_sets.indicator[bags.bag_index[known]]
    column = np.clip(codes[known], 0, n_classes - 1)
    carried = (sets[np.arange(len(known)), column] != 0) | (codes[known] == n_classes)
    for i in known[(codes[known] == NO_CLASS) | ~carried][:1]:
        bag = bags.bag_index[i]
        allowed = label_sets.classes[label_sets.indicator[bag] == 1]
        kind, reason = "label", ", which is not in the label set of its bag"
        if codes[i] == NO_CLASS:
            kind, reason, allowed = "unknown label", "", np.array(classes, dtype=object)
        raise LabelError(
            f"instance {i - bags.offsets[bag]} of {bags.name_of(bag)} is given the {kind} "
            f"{listed[i]!r}{reason}: choose from {short_list(allowed)}."
        )
    return Labels("instances", classes, codes)


def check_label(label: Any, classes: Array) -> int:
    """Find a label among the classes of a fitted model.

    Parameters
    ----------
    label : object
        A class label.
    classes : ndarray of shape (n_classes,)
        The classes of the model.

    Returns
    -------
    int
        Its position in `classes`.
    """
    label = label.item() if isinstance(label, np.generic) else label
    found = [i for i, known in enumerate(classes) if known == label]
    if not found:
        raise LabelError(f"the model has no label {label!r}: its classes: {short_list(classes)}.")
    return found[0]


def check_length(y: Any, bags: Bags) -> Any:
    """Check that there is one label per bag, and that an index of ids has the order of the bags.

    Parameters
    ----------
    y : array, sequence, or Series or frame of pandas
        A label, or another value, per bag.
    bags : Bags
        The bags they belong to.

    Returns
    -------
    y
        Unchanged.
    """
    n = y.shape[0] if hasattr(y, "shape") else len(y if hasattr(y, "__len__") else np.array(y))
    if n != len(bags):
        single = len(bags) == bags.n_instances
        hint = " Here each bag has one row: see Bags.from_groups." if single else ""
        raise LabelError(f"y has {n} labels for {len(bags)} bags: give one per bag.{hint}")
    if hasattr(y, "iloc"):
        refuse_other_order(y, bags.ids)
    return y


def check_groups(groups: Any, bags: Bags) -> Bags:
    """Check one group per bag, such as the patient of a slide: those given, or those of the bags.

    Parameters
    ----------
    groups : array-like of shape (n_bags,) or None
        The groups: values of one type that can be sorted, none missing. By default those of `bags`.
    bags : Bags
        The bags they belong to.

    Returns
    -------
    Bags
        The bags with these groups; without, if neither has groups.
    """
    if groups is None and bags._group is None:
        return bags
    own = bags.groups
    groups = own if groups is None else groups
    listed = isinstance(groups, list | tuple)  # NumPy would turn NaN among strings into "nan"
    refuse_masked(groups, "groups")
    refuse_other_order(groups, bags.ids, "groups")
    column = plain_array(groups) if listed else np.asarray(groups)
    if column.shape != (len(bags),):
        raise InputError(f"groups has shape {column.shape} for {len(bags)} bags: give one each.")
    for i in np.flatnonzero([is_missing(group) for group in column])[:1]:
        raise InputError(f"{bags.name_of(i)} has no group ({column[i]}): give it its own.")
    if own is None:
        return bags.with_columns(bags.columns, groups=column)
    for i, (ours, given) in enumerate(zip(own.tolist(), column.tolist(), strict=True)):
        if ours != given:
            raise InputError(
                f"groups= has {given!r} for {bags.name_of(i)}, which has the group {ours!r} itself "
                f"(column {bags.group_name!r}): leave out groups=, or change the groups of the "
                "bags with bags.with_columns(bags.columns, groups=...)."
            )
    return bags


def check_sample_weight(sample_weight: Any, bags: Bags) -> Floats:
    """Validate one weight per bag.

    Parameters
    ----------
    sample_weight : array-like of shape (n_bags,), a number or None
        The weights; None for 1 each.
    bags : Bags
        The bags they belong to.

    Returns
    -------
    ndarray of shape (n_bags,)
        Finite, nowhere negative, not all zero.
    """
    from bagwise._common.sklearn import _check_sample_weight

    refuse_masked(sample_weight, "the sample_weight")
    refuse_other_order(sample_weight, bags.ids, "sample_weight")
    try:
        weights = _check_sample_weight(sample_weight, np.empty(len(bags)), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight cannot be used: {error}") from error
    for i in np.flatnonzero((weights < 0) | (weights > LARGEST_WEIGHT))[:1]:
        raise InputError(
            f"sample_weight of {bags.name_of(i)} is {weights[i]:.3g}: weights must not be negative "
            f"(negative values in data passed), nor exceed {LARGEST_WEIGHT:.0e}."
        )
    if weights.max(initial=0) * LARGEST_WEIGHT < 1:
        raise InputError(f"all sample_weight are below {1 / LARGEST_WEIGHT:.0e}: multiply them.")
    return weights


def _label_column(y: Any) -> Array:
    refuse_masked(y, "the values of y")
    if y is None:
        raise LabelError("this estimator requires y to be passed, but the target y is None.")
    if _is_list_of_sets(y) and _has_sets(y, set | frozenset | list):
        raise LabelError(
            "y contains label sets, and this model learns from one label per bag: use CitationKNN, "
            "ClassToBag or bagwise.annotation, or OneVsRestClassifier on a 0/1 array."
        )
    if isinstance(y, list | tuple) and (
        any(isinstance(label, tuple) for label in y)
        or len({isinstance(label, str) for label in y}) > 1
    ):  # numpy would convert tuples to rows, and numbers to strings
        column = np.empty(len(y), dtype=object)
        column[:] = y
        return column
    if isinstance(y, LabelCounts):
        raise LabelError(
            "y has counts of labels, and this model learns from one label per bag: use "
            "annotation.ORedLogisticRegression."
        )
    if isinstance(y, Intervals):
        raise LabelError(
            f"y has intervals, such as {y.texts[0]}: use regression.CensoredBagRegressor(model)."
        )
    if isinstance(y, list | tuple) or getattr(y, "dtype", None) == np.dtype(object):
        refuse_nul(y)
    from sklearn.utils.validation import column_or_1d

    try:
        column = column_or_1d(y)
    except (TypeError, ValueError) as error:
        raise LabelError(f"{error} Give one label per bag.") from error
    if np.asarray(y).ndim == 2:
        from sklearn.exceptions import DataConversionWarning

        warn_user(
            "A column-vector y was passed when a 1d array was expected: use y.ravel().",
            DataConversionWarning,
        )
    return column


def _classes_of(labels: Array, min_classes: int, hint: str = "") -> tuple[Array, Ints]:
    """Return the distinct labels, sorted, and the position of each label among them."""
    from sklearn.utils.multiclass import check_classification_targets

    try:
        if labels.dtype != object:  # scikit-learn does not accept tuples as labels
            check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
    except ValueError as error:
        raise LabelError(str(error)) from error
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels})
        unknown = any(type(label) is int and label == -1 for label in labels.tolist())
        remedy = "leave unknown ones (-1) out, as in bags[y != -1]" if unknown else "give one type"
        raise LabelError(f"y mixes labels of the types {kinds}: {remedy}.") from error
    if len(classes) < min_classes:
        raise LabelError(
            f"y has one class, {classes.tolist()[0]!r}; at least {min_classes} are required{hint}."
        )
    return classes, codes


def _first_missing(column: Array) -> list[int]:
    """Position of the first label that is NaN or infinite; empty if there is none."""
    if column.dtype.kind not in ("f", "O"):
        return []
    gone = ~np.isfinite(column) if column.dtype.kind == "f" else [is_missing(v) for v in column]
    return np.flatnonzero(gone)[:1].tolist()


def _absent(value: Any, owner: str, kind: str = "label") -> str:
    """Begin the error about a label, or a number, that is missing or infinite."""
    if is_missing(value):
        return f"Input y contains NaN: {owner} has no {kind} ({value})."
    return f"Input y contains infinity: the {kind} of {owner} is infinite ({value})."


def _is_minus_one(column: Array) -> Bools:
    """Mask of the unlabelled rows, whose label is -1."""
    if column.dtype.kind in "US" and (column == "-1").any():
        raise LabelError(
            "y contains the string '-1': unlabelled rows have the number -1 (list, object array)."
        )
    if column.dtype == object:  # one by one: numpy would compare a tuple as an array
        return np.array([is_unlabelled(label) for label in column], dtype=bool)
    return column == -1


def _code_of(label: Any, position: dict[Any, int]) -> int:
    try:
        return -1 if is_unlabelled(label, position) else position.get(label, NO_CLASS)
    except TypeError:  # a list, which cannot be a label
        return NO_CLASS


def _has_sets(y: Any, kinds: Any = set | frozenset | list | tuple) -> bool:
    return any(isinstance(labels, kinds) for labels in y)


def _is_list_of_sets(y: Any) -> bool:
    if not isinstance(y, list | tuple) and getattr(y, "dtype", None) != np.dtype(object):
        return False
    if getattr(y, "ndim", 1) != 1:
        return False
    if _has_sets(y, set | frozenset):
        return True
    known = [labels for labels in y if labels is not None]
    if not known or not all(isinstance(labels, list | tuple) for labels in known):
        return False
    words = all(isinstance(label, str) for labels in known for label in labels)
    return words or len({len(labels) for labels in known}) > 1


def _from_sets(y: Sequence[Any], bags: Bags, classes: Array | None) -> Labels:
    check_length(y, bags)
    if classes is None:
        members = set().union(*(labels for labels in y if labels is not None))
        if not members:
            raise LabelError("the label sets are all empty: at least one bag needs a label.")
        classes = plain_array(sorted_labels(members))
    return Labels.from_sets(y, classes, name_of=bags.name_of)
