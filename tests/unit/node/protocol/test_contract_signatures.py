"""Signatures of the contract go round on any connected graph, survive a restart, and only true ones
count."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from node_stage import signed_contract, small_contract
from signed_rows_stage import Quiet
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract
from tacenda_node.identity.contract_files import signed_text
from tacenda_node.protocol import frames
from tacenda_node.protocol.contract_signatures import ContractSignatures, SignatureBook
from tacenda_node.state.database import NodeState
from tacenda_node.wire.link import Link
from tacenda_node.wire.mailbox import Mailbox

N = 6


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Contract, dict[str, Identity]]:
    return signed_contract(small_contract(N), tmp_path_factory.mktemp("keys"))


@pytest.fixture
def states(tmp_path: Path) -> Iterator[list[NodeState]]:
    found = [NodeState(tmp_path / str(k)) for k in range(N)]
    yield found
    for state in found:
        state.close()


def _own(contract: Contract, people: dict[str, Identity], name: str) -> dict[str, str]:
    return {name: people[name].sign_text(signed_text(contract))}


@pytest.mark.parametrize("seed", range(4))
def test_everybody_ends_with_all_and_then_all_are_silent(
    made: tuple[Contract, dict[str, Identity]], states: list[NodeState], seed: int
) -> None:
    """Members of a random tree start with their own signature; frames arrive in any order."""
    contract, people = made
    draw = random.Random(seed)
    edges = [(draw.randrange(k), k) for k in range(1, N)]
    around = {k: [a + b - k for a, b in edges if k in (a, b)] for k in range(N)}
    held = [
        ContractSignatures(contract, _own(contract, people, name), state)
        for name, state in zip(contract.names, states, strict=True)
    ]
    assert held[0].missing == contract.names[1:]
    sent = [(k, other) for k in range(N) for other in around[k]]
    count = 0
    while sent:
        sender, receiver = sent.pop(draw.randrange(len(sent)))
        frame, count = held[sender].frame(), count + 1
        fresh = held[receiver].take(contract.names[sender], frame)
        if held[receiver].knows_more(frame):
            sent.append((receiver, sender))
        if fresh:
            sent += [(receiver, other) for other in around[receiver]]
    assert all(one.complete for one in held)
    assert {len(one.frame().signatures) for one in held} == {N}
    assert count <= 4 * N * len(edges)
    again = ContractSignatures(contract, {}, states[0])  # after a restart, from the state alone
    assert again.frame() == held[0].frame()


def test_only_true_signatures_of_members_are_kept(
    made: tuple[Contract, dict[str, Identity]], states: list[NodeState]
) -> None:
    contract, people = made
    held = ContractSignatures(contract, {}, states[0])
    true = _own(contract, people, "m1")
    for wrong, words in (
        ({"m2": true["m1"]}, "not m2's"),
        ({**true, "stranger": true["m1"]}, "by somebody who is not in it"),
        ({"m1": people["m1"].sign_text(b"another text")}, "not m1's"),
    ):
        with pytest.raises(frames.BadFrame, match=words):
            held.take("m1", frames.Signatures(held.hash, wrong))
    assert held.missing == contract.names
    assert "m1 says: it has signed" not in held.sentence()
    trouble = {"m3": "it has signed another text\x1b", "stranger": "x"}
    assert held.take("m1", frames.Signatures(held.hash, true, trouble))
    assert "m3 (m1 says: it has signed another text?)" in held.sentence()
    assert "stranger" not in held.sentence()


def test_before_all_have_signed_a_link_takes_nothing_else(
    made: tuple[Contract, dict[str, Identity]], states: list[NodeState]
) -> None:
    contract, people = made
    held = ContractSignatures(contract, {}, states[0])
    passed_on: deque[str] = deque()
    link = Link(
        "m1",
        Mailbox(["m1"], {}, 1e9),
        None,  # type: ignore[arg-type]
        1 << 20,
        Quiet(),
        lambda peer, frame: None,
        lambda view: [],
        book=SignatureBook(held, Quiet()),
        on_signatures=passed_on.append,
        waiting=True,
    )
    assert link.take(frames.Signatures(held.hash, _own(contract, people, "m1")))
    assert passed_on == deque([held.hash])
    assert not link.take(frames.Signatures("0" * 64, {}))  # of a text that is not here
    for frame in (
        frames.Progress(1),
        frames.Membership(1, [], {"m1": frames.SignedStop(1, "A" * 86)}),
    ):
        with pytest.raises(frames.BadFrame, match="before all have signed the contract"):
            link.take(frame)
