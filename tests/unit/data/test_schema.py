"""The schema: what it refuses, TOML both ways, its hash, and the draft from a file."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda import data
from tacenda.data import CategoricalColumn, Label, NumericColumn, Schema
from tacenda.errors import InputError, PrivacyError


def fields(**changes):
    return {
        "name": "clinic",
        "columns": [
            {"kind": "numeric", "name": "age", "low": 0, "high": 100},
            {
                "kind": "categorical",
                "name": "ward",
                "levels": ["north", "south"],
                "unknown": "column",
            },
        ],
        "label": {"name": "ill", "classes": ["no", "yes"]},
        **changes,
    }


def test_features_follow_the_columns():
    assert Schema.build(**fields()).feature_names == (
        "age",
        "ward=north",
        "ward=south",
        "ward=<other>",
    )
    assert Schema.build(**fields(intercept=True)).feature_names[-1] == "intercept"


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(texts, min_size=2, max_size=5, unique=True), texts, st.floats(-1e9, 1e9), st.booleans()
)
def test_toml_round_trip_with_any_text(levels, notes, low, confirmed):
    schema = Schema(
        name="t",
        notes=notes,
        columns=(
            NumericColumn(
                name="n", low=low, high=low + abs(low) + 1, impute=low, confirmed=confirmed
            ),
            CategoricalColumn(name="c", levels=tuple(levels), impute=levels[0]),
        ),
        label=Label(name="y", low=-1, high=2.5),
        node_column="site",
        missing="impute",
    )
    assert Schema.from_toml(schema.to_toml()) == schema


def test_files(tmp_path):
    schema = Schema.build(**fields())
    schema.write(tmp_path / "s.toml")
    assert Schema.read(tmp_path / "s.toml") == schema
    (tmp_path / "bad.toml").write_text("name = [")
    with pytest.raises(InputError, match="not valid TOML"):
        Schema.read(tmp_path / "bad.toml")
    (tmp_path / "latin.toml").write_bytes("name = 'é'".encode("latin1"))
    with pytest.raises(InputError, match="UTF-8"):
        Schema.read(tmp_path / "latin.toml")
    with pytest.raises(InputError, match="is not there"):
        Schema.read(tmp_path / "none.toml")


def test_the_hash_covers_what_shapes_the_encoding_and_nothing_else():
    base = Schema.build(**fields())
    assert len(base.hash()) == 64
    assert base.hash() == Schema.build(**fields(name="other", notes="words")).hash()
    changed = fields()
    changed["columns"][0]["confirmed"] = False
    assert Schema.build(**changed).hash() == base.hash()
    changed["columns"][0]["high"] = 101
    assert Schema.build(**changed).hash() != base.hash()
    assert Schema.build(**fields(intercept=True)).hash() != base.hash()
    assert Schema.build(**fields(row_norm=2.0)).hash() != base.hash()
    columns = fields()["columns"]
    for scale, same in (("unit", True), ("symmetric", False)):
        named = Schema.build(**fields(columns=[{**columns[0], "scale_to": scale}, *columns[1:]]))
        assert (named.hash() == base.hash()) is same


def test_the_hash_of_a_schema_stays_what_it_is():
    base = Schema.build(**fields())
    assert base.hash() == "29092d6f9df3b0546351f3382bca1318a682b0a5a86f6f73fada57a916ece4a2"
    columns = fields()["columns"]
    columns[0]["scale_to"] = "symmetric"
    label = {"name": "pay", "low": 0, "high": 5, "scale_to": "symmetric"}
    other = Schema.build(**fields(columns=columns, label=label))
    assert other.hash() == "6b66feaf9fc760a8574ebc170a51f3408c9d0e57b7b280f6c1ed524ee4b230c1"


NUMERIC = {"kind": "numeric", "name": "age", "low": 0, "high": 100}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"columns": []}, "columns"),
        ({"columns": [NUMERIC, NUMERIC]}, "must be distinct.*'age'"),
        ({"columns": [{**NUMERIC, "high": 0}]}, "low must be below high"),
        ({"columns": [{**NUMERIC, "high": float("inf")}]}, "both finite"),
        ({"columns": [{**NUMERIC, "impute": 200}]}, r"impute must be in \[0, 100\]"),
        ({"columns": [{**NUMERIC, "hihg": 3}]}, "hihg"),
        (
            {"columns": [{"kind": "categorical", "name": "c", "levels": ["a", "a"]}]},
            "must be distinct",
        ),
        (
            {"columns": [{"kind": "categorical", "name": "c", "levels": ["a"], "impute": "b"}]},
            "one of its levels",
        ),
        ({"columns": [{"kind": "text", "name": "c"}]}, "columns.0"),
        ({"label": {"name": "y"}}, "either classes or both"),
        ({"label": {"name": "y", "classes": ["a", "b"], "low": 0}}, "either classes or both"),
        (
            {"label": {"name": "y", "classes": ["a", "b"], "scale_to": "symmetric"}},
            "scale_to is for numbers",
        ),
        ({"label": {"name": "y", "classes": ["a"]}}, "at least two"),
        (
            {"label": {"name": "age", "classes": ["a", "b"]}},
            "label 'age' must not be among the columns",
        ),
        ({"node_column": "age"}, "node_column 'age' must not be"),
        ({"missing": "impute"}, r"\['age', 'ward'\] have none"),
        ({"missing": "guess"}, "missing"),
        ({"row_norm": 0}, "row_norm"),
    ],
)
def test_bad_schemas_are_one_sentence(changes, words):
    with pytest.raises(InputError, match=words) as caught:
        Schema.build(**fields(**changes))
    assert "\n" not in str(caught.value)


CSV = "age,city,id,flat,who\n31,Rome,a1,1,yes\n47,Oslo,b2,1,no\n?,Rome,c3,1,no\n"


def test_a_draft_marks_everything_as_to_be_confirmed(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(CSV + "".join(f"{30 + k},Bern,z{k},1,yes\n" for k in range(80)))
    schema = data.draft_schema(path, label="who")
    assert [(c.name, c.kind) for c in schema.columns] == [
        ("age", "numeric"),
        ("city", "categorical"),
    ]
    assert (schema.columns[0].low, schema.columns[0].high) == (30, 110)
    assert schema.columns[0].scale_to == "symmetric" and schema.intercept
    assert schema.columns[1].levels == ("Bern", "Oslo", "Rome")
    assert schema.label.classes == ("no", "yes")
    assert schema.unconfirmed == ("age", "city", "who")
    assert "id" in schema.notes and "flat" in schema.notes and "missing" in schema.notes
    text = schema.to_toml()
    assert text.count("confirmed = false  # read from the data: to be confirmed as public") == 3
    assert Schema.from_toml(text) == schema
    with pytest.raises(PrivacyError, match="age.*city.*who.*confirmed = true"):
        schema.require_confirmed()
    schema.confirmed().require_confirmed()


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        (["0.013", "0.0987"], (0.013, 0.099)),
        (["-1234", "77"], (-1300, 100)),
        (["0", "1"], (0, 1)),
        (["5", "95"], (5, 95)),
    ],
)
def test_drafted_bounds_are_rounded_outwards(values, bounds):
    column = data.draft_schema({"x": values, "y": ["a", "b"]}, label="y").columns[0]
    assert (column.low, column.high) == pytest.approx(bounds)


def test_drafted_labels():
    X = {"x": ["1", "2", "3"]}
    assert data.draft_schema({**X, "y": ["10", "9", "10"]}).label.classes == ("9", "10")
    numeric = data.draft_schema({**X, "y": ["0.5", "9", "10"]}).label
    assert (numeric.low, numeric.high, numeric.classes) == (0, 10, None)
    with pytest.raises(InputError, match="fewer than two classes"):
        data.draft_schema({**X, "y": ["a", "a", "a"]})
    with pytest.raises(InputError, match="label must be a column of.*'z'"):
        data.draft_schema({**X, "y": ["a", "b", "a"]}, label="z")
    with pytest.raises(InputError, match="no column that can be encoded"):
        data.draft_schema({"x": ["1", "1"], "y": ["a", "b"]})


def test_counts_are_learnt_in_units_of_a_typical_one_and_the_hash_knows_it():
    label = Label(name="visits", low=0, high=12, typical=3)
    assert label.centre_and_reach == (0.0, 3.0)
    assert label.encoded_range == (0.0, 4.0)
    for wrong in ({"low": 1}, {"typical": 13}, {"typical": 0}, {"scale_to": "symmetric"}):
        with pytest.raises(ValueError, match="typical"):
            Label(**{"name": "visits", "low": 0, "high": 12, "typical": 3, **wrong})
    with pytest.raises(ValueError, match="typical is for numbers"):
        Label(name="ill", classes=("no", "yes"), typical=3)
    columns = (NumericColumn(name="age", low=0, high=100),)
    kept, scaled, symmetric = (
        Schema(
            name="clinic", columns=columns, label=Label(name="visits", low=0, high=12, **how)
        ).hash()
        for how in ({}, {"typical": 3}, {"scale_to": "symmetric"})
    )
    assert len({kept, scaled, symmetric}) == 3
