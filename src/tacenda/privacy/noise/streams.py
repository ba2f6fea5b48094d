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
from numba import int64, njit, prange, uint64

# What a stream is used for, part of its name
NORMAL, DIRECTION, RADIUS, RECORDS, EDGE, MASK = 1, 2, 3, 4, 5, 6

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


@njit(cache=True, inline="always")
def _mix(x):  # type: ignore[no-untyped-def]
    x = (x ^ (x >> uint64(33))) * uint64(0xFF51AFD7ED558CCD)
    x = (x ^ (x >> uint64(33))) * uint64(0xC4CEB9FE1A85EC53)
    return x ^ (x >> uint64(33))


@njit(cache=True)
def open_stream(state, key, node, turn, call, purpose):  # type: ignore[no-untyped-def]
    """Fill `state` (4 words) from the stream's name; `key` is two words made from the seed."""
    for lane in range(3):
        h = _mix(key[0] ^ (uint64(0x9E3779B97F4A7C15) * uint64(lane + 1)))
        h = _mix(h ^ key[1])
        h = _mix(h + uint64(0xD1342543DE82EF95) * uint64(node + 1))
        h = _mix(h ^ (uint64(turn) + uint64(0x2545F4914F6CDD1D)))
        h = _mix(h + (uint64(call) << uint64(8)) + uint64(purpose))
        state[lane] = h
    state[3] = uint64(1)
    for _ in range(12):
        next_word(state)


@njit(cache=True, inline="always")
def next_word(s):  # type: ignore[no-untyped-def]
    """One step of SFC64."""
    out = s[0] + s[1] + s[3]
    s[3] += uint64(1)
    s[0] = s[1] ^ (s[1] >> uint64(11))
    s[1] = s[2] + (s[2] << uint64(3))
    s[2] = ((s[2] << uint64(24)) | (s[2] >> uint64(40))) + out
    return out


@njit(cache=True, inline="always")
def uniform(s):  # type: ignore[no-untyped-def]
    """A double strictly inside (0, 1)."""
    return (float(int64(next_word(s) >> uint64(12))) + 0.5) * 2.220446049250313e-16


@njit(cache=True)
def _edge_cases(s, layer, x):  # type: ignore[no-untyped-def]
    """The rare part of the ziggurat: the tail, and the wedge of a layer;
    answers (accepted, value)."""
    if layer == uint64(_LAYERS - 1):
        while True:
            a = -math.log(uniform(s)) / _EDGE
            if -2.0 * math.log(uniform(s)) > a * a:
                return True, math.copysign(_EDGE + a, x)
    low, high = _HEIGHT[layer + uint64(1)], _HEIGHT[layer]
    return low + uniform(s) * (high - low) < math.exp(-0.5 * x * x), x


@njit(cache=True)
def _unsure_normal(s, word):  # type: ignore[no-untyped-def]
    """The normal that begins with `word`, which one draw in eighty leaves open; words after it come
    from the stream."""
    while True:
        layer = word & uint64(0xFF)
        step = int64(word >> uint64(12))
        x = float(step) * _SIGNED_WIDTH[word & uint64(0x1FF)]
        if step < _SURE[layer]:
            return x
        accepted, value = _edge_cases(s, layer, x)
        if accepted:
            return value
        word = next_word(s)


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
def _release_row(i, key, node, turn, call, core, f, offset, s, out):  # type: ignore[no-untyped-def]
    state = np.empty(4, np.uint64)
    open_stream(state, key, node, turn, call, NORMAL)
    fill_normal(state, out[i])
    if offset.shape[0] > 0:
        for j in range(out.shape[1]):
            out[i, j] = out[i, j] * s + f * core[i, j] + offset[i, j]
    else:
        for j in range(out.shape[1]):
            out[i, j] = out[i, j] * s + f * core[i, j]


@njit(parallel=True, cache=True)
def release_normal(  # type: ignore[no-untyped-def]
    key, nodes, turn, call, core, factor, offset, std, out
):
    """out = factor * core + offset + std * normal, row by row: one pass over the memory. offset may
    have no rows."""
    for i in prange(nodes.shape[0]):
        _release_row(i, key, nodes[i], turn, call, core, factor[i], offset, std[i], out)


@njit(cache=True, nogil=True)
def release_normal_few(  # type: ignore[no-untyped-def]
    key, nodes, turn, call, core, factor, offset, std, out
):
    """The same bits without threads,
    whose mere start costs more than a small block's noise saves."""
    for i in range(nodes.shape[0]):
        _release_row(i, key, nodes[i], turn, call, core, factor[i], offset, std[i], out)


@njit(parallel=True, cache=True)
def edge_normals(key, indptr, edges, signs, turn, call, out):  # type: ignore[no-untyped-def]
    """out[i] = sum over the edges of row i of sign * (the edge's normals);
    both ends draw the same stream."""
    d = out.shape[1]
    for i in prange(out.shape[0]):
        state, row = np.empty(4, np.uint64), np.empty(d)
        out[i] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            open_stream(state, key, edges[k], turn, call, EDGE)
            fill_normal(state, row)
            for j in range(d):
                out[i, j] += signs[k] * row[j]


@njit(parallel=True, cache=True)
def edge_words(key, indptr, edges, signs, turn, call, out):  # type: ignore[no-untyped-def]
    """out[i] = sum modulo 2^64 over the edges of row i of sign * (the edge's words)."""
    for i in prange(out.shape[0]):
        state = np.empty(4, np.uint64)
        for j in range(out.shape[1]):
            out[i, j] = uint64(0)
        for k in range(indptr[i], indptr[i + 1]):
            open_stream(state, key, edges[k], turn, call, MASK)
            for j in range(out.shape[1]):
                word = next_word(state)
                if signs[k] > 0:
                    out[i, j] += word
                else:
                    out[i, j] -= word


@njit(parallel=True, cache=True)
def l2_laplace(key, nodes, turn, call, rate, out):  # type: ignore[no-untyped-def]
    """Rows with density proportional to exp(-rate |e|):
    a uniform direction times a Gamma(d, 1/rate) length."""
    d = out.shape[1]
    for i in prange(nodes.shape[0]):
        state = np.empty(4, np.uint64)
        open_stream(state, key, nodes[i], turn, call, DIRECTION)
        fill_normal(state, out[i])
        square = 0.0
        for j in range(d):
            square += out[i, j] * out[i, j]
        open_stream(state, key, nodes[i], turn, call, RADIUS)
        scale = gamma(state, float(d)) / (rate[i] * math.sqrt(square))
        for j in range(d):
            out[i, j] *= scale


@njit(cache=True)
def poisson_records(key, nodes, turn, call, sizes, rates):  # type: ignore[no-untyped-def]
    """Each record of node i enters with probability rates[i], independently:
    (indptr (b + 1,), record numbers)."""
    b = nodes.shape[0]
    indptr = np.zeros(b + 1, np.int64)
    records = np.empty(0, np.int64)
    state = np.empty(4, np.uint64)
    for fill in range(2):  # count, then write: the same stream twice
        if fill == 1:
            records = np.empty(indptr[b], np.int64)
        for i in range(b):
            open_stream(state, key, nodes[i], turn, call, RECORDS)
            found = 0
            at = -1.0
            log_miss = math.log1p(-rates[i]) if rates[i] < 1.0 else -math.inf
            while True:
                skip = 0.0 if rates[i] >= 1.0 else math.floor(math.log(uniform(state)) / log_miss)
                at += 1.0 + skip
                if at >= sizes[i]:
                    break
                if fill == 1:
                    records[indptr[i] + found] = int(at)
                found += 1
            if fill == 0:
                indptr[i + 1] = indptr[i] + found
    return indptr, records


@njit(cache=True)
def one_record(key, nodes, turn, call, sizes):  # type: ignore[no-untyped-def]
    """Exactly one record of each node, uniformly: (indptr, record numbers),
    as Liu et al. (2022) do."""
    b = nodes.shape[0]
    records = np.empty(b, np.int64)
    state = np.empty(4, np.uint64)
    for i in range(b):
        open_stream(state, key, nodes[i], turn, call, RECORDS)
        records[i] = min(int(uniform(state) * sizes[i]), sizes[i] - 1)
    return np.arange(b + 1), records
