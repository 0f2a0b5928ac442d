"""Conversion of labels before metrics compare them."""

import numpy as np
from numpy.typing import ArrayLike

from bagwise._types import Array
from bagwise.exceptions import LabelError


def as_labels(values: ArrayLike, name: str) -> Array:
    """Convert labels to a 1-D array of integers or strings."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as cause:
        raise LabelError(f"{name} is not a list of labels: {cause}") from cause
    if array.ndim != 1:
        raise LabelError(f"{name} has shape {array.shape}: expected one label per instance, 1-D.")
    if array.dtype.kind == "O":
        array = _from_objects(array)
    # Float labels are accepted if they are exact integers.
    whole = array.dtype.kind == "f" and np.all((array == np.round(array)) & (abs(array) < 2**53))
    if whole or array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return array
    raise LabelError(
        f"{name} has type {array.dtype}: expected labels, as whole numbers or strings (-1 where "
        "unknown)."
    )


def _from_objects(labels: Array) -> Array:
    """Convert Python objects to integers, or to strings; the integer -1 becomes "-1" (unknown)."""
    integers = [isinstance(v, int | np.integer) for v in labels]
    if all(integers) and all(abs(int(v)) < 2**63 for v in labels):
        return labels.astype(np.int64)
    if all(isinstance(v, str) or (i and v == -1) for v, i in zip(labels, integers, strict=True)):
        return labels.astype(str)
    return labels


def kind_of(labels: Array) -> str:
    """Name the type of the labels for an error message."""
    return "strings" if labels.dtype.kind == "U" else "integers"
