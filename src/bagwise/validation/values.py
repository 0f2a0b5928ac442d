"""Validation of values: finite, and within a range in which squares neither over- nor underflow."""

import weakref
from typing import Any

import numpy as np
from sklearn import get_config

from bagwise.bags import Bags
from bagwise.compute import in_blocks, row_blocks
from bagwise.compute.arrays import extremes
from bagwise.compute.mapped import release_pages
from bagwise.exceptions import InputError

# Fourth powers (products of squared norms) stay within float64.
VALUE_RANGE = (1e-70, 1e70)
# The same range for float32; a table in memory with values outside becomes float64.
SINGLE_RANGE = (1e-9, 1e9)
# Squares stay within float32: for float32 tables that are not converted (mapped, on a device).
SINGLE_SQUARES = (1e-18, 1e18)
# A feature whose distance from 0 exceeds this multiple of its range is computed in float64.
FARTHEST = 100.0
SAMPLE = 5000  # rows
_KNOWN: dict[int, tuple[float, float]] = {}  # smallest and largest value of mapped tables, by id


def check_values(
    bags: Bags,
    value_range: tuple[float, float],
    *,
    fitting: bool,
    convert: bool = True,
    rows: bool = False,
    allow_nan: bool = False,
) -> Bags:
    """Reject NaN, infinity, and magnitudes outside the range of a model.

    Parameters
    ----------
    bags : Bags
        Bags of floats: arrays, CSR or a tensor.
    value_range : tuple of two floats
        The largest magnitude must be 0 or lie between the two.
    fitting : bool
        Whether a model is fitted: bags with only tiny values are then rejected; in a prediction
        they are accepted.
    convert : bool, default=True
        Whether float32 in memory may become float64.
    rows : bool, default=False
        Whether the bags are plain rows, for the messages.
    allow_nan : bool, default=False
        Whether bags with missing values are returned unchanged.

    Returns
    -------
    Bags
        The same bags; float32 in memory is converted to float64 if necessary.
    """
    if get_config()["assume_finite"]:
        return bags
    low, high = _extremes(bags)
    largest = max(-low, high)
    if allow_nan and not np.isfinite(largest):
        return bags
    unit, step = ("row", "{}") if rows else ("instance", "InstanceTransformer({})")
    if not np.isfinite(largest):
        value, place = _first(bags, lambda values: ~np.isfinite(values), rows)
        kind = "NaN" if np.isnan(value) else "infinity"
        raise InputError(
            f"Input X contains {kind}: {place}. Leave the {unit} out or replace the value; for all "
            f"NaN, fill the gaps with {step.format('SimpleImputer()')} in a pipeline."
        )
    smallest_allowed, largest_allowed = value_range
    if str(bags.dtype).endswith("float32") and largest > 0 and value_range == VALUE_RANGE:
        converted = convert and not bags.is_mapped
        within = SINGLE_RANGE[0] <= largest <= SINGLE_RANGE[1]
        if converted and not (within and (not fitting or _keeps_digits(bags))):
            table = bags.instances.astype(np.float64)
            bags = bags.with_instances(table, feature_names=bags.feature_names)
        elif not converted:
            smallest_allowed, largest_allowed = SINGLE_SQUARES
    if largest > largest_allowed:
        value, place = _first(bags, lambda values: np.abs(values) > largest_allowed, rows)
        raise InputError(
            f"the value {value:.3g} is too large to compute with (squares of numbers above "
            f"{largest_allowed:.0e} overflow): {place}. Correct it, or scale the features by "
            f"{step.format('MaxAbsScaler()')} in a pipeline."
        )
    if fitting and 0 < largest < smallest_allowed:
        _, place = _first(bags, lambda values: np.abs(values) == largest, rows)
        raise InputError(
            f"the largest magnitude in X is {largest:.3g}: {place}. Squares of numbers "
            f"below {smallest_allowed:.0e} are lost: multiply the features by a constant first."
        )
    return bags


def _extremes(bags: Bags) -> tuple[float, float]:
    """Smallest and largest value, read in blocks; NaN if a value is NaN.

    A file is read once. Later selections of bags lie within the extremes of the file, and a sample
    of their first rows gives a lower bound of their largest magnitude.
    """
    table = bags.source
    if not bags.is_mapped:
        return _read_extremes(bags) if in_blocks(bags) else extremes(table)
    origin = getattr(table, "origin", table)  # before the conversion to floats
    if id(origin) not in _KNOWN and 2 * bags.n_instances > len(table):
        _KNOWN[id(origin)] = _read_extremes(Bags(table, [0, len(table)]))
        weakref.finalize(origin, _KNOWN.pop, id(origin), None)
    low, high = _KNOWN.get(id(origin), (np.nan, np.nan))
    if bags.n_instances == len(table) and id(origin) in _KNOWN:
        return low, high
    if max(-low, high) <= SINGLE_RANGE[1]:  # not NaN either
        sample = extremes(bags.rows(slice(0, SAMPLE)))
        release_pages(table)
        if max(-sample[0], sample[1]) >= SINGLE_RANGE[0]:
            return sample
    return _read_extremes(bags)


def _read_extremes(bags: Bags) -> tuple[float, float]:
    low, high = np.inf, -np.inf
    for _, block in row_blocks(bags):
        least, most = extremes(block)
        low, high = float(np.minimum(low, least)), float(np.maximum(high, most))  # keep NaN
    return low, high


def _keeps_digits(bags: Bags) -> bool:
    """Whether every feature of a float32 table has a range comparable to its magnitude.

    Sums of squares of values far from 0 lose the digits in which the values differ.
    """
    if bags.is_sparse:
        return True
    # A sample with a sufficient range decides; otherwise the whole table is read.
    sample = bags.rows(slice(None, None, 1 + bags.n_instances // SAMPLE))
    if _varies(sample.min(axis=0), sample.max(axis=0)).all():
        return True
    each = [(block.min(axis=0), block.max(axis=0)) for _, block in row_blocks(bags)]
    low, high = np.min([low for low, _ in each], axis=0), np.max([high for _, high in each], axis=0)
    return bool((_varies(low, high) | (low == high)).all())


def _varies(low: Any, high: Any) -> Any:
    """Mask of the features whose range is comparable to their magnitude, or that are 0."""
    low, high = low.astype(np.float64), high.astype(np.float64)
    return (np.abs(low) < FARTHEST * (high - low)) | ((low == 0) & (high == 0))


def _first(bags: Bags, is_wrong: Any, rows: bool) -> tuple[float, str]:
    """Find the first wrong value, and describe its position."""
    bags = bags.to("numpy")
    names = bags.feature_names
    if bags.is_sparse:
        table = bags.instances
        entry = np.flatnonzero(is_wrong(table.data))[0]
        row = int(np.searchsorted(table.indptr, entry, side="right")) - 1
        column, value = int(table.indices[entry]), table.data[entry]
    else:
        place, block = next((at, b) for at, b in row_blocks(bags) if is_wrong(b).any())
        first, column = (int(found[0]) for found in np.nonzero(is_wrong(block)))
        row, value = place.start + first, block[first, column]
    bag = int(np.searchsorted(bags.offsets, row, side="right")) - 1
    owner = f"{bags.name_of(bag)}, instance {row - bags.offsets[bag]}"
    feature = f"feature {column}" if names is None else f"feature {column} ({names[column]!r})"
    return value, f"{f'row {row}' if rows else owner}, {feature}"
