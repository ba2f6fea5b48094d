"""The inner loops of `discrete`, compiled:
they turn words into noise and draw nothing themselves."""

from __future__ import annotations

import math

import numpy as np
from numba import uint64

from tacenda._jit import EXACT, njit

DONE, MORE_WORDS, UNDECIDED, TAIL = 0, 1, 2, 3
WORDS_PER_TRY = 3
GUIDE_SHIFT = 53  # the guide table has an entry for each value of the top 10 of 63 bits


@njit(**EXACT)
def fill_discrete(  # type: ignore[no-untyped-def]
    out, at, words, cumulative, guide, block_bits, keep, inverse_double_variance, margin
):
    """Fill `out` from position `at`; answers (position, words used, status, cell, offset) of the
    last try.

    A try takes three words: one chooses a block of integers and the sign, one the place inside the
    block, one accepts.
    """
    used, n = 0, out.shape[0]
    last = cumulative.shape[0] - 1  # the cell of the tail
    mask = (uint64(1) << uint64(block_bits)) - uint64(1)
    while at < n:
        if used + 3 > words.shape[0]:
            return at, used, MORE_WORDS, 0, 0
        choose, place, accept = words[used], words[used + 1], words[used + 2]
        used += 3
        u = choose >> uint64(1)
        k = guide[u >> uint64(GUIDE_SHIFT)]
        while k <= last and u >= cumulative[k]:
            k += 1
        if k > last:  # above the total weight: draw again
            continue
        j = np.int64(place & mask)
        if k == last:
            return at, used, TAIL, k, j
        start = np.int64(k) << block_bits
        negative = choose & uint64(1)
        if negative and start + j == 0:  # zero has one sign only
            continue
        p = keep[k] * math.exp(-float(j * (2 * start + j)) * inverse_double_variance)
        v = float(np.int64(accept >> uint64(11))) * 1.1102230246251565e-16
        if v >= p + margin:
            continue
        if v + 1.1102230246251565e-16 > p - margin:
            return at, used, UNDECIDED, k, j
        out[at] = -(start + j) if negative else start + j
        at += 1
    return at, used, DONE, 0, 0


@njit(**EXACT)
def fill_normal(out, words):  # type: ignore[no-untyped-def]
    """Box-Muller: two words make two standard normals;
    out (n,) and words (n rounded up to even,)."""
    n = out.shape[0]
    for i in range(0, n, 2):
        r = math.sqrt(-2.0 * math.log((float(words[i]) + 0.5) * 5.421010862427522e-20))
        angle = 6.283185307179586 * (
            float(np.int64(words[i + 1] >> uint64(11))) * 1.1102230246251565e-16
        )
        out[i] = r * math.cos(angle)
        if i + 1 < n:
            out[i + 1] = r * math.sin(angle)


@njit(**EXACT)
def scale_rows(out, words, rate):  # type: ignore[no-untyped-def]
    """Rows of normals (b, d) become l2-Laplace: direction kept,
    length Gamma(d)/rate as a sum of d exponentials."""
    b, d = out.shape
    for i in range(b):
        square, length = 0.0, 0.0
        for j in range(d):
            square += out[i, j] * out[i, j]
            length -= math.log((float(words[i * d + j]) + 0.5) * 5.421010862427522e-20)
        factor = length / (rate[i] * math.sqrt(square)) if square > 0 else 0.0
        for j in range(d):
            out[i, j] *= factor
