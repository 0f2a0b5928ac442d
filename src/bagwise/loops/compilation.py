"""Compile functions with numba, and cache the machine code in files if a folder is writable."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.core.caching import FunctionCache


def compiled(**options: Any) -> Callable[[Any], Any]:
    """Decorator for compiled functions: numba's ``njit`` without the GIL, cached.

    Parameters
    ----------
    **options
        Further options of ``numba.njit``: ``fastmath``, ``inline``.

    Returns
    -------
    callable
        The decorator.

    Examples
    --------
    >>> from bagwise.loops.compilation import compiled
    >>> @compiled()
    ... def double(x):
    ...     return 2 * x
    >>> double(1.5)
    3.0
    """

    def decorate(function: Any) -> Any:
        dispatcher = numba.njit(nogil=True, **options)(function)
        if dispatcher is not function:  # the function itself under NUMBA_DISABLE_JIT
            with suppress(RuntimeError):  # no folder is writable: each process compiles it
                dispatcher._cache = _Cache(function)
        return dispatcher

    return decorate


class _Cache(FunctionCache):
    """numba's file cache, without its two faults.

    Two processes that save at the same time can store the code of one signature under the name of
    another, and a full disk would end the computation.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        is_right = found is not None and tuple(found.signature.args) == tuple(sig)
        return found if is_right else None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)
