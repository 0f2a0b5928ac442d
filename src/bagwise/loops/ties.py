"""Ties: values that differ by rounding only count as equal, so that the first of them decides.

Scores come from matrix products and iterative solvers, whose last digits depend on the processor
and on the number of threads. A decision (a class, a witness, the order of rows) must not.
"""

import numpy as np

from bagwise._common.types import Array

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
