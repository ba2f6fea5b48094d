"""Survival curves and the log-rank test from noisy counts: pure functions of released values.

A record is in one cell: the event in period k, that is in (point k-1, point k]; or last seen
without it, by the number of points that it has reached; or its time is missing. With d_k the events
of a period and n_k those at risk in it,

    hazard h_k = d_k / n_k      S = prod (1 - h_k)      H = -log S, or sum h_k

Who was last seen during a period counts as half at risk in it (the life table of actuaries), or,
where all times are on the points, not at all: who was last seen at a point has survived it.

Variances are those of Greenwood for sampling, and to first order for the noise of the counts. Ends
of H solve (H - estimate)^2 = z^2 (noise + rho H), where rho H is the sampling variance at H: they
hold near 0 too, where few events were seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from tacenda._types import Array, Floats
from tacenda.evaluation import private_intervals as intervals
from tacenda.evaluation.private_intervals import Estimate
from tacenda.tables.estimates import Cells, Sizes

FAR = 4.0  # standard deviations of noise that the number at risk must be above 0


def cells_of(points: int) -> int:
    """Number of cells: events, last seen, and missing."""
    return 2 * points + 2


def counting(points: int, on_points: bool) -> tuple[Array, Array]:
    """Which cells are added up for events and for those at risk: two arrays (T, K) of 0, 1/2, 1."""
    k = np.arange(points)
    events, at_risk = np.zeros((2, points, cells_of(points)))
    events[k, k] = 1.0
    at_risk[:, :points] = k[:, None] <= k
    seen = np.arange(points + 1)
    at_risk[:, points : 2 * points + 1] = k[:, None] < seen
    if not on_points:
        at_risk[k, points + k] = 0.5
    return events, at_risk


@dataclass(frozen=True, eq=False)
class LifeTable:
    """Of one group at T points: events and at_risk (T,); log_survival (T,); the covariance of its
    noise and of its sampling (T, T); rho (T,); hazards (T,) added up; known: how many of the points
    the noise leaves readable."""

    points: Floats
    on_points: bool
    events: Floats
    at_risk: Floats
    hazards: Floats
    log_survival: Floats
    noise: Array
    sampling: Array
    rho: Floats
    known: int

    @classmethod
    def of(cls, cells: Cells, points: Floats, on_points: bool) -> LifeTable:
        """From counts of `cells_of(len(points))` cells."""
        d_of, n_of = counting(len(points), on_points)
        d, n = d_of @ cells.counts, n_of @ cells.counts
        spread = np.array([math.sqrt(max(cells.covariance(row, row), 0.0)) for row in n_of])
        # d = n in the last period that anybody reached: S is 0 from there on
        good = (n > np.maximum(FAR * spread, 1e-9)) & ((spread == 0) | (d < n))
        known = len(points) if good.all() else int(np.argmin(good))
        n_safe = np.where(np.arange(len(n)) < known, n, np.inf)
        h = np.minimum(d / n_safe, 1.0)
        left = np.maximum(1 - h, 1e-12)
        log_survival = np.cumsum(np.log(left))
        gradient = np.cumsum(-(d_of - h[:, None] * n_of) / (n_safe * left)[:, None], axis=0)
        sums = gradient.sum(axis=1)
        k = gradient.shape[1]
        noise = cells.variance * (gradient @ gradient.T - np.outer(sums, sums) / k)
        noise = noise + cells.size_variance * np.outer(sums, sums) / k**2
        up = np.maximum(d, 0.0)
        steps = up / (n_safe * n_safe * left)
        greenwood = np.cumsum(steps)
        at = np.arange(len(d))
        sampling = greenwood[np.minimum(at[:, None], at)]
        weights = up / n_safe + 1e-12
        rho = np.cumsum(weights / (n_safe * left)) / np.cumsum(weights)
        return cls(points, on_points, d, n, h, log_survival, noise, sampling, rho, known)

    def cumulative_hazard(self, level: float, *, sums: bool = False) -> Estimate:
        """H at each point; sums: of the hazards (Nelson and Aalen), else -log S. NaN where noise
        leaves nothing to know."""
        values = np.cumsum(self.hazards) if sums else -self.log_survival
        z2 = intervals.quantile(level) ** 2
        half = values + z2 * self.rho / 2
        root = np.sqrt(np.maximum(half**2 - values**2 + z2 * np.diag(self.noise), 0.0))
        shown = np.maximum(rising(values[: self.known]), 0.0)
        found = np.full((3, len(values)), np.nan)
        found[0, : self.known] = shown
        low = np.minimum(np.maximum(half - root, 0.0)[: self.known], shown)
        found[1, : self.known] = low
        found[2, : self.known] = np.maximum((half + root)[: self.known], shown)
        return Estimate(*found)

    def survival(self, level: float) -> Estimate:
        """S at each point, falling, with its interval."""
        hazard = self.cumulative_hazard(level)
        return Estimate(*(np.exp(-np.asarray(x)) for x in (hazard[0], hazard[2], hazard[1])))

    def time_at(self, share: float, level: float) -> Estimate:
        """When survival falls to `share`, such as a median at 0.5; infinite where it does not."""
        value, low, high = (self._crossing(s, share) for s in self.survival(level))
        return Estimate(value, low, high)

    def _crossing(self, survival: Floats, share: float) -> float:
        s = np.asarray(survival)[: self.known]
        below = np.flatnonzero(s <= share)
        if not len(below):
            return math.inf
        k = int(below[0])
        if self.on_points:
            return float(self.points[k])
        before, start = (1.0, 0.0) if k == 0 else (float(s[k - 1]), float(self.points[k - 1]))
        part = 1.0 if before <= s[k] else (before - share) / (before - float(s[k]))
        return start + part * (float(self.points[k]) - start)

    def restricted_mean(self, last: int, level: float) -> Estimate:
        """Mean time up to points[last - 1]: the area below the curve, straight between points, or
        in steps where all times are on the points."""
        widths = np.diff(np.append(0.0, self.points))[:last]
        s = np.exp(self.log_survival[:last])
        shown = np.append(1.0, np.asarray(self.survival(level).value)[:last])
        if self.on_points:
            area, weights = float(widths @ shown[:-1]), np.append(widths[1:], 0.0)
        else:
            area = float(widths @ (shown[:-1] + shown[1:]) / 2)
            weights = (widths + np.append(widths[1:], 0.0)) / 2
        slope = weights * s
        both = self.noise[:last, :last] + self.sampling[:last, :last]
        wide = intervals.quantile(level) * math.sqrt(max(float(slope @ both @ slope), 0.0))
        most = float(self.points[last - 1])
        return Estimate(area, max(area - wide, 0.0), min(area + wide, most))


def rising(values: Floats) -> Floats:
    """The nearest values that never fall (pooling of neighbours that do)."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        block = (float(value), 1)
        while blocks and blocks[-1][0] > block[0]:
            mean, count = blocks.pop()
            block = ((mean * count + block[0] * block[1]) / (count + block[1]), count + block[1])
        blocks.append(block)
    return np.array([mean for mean, count in blocks for _ in range(count)])


@dataclass(frozen=True)
class LogRank:
    """A test of whether groups have one survival curve.

    Parameters
    ----------
    statistic : float
        Chi-squared, with noise in its variance.
    p_value : float
        Its chance where all groups are alike.
    degrees : int
        Number of groups less 1.
    last_point : float
        Up to when all groups could be read.

    Examples
    --------
    >>> from tacenda.tables import LogRank
    >>> LogRank(3.84, 0.05, 1, 12.0).degrees
    1
    """

    statistic: float
    p_value: float
    degrees: int
    last_point: float


def log_rank(
    groups: list[Cells], sizes: Sizes, points: Floats, on_points: bool, public: bool
) -> LogRank | None:
    """Mantel's test on the points; None where some group cannot be read at all. groups: those that
    are compared; public: whether the number of all records is."""
    tables = [LifeTable.of(cells, points, on_points) for cells in groups]
    last, count = min(t.known for t in tables), len(groups)
    if last == 0 or count < 2:
        return None
    d_of, n_of = (m[:last] for m in counting(len(points), on_points))
    d, n = (np.array([m @ cells.counts for cells in groups]) for m in (d_of, n_of))
    d_all, n_all = d.sum(axis=0), n.sum(axis=0)
    share = n / n_all
    score = (d - share * d_all).sum(axis=1)
    each = np.maximum(d_all, 0.0) * np.clip(
        (n_all - d_all) / np.maximum(n_all - 1, 1e-9), 0.0, None
    )
    variance = np.einsum("k,gk,hk->gh", -each, share, share) + np.diag((each * share).sum(axis=1))
    # How the score of g moves with a cell of group h
    rate = d_all / n_all
    moved = np.empty((count, count, n_of.shape[1]))
    for g in range(count):
        for h in range(count):
            own = float(g == h)
            moved[g, h] = (
                (own - share[g])[:, None] * d_of - ((own - share[g]) * rate)[:, None] * n_of
            ).sum(axis=0)
    sums, k = moved.sum(axis=2), n_of.shape[1]
    v = groups[0].variance
    noise = v * (np.einsum("ghc,fhc->gf", moved, moved) - sums @ sums.T / k)
    of_sizes = np.eye(count) * sizes.variance
    if public and len(sizes.each) > 1:
        cross = -sizes.variance / (len(sizes.each) - 1)
        of_sizes = of_sizes + cross * (1 - np.eye(count))
    noise = noise + sums @ of_sizes @ sums.T / k**2
    total = (variance + noise)[:-1, :-1]
    value = float(score[:-1] @ np.linalg.lstsq(total, score[:-1], rcond=None)[0])
    chance = float(chdtrc(count - 1, value))
    return LogRank(value, chance, count - 1, float(points[last - 1]))
