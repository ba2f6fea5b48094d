"""Measures of a regression: of values, of counts and of quantiles, on labelled records and on
released sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacenda._types import Floats
from tacenda.evaluation import private_counts
from tacenda.evaluation import private_intervals as intervals
from tacenda.evaluation.measure import IN_HEADLINES, Measure, Told
from tacenda.evaluation.private_intervals import Estimate
from tacenda.evaluation.released import Release, n_records, n_records_noise, taken_apart
from tacenda.questions.counts import (
    DEVIANCE_BOUND,
    RESIDUAL_EDGES,
    CountSums,
    QuantileSums,
    ValueSums,
)
from tacenda.runtime.metrics import two_digits

NUMBERS = ("value", "log-rate", "quantile")  # what the scores of a regression may predict
UNKNOWN = Told(Estimate(0.0, -1.0, 1.0), (-1.0, 1.0))


@dataclass(frozen=True, eq=False)
class ValueSample:
    """Records with labels and predictions (N,) in the label's own units; quantile: the share of
    labels that should lie below, where a quantile was learnt."""

    labels: Floats
    predictions: Floats
    quantile: float | None = None


# ---- on records
def _r2(s: ValueSample) -> float | None:
    from sklearn.metrics import r2_score

    varied = len(s.labels) > 1 and float(np.ptp(s.labels)) > 0
    return float(r2_score(s.labels, s.predictions)) if varied else None


def _rmse(s: ValueSample) -> float | None:
    return math.sqrt(float(np.mean((s.labels - s.predictions) ** 2)))


def _mae(s: ValueSample) -> float | None:
    from sklearn.metrics import mean_absolute_error

    return float(mean_absolute_error(s.labels, s.predictions))


def _deviance(s: ValueSample) -> float | None:
    from sklearn.metrics import mean_poisson_deviance

    rates = np.maximum(s.predictions, np.finfo(float).tiny)
    return float(mean_poisson_deviance(s.labels, rates)) if (s.labels >= 0).all() else None


def _pinball(s: ValueSample) -> float | None:
    from sklearn.metrics import mean_pinball_loss

    return float(mean_pinball_loss(s.labels, s.predictions, alpha=s.quantile))


def _share_below(s: ValueSample) -> float | None:
    return float(np.mean(s.labels <= s.predictions))


# ---- on sums of values
class _Values:
    """A release of `ValueSums` taken apart: sums by part and the noise variance of each, the number
    of records and its noise variance, and z of the intervals."""

    def __init__(self, e: Release, s: ValueSums) -> None:
        found = s.parts(e.total)
        self.level, self.z = e.level, intervals.quantile(e.level)
        self.n, self.n_noise = n_records(e)[0], n_records_noise(e)
        self.sums = {name: float(v[0]) for name, v in found.items() if name != "residuals"}
        self.var = {name: (e.noise * f) ** 2 for name, f in s.factors().items()}
        counts = np.maximum(found["residuals"][0], 0.0)
        self._shares = counts / max(float(counts.sum()), 1e-300)

    @cached_property
    def squares(self) -> Estimate:
        """The mean squared residual, in units of the reach."""
        return self._of_residuals("squares", 2)

    @cached_property
    def absolute(self) -> Estimate:
        """The mean size of a residual, in units of the reach."""
        return self._of_residuals("absolute", 1)

    def _of_residuals(self, name: str, power: int) -> Estimate:
        n, tops = self.n, np.array([*RESIDUAL_EDGES, 1.0])
        mean = min(max(self.sums[name] / n, 0.0), 1.0) if n > 0 else 0.5
        square = float((self._shares * tops ** (2 * power)).sum())
        spread = min(max(square - mean**2, 0.0), mean * (1 - mean))
        noise = (self.var[name], self.n_noise)
        return intervals.mean(self.sums[name], n, self.level, spread, noise)


def _counted_r2(e: Release) -> Told | None:
    """1 - Q/T, Q the mean squared residual and T the labels' variance, both in half widths of the
    label's range; whatever their correlation, their deviations add up at most."""
    s = e.statistic
    if not isinstance(s, ValueSums):
        return None
    v, half = _Values(e, s), (s.high - s.low) / 2
    if v.n <= 0:
        return UNKNOWN
    n, z = v.n, v.z
    middle = 2 * v.sums["label"] / n - 1
    spread = v.sums["label_square"] / n - middle**2
    noise = (v.var["label_square"] + (4 * middle) ** 2 * v.var["label"]) / n**2
    noise += v.n_noise * (v.sums["label_square"] / n + 2 * abs(middle)) ** 2 / n**2
    widest = (1 + min(abs(middle), 1.0)) ** 2
    std = math.sqrt(max(widest * spread - spread**2, 0.0) / n + noise)
    if spread <= max(intervals.FAR * math.sqrt(noise), 1e-12):
        return UNKNOWN
    unit = (s.reach / half) ** 2
    q, low, high = (float(x) * unit for x in v.squares)
    ratio = q / spread
    down = ((high - q) + ratio * z * std) / spread
    up = ((q - low) + ratio * z * std) / spread
    ends = Estimate(1 - ratio, 1 - ratio - down, min(1 - ratio + up, 1.0))
    return Told(ends, (-math.inf, 1.0))


def _counted_rmse(e: Release) -> Told | None:
    s = e.statistic
    if not isinstance(s, ValueSums):
        return None
    own = s.reach * e.units.reach
    ends = Estimate(*(own * math.sqrt(max(float(x), 0.0)) for x in _Values(e, s).squares))
    return Told(ends, (0.0, own), _cut(s, own))


def _counted_mae(e: Release) -> Told | None:
    s = e.statistic
    if not isinstance(s, ValueSums):
        return None
    own = s.reach * e.units.reach
    return Told(
        Estimate(*(own * float(x) for x in _Values(e, s).absolute)), (0.0, own), _cut(s, own)
    )


def _cut(s: ValueSums, own: float) -> str:
    return "" if s.residual_bound is None else f"each residual cut to {own:g}"


def _counted_bias(e: Release) -> Told | None:
    """Mean of label - prediction: zero where predictions are right on average."""
    s = e.statistic
    if isinstance(s, CountSums):
        own = s.high * e.units.reach
        found = private_counts.bias(taken_apart(e))
        return Told(Estimate(*(own * float(x) for x in found)), (-own, own))
    if not isinstance(s, ValueSums):
        return None
    v, width = _Values(e, s), (s.high - s.low) * e.units.reach
    limits = (-width, width)
    if v.n <= 0:
        return Told(Estimate(0.0, *limits), limits)
    mean = (v.sums["label"] - v.sums["prediction"]) / v.n
    # A cut residual says less than all about how much they differ
    square = float(v.squares.high) * (s.reach / (s.high - s.low)) ** 2
    square = square if s.residual_bound is None else 1.0
    noise = v.var["label"] + v.var["prediction"] + mean**2 * v.n_noise
    wide = v.z * math.sqrt(square / v.n + noise / v.n**2)
    ends = (width * min(max(x, -1.0), 1.0) for x in (mean, mean - wide, mean + wide))
    return Told(Estimate(*ends), limits)


def _counted_slope(e: Release) -> Told | None:
    """Slope of labels over predictions: 1 where predictions are neither too bold nor too timid.

    Sampling as in least squares with residuals that do not depend on the prediction; noise to first
    order.
    """
    s = e.statistic
    if not isinstance(s, ValueSums):
        return None
    v, unknown = _Values(e, s), Told(Estimate(0.0, -10.0, 10.0), (-10.0, 10.0))
    if v.n <= 0:
        return unknown
    n, z = v.n, v.z
    label, guess = 2 * v.sums["label"] / n - 1, 2 * v.sums["prediction"] / n - 1
    spread = v.sums["prediction_square"] / n - guess**2
    together = 2 * v.sums["product"] / n - 1 - label * guess
    below = (v.var["prediction_square"] + (4 * guess) ** 2 * v.var["prediction"]) / n**2
    above = 4 * v.var["product"] + 4 * guess**2 * v.var["label"]
    above = above + 4 * label**2 * v.var["prediction"]
    # A noisy number of records moves each of these means by at most its own size
    sizes = v.n_noise / n**2
    below, above = below + 9 * sizes, above / n**2 + 9 * sizes
    if spread <= max(intervals.FAR * math.sqrt(below), 1e-12):
        return unknown
    slope = together / spread
    square = float(v.squares.high) * (2 * s.reach / (s.high - s.low)) ** 2
    square = square if s.residual_bound is None else 4.0
    std = math.sqrt(square / (n * spread))
    std += (math.sqrt(above) + abs(slope) * math.sqrt(below)) / spread
    return Told(Estimate(slope, slope - z * std, slope + z * std), (-math.inf, math.inf))


# ---- on sums of counts and of quantiles
def _counted_d2(e: Release) -> Told | None:
    if not isinstance(e.statistic, CountSums):
        return None
    found = private_counts.explained_deviance(taken_apart(e))
    return UNKNOWN if found is None else Told(found, (-math.inf, 1.0))


def _counted_deviance(e: Release) -> Told | None:
    s = e.statistic
    if not isinstance(s, CountSums):
        return None
    own = s.high * e.units.reach
    found = private_counts.deviance(taken_apart(e))
    ends = Estimate(*(own * float(x) for x in found))
    return Told(ends, (0.0, DEVIANCE_BOUND * own), f"each record's cut to {DEVIANCE_BOUND * own:g}")


def _counted_share_below(e: Release) -> Told | None:
    s = e.statistic
    if not isinstance(s, QuantileSums):
        return None
    below = private_counts.share_below(taken_apart(e), e.records is not None)
    return Told(below, (0.0, 1.0), f"{s.level:g} is wanted")


def _counted_pinball(e: Release) -> Told | None:
    s, unit = e.statistic, e.units.reach
    if not isinstance(s, QuantileSums):
        return None
    ends = Estimate(*(unit * x for x in private_counts.pinball(s, taken_apart(e))))
    return Told(ends, (0.0, s.largest * unit))


MEASURES = (
    Measure(
        "r2",
        "R2",
        4,
        True,
        why="it needs at least two different labels",
        of=NUMBERS,
        on_records=_r2,
        on_counts=_counted_r2,
        place=IN_HEADLINES,
    ),
    Measure(
        "rmse",
        "RMSE",
        4,
        False,
        has_unit=True,
        of=NUMBERS,
        on_records=_rmse,
        on_counts=_counted_rmse,
        coarse=two_digits,
        place=IN_HEADLINES,
    ),
    Measure(
        "mae",
        "MAE",
        4,
        False,
        has_unit=True,
        of=NUMBERS,
        on_records=_mae,
        on_counts=_counted_mae,
        coarse=two_digits,
        place=IN_HEADLINES,
    ),
    Measure("d2", "D2, share of the deviance explained", 4, True, on_counts=_counted_d2),
    Measure(
        "deviance",
        "Poisson deviance",
        4,
        False,
        why="it needs counts of at least 0",
        of=("log-rate",),
        on_records=_deviance,
        on_counts=_counted_deviance,
        coarse=two_digits,
    ),
    Measure(
        "share_below",
        "share of labels at or below the prediction",
        4,
        True,
        of=("quantile",),
        on_records=_share_below,
        on_counts=_counted_share_below,
    ),
    Measure(
        "pinball",
        "pinball loss",
        4,
        False,
        has_unit=True,
        of=("quantile",),
        on_records=_pinball,
        on_counts=_counted_pinball,
        coarse=two_digits,
    ),
    Measure(
        "bias",
        "mean of label - prediction",
        4,
        False,
        has_unit=True,
        on_counts=_counted_bias,
        coarse=two_digits,
    ),
    Measure("calibration_slope", "calibration slope", 3, True, on_counts=_counted_slope),
)
