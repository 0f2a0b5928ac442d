"""The contents of a file: bags and labels, checked for consistency."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch

from bagwise.bags import Bags
from bagwise.exceptions import InputError, LabelError
from bagwise.labels import Labels, plain_array


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
    extras : dict of str to ndarray
        Other arrays of an npz file.
    groups : ndarray of shape (n_bags,) or None
        The group of each bag.
    columns : dict of str to list
        Further columns of a table as strings, in the order of the instances.
    """

    bags: Bags
    labels: Labels | None = None
    label_sets: Labels | None = None
    instance_labels: NDArray[Any] | None = None
    classes: NDArray[Any] | None = None
    coords: NDArray[Any] | None = None
    extras: dict[str, NDArray[Any]] = field(default_factory=dict)
    groups: NDArray[Any] | None = None
    columns: dict[str, list[Any]] = field(default_factory=dict)

    def to_bunch(self) -> Bunch:
        """Return the contents in the form of scikit-learn's data sets."""
        sets = self.label_sets
        if sets is not None:  # uint8 for 0/1, as in every data set; -1 needs a signed type
            indicator = sets.indicator.astype(np.uint8 if sets.known.all() else np.int8)
        return Bunch(
            bags=self.bags,
            y=None if self.labels is None else self.labels.values,
            label_sets=None if sets is None else indicator,
            instance_labels=self.instance_labels,
            classes=self.classes,
            feature_names=self.bags.feature_names,
            coords=self.coords,
            extras=self.extras,
        )


def check_contents(
    bags: Any,
    *,
    y: Any = None,
    label_sets: Any = None,
    instance_labels: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    coords: ArrayLike | None = None,
    extras: Mapping[str, ArrayLike] | None = None,
) -> Contents:
    """Check that all labels match the bags, and convert them to one form."""
    bags = bags if isinstance(bags, Bags) else Bags.from_arrays(bags)
    _refuse_namesakes(bags)
    names = None if classes is None else _classes(classes)
    sets = None if label_sets is None else _label_sets(label_sets, names, bags)
    if sets is not None and names is None and not hasattr(label_sets, "ndim"):
        names = sets.classes
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
    """Refuse ids that are equal as strings: labels and predictions are matched by them."""
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


def _label_sets(label_sets: Any, classes: NDArray[Any] | None, bags: Bags) -> Labels:
    """Label sets from a 0/1 array or a list of sets."""
    if isinstance(label_sets, Labels):
        return label_sets
    is_array = hasattr(label_sets, "ndim")
    sets: Any = label_sets if is_array else list(label_sets)
    n_sets = sets.shape[0] if is_array else len(sets)
    if n_sets != len(bags):
        raise LabelError(f"{n_sets} label sets were given for {len(bags)} bags: give one each.")
    if is_array:
        return Labels.from_indicator(sets, classes, name_of=bags.name_of)
    for i, labels in enumerate(sets):
        is_set = isinstance(labels, Collection) and not isinstance(labels, str | bytes)
        if labels is not None and not is_set:
            raise LabelError(
                f"the label set of {bags.name_of(i)} is {labels!r}: expected a set of labels, or "
                "None when nothing is known."
            )
    return Labels.from_sets(sets, classes, name_of=bags.name_of)


def _classes(classes: ArrayLike) -> NDArray[Any]:
    names = plain_array(classes if isinstance(classes, np.ndarray) else list(classes))  # type: ignore[arg-type]
    if names.ndim != 1 or len(set(names.tolist())) != len(names):
        raise LabelError(f"classes must be a list of distinct labels, got {names.tolist()}.")
    return names


def _bag_labels(y: Any, n_bags: int) -> Labels:
    if isinstance(y, Labels):
        return y
    labels = plain_array(y if isinstance(y, np.ndarray) else list(y))
    if labels.shape != (n_bags,):
        hint = " Several labels per bag go into label_sets." if labels.ndim == 2 else ""
        raise LabelError(
            f"y has shape {labels.shape} for {n_bags} bags: give one label per bag.{hint}"
        )
    return Labels.from_values(labels)


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
