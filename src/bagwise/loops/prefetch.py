"""Prefetch memory, so that loops over rows in random order wait less for it."""

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


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
