"""Brent's root and Brent's minimum of a function of one number.

Step by step, and so to the bit, as SciPy's `brentq` and bounded `minimize_scalar`, whose module
takes 0.2 s and 15 MB to load.
"""

from __future__ import annotations

import math
from collections.abc import Callable

MOST_STEPS = 100
GOLDEN = 0.5 * (3.0 - math.sqrt(5.0))


def brent(
    f: Callable[[float], float],
    low: float,
    high: float,
    *,
    xtol: float = 2e-12,
    rtol: float = 2**-50,
) -> float:
    """A root of f between two ends at which its signs differ, to xtol + rtol |root|."""
    before, at = low, high
    f_before, f_at = float(f(before)), float(f(at))
    if f_before == 0 or f_at == 0:
        return before if f_before == 0 else at
    if (f_before < 0) == (f_at < 0):
        raise ValueError(f"f must change its sign, not be {f_before:g} and {f_at:g}")
    other, f_other, step, step_before = 0.0, 0.0, 0.0, 0.0
    for _ in range(MOST_STEPS):
        if f_before != 0 and (f_before < 0) != (f_at < 0):
            other, f_other = before, f_before
            step = step_before = at - before
        if abs(f_other) < abs(f_at):
            before, at, other = at, other, at
            f_before, f_at, f_other = f_at, f_other, f_at
        near, half = (xtol + rtol * abs(at)) / 2, (other - at) / 2
        if f_at == 0 or abs(half) < near:
            return at
        trial = math.inf
        if abs(step_before) > near and abs(f_at) < abs(f_before):
            trial = _interpolated(before, at, other, f_before, f_at, f_other)
        if 2 * abs(trial) < min(abs(step_before), 3 * abs(half) - near):
            step_before, step = step, trial
        else:
            step_before = step = half
        before, f_before = at, f_at
        at += step if abs(step) > near else math.copysign(near, half)
        f_at = float(f(at))
    return at


def _interpolated(
    before: float, at: float, other: float, f_before: float, f_at: float, f_other: float
) -> float:
    """The step from `at`: along a secant, or along the inverse parabola through three points."""
    if at in (before, other):  # by rounding
        return math.inf
    if before == other:
        return -f_at * (at - before) / (f_at - f_before)
    slope, far = (f_before - f_at) / (before - at), (f_other - f_at) / (other - at)
    below = far * slope * (f_other - f_before)
    return -f_at * (f_other * far - f_before * slope) / below if below != 0 else math.inf


def least(f: Callable[[float], float], low: float, high: float, xtol: float = 1e-5) -> float:
    """The least value of f that is found between two ends, to xtol in its place."""
    best = second = third = low + GOLDEN * (high - low)
    f_best = f_second = f_third = float(f(best))
    step = step_before = 0.0
    for _ in range(5 * MOST_STEPS):
        middle, near = 0.5 * (low + high), math.sqrt(2.2e-16) * abs(best) + xtol / 3.0
        if abs(best - middle) <= 2.0 * near - 0.5 * (high - low):
            break
        fits = False
        if abs(step_before) > near:
            r = (best - second) * (f_best - f_third)
            q = (best - third) * (f_best - f_second)
            p = (best - third) * q - (best - second) * r
            q = 2.0 * (q - r)
            p, q = (-p if q > 0.0 else p), abs(q)
            fits = abs(p) < abs(0.5 * q * step_before) and q * (low - best) < p < q * (high - best)
            step_before = step
        if fits:
            step = p / q
            if min(best + step - low, high - best - step) < 2.0 * near:
                step = math.copysign(near, middle - best)
        else:
            step_before = (low if best >= middle else high) - best
            step = GOLDEN * step_before
        at = best + math.copysign(max(abs(step), near), step)
        f_at = float(f(at))
        if f_at <= f_best:
            low, high = (best, high) if at >= best else (low, best)
            third, f_third, second, f_second, best, f_best = (
                second,
                f_second,
                best,
                f_best,
                at,
                f_at,
            )
            continue
        low, high = (at, high) if at < best else (low, at)
        if f_at <= f_second or second == best:
            third, f_third, second, f_second = second, f_second, at, f_at
        elif f_at <= f_third or third in (best, second):
            third, f_third = at, f_at
    return f_best
