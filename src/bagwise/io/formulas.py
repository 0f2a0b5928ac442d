"""Texts in CSV files that a spreadsheet would run as a formula.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break for a
formula, whoever chose the text: an id such as ``=HYPERLINK(...)`` could so send the user's data
away. The usual remedy is an apostrophe in front, which spreadsheets show or hide but never run.

bagwise writes it and takes it off again in reading. A text that has apostrophes of its own before
such a character gets one more, so that what was written is what is read. Numbers are no formulas
and stay as they are, also where a number is a text.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["escape_array", "escaped", "unescaped"]

_BEGINNING = r"^'*[=+\-@\t\r\n\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]"  # and their full-width forms
_NUMBER = r"^'*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
_is_formula = re.compile(re.sub(r"\\x\{(\w+)\}", r"\\u\1", _BEGINNING)).match
_is_number = re.compile(_NUMBER.replace("$", r"\Z")).match


def escaped(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would run.

    Examples
    --------
    >>> from bagwise.io.formulas import escaped
    >>> escaped("=1+1"), escaped("'=1+1"), escaped("-1"), escaped("it's")
    ("'=1+1", "''=1+1", '-1', "it's")
    """
    return f"'{text}" if _is_formula(text) and not _is_number(text) else text


def unescaped(text: str) -> str:
    """Take off the apostrophe that `escaped` put in front.

    Examples
    --------
    >>> from bagwise.io.formulas import unescaped
    >>> unescaped("'=1+1"), unescaped("''=1+1"), unescaped("=1+1"), unescaped("'tis")
    ('=1+1', "'=1+1", '=1+1', "'tis")
    """
    return text[1:] if text.startswith("'") and escaped(text) != text else text


def escape_array(compute: Any, texts: Any) -> Any:
    """`escaped` for an Arrow array of texts, with ``pyarrow.compute``."""
    formulas = compute.and_not(
        compute.match_substring_regex(texts, _BEGINNING),
        compute.match_substring_regex(texts, _NUMBER),
    )
    return compute.if_else(formulas, compute.binary_join_element_wise("'", texts, ""), texts)
