"""Privacy events: what one release was, as frozen values that are judged elsewhere (`accounting`).

An event knows its parameters and nothing of composition. Every noise multiplier is in this
project's convention, z = noise_std / sensitivity, where the sensitivity already holds replace-one's
factor 2; one Gaussian release then is mu-Gaussian-DP with mu = 1/z. An infinite multiplier means no
loss at all, a multiplier of 0 an infinite loss.

A run is a sequence of (event, count).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tacenda.checks import between, positive, whole
from tacenda.errors import InputError


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events; `kind` names the class in JSON."""

    kind: ClassVar[str] = ""

    @property
    def lossless(self) -> bool:
        """Nothing at all is learnt about one record."""
        raise TypeError(
            f"{type(self).__name__} is only the base of events; use one of {sorted(KINDS)}."
        )

    @property
    def lossy(self) -> bool:
        """Everything may be learnt about one record: no finite epsilon exists."""
        raise TypeError(
            f"{type(self).__name__} is only the base of events; use one of {sorted(KINDS)}."
        )

    def grouped(self, size: int) -> Event | None:
        """The same release seen by `size` neighbouring records at once, or None where no exact
        event says so."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinity is written as the word "inf"."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain = {
            k: "inf" if isinstance(v, float) and math.isinf(v) else v for k, v in values.items()
        }
        return {"kind": self.kind, **plain}


@dataclass(frozen=True, slots=True)
class Gaussian(Event):
    """Additive Gaussian noise of standard deviation z * sensitivity: mu = 1/z."""

    noise_multiplier: float
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        _set(
            self,
            "noise_multiplier",
            positive("noise_multiplier", self.noise_multiplier, zero=True, infinite=True),
        )

    @property
    def mu(self) -> float:
        return _inverse(self.noise_multiplier)

    @property
    def lossless(self) -> bool:
        return self.mu == 0

    @property
    def lossy(self) -> bool:
        return math.isinf(self.mu)

    def grouped(self, size: int) -> Event:
        return Gaussian(self.noise_multiplier / size)


@dataclass(frozen=True, slots=True)
class PoissonGaussian(Event):
    """Each record enters with probability `rate`; noise std z * sensitivity of the sampled sum."""

    noise_multiplier: float
    rate: float
    kind: ClassVar[str] = "poisson-gaussian"

    def __post_init__(self) -> None:
        _set(
            self,
            "noise_multiplier",
            positive("noise_multiplier", self.noise_multiplier, zero=True, infinite=True),
        )
        _set(self, "rate", between("rate", self.rate, 0.0, 1.0, open_ends=False))

    @property
    def lossless(self) -> bool:
        return math.isinf(self.noise_multiplier) or self.rate == 0

    @property
    def lossy(self) -> bool:
        return math.isinf(_inverse(self.noise_multiplier)) and self.rate > 0


@dataclass(frozen=True, slots=True)
class OneOfGaussian(Event):
    """Exactly one of `population` records is drawn uniformly (dual averaging as published in
    Liu et al. (2022)), plus Gaussian noise."""

    noise_multiplier: float
    population: int
    kind: ClassVar[str] = "one-of-gaussian"

    def __post_init__(self) -> None:
        _set(
            self,
            "noise_multiplier",
            positive("noise_multiplier", self.noise_multiplier, zero=True, infinite=True),
        )
        _set(self, "population", whole("population", self.population, least=1))

    @property
    def lossless(self) -> bool:
        return math.isinf(self.noise_multiplier)

    @property
    def lossy(self) -> bool:
        return math.isinf(_inverse(self.noise_multiplier))


@dataclass(frozen=True, slots=True)
class Pure(Event):
    """Any epsilon-DP release, such as l2-Laplace noise inside an objective."""

    epsilon: float
    kind: ClassVar[str] = "pure"

    def __post_init__(self) -> None:
        _set(self, "epsilon", positive("epsilon", self.epsilon, zero=True, infinite=True))

    @property
    def lossless(self) -> bool:
        return self.epsilon == 0

    @property
    def lossy(self) -> bool:
        return math.isinf(self.epsilon)

    def grouped(self, size: int) -> Event:
        return Pure(self.epsilon * size)


@dataclass(frozen=True, slots=True)
class ObjectiveGaussian(Event):
    """The minimiser of an objective with a Gaussian linear term inside, of std z * (how far one
    record moves the gradient).

    curvature: a bound on |ln det H - ln det H'| of the neighbouring Hessians. directions: in how
    many a record may move the gradient (1 for one output, K - 1 for K classes). gap_mu: of the
    Gaussian noise added for what the solver left undone. (`renyi` has the bound and its proof.)
    """

    noise_multiplier: float
    curvature: float
    directions: int
    gap_mu: float
    kind: ClassVar[str] = "objective-gaussian"

    def __post_init__(self) -> None:
        for name in ("noise_multiplier", "curvature", "gap_mu"):
            _set(self, name, positive(name, getattr(self, name), zero=True, infinite=True))
        _set(self, "directions", whole("directions", self.directions, least=1))

    @property
    def lossless(self) -> bool:
        return _inverse(self.noise_multiplier) + self.curvature + self.gap_mu == 0

    @property
    def lossy(self) -> bool:
        return math.isinf(_inverse(self.noise_multiplier) + self.curvature + self.gap_mu)

    def grouped(self, size: int) -> Event:
        return ObjectiveGaussian(
            self.noise_multiplier / size, self.curvature * size, self.directions, self.gap_mu * size
        )


@dataclass(frozen=True, slots=True)
class L2Laplace(Event):
    """Additive noise e in R^dim with density proportional to exp(-(epsilon/sensitivity) |e|);
    epsilon-DP, and far better.

    Only for noise added to the released value itself: noise inside an objective is a `Pure` event.
    """

    epsilon: float
    dim: int
    kind: ClassVar[str] = "l2-laplace"

    def __post_init__(self) -> None:
        _set(self, "epsilon", positive("epsilon", self.epsilon, zero=True, infinite=True))
        _set(self, "dim", whole("dim", self.dim, least=1))

    @property
    def lossless(self) -> bool:
        return self.epsilon == 0

    @property
    def lossy(self) -> bool:
        return math.isinf(self.epsilon)

    def grouped(self, size: int) -> Event:
        return L2Laplace(self.epsilon * size, self.dim)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Event):
    """Discrete Gaussian on the integer lattice,
    z = std / l2 sensitivity (both on the lattice): (1/(2 z^2))-zCDP."""

    noise_multiplier: float
    kind: ClassVar[str] = "discrete-gaussian"

    def __post_init__(self) -> None:
        _set(
            self,
            "noise_multiplier",
            positive("noise_multiplier", self.noise_multiplier, zero=True, infinite=True),
        )

    @property
    def rho(self) -> float:
        """zCDP parameter 1/(2 z^2)."""
        return _half_square(_inverse(self.noise_multiplier))

    @property
    def lossless(self) -> bool:
        return self.rho == 0

    @property
    def lossy(self) -> bool:
        return math.isinf(self.rho)

    def grouped(self, size: int) -> Event:
        return DiscreteGaussian(self.noise_multiplier / size)


@dataclass(frozen=True, slots=True)
class CorrelatedGaussian(Event):
    """One round of noise shared by neighbours:
    a Gaussian of parameter mu against any `coalition` curious members."""

    mu: float
    coalition: int
    kind: ClassVar[str] = "correlated-gaussian"

    def __post_init__(self) -> None:
        _set(self, "mu", positive("mu", self.mu, zero=True, infinite=True))
        _set(self, "coalition", whole("coalition", self.coalition))

    @property
    def lossless(self) -> bool:
        return self.mu == 0

    @property
    def lossy(self) -> bool:
        return math.isinf(self.mu)

    def grouped(self, size: int) -> Event:
        return type(self)(self.mu * size, self.coalition)


@dataclass(frozen=True, slots=True)
class MaskedSum(CorrelatedGaussian):
    """One round of whole numbers under masks that cancel in the network's sum: whatever a coalition
    sees of it is a function of sums over those it cannot tell apart, each with one discrete
    Gaussian of every member; such a sum is a Gaussian of parameter mu (`discrete_sums`)."""

    kind: ClassVar[str] = "masked-sum"


Events = Sequence[tuple[Event, int]]

KINDS: dict[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        Gaussian,
        PoissonGaussian,
        OneOfGaussian,
        Pure,
        ObjectiveGaussian,
        L2Laplace,
        DiscreteGaussian,
        CorrelatedGaussian,
        MaskedSum,
    )
}


def event_from_dict(values: Mapping[str, Any]) -> Event:
    """The event that `to_dict` wrote."""
    kind = values.get("kind")
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(map(repr, KINDS))}, not {kind!r}.")
    cls = KINDS[kind]
    names = {field.name for field in dataclasses.fields(cls)}
    given = set(values) - {"kind"}
    if given != names:
        raise InputError(
            f"an event of kind {kind!r} must have exactly the fields {sorted(names)}, "
            f"not {sorted(given)}."
        )
    return cls(**{name: math.inf if values[name] == "inf" else values[name] for name in names})


def merged(events: Iterable[tuple[Event, int]]) -> list[tuple[Event, int]]:
    """Equal events joined, those that cost nothing left out; k times one event equals that event
    with count k."""
    counts: dict[Event, int] = {}
    for item in events:
        if not (isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], Event)):
            raise InputError(f"events must be a sequence of (event, count), not hold {item!r}.")
        event, count = item
        number = whole("count", count)
        if number and not event.lossless:
            counts[event] = counts.get(event, 0) + number
    return list(counts.items())


def at_members(events: Iterable[tuple[Event, int]], members: int) -> list[tuple[Event, int]]:
    """What a person loses who is at `members` nodes, each of which made these releases.

    Independent noise: the releases of all of them. Noise shared by neighbours, or hidden in one
    sum: what hides one hides the other, so that mu adds up.
    """
    if members == 1:
        return list(events)
    return [
        (dataclasses.replace(event, mu=event.mu * members), count)
        if isinstance(event, CorrelatedGaussian)
        else (event, count * members)
        for event, count in events
    ]


def pure_sum(events: Iterable[tuple[Event, int]]) -> float:
    """The pure epsilon of the whole: a sum if every event is pure, else infinite."""
    counted = merged(events)
    if not all(isinstance(event, Pure | L2Laplace) for event, _ in counted):
        return math.inf
    return math.fsum(count * e.epsilon for e, count in counted if isinstance(e, Pure | L2Laplace))


def _set(event: Event, name: str, value: float) -> None:
    object.__setattr__(event, name, value)


def _inverse(multiplier: float) -> float:
    """1/z; a multiplier so small that 1/z overflows counts as 0."""
    return math.inf if multiplier == 0 or 1 / multiplier == math.inf else 1 / multiplier


def _half_square(mu: float) -> float:
    return mu * mu / 2
