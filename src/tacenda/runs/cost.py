"""What a run would cost, from public facts alone: noise, (epsilon, delta),
messages and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.graph.topology import Topology
from tacenda.planning.advice import noise_advice, uneven_sizes
from tacenda.privacy.lasting.files import check_place
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.questions.facts import Facts
from tacenda.runs.choice import Choice, check_algorithms, check_public, choices
from tacenda.runs.form import with_form
from tacenda.runs.objects import facts_of, privacy_of, topology_of
from tacenda.runs.sections import RunConfig
from tacenda.runs.shape import Shape, declared_shape, public_shape
from tacenda.runtime.account import NOTHING_DRAWN
from tacenda.runtime.places import OpenGate, row_forms
from tacenda.runtime.rehearsal import Silence, blank_host
from tacenda.runtime.spec import RunSpec
from tacenda.runtime.transport import Tag


@dataclass(frozen=True, eq=False)
class PublicRun:
    """The public half of a run: everything but the records."""

    config: RunConfig
    shape: Shape
    topology: Topology
    facts: Facts
    privacy: Privacy | None
    choices: list[Choice]

    def advice(self) -> list[str]:
        """What a run would warn about: a budget that is too large or too small."""
        if self.privacy is None:
            return []
        records = self.facts.records
        facts = self.facts
        if self.privacy.node_noise == "worst":
            facts = facts.for_the_smallest()
        coalitions = {
            None if choice.method.algorithm.traits.shared_noise is None else self.privacy.coalition
            for choice in self.choices
        }
        uneven = [
            sentence
            for coalition in sorted(coalitions, key=str)
            for sentence in uneven_sizes(facts, self.topology.labels, coalition)
        ]
        return [*self.privacy.advice(records), *noise_advice(self.facts, self.privacy), *uneven]

    def spec(self, choice: Choice) -> RunSpec:
        """One of its algorithms as a run; an error where its parts do not go together."""
        row_type = self.config.data.dtype or "float64"
        return RunSpec.of(choice.method, self.topology, self.facts, self.privacy, row_type=row_type)


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
            **self.choice.method.to_plain(),
            "messages": self.messages,
            "bytes": self.bytes,
            "reasons": list(self.choice.method.reasons),
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
                "releases": _summary(self.statement.round_losses),
                "n_releases": len(self.statement.charges),
            }
        return plain


def _summary(losses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Releases of one kind in a row as one entry: how many, the first and the last of them."""
    return [
        {"kind": kind, "count": sum(r["count"] for r in part), "first": part[0], "last": part[-1]}
        for kind, some in groupby(losses, key=lambda r: r["kind"])
        if (part := list(some))
    ]


def check_declared(config: RunConfig) -> None:
    """Refuse what declarations alone show to be wrong, and a file by its header: before any record
    is read."""
    check_public(config)
    privacy_of(config.privacy)
    check_algorithms(config)
    if config.run.ledger is not None:
        check_place(Path(config.run.ledger))
    shape = declared_shape(config)
    if shape is not None:
        topology_of(config.network, shape)
        facts_of(config.problem, shape, config.privacy, config.run.solver_tolerance)


def public_run(config: RunConfig) -> PublicRun:
    """Check and build everything that does not need the records."""
    config, _ = with_form(config)
    privacy = privacy_of(config.privacy)
    shape = public_shape(config)
    topology = topology_of(config.network, shape)
    facts = facts_of(config.problem, shape, config.privacy, config.run.solver_tolerance)
    run = PublicRun(
        config, shape, topology, facts, privacy, choices(config, facts, topology, privacy)
    )
    for choice in run.choices:
        run.spec(choice)
    return run


def cost(run: PublicRun, choice: Choice) -> Cost:
    """The cost of one of the run's algorithms."""
    spec = run.spec(choice)
    messages, size = count_messages(spec)
    found = spec.calibration
    statement = None if found is None else spec.statement(found.reserved, NOTHING_DRAWN)
    return Cost(choice, statement, messages, size)


class _Counter(Silence):
    """Neighbours that only count the messages of every place of a run."""

    def __init__(self, degrees: Array) -> None:
        self.messages: dict[Tag, int] = {}
        self._degrees, self._up = (
            degrees,
            len(degrees) - 1,
        )  # every node but the root, to its parent

    def neighbour_sum(self, shared: Array, tag: Tag, senders: Array | None = None) -> Array:
        sent = self._degrees if senders is None else self._degrees[senders[:, 0] > 0]
        self.messages[tag] = int(sent.sum())
        return np.zeros_like(shared)

    def mix(self, shared: Array, tag: Tag) -> Array:
        self.messages[tag] = int(self._degrees.sum())
        return shared

    def average(self, shared: Array, tag: Tag, groups: int = 1) -> Array:
        self._count_tree(tag, groups)
        return super().average(shared, tag, groups)

    def total(self, shared: Array, tag: Tag, groups: int = 1) -> Array:
        self._count_tree(tag, groups)
        return super().total(shared, tag, groups)

    def _count_tree(self, tag: Tag, groups: int) -> None:
        """Up in each group, down from the root of each and, where there are several, from that of
        the whole tree."""
        self.messages[tag] = self._up + 1 - groups
        for place in range(1, 2 if groups == 1 else groups + 2):
            self.messages[tag[0], tag[1] + place] = self._up


def count_messages(spec: RunSpec) -> tuple[int, int]:
    """Messages between nodes in all rounds, and the bytes of the rows in them, by playing the
    rounds on blank records; closing rounds included."""
    counter = _Counter(spec.topology.degrees)
    host = blank_host(spec, np.arange(spec.topology.n), OpenGate(spec.row_type), neighbours=counter)
    for turn in range(1, spec.rounds + 1):
        host.step(turn)
    send = counter.average if spec.method.ends_exactly else counter.mix
    for turn in range(spec.method.closing_rounds):
        send(np.zeros((spec.topology.n, 1)), (spec.rounds + 1 + turn, 0))
    forms, sent = row_forms(spec), counter.messages
    return sum(sent.values()), sum(count * forms[tag].nbytes for tag, count in sent.items())
