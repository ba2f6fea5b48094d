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
    """One release, as its privacy sees it: the base of all events.

    Examples
    --------
    >>> from tacenda import accounting
    >>> isinstance(accounting.Gaussian(2.0), accounting.Event)
    True
    """

    kind: ClassVar[str] = ""

    @property
    def told(self) -> float:
        """How much is learnt about one record: 0 if nothing, infinite if everything may be."""
        raise TypeError(
            f"{type(self).__name__} is only the base of events; use one of {sorted(KINDS)}."
        )

    @property
    def lossless(self) -> bool:
        """Nothing at all is learnt about one record."""
        return self.told == 0

    @property
    def lossy(self) -> bool:
        """Everything may be learnt about one record: no finite epsilon exists."""
        return math.isinf(self.told)

    def grouped(self, size: int) -> Event | None:
        """Return the release as `size` records together see it, or None if no event says so."""
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
    """Additive Gaussian noise of standard deviation z * sensitivity.

    Parameters
    ----------
    noise_multiplier : float
        z, at least 0; infinite for a release that costs nothing.

    Examples
    --------
    >>> from tacenda import accounting
    >>> accounting.Gaussian(2.0).mu
    0.5
    """

    noise_multiplier: float
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        _at_least_zero(self, "noise_multiplier")

    @property
    def mu(self) -> float:
        """The Gaussian-DP parameter 1/z."""
        return _inverse(self.noise_multiplier)

    @property
    def told(self) -> float:
        return self.mu

    def grouped(self, size: int) -> Event:
        return Gaussian(self.noise_multiplier / size)


@dataclass(frozen=True, slots=True)
class PoissonGaussian(Event):
    """Gaussian noise on a Poisson sample, in which each record is by chance.

    Parameters
    ----------
    noise_multiplier : float
        z, at least 0; infinite for a release that costs nothing. The noise's
        standard deviation is z times the sensitivity of the sampled sum.
    rate : float
        The chance of a record, in [0, 1].

    Examples
    --------
    >>> from tacenda import accounting
    >>> sampled = accounting.PoissonGaussian(1.0, rate=0.01)
    >>> round(accounting.judge([(sampled, 100)], "add-remove").epsilon(1e-5), 2)
    0.72
    """

    noise_multiplier: float
    rate: float
    kind: ClassVar[str] = "poisson-gaussian"

    def __post_init__(self) -> None:
        _at_least_zero(self, "noise_multiplier")
        _set(self, "rate", between("rate", self.rate, 0.0, 1.0, open_ends=False))

    @property
    def told(self) -> float:
        return _inverse(self.noise_multiplier) if self.rate > 0 else 0.0


@dataclass(frozen=True, slots=True)
class OneOfGaussian(Event):
    """Gaussian noise on one record, drawn uniformly from `population` records.

    Dual averaging as published in Liu et al. (2022). Replace-one only.

    Parameters
    ----------
    noise_multiplier : float
        z, at least 0; infinite for a release that costs nothing.
    population : int
        How many records there are to draw from.

    Examples
    --------
    >>> from tacenda import accounting
    >>> drawn = accounting.OneOfGaussian(1.0, population=100)
    >>> accounting.judge([(drawn, 100)]).exact
    False
    """

    noise_multiplier: float
    population: int
    kind: ClassVar[str] = "one-of-gaussian"

    def __post_init__(self) -> None:
        _at_least_zero(self, "noise_multiplier")
        _set(self, "population", whole("population", self.population, least=1))

    @property
    def told(self) -> float:
        return _inverse(self.noise_multiplier)


@dataclass(frozen=True, slots=True)
class BatchGaussian(Event):
    """Gaussian noise on the sum of exactly `batch` records, drawn uniformly from `population`.

    Huang and Gong (2020), Note 1, draw with replacement. Replace-one only.

    Parameters
    ----------
    noise_multiplier : float
        z, at least 0: the noise over what one record of the batch moves the sum by.
    population : int
        How many records there are to draw from.
    batch : int
        How many are drawn; without replacement at most `population`.
    replacement : bool, default=False
        True if a record may be drawn several times. It then moves the sum as often.

    Examples
    --------
    >>> from tacenda import accounting
    >>> curves = [
    ...     accounting.judge([(accounting.BatchGaussian(1.0, 100, 5, again), 50)])
    ...     for again in (False, True)
    ... ]
    >>> curves[0].epsilon(1e-5) < curves[1].epsilon(1e-5), curves[0].exact
    (True, False)
    """

    noise_multiplier: float
    population: int
    batch: int
    replacement: bool = False
    kind: ClassVar[str] = "batch-gaussian"

    def __post_init__(self) -> None:
        _at_least_zero(self, "noise_multiplier")
        _set(self, "population", whole("population", self.population, least=1))
        _set(self, "batch", whole("batch", self.batch, least=1))
        if not isinstance(self.replacement, bool):
            raise InputError(f"replacement must be True or False, not {self.replacement!r}.")
        if not self.replacement and self.batch > self.population:
            raise InputError(
                f"batch must be at most the population of {self.population} records, "
                f"not {self.batch}; draw with replacement, or fewer."
            )

    @property
    def told(self) -> float:
        return _inverse(self.noise_multiplier)


@dataclass(frozen=True, slots=True)
class Pure(Event):
    """Any epsilon-DP release.

    Parameters
    ----------
    epsilon : float
        Its epsilon, at least 0.

    Examples
    --------
    >>> from tacenda import accounting
    >>> accounting.judge([(accounting.Pure(0.1), 10)]).pure_epsilon
    1.0
    """

    epsilon: float
    kind: ClassVar[str] = "pure"

    def __post_init__(self) -> None:
        _at_least_zero(self, "epsilon")

    @property
    def told(self) -> float:
        return self.epsilon

    def grouped(self, size: int) -> Event:
        return Pure(self.epsilon * size)


@dataclass(frozen=True, slots=True)
class ObjectiveLaplace(Event):
    """The minimiser of an objective with an l2-Laplace linear term inside, for a loss of linear
    scores: pure, and in many dimensions far better (`renyi` has the bound and its proof).

    inner: the noise's rate times how far one record moves the gradient. curvature: a bound on
    |ln det H - ln det H'| of the neighbouring Hessians. dim: of the noise. directions: in how many
    a record may move the gradient (1 for one output, K - 1 for K classes). gap: the pure loss of
    the noise that hides what the solver left undone. epsilon: the pure loss of the whole, by
    default inner + curvature + gap; it is less in an event that stands for the worst of several
    nodes, of which each has another part at its largest.
    """

    inner: float
    curvature: float
    dim: int
    directions: int
    gap: float
    epsilon: float = math.inf
    kind: ClassVar[str] = "objective-laplace"

    def __post_init__(self) -> None:
        _at_least_zero(self, "inner", "curvature", "gap", "epsilon")
        for name in ("dim", "directions"):
            _set(self, name, whole(name, getattr(self, name), least=1))
        _set(self, "epsilon", min(self.epsilon, self.inner + self.curvature + self.gap))

    @property
    def told(self) -> float:
        return self.epsilon

    def grouped(self, size: int) -> Event:
        amounts = ("inner", "curvature", "gap", "epsilon")
        larger: dict[str, Any] = {name: getattr(self, name) * size for name in amounts}
        return dataclasses.replace(self, **larger)


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
        _at_least_zero(self, "noise_multiplier", "curvature", "gap_mu")
        _set(self, "directions", whole("directions", self.directions, least=1))

    @property
    def told(self) -> float:
        return _inverse(self.noise_multiplier) + self.curvature + self.gap_mu

    def grouped(self, size: int) -> Event:
        return ObjectiveGaussian(
            self.noise_multiplier / size, self.curvature * size, self.directions, self.gap_mu * size
        )


@dataclass(frozen=True, slots=True)
class L2Laplace(Event):
    """Additive noise e in R^dim with density proportional to exp(-(epsilon/sensitivity) |e|).

    It is epsilon-DP, and far better in many dimensions. Only for noise added to the released value
    itself: inside an objective it is an `ObjectiveLaplace`.

    Parameters
    ----------
    epsilon : float
        Its pure epsilon, at least 0.
    dim : int
        The number of dimensions.

    Examples
    --------
    >>> from tacenda import accounting
    >>> wide = accounting.judge([(accounting.L2Laplace(0.3, dim=100), 100)])
    >>> generic = accounting.judge([(accounting.Pure(0.3), 100)])
    >>> wide.epsilon(1e-5) < generic.epsilon(1e-5) / 5
    True
    """

    epsilon: float
    dim: int
    kind: ClassVar[str] = "l2-laplace"

    def __post_init__(self) -> None:
        _at_least_zero(self, "epsilon")
        _set(self, "dim", whole("dim", self.dim, least=1))

    @property
    def told(self) -> float:
        return self.epsilon

    def grouped(self, size: int) -> Event:
        return L2Laplace(self.epsilon * size, self.dim)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Event):
    """Discrete Gaussian on the integer lattice,
    z = std / l2 sensitivity (both on the lattice): (1/(2 z^2))-zCDP."""

    noise_multiplier: float
    kind: ClassVar[str] = "discrete-gaussian"

    def __post_init__(self) -> None:
        _at_least_zero(self, "noise_multiplier")

    @property
    def rho(self) -> float:
        """zCDP parameter 1/(2 z^2)."""
        return _half_square(_inverse(self.noise_multiplier))

    @property
    def told(self) -> float:
        return self.rho

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
        _at_least_zero(self, "mu")
        _set(self, "coalition", whole("coalition", self.coalition))

    @property
    def told(self) -> float:
        return self.mu

    def grouped(self, size: int) -> Event:
        return type(self)(self.mu * size, self.coalition)


@dataclass(frozen=True, slots=True)
class MaskedSum(CorrelatedGaussian):
    """One round of whole numbers under masks that cancel in the network's sum: whatever a coalition
    sees of it is a function of sums over those it cannot tell apart, each with one discrete
    Gaussian of every member; such a sum is a Gaussian of parameter mu (`discrete_sums`)."""

    kind: ClassVar[str] = "masked-sum"


Events = Sequence[tuple[Event, int]]
PurePrivacy = Pure | L2Laplace | ObjectiveLaplace  # events with a finite pure epsilon

KINDS: dict[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        Gaussian,
        PoissonGaussian,
        OneOfGaussian,
        BatchGaussian,
        Pure,
        ObjectiveLaplace,
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
    if not all(isinstance(event, PurePrivacy) for event, _ in counted):
        return math.inf
    return math.fsum(count * e.epsilon for e, count in counted if isinstance(e, PurePrivacy))


def _set(event: Event, name: str, value: float) -> None:
    object.__setattr__(event, name, value)


def _at_least_zero(event: Event, *names: str) -> None:
    for name in names:
        _set(event, name, positive(name, getattr(event, name), zero=True, infinite=True))


def _inverse(multiplier: float) -> float:
    """1/z; a multiplier so small that 1/z overflows counts as 0."""
    return math.inf if multiplier == 0 or 1 / multiplier == math.inf else 1 / multiplier


def _half_square(mu: float) -> float:
    return mu * mu / 2
