"""What a run would cost, from public facts alone: noise, true (epsilon, delta), messages and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.published import published_form
from tacenda.config.choice import Choice, choices
from tacenda.config.objects import facts_of, privacy_of, topology_of
from tacenda.config.sections import RunConfig
from tacenda.config.shape import Shape, public_shape
from tacenda.graph.topology import Topology
from tacenda.privacy.bounded import Bounded
from tacenda.privacy.door import Question
from tacenda.privacy.plan import round_weights
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.problem.facts import Facts
from tacenda.problem.queries import BlankQueries
from tacenda.runtime.budget import Calibration, blank_run, calibrate
from tacenda.runtime.simulate import check_privacy
from tacenda.runtime.transport import Tag

Array = NDArray[Any]
NO_RUN = "none: nothing was drawn"


@dataclass(frozen=True, eq=False)
class PublicRun:
    """The public half of a run: everything but the records."""

    config: RunConfig
    shape: Shape
    topology: Topology
    facts: Facts
    privacy: Privacy | None
    choices: list[Choice]


@dataclass(frozen=True, eq=False)
class Cost:
    """One algorithm's cost: what it would guarantee and what it would send."""

    choice: Choice
    statement: Statement | None
    messages: int
    bytes: int

    def to_plain(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain: dict[str, Any] = {
            "label": self.choice.label,
            "algorithm": self.choice.algorithm.to_plain(),
            "rounds": self.choice.rounds,
            "finish_mixing": self.choice.finish_mixing,
            "messages": self.messages,
            "bytes": self.bytes,
            "reasons": list(self.choice.reasons),
            "privacy": None,
        }
        if self.statement is not None:
            curve = self.statement.curve()
            values = self.statement.to_plain()
            del values["charges"]
            plain["privacy"] = {
                **values,
                "mu": curve.mu,
                "conditions": list(curve.conditions),
                "releases": self.statement.round_losses,
                "n_releases": len(self.statement.charges),
            }
        return plain


def public_run(config: RunConfig) -> PublicRun:
    """Check and build everything that does not need the records."""
    shape = public_shape(config)
    topology = topology_of(config.network, shape)
    privacy = privacy_of(config.privacy)
    facts = facts_of(config.problem, shape, config.privacy.adjacency, config.run.solver_tolerance)
    chosen = choices(config, facts, topology, privacy)
    for choice in chosen:
        private = check_privacy(privacy, choice.algorithm) is not None
        choice.algorithm.check(facts, topology, choice.rounds, private)
    return PublicRun(config, shape, topology, facts, privacy, chosen)


def cost(run: PublicRun, choice: Choice) -> Cost:
    """The cost of one of the run's algorithms."""
    as_published = run.privacy is not None and run.privacy.mode == "as-published"
    algorithm = published_form(choice.algorithm) if as_published else choice.algorithm
    messages = count_messages(algorithm, run.facts, run.topology, choice.rounds)
    messages += choice.finish_mixing * int(run.topology.degrees.sum())
    width = 4 if run.config.data.dtype == "float32" and not choice.algorithm.needs.smooth_loss else 8
    statement = None
    if run.privacy is not None:
        found = calibrate(algorithm, run.facts, run.topology, choice.rounds, run.privacy)
        statement = statement_of(run.privacy, found, run.topology.n)
    return Cost(choice, statement, messages, messages * run.facts.dim * width)


def statement_of(privacy: Privacy, found: Calibration, n: int) -> Statement:
    """What a run with this noise would guarantee."""
    spread = privacy.spread if isinstance(privacy.spread, str) else "as given"
    target = dict(privacy.noise) if privacy.noise else privacy.to_plain()["epsilon"]
    return Statement(
        found.reserved, n, privacy.delta, privacy.adjacency, privacy.mode, target, NO_RUN, spread, found.claimed, found.why
    )


class _Counter:
    """Neighbours that only count: every node sends its row to each of its neighbours."""

    def __init__(self, degrees: Array) -> None:
        self.messages, self._degrees = 0, degrees

    def neighbour_sum(self, shared: Array, tag: Tag, senders: Array | None = None) -> Array:
        sent = self._degrees if senders is None else self._degrees[senders[:, 0] > 0]
        self.messages += int(sent.sum())
        return np.zeros_like(shared)

    def mix(self, shared: Array, tag: Tag) -> Array:
        self.messages += int(self._degrees.sum())
        return shared


class _OpenGate:
    """A gate through which blank rows pass, so that a round can be played without records."""

    def release(self, value: Bounded, turn: int, call: int, noise: str, relative_std: float | None) -> Array:
        return np.zeros(value.shape)

    def release_argmin(self, question: Question, turn: int, call: int) -> Array:
        return np.zeros(question.shape)


def count_messages(algorithm: Algorithm, facts: Facts, topology: Topology, rounds: int) -> int:
    """Messages between nodes in all rounds, by playing them on blank rows."""
    counter, hub = _Counter(topology.degrees), np.arange(topology.n) == topology.hub()
    weights = round_weights("uniform", rounds)
    blank_run(algorithm, BlankQueries(facts), _OpenGate(), counter, topology.degrees, hub, topology.n, weights)
    return counter.messages
