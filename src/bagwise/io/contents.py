"""What a file of bags holds: the bags and everything known about them, checked for agreement."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import Bunch

from bagwise.bags import Bags
from bagwise.exceptions import InputError, LabelError

__all__ = ["Contents", "check_contents", "plain_array", "sorted_labels"]

_PADDED = 2**22  # characters that texts may take when padded, whatever their lengths


@dataclass
class Contents:
    """Bags with their labels, in the forms that `read_bags` returns."""

    bags: Bags
    y: NDArray[Any] | None = None
    label_sets: NDArray[Any] | None = None
    instance_labels: NDArray[Any] | None = None
    classes: NDArray[Any] | None = None
    coords: NDArray[Any] | None = None
    extras: dict[str, NDArray[Any]] = field(default_factory=dict)

    def to_bunch(self) -> Bunch:
        """The same as scikit-learn's own data sets come."""
        return Bunch(
            bags=self.bags,
            y=self.y,
            label_sets=self.label_sets,
            instance_labels=self.instance_labels,
            classes=self.classes,
            feature_names=self.bags.feature_names,
            coords=self.coords,
            extras=self.extras,
        )


def check_contents(
    bags: Any,
    *,
    y: ArrayLike | None = None,
    label_sets: Any = None,
    instance_labels: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    coords: ArrayLike | None = None,
    extras: Mapping[str, ArrayLike] | None = None,
) -> Contents:
    """Check that labels of every kind fit the bags, and bring them into one form."""
    bags = bags if isinstance(bags, Bags) else Bags.from_arrays(bags)
    _refuse_namesakes(bags)
    names = None if classes is None else _classes(classes)
    sets = None
    if label_sets is not None:
        sets, names = indicator(label_sets, names, bags)
    return Contents(
        bags,
        None if y is None else _bag_labels(y, len(bags)),
        sets,
        None if instance_labels is None else _instance_labels(instance_labels, names, bags),
        names,
        None if coords is None else _coords(coords, bags),
        {name: np.asarray(values) for name, values in (extras or {}).items()},
    )


def _refuse_namesakes(bags: Bags) -> None:
    """Labels, predictions and review decisions are kept by the id of a bag, as it is written."""
    if bags.ids is None:
        return
    place: dict[str, int] = {}
    for i, name in enumerate(bags.ids.tolist()):
        first = place.setdefault(str(name), i)
        if first != i:
            raise InputError(
                f"{bags.name_of(first)} and {bags.name_of(i)} have ids that are written the same, "
                "and labels, predictions and review decisions are matched by the written id: give "
                "each bag its own id, or leave the ids out."
            )


def plain_array(values: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """Values as a 1-D array: bool, int, float or str when all are of that type, else object.

    NumPy pads texts to the longest: where that would take far more memory than the texts, they
    stay Python objects.
    """
    array = values if isinstance(values, np.ndarray) else np.empty(len(values), dtype=object)
    if array is not values:
        array[:] = values
    if array.dtype != object:
        return array
    items = [v.item() if isinstance(v, np.generic) else v for v in array]
    kinds = {type(v) for v in items}
    if len(kinds) != 1 or not kinds <= {bool, int, float, str}:
        return array
    if kinds == {str} and _padding_is_large([len(text) for text in items]):
        return array
    return np.array(items)


def _padding_is_large(lengths: Sequence[int]) -> bool:
    padded = max(lengths) * len(lengths)
    return padded > _PADDED and padded > 8 * sum(lengths)


def sorted_labels(labels: Collection[Any]) -> list[Any]:
    """Labels in order; of several types, each type in order."""
    return sorted(set(labels), key=lambda label: (type(label).__name__, label))


def indicator(
    label_sets: Any, classes: NDArray[Any] | None, bags: Bags
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """A 0/1 array of label sets (rows of -1: nothing known), from an array or a list of sets."""
    if sparse.issparse(label_sets):
        label_sets = label_sets.toarray()
    if hasattr(label_sets, "ndim"):
        return _checked_indicator(np.asarray(label_sets), classes, len(bags)), classes
    sets = list(label_sets)
    if len(sets) != len(bags):
        raise LabelError(f"{len(sets)} label sets were given for {len(bags)} bags: give one each.")
    odd = [i for i, s in enumerate(sets) if not (s is None or _is_set(s))]
    if odd:
        raise LabelError(
            f"the label set of {bags.name_of(odd[0])} is {sets[odd[0]]!r}: expected a set of "
            "labels, or None when nothing is known."
        )
    known = {_python(label) for s in sets if s is not None for label in s}
    if classes is None:
        classes = plain_array(sorted_labels(known))
    position = {_python(label): k for k, label in enumerate(classes)}
    rows = np.zeros((len(sets), len(classes)), dtype=np.int8)
    for i, labels in enumerate(sets):
        if labels is None:
            rows[i] = -1
            continue
        for label in labels:
            if _python(label) not in position:
                raise LabelError(
                    f"{bags.name_of(i)} has the label {label!r}, which is not among the classes "
                    f"{list(position)}."
                )
            rows[i, position[_python(label)]] = 1
    return _smallest(rows), classes


def _checked_indicator(
    array: NDArray[Any], classes: NDArray[Any] | None, n_bags: int
) -> NDArray[Any]:
    n_classes = array.shape[-1] if classes is None else len(classes)
    if array.shape != (n_bags, n_classes):
        raise LabelError(
            f"label_sets has shape {array.shape}: expected ({n_bags}, {n_classes}), a row per bag "
            "and a column per class."
        )
    if array.dtype.kind not in "iubf" or not np.isin(array, (-1, 0, 1)).all():
        raise LabelError("label_sets has values other than 0, 1 and -1 (nothing known).")
    unknown = array == -1
    if np.any(unknown.any(axis=1) != unknown.all(axis=1)):
        row = np.flatnonzero(unknown.any(axis=1) != unknown.all(axis=1))[0]
        raise LabelError(
            f"row {row} of label_sets has -1 beside 0 or 1: -1 stands for the whole row, when "
            "nothing is known about the bag."
        )
    return _smallest(array)


def _smallest(rows: NDArray[Any]) -> NDArray[Any]:
    # 0/1 is uint8 as in every data set; -1 needs a sign.
    return rows.astype(np.int8 if (rows == -1).any() else np.uint8)


def _classes(classes: ArrayLike) -> NDArray[Any]:
    names = plain_array(classes if isinstance(classes, np.ndarray) else list(classes))  # type: ignore[arg-type]
    if names.ndim != 1 or len({_python(name) for name in names}) != len(names):
        raise LabelError(f"classes must be a list of distinct labels, got {names.tolist()}.")
    return names


def _bag_labels(y: ArrayLike, n_bags: int) -> NDArray[Any]:
    labels = plain_array(y if isinstance(y, np.ndarray) else list(y))  # type: ignore[arg-type]
    if labels.shape != (n_bags,):
        hint = " Several labels per bag go into label_sets." if labels.ndim == 2 else ""
        raise LabelError(
            f"y has shape {labels.shape} for {n_bags} bags: give one label per bag.{hint}"
        )
    return labels


def _instance_labels(
    labels: ArrayLike, classes: NDArray[Any] | None, bags: Bags
) -> NDArray[np.integer[Any]]:
    array = np.asarray(labels)
    if array.dtype == bool:
        array = array.astype(np.int64)
    if array.shape != (bags.n_instances,):
        raise LabelError(
            f"instance_labels has shape {array.shape} for {bags.n_instances} instances: give one "
            "each, -1 where unknown."
        )
    if array.dtype.kind not in "iu":
        raise LabelError(
            f"instance_labels has type {array.dtype}: expected integers, indices into classes, -1 "
            "where unknown."
        )
    if classes is not None and array.size and not (-1 <= array.min() <= array.max() < len(classes)):
        raise LabelError(
            f"instance_labels go from {array.min()} to {array.max()}: expected indices into the "
            f"{len(classes)} classes, -1 where unknown."
        )
    return array


def _coords(coords: ArrayLike, bags: Bags) -> NDArray[Any]:
    array = np.asarray(coords)
    if array.ndim == 0 or array.shape[0] != bags.n_instances:
        raise InputError(
            f"coords has shape {array.shape} for {bags.n_instances} instances: give one row each."
        )
    return array


def _is_set(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes)


def _python(label: Any) -> Hashable:
    return label.item() if isinstance(label, np.generic) else label
