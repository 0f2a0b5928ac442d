"""Which columns of a CSV file are written in quotes.

pyarrow does not report whether a value was quoted, and that decides whether ``"12"`` is a text.
So the beginning of the file is scanned a second time, as bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

__all__ = ["quoted_columns"]


def quoted_columns(
    head: bytes, delimiter: str, columns: Sequence[int], missing: Collection[str]
) -> set[int]:
    r"""Find the columns whose first value that is not missing stands in quotes.

    Parameters
    ----------
    head : bytes
        The beginning of the file, with its header; the last row may be cut.
    delimiter : str
        What separates the fields.
    columns : sequence of int
        The columns in question.
    missing : collection of str
        How a missing value is written without quotes.

    Returns
    -------
    set of int
        None of the columns where every value of the first row is quoted: such a file quotes
        numbers too, so its quotes say nothing.

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
    """Cut bytes into rows of fields, each field with its place and its opening quote if any.

    A row must be used up before the next one is asked for, or it is the last.
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
    """Where a quoted field that begins at `at` closes; `at` itself when it is not quoted."""
    if head[at : at + 1] != b'"':
        return at
    while (at := head.find(b'"', at + 1)) >= 0:
        if head[at + 1 : at + 2] != b'"':
            return at + 1
        at += 1  # a doubled quote is one quote of the text
    return len(head)
