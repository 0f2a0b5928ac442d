"""How arrays are passed to kernels."""

from typing import Any


def read_only(*arrays: Any) -> list[Any]:
    """Views of arrays that a kernel reads, none of which can be written.

    numba compiles a kernel once for arrays that can be written and once for those that cannot,
    such as the offsets of `Bags`. So one signature is compiled instead of one per combination.

    Parameters
    ----------
    *arrays : ndarray
        Inputs of a kernel.

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
