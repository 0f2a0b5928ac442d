"""Ties: values that differ by rounding only count as equal, so that the first of them decides.

Scores come from matrix products and iterative solvers, whose last digits depend on the processor
and on the number of threads. A decision (a class, a witness, the order of rows) must not.
Also an order of rows that depends on their values alone.
"""

from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.types import Array, Ints

BITS = {np.dtype(np.float64): 26, np.dtype(np.float32): 16}  # 1/2 of 53, 2/3 of 24 digits


def settled(values: Array, axis: int | None = None, *, bits: int | None = None) -> Array:
    """Round values to about 1.5e-8 of the largest modulus (single precision: 1.5e-5).

    ``settled(x).argmax()`` and ``argsort(settled(x), kind="stable")`` then take the first of
    values that are equal up to rounding.

    Parameters
    ----------
    values : ndarray
        The values; infinities and integers are unchanged.
    axis : int, default=None
        The axis along which values are compared; all of them by default.
    bits : int, default=None
        Number of binary digits of the largest modulus to keep; fewer than the default if the values
        come from a solver that is less accurate than rounding.

    Returns
    -------
    ndarray
        Of the same shape and type.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.loops import ties
    >>> scores = np.array([0.1, 0.3, 0.1 + 0.2])
    >>> int(scores.argmax()), int(ties.settled(scores).argmax())
    (2, 1)
    """
    if values.size == 0 or values.dtype not in BITS:
        return values
    kept = BITS[values.dtype] if bits is None else min(bits, BITS[values.dtype])
    moduli = np.abs(values)
    largest = np.where(np.isfinite(moduli), moduli, 0).max(axis=axis, keepdims=True)
    # A power of two: dividing by it is exact.
    unit = np.ldexp(np.ones_like(largest), np.frexp(largest)[1] - kept)
    unit = np.where(unit > 0, unit, 1)  # underflow: all values are near the smallest number
    return np.where(largest > np.finfo(values.dtype).tiny, np.round(values / unit) * unit, values)


def row_ranks(instances: Any) -> Ints:
    """Number the distinct rows of a table in an order that depends on their values alone.

    A dense table is not copied: it is compared feature by feature.

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
        return _ranks_of_dense(np.asarray(instances))
    table = sparse.csr_array(instances, dtype=np.float64, copy=True)
    table.sum_duplicates()
    table.eliminate_zeros()
    # Rows as bytes that compare like the dense rows. The first column in which two rows differ
    # decides: there, a positive value is larger than a zero, and the more so the earlier it is.
    d, is_positive = table.shape[1], table.data > 0
    columns = d + np.where(is_positive, d - table.indices, table.indices - d)
    bits = table.data.view(np.int64)
    entries = np.stack([columns, np.where(is_positive, bits, ~bits)], axis=1).astype(">u8")
    end = np.array(d, ">u8").tobytes()
    spans = zip(table.indptr[:-1], table.indptr[1:], strict=True)
    rows = [entries[a:b].tobytes() + end for a, b in spans]
    return np.unique(np.array(rows, dtype=object), return_inverse=True)[1].reshape(-1)


def _ranks_of_dense(table: Array) -> Ints:
    n, n_features = table.shape
    smaller = np.zeros(n, dtype=np.int64)  # number of smaller rows, by the features so far
    tied = np.arange(n)  # rows that equal another one so far
    for j in range(n_features):
        if len(tied) == 0:
            break
        values = table[tied, j]
        order = np.lexsort((values, smaller[tied]))
        tied, values = tied[order], values[order]
        before = smaller[tied]
        new_tie = np.append(True, before[1:] != before[:-1])
        new_value = new_tie | np.append(True, values[1:] != values[:-1])
        place = np.arange(len(tied))
        start = np.maximum.accumulate(np.where(new_tie, place, 0))
        own = np.maximum.accumulate(np.where(new_value, place, 0))
        smaller[tied] = before + own - start
        tied = tied[~(new_value & np.append(new_value[1:], True))]
    return np.unique(smaller, return_inverse=True)[1].reshape(-1)
