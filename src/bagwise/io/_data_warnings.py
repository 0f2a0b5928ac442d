"""Probable mistakes in a file: ids and labels among the features, labels that look alike."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise._common.warnings import warn_user
from bagwise.bags import Bags
from bagwise.compute import readable_table
from bagwise.exceptions import DataWarning
from bagwise.io._contents import Contents
from bagwise.io._files import listed

CHANCE = 1e-6  # largest probability that a reported feature is constant within bags by chance
FIRST, LARGEST = 256, 2**22  # values compared at a time: in the first step, and at most

_SEPARATORS = (",", ";", "|", "/", "+")  # between the labels of a set
_ID = re.compile(r"(?i:(.*[\W_])?(id|ids|idx|index|uid|uuid)|unnamed: 0)|.*[a-z](ID|Id|Index)")


def is_id_name(name: str) -> bool:
    """Whether a column has a typical name of ids or row numbers.

    Examples
    --------
    >>> from bagwise.io._data_warnings import is_id_name
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
    values = _dense(instances[first][:, left]).astype(float) if len(left) else np.zeros((0, 0))
    pairs = zip(left.tolist(), values.T, strict=True)
    return [j for j, column in pairs if _chance(column, sizes[several]) < CHANCE]


def _are_equal(instances: Any, rows: Ints, others: Ints, columns: Ints) -> Bools:
    """Which columns have equal values (or none) in all pairs of rows."""
    equal = np.ones(len(columns), dtype=bool)
    start, n_values = 0, FIRST
    while start < len(rows) and equal.any():
        stop = start + max(1, n_values // len(columns))
        one, other = (_dense(instances[which[start:stop]][:, columns]) for which in (rows, others))
        equal &= ((one == other) | ((one != one) & (other != other))).all(axis=0)
        start, n_values = stop, min(LARGEST, 4 * n_values)
    return equal


def _dense(rows: Any) -> Array:
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)


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
        "metadata are. Leave such columns out with exclude=[...], keep them beside the results "
        "with meta=[...], or name the feature columns with features=[...]."
    )


def warn_of_labels(contents: Contents) -> None:
    """Warn about labels and ids that are probably typing errors, unknown, or several labels."""
    labels, classes, ids = contents.labels, contents.classes, contents.bags.ids
    if labels is not None:
        _warn_of_near(labels.classes, "labels", str.casefold)
        if labels.classes.dtype.kind == "i" and len(labels.classes) > 2 and -1 in labels.classes:
            warn_user(
                f"{labels.counts[0]} of {len(labels)} bags have the label -1, which is read as a "
                "label like the others. If it means that the label is unknown, leave these cells "
                "empty.",
                DataWarning,
            )
    if classes is not None:
        _warn_of_near(classes, "classes", str.casefold)
        if contents.label_sets is not None:
            _warn_of_separators([label for label in classes.tolist() if isinstance(label, str)])
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


def _warn_of_separators(labels: list[str]) -> None:
    """Warn about labels such as "owl, robin" if their parts also occur in other labels."""
    for separator in _SEPARATORS:
        parts = {label: {part.strip() for part in label.split(separator)} for label in labels}
        n_labels = Counter(part for own in parts.values() for part in own)
        joined = [
            label
            for label, own in parts.items()
            if len(own) > 1 and "" not in own and all(n_labels[part] > 1 for part in own)
        ]
        if joined:
            warn_user(
                f"{len(joined)} labels contain {separator!r}, such as {joined[0]!r}: each is read "
                f"as one label. If they list several, set separator={separator!r}.",
                DataWarning,
            )
            return
