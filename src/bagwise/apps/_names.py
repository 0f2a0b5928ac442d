"""File names from ids."""

import itertools
import re
from collections.abc import Iterable


def distinct_names(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """A distinct, safe file name without suffix for each id: the id itself if possible.

    Parameters
    ----------
    names : iterable of str
        The ids.
    taken : iterable of str, default=()
        File names that are not used.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from bagwise.apps._names import distinct_names
    >>> distinct_names(["a", "A", "b/c", "index"], taken=["index"])
    ['a', 'A_2', 'b_c', 'index_2']
    """
    names = list(names)
    safe = [re.sub(r"[^\w.+=-]+", "_", name)[:150].lstrip(".") or "unnamed" for name in names]
    found, used = list(safe), {name.lower() for name in taken}  # some file systems ignore case
    for i in sorted(range(len(names)), key=lambda i: safe[i] != names[i]):
        tries = itertools.chain([safe[i]], (f"{safe[i]}_{k}" for k in itertools.count(2)))
        found[i] = next(each for each in tries if each.lower() not in used)
        used.add(found[i].lower())
    return found
