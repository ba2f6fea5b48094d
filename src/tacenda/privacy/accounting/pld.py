"""Privacy loss distributions: any mixture of Gaussian, sampled, pure and l2-Laplace releases,
composed numerically.

Each event becomes a pessimistic pmf of its privacy loss on one common grid (dp-accounting does the
Gaussians and the convolutions; pure rounds, l2-Laplace and one-of-q are ours), so delta only errs
upwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tacenda.errors import PrivacyError
from tacenda.privacy.accounting.curves import GaussianProfile, Profile
from tacenda.privacy.accounting.events import (
    BatchGaussian,
    CorrelatedGaussian,
    Event,
    Events,
    Gaussian,
    L2Laplace,
    OneOfGaussian,
    PoissonGaussian,
    Pure,
    pure_sum,
)
from tacenda.privacy.accounting.l2laplace import l2_laplace_pmf
from tacenda.privacy.accounting.pure import response_pmf
from tacenda.privacy.accounting.subsampled import (
    NO_NOISE,
    amplified,
    batch_loss,
    draws,
    one_of_loss,
    poisson_gaussian_loss,
    their_multiplier,
)

COARSEST, COARSEST_PURE, MOST_POINTS, POINTS_PER_STD = 1e-4, 1e-3, 2**20, 25


@dataclass(frozen=True)
class PldProfile:
    """A composed privacy loss distribution; `slack` covers rounding in the convolutions and is
    added to every delta."""

    loss: Any = field(repr=False)
    slack: float
    pure_epsilon: float = math.inf

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.pure_epsilon:
            return 0.0
        return min(float(self.loss.get_delta_for_epsilon(float(epsilon))) + self.slack, 1.0)

    def epsilon(self, delta: float) -> float:
        if delta >= 1:
            return 0.0
        if delta <= self.slack:
            return self.pure_epsilon
        found = float(self.loss.get_epsilon_for_delta(delta - self.slack))
        found = self._checked(max(found, 0.0), delta)
        return min(found, self.pure_epsilon)

    def _checked(self, epsilon: float, delta: float) -> float:
        """dp-accounting inverts by a running sum; its rounding may leave delta(epsilon) a hair
        above the target."""
        if math.isinf(epsilon) or self.delta(epsilon) <= delta:
            return epsilon
        step = 1e-12 * max(epsilon, 1e-3)
        while self.delta(epsilon) > delta:
            epsilon, step = epsilon + step, 2 * step
        return epsilon


def pld_profile(events: Events, adjacency: str, coarseness: float = 1.0) -> Profile:
    """The composition of `events` (merged, none lossless or lossy); a coarser grid is quicker,
    looser and still sound."""
    step = grid_step(events, adjacency) * coarseness
    if step > coarseness:  # losses of a million nats: nothing is promised
        return GaussianProfile(math.inf)
    total: Any = None
    count_all = 0
    for event, count in _joined(events):
        loss = _loss(event, adjacency, step)
        composed = loss.self_compose(count) if count > 1 else loss
        total = composed if total is None else total.compose(composed)
        count_all += count
    return PldProfile(total, slack=(count_all + 8) * 2.0**-52, pure_epsilon=pure_sum(events))


def _joined(events: Events) -> list[tuple[Event, int]]:
    """All plain Gaussians as one: their mu^2 add exactly."""
    square = math.fsum(
        count * e.mu**2 for e, count in events if isinstance(e, Gaussian | CorrelatedGaussian)
    )
    rest = [(e, count) for e, count in events if not isinstance(e, Gaussian | CorrelatedGaussian)]
    return ([(Gaussian(1 / math.sqrt(square)), 1)] if square else []) + rest


def _loss(event: Event, adjacency: str, step: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    match event:
        case Gaussian():
            return pld.from_gaussian_mechanism(
                event.noise_multiplier, value_discretization_interval=step
            )
        case PoissonGaussian():
            return poisson_gaussian_loss(event, adjacency, step)
        case OneOfGaussian() if adjacency == "replace-one":
            return one_of_loss(event, step)
        case BatchGaussian() if adjacency == "replace-one":
            return batch_loss(event, step)
        case Pure():
            return pld.PrivacyLossDistribution(response_pmf(event.epsilon, step))
        case L2Laplace():
            return pld.PrivacyLossDistribution(l2_laplace_pmf(event.epsilon, event.dim, step))
    raise PrivacyError(
        f"accountant 'pld' has no dominating pair for {event} under {adjacency}; "
        "use another accountant."
    )


def grid_step(events: Events, adjacency: str) -> float:
    """The loss grid: fine against every event's own spread,
    yet no more than about a million points over all."""
    only_pure = all(isinstance(event, Pure | L2Laplace) for event, _ in events)
    finest, window, peak = COARSEST_PURE if only_pure else COARSEST, 0.0, 0.0
    for event, count in _joined(events):
        mean, std, top = _moments(event, adjacency)
        points = 4 * POINTS_PER_STD if isinstance(event, Pure | L2Laplace) else POINTS_PER_STD
        finest = min(finest, std / points)
        window += count * mean + 12 * math.sqrt(count) * std
        peak = max(peak, top)
    return max(finest, window / MOST_POINTS, 4 * peak / MOST_POINTS, 1e-9)


def _moments(event: Event, adjacency: str) -> tuple[float, float, float]:
    """Rough mean, standard deviation and greatest value of one loss; they only choose the grid."""
    match event:
        case Gaussian(noise_multiplier=z):
            return 0.5 / z**2, 1 / z, 0.5 / z**2 + 9 / z
        case PoissonGaussian(noise_multiplier=z, rate=rate):
            return _sampled_moments(their_multiplier(z, adjacency), rate)
        case OneOfGaussian(noise_multiplier=z, population=q):
            return _sampled_moments(z, 1 / q)
        case BatchGaussian(noise_multiplier=z):
            chances, beyond = draws(event)
            rate = float(sum(chances)) + beyond
            mean, std, _ = _sampled_moments(z, rate)
            return mean, std, _sampled_moments(z / len(chances), rate)[2]
        case Pure(epsilon=e):
            return e * math.tanh(e / 2), e, e
        case L2Laplace(epsilon=e, dim=d):
            return min(e * math.tanh(e / 2), e * e / d), e / math.sqrt(d), e
    raise PrivacyError(f"accountant 'pld' knows no loss distribution of {event}.")


def _sampled_moments(z: float, rate: float) -> tuple[float, float, float]:
    """A record is sampled with probability `rate` and then loses about what a Gaussian does,
    dampened by the rate."""
    z = max(z, NO_NOISE)
    typical, loud, top = (amplified(0.5 / z**2 + width / z, rate) for width in (1, 2, 9))
    return rate * typical, math.sqrt(rate) * loud, top
