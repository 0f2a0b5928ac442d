"""Intervals in the cells of tables: ``5.3``, ``<5``, ``3+``, ``4-6``, ``40%``, ``present``."""

import re
from math import ceil, floor, inf, isfinite, isnan, nextafter
from numbers import Real
from typing import Any

from bagwise.exceptions import LabelError

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
SHARE = re.compile(r"\s*%")
FORMS = {
    "=": re.compile(rf"=?\s*({NUMBER})", re.IGNORECASE),
    "+": re.compile(rf"({NUMBER})\s*\+", re.IGNORECASE),
    "..": re.compile(rf"({NUMBER})\s*(?:-|\.\.|to)\s*({NUMBER})", re.IGNORECASE),
    "<": re.compile(rf"<\s*({NUMBER})", re.IGNORECASE),
    "<=": re.compile(rf"<=\s*({NUMBER})", re.IGNORECASE),
    ">": re.compile(rf">\s*({NUMBER})", re.IGNORECASE),
    ">=": re.compile(rf">=\s*({NUMBER})", re.IGNORECASE),
}
PLAIN = str.maketrans(
    {"\u2212": "-", "\u2013": "-", "≤": "<=", "≥": ">="}
)  # typed by word processors
UNKNOWN = {"", "?", "na", "n/a", "nan", "none", "null"}
PRESENT = {"yes": 1.0, "present": 1.0, "true": 1.0, "no": 0.0, "absent": 0.0, "false": 0.0}


def is_share(cell: Any) -> bool:
    """Tell whether a cell is a share, in percent."""
    return isinstance(cell, str) and "%" in cell


def read_interval(cell: Any, name: str = "a cell") -> tuple[float, float]:
    """Read what a cell says about a number: an interval with both ends included.

    Parameters
    ----------
    cell : str, float or None
        ``5.3`` or ``=5.3``, ``4-6`` (also ``4..6`` and ``4 to 6``), ``3+``, ``<5``, ``<=5``,
        ``>10``, ``>=10``; with ``%`` a share: ``40%`` is .4. Unknown: None, NaN, an empty string,
        ``?`` or ``NA``.
    name : str, default="a cell"
        The name of the cell in error messages.

    Returns
    -------
    lower, upper : float
        -inf and inf if there is no bound. ``<5`` ends at the largest number below 5.

    Examples
    --------
    >>> from bagwise._common.intervals import read_interval
    >>> [read_interval(cell) for cell in ["5.3", "4-6", "3+", "40%", ""]]
    [(5.3, 5.3), (4.0, 6.0), (3.0, inf), (0.4, 0.4), (-inf, inf)]
    """
    if cell is None or (isinstance(cell, Real) and isnan(cell)):
        return -inf, inf
    text = str(cell).translate(PLAIN).strip()
    if text.lower() in UNKNOWN:
        return -inf, inf
    share = is_share(text)
    if share:
        text = SHARE.sub("", text)
    for kind, pattern in FORMS.items():
        if found := pattern.fullmatch(text):
            form, numbers = kind, [float(end) / (100 if share else 1) for end in found.groups()]
            break
    else:
        raise LabelError(
            f"{name} is {cell!r}: expected a number or an interval such as 5.3, 4-6, 3+, <5, >=10 "
            "or 40%; leave it empty if it is unknown."
        )
    first, last = numbers[0], numbers[-1]
    if not (isfinite(first) and isfinite(last)):
        raise LabelError(f"{name} is {cell!r}, which is too large for a number.")
    if first > last:
        raise LabelError(f"{name} is {cell!r}: its lower end exceeds the upper one.")
    lower = {"<": -inf, "<=": -inf, ">": nextafter(first, inf)}.get(form, first)
    upper = {">": inf, ">=": inf, "+": inf, "<": nextafter(last, -inf)}.get(form, last)
    return lower, upper


def read_count(cell: Any, name: str = "a cell") -> tuple[int, int]:
    """Read what a cell says about the number of instances that have a label.

    Parameters
    ----------
    cell : str, int, float or None
        As in `read_interval`, in whole numbers; and ``1``, ``yes``, ``present`` and ``true`` (one
        or more), ``0``, ``no``, ``absent`` and ``false`` (none). ``1-1`` and ``=1`` are exactly
        one. Shares are refused, since they need the size of the bag.
    name : str, default="a cell"
        The name of the cell in error messages.

    Returns
    -------
    lower, upper : int
        The smallest and the largest count; -1 if there is no largest.

    Examples
    --------
    >>> from bagwise._common.intervals import read_count
    >>> [read_count(cell) for cell in ["present", "0", "", "3", "3+", "<5", "=1"]]
    [(1, -1), (0, 0), (0, -1), (3, 3), (3, -1), (0, 4), (1, 1)]
    """
    word = str(cell).strip().lower()
    lower, upper = (PRESENT[word],) * 2 if word in PRESENT else read_interval(cell, name)
    if word in PRESENT or word in ("1", "1.0"):
        lower, upper = (1, inf) if lower else (0, 0)
    least = 0 if lower == -inf else ceil(lower)
    most = -1 if upper == inf else floor(upper)
    exact = lower != upper or lower == least
    if is_share(cell) or upper < 0 or (lower < 0 and lower > -inf) or not exact:
        raise LabelError(f"{name} is {cell!r}: expected a count, a whole number that is 0 or more.")
    if most != -1 and least > most:
        raise LabelError(f"{name} is {cell!r}: there is no whole number in this interval.")
    return least, most
