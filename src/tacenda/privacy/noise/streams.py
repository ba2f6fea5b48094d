"""Counter-based random streams for simulations: every (seed, node, round, call) names its own
stream.

No generator object exists per node: a stream's starting state is a hash of its name, so any block
of nodes draws the same numbers for its nodes, in any order and on any number of threads, and a
resumed run draws what the unbroken one would have. The generator is SFC64 (256 bits of state);
normals are Marsaglia-Tsang ziggurat with 256 layers on 52-bit uniforms, and the tail beyond 3.65 is
drawn exactly, so nothing is cut off.

Statistical quality, not secrecy: these streams are for simulation. A real node draws from
`privacy.noise.discrete` instead.
"""

from __future__ import annotations

import math

import numpy as np
from numba import int64, uint64

from tacenda._jit import EXACT, EXACT_INNER, njit

# What a stream is used for, part of its name
NORMAL, DIRECTION, RADIUS, RECORDS, EDGE, MASK = (np.uint64(k) for k in range(1, 7))

_LAYERS = 256
# right edge of the lowest box: the root that makes 256 layers of equal area fit
_EDGE = 3.6541528853610088
_AREA = 0.00492867323399141  # the area of each layer
_STEPS = float(1 << 52)


def _ziggurat() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Widths (per 2^-52 step), acceptance thresholds and heights of the layers."""
    x = np.empty(_LAYERS + 1)
    x[_LAYERS] = _AREA / math.exp(-0.5 * _EDGE**2)
    x[_LAYERS - 1] = _EDGE
    for k in range(_LAYERS - 2, 0, -1):
        x[k] = math.sqrt(-2.0 * math.log(_AREA / x[k + 1] + math.exp(-0.5 * x[k + 1] ** 2)))
        # The layer above the base rests on the edge, not on the base's virtual width
        if k == _LAYERS - 2:
            x[k] = math.sqrt(-2.0 * math.log(_AREA / _EDGE + math.exp(-0.5 * _EDGE**2)))
    x[0] = 0.0
    outer = x[1:]  # outer[k] is the width of layer k, x[k] the part of it surely below the curve
    thresholds = np.floor(x[:-1] / outer * _STEPS).astype(np.int64)
    return outer / _STEPS, thresholds, np.exp(-0.5 * x**2)


_WIDTH, _SURE, _HEIGHT = _ziggurat()
_HEIGHT[_LAYERS] = 0.0
# By layer and sign, nine bits of a word
_SIGNED_WIDTH = np.concatenate([_WIDTH, -_WIDTH])
_SIGNED_SURE = np.concatenate([_SURE, _SURE])


@njit(**EXACT_INNER)
def _mix(x):  # type: ignore[no-untyped-def]
    x = (x ^ (x >> uint64(33))) * uint64(0xFF51AFD7ED558CCD)
    x = (x ^ (x >> uint64(33))) * uint64(0xC4CEB9FE1A85EC53)
    return x ^ (x >> uint64(33))


@njit(**EXACT_INNER)
def _step(a, b, c, count):  # type: ignore[no-untyped-def]
    """One step of SFC64: the state after it, and its word."""
    word = a + b + count
    rotated = (c << uint64(24)) | (c >> uint64(40))
    return b ^ (b >> uint64(11)), c + (c << uint64(3)), rotated + word, count + uint64(1), word


@njit(**EXACT_INNER)
def next_word(s):  # type: ignore[no-untyped-def]
    """The next word of the stream."""
    s[0], s[1], s[2], s[3], word = _step(s[0], s[1], s[2], s[3])
    return word


@njit(**EXACT_INNER)
def lanes_of(key):  # type: ignore[no-untyped-def]
    """What all streams begin with: three words of `key`, two words made from the seed."""
    return (
        _mix(_mix(key[0] ^ uint64(0x9E3779B97F4A7C15)) ^ key[1]),
        _mix(_mix(key[0] ^ (uint64(0x9E3779B97F4A7C15) * uint64(2))) ^ key[1]),
        _mix(_mix(key[0] ^ (uint64(0x9E3779B97F4A7C15) * uint64(3))) ^ key[1]),
    )


@njit(**EXACT_INNER)
def _named(h, node, turn, call, purpose):  # type: ignore[no-untyped-def]
    h = _mix(h + uint64(0xD1342543DE82EF95) * uint64(node + 1))
    h = _mix(h ^ (uint64(turn) + uint64(0x2545F4914F6CDD1D)))
    return _mix(h + (uint64(call) << uint64(8)) + purpose)


@njit(**EXACT_INNER)
def open_stream(state, lanes, node, turn, call, purpose):  # type: ignore[no-untyped-def]
    """Fill `state` (4 words) from the stream's name, and step over the first 12 words; all in
    registers."""
    a = _named(lanes[0], node, turn, call, purpose)
    b = _named(lanes[1], node, turn, call, purpose)
    c = _named(lanes[2], node, turn, call, purpose)
    count = uint64(1)
    for _ in range(12):
        a, b, c, count, _word = _step(a, b, c, count)
    state[0], state[1], state[2], state[3] = a, b, c, count


@njit(**EXACT_INNER)
def uniform(s):  # type: ignore[no-untyped-def]
    """A double strictly inside (0, 1)."""
    return (float(int64(next_word(s) >> uint64(12))) + 0.5) * 2.220446049250313e-16


@njit(**EXACT_INNER)
def _unsure_normal(s, word):  # type: ignore[no-untyped-def]
    """The normal that begins with `word`, which one draw in eighty leaves open: in the tail, or in
    the wedge of a layer; words after it come from the stream."""
    while True:
        layer = word & uint64(0xFF)
        step = int64(word >> uint64(12))
        x = float(step) * _SIGNED_WIDTH[word & uint64(0x1FF)]
        if step < _SURE[layer]:
            return x
        if layer == uint64(_LAYERS - 1):
            while True:
                a = -math.log(uniform(s)) / _EDGE
                if -2.0 * math.log(uniform(s)) > a * a:
                    return math.copysign(_EDGE + a, x)
        low, high = _HEIGHT[layer + uint64(1)], _HEIGHT[layer]
        if low + uniform(s) * (high - low) < math.exp(-0.5 * x * x):
            return x
        word = next_word(s)


@njit(**EXACT_INNER)
def fill_normal(s, row):  # type: ignore[no-untyped-def]
    """Standard normals into `row`. The state lives in registers here: writing it back at each draw
    costs half the time."""
    a, b, c, count = s[0], s[1], s[2], s[3]
    for j in range(row.shape[0]):
        word = a + b + count
        count += uint64(1)
        a = b ^ (b >> uint64(11))
        b = c + (c << uint64(3))
        c = ((c << uint64(24)) | (c >> uint64(40))) + word
        layer = word & uint64(0x1FF)  # with the sign's bit
        step = int64(word >> uint64(12))
        row[j] = float(step) * _SIGNED_WIDTH[layer]
        if step >= _SIGNED_SURE[layer]:
            s[0], s[1], s[2], s[3] = a, b, c, count
            row[j] = _unsure_normal(s, word)
            a, b, c, count = s[0], s[1], s[2], s[3]
    s[0], s[1], s[2], s[3] = a, b, c, count


@njit(**EXACT_INNER)
def gamma(s, shape):  # type: ignore[no-untyped-def]
    """A Gamma(shape, 1) variate for shape >= 1 (Marsaglia and Tsang)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    one = np.empty(1)
    while True:
        fill_normal(s, one)
        x = one[0]
        v = (1.0 + c * x) ** 3
        if v > 0 and math.log(uniform(s)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v


# What follows takes a range of rows, first .. last - 1, of nodes (b,) and of out (b, d).


@njit(**EXACT)
def release_normal(  # type: ignore[no-untyped-def]
    first, last, key, nodes, turn, call, core, factor, offset, std, out
):
    """out = factor * core + offset + std * normal, row by row: one pass over the memory. offset may
    have no rows."""
    state, lanes = np.empty(4, np.uint64), lanes_of(key)
    for i in range(first, last):
        row, mine, f, s = out[i], core[i], factor[i], std[i]
        open_stream(state, lanes, nodes[i], turn, call, NORMAL)
        fill_normal(state, row)
        if offset.shape[0] > 0:
            add = offset[i]
            for j in range(row.shape[0]):
                row[j] = row[j] * s + f * mine[j] + add[j]
        else:
            for j in range(row.shape[0]):
                row[j] = row[j] * s + f * mine[j]


@njit(**EXACT)
def edge_normals(  # type: ignore[no-untyped-def]
    first, last, key, indptr, edges, signs, turn, call, out
):
    """out[i] = sum over the edges of row i of sign * (the edge's normals);
    both ends draw the same stream."""
    state, row, lanes = np.empty(4, np.uint64), np.empty(out.shape[1]), lanes_of(key)
    for i in range(first, last):
        total = out[i]
        total[:] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            open_stream(state, lanes, edges[k], turn, call, EDGE)
            fill_normal(state, row)
            for j in range(row.shape[0]):
                total[j] += signs[k] * row[j]


@njit(**EXACT)
def edge_words(  # type: ignore[no-untyped-def]
    first, last, key, indptr, edges, signs, turn, call, out
):
    """out[i] = sum modulo 2^64 over the edges of row i of sign * (the edge's words)."""
    state, lanes = np.empty(4, np.uint64), lanes_of(key)
    for i in range(first, last):
        total = out[i]
        total[:] = uint64(0)
        for k in range(indptr[i], indptr[i + 1]):
            open_stream(state, lanes, edges[k], turn, call, MASK)
            for j in range(total.shape[0]):
                word = next_word(state)
                total[j] += word if signs[k] > 0 else uint64(0) - word


@njit(**EXACT)
def l2_laplace(first, last, key, nodes, turn, call, rate, out):  # type: ignore[no-untyped-def]
    """Rows with density proportional to exp(-rate |e|):
    a uniform direction times a Gamma(d, 1/rate) length."""
    state, lanes = np.empty(4, np.uint64), lanes_of(key)
    for i in range(first, last):
        row = out[i]
        open_stream(state, lanes, nodes[i], turn, call, DIRECTION)
        fill_normal(state, row)
        square = 0.0
        for j in range(row.shape[0]):
            square += row[j] * row[j]
        open_stream(state, lanes, nodes[i], turn, call, RADIUS)
        scale = gamma(state, float(row.shape[0])) / (rate[i] * math.sqrt(square))
        for j in range(row.shape[0]):
            row[j] *= scale


@njit(**EXACT_INNER)
def add_sample(  # type: ignore[no-untyped-def]
    state, lanes, node, turn, call, size, rate, records, end
):
    """A Poisson sample of the `size` records of a node, each with chance `rate`: their numbers are
    records[end], records[end + 1], ... from here on; where they end. Without room they are only
    counted."""
    open_stream(state, lanes, node, turn, call, RECORDS)
    write, at = records.shape[0] > 0, -1.0
    log_miss = math.log1p(-rate) if rate < 1.0 else -math.inf
    while True:
        skip = 0.0 if rate >= 1.0 else np.floor(math.log(uniform(state)) / log_miss)
        at += 1.0 + skip
        if at >= size:
            return end
        if write:
            records[end] = int(at)
        end += 1


@njit(**EXACT)
def poisson_records(  # type: ignore[no-untyped-def]
    first, last, key, nodes, turn, call, sizes, rates, indptr, records
):
    """Each record of node i enters with probability rates[i], independently: their numbers go to
    records[indptr[i] : indptr[i + 1]]. With `records` empty they are only counted, into
    indptr[i + 1]: the same stream twice."""
    state, lanes, write = np.empty(4, np.uint64), lanes_of(key), records.shape[0] > 0
    for i in range(first, last):
        begin = indptr[i] if write else 0
        end = add_sample(state, lanes, nodes[i], turn, call, sizes[i], rates[i], records, begin)
        if not write:
            indptr[i + 1] = end


@njit(**EXACT)
def one_record(  # type: ignore[no-untyped-def]
    first, last, key, nodes, turn, call, sizes, records
):
    """Exactly one record of each node, uniformly, into records (b,), as Liu et al. (2022) do."""
    state, lanes = np.empty(4, np.uint64), lanes_of(key)
    for i in range(first, last):
        open_stream(state, lanes, nodes[i], turn, call, RECORDS)
        records[i] = min(int(uniform(state) * sizes[i]), sizes[i] - 1)
