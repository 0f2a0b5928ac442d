"""Which columns of a CSV file are written in quotes.

pyarrow does not report whether a value was quoted, which decides whether ``"12"`` is a string.
Therefore the beginning of the file is scanned a second time, as bytes.
"""

import re
from collections.abc import Collection, Iterator, Sequence


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
    waiting, quoted = set(columns), set()
    rows = _rows(head, delimiter.encode())
    next(rows, None)  # the header
    for number, row in enumerate(rows):
        in_quotes = {j: text.startswith(b'"') for j, text in enumerate(row) if text not in gaps}
        if number == 0 and all(in_quotes.values()):
            return set()
        quoted |= {j for j in waiting if in_quotes.get(j)}
        waiting -= in_quotes.keys()
        if not waiting:
            break
    return quoted


def _rows(head: bytes, delimiter: bytes) -> Iterator[list[bytes]]:
    """Cut bytes into rows of fields; a field in quotes keeps them."""
    d = re.escape(delimiter)
    # A quoted string, in which a doubled quote is a quote and which the end of the bytes may cut
    # off; then anything up to the end of the field.
    field = re.compile(rb'((?:"[^"]*(?:""[^"]*)*(?:"|\Z))?[^%b\r\n]*)(%b|[\r\n]|\Z)' % (d, d))
    row: list[bytes] = []
    for text, end in (found.groups() for found in field.finditer(head)):
        if not (row or text) and end != delimiter:
            continue  # an empty line, or the second half of \r\n
        row.append(text)
        if end != delimiter:
            yield row
            row = []
