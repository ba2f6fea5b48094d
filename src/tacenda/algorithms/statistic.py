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
from tacenda.errors import UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.questions.facts import Facts
from tacenda.questions.statistics import Statistic, checked, statistic_from_plain

NOISES = ("masked", "independent")


@dataclass(frozen=True)
class StatisticState:
    """x (b, d): the public model at which records are asked; total (length,): the released sum over
    the network, and noise (1,) the standard deviation of each of its numbers; own (n, length): what
    each node released by itself, where noise is independent and all nodes are hosted here."""

    x: Array
    total: Array | None = field(default=None, metadata={"common": True})
    noise: Array | None = field(default=None, metadata={"common": True})
    own: Array | None = None


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

    def __post_init__(self) -> None:
        checks.one_of("StatisticRelease.noise", self.noise, NOISES)
        if isinstance(self.statistic, dict):  # from a file
            object.__setattr__(self, "statistic", statistic_from_plain(self.statistic))
        checked(self.statistic)

    def check(self, facts: Facts, topology: Topology, rounds: int, private: bool) -> None:
        # A statistic is bounded by itself, and asks for no gradient
        super().check(facts, topology, rounds, False)
        if rounds != 1:
            raise UnsupportedError(
                f"{self.title} is released once: rounds must be 1, not {rounds}."
            )
        k = facts.constants
        self.statistic.check(facts.n_features, k.n_outputs, k.loss.kind)

    def init(self, node: Node, w: Array) -> StatisticState:
        return StatisticState(w)

    def step(self, s: StatisticState, node: Node) -> StatisticState:
        # Masks cancel between nodes that ask the same question
        x = node.average(s.x)
        value = node.statistic(self.statistic, x)
        unit = node.facts.statistic_distance(self.statistic)
        n = node.n_nodes
        if self.noise == "masked":
            mean = unit * node.release_mean(value / unit, noise="masked")
            std = float(node.noise_multiplier[0, 0]) * unit * math.sqrt(n)
            total = n * np.asarray(mean[0], float)
            return replace(s, x=x, total=total, noise=np.array([std]))
        own = unit * node.release(value / unit)
        variance = (node.noise_multiplier * unit) ** 2
        rows = np.hstack([own, variance]).astype(s.x.dtype, copy=False)
        both = np.asarray(node.average(rows)[0], float)
        noise = math.sqrt(max(float(both[-1]) * n, 0.0))
        kept = own if len(own) == n else None
        return StatisticState(x, n * both[:-1], np.array([noise]), kept)

    @property
    def traits(self) -> Traits:
        return replace(super().traits, masks=self.noise == "masked", reaches_consensus=True)

    def iterate(self, s: StatisticState) -> Array:
        return s.x

    def released(self, s: StatisticState) -> dict[str, Array]:
        """total, noise and, where each node released its own, own."""
        found = {"total": s.total, "noise": s.noise, "own": s.own}
        return {name: value for name, value in found.items() if value is not None}

    def restart(self, s: StatisticState, node: Node) -> StatisticState:
        """The model stays; what was released with other members is forgotten."""
        return StatisticState(s.x)

    def to_plain(self) -> dict[str, Any]:
        return {"name": self.name, "statistic": self.statistic.to_plain(), "noise": self.noise}
