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
from numba import njit, types
from numba.extending import overload

# Sums may be reordered and fused; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "arcp", "nsz"}
OPTIONS: dict[str, Any] = {"fastmath": FAST, "cache": True, "nogil": True, "error_model": "numpy"}
PARALLEL: dict[str, Any] = {"parallel": True, **OPTIONS}
INNER: Any = {"fastmath": FAST, "error_model": "numpy"}

# The codes are those of the classes in losses.py; a test compares the two.
LOGISTIC, HINGE, SMOOTHED_HINGE, SQUARED, HUBER, ABSOLUTE, TABLE = 0, 1, 2, 3, 4, 5, 8
POISSON, NEGATIVE_BINOMIAL, QUANTILE = 9, 10, 11
# Where what a table of pieces holds begins in `numbers` (`problem.pieces` writes it)
LOWEST, HIGHEST, STEEPEST_RISE, OF_MARGIN, SCALE, REACH, PER_UNIT, CELLS, PIECES, HEAD = range(10)


@njit(**OPTIONS)
def piece_at(numbers: Any, z: float) -> int:
    """Which piece of a table holds z; -1 below all of them, or if z is no number, and the number of
    pieces above them."""
    cells, pieces = int(numbers[CELLS]), int(numbers[PIECES])
    knots = numbers[HEAD + cells : HEAD + cells + pieces + 1]
    if not z >= knots[0]:
        return -1
    if z >= knots[pieces]:
        return pieces
    cell = int((math.asinh(z / numbers[SCALE]) + numbers[REACH]) * numbers[PER_UNIT])
    k = int(numbers[HEAD + min(max(cell, 0), cells - 1)])
    while z < knots[k]:
        k -= 1
    while z >= knots[k + 1]:
        k += 1
    return k


@njit(**OPTIONS)
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
        at = HEAD + int(numbers[CELLS])
        c = numbers[at + pieces + 1 + 4 * k : at + pieces + 5 + 4 * k]
        u = z - numbers[at + k]
        found = c[0] + u * (c[1] + u * (c[2] + u * c[3]))
        found = min(max(found, numbers[LOWEST]), numbers[HIGHEST])
    return y * found if margin else found


@njit(**OPTIONS)
def table_curvature(numbers: Any, s: float, y: float) -> float:
    """The second derivative in s of such a loss, from 0 to its bound; one element of it at a
    knot."""
    z = y * s if numbers[OF_MARGIN] > 0.0 else s - y
    k, pieces = piece_at(numbers, z), int(numbers[PIECES])
    if not 0 <= k < pieces:
        return 0.0
    at = HEAD + int(numbers[CELLS])
    c = numbers[at + pieces + 1 + 4 * k : at + pieces + 5 + 4 * k]
    u = z - numbers[at + k]
    return min(max(c[1] + u * (2.0 * c[2] + u * 3.0 * c[3]), 0.0), numbers[STEEPEST_RISE])


@njit(**OPTIONS)
def negative_binomial_slope(numbers: Any, s: float, y: float) -> float:
    """The slope of the negative binomial loss: numbers holds the label bound, the shape r and
    ln r."""
    y, r = min(max(y, 0.0), numbers[0]), numbers[1]
    found = (y + r) / (1.0 + r * math.exp(-s)) - y
    return min(max(found, -y), r) / max(numbers[0], r)


@njit(**OPTIONS)
def quantile_slope(numbers: Any, s: float, y: float) -> float:
    """The slope of the pinball loss: numbers holds the level, and the half-width over which the
    kink is smoothed, 0 for none."""
    level, h, u = numbers[0], numbers[1], s - y
    if h > 0.0:
        return min(max((u + h) / (2.0 * h), 0.0), 1.0) - level
    return 1.0 - level if u > 0.0 else (-level if u < 0.0 else 0.0)


@njit(**OPTIONS)
def slope_of(code: int, numbers: Any, s: float, y: float) -> float:
    """d loss / d s at score s and label y; `numbers` holds the loss's parameter h and
    1 + h, or its several parameters, or its table."""
    if code == LOGISTIC:
        return -y / (1.0 + math.exp(y * s))
    if code == HINGE:
        return -y if y * s < 1.0 else 0.0
    if code == SMOOTHED_HINGE:
        return -y * min(max((numbers[1] - y * s) / (2.0 * numbers[0]), 0.0), 1.0)
    if code == SQUARED:
        return s - y
    if code == HUBER:
        return min(max(s - y, -numbers[0]), numbers[0])
    if code == TABLE:
        return table_slope(numbers, s, y)
    if code == POISSON:
        most = numbers[0]
        return (min(math.exp(s), most) - min(max(y, 0.0), most)) / most
    if code == NEGATIVE_BINOMIAL:
        return negative_binomial_slope(numbers, s, y)
    if code == QUANTILE:
        return quantile_slope(numbers, s, y)
    return 1.0 if s > y else (-1.0 if s < y else 0.0)


@njit(**OPTIONS)
def curvature_of(code: int, numbers: Any, s: float, y: float) -> float:
    """d^2 loss / d s^2 (one element of it where the loss is only once differentiable)."""
    if code == LOGISTIC:
        small = math.exp(-abs(y * s))
        return small / ((1.0 + small) * (1.0 + small))
    if code == SMOOTHED_HINGE:
        return 1.0 / (2.0 * numbers[0]) if abs(1.0 - y * s) < numbers[0] else 0.0
    if code == HUBER:
        return 1.0 if abs(s - y) < numbers[0] else 0.0
    if code == TABLE:
        return table_curvature(numbers, s, y)
    if code == POISSON:
        rate = math.exp(s)
        return rate / numbers[0] if rate < numbers[0] else 0.0
    if code == NEGATIVE_BINOMIAL:
        small, r = math.exp(-abs(s - numbers[2])), numbers[1]
        bend = small / ((1.0 + small) * (1.0 + small))
        return (min(max(y, 0.0), numbers[0]) + r) * bend / max(numbers[0], r)
    if code == QUANTILE:
        return 1.0 / (2.0 * numbers[1]) if abs(s - y) < numbers[1] else 0.0
    return 1.0 if code == SQUARED else 0.0


@njit(**OPTIONS)
def slopes_of(code: int, numbers: Any, scores: Any, labels: Any) -> Any:
    """(m,) `slope_of` for scores (m,) and labels (m,)."""
    found = np.empty(scores.shape[0])
    for k in range(scores.shape[0]):
        found[k] = slope_of(code, numbers, scores[k], labels[k])
    return found


@njit(**OPTIONS)
def curvatures_of(code: int, numbers: Any, scores: Any, labels: Any) -> Any:
    """(m,) `curvature_of` for scores (m,) and labels (m,)."""
    found = np.empty(scores.shape[0])
    for k in range(scores.shape[0]):
        found[k] = curvature_of(code, numbers, scores[k], labels[k])
    return found


def dot(rows: Any, j: int, w: Any, offset: int, width: int) -> Any:
    """x_j . w[offset : offset + width]."""
    raise TypeError("dot is only for compiled code.")


def add(rows: Any, j: int, factor: float, out: Any, offset: int, width: int) -> None:
    """out[offset : offset + width] += factor x_j."""
    raise TypeError("add is only for compiled code.")


@overload(dot, jit_options=INNER)
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


@overload(add, jit_options=INNER)
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


def weight_at(weights: Any, a: int) -> float:
    """weights[a], or the one number that stands for all of them."""
    raise TypeError("weight_at is only for compiled code.")


@overload(weight_at, jit_options=INNER)
def _weight_at(weights: Any, a: int) -> Any:
    def one(weights: Any, a: int) -> float:
        return weights  # type: ignore[no-any-return]

    def each(weights: Any, a: int) -> float:
        return weights[a]  # type: ignore[no-any-return]

    return each if isinstance(weights, types.Array) else one


def accumulator(rows: Any, w: Any, out: Any) -> Any:
    """Where record gradients are added up: `out` itself, or a float32 vector for a dense float32
    table and state.

    A caller that gives a float32 `out` has few records, and wants them in it.
    """
    raise TypeError("accumulator is only for compiled code.")


def flush(part: Any, out: Any) -> None:
    """Move a float32 accumulator into the float64 `out` and clear it;
    nothing to do where they are one array."""
    raise TypeError("flush is only for compiled code.")


@overload(accumulator, jit_options=INNER)
def _accumulator(rows: Any, w: Any, out: Any) -> Any:
    def single(rows: Any, w: Any, out: Any) -> Any:
        return np.zeros(out.shape[0], np.float32)

    def same(rows: Any, w: Any, out: Any) -> Any:
        return out

    dense = not isinstance(rows, types.BaseTuple)
    all_single = dense and rows.dtype == types.float32 and w.dtype == types.float32
    return single if all_single and out.dtype == types.float64 else same


@overload(flush, jit_options=INNER)
def _flush(part: Any, out: Any) -> Any:
    def move(part: Any, out: Any) -> None:
        for k in range(part.shape[0]):
            out[k] += part[k]
            part[k] = 0.0

    def nothing(part: Any, out: Any) -> None:
        return

    return move if part.dtype == types.float32 and out.dtype == types.float64 else nothing


def adds_in_single(rows: Any, w: Any) -> bool:
    """Whether `accumulator` adds up in float32 before it moves to float64."""
    raise TypeError("adds_in_single is only for compiled code.")


@overload(adds_in_single, jit_options=INNER)
def _adds_in_single(rows: Any, w: Any) -> Any:
    found = (
        not isinstance(rows, types.BaseTuple)
        and rows.dtype == types.float32
        and w.dtype == types.float32
    )

    def answer(rows: Any, w: Any) -> bool:
        return found

    return answer


@njit(**OPTIONS)
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


@njit(**OPTIONS)
def softmax_minus_labels(scores: Any, labels: Any, temperature: float, less: float) -> None:
    """`softmax_minus_label` of every row of scores (m, K), in place; labels (m,)."""
    for k in range(scores.shape[0]):
        softmax_minus_label(scores[k], labels[k], temperature, less)


@njit(**OPTIONS)
def sharpness_of(classes: int, numbers: Any) -> float:
    """What the Hessian diag(q) - q q' of a loss of K scores is multiplied by: 1/temperature; 1 for
    the multinomial loss and for losses of one score."""
    return 1.0 / numbers[0] if classes > 1 and numbers[0] > 0.0 else 1.0


@njit(**OPTIONS)
def all_within(numbers: Any, limit: float) -> bool:
    """Whether no entry of numbers (n,) is NaN or larger than `limit` in absolute value."""
    beyond = 0
    for k in range(numbers.shape[0]):
        beyond += not abs(numbers[k]) <= limit
    return beyond == 0
