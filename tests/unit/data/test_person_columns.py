"""The schema's column of persons: never a feature, capped before anything else is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.errors import InputError
from tacenda.privacy.noise.persons import kept_records, person_names


def schema(**more: Any) -> Any:
    return tc.data.Schema.build(
        columns=[{"kind": "numeric", "name": "age", "low": 0, "high": 100}],
        label={"name": "ill", "classes": ["no", "yes"]},
        **more,
    )


TABLE = {
    "age": [10.0, 20.0, 30.0, 40.0, 50.0],
    "ill": ["no", "yes", "no", "yes", "no"],
    "id": ["a", "a", "b", "a", " b "],
}


def test_ids_are_no_feature_and_go_with_the_records() -> None:
    data = tc.data.encode(schema(person="id"), TABLE)
    assert data.feature_names == ("age",)
    assert data.persons is not None and data.persons.tolist() == ["a", "a", "b", "a", "b"]
    with pytest.raises(InputError, match="must not be among the columns"):
        schema(person="age")
    with pytest.raises(InputError, match="column of its own"):
        schema(person="ill")


def test_a_schema_without_persons_keeps_its_hash() -> None:
    plain, named = schema(), schema(person="id")
    assert plain.hash() != named.hash()
    assert tc.data.Schema.from_toml(named.to_toml()).hash() == named.hash()
    assert "person" not in plain.to_toml()


def test_the_cap_looks_at_ids_alone_and_comes_first() -> None:
    """Records that are dropped may hold anything: a missing value, an undeclared class."""
    kept = kept_records(person_names(TABLE["id"]), 1, b"k")
    wild = {name: list(cells) for name, cells in TABLE.items()}
    for row in set(range(5)) - set(kept.tolist()):
        wild["age"][row], wild["ill"][row] = float("nan"), "???"
    for missing in ("drop", "error"):
        found = tc.data.encode(
            schema(person="id", missing=missing), wild, records_per_person=1, person_key=b"k"
        )
        assert np.allclose(found.X[:, 0] * 100, np.array(TABLE["age"])[kept])
    # A kept record with a missing value is not replaced by another one of that person
    first = int(kept[0])
    wild["age"][first] = float("nan")
    found = tc.data.encode(schema(person="id"), wild, records_per_person=1, person_key=b"k")
    assert found.n_records == len(kept) - 1


def test_the_cap_is_for_each_node() -> None:
    table = {**TABLE, "site": ["x", "y", "x", "x", "y"]}
    found = tc.data.encode(schema(person="id", node_column="site"), table, records_per_person=1)
    assert sorted(zip(found.nodes, found.persons, strict=True)) == [
        ("x", "a"),
        ("x", "b"),
        ("y", "a"),
        ("y", "b"),
    ]


def test_a_record_without_an_id_is_refused() -> None:
    with pytest.raises(InputError, match="record 2 has no 'id'"):
        tc.data.encode(schema(person="id"), {**TABLE, "id": ["a", "", "b", "a", "b"]})
    with pytest.raises(InputError, match="needs the column with the persons' ids"):
        tc.data.encode(schema(), TABLE, records_per_person=1)


def test_a_column_of_nodes_takes_the_persons_along() -> None:
    data = tc.data.encode(schema(person="id"), TABLE)
    shards = tc.data.partition.by_column(data.X, data.y, ["q", "p", "q", "p", "q"], data.persons)
    assert [own.tolist() for own in shards.persons or ()] == [["a", "a"], ["a", "b", "b"]]
