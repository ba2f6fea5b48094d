"""The handshake: pinned certificates, proofs that cannot be passed on, contracts that differ, and states that are too old."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization

from node_stage import made_identity, small_contract
from tacenda.errors import StateError
from tacenda.node import wire
from tacenda.node.contract import PROTOCOL, Contract
from tacenda.node.handshake import ContractsDiffer, Desk, Refused
from tacenda.node.identity import Identity

NONCE = bytes(range(32))


@pytest.fixture(scope="module")
def desks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Desk]:
    """Three members who hold the same contract."""
    folder = tmp_path_factory.mktemp("desks")
    plain = small_contract(3).to_plain()
    people: dict[str, Identity] = {}
    for member in plain["members"]:
        mine = people[member["name"]] = made_identity(folder / member["name"], member["name"], folder / "ca")
        member |= {"fingerprint": mine.fingerprint, "signing_key": mine.signing_key}
    contract = Contract.build(plain)
    return {name: Desk(contract, mine) for name, mine in people.items()}


def _pem(desk: Desk) -> dict[str, list[bytes]]:
    return {"x509_pem_cert": [desk.identity.certificate.public_bytes(serialization.Encoding.PEM)]}


def test_two_members_meet(desks: dict[str, Desk]) -> None:
    a, b = desks["m0"], desks["m1"]
    assert b.caller(_pem(a)) == "m0"
    welcome = b.welcome(a.hello("m1", NONCE), "m0")
    assert a.check_welcome(welcome, "m1", NONCE).sender == "m1"


def test_a_caller_without_a_pinned_certificate(desks: dict[str, Desk], tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no client certificate"):
        desks["m1"].caller({})
    other = made_identity(tmp_path / "m0", "m0", tmp_path / "ca")
    with pytest.raises(Refused, match="not the one in the contract"):
        desks["m1"].caller(_pem(Desk(desks["m1"].contract, other)))


def test_a_proof_is_for_one_caller_one_nonce_and_one_key(desks: dict[str, Desk]) -> None:
    """A member in the middle (m2) cannot hand m1's proof on to m0, nor use an old one, nor its own."""
    a, b, middle = desks["m0"], desks["m1"], desks["m2"]
    relayed = b.welcome(middle.hello("m1", NONCE), "m2")
    with pytest.raises(Refused, match="does not hold the key"):
        a.check_welcome(relayed, "m1", NONCE)
    with pytest.raises(Refused, match="does not hold the key"):
        a.check_welcome(b.welcome(a.hello("m1", NONCE), "m0"), "m1", bytes(32))
    with pytest.raises(Refused, match="not the one in the contract"):
        a.check_welcome(middle.welcome(a.hello("m2", NONCE), "m0"), "m1", NONCE)


def test_different_contracts_name_the_field(desks: dict[str, Desk]) -> None:
    plain = desks["m0"].contract.to_plain()
    plain["privacy"]["epsilon"] = 50.0
    other = Desk(Contract.build(plain), desks["m0"].identity)
    with pytest.raises(ContractsDiffer, match=r"differ in: privacy\.epsilon"):
        desks["m1"].welcome(other.hello("m1", NONCE), "m0")
    with pytest.raises(ContractsDiffer, match="m1 refuses"):
        other.check_welcome(wire.Refusal("contracts of m1 and m0 differ in: privacy.epsilon"), "m1", NONCE)


def test_a_hello_for_somebody_else(desks: dict[str, Desk]) -> None:
    with pytest.raises(Refused, match="somebody else"):
        desks["m1"].welcome(desks["m0"].hello("m2", NONCE), "m0")
    with pytest.raises(Refused, match="somebody else"):
        desks["m1"].welcome(desks["m2"].hello("m1", NONCE), "m0")
    with pytest.raises(wire.BadFrame, match="something else than a hello"):
        desks["m1"].welcome(wire.Progress(1), "m0")


def test_a_state_made_anew_is_noticed_before_anything_is_sent(desks: dict[str, Desk]) -> None:
    """m0 has lost its folder: m1 knows the old one and refuses, and m0 itself refuses a caller who knows the old one."""
    contract = desks["m0"].contract
    notes = {"m0": "old"}
    b = Desk(contract, desks["m1"].identity, birth="b", recall=lambda peer: notes.get(peer, ""), remember=notes.__setitem__)
    a = Desk(contract, desks["m0"].identity, birth="new")
    with pytest.raises(Refused, match="going on would spend twice"):
        b.welcome(a.hello("m1", NONCE), "m0")
    with pytest.raises(StateError, match="knows another state"):
        a.welcome(b.hello("m0", NONCE), "m1")
    with pytest.raises(StateError, match="m1 refuses"):
        a.check_welcome(wire.Refusal("state of m0 is not the one"), "m1", NONCE)
    b.epoch = 1  # after a change of membership it may come back, with all it had reserved counted as spent
    b.welcome(a.hello("m1", NONCE), "m0")
    assert notes == {"m0": "new"}


def test_a_lost_or_old_state_is_noticed_on_both_sides(desks: dict[str, Desk]) -> None:
    """m1 has finished round 7 with m0's messages; an m0 that knows only round 5 has lost its state."""
    a, b = Desk(desks["m0"].contract, desks["m0"].identity, done=5), Desk(desks["m1"].contract, desks["m1"].identity, done=7)
    with pytest.raises(Refused, match="older than what it has sent"):
        b.welcome(a.hello("m1", NONCE), "m0")
    a_sees = Desk(desks["m0"].contract, desks["m0"].identity, done=5)
    b_was = Desk(desks["m1"].contract, desks["m1"].identity, done=6)
    welcome = b_was.welcome(a.hello("m1", NONCE), "m0")
    assert a_sees.check_welcome(welcome, "m1", NONCE).done == 6
    a_sees.done = 3
    with pytest.raises(StateError, match="spend twice"):
        a_sees.check_welcome(welcome, "m1", NONCE)
    a_sees.started = True  # with a history, one peer's word is not enough to stop the node
    with pytest.raises(Refused, match="cannot have reached"):
        a_sees.check_welcome(welcome, "m1", NONCE)


@pytest.mark.parametrize("spoken", [0, PROTOCOL - 1, PROTOCOL + 1])
def test_another_version_is_refused_in_words(desks: dict[str, Desk], spoken: int) -> None:
    """Also one whose hello has fields that this version does not know."""
    a, b = desks["m0"], desks["m1"]
    hello = msgspec.structs.replace(a.hello("m1", NONCE), protocol=spoken)
    strange = msgspec.msgpack.encode({**msgspec.msgpack.decode(wire.encode(hello)), "colour": "blue"})
    for data in (wire.encode(hello), strange):
        with pytest.raises(Refused, match=rf"protocol {spoken} is spoken by m0 and {PROTOCOL} by m1; install the same version"):
            b.read(data, 1 << 16, "m0")
    assert b.read(wire.encode(a.hello("m1", NONCE)), 1 << 16, "m0") == a.hello("m1", NONCE)


def test_a_first_frame_that_is_no_hello_at_all(desks: dict[str, Desk]) -> None:
    for data in (b"", b"\xff" * 40, wire.encode(wire.Progress(1))[:-1], b"\0" * 101):
        with pytest.raises(wire.BadFrame):
            desks["m1"].read(data, 100, "m0")
