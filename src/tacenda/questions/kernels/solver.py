"""The local solver: argmin_w f_i(w) + linear.w + q |w - centre|^2, one node after the other, each
on its own.

Every step is a direction p = -M g and a step length t found from gradients alone: t = 1 is tried
first; a trial is accepted if it halves the gradient norm, or if the slope g.p is still not positive
there (then a convex function has fallen); else t goes to the secant's zero. That needs no function
values, whose rounding would end the search long before 1e-8.

M is a cached inverse Hessian, corrected by the last step (`chord`), or a few conjugate-gradient
steps (`newton_cg`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacenda._jit import FAST, FAST_INNER, njit
from tacenda.losses.compiled import sharpness_of
from tacenda.questions.kernels.gradient import SINGLES, add_binary, add_classes
from tacenda.questions.kernels.hessian import curvatures, hessian_product, inverse_hessian
from tacenda.questions.kernels.rows import weight_at

MAX_STEPS = 300
MAX_TRIALS = 60
# a chord step which leaves more than this share of the gradient norm is not worth repeating
STALL = 0.9


@njit(**FAST_INNER)
def inner(a: Any, b: Any) -> float:
    """a.b"""
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


@njit(**FAST_INNER)
def full_gradient(
    rows: Any,
    labels: Any,
    weights: Any,
    first: int,
    last: int,
    w: Any,
    linear: Any,
    q: float,
    centre: Any,
    factor: float,
    l2: float,
    classes: Any,
    code: int,
    numbers: Any,
    out: Any,
    passes: Any,
) -> float:
    """out = factor * sum_j gradient_j(w) + l2 w + linear + 2q (w - centre); returns its norm.

    l2: a number, or one for each coordinate. classes: how many scores the loss has, None for one.
    passes (1,): counts how often the records are read.
    """
    passes[0] += 1.0
    everything, at = np.empty(0, np.int64), np.empty(SINGLES, np.int64)
    slopes = np.empty(SINGLES if classes is None else classes)
    out[:] = 0.0
    if classes is None:
        add_binary(
            rows,
            labels,
            weights,
            slopes,  # in place of norms: nothing is clipped
            first,
            last,
            everything,
            0,
            w,
            code,
            numbers,
            math.inf,
            at,
            slopes,
            out,
            out,
        )
    else:
        add_classes(
            rows,
            labels,
            weights,
            slopes,
            first,
            last,
            everything,
            0,
            w,
            numbers,
            math.inf,
            slopes,
            out,
        )
    for a in range(w.shape[0]):
        out[a] = factor * out[a] + (
            weight_at(l2, a) * w[a] + linear[a] + 2.0 * q * (w[a] - centre[a])
        )
    return math.sqrt(inner(out, out))


@njit(**FAST_INNER)
def advance(
    rows: Any,
    labels: Any,
    weights: Any,
    first: int,
    last: int,
    w: Any,
    p: Any,
    g: Any,
    norm: float,
    linear: Any,
    q: float,
    centre: Any,
    factor: float,
    l2: float,
    classes: Any,
    code: int,
    numbers: Any,
    passes: Any,
) -> float:
    """Move w along p and g with it; returns the new gradient norm,
    or the old one if no trial was accepted."""
    trial, g_trial, g_best = np.empty_like(w), np.empty_like(w), np.empty_like(w)
    fall, t, best, found = -inner(g, p), 1.0, 0.0, norm
    for _ in range(MAX_TRIALS):
        for a in range(w.shape[0]):
            trial[a] = w[a] + t * p[a]
        new = full_gradient(
            rows,
            labels,
            weights,
            first,
            last,
            trial,
            linear,
            q,
            centre,
            factor,
            l2,
            classes,
            code,
            numbers,
            g_trial,
            passes,
        )
        rise = inner(g_trial, p)
        if new <= 0.5 * norm or (rise <= 0.0 and math.isfinite(new)):
            best, found = t, new
            g_best[:] = g_trial
            if new <= 0.5 * norm or rise > -0.9 * fall:
                break
            # the slope has hardly changed: a straight stretch, to be left in longer strides
            t *= 4.0
        elif best > 0.0:
            break
        else:
            share = fall / (fall + rise) if math.isfinite(rise) else 0.1
            t *= min(max(share, 0.1), 0.9)
    if best > 0.0:
        for a in range(w.shape[0]):
            w[a] += best * p[a]
        g[:] = g_best
    return found


@njit(**FAST_INNER)
def conjugate_gradient(
    rows: Any,
    weights: Any,
    first: int,
    last: int,
    curves: Any,
    g: Any,
    factor: float,
    ridge: float,
    goal: float,
    p: Any,
    passes: Any,
) -> None:
    """p = -(approximate inverse Hessian) g, stopped when the residual norm is below `goal`."""
    d = g.shape[0]
    p[:] = 0.0
    residual, search, product = np.empty(d), np.empty(d), np.empty(d)
    for a in range(d):
        residual[a] = search[a] = -g[a]
    square = inner(residual, residual)
    for step in range(min(10 * d, 2000)):
        passes[0] += 1.0
        hessian_product(rows, weights, first, last, curves, search, factor, ridge, product)
        curved = inner(search, product)
        # Flat: along such a direction only the first step, the gradient itself, is of use
        if curved <= 1e-300:
            if step == 0:
                p[:] = search
            return
        alpha = square / curved
        for a in range(d):
            p[a] += alpha * search[a]
            residual[a] -= alpha * product[a]
        new = inner(residual, residual)
        if math.sqrt(new) <= goal:
            return
        for a in range(d):
            search[a] = residual[a] + new / square * search[a]
        square = new


@njit(**FAST_INNER)
def newton_cg_node(
    rows: Any,
    labels: Any,
    weights: Any,
    first: int,
    last: int,
    w: Any,
    linear: Any,
    q: float,
    centre: Any,
    factor: float,
    l2: float,
    classes: Any,
    code: int,
    numbers: Any,
    tolerance: float,
    passes: Any,
) -> float:
    """Newton's method with inexact directions, no matrix stored;
    w (d,) is start and result. Returns the norm reached.
    """
    scores = 1 if classes is None else classes
    g, p, curves = np.empty(w.shape[0]), np.empty(w.shape[0]), np.empty((last - first, scores))
    sharp = sharpness_of(classes, numbers)
    norm = full_gradient(
        rows,
        labels,
        weights,
        first,
        last,
        w,
        linear,
        q,
        centre,
        factor,
        l2,
        classes,
        code,
        numbers,
        g,
        passes,
    )
    for _ in range(MAX_STEPS):
        if norm <= tolerance:
            break
        passes[0] += 1.0
        curvatures(rows, labels, first, last, w, classes, code, numbers, curves)
        goal = max(min(0.1, math.sqrt(norm)) * norm, 0.2 * tolerance)
        conjugate_gradient(
            rows, weights, first, last, curves, g, sharp * factor, l2 + 2.0 * q, goal, p, passes
        )
        before = norm
        norm = advance(
            rows,
            labels,
            weights,
            first,
            last,
            w,
            p,
            g,
            norm,
            linear,
            q,
            centre,
            factor,
            l2,
            classes,
            code,
            numbers,
            passes,
        )
        if norm == before or not math.isfinite(norm):
            break
    return norm


@njit(**FAST_INNER)
def chord_direction(matrix: Any, g: Any, move: Any, turn: Any, p: Any) -> bool:
    """p = -B g, B the inverse `matrix` corrected by one BFGS update, so that B turn = move; a pair
    (move, turn) of no curvature corrects nothing. False if p does not lead down."""
    d, curved, share = g.shape[0], inner(move, turn), 0.0
    usable = 1e-300 < curved < math.inf
    rest = np.empty(d)
    if usable:
        share = inner(move, g) / curved
    for a in range(d):
        rest[a] = g[a] - share * turn[a]
    for a in range(d):
        p[a] = -inner(matrix[a], rest)
    if usable:
        share += inner(turn, p) / curved
        for a in range(d):
            p[a] -= share * move[a]
    return inner(p, g) < 0.0


@njit(**FAST_INNER)
def chord_node(
    rows: Any,
    labels: Any,
    weights: Any,
    first: int,
    last: int,
    w: Any,
    linear: Any,
    q: float,
    centre: Any,
    factor: float,
    l2: float,
    code: int,
    numbers: Any,
    tolerance: float,
    patience: int,
    anchor: Any,
    kept: Any,
    matrix: Any,
    remember: bool,
    known: Any,
    memory: Any,
    passes: Any,
) -> float:
    """The chord method for losses of one score: the inverse Hessian is kept between calls while it
    serves. Each step corrects it by the step before (`chord_direction`).

    kept[0] is the ridge r l2 + 2q of the kept inverse `matrix` (d, d), or negative if there is
    none; anchor (d,) the point where it was taken: always the start of a call, so that a checkpoint
    of (anchor, kept) rebuilds it bit for bit. An inverse renewed in the middle of a call serves
    that call only. Where no inverse can be had, w comes back short of the tolerance and is for
    `newton_cg` to finish.

    With `remember`, memory (4, d) holds where the last call ended and the gradient of f_i there,
    and how far both had moved in that call; known[0] is 0 as long as there was none. The call then
    starts there: the gradient of the new objective is known without reading a record, and the first
    step has a correction too. The returned point is always one where this call has read the
    records.
    """
    d, ridge = w.shape[0], l2 + 2.0 * q
    g, p, begun, slope = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    move, turn, norm = np.zeros(d), np.zeros(d), 0.0
    if remember and known[0] > 0.0:
        w[:] = memory[0]
        for a in range(d):
            g[a] = memory[1, a] + linear[a] + 2.0 * q * (w[a] - centre[a])
            move[a], turn[a] = memory[2, a], memory[3, a] + 2.0 * q * memory[2, a]
        norm = math.sqrt(inner(g, g))
    if not tolerance < norm < math.inf:
        norm = full_gradient(
            rows,
            labels,
            weights,
            first,
            last,
            w,
            linear,
            q,
            centre,
            factor,
            l2,
            None,
            code,
            numbers,
            g,
            passes,
        )
    begun[:] = w
    for a in range(d):
        slope[a] = g[a] - linear[a] - 2.0 * q * (w[a] - centre[a])
    renew, good, steps = not 0.7 * ridge <= kept[0] <= 1.4 * ridge, True, 0
    while norm > tolerance and steps < MAX_STEPS:
        fresh = renew
        if renew:
            passes[0] += 1.0
            good = inverse_hessian(
                rows, labels, weights, first, last, w, code, numbers, factor, ridge, matrix
            )
            kept[0] = ridge if good and steps == 0 else -1.0
            if steps == 0:
                anchor[:] = w
            move[:] = 0.0
        good = good and chord_direction(matrix, g, move, turn, p)
        # The Hessian is singular, or too nearly so for single precision
        if not good:
            kept[0] = -1.0
            break
        before = norm
        move[:] = w
        turn[:] = g
        norm = advance(
            rows,
            labels,
            weights,
            first,
            last,
            w,
            p,
            g,
            norm,
            linear,
            q,
            centre,
            factor,
            l2,
            None,
            code,
            numbers,
            passes,
        )
        for a in range(d):
            move[a] = w[a] - move[a]
            turn[a] = g[a] - turn[a]
        steps += 1
        if (norm == before and fresh) or not math.isfinite(norm):
            break
        share = norm / before
        renew = share > STALL
        # Would the steps still to go cost more than a new inverse?
        if not renew and norm > tolerance:
            renew = math.log(tolerance / norm) < patience * math.log(share)
    if steps > patience:
        kept[0] = -1.0  # it worked, but slowly: start the next call with a new one
    if remember and norm < math.inf:
        for a in range(d):
            at = g[a] - linear[a] - 2.0 * q * (w[a] - centre[a])
            if steps > 0:
                memory[2, a], memory[3, a] = w[a] - begun[a], at - slope[a]
            memory[0, a], memory[1, a] = w[a], at
        known[0] = 1.0
    return norm


@njit(**FAST)
def newton_cg(
    begin: int,
    end: int,
    rows: Any,
    labels: Any,
    weights: Any,
    first: Any,
    last: Any,
    w: Any,
    linear: Any,
    quadratic: Any,
    centre: Any,
    factor: Any,
    l2: float,
    classes: Any,
    code: int,
    numbers: Any,
    tolerance: float,
    reached: Any,
    passes: Any,
) -> None:
    """`newton_cg_node` for the rows begin .. end - 1; w (b, d), reached (b,), passes (b,)."""
    for k in range(begin, end):
        reached[k] = newton_cg_node(
            rows,
            labels,
            weights,
            first[k],
            last[k],
            w[k],
            linear[k],
            quadratic[k],
            centre[k],
            factor[k],
            l2,
            classes,
            code,
            numbers,
            tolerance,
            passes[k : k + 1],
        )


@njit(**FAST)
def chord(
    begin: int,
    end: int,
    rows: Any,
    labels: Any,
    weights: Any,
    nodes: Any,
    first: Any,
    last: Any,
    w: Any,
    linear: Any,
    quadratic: Any,
    centre: Any,
    factor: Any,
    l2: float,
    code: int,
    numbers: Any,
    tolerance: float,
    patience: int,
    anchors: Any,
    ridges: Any,
    inverses: Any,
    remember: bool,
    known: Any,
    memory: Any,
    reached: Any,
    passes: Any,
) -> None:
    """`chord_node` for the rows begin .. end - 1; anchors (n, d), ridges (n,), inverses (n, d, d),
    known (n,) and memory (n, 4, d) by node position."""
    for k in range(begin, end):
        i = nodes[k]
        reached[k] = chord_node(
            rows,
            labels,
            weights,
            first[k],
            last[k],
            w[k],
            linear[k],
            quadratic[k],
            centre[k],
            factor[k],
            l2,
            code,
            numbers,
            tolerance,
            patience,
            anchors[i],
            ridges[i : i + 1],
            inverses[i],
            remember,
            known[i : i + 1],
            memory[i],
            passes[k : k + 1],
        )


@njit(**FAST)
def rebuild(
    begin: int,
    end: int,
    rows: Any,
    labels: Any,
    weights: Any,
    offsets: Any,
    factor: Any,
    code: int,
    numbers: Any,
    anchors: Any,
    ridges: Any,
    inverses: Any,
) -> None:
    """Take the inverse Hessian of every node with a ridge, of begin .. end - 1, again at its
    anchor."""
    for i in range(begin, end):
        if ridges[i] >= 0.0:
            inverse_hessian(
                rows,
                labels,
                weights,
                offsets[i],
                offsets[i + 1],
                anchors[i],
                code,
                numbers,
                factor[i],
                ridges[i],
                inverses[i],
            )
