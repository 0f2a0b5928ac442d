"""Array arguments of compiled functions."""

from typing import Any


def read_only(*arrays: Any) -> list[Any]:
    """Read-only views of the input arrays of a compiled function.

    numba compiles a function separately for writable arrays and for read-only ones, such as the
    offsets of `Bags`. Read-only views need one signature instead of one per combination.

    Parameters
    ----------
    *arrays : ndarray
        Inputs of a compiled function.

    Returns
    -------
    list of ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.compiled.arguments import read_only
    >>> a, b = read_only(np.zeros(2), np.ones(3))
    >>> a.flags.writeable
    False
    """
    views = [array.view() for array in arrays]
    for view in views:
        view.flags.writeable = False
    return views
