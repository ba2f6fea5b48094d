"""A hint to the processor, for compiled code: fetch this row, which will be read soon.

Rows of neighbours lie anywhere in memory, so that the processor cannot guess which comes next and
waits for each. The hint changes no result; an address outside of the array is harmless.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_LINE = 64  # bytes that come together
_LINES = 2  # the processor itself goes on from there


def _prefetch(context: Any, array: Any, row: Any) -> Any:
    """Ask for the first bytes of array[row]."""

    def generate(target: Any, builder: Any, signature: Any, given: Any) -> Any:
        table = target.make_array(signature.args[0])(target, builder, given[0])
        byte, word, size = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)
        begin = builder.mul(given[1], cgutils.unpack_tuple(builder, table.strides)[0])
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read, keep, of_data = word(0), word(3), word(1)
        for line in range(_LINES):
            offset = builder.add(begin, size(line * _LINE))
            place = builder.gep(builder.bitcast(table.data, byte), [offset])
            builder.call(hint, [place, to_read, keep, of_data])
        return target.get_dummy_value()

    return types.void(array, types.int64), generate


prefetch: Any = intrinsic(_prefetch)
