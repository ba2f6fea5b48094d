"""Tables of a contract: the question follows from terms and schema, and the rows are those of the
records that are trained on."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.data.encoding import encode_usable
from tacenda.data.schema import Schema
from tacenda.errors import InputError
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.agreed_tables import AgreedTables, table_records
from tacenda_node.peer.evaluation_plan import closing_contract
from tacenda_node.peer.member_records import checked_schema, read_records
from tacenda_node.setup import drafting
from tacenda_node.setup.meaning import in_plain_words, meaning

PRIVACY = {"epsilon": 3.0, "delta": 1e-5, "coalition": 1}
BOTH = {"describe": {"share": 0.2, "by": "arm"}, "survival": {"share": 0.1}}


def schema(top: float = 100.0, **changes: Any) -> Schema:
    return Schema.build(
        columns=[
            {"kind": "numeric", "name": "age", "low": 0, "high": top},
            {"kind": "categorical", "name": "arm", "levels": ["old", "new"]},
        ],
        label={"name": "died", "classes": ["0", "1"]},
        survival={"time": "t", "event": "died", "points": [1.0, 2.0]},
        **changes,
    )


def drafted_card(k: int, size: int) -> dict[str, Any]:
    return {
        "name": f"m{k}",
        "size": size,
        "address": "localhost:1",
        "fingerprint": f"{k:064x}",
        "signing_key": base64.b64encode(k.to_bytes(32, "big")).decode(),
        "authority": "-----BEGIN CERTIFICATE-----",
    }


def drafted(size: int = 900, **terms: Any) -> Any:
    cards = [drafted_card(k, size) for k in range(3)]
    return drafting.draft(cards, {"title": "study", "privacy": PRIVACY, **terms}, schema())


def trained(**terms: Any) -> Contract:
    return drafted(algorithm={"name": "treegd"}, rounds=3, **BOTH, **terms).contract


def test_shares_add_up_to_the_contracts_one_budget() -> None:
    found = drafted(algorithm={"name": "treegd"}, rounds=3, **BOTH)
    plan, contract = found.plan, found.contract
    charges = [c.parameters["mu"][0] for c in plan.calibration.reserved.each()]
    assert contract.tables_share == pytest.approx(0.3)
    assert charges[1] ** 2 / sum(mu**2 for mu in charges) == pytest.approx(0.3, rel=1e-6)
    said = " ".join(in_plain_words(plan, "m0"))
    assert "who is in the data by arm, in round 1, for 0.2 of the budget" in said
    assert ("table", "survival curves, in round 1, for 0.1 of the budget (in squares)") in meaning(
        plan
    )


def test_the_planner_leaves_the_tables_their_share() -> None:
    found = drafted(describe={"share": 0.2})
    assert found.chosen is not None and found.contract.prepare is not None
    mu = [c.parameters["mu"][0] for c in found.plan.calibration.reserved.each()]
    assert mu[found.plan.releases[0] - 1] ** 2 / sum(m**2 for m in mu) == pytest.approx(0.2)


def test_unreadable_columns_are_said_when_the_contract_is_drafted() -> None:
    assert not drafted(5000, algorithm="tables", describe={"by": "arm"}).words
    (said,) = drafted(30, algorithm="tables", describe={"by": "arm"}).words
    assert "unreadable, with about 45 records in a group" in said


def test_the_planner_proposes_shares_that_make_tables_readable() -> None:
    open_terms = {"describe": {"by": "arm"}, "survival": {"share": "auto"}}
    few, many = (drafted(size, **open_terms) for size in (900, 9000))
    for found in (few, many):
        parts = found.contract.table_parts()
        assert found.proposed == {k: parts[k]["share"] for k in ("describe", "survival")}
        assert 0.04 <= found.contract.tables_share <= 0.5
        assert "the planner proposes these shares of the budget: training " in found.words[0]
    assert few.contract.tables_share > many.contract.tables_share
    assert not many.noise.words and max(many.noise.excess.values()) <= 1
    # As large as the noise asks for, with some room
    stated = {k: {**open_terms[k], "share": 0.2} for k in open_terms}
    excess = drafted(900, **stated).noise.excess
    for name, share in few.proposed.items():
        wanted = max(0.24 * excess[name] ** 2, 0.02)
        assert share == pytest.approx(wanted, rel=0.05) or few.contract.tables_share == 0.5
    one = drafted(900, describe={"by": "arm", "share": 0.3}, survival={})
    assert one.proposed.keys() == {"survival"} and one.contract.describe.share == 0.3
    alone = drafted(900, algorithm="tables", **open_terms)
    assert sum(alone.proposed.values()) == pytest.approx(1.0, abs=0.02)


def test_an_evaluation_knows_nothing_of_the_tables() -> None:
    contract = trained(evaluation={"held_out": 0.2})
    assert closing_contract(contract, "0" * 64, "masked").table_parts() == {}


def test_a_contract_with_another_question_is_refused(tmp_path: Path) -> None:
    contract = trained()
    schema().write(tmp_path / "schema.toml")
    checked_schema(contract, tmp_path / "schema.toml")
    other = {**contract.to_plain(), "describe": {"share": 0.2}}
    with pytest.raises(InputError, match="not what follows from the contract's tables"):
        checked_schema(Contract.build(other), tmp_path / "schema.toml")


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"algorithm": "tables"}, r"needs \[describe\] or \[survival\]"),
        ({"hazards": {}}, "Cox's model is a contract of its own"),
        ({"algorithm": "cox", **BOTH}, "Cox's model is a contract of its own"),
        ({"describe": {"share": 0.6}, "survival": {"share": 0.5}}, "leave the training a share"),
        ({"describe": {"by": "colour"}}, "by must be one of"),
        ({"describe": {"colour": 1}}, r"describe\.colour"),
    ],
)
def test_terms_that_do_not_go_together(terms: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        drafted(**terms)


def _table(n: int = 40) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 100, n)
    age[::7] = np.nan
    return {
        "age": age,
        "arm": rng.choice(["old", "new"], n),
        "died": rng.choice(["0", "1"], n),
        "t": rng.uniform(0.1, 3, n),
    }


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_rows_beside_are_those_of_the_same_records(adjacency: str) -> None:
    table, terms = _table(), {**PRIVACY, "adjacency": adjacency}
    made = drafted(40, algorithm={"name": "treegd"}, rounds=3, privacy=terms, **BOTH)
    own = read_records(made.contract, "m0", schema(), table, None).trained.store
    whole = tc.data.Table.of(table)
    every = AgreedTables.of(made.contract, schema()).rows(schema(), whole)
    good = ~np.isnan(table["age"])
    if adjacency == "replace-one":
        np.testing.assert_array_equal(own.beside, every)
    else:
        np.testing.assert_array_equal(own.beside, every[good])
        X = encode_usable(schema(), table, blank=False).X
        np.testing.assert_allclose(own.rows, X)


def test_rows_of_kept_records_of_persons() -> None:
    table = {**_table(), "who": np.repeat([f"p{k}" for k in range(20)], 2)}
    known, how = schema(person="who"), {"records_per_person": 1, "person_key": b"k" * 32}
    asked = AgreedTables.of({"describe": {"by": "arm"}}, known)
    whole = tc.data.Table.of(table)
    found = encode_usable(known, whole, blank=True, **how)
    rows = asked.beside(known, whole, True, 1, b"k" * 32)
    every = asked.rows(known, whole)
    assert len(rows) == found.n_records == len(every)
    kept = ~np.isnan(rows).any(axis=1)
    np.testing.assert_array_equal(rows[kept], every[kept])
    np.testing.assert_array_equal(kept, found.fingerprints.any(axis=1))
    assert 10 < kept.sum() <= 20 and not found.X[~kept].any()
    few = asked.beside(known, whole, False, 1, b"k" * 32)
    np.testing.assert_array_equal(few, rows[kept])


@pytest.mark.parametrize("each", [1, 2])
def test_a_record_that_becomes_unusable_moves_no_other(each: int) -> None:
    """Which records are held out goes by their places: each must keep its own."""
    table = {**_table(), "who": np.array([f"p{k // each}" for k in range(40)], object)}
    table["age"] = np.linspace(20, 80, 40)
    other = {**table, "died": table["died"].astype(object)}
    other["died"][0] = ""
    known, how = schema(person="who"), {"records_per_person": 1, "person_key": b"k" * 32}
    asked = AgreedTables.of({"describe": {"by": "arm"}}, known)
    own = [encode_usable(known, one, blank=True, **how) for one in (table, other)]
    rows = [
        asked.beside(known, tc.data.Table.of(one), True, 1, b"k" * 32) for one in (table, other)
    ]
    for a, b in ((own[0].X, own[1].X), (own[0].y, own[1].y), rows):
        assert len(a) == len(b) == 40
        np.testing.assert_array_equal(a[each:], b[each:])


def test_records_without_an_id_count_nothing_where_persons_are_the_unit() -> None:
    table = {**_table(), "who": np.array([f"p{k}" for k in range(40)], object)}
    table["who"][5:30] = ""
    table["age"] = np.linspace(20, 80, 40)
    known = schema(person="who")
    persons = {**PRIVACY, "records_per_person": 1, "members_per_person": 1}
    for terms in ({"algorithm": "tables", "describe": {"by": "arm"}}, {"algorithm": "cox"}):
        cards = [drafted_card(k, 40) for k in range(3)]
        made = drafting.draft(cards, {"title": "study", "privacy": persons, **terms}, known)
        found, _, ids, _, beside = table_records(made.contract, known, tc.data.Table.of(table))
        counted = beside if beside is not None else found
        blank = np.isnan(counted).any(axis=1) | ~counted.any(axis=1)
        np.testing.assert_array_equal(np.flatnonzero(blank), np.arange(5, 30))
        assert ids is not None and len(found) == 40 and np.isfinite(found).all()


def test_cox_reads_hazard_rows_and_nothing_else() -> None:
    contract = drafted(40, algorithm="cox").contract
    assert contract.hazards is not None and contract.hazards.columns == ["age", "arm"]
    assert contract.rounds == 6 and not contract.has_training
    own = read_records(contract, "m0", schema(), _table(), None).trained
    assert own.n_features == 4 and len(own.store.labels) == 40
