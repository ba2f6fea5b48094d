"""The contract: strict, hashed, signed, and able to say in which field two of them differ."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from node_stage import made_identity, small_contract, small_schema
from tacenda.errors import InputError, PrivacyError
from tacenda.privacy.accounting.events import DiscreteGaussian
from tacenda.privacy.accounting.judge import judge
from tacenda.terms.problem import RADIUS
from tacenda_node.identity import contract_files
from tacenda_node.identity.addresses import check_address
from tacenda_node.identity.contract import Contract, differing_fields
from tacenda_node.peer.run_plan import facts_of, make_plan
from tacenda_node.setup.drafting import draft, read_card


def test_a_contract_survives_its_file(tmp_path: Path) -> None:
    contract = small_contract(
        algorithm={
            "name": "dpdda",
            "offset": {"schedule": "square-root", "offset": 20.0, "slope": 1.0},
        }
    )
    path = contract_files.write(contract, tmp_path / "c.toml")
    again = contract_files.read(path)
    assert again == contract
    assert again.hash() == contract.hash()


def test_the_difference_of_two_contracts_is_named() -> None:
    mine = small_contract()
    other = small_contract(rounds=6, privacy={"epsilon": 4.0, "delta": 1e-5})
    assert differing_fields(mine.field_hashes(), other.field_hashes()) == [
        "privacy.epsilon",
        "rounds",
    ]
    assert differing_fields(mine.field_hashes(), mine.field_hashes()) == []
    plain = mine.to_plain()
    plain["members"][1]["size"] = 71
    assert differing_fields(mine.field_hashes(), Contract.build(plain).field_hashes()) == [
        "members.m1.size"
    ]


def test_a_new_certificate_keeps_the_run_but_not_the_hash() -> None:
    mine = small_contract()
    plain = mine.to_plain()
    plain["members"][0]["fingerprint"] = "f" * 64
    renewed = Contract.build(plain)
    assert renewed.hash() != mine.hash()
    assert renewed.run_id() == mine.run_id()
    assert small_contract(rounds=6).run_id() != mine.run_id()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rounds": 0}, "contract field rounds"),
        ({"rounds": "5"}, "contract field rounds"),
        ({"colour": 1}, "contract field colour"),
        ({"privacy": {"epsilon": 0.0, "delta": 1e-5}}, "privacy.epsilon"),
        ({"privacy": {"epsilon": 1.0, "delta": 1e-5, "mode": "as-published"}}, "privacy.mode"),
        ({"edges": [["m0", "m9"]]}, "'m9' is not one of"),
        ({"schema_hash": "abc"}, "schema_hash"),
        ({"authorities": ["x"]}, "PEM"),
    ],
)
def test_wrong_fields_are_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        small_contract(**change)


@pytest.mark.parametrize("field", ["fingerprint", "signing_key"])
def test_no_two_members_share_a_key(field: str) -> None:
    """Also not one that is written in another way: the last letter of base64 has two bits that
    count for nothing."""
    plain = small_contract().to_plain()
    first = plain["members"][0][field]
    ways = [first] if field == "fingerprint" else [first, first[:42] + "B="]
    assert len({base64.b64decode(way) for way in ways if field == "signing_key"}) <= 1
    for way in ways:
        plain["members"][2][field] = way
        with pytest.raises(InputError, match="m0 and m2 have the same"):
            Contract.build(plain)


def test_the_radius_is_a_term_of_the_run(tmp_path: Path) -> None:
    mine = small_contract()
    assert mine.problem.radius == RADIUS
    assert "problem.radius" in mine.field_hashes()
    plain = mine.to_plain()
    plain["problem"]["radius"] = 100.0
    other = Contract.build(plain)
    assert other.run_id() != mine.run_id()
    assert facts_of(other).constants.radius == 100.0
    assert "radius = 100.0" in contract_files.write(other, tmp_path / "c.toml").read_text()
    for wrong in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(InputError, match="problem.radius"):
            Contract.build({**plain, "problem": {**plain["problem"], "radius": wrong}})


def test_two_who_do_not_listen_cannot_meet() -> None:
    plain = small_contract().to_plain()
    for k in (0, 1):
        plain["members"][k]["listens"] = False
    with pytest.raises(InputError, match="edge m0 - m1: at least one end must accept"):
        Contract.build(plain)


def test_signatures(tmp_path: Path) -> None:
    people = [made_identity(tmp_path / n, n, tmp_path / "ca") for n in ("a", "b")]
    cards = [
        contract_files.write_card(p, "localhost:1", 50, tmp_path / f"{p.name}.card") for p in people
    ]
    terms = {
        k: v
        for k, v in small_contract().to_plain().items()
        if k not in ("members", "edges", "authorities")
    }
    drafted = draft([read_card(card) for card in cards], terms, small_schema())
    path = contract_files.write(drafted.contract, tmp_path / "c.toml")
    assert contract_files.missing_signatures(path) == ["a", "b"]
    contract_files.sign(path, people[0])
    with pytest.raises(PrivacyError, match="lacks a valid signature of b, whose node this is"):
        contract_files.require_own_signature(path, "b")
    contract_files.sign(path, people[1])
    contract_files.require_own_signature(path, "b")
    path.write_text(path.read_text().replace("rounds = 5", "rounds = 6"))
    assert contract_files.missing_signatures(path) == ["a", "b"]
    stranger = made_identity(tmp_path / "z", "z", tmp_path / "ca")
    with pytest.raises(InputError, match="not a member"):
        contract_files.sign(path, stranger)
    other = made_identity(tmp_path / "a2", "a", tmp_path / "ca")
    with pytest.raises(InputError, match=r"members\.a\.fingerprint"):
        contract_files.sign(path, other)


def test_objective_perturbation_needs_acceptance_by_name() -> None:
    for name in ("dvp", "radmm", "madmm", "pvp"):
        with pytest.raises(PrivacyError, match="floating_point_noise"):
            make_plan(small_contract(algorithm={"name": name}))
        accepted = small_contract(
            algorithm={"name": name},
            privacy={"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True},
        )
        assert not make_plan(accepted).on_lattice


@pytest.mark.parametrize("algorithm", ["ipadmm", "cdpadmm", "ddpadmm", "dpdda"])
def test_the_lattice_plan_meets_the_budget_exactly(algorithm: str) -> None:
    """Composed anew by zero-concentrated privacy: at most epsilon, and hardly less."""
    plan = make_plan(small_contract(algorithm={"name": algorithm}, rounds=7))
    assert plan.on_lattice
    for name in plan.contract.names:
        events = plan.events(name)
        assert all(isinstance(event, DiscreteGaussian) for event, _ in events)
        epsilon = judge(events, "replace-one").epsilon(1e-5)
        assert 4.999 < epsilon <= 5.0 * (1 + 1e-6)


def test_a_form_that_keeps_an_unreleased_value_is_refused() -> None:
    accepted = {"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True}
    with pytest.raises(PrivacyError, match="keeps an unreleased value"):
        make_plan(small_contract(algorithm={"name": "pvp", "centre": "hidden"}, privacy=accepted))


def test_batches_have_no_lattice_noise() -> None:
    with pytest.raises(PrivacyError, match="floating_point_noise"):
        make_plan(small_contract(algorithm={"name": "ipadmm", "batch_size": 10}))


def test_a_contract_of_another_version_is_refused_with_what_to_do() -> None:
    plain = small_contract(3).to_plain()
    with pytest.raises(InputError, match=r"field version must be 1, .* not 2; install the version"):
        Contract.build({**plain, "version": 2})


@pytest.mark.parametrize(
    "changes",
    [
        {"title": "study\x1b[2K\rCost: none"},
        {"title": "study\u202eevil"},
        {"problem": {"n_features": 4, "classes": ["no", "y\x1b[8m"]}},
        {"algorithm": {"name": "ipadmm", "x\x1b[1A": 1}},
        {"algorithm": {"name": "ipadmm", "x": [{"y": 1}, "\n"]}},
    ],
)
def test_no_text_of_a_contract_can_rewrite_the_readers_terminal(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="must have printable characters only") as refused:
        small_contract(**changes)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "address", ['a"b:1', "a;b:1", "a\0b:1", "a$(x):1", "a`b:1", "a\x1bb:1", "a:\u0661", "a\u2028:1"]
)
def test_an_address_is_a_host_name_in_every_file_it_stands_in(address: str) -> None:
    with pytest.raises(InputError, match="host:port"):
        check_address("address", address)
