"""Dominating pairs of sampled Gaussians, as dp-accounting pmfs on a loss grid.

Under replace-one dp-accounting's convention is noise_std over one record's norm, ours noise_std
over the sensitivity, which holds the factor 2; `their_multiplier` is the one place that converts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr

from tacenda._types import Array
from tacenda.privacy.accounting.events import BatchGaussian, OneOfGaussian, PoissonGaussian
from tacenda.privacy.adjacency import records_changed

NO_NOISE = 0.01  # below it a sampled record loses thousands of nats: it is counted as seen
RARE = 1e-18  # chance of so many draws of one record that they count as losing everything
NEWTON_STEPS = 12  # the error is squared in each


def their_multiplier(noise_multiplier: float, adjacency: str) -> float:
    """dp-accounting's multiplier for ours: 2 z under replace-one, z under add-remove."""
    return records_changed(adjacency) * noise_multiplier


def relation(adjacency: str) -> Any:
    """dp-accounting's name of the neighbouring relation."""
    from dp_accounting import NeighboringRelation

    names = {
        "replace-one": NeighboringRelation.REPLACE_ONE,
        "add-remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
    }
    return names[adjacency]


def revealed_loss(rate: float, step: float) -> Any:
    """No noise worth the name: the record is seen with probability `rate`, and not seeing it says
    -ln(1 - rate) at most."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    quiet = math.ceil(-math.log1p(-rate) / step)
    pmf = pld_pmf.create_pmf({quiet: 1 - rate}, step, rate, pessimistic_estimate=True)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def poisson_gaussian_loss(event: PoissonGaussian, adjacency: str, step: float) -> Any:
    """Privacy loss distribution of one Poisson-sampled Gaussian under the run's own relation."""
    from dp_accounting.pld import privacy_loss_distribution

    if event.noise_multiplier < NO_NOISE:
        return revealed_loss(event.rate, step)

    return privacy_loss_distribution.from_gaussian_mechanism(
        standard_deviation=their_multiplier(event.noise_multiplier, adjacency),
        sampling_prob=event.rate,
        value_discretization_interval=step,
        neighboring_relation=relation(adjacency),
    )


def one_of_loss(event: OneOfGaussian, step: float) -> Any:
    """Privacy loss distribution of a Gaussian on exactly one of q records, under replace-one."""
    return batch_loss(BatchGaussian(event.noise_multiplier, event.population, 1), step)


def batch_loss(event: BatchGaussian, step: float) -> Any:
    """Privacy loss distribution of a Gaussian on exactly b of q records, under replace-one.

    Let p_k be the chance that the record is drawn k times, g their sum over k >= 1, w_k = p_k/g and
    a = e^eps >= 1. Write A for the law without the record, P and Q for the laws given that it or
    the other record is drawn. Advanced joint convexity (Balle, Barthe and Gaboardi 2018) gives

        delta(ln(1 + g (a - 1))) <= g [(1 - s) H_a(P | A) + s H_a(P | Q)],   s = g + (1 - g)/a.

    H_a(P | Q) is at most sum_k w_k delta_k, delta_k the profile of a Gaussian that moves k times as
    far: pair batches that differ only in the record's k places. For H_a(P | A) put the record into
    k random places of a batch that lacks it: a mixture of Gaussians at distances of at most k,
    against one. Kahane's convexity inequality (covariances <c_i, c_j> <= |c_i| |c_j|) says that all
    on one line at full distance is the worst: `_mixture_delta`. Without replacement only k = 1
    occurs, g = p_1 = b/q, and both are the plain Gaussian's profile.

    It holds in both directions, so below 0 it is the mirror image, delta(-e) = 1 - e^-e + e^-e
    delta(e). The other records may move the mean to either side, round by round: the one-sided
    pairs of Poisson sampling (record added, or removed) attain the bound on one side each, and
    neither covers the other, so neither may be composed alone.
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    chances, beyond = draws(event)
    g = float(sum(chances)) + beyond
    if event.noise_multiplier < NO_NOISE:
        return revealed_loss(g, step)
    far = np.arange(1, len(chances) + 1) / event.noise_multiplier
    inner_top = far[-1] ** 2 / 2 + 8.5 * far[-1]  # beyond it delta_k < 1e-17: infinite loss
    top = math.ceil(amplified(inner_top, g) / step)
    grid = np.arange(0, top + 1)
    e = grid * step
    inner = np.where(e < 600, np.log1p(np.expm1(np.minimum(e, 600.0)) / g), e - math.log(g))
    apart = sum(c * _gaussian_delta(inner, mu) for c, mu in zip(chances, far, strict=True))
    joined = _mixture_delta(inner, chances, far)
    share = np.exp(e - inner)
    delta = (1 - share) * joined + share * apart + beyond
    mirrored = -np.expm1(-e) + np.exp(-e) * delta
    profile = np.concatenate([mirrored[:0:-1], delta])
    both = np.concatenate([-grid[:0:-1], grid])
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, both, np.clip(profile, 0.0, 1.0))
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def _gaussian_delta(epsilon: Array, mu: float) -> Array:
    """delta(epsilon) of N(mu, 1) against N(0, 1)."""
    seen = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-epsilon / mu - mu / 2))
    return np.maximum(seen, 0.0)


def _mixture_delta(epsilon: Array, chances: Array, far: Array) -> Array:
    """g delta(epsilon) of sum_k (chances_k/g) N(far_k, 1) against N(0, 1), g the sum of chances.

    The loss rises with the outcome y, so that the best test is y > y*. Newton's method on the
    logarithm of the ratio, which is convex in y, comes down to y* from a start above it.
    """
    if len(far) == 1:
        return chances[0] * _gaussian_delta(epsilon, far[0])
    weights, places = np.log(chances / chances.sum())[:, None], far[:, None]
    y = np.min((epsilon - weights) / places + places / 2, axis=0)
    for _ in range(NEWTON_STEPS):
        terms = weights + places * y - places**2 / 2
        ratio = logsumexp(terms, axis=0)
        y = y - (ratio - epsilon) / (places * np.exp(terms - ratio)).sum(axis=0)
    seen = (np.exp(weights) * ndtr(places - y)).sum(axis=0)
    return chances.sum() * np.maximum(seen - np.exp(epsilon + log_ndtr(-y)), 0.0)


def draws(event: BatchGaussian) -> tuple[Array, float]:
    """The chances that a record is drawn once, twice, ... and that it is drawn more often."""
    if not event.replacement:
        return np.array([event.batch / event.population]), 0.0
    from scipy.stats import binom  # slow to load

    law = binom(event.batch, 1 / event.population)
    most = 1
    while most < event.batch and law.sf(most) > RARE:
        most += 1
    return np.asarray(law.pmf(np.arange(1, most + 1))), float(law.sf(most))


def amplified(epsilon: float, rate: float) -> float:
    """ln(1 + rate (e^eps - 1)) without overflow."""
    return math.log1p(rate * math.expm1(epsilon)) if epsilon < 600 else epsilon + math.log(rate)
