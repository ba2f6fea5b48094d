"""The local solver: argmin_w f_i(w) + linear.w + q |w - centre|^2, one node after the other, each on its own.

Every step is a direction p = -M g and a step length t found from gradients alone: t = 1 is tried first; a trial is accepted
if it halves the gradient norm, or if the slope g.p is still not positive there (then a convex function has fallen); else t goes
to the secant's zero. That needs no function values, whose rounding would end the search long before 1e-8.

M is a cached inverse Hessian (`chord`) or a few conjugate-gradient steps (`newton_cg`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, prange

from tacenda.problem.kernels_gradient import add_binary, add_classes
from tacenda.problem.kernels_hessian import curvatures, hessian_product, inverse_hessian
from tacenda.problem.kernels_rows import OPTIONS, PARALLEL

MAX_STEPS = 300
MAX_TRIALS = 60
STALL = 0.9  # a chord step which leaves more than this share of the gradient norm is not worth repeating


@njit(**OPTIONS)
def inner(a: Any, b: Any) -> float:
    """a.b"""
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


@njit(**OPTIONS)
def full_gradient(
    rows: Any, labels: Any, first: int, last: int, w: Any, linear: Any, q: float, centre: Any, factor: float, l2: float,
    classes: int, code: int, parameter: float, out: Any,
) -> float:  # fmt: skip
    """out = factor * sum_j gradient_j(w) + l2 w + linear + 2q (w - centre); returns its norm."""
    unused, everything = np.empty(0), np.empty(0, np.int64)
    out[:] = 0.0
    if classes == 1:
        add_binary(rows, labels, unused, first, last, everything, 0, w, code, parameter, math.inf, out)
    else:
        add_classes(rows, labels, unused, first, last, everything, 0, w, classes, math.inf, out)
    for a in range(w.shape[0]):
        out[a] = factor * out[a] + (l2 * w[a] + linear[a] + 2.0 * q * (w[a] - centre[a]))
    return math.sqrt(inner(out, out))


@njit(**OPTIONS)
def advance(
    rows: Any, labels: Any, first: int, last: int, w: Any, p: Any, g: Any, norm: float, linear: Any, q: float,
    centre: Any, factor: float, l2: float, classes: int, code: int, parameter: float,
) -> float:  # fmt: skip
    """Move w along p and g with it; returns the new gradient norm, or the old one if no trial was accepted."""
    trial, g_trial, g_best = np.empty_like(w), np.empty_like(w), np.empty_like(w)
    fall, t, best, found = -inner(g, p), 1.0, 0.0, norm
    for _ in range(MAX_TRIALS):
        for a in range(w.shape[0]):
            trial[a] = w[a] + t * p[a]
        new = full_gradient(
            rows, labels, first, last, trial, linear, q, centre, factor, l2, classes, code, parameter, g_trial
        )  # fmt: skip
        rise = inner(g_trial, p)
        if new <= 0.5 * norm or (rise <= 0.0 and math.isfinite(new)):
            best, found = t, new
            g_best[:] = g_trial
            if new <= 0.5 * norm or rise > -0.9 * fall:
                break
            t *= 4.0  # the slope has hardly changed: a straight stretch, to be left in longer strides
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


@njit(**OPTIONS)
def conjugate_gradient(
    rows: Any, first: int, last: int, curves: Any, g: Any, factor: float, ridge: float, goal: float, p: Any
) -> None:
    """p = -(approximate inverse Hessian) g, stopped when the residual norm is below `goal`."""
    d = g.shape[0]
    p[:] = 0.0
    residual, search, product = np.empty(d), np.empty(d), np.empty(d)
    for a in range(d):
        residual[a] = search[a] = -g[a]
    square = inner(residual, residual)
    for step in range(min(10 * d, 2000)):
        hessian_product(rows, first, last, curves, search, factor, ridge, product)
        curved = inner(search, product)
        if curved <= 1e-300:  # flat: along such a direction only the first step, the gradient itself, is of use
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


@njit(**PARALLEL)
def newton_cg(
    rows: Any, labels: Any, first: Any, last: Any, w: Any, linear: Any, quadratic: Any, centre: Any, factor: Any,
    l2: float, classes: int, code: int, parameter: float, tolerance: float, reached: Any,
) -> None:  # fmt: skip
    """Newton's method with inexact directions, no matrix stored; w (b, d) is start and result, reached (b,) the norms."""
    for k in prange(w.shape[0]):
        g, p = np.empty(w.shape[1]), np.empty(w.shape[1])
        curves = np.empty((last[k] - first[k], classes))
        q, ridge = quadratic[k], l2 + 2.0 * quadratic[k]
        norm = full_gradient(
            rows, labels, first[k], last[k], w[k], linear[k], q, centre[k], factor[k], l2, classes, code, parameter, g
        )  # fmt: skip
        for _ in range(MAX_STEPS):
            if norm <= tolerance:
                break
            curvatures(rows, labels, first[k], last[k], w[k], classes, code, parameter, curves)
            goal = max(min(0.1, math.sqrt(norm)) * norm, 0.2 * tolerance)
            conjugate_gradient(rows, first[k], last[k], curves, g, factor[k], ridge, goal, p)
            before = norm
            norm = advance(
                rows, labels, first[k], last[k], w[k], p, g, norm, linear[k], q, centre[k], factor[k], l2, classes,
                code, parameter,
            )  # fmt: skip
            if norm == before or not math.isfinite(norm):
                break
        reached[k] = norm


@njit(**PARALLEL)
def chord(
    rows: Any, labels: Any, nodes: Any, first: Any, last: Any, w: Any, linear: Any, quadratic: Any, centre: Any,
    factor: Any, l2: float, code: int, parameter: float, tolerance: float, patience: int, anchors: Any, ridges: Any,
    inverses: Any, reached: Any,
) -> None:  # fmt: skip
    """The chord method for losses of one score: the inverse Hessian is kept between calls while it serves.

    ridges[i] is the ridge r l2 + 2q of node i's kept inverse, or negative if it has none; anchors[i] the point where it was taken:
    always the start of a call, so that a checkpoint of (anchors, ridges) rebuilds it bit for bit. An inverse renewed in
    the middle of a call serves that call only.
    """
    for k in prange(w.shape[0]):
        i, d = nodes[k], w.shape[1]
        g, p, matrix = np.empty(d), np.empty(d), inverses[i]
        q, ridge = quadratic[k], l2 + 2.0 * quadratic[k]
        norm = full_gradient(
            rows, labels, first[k], last[k], w[k], linear[k], q, centre[k], factor[k], l2, 1, code, parameter, g
        )  # fmt: skip
        keep = 0.7 * ridge <= ridges[i] <= 1.4 * ridge
        renew, good, steps = not keep, True, 0
        for _ in range(MAX_STEPS):
            if norm <= tolerance:
                break
            if renew:
                good = inverse_hessian(
                    rows, labels, first[k], last[k], w[k], code, parameter, factor[k], ridge, matrix
                )  # fmt: skip
                keep = good and steps == 0
                ridges[i] = ridge if keep else -1.0
                if keep:
                    anchors[i] = w[k]
            fresh = renew
            for a in range(d):
                p[a] = -inner(matrix[a], g)
            if not good or not inner(p, g) < 0.0:  # single precision was not enough, or the Hessian is singular
                curves, ridges[i] = np.empty((last[k] - first[k], 1)), -1.0
                curvatures(rows, labels, first[k], last[k], w[k], 1, code, parameter, curves)
                conjugate_gradient(
                    rows, first[k], last[k], curves, g, factor[k], ridge, max(0.1 * norm, 0.2 * tolerance), p
                )  # fmt: skip
                fresh = True
            before = norm
            norm = advance(
                rows, labels, first[k], last[k], w[k], p, g, norm, linear[k], q, centre[k], factor[k], l2, 1, code,
                parameter,
            )  # fmt: skip
            steps += 1
            if (norm == before and fresh) or not math.isfinite(norm):
                break
            share = norm / before
            renew = (
                not good
                or share > STALL
                or (norm > tolerance and math.log(tolerance / norm) < patience * math.log(share))
            )
        if steps > patience:
            ridges[i] = -1.0  # it worked, but slowly: start the next call with a new one
        reached[k] = norm


@njit(**PARALLEL)
def rebuild(
    rows: Any, labels: Any, offsets: Any, factor: Any, code: int, parameter: float, anchors: Any, ridges: Any,
    inverses: Any,
) -> None:  # fmt: skip
    """Take the inverse Hessian of every node with a ridge again at its anchor."""
    for i in prange(ridges.shape[0]):
        if ridges[i] >= 0.0:
            inverse_hessian(
                rows, labels, offsets[i], offsets[i + 1], anchors[i], code, parameter, factor[i], ridges[i], inverses[i]
            )  # fmt: skip
