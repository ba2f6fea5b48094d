"""Newton's method on released sums: one statistic a round, asked at the model of the last one."""

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
from tacenda.algorithms.statistic import NOISES
from tacenda.algorithms.traits import Traits
from tacenda.graph.topology import Topology
from tacenda.questions.facts import Facts
from tacenda.questions.hazards import HazardMoments
from tacenda.questions.statistics import checked, statistic_from_plain


@dataclass(frozen=True)
class NewtonState:
    """x (b, d): the public model, the same at all nodes; totals (r, length) and models (r, d): what
    each round released, and where; noise (1,): the standard deviation of each number."""

    x: Array
    totals: Array | None = field(default=None, metadata={"common": True})
    models: Array | None = field(default=None, metadata={"common": True})
    noise: Array | None = field(default=None, metadata={"common": True})


@dataclass(frozen=True)
class HazardNewton(Algorithm):
    """Fit the grouped proportional-hazards model by Newton's method.

        total <- sum_i sum_j vector(x_ij; w) + noise    (released once a round)
        w <- w - H(total)^-1 g(total)                   (from released values, the same everywhere)

    Guarantee: the composition of one release a round, each a Gaussian of one node, or masked: a sum
    of discrete Gaussians over the members that a coalition leaves connected.

    Parameters
    ----------
    statistic : HazardMoments
        What is asked of every record.
    noise : {"masked", "independent"}, default="masked"
        As in `StatisticRelease`.

    Examples
    --------
    >>> from tacenda.algorithms.newton import HazardNewton
    >>> from tacenda.questions.hazards import HazardMoments
    >>> HazardNewton(HazardMoments(2, 3)).name
    'hazard-newton'
    """

    name: ClassVar[str] = "hazard-newton"
    title: ClassVar[str] = "Newton's method for hazards"
    source: ClassVar[str] = "ours"
    default_output: ClassVar[str] = "last"
    default_rounds: ClassVar[int] = 6
    needs: ClassVar[Needs] = Needs()
    verdict: ClassVar[Verdict | None] = Verdict(
        "ours",
        "sound",
        "New here: a sum of bounded vectors, released once a round.",
        "One Gaussian release a round; masked: a sum of discrete Gaussians over what a coalition "
        "of the stated size leaves connected.",
    )

    statistic: HazardMoments
    noise: str = "masked"

    def __post_init__(self) -> None:
        checks.one_of("HazardNewton.noise", self.noise, NOISES)
        if isinstance(self.statistic, dict):  # from a file
            object.__setattr__(self, "statistic", statistic_from_plain(self.statistic))
        checked(self.statistic)

    def check(self, facts: Facts, topology: Topology, rounds: int, private: bool) -> None:
        # A statistic is bounded by itself, and asks for no gradient
        super().check(facts, topology, rounds, False)
        k = facts.constants
        self.statistic.check(facts.n_features, k.n_outputs, k.loss.kind)

    def init(self, node: Node, w: Array) -> NewtonState:
        # Wherever a run begins, the first sum is asked where the baseline can be read from it
        start = self.statistic.start.astype(w.dtype)
        return NewtonState(np.broadcast_to(start, w.shape) if len(start) == w.shape[1] else w)

    def step(self, s: NewtonState, node: Node) -> NewtonState:
        # Masks cancel between nodes that ask the same question
        x = node.average(s.x)
        value = node.statistic(self.statistic, x)
        unit, n = node.facts.statistic_distance(self.statistic), node.n_nodes
        if self.noise == "masked":
            mean = unit * node.release_mean(value / unit, noise="masked")
            std = float(node.noise_multiplier[0, 0]) * unit * math.sqrt(n)
            total = n * np.asarray(mean[0], float)
        else:
            own = unit * node.release(value / unit)
            variance = (node.noise_multiplier * unit) ** 2
            both = np.asarray(node.average(np.hstack([own, variance]))[0], float)
            total, std = n * both[:-1], math.sqrt(max(float(both[-1]) * n, 0.0))
        here = np.asarray(x[0], float)
        totals, models, moved = _added(s.totals, total), _added(s.models, here), here
        if len(total) == self.statistic.length:  # else a rehearsal on blank records
            moved = self.statistic.next_model(totals, models, std)
        rows = np.broadcast_to(moved, x.shape).astype(x.dtype)
        return NewtonState(rows, totals, models, np.array([std]))

    @property
    def traits(self) -> Traits:
        return replace(super().traits, masks=self.noise == "masked", reaches_consensus=True)

    def iterate(self, s: NewtonState) -> Array:
        return s.x

    def released(self, s: NewtonState) -> dict[str, Array]:
        """totals, models and noise."""
        found = {"totals": s.totals, "models": s.models, "noise": s.noise}
        return {name: value for name, value in found.items() if value is not None}

    def restart(self, s: NewtonState, node: Node) -> NewtonState:
        """The model stays; what was released with other members is forgotten."""
        return NewtonState(s.x)

    def to_plain(self) -> dict[str, Any]:
        return {"name": self.name, "statistic": self.statistic.to_plain(), "noise": self.noise}


def _added(rows: Array | None, row: Array) -> Array:
    return row[None] if rows is None else np.vstack([rows, row])
