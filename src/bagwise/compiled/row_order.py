"""An order of rows that depends on their values alone."""

from typing import Any

import numpy as np
from scipy import sparse

from bagwise._types import Ints


def row_ranks(instances: Any) -> Ints:
    """Number the distinct rows of a table in an order that depends on their values alone.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n_instances, n_features)
        The table.

    Returns
    -------
    ndarray of shape (n_instances,)
        Equal rows have equal numbers, from 0 without gaps.
    """
    if not sparse.issparse(instances):
        return np.unique(instances, axis=0, return_inverse=True)[1].reshape(-1)
    table = sparse.csr_array(instances, copy=True)
    table.sum_duplicates()
    table.eliminate_zeros()
    spans = zip(table.indptr[:-1], table.indptr[1:], strict=True)
    rows = [table.indices[a:b].tobytes() + table.data[a:b].tobytes() for a, b in spans]
    return np.unique(np.array(rows, dtype=object), return_inverse=True)[1].reshape(-1)
