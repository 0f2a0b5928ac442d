"""Columns of a table that are probably not features: ids, times of clips, bag-level values."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bagwise._common.types import Array, Floats, Ints

CHANCE = 1e-6  # largest probability that a reported feature is constant within bags by chance
FIRST, LARGEST = 256, 2**22  # values compared at a time: in the first step, and at most

STARTS = ("start", "start_time", "begin", "begin_time", "onset")
ENDS = ("end", "end_time", "stop", "stop_time")
_SECONDS = re.compile(r" ?[([]s[)\]]$|[ _](s|sec|seconds)$")
_ID = re.compile(r"(?i:(.*[\W_])?(id|ids|idx|index|uid|uuid)|unnamed: 0)|.*[a-z](ID|Id|Index)")


def plain_name(name: str) -> str:
    """Normalise a column name: lower case, underscores, without the unit (seconds).

    Examples
    --------
    >>> from bagwise.io._metadata import plain_name
    >>> plain_name("Begin Time (s)")
    'begin_time'
    """
    return _SECONDS.sub("", name.strip().lower()).replace(" ", "_")


def times_of_clips(names: Iterable[str]) -> tuple[str, str] | None:
    """Find the columns with the start and the end of clips by name; None unless both exist.

    Examples
    --------
    >>> from bagwise.io._metadata import times_of_clips
    >>> times_of_clips(["file", "Start (s)", "End (s)", "x0"])
    ('Start (s)', 'End (s)')
    """
    plain = {plain_name(name): name for name in reversed(list(names))}
    start, end = (
        next((plain[name] for name in known if name in plain), None) for known in (STARTS, ENDS)
    )
    return None if start is None or end is None else (start, end)


def is_id_name(name: str) -> bool:
    """Whether a column has a typical name of ids or row numbers.

    Examples
    --------
    >>> from bagwise.io._metadata import is_id_name
    >>> [is_id_name(name) for name in ("patch_id", "index", "PatientID", "acid", "Unnamed: 0")]
    [True, True, True, False, True]
    """
    return _ID.fullmatch(name.strip()) is not None


def are_ids(values: Array, bags: Ints) -> bool:
    """Whether a column holds ids: whole numbers, one per bag or all different inside each bag.

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
    numbers = values.astype(float)
    if not len(numbers) or not (np.isfinite(numbers) & (numbers == np.trunc(numbers))).all():
        return False
    n_pairs = len(np.unique(np.column_stack([bags, numbers]), axis=0))
    n_bags = len(np.unique(bags))
    return n_pairs == len(numbers) or (n_pairs == n_bags and len(np.unique(numbers)) > 1)


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
    if not len(several):
        return []
    first, last = offsets[several], offsets[several + 1] - 1
    left = _equal_at_ends(instances, first, last)
    left = _constant_within(instances, offsets, left)
    values = _dense(instances[first][:, left]).astype(float)
    return [
        int(j)
        for j, column in zip(left, values.T, strict=True)
        if _is_no_chance(column, sizes[several])
    ]


def _equal_at_ends(instances: Any, first: Ints, last: Ints) -> Ints:
    """Features that are equal in the first and the last row of each bag and differ between bags.

    Two rows per bag exclude almost all other features, without reading the whole table.
    """
    left = np.arange(instances.shape[1])
    differs = np.zeros(len(left), dtype=bool)  # between bags
    start, n_values = 0, FIRST
    while start < len(first) and len(left):
        stop = start + max(1, n_values // len(left))
        rows = _dense(instances[first[start:stop]][:, left])
        others = _dense(instances[last[start:stop]][:, left])
        if start == 0:
            one = rows[:1]
        same = _same(rows, others).all(axis=0)
        differs = (differs | ~_same(rows, one).all(axis=0))[same]
        left, one = left[same], one[:, same]
        start, n_values = stop, min(LARGEST, 4 * n_values)
    return left[differs]


def _constant_within(instances: Any, offsets: Ints, left: Ints) -> Ints:
    """Keep those features of `left` that do not vary inside any bag."""
    start, n_rows, n_values = 0, instances.shape[0], FIRST
    first_of_bag = np.zeros(n_rows + 1, dtype=bool)
    first_of_bag[offsets] = True
    while start < n_rows - 1 and len(left):
        stop = min(n_rows, start + 1 + max(1, n_values // len(left)))
        rows = _dense(instances[start:stop][:, left])
        same = _same(rows[1:], rows[:-1]) | first_of_bag[start + 1 : stop, None]
        left = left[same.all(axis=0)]
        start, n_values = stop - 1, min(LARGEST, 4 * n_values)
    return left


def _dense(rows: Any) -> Array:
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)


def _same(rows: Array, others: Array) -> Array:
    """Compare element by element; two missing values are equal."""
    return (rows == others) | ((rows != rows) & (others != others))


def _is_no_chance(values: Floats, sizes: Ints) -> bool:
    _, code = np.unique(values, return_inverse=True)
    shares = np.bincount(code, weights=sizes) / sizes.sum()
    if len(shares) < 2:
        return False
    lengths, n_bags = np.unique(sizes, return_counts=True)
    chances = np.array([(shares**length).sum() for length in lengths.tolist()])
    return bool((n_bags * np.log(np.maximum(chances, 1e-300))).sum() < np.log(CHANCE))


def quoted(names: Sequence[str], most: int = 10) -> str:
    """Quote column names for a message; at most the first `most`."""
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more
