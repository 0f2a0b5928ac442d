"""Triton, which comes with torch for CUDA; this module is imported only for such a device.

Without Triton, modules with kernels can be imported, but their kernels cannot be called.
"""

from collections.abc import Callable
from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = tl = None


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first launched; return it unchanged without Triton.

    Parameters
    ----------
    function : callable
        A kernel, or a function that kernels call.

    Returns
    -------
    triton.JITFunction or callable
    """
    return function if triton is None else triton.jit(function)


@jit
def probe(out):
    """Write 2: a small kernel that uses the features of Triton that other kernels need."""
    one = tl.full((1, 2), 1, tl.float64)
    tl.store(out + tl.arange(0, 1)[:, None], tl.sum(one, axis=1, keep_dims=True))
