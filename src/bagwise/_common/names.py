"""Names that users type."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean A or B?" for an error, with similar names; empty if there are none."""
    by_letters = {each.lower(): each for each in reversed([*known])}
    near = difflib.get_close_matches(str(name).lower(), by_letters, n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(by_letters[each] for each in near)}?" if near else ""
