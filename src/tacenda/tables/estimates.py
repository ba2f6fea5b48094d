"""Counts that agree with each other, and what follows from them: pure functions of released values.

A column's cells of one group, and the group's size, were released with independent noise. Of all
tables in which the parts add up to their totals, `agreeing` takes the nearest one, each part
weighted by its noise (least squares; Hay et al. 2010). Its cells have, with v the noise variance of
a cell, K cells and V that of the group's size,

    covariance of a group's cells = v (I - 11'/K) + V/K^2 11'

`whole_counts` then makes of them whole numbers, none below 0, with the same totals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacenda._types import Floats, Ints
from tacenda.evaluation import private_intervals as intervals
from tacenda.evaluation.private_intervals import Estimate
from tacenda.questions.tables import GROUPS, TableSums


@dataclass(frozen=True, eq=False)
class Sizes:
    """Noisy sizes of the groups, (G,); the noise variance of one, and of all together."""

    each: Floats
    variance: float
    variance_of_all: float

    @classmethod
    def of(cls, asked: TableSums, total: Floats, noise: float, records: int | None) -> Sizes:
        """Every column's cells add up to the sizes of the groups: take the best mean of all of
        these sums. records: the public number of all records, None where it is private."""
        parts, groups = asked.parts(total), asked.groups
        found, precision = np.zeros(groups), 0.0
        for name, values in parts.items():
            if "moments" in name:
                continue
            sums, cells = (
                (values[0], 1) if name == GROUPS else (values.sum(axis=1), values.shape[1])
            )
            weight = asked.scales[name] ** 2 / cells
            found, precision = found + weight * sums, precision + weight
        found, variance = found / precision, noise**2 / precision
        if records is None:
            return cls(found, variance, groups * variance)
        found = found + (records - found.sum()) / groups
        return cls(found, variance * (1 - 1 / groups), 0.0)


@dataclass(frozen=True, eq=False)
class Cells:
    """Counts (K,) of one group, or of all groups together, that agree with the group's size."""

    counts: Floats
    variance: float  # v: noise of one cell
    size_variance: float  # V: noise of the size

    @property
    def size(self) -> float:
        """Noisy number of records."""
        return float(self.counts.sum())

    def covariance(self, a: Floats, b: Floats) -> float:
        """Noise covariance of the sums a'counts and b'counts, each (K,)."""
        k, both = len(self.counts), float(a.sum() * b.sum())
        return self.variance * (float(a @ b) - both / k) + self.size_variance * both / k**2

    def share(self, part: Floats, whole: Floats, level: float) -> Estimate:
        """Share of the records in the cells `part` among those in `whole`, both (K,) of 0 and 1."""
        noise = tuple(self.covariance(*ab) for ab in ((part, part), (part, whole), (whole, whole)))
        return intervals.share(
            float(part @ self.counts),
            float(whole @ self.counts),
            level,
            noise,  # type: ignore[arg-type]
        )

    def count(self, part: Floats, level: float) -> Estimate:
        """Number of these records in the cells `part`: the interval is for the noise alone."""
        value = float(part @ self.counts)
        wide = intervals.quantile(level) * math.sqrt(max(self.covariance(part, part), 0.0))
        return Estimate(value, max(value - wide, 0.0), max(value + wide, 0.0))


def agreeing(asked: TableSums, total: Floats, noise: float, sizes: Sizes) -> list[list[Cells]]:
    """Of each column the cells of every group, and last those of all groups together."""
    parts, found = asked.parts(total), []
    for k in range(len(asked.columns)):
        values, v = parts[str(k)], (noise / asked.scales[str(k)]) ** 2
        count = values.shape[1]
        moved = values + ((sizes.each - values.sum(axis=1)) / count)[:, None]
        own = [Cells(row, v, sizes.variance) for row in moved]
        everyone = Cells(moved.sum(axis=0), asked.groups * v, sizes.variance_of_all)
        found.append([*own, everyone])
    return found


def whole_counts(values: Floats, total: int) -> Ints:
    """The nearest whole numbers, none below 0, that add up to `total`."""
    if total <= 0:
        return np.zeros(len(values), np.int64)
    near = _none_below_zero(values, total)
    found = np.floor(near).astype(np.int64)
    left = total - int(found.sum())
    found[np.argsort(found - near, kind="stable")[:left]] += 1
    return found


@dataclass(frozen=True)
class Moments:
    """Mean and variance of a number's place u between its bounds, with their standard errors.

    mean, variance: estimates with intervals; mean_error, variance_error: for noise and sampling.
    """

    mean: Estimate
    mean_error: float
    variance: float
    variance_error: float

    @classmethod
    def of(cls, sums: Floats, noise: float, cells: Cells, middles: Floats, level: float) -> Moments:
        """From the sums of u and of 4u(1 - u), (2,), with noise of this variance, and the cells of
        the column, whose bins have these middles (K - 1,)."""
        there = np.append(np.ones(len(middles)), 0.0)
        n, n_noise = float(there @ cells.counts), cells.covariance(there, there)
        if n <= 1 or n <= intervals.quantile(level) * math.sqrt(max(n_noise, 0.0)):
            return cls(Estimate(0.5, 0.0, 1.0), math.inf, 0.25, math.inf)
        m, q = min(max(sums[0] / n, 0.0), 1.0), sums[1] / n
        variance = min(max((m * (1 - m) - q / 4) * n / (n - 1), 0.0), 0.25)
        by_noise = (
            noise * ((1 - 2 * m) ** 2 + 1 / 16) + n_noise * (m - 2 * m * m - q / 4) ** 2
        ) / n**2
        error = math.sqrt(by_noise + _fourth(cells.counts[:-1], middles, m, variance) / n)
        # As large as the noise of the variance allows: means must not seem too sure
        most = min(variance + intervals.quantile(level) * math.sqrt(by_noise), m * (1 - m))
        mean = intervals.mean(sums[0], n, level, max(most, 0.0), (noise, n_noise))
        spread = math.sqrt(max(most, 0.0) / n + (noise + m * m * n_noise) / n**2)
        return cls(mean, spread, variance, error)

    def deviation(self, level: float) -> Estimate:
        """The standard deviation of u."""
        wide = intervals.quantile(level) * self.variance_error
        low, high = max(self.variance - wide, 0.0), min(self.variance + wide, 0.25)
        return Estimate(math.sqrt(self.variance), math.sqrt(low), math.sqrt(high))


def _fourth(counts: Floats, middles: Floats, mean: float, variance: float) -> float:
    """Variance of (u - mean)^2: from the bins where there are several, else its largest value."""
    most = max(variance * max(mean, 1 - mean) ** 2 - variance**2, 0.0)
    weights = np.maximum(counts, 0.0)
    if len(middles) < 4 or weights.sum() <= 0:
        return most
    squares = (middles - mean) ** 2
    found = float(weights @ (squares - variance) ** 2 / weights.sum())
    return min(max(found, 2 * variance**2 / 3), most)


def quantile_of(cells: Cells, edges: Floats, q: float, level: float) -> Estimate:
    """The q quantile of u, from counts between the edges (K,), 0 and 1 among them.

    The ends are edges at which the share below is not q at this level.
    """
    k = len(cells.counts)
    there = np.append(np.ones(k - 1), 0.0)
    counts = np.maximum(cells.counts[:-1], 0.0)
    if counts.sum() <= 0:
        return Estimate(0.5, 0.0, 1.0)
    near = _none_below_zero(cells.counts[:-1], float(counts.sum()))
    below = np.append(0.0, np.cumsum(near + 1e-12 * near.sum()))  # rising, for the inverse
    value = float(np.interp(q, below / below[-1], edges))
    low, high = 0.0, 1.0
    for j in range(1, k - 1):
        part = np.append((np.arange(k - 1) < j).astype(float), 0.0)
        share = cells.share(part, there, level)
        if share.high < q:
            low = max(low, float(edges[j]))
        if share.low > q:
            high = min(high, float(edges[j]))
    return Estimate(value, min(low, value), max(high, value))


def _none_below_zero(values: Floats, total: float) -> Floats:
    """The nearest numbers, none below 0, that add up to total > 0."""
    falling = np.sort(values)[::-1]
    over = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    return np.maximum(values - over[np.flatnonzero(falling > over)[-1]], 0.0)


def difference(
    one: tuple[float, float, float, float], other: tuple[float, float, float, float], level: float
) -> Estimate:
    """Standardised difference (mean - other mean)/sqrt((variance + other variance)/2).

    Each of both: mean, its standard error, variance, its standard error.
    """
    (a, ea, va, eva), (b, eb, vb, evb) = one, other
    pooled = (va + vb) / 2
    if pooled <= 0 or not math.isfinite(ea + eb):
        return Estimate(0.0, -math.inf, math.inf)
    d = (a - b) / math.sqrt(pooled)
    spread = (ea**2 + eb**2) / pooled + d**2 * (eva**2 + evb**2) / (16 * pooled**2)
    wide = intervals.quantile(level) * math.sqrt(spread)
    return Estimate(d, d - wide, d + wide)
