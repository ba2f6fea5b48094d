"""What an algorithm is: hyperparameters in a frozen dataclass, a released state, one round: `step`.

An algorithm is written for one node. Its arrays carry a leading axis of length b, the nodes hosted
in this block, and no step ever reduces over that axis; so the same file runs as a vectorised
simulation, on a few blocks, or as a single peer.

Everything beyond `init`, `step` and `iterate` has a default. What the rest of the program asks is
in `traits`, what the method requires in `needs`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from tacenda import schedules
from tacenda._types import Array
from tacenda.algorithms.needs import Needs, check_needs
from tacenda.algorithms.node import Node
from tacenda.algorithms.published import Published, Sites, Verdict, not_printed, prints_noise
from tacenda.algorithms.traits import Traits
from tacenda.graph.topology import Topology
from tacenda.privacy.accounting.final_model import Descent
from tacenda.privacy.settings import Privacy
from tacenda.questions.facts import Facts


class Algorithm(ABC):
    """Base of all algorithms: names, needs, and defaults for what most of them share.

    A subclass is a frozen dataclass of hyperparameters; docs/adding-an-algorithm.md writes one.

    Attributes
    ----------
    name : str
        The name in files and on the command line.
    title : str
        The name in tables.
    source : str
        Paper and equations.
    private : bool
        Whether it takes a privacy budget.
    default_output : str
        "last" or "average".
    default_rounds : int
        Rounds where none are given.
    needs : Needs
        What it requires of problem and graph.
    verdict : Verdict or None
        What is known about the noise that its paper publishes.
    batch_size : int or None
        Mean size of a sample, for those that can take one.

    Examples
    --------
    >>> import tacenda as tc
    >>> issubclass(tc.algorithms.CDPADMM, tc.algorithms.Algorithm)
    True
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    private: ClassVar[bool] = True
    default_output: ClassVar[str] = "last"
    default_rounds: ClassVar[int] = 100
    needs: ClassVar[Needs] = Needs()
    verdict: ClassVar[Verdict | None] = None
    batch_size: int | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        """What is derived from a published method is another one: no paper's word is inherited."""
        super().__init_subclass__(**options)
        for name in ("published_noise", "verdict"):
            if name not in vars(cls):
                setattr(cls, name, getattr(Algorithm, name))

    # ---- the method: these three make an algorithm
    @abstractmethod
    def init(self, node: Node, w: Array) -> Any:
        """State before round 1, from the public starting point w (b, d)."""

    @abstractmethod
    def step(self, state: Any, node: Node) -> Any:
        """One round: from the state before it to the state after it."""

    @abstractmethod
    def iterate(self, state: Any) -> Array:
        """This round's released model (b, d), the one that is averaged."""

    # ---- what is known about it
    @property
    def traits(self) -> Traits:
        """What the rest of the program asks; a subclass says what differs."""
        return Traits(
            sample="all" if self.batch_size is None else "poisson",
            noise_in_objective=self.needs.twice_differentiable_loss,
        )

    def check(self, facts: Facts, topology: Topology, rounds: int, private: bool) -> None:
        """Refuse a problem or graph that the algorithm does not support; the message names both."""
        check_needs(self, facts, topology, private)

    def advice(self, facts: Facts, topology: Topology, rounds: int) -> list[str]:
        """Warnings about settings that may not converge, one sentence each."""
        return []

    # ---- a run's course and its output
    def last(self, state: Any) -> Array:
        """Newest released model (b, d)."""
        return self.iterate(state)

    def averaging_weight(self, turn: int, rounds: int) -> float:
        """Weight of one round in the average of the iterates, 0 or above."""
        return 1.0

    def restart(self, state: Any, node: Node) -> Any:
        """State to continue with when the neighbours have changed: the newest model, else new."""
        return self.init(node, np.array(self.last(state)))

    def finished(self, state: Any) -> bool:
        """True if further rounds would change nothing.

        Asked only without privacy: when a private run ends must not depend on records.
        """
        return False

    def learn(self, state: Any, node: Node) -> Any:
        """Make what all rounds build on, at the beginning of a round whose state has none yet.

        Only for an algorithm that `learns` (`Traits`).
        """
        return state

    def has_learned(self, state: Any) -> bool:
        """True once the state holds what `learn` makes."""
        return True

    def released(self, state: Any) -> dict[str, Array]:
        """What a run leaves beside its models for post-processing, the same at every node."""
        return {}

    # ---- noise
    def relative_std(self, turn: int) -> float | None:
        """Noise of a round over a scale common to all rounds, where the method has its own rule.

        `step` must give the same number to `release`. None: the noise is in proportion to the
        sensitivity of what is released.
        """
        return None

    def spends(self, facts: Facts, degree: Array, rounds: int) -> Array | float:
        """What a run's releases cost together at noise scale 1, as mu^2.

        Their number, or (b, 1) where the algorithm shapes its noise by itself (`relative_std`).
        """
        return float(rounds * self.traits.steps_per_round)

    def noise_std(self, state: Any, facts: Facts, rounds: int) -> Array | None:
        """Standard deviation (d,) that the noise of all releases gives each output coordinate.

        It follows from released values and public facts alone, for the algorithm's own output
        rule; None where it is not known.
        """
        return None

    def descent(self, facts: Facts, rounds: int, output: str) -> Descent | None:
        """Steps of a descent that are known to bring two models no further apart.

        None where that is not known.
        """
        return None

    def largest_mean(self, facts: Facts, records: float, noise: float) -> float:
        """How large a coordinate of a message behind an exact mean may be.

        No node has more than `records`, and no noise is larger than `noise`, in units of how far
        one record moves the value. By default the bound is that of gradients in the same units.
        """
        return records + noise

    def published_noise(
        self, facts: Facts, sites: Sites, weights: Array, privacy: Privacy
    ) -> Published:
        """The paper's own noise for a run, errors included; never inherited.

        `privacy.noise` may hold the paper's own input instead of an epsilon (`Privacy.from_paper`).
        """
        raise not_printed(self)

    def published_form(self) -> Algorithm:
        """The same algorithm in the form that its paper gives."""
        if not prints_noise(type(self)) or self.traits.shared_noise is not None:
            raise not_printed(self)
        return self

    # ---- its hyperparameters
    def at_nodes(self, positions: Array) -> Algorithm:
        """The algorithm as the nodes at these positions (b,) run it.

        Where a hyperparameter is one for each node (`schedules.PerNode`), with the values of these
        nodes; else the same object.
        """
        own = {
            name: value.at_nodes(positions)
            for name, value in self._fields().items()
            if isinstance(value, (schedules.PerNode, Algorithm))
        }
        changed = {name: value for name, value in own.items() if value is not getattr(self, name)}
        return dataclasses.replace(self, **changed) if changed else self  # type: ignore[type-var]

    def node_kinds(self, n: int) -> Array:
        """Which of n nodes have equal hyperparameters: equal rows (n, k); k = 0 if all are alike.

        Values for another number of nodes are refused.
        """
        columns = [np.zeros((n, 0), np.int64)]
        for name, value in self._fields().items():
            if isinstance(value, Algorithm):
                columns.append(value.node_kinds(n))
            elif isinstance(value, schedules.PerNode):
                schedules.check_nodes(f"{type(self).__name__}.{name}", value, n)
                columns.append(value.kinds()[:, None])
        return np.concatenate(columns, axis=1)

    def _fields(self) -> dict[str, Any]:
        names = [f.name for f in dataclasses.fields(self)]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names}

    def to_plain(self) -> dict[str, Any]:
        """Name and hyperparameters as plain values, for files; `from_plain` reads them back."""
        values = {name: schedules.to_plain(value) for name, value in self._fields().items()}
        return {"name": self.name, **values}
