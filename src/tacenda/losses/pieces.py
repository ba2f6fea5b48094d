"""The slope of a convex function of one number as a table of cubic pieces.

A user's functions are asked on a public grid only, before any record is read; what runs on records
is the table. Whatever the functions are, the slope in the table

    never falls               the loss is convex
    stays within its bounds   so that one record's gradient does
    rises by no more than the declared curvature

so that nothing which noise is planned from rests on a declaration. The grid lies at scale sinh(t)
for evenly spaced t: as dense near 0 as it is relative to z far out. Beyond its ends the slope stays
as it is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._types import Floats
from tacenda.errors import InputError

CELLS = 8192
REACH = 1e6  # of the scale: how far the grid goes to both sides
MOST_KINKS = 64
SLACK = 1e-6  # relative: what the cubic pieces may add to the curvature that was declared
AGREE = 1e-5  # relative: how closely the value must be the slope's integral
ROUNDING = 1e-9  # relative: what counts as the rounding of a user's function


@dataclass(frozen=True, eq=False)
class Pieces:
    """knots (K + 1,), coefficients (K, 4) of the slope in powers of z - knot, the integral of the
    slope at each knot (K + 1,), and start (CELLS,): the piece in which a cell of the grid begins.

    curvature: no piece rises faster. continuous: the slope has no jump; once: nor its derivative.
    """

    knots: Floats
    coefficients: Floats
    values: Floats
    start: Floats
    scale: float
    lowest: float
    highest: float
    curvature: float
    continuous: bool
    once: bool

    @classmethod
    def of(
        cls,
        value: Callable[[Any], Any],
        slope: Callable[[Any], Any],
        *,
        who: str,
        argument: str,
        slope_bound: float,
        curvature: float,
        kinks: tuple[float, ...],
        scale: float,
    ) -> Pieces:
        """The table, or the point at which a declaration is false; `who` and `argument` are named
        in errors."""
        reach = math.asinh(REACH)
        grid = scale * np.sinh(np.linspace(-reach, reach, CELLS + 1))
        grid[CELLS // 2] = 0.0
        knots = _with_kinks(grid, kinks, who)
        check = _Declared(who, argument)
        left, right = check.sides(slope, knots, kinks)
        check.bounded(knots, left, right, slope_bound)
        left, right = check.rising(knots, left, right)
        jump = right - left
        continuous = bool(np.all(jump <= ROUNDING * (1.0 + np.abs(right))))
        if continuous:  # to the last bit: what is proved of smooth losses knows no rounding
            left = right
        h = np.diff(knots)
        secants = (left[1:] - right[:-1]) / h
        if math.isfinite(curvature):
            check.curved(knots, h, secants, jump, right, curvature)
        coefficients, steepest, once = _cubics(knots, left, right, kinks, curvature)
        own = check.asked("value", value, knots)
        rises, middle = _powers(coefficients, h), int(np.searchsorted(knots, 0.0))
        # From the middle outwards: what is added up far away is larger than what counts near 0
        down, up = np.cumsum(rises[:middle][::-1])[::-1], np.cumsum(rises[middle:])
        values = own[middle] + np.concatenate([-down, [0.0], up])
        check.agreeing(knots, values, own, np.maximum(np.abs(left), np.abs(right)))
        start = np.clip(np.searchsorted(knots, grid[:-1], side="right") - 1, 0, len(h) - 1)
        return cls(
            knots,
            coefficients,
            values,
            start.astype(np.float64),
            scale,
            max(float(right[0]), -slope_bound),
            min(float(left[-1]), slope_bound),
            max(curvature, steepest) if math.isfinite(curvature) else math.inf,
            continuous,
            once and not kinks,
        )

    def numbers(self, margin: bool) -> Floats:
        """The table in one row, as `table` reads it."""
        head = [
            self.lowest,
            self.highest,
            self.curvature,
            float(margin),
            self.scale,
            math.asinh(REACH),
            CELLS / (2 * math.asinh(REACH)),
            float(CELLS),
            float(len(self.coefficients)),
        ]
        return np.concatenate([head, self.start, self.knots, self.coefficients.ravel()])

    def value(self, z: Floats) -> Floats:
        """The integral of the slope; straight beyond the knots."""
        inside = np.clip(z, self.knots[0], self.knots[-1])
        k = np.searchsorted(self.knots, inside, side="right") - 1
        k = np.clip(k, 0, len(self.coefficients) - 1)
        found = self.values[k] + _powers(self.coefficients[k], inside - self.knots[k])
        beyond = z - inside
        with np.errstate(invalid="ignore"):
            straight = np.where(beyond > 0, self.highest, self.lowest) * beyond
        return np.asarray(found + np.where(beyond == 0, 0.0, straight))


def _powers(c: Floats, u: Any) -> Floats:
    """The integral of pieces c (..., 4) from their knots over lengths u (...)."""
    return np.asarray(
        u * (c[..., 0] + u * (c[..., 1] / 2 + u * (c[..., 2] / 3 + u * c[..., 3] / 4)))
    )


def _with_kinks(grid: Floats, kinks: tuple[float, ...], who: str) -> Floats:
    """The grid with the kinks in it; where one nearly meets a point of the grid, it takes its
    place."""
    if not kinks:
        return grid
    if len(kinks) > MOST_KINKS or any(not grid[1] < kink < grid[-2] for kink in kinks):
        raise InputError(
            f"{who}: kinks must be at most {MOST_KINKS} numbers between {grid[1]:g} and "
            f"{grid[-2]:g}, not {kinks}; give a larger scale, or fewer of them."
        )
    kept = grid
    for kink in kinks:
        place = int(np.searchsorted(grid, kink))
        width = grid[place] - grid[place - 1]
        kept = kept[np.abs(kept - kink) > 1e-3 * width]
    return np.unique(np.concatenate([kept, kinks]))


class _Declared:
    """What is asked of a user's functions on the grid."""

    def __init__(self, who: str, argument: str) -> None:
        self._who, self._argument = who, argument

    def asked(self, name: str, function: Callable[[Any], Any], z: Floats) -> Floats:
        """function(z), of arrays or else of one number at a time; finite everywhere."""
        with np.errstate(all="ignore"):
            try:
                found = np.asarray(function(z), np.float64)
            except (TypeError, ValueError):
                found = np.array([float(function(float(one))) for one in z])
            if found.shape != z.shape:
                found = np.array([float(function(float(one))) for one in z])
        wrong = np.flatnonzero(~np.isfinite(found))
        if len(wrong):
            at = wrong[np.argmin(np.abs(z[wrong]))]
            self._refuse(
                f"{name} is {found[at]:g} at {self._argument} {z[at]:g}",
                "write it so that it is finite there, without overflow",
            )
        return found

    def sides(
        self, slope: Callable[[Any], Any], knots: Floats, kinks: tuple[float, ...]
    ) -> tuple[Floats, Floats]:
        """(left, right) limits of the slope at each knot; they differ at kinks only."""
        left = self.asked("slope", slope, knots)
        right = left.copy()
        if kinks:
            at = np.searchsorted(knots, kinks)
            left[at] = self.asked("slope", slope, np.nextafter(knots[at], -np.inf))
            right[at] = self.asked("slope", slope, np.nextafter(knots[at], np.inf))
        return left, right

    def bounded(self, knots: Floats, left: Floats, right: Floats, bound: float) -> None:
        size = np.maximum(np.abs(left), np.abs(right))
        worst = int(np.argmax(size))
        if size[worst] > bound * (1 + ROUNDING):
            self._refuse(
                f"slope_bound is {bound:g}, and the slope is {size[worst]:.9g} at {self._argument} "
                f"{knots[worst]:g}",
                "declare a larger slope_bound, or slope_bound=inf and clip_norm",
            )

    def rising(self, knots: Floats, left: Floats, right: Floats) -> tuple[Floats, Floats]:
        """The same with what rounding took from a slope that never falls put back."""
        both = np.stack([left, right], axis=1).ravel()
        top = np.maximum.accumulate(both)
        fall = (top - both) / (1.0 + np.abs(both))
        falls = np.flatnonzero(fall > ROUNDING)
        if len(falls):
            worst = int(falls[np.argmin(np.abs(knots[falls // 2]))])
            self._refuse(
                f"a convex loss has a slope that never falls, and this one falls to "
                f"{both[worst]:.9g} at {self._argument} {knots[worst // 2]:g}, "
                f"below the {top[worst]:.9g} before it",
                "use a convex loss",
            )
        return top[::2].copy(), top[1::2].copy()

    def curved(
        self,
        knots: Floats,
        h: Floats,
        secants: Floats,
        jump: Floats,
        right: Floats,
        curvature: float,
    ) -> None:
        gap = int(np.argmax(jump))
        if jump[gap] > ROUNDING * (1.0 + abs(right[gap])):
            self._refuse(
                f"curvature is {curvature:g}, and the slope jumps by {jump[gap]:g} at the kink "
                f"{knots[gap]:g}",
                "declare curvature=inf",
            )
        rounding = ROUNDING * (1.0 + np.abs(right[1:])) / h
        excess = secants - curvature * (1 + SLACK) - np.minimum(rounding, curvature)
        worst = int(np.argmax(excess))
        if excess[worst] > 0:
            self._refuse(
                f"curvature is {curvature:g}, and the slope rises at a rate of "
                f"{secants[worst]:.9g} from {self._argument} {knots[worst]:g} to "
                f"{knots[worst + 1]:g}",
                "declare a larger curvature, or inf and the kinks",
            )

    def agreeing(self, knots: Floats, values: Floats, own: Floats, slopes: Floats) -> None:
        size = 1.0 + np.abs(own) + slopes * np.abs(knots)
        apart = np.flatnonzero(np.abs(values - own) / size > AGREE)
        if len(apart):
            worst = int(apart[np.argmin(np.abs(knots[apart]))])
            self._refuse(
                f"value is {own[worst]:.9g} at {self._argument} {knots[worst]:g}, and the integral "
                f"of slope from 0 gives {values[worst]:.9g}",
                "make slope the derivative of value, and name in kinks where either bends sharply",
            )

    def _refuse(self, found: str, remedy: str) -> None:
        raise InputError(f"{self._who}: {found}; {remedy}.")


def _cubics(
    knots: Floats, left: Floats, right: Floats, kinks: tuple[float, ...], curvature: float
) -> tuple[Floats, float, bool]:
    """(coefficients, the fastest rise, whether the slope's derivative has no jump): monotone cubic
    pieces through the slopes.

    Tangents are those of a cubic spline on each smooth stretch, cut to at most three times the
    secant on either side, which keeps a piece from falling, and to the curvature. A piece that
    would still rise faster than the curvature, as around a bend that was not named, becomes a line.
    """
    from scipy.interpolate import CubicSpline

    h = np.diff(knots)
    secants = np.maximum((left[1:] - right[:-1]) / h, 0.0)
    start, end = np.empty(len(h)), np.empty(len(h))  # tangents of each piece
    cuts = [0, *np.searchsorted(knots, sorted(kinks)).tolist(), len(knots) - 1]
    for a, b in zip(cuts, cuts[1:], strict=False):
        slopes = np.concatenate([right[a : a + 1], left[a + 1 : b + 1]])
        part, tangents = secants[a:b], np.full(b - a + 1, secants[a])
        if b - a >= 3:
            tangents = CubicSpline(knots[a : b + 1], slopes)(knots[a : b + 1], 1)
        least = np.minimum(np.append(part, part[-1]), np.insert(part, 0, part[0]))
        tangents = np.clip(tangents, 0.0, np.minimum(3.0 * least, curvature))
        start[a:b], end[a:b] = tangents[:-1], tangents[1:]
    limit = curvature * (1 + SLACK)
    lines = _fastest(start, end, secants) > limit
    start[lines] = end[lines] = secants[lines]
    coefficients = np.stack(
        [
            right[:-1],
            start,
            (3.0 * secants - 2.0 * start - end) / h,
            (start + end - 2.0 * secants) / h**2,
        ],
        axis=1,
    )
    return coefficients, float(_fastest(start, end, secants).max()), not lines.any()


def _fastest(start: Floats, end: Floats, secants: Floats) -> Floats:
    """(K,) the largest derivative of each piece: a parabola from `start` to `end` whose mean is the
    secant."""
    bend = 3.0 * (start + end - 2.0 * secants)
    with np.errstate(divide="ignore", invalid="ignore"):
        u = np.clip(-(6.0 * secants - 4.0 * start - 2.0 * end) / (2.0 * bend), 0.0, 1.0)
    u = np.nan_to_num(u)
    inner = start + u * (6.0 * secants - 4.0 * start - 2.0 * end) + u * u * bend
    return np.asarray(np.maximum(np.maximum(start, end), inner))
