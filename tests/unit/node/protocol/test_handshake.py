"""The handshake: pinned certificates, proofs that cannot be passed on, contracts that differ."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization

import tacenda
from node_stage import handshake_of, made_identity, small_contract
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import Identity, check_name
from tacenda_node.identity.contract import Contract
from tacenda_node.protocol import frames
from tacenda_node.protocol.handshake import ContractsDiffer, Handshake, Refused, asks_for_fields
from tacenda_node.state.database import NodeState
from tacenda_node.wire.reasons import reason_of

NONCE = bytes(range(32))


@pytest.fixture(scope="module")
def handshakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Handshake]]:
    """Three members who hold the same contract."""
    folder = tmp_path_factory.mktemp("handshakes")
    plain = small_contract(3).to_plain()
    people: dict[str, Identity] = {}
    for member in plain["members"]:
        mine = people[member["name"]] = made_identity(
            folder / member["name"], member["name"], folder / "ca"
        )
        member |= {"fingerprint": mine.fingerprint, "signing_key": mine.signing_key}
    contract = Contract.build(plain)
    states = {name: NodeState(folder / f"{name}-state") for name in people}
    yield {name: handshake_of(contract, mine, states[name]) for name, mine in people.items()}
    for state in states.values():
        state.close()


def _pem(handshake: Handshake) -> dict[str, list[bytes]]:
    return {
        "x509_pem_cert": [handshake.identity.certificate.public_bytes(serialization.Encoding.PEM)]
    }


def test_two_members_meet(handshakes: dict[str, Handshake]) -> None:
    a, b = handshakes["m0"], handshakes["m1"]
    assert b.caller(_pem(a)) == "m0"
    welcome = b.welcome(a.hello("m1", NONCE), "m0")
    assert a.check_welcome(welcome, "m1", NONCE).sender == "m1"


def test_a_caller_without_a_pinned_certificate(
    handshakes: dict[str, Handshake], tmp_path: Path
) -> None:
    with pytest.raises(Refused, match="no client certificate"):
        handshakes["m1"].caller({})
    other = made_identity(tmp_path / "m0", "m0", tmp_path / "ca")
    with pytest.raises(Refused, match="not the one in the contract"):
        handshakes["m1"].caller(_pem(replace(handshakes["m1"], identity=other)))


def test_a_proof_is_for_one_caller_one_nonce_and_one_key(handshakes: dict[str, Handshake]) -> None:
    """A member in the middle (m2) cannot hand m1's proof on to m0,
    nor use an old one, nor its own."""
    a, b, middle = handshakes["m0"], handshakes["m1"], handshakes["m2"]
    relayed = b.welcome(middle.hello("m1", NONCE), "m2")
    with pytest.raises(Refused, match="does not hold the key"):
        a.check_welcome(relayed, "m1", NONCE)
    with pytest.raises(Refused, match="does not hold the key"):
        a.check_welcome(b.welcome(a.hello("m1", NONCE), "m0"), "m1", bytes(32))
    with pytest.raises(Refused, match="not the one in the contract"):
        a.check_welcome(middle.welcome(a.hello("m2", NONCE), "m0"), "m1", NONCE)


def test_different_contracts_name_the_field(handshakes: dict[str, Handshake]) -> None:
    plain = handshakes["m0"].contract.to_plain()
    plain["privacy"]["epsilon"] = 50.0
    other = replace(handshakes["m0"], contract=Contract.build(plain))
    with pytest.raises(ContractsDiffer, match=r"differ in: privacy\.epsilon"):
        handshakes["m1"].welcome(other.hello("m1", NONCE, fields=True), "m0")
    with pytest.raises(ContractsDiffer) as asked:
        handshakes["m1"].welcome(other.hello("m1", NONCE), "m0")
    assert asks_for_fields(asked.value)
    with pytest.raises(ContractsDiffer, match="m1 refuses"):
        other.check_welcome(
            frames.Refusal("contracts of m1 and m0 differ in: privacy.epsilon"), "m1", NONCE
        )


def test_a_peers_words_are_fit_for_a_terminal(handshakes: dict[str, Handshake]) -> None:
    """Escape sequences and long texts, in a refusal, in a contract's field names and in the
    transport's own words."""
    evil = "state \x1b[2J\x07\u202e\r\nroot#" + "a" * 1900
    with pytest.raises(Refused, match="m1 refuses") as refused:
        handshakes["m0"].check_welcome(frames.Refusal(evil), "m1", NONCE)
    fields = {
        **handshakes["m0"].contract.field_hashes(),
        **{f"\x1b]0;{k}\x07" + "b" * 500: "0" * 16 for k in range(9)},
    }
    hello = frames.replaced(handshakes["m0"].hello("m1", NONCE), contract="0" * 64, fields=fields)
    with pytest.raises(ContractsDiffer) as differ:
        handshakes["m1"].welcome(hello, "m0")
    error = reason_of(Refused(evil))
    for words in (str(refused.value), str(differ.value), error):
        assert words.isprintable()
        assert len(words) < 1000


def test_both_tell_which_build_they_are(handshakes: dict[str, Handshake]) -> None:
    hello = handshakes["m0"].hello("m1", NONCE)
    welcome = handshakes["m1"].welcome(hello, "m0")
    assert hello.version == welcome.version == tacenda.__version__
    for wrong in ("\x1b[2J", "1" * 41):
        spoken = frames.encode(frames.replaced(hello, version=wrong))
        with pytest.raises(frames.BadFrame):
            frames.decode(spoken, 1 << 20)


def test_a_hello_for_somebody_else(handshakes: dict[str, Handshake]) -> None:
    with pytest.raises(Refused, match="somebody else"):
        handshakes["m1"].welcome(handshakes["m0"].hello("m2", NONCE), "m0")
    with pytest.raises(Refused, match="somebody else"):
        handshakes["m1"].welcome(handshakes["m2"].hello("m1", NONCE), "m0")
    with pytest.raises(frames.BadFrame, match="something else than a hello"):
        handshakes["m1"].welcome(frames.Progress(1), "m0")


@pytest.mark.parametrize("spoken", [0, frames.PROTOCOL - 1, frames.PROTOCOL + 1])
def test_another_version_is_refused_in_words(handshakes: dict[str, Handshake], spoken: int) -> None:
    """Also one whose hello has fields that this version does not know; the caller reads the same
    words."""
    a, b = handshakes["m0"], handshakes["m1"]
    hello = msgspec.structs.replace(a.hello("m1", NONCE), protocol=spoken)
    strange = msgspec.msgpack.encode(
        {**msgspec.msgpack.decode(frames.encode(hello)), "colour": "blue"}
    )
    older = "m0" if spoken < frames.PROTOCOL else "m1"
    for data in (frames.encode(hello), strange):
        with pytest.raises(
            Refused,
            match=rf"protocol {spoken} is spoken by m0 and {frames.PROTOCOL} by m1; "
            f"install a newer version of Tacenda at {older}",
        ) as refused:
            b.read(data, 1 << 16, "m0")
        with pytest.raises(Refused, match=f"m1 refuses: protocol {spoken} is spoken by m0"):
            a.check_welcome(frames.Refusal(str(refused.value)), "m1", NONCE)
    mine = a.hello("m1", NONCE)
    assert b.read(frames.encode(mine), 1 << 16, "m0") == mine


def test_before_all_have_signed_nothing_is_said_of_any_state(
    handshakes: dict[str, Handshake],
) -> None:
    a, b = handshakes["m0"], handshakes["m2"]
    early = replace(a, ready=False, done=3, started=True)
    hello = early.hello("m2", NONCE)
    assert hello.waiting and (hello.done, hello.started, hello.me.state_id) == (0, False, "")
    welcome = b.welcome(hello, "m0")
    assert not welcome.waiting and welcome.me.state_id == ""
    assert early.check_welcome(welcome, "m2", NONCE, hello).waiting
    late = replace(b, ready=False).welcome(a.hello("m2", NONCE), "m0")
    assert a.check_welcome(late, "m2", NONCE).waiting


def test_a_name_as_long_as_the_contract_allows_travels(handshakes: dict[str, Handshake]) -> None:
    name = ".".join(["x" * 49, "y" * 50])
    hello = frames.replaced(handshakes["m0"].hello("m1", NONCE), sender=check_name(name))
    assert frames.decode(frames.encode(hello), 1 << 16) == hello


def test_clocks_that_differ_are_told(handshakes: dict[str, Handshake]) -> None:
    a, b = handshakes["m0"], handshakes["m1"]
    hello = a.hello("m1", NONCE)
    b.welcome(hello, "m0")
    assert b.clock_trouble("m0") == ""
    b.welcome(frames.replaced(hello, at=hello.at - 3 * 86400), "m0")
    assert "the clock of m0 is 3 days behind this machine's" in b.clock_trouble("m0")
    b.welcome(frames.replaced(hello, at=hello.at + 7230), "m0")  # slow machines
    assert "2 h ahead of" in b.clock_trouble("m0")
    b.clocks.clear()


def test_three_hundred_members_shake_hands(tmp_path: Path) -> None:
    """A hello does not grow with the members; where contracts differ the fields are still named,
    and all signatures fit into a frame."""
    names = [f"an-organisation-with-quite-a-long-name-{k:03d}" for k in range(300)]
    plain = small_contract(3).to_plain()
    plain["edges"] = contract_files.named_edges("ring", names)
    first = plain["members"][0]
    plain["members"] = [
        {**first, "name": name, "fingerprint": f"{k:064x}", "signing_key": _public(k)}
        for k, name in enumerate(names)
    ]
    people = [made_identity(tmp_path / name, name, tmp_path / "ca") for name in names[:2]]
    for member, mine in zip(plain["members"], people, strict=False):
        member |= {"fingerprint": mine.fingerprint, "signing_key": mine.signing_key}
    contract = Contract.build(plain)
    limit = frames.frame_limit(32, len(names))
    states = [NodeState(tmp_path / f"state-{k}") for k in range(2)]
    try:
        a, b = (
            handshake_of(contract, mine, state) for mine, state in zip(people, states, strict=True)
        )
        hello = frames.encode(a.hello(names[1], NONCE))
        assert len(hello) < 4096
        welcome = b.welcome(b.read(hello, limit, names[0]), names[0])
        assert a.check_welcome(frames.decode(frames.encode(welcome), limit), names[1], NONCE)
        plain["members"][250]["size"] = 61
        a = replace(a, contract=Contract.build(plain))
        with pytest.raises(ContractsDiffer) as asked:
            b.welcome(a.hello(names[1], NONCE), names[0])
        assert asks_for_fields(asked.value)
        full = frames.encode(a.hello(names[1], NONCE, fields=True))
        with pytest.raises(ContractsDiffer, match=rf"members\.{names[250]}\.size"):
            b.welcome(b.read(full, limit, names[0]), names[0])
        everybody = dict.fromkeys(names, people[0].sign_text(b""))
        sent = [
            frames.Signatures("0" * 64, everybody),
            frames.Membership(
                1, [], {name: frames.SignedStop(1, text) for name, text in everybody.items()}
            ),
        ]
        for frame in sent:
            assert frames.decode(frames.encode(frame), limit) == frame
    finally:
        for state in states:
            state.close()


def _public(k: int) -> str:
    return base64.b64encode(k.to_bytes(32, "big")).decode()


def test_a_first_frame_that_is_no_hello_at_all(handshakes: dict[str, Handshake]) -> None:
    for data in (b"", b"\xff" * 40, frames.encode(frames.Progress(1))[:-1], b"\0" * 101):
        with pytest.raises(frames.BadFrame):
            handshakes["m1"].read(data, 100, "m0")
