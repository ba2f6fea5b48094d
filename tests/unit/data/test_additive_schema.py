"""Columns as curves: hats, atoms, cycles, breaks, missing values and pairs in a schema."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacenda.data import Schema, encode
from tacenda.data.basis import Hats, pair_smoother, products
from tacenda.data.encoding import encode_features
from tacenda.errors import InputError

LABEL = {"name": "ill", "classes": ["no", "yes"]}
AGE = {"kind": "numeric", "name": "age", "low": 0, "high": 100}
GAIN = {"kind": "numeric", "name": "gain", "low": 0, "high": 1e5, "transform": "log1p"}
HOUR = {
    "kind": "numeric", "name": "hour", "low": 0, "high": 24, "transform": "cyclic", "period": 24,
}  # fmt: skip
WARD = {"kind": "categorical", "name": "ward", "levels": ["n", "s", "w"]}


def schema_of(*columns: dict[str, Any], **fields: Any) -> Schema:
    return Schema.build(columns=columns, label=LABEL, **fields)


def rows(schema: Schema, **cells: Any) -> np.ndarray:
    """The features before the division by `row_scale`."""
    return np.asarray(encode_features(schema, cells)) * schema.row_scale


def test_a_linear_model_keeps_the_schema() -> None:
    schema = schema_of(AGE, WARD)
    assert schema.as_model("linear") is schema
    assert not schema.additive


def test_an_additive_model_has_32_hats_and_a_constant() -> None:
    schema = schema_of(AGE, WARD).as_model("additive")
    assert schema.additive and schema.intercept
    assert len(schema.feature_names) == 32 + 3 + 1
    assert schema.row_scale == pytest.approx(np.sqrt(3))
    assert schema.as_model("additive") == schema
    x = np.array([0.0, 3.0, 50.0, 100.0, 250.0])
    basis = Hats(np.linspace(0, 100, 32))
    found = rows(schema, age=x, ward=["n"] * 5)
    np.testing.assert_allclose(found[:, :32], basis(x.clip(0, 100)) @ basis.smoother, atol=1e-12)


def test_numbers_are_learnt_with_fewer_hats() -> None:
    schema = Schema.build(columns=[AGE], label={"name": "cost", "low": 0, "high": 9})
    assert len(schema.as_model("additive").feature_names) == 24 + 1


def test_knots_follow_the_transform_and_the_breaks() -> None:
    logarithmic = schema_of(GAIN).as_model("additive", 5).columns[0].basis
    np.testing.assert_allclose(logarithmic.knots, np.linspace(0, np.log1p(1e5), 5))
    breaks = schema_of({**AGE, "breaks": [18, 30, 65]}).as_model("additive").columns[0].basis
    assert breaks.knots.tolist() == [0, 18, 30, 65, 100]
    hour = schema_of(HOUR).as_model("additive", 8)
    found = rows(hour, hour=np.array([0.0, 24.0, 23.999999]))
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)
    np.testing.assert_allclose(found[0], found[2], atol=1e-5)


def test_an_atom_and_a_gap_take_the_place_of_the_hats() -> None:
    schema = schema_of({**GAIN, "atoms": [0], "missing_indicator": True}).as_model("additive", 6)
    assert schema.feature_names[6:] == ("gain=0", "missing(gain)", "intercept")
    found = rows(schema, gain=[0.0, np.nan, 10.0])
    np.testing.assert_allclose(found[0], [0] * 6 + [1, 0, 1])
    np.testing.assert_allclose(found[1], [0] * 6 + [0, 1, 1])
    assert found[2, :6].any() and found[2, 6:].tolist() == pytest.approx([0, 0, 1])
    assert schema.row_scale == pytest.approx(np.sqrt(2))


def test_a_number_beyond_a_bound_that_is_an_atom_is_at_the_atom() -> None:
    schema = schema_of({**GAIN, "atoms": [0]}).as_model("additive", 6)
    below, at = rows(schema, gain=[-5.0, 0.0])
    np.testing.assert_array_equal(below, at)


def test_linear_and_two_valued_columns_stay_as_they_are() -> None:
    flag = {"kind": "numeric", "name": "flag", "low": 0, "high": 1, "two_valued": True}
    schema = schema_of({**AGE, "hats": 0}, flag).as_model("additive")
    assert schema.feature_names == ("age", "flag", "intercept")


def test_a_pair_is_the_smoothed_product_of_two_coarse_bases() -> None:
    schema = schema_of(AGE, WARD, HOUR, pairs=[("age", "hour"), ("ward", "age")])
    made = schema.as_model("additive")
    age, hour = np.array([10.0, 55.5, 99.0]), np.array([1.0, 13.5, 23.0])
    first, second = Hats.evenly(0, 100, 6), Hats.around(24, 6)
    found = rows(made, age=age, hour=hour, ward=["n", "w", "s"])
    at = 32 + 3 + 32
    expected = products(first(age), second(hour))
    expected = expected @ pair_smoother(first.roughness, second.roughness)
    np.testing.assert_allclose(found[:, at : at + 36], expected, atol=1e-12)
    wards = np.eye(3)[[0, 2, 1]]
    expected = products(wards, first(age)) @ pair_smoother(np.zeros((3, 3)), first.roughness)
    np.testing.assert_allclose(found[:, at + 36 : at + 54], expected, atol=1e-12)
    assert made.row_scale == pytest.approx(np.sqrt(6))


def test_no_row_is_longer_than_one() -> None:
    rng = np.random.default_rng(0)
    gain = {**GAIN, "atoms": [0], "missing_indicator": True, "impute": 7.0}
    schema = schema_of(AGE, gain, HOUR, WARD, pairs=[("age", "gain")]).as_model("additive")
    n = 5000
    cells = {
        "age": rng.uniform(-20, 130, n),
        "gain": np.where(rng.random(n) < 0.3, np.nan, rng.choice([0, 5, 1e4, 1e6], n)),
        "hour": rng.integers(0, 25, n).astype(float),
        "ward": rng.choice(["n", "s", "w"], n),
        "ill": rng.choice(["no", "yes"], n),
    }
    for sparse in (False, True):
        X = encode(schema, cells, sparse=sparse).X
        X = X.toarray() if sparse else X
        assert np.linalg.norm(X, axis=1).max() <= 1.0 + 1e-12


def test_many_columns_share_the_features_of_a_full_map() -> None:
    many = schema_of(*({**AGE, "name": f"x{k}", "missing_indicator": True} for k in range(60)))
    names = many.as_model("additive").feature_names
    assert 900 < len(names) <= 1000
    enormous = schema_of(*({**AGE, "name": f"x{k}"} for k in range(600)))
    assert len(enormous.as_model("additive").feature_names) == 600 * 4 + 1


def test_declarations_survive_a_file_and_shape_the_hash() -> None:
    plain = schema_of(AGE, WARD)
    schema = schema_of(
        {**AGE, "breaks": [20, 60], "atoms": [0], "monotone": "increasing"},
        WARD,
        pairs=[("age", "ward")],
    ).as_model("additive")
    again = Schema.from_toml(schema.to_toml())
    assert again == schema and again.hash() == schema.hash()
    hashes = {plain.hash(), plain.as_model("additive").hash(), schema.hash()}
    assert len(hashes) == 3
    # Schemas that name none of it keep the hash which they had before
    assert plain.hash() == "baf226abd1dd7311b5f68e26021de9c11035ba192172d009d1519c08f44ba563"


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({**AGE, "hats": 1}, "hats must be 0 or at least 2"),
        ({**HOUR, "hats": 2}, "at least 3"),
        ({**AGE, "breaks": [50, 40]}, "breaks must rise"),
        ({**AGE, "breaks": [0, 40]}, "breaks must rise"),
        ({**HOUR, "breaks": [12]}, "takes no breaks"),
        ({**AGE, "atoms": [0, 0]}, "more than once"),
        ({**AGE, "atoms": [101]}, "within low and high"),
        ({**HOUR, "monotone": "increasing"}, "does not go with"),
    ],
)
def test_wrong_declarations_are_refused(column: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        schema_of(column)


@pytest.mark.parametrize("pairs", [[("age", "age")], [("age", "size")], [("age", "ward")] * 2])
def test_wrong_pairs_are_refused(pairs: Any) -> None:
    with pytest.raises(InputError, match="pairs"):
        schema_of(AGE, WARD, pairs=pairs)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(InputError, match="model"):
        schema_of(AGE).as_model("quadratic")
    with pytest.raises(InputError, match="name 'linear' or 'additive' here"):
        schema_of(AGE).as_model("auto")
