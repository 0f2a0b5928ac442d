"""The values of a table: finite, and neither so large nor so small that squares are lost."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn import get_config

from bagwise.bags import Bags
from bagwise.engines.arrays import extremes
from bagwise.engines.mapped import is_mapped
from bagwise.exceptions import InputError

# Fourth powers (products of squared norms) stay within float64.
VALUE_RANGE = (1e-70, 1e70)
# The same in float32; a table in memory that is outside becomes float64.
SINGLE_RANGE = (1e-9, 1e9)
# Squares stay within float32: for float32 tables that are not converted (mapped, on a device).
SINGLE_SQUARES = (1e-18, 1e18)
# A feature whose values lie this many times its range away from 0 is computed in float64.
FARTHEST = 100.0
SAMPLE = 5000  # rows
BLOCK = 2**17  # values that stay in the cache between the two passes over them


def check_values(
    bags: Bags, value_range: tuple[float, float], *, fitting: bool, convert: bool = True
) -> Bags:
    """Refuse NaN, infinity, and magnitudes with which a model cannot compute.

    Parameters
    ----------
    bags : Bags
        Bags of floats: arrays, CSR or a tensor.
    value_range : tuple of two floats
        The largest magnitude must be 0 or lie between the two.
    fitting : bool
        Whether a model learns from them: bags that only have small values are refused then, and
        pass where a fitted model predicts.
    convert : bool, default=True
        Whether float32 in memory may become float64.

    Returns
    -------
    Bags
        The same; float32 in memory that needs it is float64.
    """
    if get_config()["assume_finite"]:
        return bags
    table = bags.instances
    low, high = extremes(table)
    largest = max(-low, high)
    if not np.isfinite(largest):
        raise _not_finite(bags.to("numpy"))
    smallest_allowed, largest_allowed = value_range
    if str(table.dtype).endswith("float32") and largest > 0 and value_range == VALUE_RANGE:
        converted = convert and not is_mapped(table)
        within = SINGLE_RANGE[0] <= largest <= SINGLE_RANGE[1]
        if converted and not (within and (not fitting or _keeps_digits(table))):
            bags = bags.with_instances(table.astype(np.float64), feature_names=bags.feature_names)
        elif not converted:
            smallest_allowed, largest_allowed = SINGLE_SQUARES
    if largest > largest_allowed:
        raise _too_large(bags.to("numpy"), largest_allowed)
    if fitting and 0 < largest < smallest_allowed:
        place = _place(bags.to("numpy"), largest)
        raise InputError(
            f"the largest magnitude in X is {largest:.3g}: {place}. Squares of numbers "
            f"below {smallest_allowed:.0e} are lost: multiply the features by a constant first."
        )
    return bags


def _keeps_digits(table: Any) -> bool:
    """Whether every feature of a float32 table varies by much of its magnitude.

    Sums of squares of values far from 0 lose the digits in which they differ.
    """
    if sparse.issparse(table):
        return True
    # A sample that varies enough decides; one that does not may have missed the rest.
    if _varies(table[:: 1 + len(table) // SAMPLE]).all():
        return True
    return bool((_varies(table) | (np.ptp(table, axis=0) == 0)).all())


def _varies(rows: Any) -> Any:
    """Which features differ by much of their magnitude, or are 0."""
    low, high = rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)
    return (np.abs(low) < FARTHEST * (high - low)) | ((low == 0) & (high == 0))


def _not_finite(bags: Bags) -> InputError:
    row, column, value = _first(bags.instances, lambda values: ~np.isfinite(values))
    kind = "NaN" if np.isnan(value) else "infinity"
    return InputError(
        f"Input X contains {kind}: {_name(bags, row, column)}. Leave the instance out, or fill the "
        "gaps with InstanceTransformer(SimpleImputer()) in a pipeline."
    )


def _too_large(bags: Bags, limit: float) -> InputError:
    row, column, value = _first(bags.instances, lambda values: np.abs(values) > limit)
    values = bags.instances.data if sparse.issparse(bags.instances) else bags.instances
    share = np.count_nonzero(np.abs(values) > limit) / values.size
    if share < 0.01:
        remedy = "Check whether that value is an error"
    else:
        remedy = "Divide the feature by a constant"
    return InputError(
        f"the value {value:.3g} is too large to compute with (squares of numbers above "
        f"{limit:.0e} overflow): {_name(bags, row, column)}. {remedy}; "
        "InstanceTransformer(MaxAbsScaler()) in a pipeline scales each feature to at most 1."
    )


def _place(bags: Bags, magnitude: float) -> str:
    row, column, _ = _first(bags.instances, lambda values: np.abs(values) == magnitude)
    return _name(bags, row, column)


def _first(table: Any, is_wrong: Any) -> tuple[int, int, float]:
    """Row, column and value of the first entry that is wrong."""
    if sparse.issparse(table):
        entry = np.flatnonzero(is_wrong(table.data))[0]
        row = int(np.searchsorted(table.indptr, entry, side="right")) - 1
        return row, int(table.indices[entry]), table.data[entry]
    row = next(i for i in range(len(table)) if is_wrong(table[i]).any())
    column = int(np.flatnonzero(is_wrong(table[row]))[0])
    return row, column, table[row, column]


def _name(bags: Bags, row: int, column: int) -> str:
    bag = int(np.searchsorted(bags.offsets, row, side="right")) - 1
    names = bags.feature_names
    feature = f"feature {column}" if names is None else f"feature {column} ({names[column]!r})"
    return f"{bags.name_of(bag)}, instance {row - bags.offsets[bag]}, {feature}"
