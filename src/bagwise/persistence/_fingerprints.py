"""Short hashes by which a report recognises the bags a model was fitted on."""

import hashlib

import numpy as np
from scipy import sparse

from bagwise.bags import Bags

MOST_BAGS = 100_000  # whose fingerprints a model file may have


def fingerprints(bags: Bags) -> list[str]:
    """Hash each bag, by its size, its first and its last instance.

    The same bag in another file, or under another name, has the same hash; its values cannot be
    recovered from it.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    list of str
        One per bag.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import Bags
    >>> from bagwise.persistence._fingerprints import fingerprints
    >>> one, other, same = fingerprints(Bags(np.array([[1.0], [2.0], [1.0]]), [0, 1, 2, 3]))
    >>> one == same, one == other
    (True, False)
    """
    ends = np.column_stack([bags.offsets[:-1], bags.offsets[1:] - 1]).ravel()
    rows = bags.rows(ends)
    rows = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    marks = []
    for i, size in enumerate(bags.sizes.tolist()):
        digest = hashlib.blake2b(str(size).encode(), digest_size=8)
        digest.update(rows[2 * i : 2 * i + 2].tobytes())
        marks.append(digest.hexdigest())
    return marks
