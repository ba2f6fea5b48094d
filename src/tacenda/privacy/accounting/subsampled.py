"""Dominating pairs of sampled Gaussians, as dp-accounting pmfs on a loss grid.

Under replace-one dp-accounting's convention is noise_std over one record's norm, ours noise_std
over the sensitivity, which holds the factor 2; `their_multiplier` is the one place that converts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from tacenda.privacy.accounting.events import OneOfGaussian, PoissonGaussian
from tacenda.privacy.adjacency import records_changed

NO_NOISE = 0.01  # below it a sampled record loses thousands of nats: it is counted as seen


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
    """Privacy loss distribution of a Gaussian on exactly one of q records, under replace-one.

    Advanced joint convexity bounds the profile of any such pair: with g = 1/q and the plain
    Gaussian's delta_G,

        delta(ln(1 + g (e^eps - 1))) <= g delta_G(eps)      for eps >= 0,

    in both directions, so below 0 it is the mirror image, delta(-e) = 1 - e^-e + e^-e delta(e). The
    other records may move the mean to either side, round by round: the one-sided pairs of Poisson
    sampling (record added, or removed) attain the bound on one side each, and neither covers the
    other, so neither may be composed alone.
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    if event.noise_multiplier < NO_NOISE:
        return revealed_loss(1 / event.population, step)
    mu, g = 1 / event.noise_multiplier, 1 / event.population
    inner_top = mu * mu / 2 + 8.5 * mu  # beyond it delta_G < 1e-17, which becomes infinite loss
    top = math.ceil(amplified(inner_top, g) / step)
    grid = np.arange(0, top + 1)
    e = grid * step
    inner = np.where(e < 600, np.log1p(np.expm1(np.minimum(e, 600.0)) / g), e - math.log(g))
    a, b = inner / mu - mu / 2, inner / mu + mu / 2
    delta = g * np.maximum(ndtr(-a) - np.exp(inner + log_ndtr(-b)), 0.0)
    mirrored = -np.expm1(-e) + np.exp(-e) * delta
    profile = np.concatenate([mirrored[:0:-1], delta])
    both = np.concatenate([-grid[:0:-1], grid])
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, both, np.clip(profile, 0.0, 1.0))
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def amplified(epsilon: float, rate: float) -> float:
    """ln(1 + rate (e^eps - 1)) without overflow."""
    return math.log1p(rate * math.expm1(epsilon)) if epsilon < 600 else epsilon + math.log(rate)
