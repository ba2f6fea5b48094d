"""Intervals of ratios and means of noisy sums: sampling and privacy noise together. Pure functions
of released values, elementwise over arrays.

A released sum is A = (sum over the records) + (Gaussian noise of known covariance). A share r =
A/B, where A counts some of the records that B counts, is tested as Wilson (1927) tests a
proportion, with the noise beside the sampling, and solved for r as Fieller (1954) solves for a
ratio:

    (A - r B)^2 <= z^2 (B r (1 - r) + Var noise(A - r B))

Where B itself cannot be told from 0 beside its noise, nothing is known of r: from 0 to 1. Sums of
independent shares follow Zou and Donner (2008): distances from the estimates to their ends add up
as squares.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtri

from tacenda import checks
from tacenda._types import Array, Floats

# Standard deviations of noise that a whole must be above 0, where noise enters to first order only:
# with fewer, those that pass by luck would not hold as often as they say
FAR = 6.0
PERFECT = 0.5  # by how much a perfect order is better than chance


class Estimate(NamedTuple):
    """value, and the ends low and high of its interval; arrays of one shape."""

    value: Any
    low: Any
    high: Any


def quantile(level: float) -> float:
    """z of a two-sided normal interval."""
    level = checks.between("level", level, 0.5, 1.0)
    return float(ndtri(0.5 + level / 2))


def share(
    part: Any, whole: Any, level: float, noise: tuple[Any, Any, Any] = (0.0, 0.0, 0.0)
) -> Estimate:
    """Estimate the share `part`/`whole` of records of a kind.

    Parameters
    ----------
    part : float or ndarray
        Noisy number of records of the kind.
    whole : float or ndarray
        Noisy number of all records.
    level : float
        Such as 0.95.
    noise : tuple of three, default=(0.0, 0.0, 0.0)
        Variance of the noise of `part`, covariance of both, variance of the noise of `whole`.

    Examples
    --------
    >>> from tacenda.evaluation.private_intervals import share
    >>> [round(float(end), 4) for end in share(80, 100, 0.95)]
    [0.8, 0.7112, 0.8666]
    """
    z2 = quantile(level) ** 2
    a, b, vaa, vab, vbb = _broadcast(part, whole, *noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        known = b > np.sqrt(z2 * vbb)
        ratio = np.where(known, a / b, 0.5)
        value = np.clip(ratio, 0.0, 1.0)
        first = b * b + z2 * (b - vbb)
        second = 2 * a * b + z2 * (b - 2 * vab)
        third = a * a - z2 * vaa
        root = np.sqrt(np.maximum(second * second - 4 * first * third, 0.0))
        low, high = (second - root) / (2 * first), (second + root) / (2 * first)
        # An estimate outside of 0 to 1: what noise alone allows from the nearer end
        alone = np.sqrt(z2 * np.maximum(vaa - 2 * value * vab + value**2 * vbb, 0.0)) / b
        outside = (ratio < 0) | (ratio > 1) | (second * second < 4 * first * third)
        low = np.where(outside, np.minimum(low, value - alone), low)
        high = np.where(outside, np.maximum(high, value + alone), high)
    return _inside(value, low, high, known, 0.0, 1.0)


def mean(
    total: Any,
    whole: Any,
    level: float,
    variance: Any,
    noise: tuple[Any, Any] = (0.0, 0.0),
    limits: tuple[float, float] = (0.0, 1.0),
) -> Estimate:
    """Estimate the mean `total`/`whole` of a bounded quantity.

    Parameters
    ----------
    total : float or ndarray
        Noisy sum of the quantity.
    whole : float or ndarray
        Noisy number of records.
    level : float
        Such as 0.95.
    variance : float or ndarray
        Of one record's quantity, or a bound on it.
    noise : tuple of two, default=(0.0, 0.0)
        Variances of the noise of `total` and of `whole`, which are independent.
    limits : tuple of two, default=(0.0, 1.0)
        Between which the quantity lies.

    Examples
    --------
    >>> from tacenda.evaluation.private_intervals import mean
    >>> [round(float(end), 3) for end in mean(20.0, 100, 0.95, variance=0.04)]
    [0.2, 0.161, 0.239]
    """
    z2 = quantile(level) ** 2
    a, b, v, vaa, vbb = _broadcast(total, whole, variance, *noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        known = b > np.sqrt(z2 * vbb)
        value = np.where(known, a / b, sum(limits) / 2)
        first = b * b - z2 * vbb
        third = a * a - z2 * (b * v + vaa)
        root = np.sqrt(np.maximum((a * b) ** 2 - first * third, 0.0))
        low, high = (a * b - root) / first, (a * b + root) / first
    return _inside(value, low, high, known, *limits)


def average(parts: Estimate) -> Estimate:
    """Estimate the mean over the last axis of independent shares; one of which nothing is known may
    lie anywhere, whatever the others are.

    Parameters
    ----------
    parts : Estimate
        The shares with their intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.evaluation.private_intervals import Estimate, average
    >>> average(Estimate(np.array([0.5, 0.7]), np.array([0.2, 0.3]), np.array([0.9, 1.0]))).low
    0.35
    """
    value, low, high = (np.asarray(x, float) for x in parts)
    k = value.shape[-1]
    middle = value.mean(axis=-1)
    anywhere = (low <= 0) & (high >= 1)
    down, up = (_added(apart, anywhere) / k for apart in (value - low, high - value))
    return Estimate(middle, np.maximum(middle - down, 0.0), np.minimum(middle + up, 1.0))


def _added(apart: Floats, anywhere: Array) -> Floats:
    """Distances to the ends over the last axis: as squares, but for those of unknown ones."""
    known = np.sqrt((np.where(anywhere, 0.0, apart) ** 2).sum(axis=-1))
    return np.asarray(known + np.where(anywhere, apart, 0.0).sum(axis=-1))


def roc_auc(counts: Any, level: float, std: float, edges: Any) -> Estimate:
    """Estimate the area under the ROC curve of scores that were counted in bins.

    Within a bin nobody knows the order. The value takes it to be that of calibrated scores, spread
    evenly; the interval goes from chance to twice as far. The area of the bins has the sampling
    variance of DeLong et al. (1988) and the noise's to first order, both on the scale of log odds.

    Parameters
    ----------
    counts : ndarray
        Noisy counts, shape (..., 2, bins): class 0 and class 1, bins by rising score.
    level : float
        Such as 0.95.
    std : float
        Standard deviation of the noise of each count.
    edges : sequence of float
        Of the bins, as probabilities: one fewer than bins.

    Returns
    -------
    Estimate
        Value and interval of the area.

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.evaluation.private_intervals import roc_auc
    >>> counts = np.array([[60.0, 30.0, 10.0], [20.0, 30.0, 50.0]])
    >>> round(float(roc_auc(counts, 0.95, 0.0, [0.4, 0.6]).value), 3)
    0.768
    """
    z, counts = quantile(level), np.asarray(counts, float)
    sizes = counts.sum(axis=-1, keepdims=True)
    bins = counts.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Told from 0 with room to spare: the noise enters to first order only
        known = (sizes[..., 0] > np.maximum(1.0, FAR * std * np.sqrt(bins))).all(axis=-1)
        p0, p1 = np.moveaxis(counts / sizes, -2, 0)
        below = np.cumsum(p0, axis=-1) - p0 / 2  # of class 0, seen from a bin
        above = np.cumsum(p1[..., ::-1], axis=-1)[..., ::-1] - p1 / 2
        area = (p1 * below).sum(axis=-1)
        spread1 = _spread(p1, below, area)
        spread0 = _spread(p0, above, area)
        n0, n1 = sizes[..., 0, 0], sizes[..., 1, 0]
        sampling = spread1 / n1 + spread0 / n0
        noise = std**2 * (
            ((below - area[..., None]) ** 2).sum(axis=-1) / n1**2
            + ((above - area[..., None]) ** 2).sum(axis=-1) / n0**2
        )
        # Noise in both factors of a product, which the first order leaves out
        noise = noise + std**4 * bins**2 / (n0 * n1) ** 2
        value = np.clip(area, 0.0, 1.0)
        # At the ends the scale has no slope: one record's worth inside
        centre = np.clip(value, 0.5 / (n1 + 1), 1 - 0.5 / (n1 + 1))
        least = centre * (1 - centre) / np.maximum(n0 + n1, 1.0)
        wide = z * np.sqrt(np.maximum(sampling, least) + noise) / (centre * (1 - centre))
        low, high = expit(logit(centre) - wide), expit(logit(centre) + wide)
        pairs, order = np.maximum(p0, 0) * np.maximum(p1, 0), _order_within(edges)
        gained = (pairs * np.minimum(order, PERFECT / 2)).sum(axis=-1)
        most = (pairs * np.minimum(2 * order, PERFECT)).sum(axis=-1)
    return _inside(np.where(known, value + gained, 0.5), low, high + most, known, 0.0, 1.0)


def _order_within(edges: Any) -> Floats:
    """How much better than chance calibrated scores order two records of different classes in one
    bin, to first order: a twelfth of its width in log odds. The outer bins, which have no end, are
    as wide as their neighbours; of two bins the width is not known."""
    steps = np.diff(logit(np.asarray(edges, float)))
    beside = steps if len(steps) else np.array([np.inf])
    return np.asarray(np.concatenate([beside[:1], steps, beside[-1:]]) / 12)


def _spread(weights: Floats, values: Floats, centre: Floats) -> Floats:
    """Variance of `values` under noisy weights, not below 0."""
    shares = np.maximum(weights, 0.0)
    shares = shares / shares.sum(axis=-1, keepdims=True)
    middle = (shares * values).sum(axis=-1, keepdims=True)
    return np.asarray((shares * (values - middle) ** 2).sum(axis=-1))


def _inside(value: Any, low: Any, high: Any, known: Any, least: float, most: float) -> Estimate:
    """Inside the limits, around the value; the limits themselves where nothing is known."""
    value = np.clip(value, least, most)
    low = np.where(known & np.isfinite(low), np.clip(low, least, value), least)
    high = np.where(known & np.isfinite(high), np.clip(high, value, most), most)
    return Estimate(value, low, high)


def _broadcast(*values: Any) -> list[Floats]:
    return [np.asarray(x, float) for x in np.broadcast_arrays(*values)]
