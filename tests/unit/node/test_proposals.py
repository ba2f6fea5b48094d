"""Proposals: who may make them, what may be in them, and when they take effect."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node_stage import made_identity, signed_contract, small_contract, small_schema
from tacenda.errors import InputError, PrivacyError, StateError
from tacenda_node.commands.proposing import Following
from tacenda_node.identity import contract_files
from tacenda_node.identity.contract import Contract
from tacenda_node.membership.amendments import amended, amendment_path, next_run
from tacenda_node.operate.policy import PolicyFile
from tacenda_node.operate.settings import write_settings
from tacenda_node.peer.public_start import PublicStart
from tacenda_node.proposals.box import MOST_OF_ONE, Box, numbered
from tacenda_node.proposals.courier import Courier
from tacenda_node.proposals.proposal import MOST_BYTES, Proposal, read_proposal


class Town:
    """Three members, each with a folder that holds the contract."""

    def __init__(self, place: Path) -> None:
        self.contract, self.people = signed_contract(small_contract(3), place / "people")
        self.boxes = {name: Box(place / name) for name in self.contract.names}
        for name, box in self.boxes.items():
            box.home.mkdir()
            contract_files.write(self.contract, box.home / "contract.toml")
            shutil.copytree(self.people[name].folder, box.home / "identity")

    def made(self, by: str, kind: str = "next", text: Contract | None = None) -> Proposal:
        if kind != "stop" and text is None:
            text = next_run(self.contract, "autumn", [], [])
        return Proposal.made(kind, self.people[by], self.contract, "why", text)

    def meet(self, one: str, other: str) -> None:
        """As one call over the network does."""
        self.boxes[other].read_sheet(self.boxes[one].sheet())
        self.boxes[one].read_sheet(self.boxes[other].sheet())


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path)


def test_a_next_run_is_signed_by_accepting_it(town: Town) -> None:
    proposal = town.made("m0")
    number = proposal.number
    town.boxes["m0"].take(proposal, {})
    for name in ("m0", "m1", "m2"):
        town.meet("m0", name) if name != "m0" else None
        kept = town.boxes[name].accept(number, town.people[name])
        assert kept.in_effect == (name == "m2")
        assert kept.question(name) == "" == kept.question("m0")
        assert (number in kept.question("m2")) == (name != "m2")
        town.meet(name, "m0") if name != "m0" else None
        town.boxes[name].find(number[:4])
    town.meet("m0", "m1")
    for name in ("m0", "m1"):
        kept = town.boxes[name].find(number)
        assert kept.in_effect and kept.missing == []
        place = town.boxes[name].place_of(kept)
        assert place is not None and contract_files.missing_signatures(place) == []
        assert contract_files.read(place).title == "autumn"


@pytest.mark.parametrize("field", ["kind", "by", "at", "run", "reason", "contract", "signature"])
def test_the_signature_is_over_every_field(town: Town, field: str) -> None:
    proposal = town.made("m0")
    other: dict[str, Any] = {
        "kind": "stop", "by": "m1", "at": "2020-01-01", "run": "0" * 64, "reason": "other",
        "contract": next_run(town.contract, "spring", [], []).to_plain(),
        "signature": "A" * 86 + "==",
    }  # fmt: skip
    false = replace(proposal, **{field: other[field]})
    if field == "run":
        assert town.boxes["m1"].take(false, {}) is None, "of a run that is not here"
    else:
        with pytest.raises((PrivacyError, InputError)):
            town.boxes["m1"].take(false, {})
    assert town.boxes["m1"].all() == []


def test_what_no_proposal_may_hold(town: Town) -> None:
    base, first = town.contract, town.contract.names[0]
    plain = next_run(base, "autumn", [], []).to_plain()
    for member in plain["members"]:
        member |= {"signing_key": "A" * 43 + "="} if member["name"] == "m1" else {}
    less = amended(base, [], ["m2"])
    for kind, text, words in (
        ("next", base, "another title"),
        ("with", next_run(base, "autumn", [], []), "new members come by"),
        ("next", Contract.build(plain), "signing_key is not the one"),
        ("without", next_run(base, "autumn", [], []), "contract field"),
        ("without", amended(base, [{**contract_files.card_of(
            town.people[first], "a:1", 60), "name": first}], []), "leaves out no member"),
        ("stop", less, "with or without a contract"),
    ):  # fmt: skip
        with pytest.raises((InputError, PrivacyError), match=words):
            town.made("m0", kind, text)


def test_more_than_half_stop_a_run_and_answers_are_counted_once(town: Town) -> None:
    proposal = town.made("m0", "stop")
    run = town.contract.run_id()
    box = town.boxes["m2"]
    mine = town.people["m0"].sign_text(proposal.answer_text())
    box.take(proposal, {"m0": mine})
    assert box.stopped(run) is None
    for false in ({"m1": mine}, {"m1": "nonsense"}, {"m9": mine}):
        kept = box.take(proposal, false)
        assert kept is not None and sorted(kept.signatures) == ["m0"]
    box.take(proposal, {"m1": town.people["m1"].sign_text(proposal.answer_text())})
    stopped = box.stopped(run)
    assert stopped is not None and sorted(stopped.signatures) == ["m0", "m1"]
    assert Box(box.home).stopped(run) is not None and box.stopped("0" * 64) is None
    for _ in range(MOST_OF_ONE + 3):  # nobody can push it out
        box.take(Proposal.made("next", town.people["m0"], town.contract, str(_), next_run(
            town.contract, f"run {_}", [], [])), {})  # fmt: skip
    assert box.stopped(run) is not None
    assert len([one for one in box.all() if one.proposal.by == "m0"]) == 1 + MOST_OF_ONE


def test_an_amendment_lies_where_the_node_looks_for_it(town: Town) -> None:
    proposal = town.made("m0", "without", amended(town.contract, [], ["m2"]))
    other = town.made("m1", "without", amended(town.contract, [], ["m0"]))
    town.boxes["m1"].take(other, {})
    for name in ("m0", "m1"):
        box = town.boxes[name]
        box.take(proposal, {})
        kept = box.accept(proposal.number, town.people[name])
        place = amendment_path(box.home / "contract.toml", 1)
        assert box.place_of(kept) == place and name in contract_files.signatures(place)
    town.meet("m0", "m1")
    late = Proposal.made("without", town.people["m1"], town.contract, "late", other.text())
    sheet = json.dumps([{"proposal": late.to_plain(), "signatures": {}}]).encode()
    assert town.boxes["m0"].read_sheet(sheet) == []  # overtaken meanwhile
    assert "make amendment 2 from that one" in town.boxes["m0"].refused[late.number]
    assert town.boxes["m0"].find(proposal.number).in_effect  # m2, who leaves, is not asked
    town.boxes["m2"].take(proposal, {})
    with pytest.raises(InputError, match="not asked"):
        town.boxes["m2"].accept(proposal.number, town.people["m2"])
    with pytest.raises(StateError, match="another amendment"):
        town.boxes["m1"].accept(other.number, town.people["m1"])


@pytest.mark.parametrize(
    "sheet", [b"", b"{}", b"[1]", b"[{}]", b'[{"proposal": {}, "signatures": {}}]', b"[" * 5000]
)
def test_a_sheet_that_is_none_is_refused_in_words(town: Town, sheet: bytes) -> None:
    if sheet == b"{}":
        assert town.boxes["m0"].read_sheet(sheet) == []
        return
    with pytest.raises(InputError):
        town.boxes["m0"].read_sheet(sheet)


def test_words_for_the_terminal_are_printable_and_short(town: Town) -> None:
    plain = town.made("m0", "stop").to_plain()
    for changed in ({"reason": "\x1b[2J"}, {"reason": "x" * 5000}, {"format": "other"}):
        with pytest.raises(InputError):
            Proposal.from_plain({**plain, **changed})
    huge = {**town.made("m0").to_plain(), "contract": {"x": "y" * MOST_BYTES}}
    with pytest.raises(InputError, match="larger than"):
        Proposal.from_plain(huge)


def test_the_policy_answers_only_what_it_allows(town: Town, tmp_path: Path) -> None:
    schema, home = small_schema(4), town.boxes["m1"].home
    schema.write(home / "schema.toml")
    write_settings(home, {"schema": "schema.toml", "data": "my.csv", "bind": "127.0.0.1:1"})
    dear = Contract.build(
        {
            **next_run(town.contract, "dear", [], []).to_plain(),
            "privacy": {"epsilon": 40.0, "delta": 1e-5},
        }
    )
    policy = home / "policy.toml"
    policy.write_text('epsilon = 9.0\ndelta = 1e-4\nproposals = ["next"]\n')
    said: list[str] = []
    accepted: list[Any] = []
    courier = Courier(home, accepted.append, said.append)
    for proposal in (town.made("m0"), town.made("m0", "next", dear), town.made("m2", "stop")):
        town.boxes["m1"].take(proposal, {})
    courier.look(home / "contract.toml", {"1"})
    courier.close()
    assert [one.proposal.text().title for one in accepted] == ["autumn"]
    assert any("is left to a person" in words and "epsilon" in words for words in said)
    assert not any("stop" in words and "accepted by the policy" in words for words in said)
    policy.write_text('proposals = ["next"]\n')
    with pytest.raises(InputError, match="epsilon and delta"):
        PolicyFile.read(policy)


def test_without_a_budget_for_all_runs_a_person_accepts_each_of_them(town: Town) -> None:
    """Or one member could propose runs without end, each within the policy's lines."""
    schema, home = small_schema(4), town.boxes["m1"].home
    schema.write(home / "schema.toml")
    place = {"schema": "schema.toml", "data": "my.csv", "bind": "127.0.0.1:1"}
    write_settings(home, {**place, "no_budget": True})
    (home / "policy.toml").write_text('epsilon = 9.0\ndelta = 1e-4\nproposals = ["next", "stop"]\n')
    said: list[str] = []
    accepted: list[Any] = []
    courier = Courier(home, accepted.append, said.append)
    for proposal in (town.made("m0"), town.made("m2", "stop")):
        town.boxes["m1"].take(proposal, {})
    courier.look(home / "contract.toml", {"1"})
    courier.close()
    assert [one.proposal.kind for one in accepted] == ["stop"]
    assert any("is left to a person" in words and "no_budget" in words for words in said)


@pytest.mark.parametrize(
    ("title", "taken", "found"),
    [
        ("Study", [], "Study 2"),
        ("Study 2", ["Study", "Study 2"], "Study 3"),
        ("Study 2", ["Study 3", "Study 4"], "Study 5"),
        ("Study 2026", [], "Study 2027"),
        ("7", [], "7 2"),
    ],
)
def test_the_next_title(title: str, taken: list[str], found: str) -> None:
    assert numbered(title, taken) == found


def test_a_new_member_signs_the_contract_itself(town: Town, tmp_path: Path) -> None:
    """It holds no contract in which the proposal could be checked, and gets the file."""
    _, more = signed_contract(small_contract(4), tmp_path / "more")
    card = contract_files.card_of(more["m3"], "localhost:7999", 50)
    text = next_run(town.contract, "autumn", [card], [])
    proposal = town.made("m0", "with", text)
    assert Box(tmp_path).take(proposal, {}) is None
    for name in ("m0", "m1", "m2"):
        town.boxes[name].take(proposal, {})
        kept = town.boxes[name].accept(proposal.number, town.people[name])
        place = town.boxes[name].place_of(kept)
        assert place is not None
    for name in ("m1", "m2"):
        town.meet("m0", name)
    kept = town.boxes["m0"].find(proposal.number)
    assert kept.missing == ["m3"] and not kept.in_effect
    place = town.boxes["m0"].place_of(kept)
    assert place is not None
    contract_files.sign(place, more["m3"])  # as `tacenda contract sign` does
    assert contract_files.missing_signatures(place) == []
    with pytest.raises(InputError, match="new members come by"):
        town.made("m0", "next", text)


def test_what_the_nodes_gather_counts_for_a_new_member(town: Town, tmp_path: Path) -> None:
    """It has no box, and signs the contract itself; its signature comes by its node."""
    other = made_identity(tmp_path / "m9", "m9", tmp_path / "ca")
    card = contract_files.card_of(other, "localhost:19", 80)
    text = next_run(town.contract, "autumn", [card], [])
    proposal, box = town.made("m0", "with", text), town.boxes["m0"]
    box.take(proposal, {})
    for name in town.contract.names:
        town.meet("m0", name) if name != "m0" else None
        town.boxes[name].accept(proposal.number, town.people[name])
        town.meet("m0", name) if name != "m0" else None
    assert box.find(proposal.number).missing == ["m9"]
    signed = {"m9": other.sign_text(contract_files.signed_text(text))}
    box.signed(text, {"m9": "A" * 86 + "=="})
    assert not box.find(proposal.number).in_effect
    box.signed(text, signed)
    assert box.find(proposal.number).in_effect


def test_what_a_next_run_takes_over_is_what_the_flags_say(town: Town) -> None:
    start = PublicStart(np.zeros(4), np.zeros(0))
    plain = Following(start, {}, "all", None, None).terms(town.contract)
    assert plain is not None and plain.keys() == {"run", "start", "records"}
    asked = Following(start, {}, "new", 12, 0.2).terms(town.contract)
    made = next_run(town.contract, "autumn", [], [], continues=asked)
    assert made.continues is not None
    found = made.continues
    assert (found.records, found.window, found.drift) == ("new", 12, 0.2)
    assert found.run == town.contract.run_id() and found.start == start.digest
    assert Following(None, {}, "all", None, None).terms(town.contract) is None
    for one in (("new", None, None), ("all", 12, None), ("all", None, 0.2)):
        with pytest.raises(InputError, match="--records, --window and --drift are of a run"):
            Following(None, {}, *one).terms(town.contract)


def test_a_proposal_as_a_file(town: Town) -> None:
    kept = town.boxes["m0"].take(town.made("m0"), {})
    assert kept is not None
    path = town.boxes["m0"].folder / f"{kept.proposal.number}.json"
    proposal, signatures = read_proposal(path)
    assert proposal == kept.proposal and signatures == {}
    path.write_text(json.dumps({"proposal": 3}))
    with pytest.raises(InputError, match="no proposal"):
        read_proposal(path)
