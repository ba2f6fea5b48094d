"""Transforms of numbers and indicators of missing values: by hand, within their bounds for every
float, and back to the raw value."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda import data
from tacenda.data.columns import NumericColumn
from tacenda.data.encoding import encode_features
from tacenda.data.schema import Schema
from tacenda.errors import InputError

LABEL = {"name": "y", "classes": ["a", "b"]}


def numeric(**fields):
    return {"kind": "numeric", "name": "x", "low": 0.0, "high": 100.0, **fields}


def schema(*columns, **fields):
    return Schema.build(columns=columns, label=LABEL, **fields)


def encoded(column, values, **fields):
    s = schema(column, **fields)
    return s.row_scale * data.encode(s, {"x": values, "y": ["a", "b"] * (len(values) // 2)}).X


def test_log1p_by_hand():
    X = encoded(numeric(transform="log1p", high=99.0), [0.0, 9.0, 99.0, 1e9])
    np.testing.assert_allclose(X[:, 0], [0, 0.5, 1, 1])  # log 10 is half of log 100
    X = encoded(numeric(transform="log1p", high=99.0, scale_to="symmetric"), [0.0, 9.0, -5.0, 99.0])
    np.testing.assert_allclose(X[:, 0], [-1, 0, -1, 1], atol=1e-15)


def test_standardise_by_hand():
    column = numeric(transform="standardise", centre=40, scale=20)
    np.testing.assert_allclose(encoded(column, [40.0, 60.0, 0.0, 1e9])[:, 0], [0, 1, -2, 3])


def test_cyclic_puts_the_last_hour_beside_the_first():
    column = numeric(transform="cyclic", period=24, high=24)
    X = encoded(column, [0.0, 6.0, 12.0, 24.0])
    np.testing.assert_allclose(X, [[0, 1], [1, 0], [0, -1], [0, 1]], atol=1e-15)
    late, noon = encoded(column, [23.0, 12.0])
    assert np.linalg.norm(late - X[0]) < 0.27 < 1.9 < np.linalg.norm(noon - X[0])


@pytest.mark.parametrize("sparse", [False, True])
def test_a_missing_number_is_said_and_never_dropped(sparse):
    columns = (
        numeric(missing_indicator=True),
        numeric(name="z", missing_indicator=True, impute=50),
        {"kind": "categorical", "name": "c", "levels": ["u", "v"], "missing_indicator": True},
    )
    s = schema(*columns)
    table = {"x": ["?", "50"], "z": ["25", "NaN"], "c": ["v", ""]}
    X = data.encode(s, {**table, "y": ["a", "b"]}, sparse=sparse).X
    X = s.row_scale * (X.toarray() if sparse else X)
    assert s.feature_names == ("x", "missing(x)", "z", "missing(z)", "c=u", "c=v", "missing(c)")
    np.testing.assert_allclose(X, [[0, 1, 0.25, 0, 0, 1, 0], [0.5, 0, 0.5, 1, 0, 0, 1]])
    np.testing.assert_allclose(s.row_scale * encode_features(s, table), X)
    assert schema(*columns, missing="impute").missing == "impute"  # nothing is left to impute


def test_every_way_to_write_nan_is_missing():
    s = schema(numeric(missing_indicator=True), missing_values=[])
    X = encode_features(s, {"x": ["nan", "-NaN", "", "+NAN", None, float("nan"), "inf", "-1e999"]})
    np.testing.assert_array_equal(X[:, 1], [1, 1, 1, 1, 1, 1, 0, 0])
    np.testing.assert_array_equal(X[:, 0], [0, 0, 0, 0, 0, 0, 1, 0])


finite = st.floats(allow_nan=False, allow_infinity=False)
shares = st.floats(0.01, 100)


@st.composite
def columns(draw):
    how = draw(st.sampled_from(["clip", "log1p", "standardise", "cyclic"]))
    low, high = sorted(draw(st.tuples(finite, finite)))
    fields = numeric(low=low, high=high, transform=how)
    size = max(abs(low), abs(high)) or 1.0
    if how == "standardise":
        fields |= {"centre": draw(st.sampled_from([low, high, 0.0])), "scale": size * draw(shares)}
    elif how == "cyclic":
        fields |= {"period": size * draw(shares)}
    else:
        fields |= {"scale_to": draw(st.sampled_from(["unit", "symmetric"]))}
    fields |= {"missing_indicator": draw(st.booleans())}
    try:
        return NumericColumn(**fields)
    except ValueError:  # refused: bounds equal, too wide or too near
        return NumericColumn(**numeric(transform="log1p"))


@settings(max_examples=200, deadline=None)
@given(columns(), st.lists(st.floats(), min_size=1, max_size=6), st.floats(1e-3, 1e3))
def test_every_row_keeps_its_bounds_for_every_float(column, values, norm):
    s = Schema(columns=(column,), label=data.Label(**LABEL), row_norm=norm, intercept=True)
    values = [v if column.missing_indicator or v == v else 0.0 for v in values]
    X, alone = encode_features(s, {"x": np.array(values)}), column.encoded(np.array(values))
    assert np.isfinite(X).all() and X.shape == (len(values), len(s.feature_names))
    assert (np.linalg.norm(X, axis=1) <= 1 + 1e-12).all()
    free = s.model_copy(update={"row_norm": None})
    whole = encode_features(free, {"x": np.array(values)}) * free.row_scale
    assert (np.linalg.norm(whole, axis=1) <= free.largest_norm * (1 + 1e-12)).all()
    gone = np.isnan(values)
    np.testing.assert_allclose(whole[~gone, : len(alone[0])], alone[~gone], atol=1e-300, rtol=1e-12)
    if norm >= free.largest_norm:
        np.testing.assert_array_equal(X * s.row_scale, whole)
    present = alone[~np.isnan(values)]
    if column.transform == "standardise":
        ends = column.encoded(np.array([column.low, column.high]))
        assert ((ends[0] <= present) & (present <= ends[1])).all()
    else:
        least = 0.0 if column.transform != "cyclic" and column.scale_to == "unit" else -1.0
        assert ((least <= present) & (present <= 1.0)).all()


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["clip", "log1p", "standardise", "cyclic"]), st.floats(0, 1), st.booleans())
def test_rules_say_how_a_feature_is_computed(how, share, symmetric):
    extra = {"standardise": {"centre": 30, "scale": 10}, "cyclic": {"period": 1000.0}}.get(how, {})
    if symmetric and not extra:
        extra = {"scale_to": "symmetric"}
    column = NumericColumn(**numeric(transform=how, low=0.5, high=900.0, **extra))
    raw = 0.5 + share * 899.5
    features = column.encoded(np.array([raw]))
    quantities = {
        "x": raw,
        "log1p(x)": math.log1p(raw),
        "sin(2 pi x / 1000)": math.sin(2 * math.pi * raw / 1000),
        "cos(2 pi x / 1000)": math.cos(2 * math.pi * raw / 1000),
    }
    by_rule = [rule.offset + rule.slope * quantities[rule.quantity] for rule in column.rules]
    np.testing.assert_allclose(features[0], by_rule, atol=1e-12)


def test_rules_of_a_whole_schema_are_its_features():
    levels = {"kind": "categorical", "name": "c", "levels": ["u"], "unknown": "column"}
    s = schema(numeric(missing_indicator=True), levels, intercept=True)
    assert [rule.feature for rule in s.rules] == list(s.feature_names)
    assert [rule.column for rule in s.rules] == ["x", "x", "c", "c", None]
    assert [rule.quantity for rule in s.rules] == [
        "x",
        "x is missing",
        "c is 'u'",
        "c is none of its levels",
        "1",
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"transform": "log"}, "transform"),
        ({"transform": "log1p", "low": -1}, "low above -1, not -1; declare low = 0"),
        (
            {"transform": "log1p", "low": 1e15, "high": 1e15 + 1},
            "too .* for transform = 'log1p'.*use 'clip'",
        ),
        ({"transform": "standardise", "scale": 1}, "'standardise' needs centre"),
        ({"transform": "standardise", "centre": 1}, "'standardise' needs scale"),
        ({"transform": "standardise", "centre": 0, "scale": 0}, "scale must be finite and above 0"),
        ({"transform": "standardise", "centre": 0, "scale": 0.01}, "within 1000 scales"),
        ({"transform": "cyclic"}, "'cyclic' needs period"),
        ({"transform": "cyclic", "period": -1}, "period must be finite and above 0, not -1"),
        ({"transform": "cyclic", "period": 1e-5}, r"within 1e\+06 periods"),
        ({"transform": "cyclic", "period": 7, "scale_to": "symmetric"}, "scale_to is for"),
        ({"period": 7}, "'clip' takes no period"),
        ({"low": -1.7e308, "high": 1.7e308}, "high - low must be finite"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(fields, words):
    with pytest.raises(InputError, match=words) as caught:
        schema(numeric(**fields))
    assert "'x'" in str(caught.value) or "transform" in str(caught.value)


def test_a_level_of_its_own_needs_no_stand_in():
    with pytest.raises(InputError, match="leave impute out"):
        schema(
            {
                "kind": "categorical",
                "name": "c",
                "levels": ["u"],
                "impute": "u",
                "missing_indicator": True,
            }
        )


def test_new_fields_change_the_hash_and_come_through_toml():
    plain = schema(numeric())
    for more in (
        {"transform": "log1p"},
        {"transform": "cyclic", "period": 7},
        {"transform": "standardise", "centre": 1, "scale": 2},
        {"missing_indicator": True},
    ):
        changed = schema(numeric(**more))
        assert changed.hash() != plain.hash()
        assert Schema.from_toml(changed.to_toml()) == changed
    sourced = schema(numeric(source="the questionnaire"))
    assert sourced.hash() == plain.hash() and 'source = "the questionnaire"' in sourced.to_toml()
    assert "transform" not in plain.to_toml() and "missing_indicator" not in plain.to_toml()
