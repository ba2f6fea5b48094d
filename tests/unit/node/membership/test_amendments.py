"""Amendments: what they may change, who must sign, and when one is in force."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from node_stage import handshake_of, made_identity, signed_contract, small_contract
from signed_rows_stage import NONCE, Quiet
from tacenda.errors import InputError, NetworkError
from tacenda_node.commands import main
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract
from tacenda_node.membership.amendments import (
    Amendments,
    amended,
    amendment_path,
    check_amendment,
    next_run,
)
from tacenda_node.membership.decisions import check_remaining
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.protocol import frames
from tacenda_node.protocol.handshake import ContractsDiffer, Refused
from tacenda_node.state.database import NodeState

Made = tuple[Contract, dict[str, Identity]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A ring of four with all keys, each member's own authority."""
    return signed_contract(small_contract(4), tmp_path_factory.mktemp("keys"))


@pytest.fixture
def state(tmp_path: Path) -> Iterator[NodeState]:
    found = NodeState(tmp_path / "state")
    yield found
    found.close()


def _card(who: Identity, **changes: Any) -> dict[str, Any]:
    return {**contract_files.card_of(who, "there:7443", 80), **changes}


def test_an_amendment_names_what_it_follows_and_keeps_the_run(made: Made) -> None:
    contract, people = made
    first = amended(contract, [_card(people["m2"])], [])
    assert (first.amendment, first.follows) == (1, contract.hash())
    assert first.member("m2").address == "there:7443"
    assert first.member("m2").size == contract.member("m2").size
    assert first.run_id() == contract.run_id() != contract.hash() != first.hash()
    second = amended(first, [], ["m3"])
    assert second.signatories == ["m0", "m1", "m2"]
    assert (second.amendment, second.run_id()) == (2, contract.run_id())
    third = amended(second, [], ["m1"])
    assert third.left == ["m3", "m1"]
    for wrong in (second, third):
        with pytest.raises(InputError, match="contract field follows"):
            check_amendment(contract, wrong)


def test_an_amendment_changes_neither_terms_nor_signing_keys(made: Made, tmp_path: Path) -> None:
    contract, people = made
    good = amended(contract, [_card(people["m2"])], ["m3"])
    plain = good.to_plain()
    plain["privacy"]["epsilon"] = 50.0
    with pytest.raises(InputError, match=r"contract field privacy\.epsilon: an amendment may"):
        check_amendment(contract, Contract.build(plain))
    other = made_identity(tmp_path / "m2", "m2", tmp_path / "ca")
    with pytest.raises(InputError, match=r"members\.m2\.signing_key"):
        amended(contract, [_card(other)], [])
    back = {**good.to_plain(), "amendment": 2, "follows": good.hash()}
    del back["left"]
    with pytest.raises(InputError, match="a member that has left a run cannot return"):
        check_amendment(good, Contract.build(back))
    with pytest.raises(InputError, match="only an amendment may have it"):
        Contract.build({**contract.to_plain(), "left": ["m3"]})
    with pytest.raises(InputError, match="is not a member"):
        amended(contract, [], ["nobody"])


def _written(text: Contract, path: Path, signers: list[Identity]) -> None:
    contract_files.write(text, path)
    for who in signers:
        contract_files.sign(path, who)


def test_it_is_in_force_once_all_who_stay_have_signed(
    made: Made, tmp_path: Path, state: NodeState
) -> None:
    """Its own signature first, then those that neighbours show; and again after a restart, without
    the file."""
    contract, people = made
    path = tmp_path / "contract.toml"
    _written(contract, path, [people["m0"]])
    next_text = amended(contract, [], ["m3"])
    beside = amendment_path(path, 1)
    _written(next_text, beside, [])
    assert Amendments(path, contract, "m0", state, Quiet()).book.pending is None
    contract_files.sign(beside, people["m0"])
    found = Amendments(path, contract, "m0", state, Quiet())
    assert found.book.pending is not None
    assert not found.adopted()
    text = contract_files.signed_text(next_text)
    for name in ("m1", "m2"):
        assert found.current == contract
        frame = frames.Signatures(next_text.hash(), {name: people[name].sign_text(text)})
        assert found.book.pending.take(name, frame)
    forged = frames.Signatures(next_text.hash(), {"m3": people["m1"].sign_text(text)})
    with pytest.raises(frames.BadFrame, match="not m3's"):
        found.book.pending.take("m1", forged)
    assert found.adopted()
    assert (found.current, found.left, found.former) == (next_text, {"m3"}, [contract])
    beside.unlink()
    again = Amendments(path, contract, "m0", state, Quiet())
    assert (again.current, again.former) == (next_text, [contract])
    assert again.book.current.complete
    assert again.book.past == found.book.past == {contract.hash()}


def test_members_before_and_after_an_amendment_meet(
    made: Made, tmp_path: Path, state: NodeState
) -> None:
    """m1 holds the amendment and m0 does not yet; a text of no relation is refused."""
    contract, people = made
    text = amended(contract, [], ["m3"])
    other = NodeState(tmp_path / "other")
    try:
        a = handshake_of(contract, people["m0"], state)
        b = handshake_of(text, people["m1"], other, former=[contract])
        assert a.check_welcome(b.welcome(a.hello("m1", NONCE), "m0"), "m1", NONCE)
        assert b.check_welcome(a.welcome(b.hello("m0", NONCE), "m1"), "m0", NONCE)
        b.former = []  # the text alone says what it follows
        assert b.check_welcome(a.welcome(b.hello("m0", NONCE), "m1"), "m0", NONCE)
        b.contract = amended(text, [], ["m2"])
        with pytest.raises(ContractsDiffer):
            b.welcome(a.hello("m1", NONCE), "m0")
        with pytest.raises(ContractsDiffer):
            a.welcome(b.hello("m0", NONCE), "m1")
    finally:
        other.close()


def test_the_old_certificate_counts_until_the_new_one_is_shown(
    made: Made, tmp_path: Path, state: NodeState
) -> None:
    from cryptography.hazmat.primitives import serialization

    from tacenda_node.identity import certificates

    contract, people = made
    home = tmp_path / "m1"
    authority = people["m1"].folder.parent / "ca"
    request = certificates.init(home, "m1")
    certificates.sign(authority, request, home, days=2)
    fresh = Identity.read(home)
    values = _card(people["m1"], fingerprint=fresh.fingerprint)
    me = handshake_of(amended(contract, [values], []), people["m0"], state, former=[contract])

    def shown(who: Identity) -> dict[str, list[bytes]]:
        pem = who.certificate.public_bytes(serialization.Encoding.PEM)
        return {"x509_pem_cert": [pem]}

    assert me.caller(shown(people["m1"])) == "m1"
    assert me.caller(shown(fresh)) == "m1"
    with pytest.raises(Refused, match="not the one in the contract"):
        me.caller(shown(people["m1"]))


def test_a_new_member_is_in_the_next_run(made: Made, tmp_path: Path) -> None:
    contract, _ = made
    new = made_identity(tmp_path / "new", "new", tmp_path / "ca")
    without = amended(contract, [], ["m1"])
    found = next_run(without, "second", [_card(new)], ["m0", "m2"])
    assert found.names == ["m0", "m2", "m3", "new"]
    assert found.neighbours("new") == ["m0", "m2"]
    assert found.amendment is found.follows is found.left is None
    assert found.member("m0") == contract.member("m0")
    assert found.run_id() != contract.run_id()
    assert make_plan(found).spec.topology.n == 4
    with pytest.raises(InputError, match="--title must differ"):
        next_run(contract, contract.title, [_card(new)], [])


def test_the_command_writes_what_is_to_be_signed(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two amendments in turn, the next run's contract after them; and what is refused."""
    contract, people = made
    path, cards = contract_files.write(contract, tmp_path / "contract.toml"), tmp_path / "cards"
    cards.mkdir()
    card = contract_files.write_card(people["m2"], "there:7443", 80, cards / "m2")
    new = made_identity(tmp_path / "new", "new", tmp_path / "ca")
    joins = contract_files.write_card(new, "new:7443", 50, cards / "new")

    def amend(*arguments: object) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["contract", "amend", "-c", str(path), *map(str, arguments)])
        said = capsys.readouterr()
        return said.out if not ended.value.code else said.err

    assert "m0, m1, m2, m3 each put it beside" in amend("--replace", card)
    assert "m0, m1, m2 each put it beside" in amend("--remove", "m3")
    second = contract_files.read(amendment_path(path, 2))
    assert second.follows == contract_files.read(amendment_path(path, 1)).hash()
    assert (second.left, second.member("m2").address) == (["m3"], "there:7443")
    assert "Without m1, m3 the run cannot go on" in amend("--remove", "m1")  # m0 and m2 are no edge
    out = tmp_path / "next.toml"
    assert "needs --title and --out" in amend("--add", joins)
    amend("--add", joins, "--title", "second", "--out", out, "--joined-to", "m0")
    assert contract_files.read(out).names == ["m0", "m1", "m2", "new"]
    assert "not both" in amend("--add", joins, "--remove", "m1")
    assert "not both" in amend("--title", "third", "--remove", "m1")
    same = tmp_path / "same.toml"
    amend("--title", "third", "--out", same)  # the members who have not left, once more
    assert contract_files.read(same).names == ["m0", "m1", "m2"]


def test_who_has_left_is_not_counted_for_the_majority() -> None:
    """Two of four who stayed away are too many; two who have left for good are not."""
    plan, away = make_plan(small_contract(4)), frozenset({"m2", "m3"})
    check_remaining(plan, "m0", away, away)
    with pytest.raises(NetworkError) as found:
        check_remaining(plan, "m0", away)
    assert "m2, m3 stayed away, and with this member (m0) 2 of 4 remain" in str(found.value)
    assert "take it in again by themselves" in str(found.value)


def test_fewer_than_half_never_put_the_others_out(made: Made) -> None:
    """Only who stays signs: a text without anybody who stays would need no signature at all."""
    contract, _ = made
    for leaving in (["m2", "m3"], ["m1", "m2", "m3"], ["m0", "m1", "m2", "m3"]):
        with pytest.raises(InputError, match="contract field left: . of 4 members would remain"):
            amended(contract, [], leaving)


def test_a_certificate_that_was_replaced_stays_replaced(
    made: Made, tmp_path: Path, state: NodeState
) -> None:
    """A second new certificate does not bring the first one back, whoever may hold its key."""
    from cryptography.hazmat.primitives import serialization

    contract, people = made
    texts, owners = [contract], [people["m1"]]
    for k in (1, 2):
        owner = made_identity(
            tmp_path / f"{k}" / "m1", "m1", people["m1"].folder.parent / "ca", days=2
        )
        owners.append(owner)
        card = _card(people["m1"], fingerprint=owner.fingerprint)
        texts.append(amended(texts[-1], [card], []))

    def shown(who: Identity) -> dict[str, list[bytes]]:
        pem = who.certificate.public_bytes(serialization.Encoding.PEM)
        return {"x509_pem_cert": [pem]}

    me = handshake_of(texts[1], people["m0"], state, former=texts[:1])
    assert me.caller(shown(owners[1])) == "m1"
    me = handshake_of(texts[2], people["m0"], state, former=texts[:2])
    assert me.caller(shown(owners[1])) == "m1"
    with pytest.raises(Refused, match="not the one in the contract"):
        me.caller(shown(owners[0]))
    assert me.caller(shown(owners[2])) == "m1"
    with pytest.raises(Refused, match="not the one in the contract"):
        me.caller(shown(owners[1]))


def test_a_certificate_without_its_key_does_not_replace_another(
    made: Made, tmp_path: Path, state: NodeState
) -> None:
    contract, people = made
    new = made_identity(tmp_path / "m1", "m1", people["m1"].folder.parent / "ca", days=2)
    text = amended(contract, [_card(people["m1"], fingerprint=new.fingerprint)], [])
    other = NodeState(tmp_path / "other")
    try:
        me = handshake_of(text, people["m0"], state, former=[contract])
        peer = handshake_of(contract, people["m1"], other)
        lie = frames.replaced(
            peer.welcome(me.hello("m1", NONCE), "m0"), certificate=new.tls_pem()[1]
        )
        with pytest.raises(Refused, match="does not hold the key"):
            me.check_welcome(lie, "m1", NONCE)
        assert me.check_welcome(peer.welcome(me.hello("m1", NONCE), "m0"), "m1", NONCE)
    finally:
        other.close()
