"""Compiled gradients of all hosted nodes, each at its own point.

The work is a list of tasks: task t covers the records first[t] .. last[t] - 1 of row k = owner[t]
of the block. How a node is cut into tasks depends on that node alone, so its result is the same bit
for bit in whichever block it is hosted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, prange

from tacenda.problem.kernels.rows import (
    OPTIONS,
    PARALLEL,
    accumulator,
    add,
    adds_in_single,
    dot,
    flush,
    slope_of,
    softmax_minus_label,
    weight_at,
)

SINGLES = 32  # so many float32 gradients are added in float32 before they move to float64
# No slope is steeper: it is no number, or the residual of a loss without a bound, and its record
# counts as 0. With the declared numbers inside `constants.SENSIBLE`, no product, factor or sum
# behind it can overflow, in float32 neither.
STEEPEST = 1e30
TOP = 1 << 62  # where a sum of whole numbers stops


@njit(**OPTIONS)
def shrink(size: float, norm: float, clip: float) -> float:
    """The factor which brings a gradient of norm size * norm down to at most `clip`; 0 where that
    norm is no number."""
    length = size * norm
    if length > clip:
        return clip / length
    return 1.0 if length <= clip else 0.0


@njit(**OPTIONS)
def whole(value: float, most: float) -> Any:
    """`value` rounded toward zero and brought to within `most` < 2^62, NaN too (which no record
    gives: see STEEPEST)."""
    value = value if value > -most else -most
    return np.int64(value if value < most else most)


@njit(**OPTIONS)
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
    out: Any,
) -> None:
    """out += sum of the (clipped) loss gradients at w of the records of a range, each times its
    weight, for a loss of one score. weights: (N,) numbers from 0 to 1, or the number 1."""
    listed, p, part = records.shape[0] > 0, out.shape[0], accumulator(rows, w, out)
    for e in range(first, last):
        j = base + records[e] if listed else e
        c = slope_of(code, numbers, dot(rows, j, w, 0, p), labels[j])
        if not abs(c) <= STEEPEST:
            c = 0.0
        if clip < math.inf:
            c *= shrink(abs(c), norms[j], clip)
        c *= weight_at(weights, j)  # at most 1: it lengthens nothing
        add(rows, j, c, part, 0, p)
        if (e - first) % SINGLES == SINGLES - 1:
            flush(part, out)
    flush(part, out)


@njit(**OPTIONS)
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
    classes: int,
    numbers: Any,
    clip: float,
    out: Any,
) -> None:
    """The same for a loss of K scores: each record adds (softmax(s) - e_y) x^T, of scores with the
    loss's margin and temperature."""
    listed, p, scores = records.shape[0] > 0, out.shape[0] // classes, np.empty(classes)
    for e in range(first, last):
        j = base + records[e] if listed else e
        for k in range(classes):
            scores[k] = dot(rows, j, w, k * p, p)
        size = softmax_minus_label(scores, int(labels[j]), numbers[0], 1.0)
        factor = shrink(size, norms[j], clip) if clip < math.inf else 1.0
        factor *= weight_at(weights, j)
        for k in range(classes):
            add(rows, j, factor * scores[k], out, k * p, p)


@njit(**OPTIONS)
def finish_row(
    partial: Any, begin: int, end: int, factor: float, l1: float, l2: float, w: Any, out: Any
) -> None:
    """out = factor * (partial[begin] + .. + partial[end - 1], in this order) + l1 sign(w) + l2 w,
    all of length d.

    The sum gathers in partial[begin]. Each pass is one plain loop, so that the compiler makes
    vectors of it.
    """
    total = partial[begin]
    for t in range(begin + 1, end):
        for a in range(out.shape[0]):
            total[a] += partial[t, a]
    for a in range(out.shape[0]):
        out[a] = factor * total[a]
    if l2 != 0.0:
        for a in range(out.shape[0]):
            out[a] += l2 * w[a]
    if l1 != 0.0:
        for a in range(out.shape[0]):
            out[a] += l1 * np.sign(w[a])


@njit(**PARALLEL)
def gradients(
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
    classes: int,
    code: int,
    numbers: Any,
    clip: float,
    factor: Any,
    l1: float,
    l2: float,
    partial: Any,
    out: Any,
) -> None:
    """out[k] = factor[k] * (sum of the record gradients of row k) + l1 sign(w[k]) + l2 w[k]; w, out
    (b, d).

    partial (tasks, d) float64 receives the sum of each task; the tasks task_start[k] ..
    task_start[k+1] - 1 of row k are then added in order. With `records` empty a task's range counts
    rows of the table; otherwise it counts entries of `records`, which hold record numbers within
    the node, and base[k] is the node's first row.
    """
    for t in prange(owner.shape[0]):
        k = owner[t]
        total = partial[t]
        total[:] = 0.0
        if classes == 1:
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
                classes,
                numbers,
                clip,
                total,
            )
        if task_start[k + 1] - task_start[k] == 1:
            finish_row(partial, t, t + 1, factor[k], l1, l2, w[k], out[k])
    # A second parallel loop is a second wait for all threads: only if needed
    if owner.shape[0] > out.shape[0]:
        for k in prange(out.shape[0]):
            finish_row(partial, task_start[k], task_start[k + 1], factor[k], l1, l2, w[k], out[k])


@njit(**OPTIONS)
def are_positions(nodes: Any, count: int) -> bool:
    """Whether all are from 0 to count - 1."""
    wrong = 0
    for k in range(nodes.shape[0]):
        wrong += not 0 <= nodes[k] < count
    return wrong == 0


@njit(**OPTIONS)
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


@njit(**OPTIONS)
def few_gradients(
    rows: Any,
    labels: Any,
    weights: Any,
    norms: Any,
    nodes: Any,
    offsets: Any,
    indptr: Any,
    records: Any,
    w: Any,
    classes: int,
    code: int,
    numbers: Any,
    clip: float,
    factor: Any,
    l1: float,
    l2: float,
    out: Any,
) -> int:
    """`gradients` of samples, to the same bits, on one thread and with one row of scratch; the
    answer is `sample_fault`'s.

    A float32 row of at most SINGLES records is added up in place: the float64 sum would be a copy
    of it.
    """
    fault = sample_fault(nodes, offsets, indptr, records)
    if fault != 0:
        return fault
    partial, single = np.empty((1, out.shape[1])), classes == 1 and adds_in_single(rows, w)
    for k in range(out.shape[0]):
        first, last, base, f = indptr[k], indptr[k + 1], offsets[nodes[k]], factor[k]
        if single and last - first <= SINGLES:
            out[k] = 0.0
            add_binary(
                rows,
                labels,
                weights,
                norms,
                first,
                last,
                records,
                base,
                w[k],
                code,
                numbers,
                clip,
                out[k],
            )
            if f != 1.0 or l1 != 0.0 or l2 != 0.0:  # else it is finished as it stands
                finish_row(out, k, k + 1, f, l1, l2, w[k], out[k])
            continue
        total = partial[0]
        total[:] = 0.0
        if classes == 1:
            add_binary(
                rows,
                labels,
                weights,
                norms,
                first,
                last,
                records,
                base,
                w[k],
                code,
                numbers,
                clip,
                total,
            )
        else:
            add_classes(
                rows,
                labels,
                weights,
                norms,
                first,
                last,
                records,
                base,
                w[k],
                classes,
                numbers,
                clip,
                total,
            )
        finish_row(partial, 0, 1, f, l1, l2, w[k], out[k])
    return 0


@njit(**PARALLEL)
def margins(
    rows: Any, owner: Any, first: Any, last: Any, place: Any, w: Any, classes: int, out: Any
) -> None:
    """out[place[t] + e] = the K scores of the e-th record of task t at its node's own w; out
    (records, K) float64."""
    p = w.shape[1] // classes
    for t in prange(owner.shape[0]):
        for e in range(last[t] - first[t]):
            for c in range(classes):
                out[place[t] + e, c] = dot(rows, first[t] + e, w[owner[t]], c * p, p)


@njit(**PARALLEL)
def integer_sums(
    rows: Any,
    labels: Any,
    weights: Any,
    norms: Any,
    first: Any,
    last: Any,
    w: Any,
    classes: int,
    code: int,
    numbers: Any,
    clip: float,
    grid: Any,
    out: Any,
) -> None:
    """out[k] = sum over node k's records of (clipped gradient / grid[k]) rounded toward zero; out
    (b, d) int64.

    The sum stops at +-TOP. Each stop is a projection, so a record still moves the result by no more
    than its own numbers.
    """
    everything = np.empty(0, np.int64)
    for k in prange(out.shape[0]):
        one, most = np.zeros(out.shape[1]), clip / grid[k]
        # No sum can reach the top: no need to look at each addition
        roomy = (last[k] - first[k]) * most < TOP
        for j in range(first[k], last[k]):
            one[:] = 0.0
            if classes == 1:
                add_binary(
                    rows,
                    labels,
                    weights,
                    norms,
                    j,
                    j + 1,
                    everything,
                    0,
                    w[k],
                    code,
                    numbers,
                    clip,
                    one,
                )
            else:
                add_classes(
                    rows,
                    labels,
                    weights,
                    norms,
                    j,
                    j + 1,
                    everything,
                    0,
                    w[k],
                    classes,
                    numbers,
                    clip,
                    one,
                )
            if roomy:
                for a in range(out.shape[1]):
                    out[k, a] += whole(one[a] / grid[k], most)
            else:
                for a in range(out.shape[1]):
                    out[k, a] = min(max(out[k, a] + whole(one[a] / grid[k], most), -TOP), TOP)
