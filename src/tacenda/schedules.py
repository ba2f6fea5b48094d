"""Named schedules: a hyperparameter that changes with the round, and that a file can hold.

A schedule is called with the round t = 1, 2, ... and answers a number above 0. A plain number is
the constant schedule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from tacenda import checks
from tacenda.errors import InputError


@runtime_checkable
class Schedule(Protocol):
    """Anything with a name that answers a number for each round t = 1, 2, ..."""

    name: ClassVar[str]

    def __call__(self, t: int) -> float: ...


@dataclass(frozen=True)
class Constant:
    """value, at every round."""

    name: ClassVar[str] = "constant"
    value: float

    def __post_init__(self) -> None:
        checks.positive("Constant.value", self.value, zero=True)

    def __call__(self, t: int) -> float:
        return self.value


@dataclass(frozen=True)
class Geometric:
    """start * ratio**t : ZhangEtAl18 writes eta(k) = 1.01**k, which is geometric(1.0, 1.01)."""

    name: ClassVar[str] = "geometric"
    start: float
    ratio: float

    def __post_init__(self) -> None:
        checks.positive("geometric: start", self.start)
        checks.positive("geometric: ratio", self.ratio)

    def __call__(self, t: int) -> float:
        return self.start * self.ratio**t


@dataclass(frozen=True)
class Power:
    """start * t**exponent : Power(1, 0.5) grows like the square root of the round."""

    name: ClassVar[str] = "power"
    start: float
    exponent: float

    def __post_init__(self) -> None:
        checks.positive("power: start", self.start)

    def __call__(self, t: int) -> float:
        return self.start * float(t) ** self.exponent


@dataclass(frozen=True)
class SquareRoot:
    """offset + sqrt(slope * t) :
    the proximal weight gamma(t) = 20 + sqrt(mu t) of LiuEtAl22's experiments."""

    name: ClassVar[str] = "square-root"
    offset: float
    slope: float

    def __post_init__(self) -> None:
        checks.positive("square-root: offset", self.offset, zero=True)
        checks.positive("square-root: slope", self.slope)

    def __call__(self, t: int) -> float:
        return self.offset + math.sqrt(self.slope * t)


@dataclass(frozen=True)
class Listed:
    """The given values, one for each round; the last one stays."""

    name: ClassVar[str] = "listed"
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(float(v) for v in self.values))
        if not self.values:
            raise InputError("listed: values must hold at least one number, and holds none.")
        for v in self.values:
            checks.positive("listed: values", v, zero=True)

    def __call__(self, t: int) -> float:
        return self.values[min(t, len(self.values)) - 1]


constant, geometric, power, square_root = Constant, Geometric, Power, SquareRoot


def listed(values: Sequence[float]) -> Listed:
    """A schedule that reads its values from a list."""
    return Listed(tuple(values))


KINDS: dict[str, type] = {
    kind.name: kind for kind in (Constant, Geometric, Power, SquareRoot, Listed)
}


def at(value: float | Schedule, t: int) -> float:
    """The value of a number or schedule at round t."""
    return value(t) if callable(value) else value


def check(name: str, value: Any, *, zero: bool = False) -> None:
    """Refuse what is neither a number above 0 nor a schedule."""
    if isinstance(value, tuple(KINDS.values())):
        return
    if callable(value):
        raise InputError(
            f"{name} must be a number or a named schedule (tacenda.schedules), not {value!r}: "
            "a file cannot hold it."
        )
    checks.positive(name, value, zero=zero)


def to_plain(value: Any) -> Any:
    """A schedule as a plain dictionary; every other value as it is."""
    if isinstance(value, tuple(KINDS.values())):
        schedule: Any = value
        plain: dict[str, Any] = {"schedule": schedule.name, **asdict(schedule)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}
    return value


def from_plain(value: Any) -> Any:
    """The inverse of `to_plain`."""
    if isinstance(value, dict) and "schedule" in value:
        kind = KINDS[checks.one_of("schedule", value["schedule"], KINDS)]
        fields = {
            k: tuple(v) if isinstance(v, list) else v for k, v in value.items() if k != "schedule"
        }
        try:
            return kind(**fields)
        except TypeError as wrong:
            raise InputError(
                f"schedule {value['schedule']!r} does not take these fields: {wrong}."
            ) from None
    return value
