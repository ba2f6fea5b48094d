"""What a release costs: from noise and sensitivity to a charge, and back from a round's budget to
the noise.

Additive noise        value + N(0, noise_std^2 I)
                          z = noise_std / sensitivity
                      the same plus the edges' shared noise (graph.coalition)
                          mu = sensitivity sqrt(h) / noise_std
                      whole numbers under masks that cancel in the network's sum
                          the same, h = 1/members of the sum (discrete_sums)
                      value + e, density of e ~ exp(-rate |e|)
                          epsilon = rate * sensitivity
Inside the objective  argmin F(w) + e.w + (extra/2)|w|^2
                      with density of e ~ exp(-rate |e|)
                          epsilon = slope * rate + ln(1 + c1 c / (m kappa)),
                          and less in many dimensions (accounting.renyi);
                          slope = 2Gc/m (replace-one), kappa = sc + extra + 2 * quadratic
                      with e ~ N(0, noise_std^2 I)
                          z = noise_std / slope, and the same logarithm (accounting.renyi)
One of k candidates   P(i) ~ exp(-epsilon distance_i / (2 sensitivity))
                          epsilon, or mu = CHOICE_MU epsilon
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.errors import PrivacyError
from tacenda.privacy.accounting import discrete_sums, events
from tacenda.privacy.secrets.bounded import Sample
from tacenda.privacy.secrets.ledger import Charge

CHOICE_MU = 0.62665706865776  # sqrt(2 pi) / 4, rounded up


class NoiseKind(StrEnum):
    """How noise enters a release; algorithms and files may write the plain words."""

    GAUSSIAN = "gaussian"
    CORRELATED = "correlated"  # Gaussian, partly shared by neighbours
    MASKED = "masked"  # whole numbers: a discrete Gaussian, under masks that cancel in the sum
    L2_LAPLACE = "l2-laplace"
    OBJECTIVE = "objective"  # inside an argmin, l2-Laplace
    OBJECTIVE_GAUSSIAN = "objective-gaussian"  # inside an argmin

    @property
    def shared(self) -> bool:
        """Whether all nodes draw with one standard deviation, on a value in units of the network's
        worst sensitivity."""
        return self in (NoiseKind.CORRELATED, NoiseKind.MASKED)

    @property
    def inside(self) -> bool:
        """Whether it is drawn inside an objective."""
        return self in (NoiseKind.OBJECTIVE, NoiseKind.OBJECTIVE_GAUSSIAN)

    @classmethod
    @cache
    def within(cls, noise: str) -> NoiseKind:
        """The kind of noise of that name inside an objective."""
        kinds = {"l2-laplace": cls.OBJECTIVE, "gaussian": cls.OBJECTIVE_GAUSSIAN}
        return kinds[checks.one_of("noise", noise, kinds)]

    @classmethod
    @cache
    def added(cls, noise: str) -> NoiseKind:
        """The kind of that name, if it is one that is added to a value by itself."""
        return cls(
            checks.one_of(
                "noise",
                noise,
                [kind.value for kind in cls if not kind.inside and kind is not cls.MASKED],
            )
        )


@dataclass(frozen=True, eq=False)
class Site:
    """Where a release happens: all that a plan may know of it, and all of it public.

    weight: the round's share of the budget, 1 on average, a number or (b,). relative_std: the
    algorithm's own shape of the noise over the run (CDP- and DDP-ADMM), or None for noise in
    proportion to the sensitivity.
    """

    turn: int
    weight: float | Array
    dim: int
    noise: NoiseKind
    sensitivity: Array | None = None
    sample: Sample | None = None
    relative_std: float | None = None
    objective: ObjectiveTerms | None = None

    def __post_init__(self) -> None:
        if self.relative_std is not None and not 0 < self.relative_std < np.inf:
            raise PrivacyError(
                "relative_std, the noise of a round over that of others, must be a finite number "
                f"above 0, not {self.relative_std!r} in round {self.turn}; nothing was drawn."
            )


@dataclass(frozen=True, eq=False)
class ObjectiveTerms:
    """Public numbers of an argmin, one per node (b,): slope 2Gc/m, curvature kappa without extra,
    solver tolerance g; directions: in how many one record may move the gradient."""

    slope: Array
    convexity: Array
    log_curvature: Callable[[Array], Array]  # kappa (b,) -> ln(1 + c1 c/(m kappa))
    # Target of that logarithm -> the kappa that reaches it
    least_convexity: Callable[[Array], Array]
    tolerance: float
    directions: int = 1


@dataclass(frozen=True, eq=False)
class ObjectiveNoise:
    """The noise in the objective (b,), the extra convexity Phi, and the noise for the solver's gap:
    rates of l2-Laplace noise, or standard deviations of Gaussian noise."""

    amount: Array
    extra: Array
    gap: Array | None


# Of a round's epsilon, or of its mu^2, for the solver's remaining gap (rule 3 of the specification)
GAP_SHARE = 0.01
# Of 1/z, which the curvature's logarithm may reach before extra convexity keeps it down
CURVATURE_SHARE = 0.1


def gaussian_charge(noise_std: Array, sensitivity: Array, sample: Sample) -> Charge:
    """The charge of Gaussian noise on a value of that sensitivity; both (b,)."""
    _refuse_unbounded(sensitivity)
    z = noise_std / sensitivity
    if sample.kind == "poisson":
        return Charge(events.PoissonGaussian, {"noise_multiplier": z, "rate": _rate(sample)})
    if sample.kind == "one":
        return Charge(
            events.OneOfGaussian, {"noise_multiplier": z, "population": np.rint(1 / _rate(sample))}
        )
    return Charge(events.Gaussian, {"noise_multiplier": z})


def correlated_charge(
    noise_std: Array, sensitivity: Array, leverage: Array, coalition: int, sample: Sample
) -> Charge:
    """The charge of noise shared by neighbours, whose own part has that std: mu = sensitivity
    sqrt(h) / noise_std."""
    _refuse_unbounded(sensitivity)
    if sample.kind != "all":
        raise PrivacyError(
            "Noise shared by neighbours on a sample of the records has no accountant here; "
            "use all records."
        )
    mu = sensitivity * np.sqrt(leverage) / noise_std
    return Charge(events.CorrelatedGaussian, {"mu": mu, "coalition": np.full(len(mu), coalition)})


def masked_charge(
    noise_std: Array, sensitivity: Array, leverage: Array, coalition: int, sample: Sample
) -> Charge:
    """The charge of whole numbers under masks, each member's own part of that std: mu = sensitivity
    sqrt(h) / noise_std, h = 1/(the least number of members in a sum that a coalition sees).

    A little more is charged (`discrete_sums.MARGIN`) for noise that is discrete; the door sees to
    it that the grid is fine enough for that.
    """
    charge = correlated_charge(noise_std, sensitivity, leverage, coalition, sample)
    mu = charge.entries["mu"] * (1 + discrete_sums.MARGIN)
    return Charge(events.MaskedSum, {**charge.entries, "mu": mu})


def laplace_charge(rate: Array, sensitivity: Array, dim: int, sample: Sample) -> Charge:
    """The charge of l2-Laplace noise on a value of that sensitivity; both (b,)."""
    _refuse_unbounded(sensitivity)
    if sample.kind != "all":
        raise PrivacyError(
            "l2-Laplace noise on a sample of the records has no accountant here; "
            "use Gaussian noise."
        )
    return Charge(events.L2Laplace, {"epsilon": rate * sensitivity, "dim": np.full(len(rate), dim)})


def objective_charge(noise: ObjectiveNoise, terms: ObjectiveTerms, dim: int) -> Charge:
    """The charge of l2-Laplace noise in R^dim inside the objective, with the part for the solver's
    gap: pure."""
    kappa = terms.convexity + noise.extra
    gap = np.zeros_like(kappa) if noise.gap is None else noise.gap * 2 * terms.tolerance / kappa
    inner, curvature = terms.slope * noise.amount, terms.log_curvature(kappa)
    return Charge(
        events.ObjectiveLaplace,
        {
            "inner": inner,
            "curvature": curvature,
            "dim": np.full(len(kappa), dim),
            "directions": np.full(len(kappa), terms.directions),
            "gap": gap,
            "epsilon": inner + curvature + gap,
        },
    )


def choice_charge(epsilon: float, pure: bool) -> Charge:
    """Return the charge of one choice by the exponential mechanism: pure epsilon (McSherry and
    Talwar 2007, Theorem 6), or the Gaussian that hides less.

    The ratios P / Q of a choice on neighbouring records are within a factor exp(epsilon) of each
    other. So for any test with power p at level a, logit p - logit a <= epsilon. The slope of
    Phi^-1(logistic(v)) is Phi(z) Phi(-z) / phi(z) with z = Phi^-1(logistic(v)), and at most
    CHOICE_MU = sqrt(2 pi) / 4, its value at 0: a square holds the disc inside it, so
    (2 Phi(z) - 1)^2 >= 1 - exp(-z^2 / 2). Hence Phi^-1(p) - Phi^-1(a) <= CHOICE_MU epsilon: the
    mu of Gaussian privacy.
    """
    amount = np.array([checks.positive("epsilon", epsilon)])
    if pure:
        return Charge(events.Pure, {"epsilon": amount})
    return Charge(events.Gaussian, {"noise_multiplier": 1 / (CHOICE_MU * amount)})


def gaussian_objective_charge(noise: ObjectiveNoise, terms: ObjectiveTerms) -> Charge:
    """The charge of Gaussian noise inside the objective, with the part for the solver's gap."""
    kappa = terms.convexity + noise.extra
    gap_mu = np.zeros_like(kappa) if noise.gap is None else 2 * terms.tolerance / kappa / noise.gap
    return Charge(
        events.ObjectiveGaussian,
        {
            "noise_multiplier": noise.amount / terms.slope,
            "curvature": terms.log_curvature(kappa),
            "directions": np.full(len(kappa), terms.directions),
            "gap_mu": gap_mu,
        },
    )


def objective_noise(
    epsilon: Array, terms: ObjectiveTerms, most_curvature: Array | None = None
) -> ObjectiveNoise:
    """The least noise for a round of pure `epsilon`: Zhang and Zhu (2016), Algorithm 2 with its
    line 5 corrected.

    The extra convexity is the smallest with logarithm <= epsilon'/2; the rest of epsilon' goes to
    the noise, where epsilon' = epsilon less the share for the solver's gap. With most_curvature
    (b,) there is more convexity where the logarithm would exceed it, and the noise stays.
    """
    share = GAP_SHARE if terms.tolerance > 0 else 0.0
    ours = epsilon * (1 - share)
    extra = np.maximum(terms.least_convexity(ours / 2) - terms.convexity, 0.0)
    kappa = terms.convexity + extra
    rate = (ours - terms.log_curvature(kappa)) / terms.slope
    if most_curvature is not None:
        extra = np.maximum(terms.least_convexity(most_curvature) - terms.convexity, extra)
        kappa = terms.convexity + extra
    gap_rate = epsilon * share * kappa / (2 * terms.tolerance) if share else None
    return ObjectiveNoise(rate, extra, gap_rate)


def gaussian_objective_noise(
    multiplier: Array, terms: ObjectiveTerms, most_curvature: Array | None = None
) -> ObjectiveNoise:
    """Noise of std `multiplier` * slope, and the least extra convexity with which the curvature's
    logarithm is at most CURVATURE_SHARE / multiplier, and at most `most_curvature` (b,)."""
    most = CURVATURE_SHARE / multiplier
    if most_curvature is not None:
        most = np.minimum(most, most_curvature)
    least = terms.least_convexity(most)
    extra = np.maximum(least - terms.convexity, 0.0)
    kappa = terms.convexity + extra
    gap = None
    if terms.tolerance > 0:
        gap = multiplier / np.sqrt(GAP_SHARE) * 2 * terms.tolerance / kappa
    return ObjectiveNoise(multiplier * terms.slope, extra, gap)


def _rate(sample: Sample) -> Array:
    if sample.rate is None:
        raise PrivacyError(f"A sample of kind {sample.kind!r} must state its rate.")
    return sample.rate


def _refuse_unbounded(sensitivity: Array) -> None:
    if sensitivity.min() > 0 and sensitivity.max() < np.inf:  # neither of them is true of NaN
        return
    if not np.all(np.isfinite(sensitivity)):
        raise PrivacyError(
            "One record may change this value without bound. "
            "Use a loss with bounded slope (huber, logistic, ...), "
            "or set clip_norm to clip each record's gradient."
        )
    raise PrivacyError(
        "A value of sensitivity 0 holds nothing of the records (was it multiplied by 0?); "
        "it needs no release."
    )
