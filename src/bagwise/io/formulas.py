"""Escape strings in CSV files that a spreadsheet would run as a formula.

A spreadsheet runs a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break as a
formula: an id such as ``=HYPERLINK(...)`` could send the user's data away. The usual remedy is a
leading apostrophe, which spreadsheets show or hide but never run.

bagwise writes it and removes it when reading. A string that already has apostrophes before such a
character gets one more, so that reading restores it. Numbers are not formulas and stay unchanged,
also if a number is a string.
"""

import re
from typing import Any

_BEGINNING = r"^'*[=+\-@\t\r\n\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]"  # and their full-width forms
_NUMBER = r"^'*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
_is_formula = re.compile(re.sub(r"\\x\{(\w+)\}", r"\\u\1", _BEGINNING)).match
_is_number = re.compile(_NUMBER.replace("$", r"\Z")).match


def escaped(text: str) -> str:
    """Put an apostrophe before a string that a spreadsheet would run.

    Examples
    --------
    >>> from bagwise.io.formulas import escaped
    >>> escaped("=1+1"), escaped("'=1+1"), escaped("-1"), escaped("it's")
    ("'=1+1", "''=1+1", '-1', "it's")
    """
    return f"'{text}" if _is_formula(text) and not _is_number(text) else text


def unescaped(text: str) -> str:
    """Remove the apostrophe added by `escaped`.

    Examples
    --------
    >>> from bagwise.io.formulas import unescaped
    >>> unescaped("'=1+1"), unescaped("''=1+1"), unescaped("=1+1"), unescaped("'tis")
    ('=1+1', "'=1+1", '=1+1', "'tis")
    """
    return text[1:] if text.startswith("'") and escaped(text) != text else text


def escape_array(compute: Any, texts: Any) -> Any:
    """`escaped` for an Arrow array of strings, with ``pyarrow.compute``."""
    formulas = compute.and_not(
        compute.match_substring_regex(texts, _BEGINNING),
        compute.match_substring_regex(texts, _NUMBER),
    )
    return compute.if_else(formulas, compute.binary_join_element_wise("'", texts, ""), texts)
