"""Parameter checks for generated data sets."""

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise._common.types import Ints
from bagwise.exceptions import InputError


def check_count(value: Any, name: str, at_least: int = 1) -> int:
    """Return `value` as an int, or raise an error with the expected range."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < at_least:
        raise InputError(f"{name} is {value!r}: expected a whole number of at least {at_least}.")
    return int(value)


def check_number(value: Any, name: str, low: float = 0.0, high: float = np.inf) -> float:
    """Return `value` as a float between `low` and `high`, or raise an error."""
    if not isinstance(value, numbers.Real) or not low <= float(value) <= high or value == np.inf:
        raise InputError(f"{name} is {value!r}: expected a number from {low:g} to {high:g}.")
    return float(value)


def indicator(bag: Ints, label: Ints, shape: tuple[int, int]) -> NDArray[np.uint8]:
    """Return the 0/1 array (n_bags, n_classes) of label sets from pairs of a bag and a label."""
    label_sets = np.zeros(shape, dtype=np.uint8)
    label_sets[bag, label] = 1
    return label_sets
