"""Triton, which comes with torch for CUDA; other modules import this one only on such a device.

Where Triton is absent, modules with kernels can be imported, and nothing in them called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = tl = None


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first launched; leave it as it is without Triton.

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
def probe(out):  # type: ignore[no-untyped-def]
    """Write 2: a small kernel with what other kernels need of Triton."""
    one = tl.full((1, 2), 1, tl.float64)
    tl.store(out + tl.arange(0, 1)[:, None], tl.sum(one, axis=1, keep_dims=True))
