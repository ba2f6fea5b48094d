"""What is sent where is known before any record is read: places, lengths, types, messages and bytes
of a run equal those of the run itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import tacenda as tc
from support import run_spec
from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.node import Node
from tacenda.questions.facts import Facts
from tacenda.runs.cost import count_messages
from tacenda.runtime.network import Network
from tacenda.runtime.places import Form, row_forms


@dataclass(frozen=True)
class State:
    w: Array


@dataclass(frozen=True)
class Various(Algorithm):
    """Rows of three lengths: a moment in the first round, then gradients, mixed and averaged."""

    name: ClassVar[str] = "various"
    title: ClassVar[str] = "Various rows"
    source: ClassVar[str] = "a test"

    def init(self, node: Node, w: Array) -> State:
        return State(w)

    def step(self, s: State, node: Node) -> State:
        if node.turn == 1:
            node.release_mean(node.second_moment(), noise="gaussian")
        noisy = node.release_mean(node.gradient(s.w), noise="gaussian")
        return State(node.mix(s.w) - 0.1 * noisy)

    def iterate(self, s: State) -> Array:
        return s.w


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("blocks", [1, 3])
def test_forms_and_costs_are_those_of_the_run(
    monkeypatch: pytest.MonkeyPatch, dtype: str, blocks: int
) -> None:
    sent: dict[Any, Any] = {}

    sendable = Network._sendable

    def watched(self: Network, shared: Any, tag: Any) -> Any:
        sent[tag] = Form(shared.shape[1], shared.dtype)
        return sendable(self, shared, tag)

    monkeypatch.setattr(Network, "_sendable", watched)
    data = tc.data.make_classification(240, 5, difficulty=0.3, seed=0)
    shards = tc.data.partition.even(data.X.astype(dtype), data.y, 6, seed=0)
    problem = tc.Problem(shards, strength=0.01, classes=(0, 1))
    graph, privacy = tc.graph.Topology.of(tc.graph.ring(6)), tc.Privacy(epsilon=3.0)
    found = tc.simulate(
        problem, graph, Various(), 3, privacy, seed=0, finish_mixing=2, blocks=blocks
    )
    spec = run_spec(
        Various(),
        graph,
        Facts.of(problem, "replace-one", 1e-9),
        3,
        privacy,
        "last",
        finish_mixing=2,
        row_type=problem.dtype,
    ).checked()
    assert count_messages(spec) == (found.messages, found.bytes)
    forms, row = row_forms(spec), np.dtype(dtype)
    down = {(1, 2): (1, 1), (1, 6): (1, 5), (2, 3): (2, 2), (3, 3): (3, 2)}  # as they went up
    closing = {(4, 0): (-1, 0), (5, 0): (-1, 1)}
    assert {tag: forms[tag] for tag in sent if tag[0] > 0} == {
        tag: form for tag, form in sent.items() if tag[0] > 0
    }
    assert all(forms[tag] == sent[other] for tag, other in (down | closing).items())
    assert len(forms) == len(sent) + len(down)
    assert forms[1, 1] == Form(15, row) and forms[2, 2] == Form(5, row)


def test_every_group_has_a_place_and_a_form_of_its_own() -> None:
    """Members add up their rows, each group's root hands its sum down, then one root all sums."""
    from tacenda.graph.topology import Topology
    from tacenda.runtime.places import places_of
    from tacenda.runtime.spec import RunSpec
    from tacenda.terms.method import Method

    facts = Facts.declared(90, 3, 9, adjacency="replace-one")
    topology = Topology.of(tc.graph.complete(9))
    method = Method.of("treegd", rounds=2, groups=3)
    spec = RunSpec.of(method, topology, facts, tc.Privacy(1.0, coalition=1))
    found = places_of(spec)
    for turn in (1, 2):
        first = min(call for t, call in found.from_root if t == turn)
        tags = [(turn, first + k) for k in range(4)]
        assert [found.from_root[tag] for tag in tags] == [0, 1, 2, None]
        assert [found.forms[tag].width for tag in tags] == [3, 3, 3, 9]
        assert found.forms[turn, first - 1].width == 3  # the members' own rows
        assert tags[-1] in found.totals and not found.totals & set(tags[:-1])
    assert set(found.from_root) <= set(found.forms)
