"""A member's records where persons are the unit: capped by the ledger's key, on one side each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node_stage import small_contract
from tacenda.data.schema import Schema
from tacenda.errors import InputError
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.member_records import checked_schema, read_records
from tacenda_node.peer.run_plan import facts_of, make_plan


def schema_of(contract: Any, person: str | None) -> Schema:
    features = contract.problem.n_features
    return Schema.build(
        columns=[
            {"kind": "numeric", "name": f"x{k}", "low": -1, "high": 1} for k in range(features)
        ],
        label={"name": "y", "classes": contract.problem.classes},
        person=person,
        row_norm=contract.problem.row_scale,
    )


def persons_contract(folder: Path, person: str | None = "id", **privacy: Any) -> tuple[Any, Path]:
    """A contract about persons with at most 2 records, and its schema's file."""
    plain = small_contract().to_plain()
    plain["privacy"] |= {"adjacency": "add-remove", "records_per_person": 2, **privacy}
    schema = schema_of(Contract.build(plain), person)
    schema.write(folder / "schema.toml")
    plain["schema_hash"] = schema.hash()
    return Contract.build(plain), folder / "schema.toml"


def table(contract: Any, people: int = 12) -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    ids = [f"p{k}" for k in range(people) for _ in range(k % 5 + 1)]
    found: dict[str, list[Any]] = {
        f"x{k}": rng.uniform(-0.5, 0.5, len(ids)).tolist()
        for k in range(contract.problem.n_features)
    }
    classes = contract.problem.classes
    return {**found, "y": [classes[k % 2] for k in range(len(ids))], "id": ids}


def test_a_member_keeps_so_many_records_of_each_person(tmp_path: Path) -> None:
    contract, schema = persons_contract(tmp_path)
    name, data = contract.names[0], table(contract)
    found = read_records(contract, name, schema, data, tmp_path / "ledger")
    problem = found.trained
    assert problem._persons is not None
    assert max(Counter(problem._persons.tolist()).values()) == 2
    assert problem.records_per_person == 2
    again = read_records(contract, name, schema, data, tmp_path / "ledger").trained
    assert np.array_equal(problem.store.rows, again.store.rows)  # the ledger's key stays
    other = read_records(contract, name, schema, data, tmp_path / "another").trained
    assert not np.array_equal(problem.store.rows, other.store.rows)


def test_the_contracts_noise_and_words_are_for_persons(tmp_path: Path) -> None:
    from tacenda_node.setup.meaning import in_plain_words, meaning

    contract, _ = persons_contract(tmp_path)
    assert facts_of(contract).records_per_person == 2
    plan = make_plan(contract)
    assert dict(meaning(plan))["for"] == "one person with at most 2 records"
    words = " ".join(in_plain_words(plan, contract.names[0]))
    assert "about one person with at most 2 records is limited" in words
    assert "stays secret" in words


def test_a_contract_about_persons_needs_their_column_and_add_remove(tmp_path: Path) -> None:
    contract, schema = persons_contract(tmp_path, person=None)
    with pytest.raises(InputError, match="needs the schema's person"):
        checked_schema(contract, schema)
    wrong, _ = persons_contract(tmp_path, adjacency="replace-one")
    with pytest.raises(InputError, match="adjacency must be 'add-remove'"):
        make_plan(wrong)
