"""Whether a member takes part does not depend on one record: what cannot be encoded is left out, or
is a blank record where the number of records is public."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from cli_tools import tacenda
from node_stage import small_contract, small_schema
from tacenda.data.encoding import encode_features, encode_usable
from tacenda.errors import InputError
from tacenda_node.identity import contract_files
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.member_records import checked_schema, read_records
from tacenda_node.setup import drafting

BAD = {
    "nothing": ("", "red", "no"),
    "text": ("old", "red", "no"),
    "level": ("3", "blue", "no"),
    "no level": ("3", "", "no"),
    "class": ("3", "red", "maybe"),
    "no class": ("3", "red", ""),
    "all": ("?", "?", "?"),
}


def schema(**changes: Any) -> tc.data.Schema:
    stands = changes.get("missing") == "impute"
    fields: dict[str, Any] = {
        "columns": [
            {"kind": "numeric", "name": "age", "low": 0, "high": 10}
            | ({"impute": 4.0} if stands else {}),
            {"kind": "categorical", "name": "colour", "levels": ["red", "green"]}
            | ({"impute": "green"} if stands else {}),
        ],
        "label": {"name": "ill", "classes": ["no", "yes"]},
    }
    return tc.data.Schema.build(**{**fields, **changes})


def table(bad: tuple[str, str, str]) -> dict[str, Any]:
    rows = [("1", "red", "no"), bad, ("9", "green", "yes"), ("5", "red", "yes")]
    return dict(zip(("age", "colour", "ill"), map(list, zip(*rows, strict=True)), strict=True))


@pytest.mark.parametrize("missing", ["drop", "impute"])
@pytest.mark.parametrize("name", BAD)
def test_a_record_that_cannot_be_encoded_never_stops(name: str, missing: str) -> None:
    made = schema(missing=missing)
    left_out = encode_usable(made, table(BAD[name]), blank=False)
    there = encode_usable(made, table(("2", "green", "no")), blank=True)
    assert there.n_records == 4
    blank = encode_usable(made, table(BAD[name]), blank=True)
    assert blank.n_records == 4
    others = [0, 2, 3]
    np.testing.assert_array_equal(blank.X[others], there.X[others])
    np.testing.assert_array_equal(blank.y[others], there.y[others])
    assert blank.fingerprints is not None and there.fingerprints is not None
    np.testing.assert_array_equal(blank.fingerprints[others], there.fingerprints[others])
    if name in ("nothing", "no level") and missing == "impute":  # the schema's own stand-in
        assert left_out.n_records == 4
        return
    assert left_out.n_records == 3 and not blank.X[1].any() and blank.y[1] == 0
    sparse = encode_usable(made, table(BAD[name]), blank=True, sparse=True)
    np.testing.assert_array_equal(sparse.X.toarray(), blank.X)
    # It moves no gradient
    for w in (np.zeros(3), np.array([1.0, -2.0, 0.5])):
        grads = []
        for data, size in ((left_out, 4.0), (blank, 4.0)):
            problem = tc.Problem(
                [(data.X, data.y)], classes=(0, 1), data_norm=2.0, public_sizes=[size]
            )
            scores = problem.store.rows @ w
            labels = problem.store.labels
            grads.append((-labels / (1 + np.exp(labels * scores))) @ problem.store.rows)
        np.testing.assert_allclose(grads[0], grads[1], atol=1e-12)


def test_a_file_of_which_nothing_fits_is_refused_with_words() -> None:
    rows = {"age": ["x"], "colour": ["red"], "ill": ["no"]}
    with pytest.raises(InputError, match="no record of mapping fits the schema"):
        encode_usable(schema(), rows, blank=True)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_members_node_reads_every_file_of_the_right_length(relation: str, tmp_path: Path) -> None:
    plain = small_contract(2, 3).to_plain()
    plain["privacy"] |= {"adjacency": relation}
    plain["problem"] |= {"row_scale": small_schema().row_scale}
    contract = Contract.build(plain)
    small_schema().write(tmp_path / "schema.toml")
    rng = np.random.default_rng(0)
    lines = [f"{a:.3f},{b:.3f},{c:.3f},yes" for a, b, c in rng.uniform(0, 1, (60, 3))]
    bad_lines = (",,,perhaps", "a,b,c,d", "0.1,,0.3,yes", "0.1,0.2,0.3,perhaps")
    bad_lines += (",,,", " , ,,", "0.1,0.2,yes", "0.1,0.2,0.3,yes,no", "0.1", ",,,,,")
    for bad in bad_lines:
        text = ["x0,x1,x2,y", *lines[:30], bad, *lines[31:]]
        (tmp_path / "data.csv").write_text("\n".join(text) + "\n", "utf-8")
        found = read_records(contract, "m0", tmp_path / "schema.toml", tmp_path / "data.csv", None)
        assert found.trained.sizes.tolist() == [60 if relation == "replace-one" else 59]


def cards() -> list[dict[str, Any]]:
    own = {"size": 500, "address": "localhost:1", "authority": "-----BEGIN CERTIFICATE-----"}
    return [
        {**own, "name": m.name, "fingerprint": m.fingerprint, "signing_key": m.signing_key}
        for m in small_contract().members
    ]


def test_a_schema_by_which_one_record_stops_a_node_is_refused(tmp_path: Path) -> None:
    made = small_schema().model_copy(update={"missing": "error"})
    terms = {"title": "study", "privacy": {"epsilon": 2.0, "delta": 1e-6}}
    with pytest.raises(InputError, match="missing is 'error': one record .* missing = 'drop'"):
        drafting.draft(cards(), terms, made)
    made.write(tmp_path / "schema.toml")
    contract = small_contract(2, 3).model_copy(update={"schema_hash": made.hash()})
    with pytest.raises(InputError, match="missing is 'error'"):
        checked_schema(contract, tmp_path / "schema.toml")


def flat(text: str) -> str:
    return " ".join(text.split())


def with_levels(**changes: Any) -> tc.data.Schema:
    colour = {"kind": "categorical", "name": "colour", "levels": ["red", "green"], **changes}
    return tc.data.Schema.build(
        columns=[{"kind": "numeric", "name": "age", "low": 0, "high": 10}, colour],
        label={"name": "ill", "classes": ["no", "yes"]},
    )


def test_a_column_that_refuses_undeclared_levels_is_refused(tmp_path: Path) -> None:
    """Where it is drafted, by `contract check`, and when a node reads the contract; saying nothing
    is the public rule, which `contract check` tells."""
    terms = {"title": "study", "privacy": {"epsilon": 2.0, "delta": 1e-6}}
    refused = "column 'colour' says unknown = 'error': .* unknown = 'column'"
    with pytest.raises(InputError, match=refused):
        drafting.draft(cards(), terms, with_levels(unknown="error"))
    contract = drafting.draft(cards(), terms, with_levels()).contract
    contract_files.write(contract, tmp_path / "contract.toml")
    place = tmp_path / "schema.toml"
    check = ["contract", "check", "--contract", str(tmp_path / "contract.toml")]
    with_levels().write(place)
    assert "unknown" not in place.read_text("utf-8") and checked_schema(contract, place)
    found = tacenda(*check)
    assert "records   a record that the schema cannot read counts as a blank one" in found.stdout
    with_levels(unknown="error").write(place)
    with pytest.raises(InputError, match=refused):
        checked_schema(contract, place)
    for words in (check, [*check, "--schema", str(place)]):
        found = tacenda(*words)
        assert found.exit_code != 0 and re.search(refused, flat(found.stderr))
    with_levels(unknown="column").write(place)
    assert "contract field schema_hash" in flat(tacenda(*check).stderr)


@pytest.mark.parametrize("text", ["3,blue,no", "3,red", "3,red,no,no", ",,"])
def test_node_check_counts_the_records_that_do_not_fit(text: str, tmp_path: Path) -> None:
    from tacenda_node.operate.settings import NodeSettings
    from tacenda_node.setup.checking import _values

    with_levels().write(tmp_path / "schema.toml")
    lines = ["age,colour,ill", "1,red,no", text, "12,green,yes", "5,red,yes"]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n", "utf-8")
    places = {name: tmp_path / name for name in ("contract.toml", "identity", "state")}
    settings = NodeSettings(
        contract=places["contract.toml"],
        schema=tmp_path / "schema.toml",
        data=tmp_path / "data.csv",
        identity=places["identity"],
        state=places["state"],
    )
    told = [finding.found for finding in _values(settings, small_contract())]
    assert told[0].startswith("1 record cannot be read by the schema; ")
    assert told[1].startswith("1 of 3 numbers lie outside")


def test_a_draft_about_persons_asks_at_how_many_members_they_may_be() -> None:
    persons = {"epsilon": 2.0, "delta": 1e-6, "adjacency": "add-remove", "records_per_person": 2}
    named = tc.data.Schema.build(**{**dict(small_schema()), "person": "id"})
    with pytest.raises(InputError, match="privacy.members_per_person: say at how many members"):
        drafting.draft(cards(), {"title": "study", "privacy": persons}, named)
    found = drafting.draft(
        cards(), {"title": "study", "privacy": {**persons, "members_per_person": 3}}, named
    )
    assert found.contract.privacy.person == (2, 3)


def test_a_message_about_an_empty_cell_names_its_column() -> None:
    rows = {"age": ["1", ""], "colour": ["red", "red"], "ill": ["no", "no"]}
    with pytest.raises(InputError, match="record 2 has no value of 'age'"):
        tc.data.encode(schema(missing="error"), rows)
    with pytest.raises(InputError, match="record 2 has no value of 'colour'"):
        encode_features(schema(), {"age": [1.0, 2.0], "colour": ["red", None]})
    with pytest.raises(InputError, match="record 2 has no value of 'age'"):
        encode_features(schema(), {"age": [1.0, float("nan")], "colour": ["red", "red"]})


def test_private_bounds_look_at_one_record_of_each_person(tmp_path: Path) -> None:
    """A person with a thousand records moves them no more than one with a single record, and the
    ledger says that they were for persons."""
    from tacenda.privacy.lasting.ledger_store import LedgerStore
    from tacenda.privacy.lasting.units import Unit

    rng = np.random.default_rng(0)
    pay = np.concatenate([rng.uniform(100, 200, 3000), np.full(3000, 9e6)])
    ids = np.concatenate([np.arange(3000), np.zeros(3000)])
    rows = {"pay": pay, "ill": ["no", "yes"] * 3000, "id": ids.astype(int).astype(str)}
    made = tc.data.Schema.build(
        columns=[{"kind": "numeric", "name": "pay", "low": 0, "high": 1, "confirmed": False}],
        label={"name": "ill", "classes": ["no", "yes"]},
        person="id",
    )
    found = tc.data.private_bounds(
        made, rows, ledger=tmp_path / "l", dataset="us", epsilon=8, delta=1e-5, share=0.5
    )
    assert found.schema.columns[0].high < 1000
    with LedgerStore(tmp_path / "l") as store:
        assert store.spent("us").unit == Unit(1)
    with pytest.raises(InputError, match="lacks the column 'id'"):
        tc.data.private_bounds(
            made, {k: v for k, v in rows.items() if k != "id"}, ledger=tmp_path / "l", dataset="us"
        )
