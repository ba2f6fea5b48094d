"""`HazardMoments`: gradient and curvature of grouped proportional hazards, as a statistic.

The hazard of a record with features u in period k is exp(u.b + a_k), a baseline for each period and
one ratio for all (Cox 1972; in groups Prentice and Gloeckler 1978). With f_k the part of period k
that a record was seen at risk, and z_k = exp(u.b + a_k) its hazard over the whole period,

    no event in it    loss f_k z_k                    slope f_k z_k         curvature f_k z_k
    event in it       loss -ln(1 - exp(-z_k))         slope -z/(e^z - 1)    curvature its derivative

The sums over a record's periods are those of a whole record: one statistic of all of it, whatever
its time. A record's vector has two blocks, each shortened to its public bound:

    gradient     (sum g) u, (g_k)
    curvature    (sum h) uu' packed, h_k u for each k, (h_k)

A row holds u (p,), of norm at most 1, and of each period f_k, or -1 for the event, divided by
sqrt(T); then both halves over sqrt(2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array, Floats
from tacenda.errors import InputError
from tacenda.questions.moments import packed, packed_length, unpacked
from tacenda.questions.statistics import Records, Statistic, register

BOUND = 1.5
SHARE = 0.6  # of the budget, in squares: the gradient's
BENDS_LESS = 0.7  # bound of the curvature over that of the gradient
LARGEST_RATE = 3.0  # of one record in one period


@register
@dataclass(frozen=True)
class HazardMoments(Statistic):
    """What a Newton step of the grouped proportional-hazards model needs.

    Parameters
    ----------
    features : int
        p, the number of features.
    periods : int
        T, the number of periods.
    bound : float, default=1.5
        A record counts for as long as its cumulative hazard by the model is no larger. Its gradient
        is shortened to this norm, and its curvature to 0.7 times as much, which is rare then. A
        larger bound is more noise.

    Examples
    --------
    >>> from tacenda.questions.hazards import HazardMoments
    >>> HazardMoments(2, 3).length
    17
    """

    name: ClassVar[str] = "hazard-moments"
    kinds: ClassVar[tuple[str, ...]] = ("regression",)

    features: int
    periods: int
    bound: float = BOUND

    def __post_init__(self) -> None:
        checks.whole("features", self.features, least=1)
        checks.whole("periods", self.periods, least=1)
        checks.positive("bound", self.bound)

    @property
    def width(self) -> int:
        """Length of the model: the effects b, then the baseline a."""
        return self.features + self.periods

    @property
    def length(self) -> int:
        p, t = self.features, self.periods
        return self.width + packed_length(p) + p * t + t

    @property
    def norm(self) -> float:
        return 1.0

    @property
    def non_negative(self) -> bool:
        return False

    @property
    def units(self) -> tuple[float, float]:
        """By how much the blocks of a released sum are multiplied: gradient, curvature."""
        room = self.bound * (1 + 1e-12)
        return room / math.sqrt(SHARE), BENDS_LESS * room / math.sqrt(1 - SHARE)

    @property
    def start(self) -> Floats:
        """Where the first sum is asked: no effects, and a cumulative hazard of 1 in all."""
        return np.append(np.zeros(self.features), np.full(self.periods, -math.log(self.periods)))

    def check(self, n_features: int, n_outputs: int, kind: str) -> None:
        super().check(n_features, n_outputs, kind)
        if n_features != self.width:
            raise InputError(
                f"records must have {self.width} numbers, features and periods, not {n_features}."
            )

    def vectors(self, records: Records, model: Floats) -> Array:
        p, t = self.features, self.periods
        rows = records.dense * math.sqrt(2)
        u, seen = rows[:, :p], np.clip(rows[:, p:] * math.sqrt(t), -1.0, 1.0)
        b, a = model[:p], model[p:]
        most = math.log(LARGEST_RATE)
        # Not u @ b, whose last bit may depend on the rows around: the cut below is a jump
        score = (u * b).sum(axis=1)
        z = np.exp(np.clip(score[:, None] + a, -30.0, most))
        # Seen no longer than the features say: an end that no event moves bends no effect
        seen = np.where(np.cumsum(z, axis=1) <= self.bound, seen, 0.0)
        grown = np.expm1(z)
        event = seen < -0.5
        part = np.maximum(seen, 0.0)
        slope = np.where(event, -z / grown, part * z)
        curvature = np.where(event, _bent(z), part * z)
        pull, bend = slope.sum(axis=1), curvature.sum(axis=1)
        first = np.hstack([pull[:, None] * u, slope])
        pairs = packed(u[:, :, None] * u[:, None, :])
        crossed = (curvature[:, :, None] * u[:, None, :]).reshape(len(u), t * p)
        second = np.hstack([bend[:, None] * pairs, crossed, curvature])
        units = self.units
        return np.hstack(
            [
                _shortened(first, self.bound) / units[0],
                _shortened(second, BENDS_LESS * self.bound) / units[1],
            ]
        )

    def taken_apart(self, total: Array) -> tuple[Floats, Floats]:
        """Gradient (d,) and curvature (d, d) of the sum of all records' losses."""
        p, t, d = self.features, self.periods, self.width
        units, total = self.units, np.asarray(total, float)
        gradient, rest = total[:d] * units[0], total[d:] * units[1]
        square = packed_length(p)
        found = np.zeros((d, d))
        found[:p, :p] = unpacked(rest[None, :square])[0]
        crossed = rest[square : square + p * t].reshape(t, p)
        found[p:, :p], found[:p, p:] = crossed, crossed.T
        found[range(p, d), range(p, d)] = rest[square + p * t :]
        return gradient, found

    def baseline(self, total: Array, noise: float) -> Floats:
        """The model without effects, from what was released at `start`: events of each period over
        the time at risk in it.

        noise: standard deviation of each released number.
        """
        gradient, curvature = self.taken_apart(total)
        p, z = self.features, math.exp(self.start[-1])
        pull, bend = z / math.expm1(z), _bent(np.array(z))
        events = (np.diag(curvature)[p:] - gradient[p:]) / (pull + bend)
        seen = (gradient[p:] + pull * events) / z + events / 2
        least = max(noise * self.units[0], 1e-3)
        rate = np.maximum(events, least) / np.maximum(seen, 2 * least)
        return np.append(np.zeros(p), np.log(np.clip(rate, 1e-6, 0.7)))

    def next_model(self, totals: Array, models: Array, noise: float) -> Floats:
        """The model after a Newton step from what was released last. The first step is from `start`
        to the baseline; the curvature is the mean over all rounds after it.

        totals: (r, length), what each round released. models: (r, d), where. noise: standard
        deviation of each released number. Effects whose curvature cannot be told from its noise
        are left as they are.
        """
        if len(totals) == 1:
            return self.baseline(totals[0], noise)
        parts = [self.taken_apart(total) for total in totals[1:]]
        bent = np.mean([curvature for _, curvature in parts], axis=0)
        found = Information.of(self, bent, noise / math.sqrt(len(parts)))
        step = np.clip(found.step(parts[-1][0]), -1.5, 1.5)
        return np.clip(np.asarray(models[-1], float) - step, -12.0, 12.0)


@dataclass(frozen=True, eq=False)
class Information:
    """The curvature of effects once the baseline follows them: S = B - C D^-1 C', where D (T,) is
    the baseline's own. values, vectors: of S; floor: what values must be above to be told from
    noise."""

    diagonal: Floats
    crossed: Floats  # (p, T)
    values: Floats
    vectors: Floats
    floor: float

    @classmethod
    def of(cls, asked: HazardMoments, curvature: Array, noise: float) -> Information:
        """noise: standard deviation of each number of the released sum."""
        p, spread = asked.features, noise * asked.units[1]
        diagonal = np.maximum(np.diag(curvature)[p:], max(2 * spread, 1e-9))
        crossed = curvature[:p, p:]
        # Noise in C would make S too small, by its square
        extra = spread**2 * float((1 / diagonal).sum())
        whole = curvature[:p, :p] - (crossed / diagonal) @ crossed.T + extra * np.eye(p)
        values, vectors = np.linalg.eigh((whole + whole.T) / 2)
        floor = max(2 * spread * math.sqrt(p), 1e-9)
        return cls(diagonal, crossed, values, vectors, floor)

    @property
    def inverse(self) -> Floats:
        """S^-1 in the directions that are told from noise, (p, p)."""
        good = self.values > self.floor
        kept = self.vectors[:, good]
        return np.asarray((kept / self.values[good]) @ kept.T)

    def step(self, gradient: Array) -> Floats:
        """Curvature^-1 gradient, (d,)."""
        p = len(self.values)
        pull = gradient[:p] - self.crossed @ (gradient[p:] / self.diagonal)
        effects = self.inverse @ pull
        rest = (gradient[p:] - self.crossed.T @ effects) / self.diagonal
        return np.append(effects, rest)

    def covariance(self, noise: float) -> Floats:
        """Of the effects, (p, p): sampling, where the model is right, and the gradient's noise of
        this variance."""
        over = self.crossed / self.diagonal
        pulled = noise * (np.eye(len(self.values)) + over @ over.T)
        return np.asarray(self.inverse + self.inverse @ pulled @ self.inverse)


def hazard_rows(features: Array, seen: Array) -> Floats:
    """Rows (n, p + T) for `HazardMoments`: features of norm at most 1, and of each period the part
    at risk from 0 to 1, or -1 for the event."""
    t = seen.shape[1]
    return np.hstack([features, seen / math.sqrt(t)]) / (math.sqrt(2) * (1 + 1e-12))


def _bent(z: Floats) -> Floats:
    """Curvature of an event's loss; its limit 0 at z = 0."""
    grown = np.expm1(z)
    return np.asarray(z * (z * np.exp(z) - grown) / grown**2)


def _shortened(rows: Floats, most: float) -> Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, most / np.maximum(norms, 1e-300))
