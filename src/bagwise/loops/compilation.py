"""Compile functions with numba, and cache the machine code in files if a folder is writable.

Also an instruction to prefetch memory, so that loops over rows in random order wait less for it.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core.caching import FunctionCache
from numba.extending import intrinsic


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
        dispatcher = numba.njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
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


def _prefetch(typing, array, index):
    """Load the cache line of ``array[index]`` (1-D, contiguous), without waiting for it."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, integer, integer, integer])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), pointer)
        # for reading; kept in all cache levels; data, not instructions
        builder.call(function, [address, *(ir.Constant(integer, k) for k in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _nothing(array, index):
    """Do nothing: the replacement under NUMBA_DISABLE_JIT."""


prefetch = _nothing if numba.config.DISABLE_JIT else intrinsic(_prefetch)
