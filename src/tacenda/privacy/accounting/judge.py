"""The judge: from a list of (event, count) to the whole privacy curve, by the tightest sound
accountant that applies.

    accountant      judges                                            how
    gaussian-exact  Gaussians, also correlated ones                   closed form, mu^2 add
    objective       l2-Laplace noise inside objectives, alone or      the least of `renyi` and of
                    with anything unsampled                           generic composition
    pure-optimal    pure rounds                                       exact if alike, else
                                                                      dominating pairs
    l2-laplace      additive l2-Laplace noise, alone or               own loss distribution,
                    with pure rounds                                  convolved
    pld             any mixture of the above and of sampled           dp-accounting, convolved
                    Gaussians
    renyi           Gaussian noise inside objectives, alone or with   own bound (`renyi`)
                    anything unsampled
    zcdp            any unsampled mixture with discrete Gaussians     rho adds, tight conversion
    rdp             Gaussians, discrete ones, Poisson-sampled under   dp-accounting
                    add-remove

Masked sums count as correlated Gaussians (`discrete_sums`). What no accountant can judge soundly is
refused, never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from tacenda import checks
from tacenda._types import Floats
from tacenda.errors import PrivacyError
from tacenda.privacy import adjacency as relations
from tacenda.privacy.accounting.curves import (
    GaussianProfile,
    GroupProfile,
    LeastProfile,
    Profile,
    ZcdpProfile,
)
from tacenda.privacy.accounting.events import (
    BatchGaussian,
    CorrelatedGaussian,
    DiscreteGaussian,
    Event,
    Events,
    Gaussian,
    L2Laplace,
    MaskedSum,
    ObjectiveGaussian,
    ObjectiveLaplace,
    OneOfGaussian,
    PoissonGaussian,
    Pure,
    merged,
    pure_sum,
)
from tacenda.privacy.accounting.pld import pld_profile
from tacenda.privacy.accounting.pure import PureProfile
from tacenda.privacy.accounting.renyi import renyi_profile

UNSAMPLED = (Gaussian, CorrelatedGaussian, Pure, L2Laplace, DiscreteGaussian)
OBJECTIVES = (ObjectiveGaussian, ObjectiveLaplace)
FIXED = (OneOfGaussian, BatchGaussian)  # samples of a fixed number of records
CONTINUOUS = (Gaussian, CorrelatedGaussian, Pure, L2Laplace, PoissonGaussian, *FIXED)


@dataclass(frozen=True)
class Curve:
    """The privacy of everything released, at every epsilon and delta.

    Attributes
    ----------
    profile : Profile
        What computes it.
    accountant : str
        By which accountant.
    adjacency : str
        The neighbouring relation.
    events : tuple of (Event, int)
        What was released, and how often.
    group_size : int
        How many records the promise is for together.

    Examples
    --------
    >>> from tacenda import accounting
    >>> curve = accounting.judge([(accounting.Gaussian(10.0), 4)])
    >>> round(curve.epsilon(1e-5), 4), round(curve.mu, 4), curve.exact
    (0.7255, 0.2, True)
    """

    profile: Profile = field(repr=False)
    accountant: str
    adjacency: str
    events: tuple[tuple[Event, int], ...] = field(repr=False)
    group_size: int = 1

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon that holds with this delta in [0, 1]; infinite where none does."""
        return self.profile.epsilon(checks.between("delta", delta, 0.0, 1.0, open_ends=False))

    def delta(self, epsilon: float) -> float:
        """The smallest delta that holds with this epsilon >= 0."""
        e = checks.positive("epsilon", epsilon, zero=True, infinite=True)
        return self.profile.delta(min(e, 1e300))  # infinity: what is lost for certain

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter, or None where the whole is not exactly a Gaussian."""
        return self.profile.mu if isinstance(self.profile, GaussianProfile) else None

    @property
    def exact(self) -> bool:
        """True if some test attains the curve; False if it is an upper bound.

        Generic composition of pure rounds knows nothing of the noise's shape; groups, masked sums,
        discrete noise, noise inside objectives and samples of a fixed size have bounds only.
        """
        attained: tuple[type[Event], ...] = (Gaussian, L2Laplace)
        if self.adjacency == "add-remove":
            attained += (PoissonGaussian,)
        return self.accountant in ("gaussian-exact", "l2-laplace", "pld") and _all(
            self.events, *attained
        )

    @property
    def pure_epsilon(self) -> float:
        """The sum of pure epsilons, infinite as soon as one event is not pure."""
        return pure_sum(self.events)

    @property
    def coalition(self) -> int | None:
        """How many curious members at once the promise covers; None means any number."""
        sizes = [e.coalition for e, _ in self.events if isinstance(e, CorrelatedGaussian)]
        return min(sizes, default=None)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What must hold for the curve to be true, in plain words."""
        many = "one record" if self.group_size == 1 else f"at most {self.group_size} records"
        words = [f"neighbouring data sets differ in {many} ({self.adjacency})"]
        if self.coalition is not None:
            known = (
                "no two members combine"
                if self.coalition == 1
                else f"at most {self.coalition} members combine"
            )
            words.append(f"{known} what they know")
        if any(isinstance(event, MaskedSum) for event, _ in self.events):
            words.append("the masks on other members' edges cannot be told from random numbers")
        return tuple(words)

    def tradeoff(self, false_positive_rates: ArrayLike) -> Floats:
        """Return a lower bound on a test's false-negative rate at each false-positive rate."""
        alpha = np.asarray(false_positive_rates, dtype=float)
        if alpha.size and not (np.all(alpha >= 0) and np.all(alpha <= 1)):
            checks.between(
                "false_positive_rates",
                float(alpha.flat[np.argmax(np.abs(alpha - 0.5))]),
                0,
                1,
                open_ends=False,
            )
        if isinstance(self.profile, GaussianProfile):
            if math.isinf(self.profile.mu):
                return np.zeros_like(alpha)
            return np.asarray(ndtr(-ndtri(alpha) - self.profile.mu))
        top = min(self.profile.epsilon(1e-9), 700.0)
        best = np.zeros_like(alpha)
        for e in np.linspace(0.0, top, 257):
            keep = 1 - self.profile.delta(float(e))
            best = np.maximum(
                best, np.maximum(keep - math.exp(e) * alpha, math.exp(-e) * (keep - alpha))
            )
        return best

    def group(self, size: int) -> Curve:
        """The curve for `size` records of the same person or household at once."""
        k = checks.whole("size", size, least=1)
        if k == 1:
            return self
        if not isinstance(self.profile, GroupProfile):
            larger = [(event.grouped(k), count) for event, count in self.events]
            exact = [(event, count) for event, count in larger if event is not None]
            if len(exact) == len(larger):
                return replace(judge(exact, self.adjacency), group_size=self.group_size * k)
        name = f"{self.accountant}, group bound"
        return Curve(
            GroupProfile(self.profile, k), name, self.adjacency, self.events, self.group_size * k
        )


def judge(events: Events, adjacency: str = "replace-one", accountant: str = "auto") -> Curve:
    """Return the privacy curve of the adaptive composition of some releases.

    Parameters
    ----------
    events : sequence of (Event, int)
        Each kind of release, and how often it was made.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        The neighbouring relation.
    accountant : str, default="auto"
        A single accountant by its name, or the tightest sound one that applies.

    Raises
    ------
    PrivacyError
        If no accountant can judge these events soundly.

    Examples
    --------
    >>> from tacenda import accounting
    >>> round(accounting.judge([(accounting.Gaussian(118.0), 1000)]).epsilon(1e-5), 3)
    1.0
    """
    relations.check(adjacency)
    checks.one_of("accountant", accountant, ["auto", *ACCOUNTANTS])
    whole = merged(events)
    _check_relation(whole, adjacency)
    listed = tuple(whole)
    if not whole:
        return Curve(GaussianProfile(0.0), "gaussian-exact", adjacency, listed)
    if any(event.lossy for event, _ in whole):
        return Curve(GaussianProfile(math.inf), "gaussian-exact", adjacency, listed)
    whole = [(_unsampled(event), count) for event, count in whole]
    for name in ACCOUNTANTS if accountant == "auto" else [accountant]:
        profile = ACCOUNTANTS[name](whole, adjacency)
        if profile is not None:
            return Curve(profile, name, adjacency, listed)
    kinds = sorted({event.kind for event, _ in whole})
    raise PrivacyError(
        f"accountant {accountant!r} cannot account for events of kind {', '.join(kinds)} under "
        f"{adjacency}; "
        "release them with noise that composes (all continuous or all unsampled), "
        "or under add-remove."
    )


def _check_relation(events: Events, adjacency: str) -> None:
    if adjacency != "replace-one" and any(isinstance(event, FIXED) for event, _ in events):
        raise PrivacyError(
            "adjacency must be 'replace-one' for an event that draws a fixed number of "
            "records, because adding a record changes every other record's chance, "
            f"not {adjacency!r}; use Poisson batches (PoissonGaussian) instead."
        )


def _unsampled(event: Event) -> Event:
    """A sample of everything is no sample."""
    if isinstance(event, PoissonGaussian) and event.rate == 1:
        return Gaussian(event.noise_multiplier)
    if isinstance(event, OneOfGaussian) and event.population == 1:
        return Gaussian(event.noise_multiplier)
    if isinstance(event, BatchGaussian) and (event.population == 1 or event.batch == 1):
        if event.population > 1:  # one draw is one record, with or without replacement
            return OneOfGaussian(event.noise_multiplier, event.population)
        return Gaussian(event.noise_multiplier / (event.batch if event.replacement else 1))
    if isinstance(event, BatchGaussian) and event.batch == event.population:
        return event if event.replacement else Gaussian(event.noise_multiplier)
    return event


def _gaussian(events: Events, adjacency: str) -> Profile | None:
    if not _all(events, Gaussian, CorrelatedGaussian):
        return None
    squares = [
        count * e.mu**2 for e, count in events if isinstance(e, Gaussian | CorrelatedGaussian)
    ]
    return GaussianProfile(math.sqrt(math.fsum(squares)))


def _pure(events: Events, adjacency: str) -> Profile | None:
    if not _all(events, Pure):
        return None
    if len(events) == 1 and isinstance(events[0][0], Pure):
        return PureProfile(events[0][0].epsilon, events[0][1])
    return _convolved(events, adjacency)


def _l2_laplace(events: Events, adjacency: str) -> Profile | None:
    has = any(isinstance(event, L2Laplace) for event, _ in events)
    return _convolved(events, adjacency) if has and _all(events, L2Laplace, Pure) else None


def _pld(events: Events, adjacency: str) -> Profile | None:
    return _convolved(events, adjacency) if _all(events, *CONTINUOUS) else None


def _convolved(events: Events, adjacency: str) -> Profile:
    # One order, so that rounding is the same too
    return _convolved_once(tuple(sorted(events, key=repr)), adjacency)


@lru_cache(maxsize=16)
def _convolved_once(events: tuple[tuple[Event, int], ...], adjacency: str) -> Profile:
    return pld_profile(events, adjacency)


def _objective(events: Events, adjacency: str) -> Profile | None:
    """Both bounds hold at every epsilon: generic composition knows no shape of the noise, and is
    better for few rounds or dimensions."""
    bound = _renyi(events, adjacency)
    if bound is None or not any(isinstance(event, ObjectiveLaplace) for event, _ in events):
        return None
    generic = merged(
        (Pure(e.epsilon) if isinstance(e, ObjectiveLaplace) else e, count) for e, count in events
    )
    for accountant in (_pure, _l2_laplace, _pld):
        other = accountant(generic, adjacency)
        if other is not None:
            return LeastProfile((bound, other))
    return bound


def _renyi(events: Events, adjacency: str) -> Profile | None:
    has = any(isinstance(event, OBJECTIVES) for event, _ in events)
    if not has or not _all(events, *OBJECTIVES, *UNSAMPLED):
        return None

    return renyi_profile(sorted(events, key=repr))


def _zcdp(events: Events, adjacency: str) -> Profile | None:
    """rho: mu^2/2 of Gaussians, 1/(2 z^2) of discrete ones, eps^2/2 of pure ones."""
    if not _all(events, *UNSAMPLED):
        return None
    return ZcdpProfile(math.fsum(count * _rho(event) for event, count in events))


def _rho(event: Event) -> float:
    match event:
        case Gaussian() | CorrelatedGaussian():
            return event.mu**2 / 2
        case DiscreteGaussian():
            return event.rho
        case Pure() | L2Laplace():
            return event.epsilon**2 / 2
    raise PrivacyError(f"accountant 'zcdp' has no rho for {event}.")


@dataclass(frozen=True)
class RdpProfile:
    """dp-accounting's Renyi accountant."""

    inner: Any = field(repr=False)

    def delta(self, epsilon: float) -> float:
        return min(float(self.inner.get_delta(epsilon)), 1.0)

    def epsilon(self, delta: float) -> float:
        if delta <= 0:
            return math.inf
        return 0.0 if delta >= 1 else float(self.inner.get_epsilon(delta))


def _rdp(events: Events, adjacency: str) -> Profile | None:
    """Our z means mu = 1/z under either relation, which is dp-accounting's add-remove; it ignores
    REPLACE_ONE here.

    A discrete Gaussian has the Renyi bound of the continuous one.
    """
    allowed = (Gaussian, CorrelatedGaussian, DiscreteGaussian)
    if not _all(events, *allowed, *((PoissonGaussian,) if adjacency == "add-remove" else ())):
        return None
    import dp_accounting as dpa
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant()
    for event, count in events:
        if isinstance(event, CorrelatedGaussian):
            z = 1 / event.mu
        else:
            z = event.noise_multiplier  # type: ignore[attr-defined]
        theirs: Any = dpa.GaussianDpEvent(z)
        if isinstance(event, PoissonGaussian):
            theirs = dpa.PoissonSampledDpEvent(event.rate, theirs)
        accountant.compose(theirs, count)
    return RdpProfile(accountant)


# From tightest to loosest where several apply
ACCOUNTANTS: dict[str, Callable[[Events, str], Profile | None]] = {
    "gaussian-exact": _gaussian,
    "objective": _objective,
    "pure-optimal": _pure,
    "l2-laplace": _l2_laplace,
    "pld": _pld,
    "renyi": _renyi,
    "zcdp": _zcdp,
    "rdp": _rdp,
}


def _all(events: Events, *kinds: type[Event]) -> bool:
    return all(isinstance(event, kinds) for event, _ in events)
