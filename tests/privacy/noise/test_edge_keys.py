"""The key of an edge is agreed once: whatever is lost on the way and whoever starts again, it
stays, and with it the noise."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kept_keys import marked
from node_stage import handshake_of, made_identity, small_contract
from tacenda.errors import StateError
from tacenda.graph.coalition import edge_streams
from tacenda.privacy.noise.key_chain import KeyChain
from tacenda.privacy.noise.keyed import KeyedNoise
from tacenda_node.identity.contract import Contract
from tacenda_node.identity.edge_keys import EdgeKeys
from tacenda_node.peer.run_plan import topology_of
from tacenda_node.protocol import frames

TERMS = {"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True, "coalition": 1}
NAMES = ("m0", "m1", "m2")


def key_of(edges: EdgeKeys, peer: str) -> bytes:
    """The key of the first place of an edge."""
    return edges.chain(peer).key((0, 0, 0))


class Member:
    """One member with its state on disk; `restart` closes everything and opens it again,
    as a new process would."""

    def __init__(self, contract: Contract, name: str, folder: Path, identity: Any) -> None:
        self.contract, self.name, self.folder, self.identity = contract, name, folder, identity
        self._open()

    def _open(self) -> None:
        self.state = marked(self.folder)
        self.edges = EdgeKeys(self.contract, self.name, self.state)
        self.handshake = handshake_of(self.contract, self.identity, self.state, edges=self.edges)

    def restart(self) -> None:
        self.state.close()
        self._open()

    def noise(self, turn: int = 1, call: int = 0) -> np.ndarray:
        """(1, 4) the edges' part of a release."""
        source = KeyedNoise(KeyChain.begin(bytes(32)), "own", floating_point=True)
        topology = topology_of(self.contract)
        ends = [[topology.labels[i] for i in pair] for pair in topology.edges]
        source.share(
            lambda k: self.edges.chain(next(str(x) for x in ends[k] if x != self.name)),
            self.contract.run_id(),
        )
        return source.shared(
            edge_streams(topology, np.array([topology.position(self.name)])), turn, call, 4
        )


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("people")
    return {name: made_identity(home / name, name, home / "ca") for name in NAMES}


def federation(folder: Path, people: dict[str, Any], **changes: Any) -> dict[str, Member]:
    terms = {"algorithm": {"name": "gossipgd", "correlation": 3.0}, "privacy": TERMS, **changes}
    plain = small_contract(3, **terms).to_plain()
    for member in plain["members"]:
        mine = people[member["name"]]
        member |= {"fingerprint": mine.fingerprint, "signing_key": mine.signing_key}
    contract = Contract.build(plain)
    return {name: Member(contract, name, folder / name, people[name]) for name in NAMES}


def sent(frame: frames.Frame) -> frames.Frame:
    return frames.decode(frames.encode(frame), 1 << 20)


def meet(caller: Member, listener: Member, until: int = 3) -> None:
    """The handshake over real frames, of which only the first `until` arrive."""
    nonce = random.randbytes(32)
    hello = sent(caller.handshake.hello(listener.name, nonce))
    if until < 1:
        return
    welcome = sent(listener.handshake.welcome(hello, caller.name))
    if until < 2:
        return
    caller.handshake.check_welcome(welcome, listener.name, nonce)
    words = caller.handshake.confirmation(listener.name)
    if until < 3 or words is None:
        return
    listener.handshake.confirmed(sent(words), caller.name)


def known(member: Member, peer: str) -> bytes | None:
    return None if member.edges.other_half(peer) == b"" else key_of(member.edges, peer)


@pytest.mark.parametrize("seed", range(8))
def test_a_key_never_changes_whatever_is_lost_and_whoever_restarts(
    seed: int, tmp_path: Path, people: dict[str, Any]
) -> None:
    """Forty steps: handshakes in either direction, broken off anywhere, and restarts of either end
    between any two of them."""
    choice = random.Random(seed)
    members = federation(tmp_path, people)
    a, b = members["m0"], members["m1"]
    first: dict[str, bytes] = {}
    for _ in range(40):
        what = choice.randrange(4)
        if what == 0:
            choice.choice((a, b)).restart()
        else:
            caller, listener = choice.sample((a, b), 2)
            meet(caller, listener, until=choice.randrange(4))
        for me, peer in ((a, "m1"), (b, "m0")):
            key = known(me, peer)
            if me.name in first:
                assert key == first[me.name], "a key that was there is there for ever"
            elif key is not None:
                first[me.name] = key
    meet(a, b)
    assert known(a, "m1") == known(b, "m0") == first["m0"]
    assert a.edges.missing(["m1"]) == b.edges.missing(["m0"]) == []
    for member in members.values():
        member.state.close()


def test_the_noise_is_the_same_after_a_restart_and_cancels_over_the_network(
    tmp_path: Path, people: dict[str, Any]
) -> None:
    members = federation(tmp_path, people)
    m0, m1, m2 = members.values()
    for caller, listener in ((m0, m1), (m0, m2), (m1, m2)):
        meet(caller, listener)
    before = {name: member.noise() for name, member in members.items()}
    np.testing.assert_allclose(sum(before.values()), 0, atol=1e-12)
    for member in members.values():
        member.restart()
    for caller, listener in ((m1, m0), (m2, m0), (m2, m1)):  # the other way round, this time
        meet(caller, listener)
    for name, member in members.items():
        np.testing.assert_array_equal(member.noise(), before[name])
        for turn, call in ((2, 0), (1, 1)):
            assert not np.any(np.isclose(member.noise(turn, call), before[name], rtol=0, atol=1e-9))
        member.state.close()


def test_every_edge_and_every_run_has_its_own_key(tmp_path: Path, people: dict[str, Any]) -> None:
    keys = []
    for k, changes in enumerate(({}, {}, {"rounds": 6}, {"privacy": TERMS | {"delta": 1e-6}})):
        members = federation(tmp_path / str(k), people, **changes)
        for caller, listener in (("m0", "m1"), ("m2", "m0"), ("m1", "m2")):
            meet(members[caller], members[listener])
            keys.append(key_of(members[caller].edges, listener))
            assert key_of(members[listener].edges, caller) == keys[-1]
        for member in members.values():
            member.state.close()
    assert len(set(keys)) == 12
    assert all(len(key) == 32 and any(key) for key in keys)


def test_the_same_halves_under_another_run_give_another_key(
    tmp_path: Path, people: dict[str, Any]
) -> None:
    """The caller's private half is copied into another run and meets the same answer: what comes
    out is another secret."""
    here, keys = federation(tmp_path / "one", people), []
    answer = here["m1"].handshake.welcome(sent(here["m0"].handshake.hello("m1", bytes(32))), "m0")
    agreed = key_of(here["m1"].edges, "m0")
    for member in here.values():
        member.state.close()
    for k, changes in enumerate(({}, {}, {"rounds": 6})):
        shutil.copytree(tmp_path / "one", tmp_path / f"copy{k}")
        members = federation(tmp_path / f"copy{k}", people, **changes)
        members["m0"].edges.agree("m1", answer.half)
        keys.append(key_of(members["m0"].edges, "m1"))
        for member in members.values():
            member.state.close()
    assert keys[0] == keys[1] == agreed
    assert keys[2] != agreed


def test_a_half_or_a_key_that_is_damaged_is_not_replaced(tmp_path: Path, people: Any) -> None:
    """A new one would be another key: the member must put its folder back."""
    contract = small_contract(3, privacy=TERMS)
    state = marked(tmp_path / "state")
    edges = EdgeKeys(contract, "m0", state)
    with pytest.raises(StateError, match="no key yet"):
        edges.chain("m1")
    assert edges.other_half("m1") == b"" and edges.missing(["m1", "m2"]) == ["m1", "m2"]
    state.keep_secrets({"private m1": b"short"})
    with pytest.raises(StateError, match="half of the edge's key for m1 .* is damaged"):
        edges.half("m1")
    state.put({"edge m2": b"short"})
    for ask in (edges.chain, edges.other_half, edges.check):
        with pytest.raises(StateError, match="key of the edge to m2 .* is damaged"):
            ask("m2")
    state.close()


def test_what_a_peer_shows_must_fit_the_key(tmp_path: Path, people: Any) -> None:
    contract = small_contract(3, privacy=TERMS)
    sides = {}
    for name, other in (("m0", "m1"), ("m1", "m0")):
        state = marked(tmp_path / name)
        sides[name] = (EdgeKeys(contract, name, state), other, state)
    (a, _, _), (b, _, _) = sides["m0"], sides["m1"]
    half = a.half("m1")
    b.agree("m0", half)
    a.agree("m1", b.half("m0"))
    assert key_of(a, "m1") == key_of(b, "m0") and a.missing(["m1"]) == ["m1"]
    with pytest.raises(frames.BadFrame, match="check value of another edge key"):
        a.confirm("m1", bytes(16))
    assert a.missing(["m1"]) == ["m1"]
    a.confirm("m1", b.check("m0"))
    assert a.missing(["m1"]) == [] and b.missing(["m0"]) == ["m0"]
    with pytest.raises(frames.BadFrame, match="another half of the edge's key than before"):
        a.agree("m1", b"x" + a.other_half("m1")[1:])
    again = EdgeKeys(contract, "m0", sides["m0"][2])
    assert key_of(again, "m1") == key_of(a, "m1") and again.missing(["m1"]) == []
    assert again.half("m1") == half and again.other_half("m1") == b.half("m0")
    for _, _, state in sides.values():
        state.close()
