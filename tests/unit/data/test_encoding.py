"""Encoding by the schema alone: values by hand, every kind of bad record,
and no cell in any message."""

import warnings

import numpy as np
import pytest

from tacenda import data
from tacenda.data import Schema
from tacenda.data.encoding import encode_features
from tacenda.errors import InputError, PrivacyError

SECRET = "zanzibar"


def schema(**changes):
    base = {
        "name": "clinic",
        "columns": [
            {"kind": "numeric", "name": "age", "low": 20, "high": 70, "impute": 45},
            {
                "kind": "categorical",
                "name": "ward",
                "levels": ["north", "south"],
                "impute": "south",
            },
        ],
        "label": {"name": "ill", "classes": ["no", "yes"]},
    }
    return Schema.build(**{**base, **changes})


GOOD = {"age": ["30", "70", "20"], "ward": ["south", "north", "south"], "ill": ["yes", "no", "no"]}


def undivided(d):
    return d.X * d.row_scale


def test_values_by_hand():
    d = data.encode(schema(), GOOD)
    np.testing.assert_allclose(undivided(d), [[0.2, 0, 1], [1, 1, 0], [0, 0, 1]])
    assert d.y.tolist() == [1, 0, 0] and d.classes == ("no", "yes") and d.norm == 1.0
    assert d.row_scale == schema().row_scale == pytest.approx(np.sqrt(2))
    assert (
        d.feature_names == ("age", "ward=north", "ward=south") and d.schema_hash == schema().hash()
    )


def test_out_of_bounds_and_infinite_values_are_clipped():
    d = data.encode(schema(), {**GOOD, "age": ["-5", "1e300", "inf"]})
    np.testing.assert_allclose(undivided(d)[:, 0], [0, 1, 1])


def test_no_row_is_shortened_and_none_is_longer_than_1():
    s = schema(intercept=True)
    d = data.encode(s, GOOD)
    np.testing.assert_allclose(d.X, np.array([[0.2, 0, 1, 1], [1, 1, 0, 1], [0, 0, 1, 1]]) / 3**0.5)
    assert np.linalg.norm(d.X, axis=1).max() == pytest.approx(1.0)
    assert s.shortened_by == 1.0 and schema(intercept=True, row_norm=10.0).shortened_by == 1.0
    np.testing.assert_array_equal(encode_features(s, GOOD), d.X)


def test_a_smaller_norm_shortens_rows_with_the_intercept_inside():
    assert schema(row_norm=1.0, intercept=True).shortened_by == pytest.approx(3**0.5)
    d = data.encode(schema(row_norm=1.0, intercept=True), GOOD)
    np.testing.assert_allclose(np.linalg.norm(d.X, axis=1), 1.0)
    np.testing.assert_allclose(d.X[1], np.array([1, 1, 0, 1]) / np.sqrt(3))
    assert d.feature_names[-1] == "intercept"


def test_sparse_is_the_same_without_stored_zeros():
    for intercept in (False, True):
        s = schema(row_norm=1.0, intercept=intercept)
        dense, sparse = data.encode(s, GOOD), data.encode(s, GOOD, sparse=True, dtype=np.float32)
        assert (
            sparse.X.format == "csr" and sparse.X.dtype == np.float32 and (sparse.X.data != 0).all()
        )
        np.testing.assert_allclose(sparse.X.toarray(), dense.X, rtol=1e-6)


def test_unknown_levels():
    table = {**GOOD, "ward": ["south", SECRET, "north"]}
    with pytest.raises(
        InputError, match="'ward' of record 2 holds a level.*unknown = 'column'"
    ) as caught:
        data.encode(schema(), table)
    assert SECRET not in str(caught.value)
    columns = [
        schema().columns[0].model_dump(),
        {**schema().columns[1].model_dump(), "unknown": "column"},
    ]
    d = data.encode(schema(columns=columns), table)
    np.testing.assert_allclose(undivided(d)[:, 1:], [[0, 1, 0], [0, 0, 1], [1, 0, 0]])


MISSING = {"age": ["30", "?", "20"], "ward": ["south", "north", ""], "ill": ["yes", "no", "no"]}


def test_missing_values_as_declared():
    d = data.encode(schema(missing="drop"), MISSING)
    np.testing.assert_allclose(undivided(d), [[0.2, 0, 1]])
    assert any("leaves out records" in note for note in d.notes)
    d = data.encode(schema(missing="impute"), MISSING)
    np.testing.assert_allclose(undivided(d), [[0.2, 0, 1], [0.5, 1, 0], [0, 0, 1]])
    assert not d.notes
    with pytest.raises(InputError, match="record 2 has no value of"):
        data.encode(schema(missing="error"), MISSING)
    with pytest.raises(InputError, match="record 1 has no 'ill'"):
        data.encode(schema(missing="impute"), {**MISSING, "ill": [None, "no", "no"]})
    with pytest.raises(InputError, match="none is left.*impute"):
        data.encode(schema(), {**GOOD, "age": ["?", "?", "?"]})


def test_bad_cells_are_named_by_place_only():
    for table, words in [
        ({**GOOD, "age": ["30", "31", SECRET]}, "column 'age' must be numeric, but record 3"),
        (
            {**GOOD, "ill": ["yes", SECRET, "no"]},
            "label 'ill' of record 2 is not one of the declared classes",
        ),
        (
            {"age": ["30"], "wrad": ["south"], "ill": ["no"]},
            r"lacks the schema's columns \['ward'\], it has.*'wrad'",
        ),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            data.encode(schema(), table)
        assert SECRET not in str(caught.value)
        assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_one_class_only_is_fine_when_the_schema_declares_two():
    d = data.encode(schema(), {**GOOD, "ill": ["no", "no", "no"]})
    assert d.y.tolist() == [0, 0, 0] and len(d.classes) == 2


def test_a_node_with_one_record():
    d = data.encode(schema(node_column="site"), {**GOOD, "site": ["b", "a", "b"]})
    shards = data.partition.by_column(d.X, d.y, d.nodes)
    assert shards.labels == ("a", "b") and [len(y) for _, y in shards] == [1, 2]


def test_numeric_labels_are_clipped():
    d = data.encode(
        schema(label={"name": "ill", "low": 0, "high": 5}), {**GOOD, "ill": ["-3", "2.5", "9"]}
    )
    assert d.y.tolist() == [0, 2.5, 5] and d.classes is None


def test_unconfirmed_values_warn_once_or_are_refused():
    draft = data.draft_schema(GOOD, label="ill")
    with pytest.warns(data.UnconfirmedSchemaWarning, match="age.*ward.*ill") as caught:
        d = data.encode(draft, GOOD)
    notes = [n for n in d.notes if "read from" in n]
    assert (
        len(caught) == 1
        and len(notes) == 1
        and all(name in notes[0] for name in ("age", "ward", "ill"))
    )
    with pytest.raises(PrivacyError, match="confirmed = true"):
        data.encode(draft, GOOD, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data.encode(draft.confirmed(), GOOD, strict=True)


def test_frames_of_every_kind_with_nulls():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    table = {"age": [30, None, 20], "ward": ["south", "north", None], "ill": ["yes", "no", "no"]}
    expected = data.encode(schema(missing="impute"), MISSING).X
    for frame in (
        pandas.DataFrame(table),
        polars.DataFrame(table),
        pandas.DataFrame(table).convert_dtypes(),
        arrow.table(table),
        polars.DataFrame(table).with_columns(polars.col("ward").cast(polars.Categorical)),
        pandas.DataFrame(table).astype({"ward": "category"}),
    ):
        np.testing.assert_allclose(data.encode(schema(missing="impute"), frame).X, expected)
    with pytest.raises(InputError, match="frame, a mapping of columns or a path, not int"):
        data.encode(schema(), 3)


def test_whole_numbers_match_levels_written_without_a_point():
    columns = [{"kind": "categorical", "name": "grade", "levels": ["1", "2"]}]
    s = schema(columns=columns, label={"name": "ill", "classes": ["0", "1"]})
    d = data.encode(s, {"grade": np.array([2.0, 1.0]), "ill": np.array([1, 0])})
    np.testing.assert_array_equal(d.X, [[0, 1], [1, 0]])
    assert d.y.tolist() == [1, 0]


def test_features_without_a_label():
    scale = np.sqrt(2)
    np.testing.assert_allclose(
        scale * encode_features(schema(), {"age": ["30"], "ward": ["south"]}), [[0.2, 0, 1]]
    )
    with pytest.raises(InputError, match="record 1 has no value of .*missing_indicator"):
        encode_features(schema(), {"age": ["?"], "ward": ["south"]})
    np.testing.assert_allclose(
        scale * encode_features(schema(missing="impute"), {"age": ["?"], "ward": ["north"]}),
        [[0.5, 1, 0]],
    )


def test_the_encoding_of_a_record_does_not_depend_on_the_others():
    rng = np.random.default_rng(0)
    n = 40
    table = {
        "age": rng.uniform(0, 90, n),
        "ward": rng.choice(["north", "south"], n).astype(object),
        "ill": rng.choice(["no", "yes"], n).astype(object),
    }
    whole = data.encode(schema(row_norm=1.0), table)
    for k in (0, 17, 39):
        alone = data.encode(
            schema(row_norm=1.0), {name: cells[k : k + 1] for name, cells in table.items()}
        )
        np.testing.assert_array_equal(alone.X[0], whole.X[k])


def test_a_symmetric_number_is_zero_in_the_middle_of_its_bounds():
    label = data.Label(name="y", classes=("a", "b"))
    schema = data.Schema(
        columns=(data.NumericColumn(name="x", low=10, high=30, scale_to="symmetric"),), label=label
    )
    X = data.encode(schema, {"x": [5.0, 10.0, 15.0, 20.0, 30.0, 99.0], "y": list("ababab")}).X
    assert X.ravel().tolist() == [-1.0, -1.0, -0.5, 0.0, 1.0, 1.0]


def test_a_symmetric_label_is_clipped_scaled_and_says_how_to_map_back():
    label = data.Label(name="y", low=10, high=30, scale_to="symmetric")
    schema = data.Schema(columns=(data.NumericColumn(name="x", low=0, high=1),), label=label)
    y = data.encode(schema, {"x": [0.0] * 4, "y": [0.0, 15.0, 20.0, 30.0]}).y
    assert y.tolist() == [-1.0, -0.5, 0.0, 1.0]
    centre, reach = label.centre_and_reach
    assert (centre + reach * y).tolist() == [10.0, 15.0, 20.0, 30.0]


def test_numbers_by_compiled_loops_are_those_of_float(monkeypatch):
    """Many numbers are read by a compiled loop, few by Python: the same rows, the same errors."""
    from tacenda.data import coded, encoding

    cells = ["1", " 2.5 ", "-0", "1e-3", "inf", "1_000", "", "?", " ? ", "99", "99.0", " 99", "NaN"]
    more = [" -nan ", "+NAN", "0x1", "one", "١", "1,5", "\t7\n", "-1e400", "1e-400", "99 "]
    rng = np.random.default_rng(0)
    told = 0
    for size in (1, 2, 5):
        for _ in range(100):
            column = [str(c) for c in rng.choice(cells if rng.random() < 0.7 else more, size)]
            for missing in ("impute", "drop", "error"):
                s = schema_of(missing)
                table = {"x": column, "y": ["0"] * size}
                found = []
                for few in (0, 2000):
                    with monkeypatch.context() as patch:
                        patch.setattr(coded, "FEW", few)
                        try:
                            d = encoding.encode(s, table)
                            found.append((d.X.tobytes(), d.y.tobytes()))
                        except InputError as error:
                            found.append((str(error),))
                assert found[0] == found[1], (column, missing)
                told += len(found[0]) == 1
    assert told > 50  # of both kinds


def test_every_decimal_is_read_to_the_last_bit(monkeypatch):
    from tacenda.data import coded

    monkeypatch.setattr(coded, "FEW", 0)
    rng = np.random.default_rng(1)
    floats = rng.standard_normal(2000) * 10.0 ** rng.integers(-30, 30, 2000)
    whole = rng.integers(0, 2**62, 500) >> rng.integers(0, 62, 500)
    shapes = [repr(float(x)) for x in floats] + [f"{x:.{k % 17}f}" for k, x in enumerate(floats)]
    shapes += [f"{x:.{k % 17}E}" for k, x in enumerate(floats)] + [str(x) for x in whole]
    shapes += ["9007199254740992", "9007199254740993", "0.1e23", "1e22", "1e23", "5.", ".5", "+.5"]
    shapes += ["-0", "-0.0e5", "0e99999", "1e", "e5", ".", "-", "", "1e+", "1.2.3", "1e5.0", "--1"]
    values, known = coded.Entries.of(shapes).numbers
    for word, value, is_known in zip(shapes, values, known, strict=True):
        assert coded.is_number(word) == is_known, word
        if is_known:
            assert np.float64(word).tobytes() == value.tobytes(), word


def schema_of(missing):
    return data.Schema.build(
        columns=[{"kind": "numeric", "name": "x", "low": -5, "high": 200, "impute": 3}],
        label={"name": "y", "classes": ["0", "1"]},
        missing=missing,
        missing_values=["?", "99"],
    )
