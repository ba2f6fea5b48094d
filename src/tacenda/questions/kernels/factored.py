"""Compiled sums of records' vectors that are made of a few factors and the record's own features.

A vector of squares of a row with few entries is nearly all 0: only the rest is computed.
"""

from __future__ import annotations

import math

import numpy as np

from tacenda._jit import EXACT, njit
from tacenda.questions.statistics import PAIRS, ROW

# Below this square of a length no rounding makes a vector as long as its bound
_SURELY_SHORT, _LEAST = 0.99, 1e-200
_BESIDE = math.sqrt(2.0)  # of what is packed beside the diagonal


@njit(**EXACT)
def integer_sum(first, last, rows, kinds, factors, units, norm, grid, out, left):  # type: ignore[no-untyped-def]
    """Add trunc(vector/grid) of the records first .. last - 1 to `out` (length,), int64.

    rows (m, d); of block b: kinds[b], factors[b] (m,), units[b]: its part of a vector is factor
    times what the kind says, over the unit. left (m,): set where a vector may be longer than `norm`
    or is not finite, which adds nothing here.
    """
    d = rows.shape[1]
    at = np.empty(d, np.int64)
    for j in range(first, last):
        x, count = rows[j], 0
        for i in range(d):
            if x[i] != 0.0:  # NaN too
                at[count] = i
                count += 1
        for adding in (False, True):
            total, place = 0.0, 0
            for b in range(len(kinds)):
                factor, unit = factors[b, j], units[b]
                if kinds[b] == PAIRS:
                    for p in range(count):
                        i = at[p]
                        begin = place + i * d - i * (i - 1) // 2 - i
                        for q in range(p, count):
                            k = at[q]
                            both = x[i] * x[k] * (1.0 if q == p else _BESIDE)
                            value = factor * both / unit
                            if adding:
                                out[begin + k] += np.int64(value / grid)
                            else:
                                total += value * value
                    place += d * (d + 1) // 2
                elif kinds[b] == ROW:
                    for p in range(count):
                        value = factor * x[at[p]] / unit
                        if adding:
                            out[place + at[p]] += np.int64(value / grid)
                        else:
                            total += value * value
                    place += d
                else:
                    value = factor / unit
                    if adding:
                        out[place] += np.int64(value / grid)
                    else:
                        total += value * value
                    place += 1
            if not adding and not (total == 0.0 or _LEAST < total < _SURELY_SHORT * norm * norm):
                left[j] = True
                break
