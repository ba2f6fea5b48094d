"""Compiled rounds: all that a round of dual averaging does, node after node, while a node's numbers
are near the processor; and many rounds in one call.

Each number is computed by the same operations in the same order as by the algorithm's own step, on
queries, door and network: a test compares them, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda._jit import EXACT, EXACT_INNER, njit
from tacenda.privacy.noise.streams import add_sample, lanes_of
from tacenda.problem.kernels.gradient import SINGLES, add_binary
from tacenda.problem.kernels.rows import accumulator, ask_for, flush
from tacenda.runtime.kernels import row_sums

# The places of a round, in the order in which the step asks for them
SAMPLE, RELEASE = 0, 1


@njit(**EXACT_INNER)
def _cut(row: Any, limit: Any, out: Any) -> None:
    """out = row, brought to within the limit; NaN as 0."""
    for j in range(row.shape[0]):
        value = row[j]
        value = limit if value > limit else (-limit if value < -limit else value)
        out[j] = value if abs(value) <= limit else out.dtype.type(0)


@njit(**EXACT)
def dual_averaging(
    turn: int,
    shares: Any,
    factors: Any,
    averaged: Any,
    key: Any,
    nodes: Any,
    std: Any,
    normals: Any,
    rates: Any,
    rows: Any,
    labels: Any,
    weights: Any,
    norms: Any,
    begin: Any,
    sizes: Any,
    code: int,
    numbers: Any,
    clip: float,
    scale: Any,
    indptr: Any,
    columns: Any,
    mixing: Any,
    radius: Any,
    z: Any,
    x: Any,
    total: Any,
) -> Any:
    """Rounds turn, turn + 1, ..., one for each of `factors` (T,): x = factors[t] z; u = z +
    shares[t] (g + noise); z = W u; in place, z, x (b, d). total (b, d) += averaged[t] x, unless it
    has no rows.

    std (T, b) and normals (T, b, d): the noise is their product; without privacy there are none.
    rates (b,): the chance of each record to enter a node's sample; empty for all records, which are
    sizes[i] from begin[i] on. scale (b,): what the sum of the record gradients is multiplied by.
    indptr, columns, mixing: W. radius: where points are cut, and messages must not come to.

    Returns how many records were read, and the round in which a message came to the radius, where
    it stopped; 0 if none did.
    """
    kind, (b, d) = z.dtype.type, z.shape
    sampled, noisy, everyone = rates.shape[0] > 0, std.shape[0] > 0, np.arange(b)
    sent, inside = np.empty_like(z), np.empty_like(z[0])
    double, spare = np.empty(d), np.empty_like(z[0])
    part = accumulator(rows, z, None, spare, double)
    single = part.itemsize < double.itemsize
    at, slopes = np.empty(SINGLES, np.int64), np.empty(SINGLES)
    state, lanes = np.empty(4, np.uint64), lanes_of(key)
    records = np.empty(sizes.sum() if sampled else 0, np.int64)
    first, last, read = begin.copy(), begin + sizes, 0
    for t in range(factors.shape[0]):
        if sampled:
            end = 0
            for i in range(b):
                first[i] = end
                end = add_sample(
                    state, lanes, nodes[i], turn + t, SAMPLE, sizes[i], rates[i], records, end
                )
                last[i] = end
                for k in range(first[i], end):
                    ask_for(rows, begin[i] + records[k])
        factor, share, weight = kind(factors[t]), kind(shares[t]), kind(averaged[t])
        for i in range(b):
            mine, point, out, beyond = z[i], x[i], sent[i], False
            if total.shape[0] > 0 and weight != 0:
                running = total[i]
                for j in range(d):
                    step = mine[j] * factor
                    point[j] = step
                    running[j] += weight * step
                    beyond |= not abs(step) <= radius
            else:
                for j in range(d):
                    step = mine[j] * factor
                    point[j] = step
                    beyond |= not abs(step) <= radius
            asked = point
            if beyond:
                _cut(point, radius, inside)
                asked = inside
            few = single and last[i] - first[i] <= SINGLES
            part[:] = 0.0
            if single and not few:
                double[:] = 0.0
            add_binary(
                rows,
                labels,
                weights,
                norms,
                first[i],
                last[i],
                records,
                begin[i],
                asked,
                code,
                numbers,
                clip,
                at,
                slopes,
                part,
                double,
            )
            read += last[i] - first[i]
            if not few:
                flush(part, double)
                for j in range(d):
                    spare[j] = scale[i] * double[j]
            elif scale[i] != 1.0:
                for j in range(d):
                    spare[j] = scale[i] * float(part[j])
            beyond = False
            if noisy:
                s, noise = std[t, i], normals[t, i]
                for j in range(d):
                    message = share * kind(noise[j] * s + spare[j]) + mine[j]
                    out[j] = message
                    beyond |= not abs(message) <= radius
            else:
                for j in range(d):
                    message = share * spare[j] + mine[j]
                    out[j] = message
                    beyond |= not abs(message) <= radius
            if beyond:
                return read, turn + t
        row_sums(0, b, everyone, indptr, columns, mixing, sent, z)
    return read, 0
