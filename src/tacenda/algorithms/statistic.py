"""One statistic of all records, released once: the run of one round that evaluations, selections
and tests are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.needs import Needs
from tacenda.algorithms.node import Node
from tacenda.algorithms.published import Verdict
from tacenda.algorithms.traits import Traits
from tacenda.errors import InputError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.questions.facts import Facts
from tacenda.questions.statistics import FirstStatistic, Statistic, checked, statistic_from_plain

NOISES = ("masked", "independent")


@dataclass(frozen=True)
class StatisticState:
    """x (b, d): the public model at which records are asked; total (length,): the released sum over
    the network, and noise (1,) the standard deviation of each of its numbers; own (n, length): what
    each node released by itself, where noise is independent and all nodes are hosted here. first
    and first_noise: total and noise of what was released before it."""

    x: Array
    total: Array | None = field(default=None, metadata={"common": True})
    noise: Array | None = field(default=None, metadata={"common": True})
    own: Array | None = None
    first: Array | None = field(default=None, metadata={"common": True})
    first_noise: Array | None = field(default=None, metadata={"common": True})


@dataclass(frozen=True)
class StatisticRelease(Algorithm):
    """Release the network's sum of a statistic at the starting model, in one round.

        w <- (1/n) sum_i w_i                                (where records are asked)
        total <- sum_i sum_j vector(x_ij, y_ij; w) + noise  (released once by each node)

    The model is that of the start, unchanged: `simulate(..., init=model)` asks at `model`. What was
    found is in `RunResult.released`: "total" (length,), "noise" (1,) and, where noise is
    independent and one block hosts all nodes, "own" (n, length).
    Guarantee, masked: a sum of discrete Gaussians over the members that a coalition of at most
    `Privacy.coalition` leaves connected. Independent: one Gaussian release by each node.

    Parameters
    ----------
    statistic : Statistic
        What is asked of every record (`tacenda.questions.statistics`).
    noise : {"masked", "independent"}, default="masked"
        "masked" hides all but the network's sum; with "independent" each node's own sum is public
        too, and its noise is larger.
    first : FirstStatistic or None, default=None
        What is released in a round before, for `share` of the budget; it says how `statistic` is
        cut. Its sum is in "first", the standard deviation of its noise in "first_noise".
    share : float, default=0.2
        Of the budget (mu^2), for `first`.

    Examples
    --------
    >>> import tacenda as tc
    >>> from tacenda.questions.statistics import Count
    >>> tc.algorithms.StatisticRelease(Count()).to_plain()
    {'name': 'statistic', 'statistic': {'name': 'count'}, 'noise': 'masked'}
    """

    name: ClassVar[str] = "statistic"
    title: ClassVar[str] = "One statistic of all records"
    source: ClassVar[str] = "ours"
    default_output: ClassVar[str] = "last"
    default_rounds: ClassVar[int] = 1
    needs: ClassVar[Needs] = Needs()
    verdict: ClassVar[Verdict | None] = Verdict(
        "ours",
        "sound",
        "New here: a sum of bounded vectors, released once.",
        "One Gaussian release; masked: a sum of discrete Gaussians over what a coalition of the "
        "stated size leaves connected.",
    )

    statistic: Statistic
    noise: str = "masked"
    first: FirstStatistic | None = None
    share: float = 0.2

    def __post_init__(self) -> None:
        checks.one_of("StatisticRelease.noise", self.noise, NOISES)
        checks.between("StatisticRelease.share", self.share, 0.0, 1.0)
        for name in ("statistic", "first"):
            if isinstance(given := getattr(self, name), dict):  # from a file
                object.__setattr__(self, name, statistic_from_plain(given))
        checked(self.statistic)
        if self.first is not None and not isinstance(checked(self.first), FirstStatistic):
            raise InputError(
                "StatisticRelease.first must be a FirstStatistic, which says how the other is "
                f"asked, not {self.first!r}."
            )

    @property
    def rounds(self) -> int:
        """One, or two with `first`."""
        return 1 if self.first is None else 2

    def check(self, facts: Facts, topology: Topology, rounds: int, private: bool) -> None:
        # A statistic is bounded by itself, and asks for no gradient
        super().check(facts, topology, rounds, False)
        if rounds != self.rounds:
            raise UnsupportedError(
                f"{self.title} is released once: rounds must be {self.rounds}, not {rounds}."
            )
        k = facts.constants
        for one in (self.statistic, self.first):
            if one is not None:
                one.check(facts.n_features, k.n_outputs, k.loss.kind)

    def init(self, node: Node, w: Array) -> StatisticState:
        return StatisticState(w)

    def step(self, s: StatisticState, node: Node) -> StatisticState:
        # Masks cancel between nodes that ask the same question
        x = node.average(s.x)
        if self.first is not None and s.first is None:
            weight = self.share / (1.0 - self.share)
            total, noise, _ = self._released(self.first, x, node, weight)
            return replace(s, x=x, first=total, first_noise=noise)
        asked = self.statistic
        # A rehearsal on blank records has shorter answers
        if self.first is not None and s.first is not None and len(s.first) == self.first.length:
            asked = self.asked(s.first, s.first_noise, float(node.facts.sizes.sum()))
        total, noise, own = self._released(asked, x, node, 1.0)
        return replace(s, x=x, total=total, noise=noise, own=own)

    def asked(self, first: Array, noise: Array | None, records: float) -> Statistic:
        """Return what is asked after the first release; from public numbers."""
        assert self.first is not None and noise is not None
        return self.first.then(self.statistic, np.asarray(first), float(noise[0]), records)

    def _released(
        self, statistic: Statistic, x: Array, node: Node, weight: float
    ) -> tuple[Array, Array, Array | None]:
        """The network's sum, its noise, and what each node released where all are hosted here."""
        value = node.statistic(statistic, x)
        unit = node.facts.statistic_distance(statistic)
        n, multiplier = node.n_nodes, node.noise_multiplier / math.sqrt(weight)
        if self.noise == "masked":
            mean = unit * node.release_mean(value / unit, noise="masked", weight=weight)
            std = float(multiplier[0, 0]) * unit * math.sqrt(n)
            return n * np.asarray(mean[0], float), np.array([std]), None
        own = unit * node.release(value / unit, weight=weight)
        variance = (multiplier * unit) ** 2
        rows = np.hstack([own, variance]).astype(x.dtype, copy=False)
        both = np.asarray(node.average(rows)[0], float)
        std = math.sqrt(max(float(both[-1]) * n, 0.0))
        return n * both[:-1], np.array([std]), own if len(own) == n else None

    @property
    def traits(self) -> Traits:
        return replace(super().traits, masks=self.noise == "masked", reaches_consensus=True)

    def iterate(self, s: StatisticState) -> Array:
        return s.x

    def released(self, s: StatisticState) -> dict[str, Array]:
        """total, noise and, where each node released its own, own; first and first_noise."""
        found = {"total": s.total, "noise": s.noise, "own": s.own}
        found |= {"first": s.first, "first_noise": s.first_noise}
        return {name: value for name, value in found.items() if value is not None}

    def restart(self, s: StatisticState, node: Node) -> StatisticState:
        """The model stays; what was released with other members is forgotten."""
        return StatisticState(s.x)

    def to_plain(self) -> dict[str, Any]:
        about = {"name": self.name, "statistic": self.statistic.to_plain(), "noise": self.noise}
        if self.first is None:
            return about
        return {**about, "first": self.first.to_plain(), "share": self.share}
