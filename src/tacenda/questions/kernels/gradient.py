"""Compiled gradients of all hosted nodes, each at its own point.

The work is a list of tasks: task t covers the records first[t] .. last[t] - 1 of row k = owner[t]
of the block. How a node is cut into tasks depends on that node alone, so its result is the same bit
for bit in whichever block it is hosted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from tacenda._jit import FAST, FAST_BODY, FAST_INNER, njit
from tacenda.losses.compiled import slope_of, softmax_minus_label
from tacenda.losses.logistic import Logistic
from tacenda.questions.kernels.rows import (
    AT_ONCE,
    accumulator,
    add,
    add_records,
    ask_for,
    dot,
    dot_ahead,
    flush,
    weight_at,
)

SINGLES = 32  # so many float32 gradients are added in float32 before they move to float64
NEAR = 1 << 12  # so many numbers of the table stay near the processor between two looks at them
# No slope is steeper: it is no number, or the residual of a loss without a bound, and its record
# counts as 0. With the declared numbers inside `constants.SENSIBLE`, no product, factor or sum
# behind it can overflow, in float32 neither.
STEEPEST = 1e30
LOGISTIC, logistic_slope = Logistic.code, Logistic.slope_at  # the commonest loss: a loop of its own
TOP = 1 << 62  # where a sum of whole numbers stops


@njit(**FAST_INNER)
def shrink(size: float, norm: float, clip: float) -> float:
    """The factor which brings a gradient of norm size * norm down to at most `clip`; 0 where that
    norm is no number."""
    length = size * norm
    if length > clip:
        return clip / length
    return 1.0 if length <= clip else 0.0


@njit(**FAST_INNER)
def whole(value: float, most: float) -> Any:
    """`value` rounded toward zero and brought to within `most` < 2^62, NaN too (which no record
    gives: see STEEPEST)."""
    value = value if value > -most else -most
    return np.int64(value if value < most else most)


@njit(**FAST_INNER)
def held(total: int) -> int:
    """`total` brought to within +-TOP."""
    if total > TOP:
        return TOP
    return total if total > -TOP else -TOP


@njit(**FAST_INNER)
def tame(slope: float) -> float:
    """The slope, or 0 if it is too steep."""
    return slope if abs(slope) <= STEEPEST else 0.0


@njit(**FAST_INNER)
def slope_at(
    labels: Any,
    weights: Any,
    norms: Any,
    j: int,
    score: float,
    code: int,
    numbers: Any,
    clip: float,
) -> float:
    """The number whose product with x_j is the (clipped) loss gradient of record j, times the
    record's weight, for a loss of one score."""
    c = tame(slope_of(code, numbers, score, labels[j]))
    if clip < math.inf:
        c *= shrink(abs(c), norms[j], clip)
    return c * weight_at(weights, j)  # at most 1: it lengthens nothing


@njit(**FAST_INNER)
def slopes_at(
    labels: Any,
    weights: Any,
    norms: Any,
    at: Any,
    count: int,
    code: int,
    numbers: Any,
    clip: float,
    slopes: Any,
) -> None:
    """slopes[e], the score of record at[e], becomes its `slope_at`, for e = 0 .. count - 1; a plain
    loop for each choice, so that no record waits for one."""
    if code == LOGISTIC:
        for e in range(count):
            slopes[e] = logistic_slope(None, slopes[e], labels[at[e]])
    else:
        for e in range(count):
            slopes[e] = slope_of(code, numbers, slopes[e], labels[at[e]])
    for e in range(count):
        slopes[e] = tame(slopes[e])
    if clip < math.inf:
        for e in range(count):
            slopes[e] *= shrink(abs(slopes[e]), norms[at[e]], clip)
    for e in range(count):
        slopes[e] *= weight_at(weights, at[e])


@njit(**FAST_INNER, inline="always")
def add_binary(
    rows: Any,
    labels: Any,
    weights: Any,
    norms: Any,
    first: int,
    last: int,
    records: Any,
    base: int,
    w: Any,
    code: int,
    numbers: Any,
    clip: float,
    at: Any,
    slopes: Any,
    part: Any,
    total: Any,
) -> None:
    """part += sum of the (clipped) loss gradients at w of the records of a range, each times its
    weight, for a loss of one score. weights: (N,) numbers from 0 to 1, or the number 1.

    A few records at a time, with at (SINGLES,) int64 and slopes (SINGLES,) to note them in: their
    scores, their slopes, and their sum while they are near and the next ones come. A float32 `part`
    moves to `total` in between.
    """
    p, begin, step, listed = part.shape[0], first, SINGLES, records.shape[0] > 0
    while step > 4 and step * p > NEAR:  # `add_records` takes four at a time
        step >>= 1
    while begin < last:
        count = step if begin + step < last else last - begin
        if p <= AT_ONCE:
            for e in range(count):
                at[e] = base + records[begin + e] if listed else begin + e
                slopes[e] = dot(rows, at[e], w, 0, p)
                if not listed:
                    ask_for(rows, at[e] + step)
                elif begin + e + step < last:
                    ask_for(rows, base + records[begin + e + step])
        else:
            for e in range(count):
                at[e] = base + records[begin + e] if listed else begin + e
                ahead = begin + e + step
                if listed:  # past the end: one that is there
                    ahead = base + records[ahead if ahead < last else last - 1]
                slopes[e] = dot_ahead(rows, at[e], ahead, w)
        slopes_at(labels, weights, norms, at, count, code, numbers, clip, slopes)
        add_records(rows, at, count, slopes, part)
        begin += count
        if begin < last and (begin - first) & (SINGLES - 1) == 0:
            flush(part, total)


@njit(**FAST_INNER)
def class_slopes(
    rows: Any,
    labels: Any,
    weights: Any,
    norms: Any,
    j: int,
    w: Any,
    numbers: Any,
    clip: float,
    scores: Any,
) -> None:
    """scores (K,) = the numbers whose products with x_j are the (clipped) gradients of record j,
    times its weight, of a loss of K scores: softmax(s) - e_y, of scores with the loss's margin and
    temperature."""
    p = w.shape[0] // scores.shape[0]
    for k in range(scores.shape[0]):
        scores[k] = dot(rows, j, w, k * p, p)
    size = softmax_minus_label(scores, int(labels[j]), numbers[0], 1.0)
    factor = shrink(size, norms[j], clip) if clip < math.inf else 1.0
    factor *= weight_at(weights, j)
    for k in range(scores.shape[0]):
        scores[k] *= factor


@njit(**FAST_INNER)
def add_classes(
    rows: Any,
    labels: Any,
    weights: Any,
    norms: Any,
    first: int,
    last: int,
    records: Any,
    base: int,
    w: Any,
    numbers: Any,
    clip: float,
    scores: Any,
    total: Any,
) -> None:
    """The same for a loss of K scores, a record at a time; scores (K,)."""
    p, listed = total.shape[0] // scores.shape[0], records.shape[0] > 0
    for e in range(first, last):
        j = base + records[e] if listed else e
        class_slopes(rows, labels, weights, norms, j, w, numbers, clip, scores)
        for k in range(scores.shape[0]):
            add(rows, j, scores[k], total, k * p, p)


@njit(**FAST)
def gradients(
    begin: int,
    end: int,
    rows: Any,
    labels: Any,
    weights: Any,
    norms: Any,
    owner: Any,
    first: Any,
    last: Any,
    task_start: Any,
    records: Any,
    base: Any,
    w: Any,
    classes: Any,
    code: int,
    numbers: Any,
    clip: float,
    factor: Any,
    l1: float,
    l2: float,
    single: bool,
    partial: Any,
    out: Any,
) -> None:
    """out[k] = factor[k] * (sum of the record gradients of row k) + l1 sign(w[k]) + l2 w[k]; w, out
    (b, d); of the tasks begin .. end - 1. classes: how many scores the loss has, None for one;
    single: whether `accumulator` is `spare`.

    Of a row of several tasks, task_start[k] .. task_start[k+1] - 1, the sum of each goes to its row
    of partial (tasks, d) float64, and a second call, with `owner` empty, finishes the rows begin ..
    end - 1. With `records` empty a task's range counts rows of the table; otherwise it counts
    entries of `records`, which hold record numbers within the node, and base[k] is the node's first
    row.
    """
    d, adds = w.shape[1], owner.shape[0] > 0
    # The same few arrays for every task: to count references would cost more than to copy
    total, spare = np.empty(d), np.empty(d, w.dtype)
    part = accumulator(rows, w, classes, spare, total)
    at, slopes = np.empty(SINGLES, np.int64), np.empty(SINGLES if classes is None else classes)
    for t in range(begin, end):
        k = owner[t] if adds else t
        alone = task_start[k + 1] - task_start[k] == 1
        if adds:
            few = single and last[t] - first[t] <= SINGLES  # one float32 sum is all
            part[:] = 0.0
            if single and not few:
                total[:] = 0.0
            if classes is None:
                add_binary(
                    rows,
                    labels,
                    weights,
                    norms,
                    first[t],
                    last[t],
                    records,
                    base[k],
                    w[k],
                    code,
                    numbers,
                    clip,
                    at,
                    slopes,
                    part,
                    total,
                )
            else:
                add_classes(
                    rows,
                    labels,
                    weights,
                    norms,
                    first[t],
                    last[t],
                    records,
                    base[k],
                    w[k],
                    numbers,
                    clip,
                    slopes,
                    total,
                )
            if not few:
                flush(part, total)
            elif alone and factor[k] == 1.0 and l1 == 0.0 and l2 == 0.0:
                for a in range(d):
                    out[k, a] = part[a]
                continue
            else:
                for a in range(d):
                    total[a] = part[a]
            if not alone:
                for a in range(d):
                    partial[t, a] = total[a]
                continue
        elif alone:
            continue
        else:
            for a in range(d):
                total[a] = partial[task_start[k], a]
            for other in range(task_start[k] + 1, task_start[k + 1]):
                for a in range(d):
                    total[a] += partial[other, a]
        # Each pass is one plain loop, so that the compiler makes vectors of it
        row, mine, f = out[k], w[k], factor[k]
        for a in range(d):
            row[a] = f * total[a]
        if l2 != 0.0:
            for a in range(d):
                row[a] += l2 * mine[a]
        if l1 != 0.0:
            for a in range(d):
                row[a] += l1 * ((mine[a] > 0.0) - (mine[a] < 0.0))


@njit(**FAST)
def are_positions(nodes: Any, count: int) -> bool:
    """Whether all are from 0 to count - 1."""
    wrong = 0
    for k in range(nodes.shape[0]):
        wrong += not 0 <= nodes[k] < count
    return wrong == 0


@njit(**FAST)
def sample_fault(nodes: Any, offsets: Any, indptr: Any, records: Any) -> int:
    """0 if row k's sample records[indptr[k] : indptr[k+1]] lies within node nodes[k]; 1: bad
    indptr, 2: bad records."""
    if indptr.shape[0] != nodes.shape[0] + 1 or indptr[0] != 0 or indptr[-1] != records.shape[0]:
        return 1
    for k in range(nodes.shape[0]):
        if indptr[k + 1] < indptr[k]:
            return 1
    for k in range(nodes.shape[0]):
        size = offsets[nodes[k] + 1] - offsets[nodes[k]]
        for e in range(indptr[k], indptr[k + 1]):
            if not 0 <= records[e] < size:
                return 2
    return 0


@njit(**FAST)
def margins(
    begin: int,
    end: int,
    rows: Any,
    owner: Any,
    first: Any,
    last: Any,
    place: Any,
    w: Any,
    classes: int,
    out: Any,
) -> None:
    """out[place[t] + e] = the K scores of the e-th record of task t at its node's own w; out
    (records, K) float64; of the tasks begin .. end - 1."""
    p = w.shape[1] // classes
    for t in range(begin, end):
        for e in range(last[t] - first[t]):
            for c in range(classes):
                out[place[t] + e, c] = dot(rows, first[t] + e, w[owner[t]], c * p, p)


def add_whole(
    rows: Any,
    j: int,
    factor: float,
    grid: float,
    most: float,
    roomy: bool,
    out: Any,
    offset: int,
    width: int,
) -> None:
    """out[offset : offset + width] += (factor x_j / grid) as `whole` numbers; within +-TOP unless
    there is room for all."""
    raise TypeError("add_whole is only for compiled code.")


@overload(add_whole, jit_options=FAST_BODY)
def _add_whole(
    rows: Any,
    j: int,
    factor: float,
    grid: float,
    most: float,
    roomy: bool,
    out: Any,
    offset: int,
    width: int,
) -> Any:
    def dense(
        rows: Any,
        j: int,
        factor: float,
        grid: float,
        most: float,
        roomy: bool,
        out: Any,
        offset: int,
        width: int,
    ) -> None:
        x, part = rows[j], out[offset : offset + width]
        if roomy:
            for a in range(width):
                part[a] += whole(factor * x[a] / grid, most)
        else:
            for a in range(width):
                part[a] = held(part[a] + whole(factor * x[a] / grid, most))

    def sparse(
        rows: Any,
        j: int,
        factor: float,
        grid: float,
        most: float,
        roomy: bool,
        out: Any,
        offset: int,
        width: int,
    ) -> None:
        data, indices, indptr = rows
        part = out[offset : offset + width]
        for t in range(indptr[j], indptr[j + 1]):
            part[indices[t]] = held(part[indices[t]] + whole(factor * data[t] / grid, most))

    return sparse if isinstance(rows, types.BaseTuple) else dense


@njit(**FAST)
def integer_sums(
    begin: int,
    end: int,
    rows: Any,
    labels: Any,
    weights: Any,
    norms: Any,
    first: Any,
    last: Any,
    w: Any,
    classes: Any,
    code: int,
    numbers: Any,
    clip: float,
    grid: Any,
    out: Any,
) -> None:
    """out[k] = sum over node k's records of (clipped gradient / grid[k]) rounded toward zero; out
    (b, d) int64, zero at the start; of the nodes begin .. end - 1.

    The sum stops at +-TOP. Each stop is a projection, so a record still moves the result by no more
    than its own numbers.
    """
    d, scores = out.shape[1], np.empty(1 if classes is None else classes)
    for k in range(begin, end):
        most = clip / grid[k]
        # No sum can reach the top: no need to look at each addition
        roomy = (last[k] - first[k]) * most < TOP
        for j in range(first[k], last[k]):
            if classes is None:
                c = slope_at(
                    labels, weights, norms, j, dot(rows, j, w[k], 0, d), code, numbers, clip
                )
                add_whole(rows, j, c, grid[k], most, roomy, out[k], 0, d)
            else:
                class_slopes(rows, labels, weights, norms, j, w[k], numbers, clip, scores)
                p = d // classes
                for i in range(classes):
                    add_whole(rows, j, scores[i], grid[k], most, roomy, out[k], i * p, p)
