"""Validation of times to an event."""

from typing import Any

import numpy as np

from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.exceptions import LabelError
from bagwise.labels import Intervals, refuse_other_order
from bagwise.validation import labels

TIMES = np.dtype([("event", bool), ("time", np.float64)])
EXPECTED = (
    "expected a structured array with two fields, whether the event was observed (bool) and when, "
    'or until when it was not (float): np.array([(True, 3.5), ...], dtype=[("event", bool), '
    '("time", float)]), or Surv.from_arrays(event, time) of scikit-survival.'
)


def are_times(y: Any) -> bool:
    """Whether y is a structured array, as times to an event are."""
    return bool(getattr(getattr(y, "dtype", None), "names", None))


def time_texts(y: Array) -> list[str]:
    """The time of each bag as a string, with a plus if it was censored then: 31, 40+."""
    return [f"{time:.4g}{'' if event else '+'}" for event, time in y.tolist()]


def check_times(y: Any, bags: Bags, *, need_event: bool = True, allow_nan: bool = False) -> Array:
    """Check one time to an event per bag, censored or not.

    Parameters
    ----------
    y : structured array of shape (n_bags,), or data frame with two columns
        A field that tells whether the event was observed, and one with its time, or that of
        censoring; their names and order do not matter if one is boolean, else the first is the
        event.
    bags : Bags
        The bags they belong to.
    need_event : bool, default=True
        Whether at least one event must have been observed.
    allow_nan : bool, default=False
        Whether times may be NaN: unknown.

    Returns
    -------
    structured array of shape (n_bags,)
        With the fields ``event`` (bool) and ``time`` (float64), finite and not negative.
    """
    refuse_other_order(y, bags.ids)
    if y is None:
        raise LabelError("this estimator requires y to be passed, but the target y is None.")
    if len(getattr(y, "columns", ())) == 2:  # a data frame
        columns = {str(name): np.asarray(y[name]) for name in y.columns}
        dtypes = [(name, column.dtype) for name, column in columns.items()]
        y = np.rec.fromarrays([*columns.values()], dtype=dtypes)
    fields = getattr(getattr(y, "dtype", None), "names", None) or ()
    if len(fields) != 2 or np.ndim(y) != 1:
        given = f"{len(fields)} fields" if fields else type(y).__name__
        raise LabelError(f"y is no time to an event ({given}): {EXPECTED}")
    labels.check_length(y, bags)
    first, last = sorted(fields, key=lambda name: y.dtype[name].kind != "b")
    event, time = np.asarray(y[first]), np.asarray(y[last])
    kinds = event.dtype.kind in "biuf", time.dtype.kind in "iuf"
    if not all(kinds) or not np.isin(event, (0, 1)).all():
        raise LabelError(f"y has the fields {first} and {last} of unsuitable types: {EXPECTED}")
    time = time.astype(np.float64)
    fine = ((time >= 0) & (time <= labels.LARGEST_NUMBER)) | (allow_nan & np.isnan(time))
    for i in np.flatnonzero(~fine)[:1]:
        reason = "must not be negative" if time[i] < 0 else "must be a finite number"
        raise LabelError(f"the time of {bags.name_of(i)} is {time[i]}: times {reason}.")
    if need_event and not event.any():
        raise LabelError(
            f"no event was observed in {len(bags)} bags, all are censored: nothing can be learned "
            "of its time. Is 1 (True) the event, not the censoring?"
        )
    found = np.empty(len(bags), dtype=TIMES)
    found["event"], found["time"] = event, time
    return found


def check_targets(y: Any, bags: Bags) -> Any:
    """Check one number per bag, several numbers per bag, intervals, or times to an event.

    Parameters
    ----------
    y : array-like of shape (n_bags,) or (n_bags, n_targets), Intervals or structured array
        The numbers, or the times.
    bags : Bags
        The bags they belong to.

    Returns
    -------
    ndarray of shape (n_bags,) or (n_bags, n_targets), or Intervals
        Intervals if a number is not exact. Times as from `check_times`.
    """
    if are_times(y):
        return check_times(y, bags)
    if np.ndim(y) == 2 and np.shape(y)[1] > 1 and not isinstance(y, Intervals):
        columns = np.asarray(labels.check_length(y, bags)).T
        return np.column_stack([labels.check_numbers(column, bags) for column in columns])
    known = labels.check_intervals(y, bags)
    return known.lower if known.exact.all() else known
