"""A hint to the processor, for compiled code: fetch this, which will be read soon.

Rows of neighbours lie anywhere in memory, so that the processor cannot guess which comes next and
waits for each; and while it computes with the records that it has, it fetches no more of them. The
hint changes no result; an address outside of the array is harmless.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 64  # bytes that come together


def _prefetch(context: Any, array: Any, row: Any, byte: Any) -> Any:
    """Ask for the line with this byte of array[row], into the second cache: the first is small, and
    what is in use would have to leave it."""

    def generate(target: Any, builder: Any, signature: Any, given: Any) -> Any:
        table = target.make_array(signature.args[0])(target, builder, given[0])
        pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        begin = builder.mul(given[1], cgutils.unpack_tuple(builder, table.strides)[0])
        place = builder.gep(builder.bitcast(table.data, pointer), [builder.add(begin, given[2])])
        kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read, second_cache, of_data = word(0), word(2), word(1)
        builder.call(hint, [place, to_read, second_cache, of_data])
        return target.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


prefetch: Any = intrinsic(_prefetch)
