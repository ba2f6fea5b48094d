"""Any algorithm with a table beside it: round 1 also releases counts and sums of all records."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.algorithms.around import Around
from tacenda.algorithms.node import Node
from tacenda.algorithms.traits import Traits
from tacenda.algorithms.whitened import Whitened
from tacenda.errors import UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.questions.facts import Facts
from tacenda.questions.statistics import Statistic, checked, statistic_from_plain

TOTAL, NOISE = "tables", "tables_noise"


@dataclass(frozen=True)
class TabledState:
    """inner: the algorithm's state; total (length,): the tables' released sum over the network,
    and noise (1,) the standard deviation of each of its numbers."""

    inner: Any
    total: Array | None = field(default=None, metadata={"common": True})
    noise: Array | None = field(default=None, metadata={"common": True})


@dataclass(frozen=True)
class Tabled(Around):
    """The wrapped algorithm; a share of its budget pays for one statistic, released in round 1.

        total <- sum_i sum_j vector(x_ij) + noise           (after the first step)

    The table changes nothing of the training but its noise. What was found is in
    `RunResult.released`: "tables" (length,) and "tables_noise" (1,).

    Parameters
    ----------
    algorithm : Algorithm
        What learns.
    statistic : Statistic
        What is asked of every record (`tacenda.questions.tables.Tables`).
    share : float
        Of the budget of both together (mu^2), above 0 and below 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> from tacenda.questions.statistics import Count
    >>> tc.algorithms.Tabled(tc.algorithms.TreeGD(), Count(), 0.1).name
    'tabled'
    """

    statistic: Statistic
    share: float

    name: ClassVar[str] = "tabled"
    beside: ClassVar[str] = "and a table"

    def __post_init__(self) -> None:
        checks.between("Tabled.share", self.share, 0.0, 1.0)
        if isinstance(self.statistic, dict):  # from a file
            object.__setattr__(self, "statistic", statistic_from_plain(self.statistic))
        checked(self.statistic)

    # ---- the run
    def init(self, node: Node, w: Array) -> TabledState:
        return TabledState(self.algorithm.init(node, w))

    def has_learned(self, s: TabledState) -> bool:
        return self.algorithm.has_learned(s.inner)

    def learn(self, s: TabledState, node: Node) -> TabledState:
        return replace(s, inner=self.algorithm.learn(s.inner, node))

    def step(self, s: TabledState, node: Node) -> TabledState:
        s = replace(s, inner=self.algorithm.step(s.inner, node))
        if node.turn > 1:
            return s
        total, noise = self._counted(s, node)
        return replace(s, total=total, noise=np.array([noise]))

    def _counted(self, s: TabledState, node: Node) -> tuple[Array, float]:
        """The network's sum, and the noise of each of its numbers."""
        w = np.zeros((len(node.degree), node.facts.dim))
        value, n = node.statistic(self.statistic, w), node.n_nodes
        distance = node.facts.statistic_distance(self.statistic)
        spent = self.weight(node.facts, node.degree, node.rounds)
        if self.traits.masks:
            unit = distance / math.sqrt(float(spent))
            mean = unit * node.release_mean(value / unit, noise="masked")
            each = float(node.noise_multiplier[0, 0]) * unit
            return n * np.asarray(mean[0], float), each * math.sqrt(n)
        if isinstance(spent, float):
            own = distance * node.release(value / distance, weight=spent)
            std = node.noise_multiplier * (distance / math.sqrt(spent))
        else:  # the noise has the scale itself for its std
            factor = np.sqrt(spent) / distance
            own = node.release(value * factor, relative_std=1.0) / factor
            std = node.noise_multiplier / factor
        both = np.asarray(node.average(np.hstack([own, std**2]))[0], float)
        return n * both[:-1], math.sqrt(max(float(both[-1]) * n, 0.0))

    def weight(self, facts: Facts, degree: Array, rounds: int) -> Array | float:
        """What the table spends at noise scale 1, as mu^2 (`Algorithm.spends`)."""
        inner, more = self.algorithm, self.share / (1 - self.share)
        if isinstance(inner, Whitened):
            more *= 1 + inner.ratio
            facts, inner = inner.mapped_facts(facts), inner.algorithm
        return inner.spends(facts, degree, rounds) * more

    def released(self, s: TabledState) -> dict[str, Array]:
        """What the wrapped algorithm leaves, and the tables."""
        found = self.algorithm.released(s.inner)
        if s.total is None or s.noise is None:
            return found
        return {**found, TOTAL: s.total, NOISE: s.noise}

    def noise_std(self, s: TabledState, facts: Facts, rounds: int) -> Array | None:
        return self.algorithm.noise_std(s.inner, facts, rounds)

    def iterate(self, s: TabledState) -> Array:
        return self.algorithm.iterate(s.inner)

    def last(self, s: TabledState) -> Array:
        return self.algorithm.last(s.inner)

    def restart(self, s: TabledState, node: Node) -> TabledState:
        """The tables stay: they were released, and are of the members who were there."""
        return replace(s, inner=self.algorithm.restart(s.inner, node))

    # ---- what goes together
    def check(self, facts: Facts, topology: Topology, rounds: int, private: bool) -> None:
        if self.algorithm.traits.edge_noise is not None:
            raise UnsupportedError(
                f"{self.algorithm.title} with noise shared by neighbours takes no table beside it; "
                'set noise = "masked" or "independent", or release the table in a contract of its '
                "own."
            )
        k = facts.constants
        self.statistic.check(facts.n_features, k.n_outputs, k.loss.kind)
        self.algorithm.check(facts, topology, rounds, private)

    def advice(self, facts: Facts, topology: Topology, rounds: int) -> list[str]:
        return self.algorithm.advice(facts, topology, rounds)

    # ---- as the wrapped algorithm, but for what the table asks
    @property
    def traits(self) -> Traits:
        # Round 1 releases the table too, and a table says more than the final model; its counts are
        # of all members, which no rule that leaves some out can give
        return replace(
            self.algorithm.traits,
            repeats_releases=False,
            exact_means_only=False,
            joins_groups=False,
        )

    def largest_mean(self, facts: Facts, records: float, noise: float) -> float:
        return self.algorithm.largest_mean(facts, records, noise)

    def to_plain(self) -> dict[str, Any]:
        plain = {"statistic": self.statistic.to_plain(), "share": self.share}
        return {"name": self.name, **plain, "algorithm": self.algorithm.to_plain()}
