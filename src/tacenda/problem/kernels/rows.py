"""What the compiled kernels are made of: scalar losses by code, and access to one record of a dense
or sparse table.

`rows` is either a C-contiguous array (N, p) or the CSR triple (data, indices, indptr); numba picks
the right body when it compiles, so that every kernel above this file is written once. The CSR
integers come as unsigned views: a signed index might be negative, and the test for that costs more
than the addition behind it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from tacenda._jit import FAST, FAST_BODY, FAST_INNER, njit
from tacenda._prefetch import LINE, prefetch

LONG_LINES = 4  # records of fewer lines of memory are fetched ahead by the processor itself
AT_ONCE = 256  # numbers of a record that are asked for together
IN_ORDER: Any = {**FAST_BODY, "fastmath": {"contract", "nsz"}}  # fused, but nothing reordered

# The codes are those of the classes in losses.py; a test compares the two.
LOGISTIC, HINGE, SMOOTHED_HINGE, SQUARED, HUBER, TABLE = 0, 1, 2, 3, 4, 8
POISSON, NEGATIVE_BINOMIAL, QUANTILE = 9, 10, 11
# Where what a table of pieces holds begins in `numbers` (`problem.pieces` writes it)
LOWEST, HIGHEST, STEEPEST_RISE, OF_MARGIN, SCALE, REACH, PER_UNIT, CELLS, PIECES, HEAD = range(10)


@njit(**FAST_INNER)
def clamped(value: float, low: float, high: float) -> float:
    """value brought to within [low, high]; NaN stays."""
    if value < low:
        return low
    return high if value > high else value


@njit(**FAST_INNER)
def piece_at(numbers: Any, z: float) -> int:
    """Which piece of a table holds z; -1 below all of them, or if z is no number, and the number of
    pieces above them."""
    cells, pieces = int(numbers[CELLS]), int(numbers[PIECES])
    knots = HEAD + cells
    if not z >= numbers[knots]:
        return -1
    if z >= numbers[knots + pieces]:
        return pieces
    cell = int((math.asinh(z / numbers[SCALE]) + numbers[REACH]) * numbers[PER_UNIT])
    cell = 0 if cell < 0 else (cell if cell < cells else cells - 1)
    k = int(numbers[HEAD + cell])
    while z < numbers[knots + k]:
        k -= 1
    while z >= numbers[knots + k + 1]:
        k += 1
    return k


@njit(**FAST_INNER)
def table_slope(numbers: Any, s: float, y: float) -> float:
    """The slope in s of a loss that is a table of cubic pieces: within its bounds whatever the
    table holds; no number where s is none."""
    margin = numbers[OF_MARGIN] > 0.0
    z = y * s if margin else s - y
    if not abs(z) <= math.inf:
        return z
    k, pieces = piece_at(numbers, z), int(numbers[PIECES])
    found = numbers[LOWEST] if k < 0 else numbers[HIGHEST]
    if 0 <= k < pieces:
        knots = HEAD + int(numbers[CELLS])
        c, u = knots + pieces + 1 + 4 * k, z - numbers[knots + k]
        found = numbers[c] + u * (numbers[c + 1] + u * (numbers[c + 2] + u * numbers[c + 3]))
        found = clamped(found, numbers[LOWEST], numbers[HIGHEST])
    return y * found if margin else found


@njit(**FAST_INNER)
def table_curvature(numbers: Any, s: float, y: float) -> float:
    """The second derivative in s of such a loss, from 0 to its bound; one element of it at a
    knot."""
    z = y * s if numbers[OF_MARGIN] > 0.0 else s - y
    k, pieces = piece_at(numbers, z), int(numbers[PIECES])
    if not 0 <= k < pieces:
        return 0.0
    knots = HEAD + int(numbers[CELLS])
    c, u = knots + pieces + 1 + 4 * k, z - numbers[knots + k]
    found = numbers[c + 1] + u * (2.0 * numbers[c + 2] + u * 3.0 * numbers[c + 3])
    return clamped(found, 0.0, numbers[STEEPEST_RISE])


@njit(**FAST_INNER)
def parameter_slope(code: int, numbers: Any, s: float, y: float) -> float:
    """`slope_of` the losses with parameters."""
    if code == SMOOTHED_HINGE:
        return -y * clamped((numbers[1] - y * s) / (2.0 * numbers[0]), 0.0, 1.0)
    if code == HUBER:
        return clamped(s - y, -numbers[0], numbers[0])
    if code == POISSON:
        most, rate = numbers[0], math.exp(s)
        return ((most if rate > most else rate) - clamped(y, 0.0, most)) / most
    if code == NEGATIVE_BINOMIAL:  # numbers: the label bound, the shape r and ln r
        y, r = clamped(y, 0.0, numbers[0]), numbers[1]
        found = (y + r) / (1.0 + r * math.exp(-s)) - y
        return clamped(found, -y, r) / (numbers[0] if numbers[0] > r else r)
    if code == QUANTILE:  # numbers: the level, and the half-width of its smooth kink, 0 for none
        if numbers[1] > 0.0:
            return clamped((s - y + numbers[1]) / (2.0 * numbers[1]), 0.0, 1.0) - numbers[0]
        return 1.0 - numbers[0] if s > y else (-numbers[0] if s < y else 0.0)
    if code == TABLE:
        return table_slope(numbers, s, y)
    return math.nan


@njit(**FAST_INNER)
def logistic_slope(s: float, y: float) -> float:
    """`slope_of` the logistic loss."""
    return -y / (1.0 + math.exp(y * s))


@njit(**FAST_INNER)
def slope_of(code: int, numbers: Any, s: float, y: float) -> float:
    """d loss / d s at score s and label y; `numbers` holds the loss's parameter h and 1 + h, or its
    several parameters, or its table. It is None for a loss without parameters: then what only the
    others need is not compiled."""
    if code == LOGISTIC:
        return logistic_slope(s, y)
    if code == HINGE:
        return -y if y * s < 1.0 else 0.0
    if code == SQUARED:
        return s - y
    if numbers is None:  # the absolute deviation
        return 1.0 if s > y else (-1.0 if s < y else 0.0)
    return parameter_slope(code, numbers, s, y)


@njit(**FAST_INNER)
def parameter_curvature(code: int, numbers: Any, s: float, y: float) -> float:
    """`curvature_of` the losses with parameters."""
    if code == SMOOTHED_HINGE:
        return 1.0 / (2.0 * numbers[0]) if abs(1.0 - y * s) < numbers[0] else 0.0
    if code == HUBER:
        return 1.0 if abs(s - y) < numbers[0] else 0.0
    if code == POISSON:
        rate = math.exp(s)
        return rate / numbers[0] if rate < numbers[0] else 0.0
    if code == NEGATIVE_BINOMIAL:
        small, r = math.exp(-abs(s - numbers[2])), numbers[1]
        bend = small / ((1.0 + small) * (1.0 + small))
        return (clamped(y, 0.0, numbers[0]) + r) * bend / (numbers[0] if numbers[0] > r else r)
    if code == QUANTILE:
        return 1.0 / (2.0 * numbers[1]) if abs(s - y) < numbers[1] else 0.0
    return table_curvature(numbers, s, y) if code == TABLE else 0.0


@njit(**FAST_INNER)
def curvature_of(code: int, numbers: Any, s: float, y: float) -> float:
    """d^2 loss / d s^2 (one element of it where the loss is only once differentiable)."""
    if code == LOGISTIC:
        small = math.exp(-abs(y * s))
        return small / ((1.0 + small) * (1.0 + small))
    if numbers is None:
        return 1.0 if code == SQUARED else 0.0
    return parameter_curvature(code, numbers, s, y)


@njit(**FAST)
def slopes_of(code: int, numbers: Any, scores: Any, labels: Any, out: Any) -> None:
    """out (m,) = `slope_of` for scores (m,) and labels (m,)."""
    for k in range(scores.shape[0]):
        out[k] = slope_of(code, numbers, scores[k], labels[k])


@njit(**FAST)
def curvatures_of(code: int, numbers: Any, scores: Any, labels: Any, out: Any) -> None:
    """out (m,) = `curvature_of` for scores (m,) and labels (m,)."""
    for k in range(scores.shape[0]):
        out[k] = curvature_of(code, numbers, scores[k], labels[k])


def dot(rows: Any, j: int, w: Any, offset: int, width: int) -> Any:
    """x_j . w[offset : offset + width]."""
    raise TypeError("dot is only for compiled code.")


def add(rows: Any, j: int, factor: float, out: Any, offset: int, width: int) -> None:
    """out[offset : offset + width] += factor x_j."""
    raise TypeError("add is only for compiled code.")


def add_records(rows: Any, at: Any, count: int, factors: Any, out: Any) -> None:
    """out += factors[e] x_j, j = at[e], for e = 0 .. count - 1 in this order; to the same bits as
    one `add` after the other."""
    raise TypeError("add_records is only for compiled code.")


@overload(dot, jit_options=FAST_BODY)
def _dot(rows: Any, j: int, w: Any, offset: int, width: int) -> Any:
    is_sparse = isinstance(rows, types.BaseTuple)
    single = w.dtype == types.float32 and (rows[0] if is_sparse else rows).dtype == types.float32
    zero = np.float32(0.0) if single else 0.0

    def dense(rows: Any, j: int, w: Any, offset: int, width: int) -> Any:
        # A slice: offset + k might be negative, which bars SIMD
        x, part = rows[j], w[offset : offset + width]
        total = zero
        for k in range(width):
            total += x[k] * part[k]
        return total

    def sparse(rows: Any, j: int, w: Any, offset: int, width: int) -> Any:
        data, indices, indptr = rows
        part = w[offset : offset + width]
        total = zero
        for t in range(indptr[j], indptr[j + 1]):
            total += data[t] * part[indices[t]]
        return total

    return sparse if is_sparse else dense


def dot_ahead(rows: Any, j: int, ahead: int, w: Any) -> Any:
    """x_j . w, while record `ahead` is fetched, AT_ONCE numbers of each at a time: asked for all at
    once, a long record makes the processor wait. For records of more than AT_ONCE numbers; for
    shorter ones `dot` and `ask_for` are quicker."""
    raise TypeError("dot_ahead is only for compiled code.")


@overload(dot_ahead, jit_options=FAST_BODY)
def _dot_ahead(rows: Any, j: int, ahead: int, w: Any) -> Any:
    is_sparse = isinstance(rows, types.BaseTuple)
    single = w.dtype == types.float32 and (rows[0] if is_sparse else rows).dtype == types.float32
    zero = np.float32(0.0) if single else 0.0

    def dense(rows: Any, j: int, ahead: int, w: Any) -> Any:
        x, p, size, total = rows[j], w.shape[0], rows.itemsize, zero
        for begin in range(0, p, AT_ONCE):
            end = min(begin + AT_ONCE, p)
            for byte in range(begin * size, end * size, LINE):
                prefetch(rows, ahead, byte)
            a, b, part = x[begin:end], w[begin:end], zero
            for k in range(a.shape[0]):
                part += a[k] * b[k]
            total += part
        return total

    def sparse(rows: Any, j: int, ahead: int, w: Any) -> Any:
        return dot(rows, j, w, 0, w.shape[0])

    return sparse if is_sparse else dense


@overload(add, jit_options=FAST_BODY)
def _add(rows: Any, j: int, factor: float, out: Any, offset: int, width: int) -> Any:
    number = np.float32 if out.dtype == types.float32 else np.float64

    def dense(rows: Any, j: int, factor: float, out: Any, offset: int, width: int) -> None:
        x, part, f = rows[j], out[offset : offset + width], number(factor)
        for k in range(width):
            part[k] += f * x[k]

    def sparse(rows: Any, j: int, factor: float, out: Any, offset: int, width: int) -> None:
        data, indices, indptr = rows
        part = out[offset : offset + width]
        for t in range(indptr[j], indptr[j + 1]):
            part[indices[t]] += factor * data[t]

    return sparse if isinstance(rows, types.BaseTuple) else dense


@overload(add_records, jit_options=IN_ORDER)
def _add_records(rows: Any, at: Any, count: int, factors: Any, out: Any) -> Any:
    number = np.float32 if out.dtype == types.float32 else np.float64

    def dense(rows: Any, at: Any, count: int, factors: Any, out: Any) -> None:
        e = 0
        while e + 3 < count:  # four records a pass: `out` is read and written a quarter as often
            a, f = rows[at[e]], number(factors[e])
            b, g = rows[at[e + 1]], number(factors[e + 1])
            c, h = rows[at[e + 2]], number(factors[e + 2])
            d, i = rows[at[e + 3]], number(factors[e + 3])
            for k in range(out.shape[0]):
                out[k] = out[k] + f * a[k] + g * b[k] + h * c[k] + i * d[k]
            e += 4
        while e < count:
            a, f = rows[at[e]], number(factors[e])
            for k in range(out.shape[0]):
                out[k] = out[k] + f * a[k]
            e += 1

    def sparse(rows: Any, at: Any, count: int, factors: Any, out: Any) -> None:
        for e in range(count):
            add(rows, at[e], factors[e], out, 0, out.shape[0])

    return sparse if isinstance(rows, types.BaseTuple) else dense


def ask_for(rows: Any, j: int) -> None:
    """Ask for all of record j, if it is long; those of a sparse table are short."""
    raise TypeError("ask_for is only for compiled code.")


@overload(ask_for, jit_options=FAST_BODY)
def _ask_for(rows: Any, j: int) -> Any:
    def dense(rows: Any, j: int) -> None:
        length = rows.shape[1] * rows.itemsize
        if length >= LONG_LINES * LINE:
            for byte in range(0, length, LINE):
                prefetch(rows, j, byte)

    def sparse(rows: Any, j: int) -> None:
        return

    return sparse if isinstance(rows, types.BaseTuple) else dense


def weight_at(weights: Any, a: int) -> float:
    """weights[a], or the one number that stands for all of them."""
    raise TypeError("weight_at is only for compiled code.")


@overload(weight_at, jit_options=FAST_BODY)
def _weight_at(weights: Any, a: int) -> Any:
    def one(weights: Any, a: int) -> float:
        return weights  # type: ignore[no-any-return]

    def each(weights: Any, a: int) -> float:
        return weights[a]  # type: ignore[no-any-return]

    return each if isinstance(weights, types.Array) else one


def accumulator(rows: Any, w: Any, classes: Any, spare: Any, total: Any) -> Any:
    """Where record gradients are added up: `spare` if that is done in float32 before they move to
    float64, else `total`. So it is done for a loss of one score (classes: None) and a dense
    float32 table at float32 points."""
    raise TypeError("accumulator is only for compiled code.")


@overload(accumulator, jit_options=FAST_BODY)
def _accumulator(rows: Any, w: Any, classes: Any, spare: Any, total: Any) -> Any:
    def other(rows: Any, w: Any, classes: Any, spare: Any, total: Any) -> Any:
        return spare

    def same(rows: Any, w: Any, classes: Any, spare: Any, total: Any) -> Any:
        return total

    single = (
        not isinstance(rows, types.BaseTuple)
        and rows.dtype == types.float32
        and w.dtype == types.float32
        and isinstance(classes, types.NoneType)
    )
    return other if single else same


def flush(part: Any, total: Any) -> None:
    """Move a float32 accumulator into the float64 total and clear it; nothing to do where they are
    one array."""
    raise TypeError("flush is only for compiled code.")


@overload(flush, jit_options=FAST_BODY)
def _flush(part: Any, total: Any) -> Any:
    def move(part: Any, total: Any) -> None:
        for k in range(part.shape[0]):
            total[k] += part[k]
            part[k] = 0.0

    def nothing(part: Any, total: Any) -> None:
        return

    return move if part.dtype == types.float32 else nothing


@njit(**FAST_INNER)
def softmax_minus_label(scores: Any, label: int, temperature: float, less: float) -> float:
    """Turn the K scores of a record into softmax(s) - less e_y in place, and return its l2 norm.

    temperature 0: of the scores as they are. Above 0: of (s_k + 1)/temperature for k other than y
    and s_y/temperature, which asks for a margin.
    """
    if temperature > 0.0:
        for k in range(scores.shape[0]):
            scores[k] = (scores[k] + (0.0 if k == label else 1.0)) / temperature
    top = scores[0]
    for k in range(1, scores.shape[0]):
        top = max(top, scores[k])
    total = 0.0
    for k in range(scores.shape[0]):
        scores[k] = math.exp(scores[k] - top)
        total += scores[k]
    square = 0.0
    for k in range(scores.shape[0]):
        scores[k] = scores[k] / total - (less if k == label else 0.0)
        square += scores[k] * scores[k]
    if not square <= 3.0:  # it is 2 at most: the scores were no numbers, and the record counts as 0
        for k in range(scores.shape[0]):
            scores[k] = 0.0
        return 0.0
    return math.sqrt(square)


@njit(**FAST)
def softmax_minus_labels(scores: Any, labels: Any, temperature: float, less: float) -> None:
    """`softmax_minus_label` of every row of scores (m, K), in place; labels (m,)."""
    for k in range(scores.shape[0]):
        softmax_minus_label(scores[k], labels[k], temperature, less)


@njit(**FAST_INNER)
def sharpness_of(classes: Any, numbers: Any) -> float:
    """What the Hessian diag(q) - q q' of a loss of K scores is multiplied by: 1/temperature; 1 for
    the multinomial loss and for losses of one score."""
    if classes is None:
        return 1.0
    return 1.0 / numbers[0] if numbers[0] > 0.0 else 1.0


@njit(**FAST)
def all_within(numbers: Any, limit: float) -> bool:
    """Whether no entry of numbers (n,) is NaN or larger than `limit` in absolute value."""
    beyond = 0
    for k in range(numbers.shape[0]):
        beyond += not abs(numbers[k]) <= limit
    return beyond == 0
