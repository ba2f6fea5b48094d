"""Measures of counts and of quantiles from released sums (`CountSums`, `QuantileSums`), with
intervals for sampling and privacy noise together. Pure functions of released values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacenda.evaluation import private_intervals as intervals
from tacenda.evaluation.private_intervals import Estimate
from tacenda.evaluation.released import Released
from tacenda.questions.counts import DEVIANCE_BOUND, QUANTILE_BINS, RATE_EDGES, QuantileSums


def deviance(r: Released) -> Estimate:
    """Mean deviance, in units of the bound on labels."""
    found = r.mean("deviance", "deviance_square")
    return Estimate(*(DEVIANCE_BOUND * float(x) for x in found))


def explained_deviance(r: Released) -> Estimate | None:
    """D2 = 1 - (mean deviance)/(that of the best constant rate); None where nothing is known.

    The best constant is the mean label b; its deviance 2 (mean(c ln c) - b ln b) has the sampling
    variance of the records' own deviances from b, which are convex in the label, so that each
    bin's larger end bounds them. Whatever the correlation of both, their deviations add up at most.
    """
    n, z = r.n, intervals.quantile(r.level)
    if n <= 0:
        return None
    b = min(max(r.sum("label") / n, 1e-300), 1.0)
    mean_log = -r.sum("entropy") / math.e / n
    null = 2.0 * (mean_log - b * math.log(b))
    slope = 2.0 * (1.0 + math.log(b))
    noise = ((2.0 / math.e) ** 2 * r.noise["entropy"] + slope**2 * r.noise["label"]) / n**2
    # A noisy number of records moves either mean in proportion
    noise += r.n_noise * (2.0 * abs(mean_log) + abs(slope) * b) ** 2 / n**2
    # b must be told from 0 with room to spare too: its logarithm enters to first order only
    hidden = b * n <= intervals.FAR * math.sqrt(r.noise["label"] + b**2 * r.n_noise)
    if hidden or null <= max(intervals.FAR * math.sqrt(noise), 1e-12):
        return None
    ends = np.array([0.0, *RATE_EDGES, 1.0])
    own = 2.0 * (np.where(ends > 0, ends * np.log(np.maximum(ends, 1e-300) / b), 0.0) - ends + b)
    worst = np.maximum(own[:-1], own[1:]) ** 2
    shares = np.maximum(r.parts["labels"][0], 0.0)
    shares = shares / max(float(shares.sum()), 1e-300)
    std = math.sqrt(max(float((shares * worst).sum()) - null**2, 0.0) / n + noise)
    q, low, high = deviance(r)
    ratio = q / null
    down = ((high - q) + ratio * z * std) / null
    up = ((q - low) + ratio * z * std) / null
    return Estimate(1.0 - ratio, 1.0 - ratio - down, min(1.0 - ratio + up, 1.0))


def bias(r: Released) -> Estimate:
    """Mean of label - predicted rate, in units of the bound on labels."""
    if r.n <= 0:
        return Estimate(0.0, -1.0, 1.0)
    mean = (r.sum("label") - r.sum("prediction")) / r.n
    noise = r.noise["label"] + r.noise["prediction"] + mean**2 * r.n_noise
    square = float(r.mean("squares").high)
    wide = intervals.quantile(r.level) * math.sqrt(square / r.n + noise / r.n**2)
    return Estimate(*(min(max(x, -1.0), 1.0) for x in (mean, mean - wide, mean + wide)))


def means_by_rate(r: Released, unit: float, centre: float) -> list[dict[str, Any]]:
    """Of each bin of the predicted rate the mean label, with its interval."""
    counts, sums = r.parts["rates"][0], r.parts["means"][0]
    ends = (0.0, *RATE_EDGES, 1.0)
    found = []
    for k, (whole, total) in enumerate(zip(counts, sums, strict=True)):
        middle = min(max(total / whole, 0.0), 1.0) if whole > 0 else 0.5
        noise = (r.noise["means"], r.noise["rates"])
        mean = intervals.mean(total, whole, r.level, middle * (1 - middle), noise)
        known = whole >= max(1.0, intervals.FAR * math.sqrt(r.noise["rates"]))
        found.append(_bin(ends[k], ends[k + 1], whole, mean if known else None, unit, centre, unit))
    return found


def share_below(r: Released, size_known: bool) -> Estimate:
    """Share of labels at or below the prediction."""
    table, var = r.parts["below"], r.noise["below"]
    below = float(table[1].sum())
    if size_known:  # both rows add up to a public number
        below += (r.n - float(table.sum())) / 2
        noise = (var * QUANTILE_BINS / 2, 0.0, 0.0)
    else:
        noise = (var * QUANTILE_BINS, var * QUANTILE_BINS, 2 * var * QUANTILE_BINS)
    return intervals.share(below, r.n, r.level, noise)


def shares_by_prediction(
    s: QuantileSums, r: Released, unit: float, centre: float
) -> list[dict[str, Any]]:
    """Of each bin of the prediction the share of labels at or below it, with its interval."""
    table, var = r.parts["below"], r.noise["below"]
    ends = np.linspace(s.low, s.high, QUANTILE_BINS + 1)
    found = []
    for k in range(QUANTILE_BINS):
        whole = float(table[:, k].sum())
        share = intervals.share(table[1, k], whole, r.level, (var, var, 2 * var))
        known = whole >= max(1.0, intervals.quantile(r.level) * math.sqrt(2 * var))
        found.append(_bin(ends[k], ends[k + 1], whole, share if known else None, unit, centre))
    return found


def _bin(
    low: float,
    high: float,
    records: float,
    observed: Estimate | None,
    unit: float,
    centre: float,
    observed_unit: float | None = None,
) -> dict[str, Any]:
    ends = None
    if observed is not None:
        numbers = [float(x) for x in observed]
        if observed_unit is not None:
            numbers = [centre + observed_unit * x for x in numbers]
        ends = dict(zip(Estimate._fields, numbers, strict=True))
    return {
        "low": centre + unit * float(low),
        "high": centre + unit * float(high),
        "records": round(float(records), 1),
        "observed": ends,
    }


def pinball(s: QuantileSums, r: Released) -> Estimate:
    """Mean pinball loss, in the units of the problem."""
    found = r.mean("pinball", "pinball_square")
    return Estimate(*(s.largest * float(x) for x in found))
