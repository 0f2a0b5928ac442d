"""Which columns of a CSV file are written in quotes.

pyarrow does not report whether a value was quoted, which decides whether ``"12"`` is a string.
Therefore the beginning of the file is scanned a second time, as bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

__all__ = ["quoted_columns"]


def quoted_columns(
    head: bytes, delimiter: str, columns: Sequence[int], missing: Collection[str]
) -> set[int]:
    r"""Find the columns whose first non-missing value is quoted.

    Parameters
    ----------
    head : bytes
        The beginning of the file, with its header; the last row may be incomplete.
    delimiter : str
        The field separator.
    columns : sequence of int
        The columns to check.
    missing : collection of str
        Unquoted forms of a missing value.

    Returns
    -------
    set of int
        Empty if every value of the first row is quoted: such a file quotes numbers too, so its
        quotes carry no information.

    Examples
    --------
    >>> from bagwise.io.quotes import quoted_columns
    >>> quoted_columns(b'bag,label,x\n"1",,2\n"2",0,3\n', ",", [0, 1], [""])
    {0}
    """
    gaps = {text.encode() for text in missing}
    waiting, quoted, bare_value = set(columns), set(), False
    for number, row in enumerate(_rows(head, delimiter.encode())):
        for place, text in row:
            if number == 0:
                continue  # the header
            in_quotes = text.startswith(b'"')
            if number == 1:
                bare_value |= not in_quotes and text not in gaps
            if place in waiting and (in_quotes or text not in gaps):
                waiting.remove(place)
                quoted |= {place} if in_quotes else set()
        if number and not bare_value:
            return set()
        if number and not waiting:
            break
    return quoted


def _rows(head: bytes, delimiter: bytes) -> Iterator[Iterator[tuple[int, bytes]]]:
    """Split bytes into rows of fields, each field with its position and its opening quote if any.

    Consume a row completely before the next one.
    """
    end_of_field = re.compile(b"[" + re.escape(delimiter) + rb"\r\n]|\Z")
    at = 0

    def fields() -> Iterator[tuple[int, bytes]]:
        nonlocal at
        place = 0
        while at < len(head):
            start, at = at, _after_quotes(head, at)
            found = end_of_field.search(head, at)
            assert found is not None  # \Z matches
            at = found.end()
            yield place, head[start : found.start()]
            if found.group() != delimiter:
                return
            place += 1

    while at < len(head):
        if head[at] in b"\r\n":  # an empty line, or the second half of \r\n
            at += 1
            continue
        yield fields()


def _after_quotes(head: bytes, at: int) -> int:
    """End of a quoted field that begins at `at`; `at` itself if it is not quoted."""
    if head[at : at + 1] != b'"':
        return at
    while (at := head.find(b'"', at + 1)) >= 0:
        if head[at + 1 : at + 2] != b'"':
            return at + 1
        at += 1  # a doubled quote is an escaped quote
    return len(head)
