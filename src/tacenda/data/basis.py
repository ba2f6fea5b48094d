"""Hat functions on public knots, smoothed by a prior: what a column is in an additive model.

    h_j(x)   the hat of knot j: 1 there, 0 at all other knots, straight in between
    S        c (I + 10 D'D)^(-1/2), D the first differences of neighbouring knots' values
    row      h(x)' S;   a weight vector w is the curve x -> h(x)' S w

A penalty |w|^2 then asks for smooth curves, and the number of hats hardly matters. Everything here
follows from what is declared; nothing is read from records.

Why no block is longer than 1. c is one over the largest row norm of the unscaled S. Between two
knots h(x) is (1 - t) e_j + t e_(j+1), so |h(x)'S|^2 is a convex quadratic function of t, which is
largest at an end: at a knot, where the row is a row of S. In a cell of a pair's grid the square is
convex in each of the two coordinates with the other held, so that moving either to one of its ends
never makes it smaller: it is largest at a corner, again a row of S. A level of a category or an
atom is a corner, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tacenda._types import Floats

FUNCTIONS = 32  # hats of a column: the prior does the choosing
# Where numbers are learnt: least squares has no prior but the one in the basis, so that noise costs
# in proportion to the hats
NUMBER_FUNCTIONS = 24
LEAST_FUNCTIONS = 4
PAIR_FUNCTIONS = 6  # of each of the two numbers of a pair: a grid of 36 knots
SMOOTHNESS = 10.0
# As many as a full map of the second moment serves (`algorithms.whitening`): half a million numbers
MOST_FEATURES = 1000


@dataclass(frozen=True, eq=False)
class Hats:
    """Hat functions on rising knots; with a period they wrap around: the last knot's neighbour is
    the first one, a period later."""

    knots: Floats
    period: float | None = None

    @staticmethod
    def evenly(low: float, high: float, count: int) -> Hats:
        """So many knots from low to high."""
        return on_knots(tuple(np.linspace(low, high, count).tolist()))

    @staticmethod
    def around(period: float, count: int) -> Hats:
        """So many knots from 0 up to, but without, the period."""
        return on_knots(tuple((period * np.arange(count) / count).tolist()), period)

    def __call__(self, x: Floats) -> Floats:
        """(n, k) values of the hats; those of the first or last knot beyond it. NaN stays NaN."""
        x, knots = np.asarray(x, float), self.knots
        ends = knots
        if self.period is not None:
            x = knots[0] + np.mod(x - knots[0], self.period)
            ends = np.append(knots, knots[0] + self.period)
        place = np.clip(np.searchsorted(ends, x, side="right") - 1, 0, len(ends) - 2)
        t = np.clip((x - ends[place]) / (ends[place + 1] - ends[place]), 0.0, 1.0)
        values, rows = np.zeros((len(x), len(knots))), np.arange(len(x))
        values[rows, place] = 1.0 - t
        values[rows, (place + 1) % len(knots)] += t
        return values

    @property
    def roughness(self) -> Floats:
        """(k, k) D'D."""
        return differences(len(self.knots), wrapped=self.period is not None)

    @cached_property
    def smoother(self) -> Floats:
        """(k, k) S."""
        return smoother(self.roughness)


@lru_cache(maxsize=512)
def on_knots(knots: tuple[float, ...], period: float | None = None) -> Hats:
    """The hats on these knots; kept, with what was computed of them."""
    return Hats(np.array(knots), period)


def differences(count: int, *, wrapped: bool = False) -> Floats:
    """(count, count) D'D of the first differences; wrapped: with that of the last and the first."""
    steps = np.diff(np.eye(count), axis=0)
    if wrapped and count > 2:
        steps = np.vstack([steps, np.eye(count)[0] - np.eye(count)[-1]])
    return np.asarray(steps.T @ steps)


def smoother(roughness: Floats) -> Floats:
    """(k, k) c (I + 10 D'D)^(-1/2), whose longest row has norm 1."""
    values, vectors = np.linalg.eigh(np.eye(len(roughness)) + SMOOTHNESS * roughness)
    root = (vectors / np.sqrt(values)) @ vectors.T
    return np.asarray(root / np.sqrt((root**2).sum(axis=1).max()))


def pair_smoother(first: Floats, second: Floats) -> Floats:
    """The same of the products of two bases, from the roughness of each, which is 0 where levels
    have no order. Product (a, b) stands at a * len(second) + b."""
    whole = np.kron(first, np.eye(len(second))) + np.kron(np.eye(len(first)), second)
    return smoother(whole)


def products(first: Floats, second: Floats) -> Floats:
    """(n, ka kb) each record's products of two bases (n, ka) and (n, kb)."""
    return (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)
