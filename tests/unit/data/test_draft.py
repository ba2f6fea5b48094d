"""The draft of a schema: what it takes for codes, identifiers and amounts, what it asks, and the
bounds that it proposes."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacenda import data
from tacenda.data.draft import Draft
from tacenda.data.spread import inner, outward
from tacenda.errors import InputError

N = 600
rng = np.random.default_rng(3)
TABLE = {
    "patient_id": [str(10_000 + 7 * k) for k in range(N)],
    "income": np.exp(rng.normal(10, 1.5, N)),
    "branch": rng.choice([3, 8, 9, 40], N),
    "zip": rng.integers(1000, 1020, N),
    "region": [f"0{k % 5 + 1}" for k in range(N)],
    "years": rng.integers(0, 41, N),
    "visits": rng.integers(0, 5, N),
    "sex": [1 + k % 2 for k in range(N)],
    "hour": rng.integers(0, 24, N),
    "age": rng.integers(0, 95, N),
    "name": [f"n{k}" for k in range(N)],
    "word": [f"w{k % 90}" for k in range(N)],
    "flat": ["x"] * N,
    "ill": ["no", "yes"] * (N // 2),
}
TABLE = {k: np.array(v) if k in ("income",) else list(map(str, v)) for k, v in TABLE.items()}


def drafted(**told):
    return Draft.of(TABLE, label="ill", **told)


def test_codes_identifiers_and_amounts_are_told_apart():
    found = drafted()
    kinds = {c.name: (c.kind, getattr(c, "levels", None)) for c in found.schema.columns}
    assert kinds["branch"] == ("categorical", ("3", "8", "9", "40"))
    assert kinds["region"] == ("categorical", ("01", "02", "03", "04", "05"))
    assert kinds["zip"][0] == kinds["visits"][0] == "categorical"
    assert all(kinds[name][0] == "numeric" for name in ("income", "years", "sex", "hour", "age"))
    reasons = {c.name: c.reason for c in found.left_out}
    assert set(reasons) == {"patient_id", "name", "word", "flat"}
    assert "identifier" in reasons["patient_id"] and "--numeric" in reasons["patient_id"]
    assert "identifier" in reasons["name"] and "more than 60 levels" in reasons["word"]
    assert all(name in found.schema.notes for name in reasons)


def test_only_padded_digits_look_like_codes():
    for words, kind in (
        ([f"{k % 100}.0" for k in range(N)], "numeric"),
        ([f"{k % 100}" for k in range(N)], "numeric"),
        ([f"-{k % 100}" for k in range(N)], "numeric"),
        ([f"{k % 50:03d}" for k in range(N)], "categorical"),
    ):
        table = {"x": words, "y": ["a", "b"] * (N // 2)}
        assert data.draft_schema(table).columns[0].kind == kind


def test_no_code_is_silently_a_number():
    asked = {c.name: c.question for c in drafted().columns if c.question}
    assert "--numeric branch" in asked["branch"] and "--numeric visits" in asked["visits"]
    assert "--categorical years" in asked["years"]
    assert "--cyclic hour=24" in asked["hour"] and "--log income" in asked["income"]
    assert "sex" not in asked and "age" not in asked
    assert set(drafted().questions) == set(asked.values())
    # Where the values are is for the holder's eyes: notes stay when all else is confirmed
    income = next(c for c in drafted().columns if c.name == "income")
    assert "% of this range" in income.reason and "%" not in drafted().schema.notes


def test_what_the_user_says_counts():
    found = drafted(
        categorical=["years"], numeric=["visits", "patient_id"], drop=["zip"], log=["income"]
    )
    kinds = {c.name: c for c in found.schema.columns}
    assert kinds["years"].kind == "categorical" and len(kinds["years"].levels) == 41
    assert kinds["visits"].kind == kinds["patient_id"].kind == "numeric" and "zip" not in kinds
    assert kinds["income"].transform == "log1p"
    assert not {"years", "visits", "income"} & {c.name for c in found.columns if c.question}
    assert found.schema.unconfirmed == (*kinds, "ill")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"drop": ["zap"]}, "drop must be a column of.*not 'zap'"),
        ({"drop": ["zip"], "numeric": ["zip"]}, "'zip' cannot be both numeric and drop"),
        ({"drop": ["ill"]}, "'ill' cannot be both label and drop"),
        ({"numeric": ["name"]}, "'name' cannot be numeric: it holds text"),
    ],
)
def test_contradictions_are_one_sentence(told, words):
    with pytest.raises(InputError, match=words):
        drafted(**told)
    with pytest.raises(InputError, match="'x' cannot be log: it holds values of -1 or less"):
        data.draft_schema({"x": ["-7", "8"], "y": ["a", "b"]}, log=["x"])


def test_bounds_hold_99_percent_and_the_extremes_stand_beside_them():
    values = np.concatenate([rng.uniform(20, 80, 2000), [4e6]])
    found = Draft.of({"x": values, "y": [k % 2 for k in range(2001)]})
    (column,), seen = found.schema.columns, found.columns[0]
    assert (column.low, column.high) == seen.most_within == (20, 80)
    assert seen.all_within == (0, 4e6)
    years = rng.integers(1901, 2020, 2000)
    assert Draft.of({"x": years, "y": years % 2}).columns[0].most_within == (1900, 2020)
    assert not column.confirmed


def test_a_label_keeps_its_extremes_unless_they_are_far_away():
    x = {"x": rng.random(2000)}
    even = Draft.of({**x, "y": rng.uniform(0, 10, 2000)}).schema.label
    assert (even.low, even.high) == (0, 10)
    far = Draft.of({**x, "y": np.append(rng.uniform(0, 10, 1999), 1e6)}).schema.label
    assert (far.low, far.high) == (0, 10)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=40))
@example([9.999999900163214e299, -1.797693124862316e308])
def test_bounds_are_rounded_outwards_for_every_float(values):
    array = np.array(values)
    wide, near = outward(array), inner(array)
    finite = array[np.isfinite(array)]
    if wide is not None:
        assert wide[0] <= finite.min() < finite.max() <= wide[1] < np.inf
        assert np.isfinite(wide[1] - wide[0])
    if wide is not None and near is not None:
        slack = 1e-9 * max(map(abs, wide))
        assert wide[0] <= near[0] + slack and near[1] <= wide[1] + slack
    table = {"x": array, "y": [str(k % 2) for k in range(len(array))]}
    if len(array) > 1 and len(set(values)) > 1:
        low, high = (lambda c: (c.low, c.high))(data.draft_schema(table, numeric=["x"]).columns[0])
        assert np.isfinite(high - low) and low < high


def test_counts_with_outliers_and_heavy_tails_do_not_stretch_the_bounds():
    counts = rng.poisson(3, 2000)
    counts[:3] = 300, 400, 500
    found = Draft.of({"x": counts, "y": rng.random(2000)})
    assert found.columns[0].all_within == (0, 500)
    assert found.schema.columns[0].high == np.quantile(counts, 0.995, method="higher")
    money = np.exp(rng.normal(10, 1.1, 4000))
    money[:2] = 2e6, 3e6
    (question,) = Draft.of({"x": money, "y": rng.random(4000)}).questions
    assert "some huge values" in question and question.endswith("--log x.")
    plain = rng.normal(1000, 10, 4000)
    assert not Draft.of({"x": plain, "y": rng.random(4000)}).questions


def test_a_logarithmic_column_has_a_low_bound_of_its_own_magnitude():
    money = np.exp(rng.normal(10, 1.1, 4000))
    (column,) = Draft.of({"x": money, "y": rng.random(4000)}, log=["x"]).schema.columns
    exact = np.quantile(money, 0.005, method="lower")
    assert exact / 2 <= column.low <= exact
    small = Draft.of({"x": money / 1e6, "y": rng.random(4000)}, log=["x"]).schema.columns[0]
    assert small.low <= np.quantile(money / 1e6, 0.005, method="lower")


@pytest.mark.parametrize(
    "write",
    ["2020-{m:02}-{d:02}", "{d}.{m}.2020", "{d:02}/{m:02}/2020", "2020-{m:02}-{d:02} 10:30"],
)
def test_dates_are_named_as_dates(write):
    days = [write.format(d=k % 28 + 1, m=k // 28 % 12 + 1) for k in range(400)]
    found = Draft.of({"day": days, "x": rng.random(400), "y": ["a", "b"] * 200})
    (left,) = found.left_out
    assert left.name == "day" and left.reason == "a date; to use it as a year: --dates"


def test_columns_with_missing_cells_are_named():
    table = {"a": ["1.5", "", "2.5", "3"] * 9, "b": list("wxyz") * 9, "y": ["n", "?", "m", "n"] * 9}
    assert Draft.of(table).missing == ("a", "y")
    assert Draft.of(table, drop=["a"]).missing == ("y",)
    assert (
        Draft.of({**table, "a": ["1.5", "2", "2.5", "3"] * 9, "y": list("mnmn") * 9}).missing == ()
    )


def test_a_misspelt_column_gets_the_nearest_name():
    with pytest.raises(InputError, match=r"Did you mean 'income'\?"):
        drafted(log=["incme"])


def test_a_flag_of_two_values_is_no_amount_on_a_logarithmic_scale():
    table = {"urgent": [0] * 93 + [1] * 7, "age": list(range(100)), "ill": [0, 1] * 50}
    found = Draft.of(table, label="ill")
    assert not any("logarithmic" in question for question in found.questions)


def test_two_values_are_declared_as_such_and_kept_exactly():
    table = {
        "male": [0, 1] * 20,
        "code": [7.25, 1234.5] * 20,
        "three": [0.5, 1.5, 2.5, 0.5] * 10,
        "y": ["a", "b"] * 20,
    }
    male, code, three = data.draft_schema(table, label="y", numeric=["three"]).columns
    assert (male.two_valued, male.low, male.high) == (True, 0, 1)
    assert (code.two_valued, code.low, code.high) == (True, 7.25, 1234.5)
    assert not three.two_valued and not male.confirmed
    few = {name: values[:4] for name, values in table.items()}
    assert not data.draft_schema(few, label="y", numeric=["three"]).columns[0].two_valued
    again = data.Schema.from_toml(data.draft_schema(table, label="y").to_toml())
    assert again.columns[0].two_valued


def test_long_lists_are_kept_as_told():
    table = {"to": [f"w{k % 97}" for k in range(970)], "y": ["a", "b"] * 485}
    assert "more than 60 levels; to list all: --categorical to" in str(
        Draft.of({**table, "x": [k % 7 / 4 for k in range(970)]}, label="y").left_out
    )
    for told in ({"categorical": ["to"]}, {"levels": "all"}):
        (column,) = Draft.of(table, label="y", **told).schema.columns
        assert len(column.levels) == len(set(table["to"])) and column.unknown is None
    words = ["often"] * 50 + ["seldom"] * 30 + [f"w{k}" for k in range(70)] * 2
    table = {"to": words, "y": ["a", "b"] * (len(words) // 2)}
    (column,) = Draft.of(table, label="y", levels="most-frequent:2").schema.columns
    assert column.levels == ("often", "seldom") and column.unknown == "column"
    schema = data.Schema.build(columns=[column], label=LABEL, row_norm=1.0)
    rows = data.encode(schema.confirmed(), table).X
    assert rows.sum(axis=0).tolist() == [50, 30, 140]
    for wrong in ("few", "most-frequent", "most-frequent:0", "most-frequent:x", ":5"):
        with pytest.raises(InputError, match="levels must be all or most-frequent:50"):
            Draft.of(table, label="y", levels=wrong)


LABEL = {"name": "y", "classes": ["a", "b"]}


def test_numbers_that_start_again():
    found = drafted(cyclic={"hour": 24, "age": 10})
    columns = {column.name: column for column in found.schema.columns}
    assert (columns["hour"].low, columns["hour"].high, columns["hour"].period) == (0, 24, 24)
    assert columns["age"].transform == "cyclic" and columns["age"].high >= 94
    assert not any("hour" in question for question in found.questions)
    assert "Does hour start again after 24? If so: --cyclic hour=24." in drafted().questions
    for wrong, words in (
        ({"nope": 24}, "cyclic must be a column"),
        ({"word": 24}, "cannot be cyclic: it holds text"),
        ({"hour": 1e-9}, "hour.*give another period"),
    ):
        with pytest.raises(InputError, match=words):
            drafted(cyclic=wrong)
    with pytest.raises(InputError, match="cannot be both"):
        drafted(cyclic={"hour": 24}, log=["hour"])


@pytest.mark.parametrize(
    ("order", "words", "years"),
    [
        ("ymd", ["2013-01-01", "2014-07-02 12:00", "2016-12-31"], [2013, 2014.5]),
        ("ymd", ["2013/1/1", "2014-07-02T12:00:00.000+02:00"], [2013, 2014.5]),
        ("dmy", ["01.01.2013", "2.7.2014 12:00", "31.12.2016"], [2013, 2014.5]),
        ("mdy", ["01/01/2013", "7/2/2014 12:00", "12/31/2016"], [2013, 2014.5]),
    ],
)
def test_dates_are_years(order, words, years):
    table = {"day": words * 20, "x": [1.5, 2.5] * 10 * len(words)}
    table["y"] = ["a", "b"] * (10 * len(words))
    found = Draft.of(table, label="y", dates=True)
    column = found.schema.columns[0]
    assert (
        column.date == order
        and column.low == 2013
        and column.high == (2017 if "2016" in words[-1] else 2015)
    )
    assert not column.confirmed and data.Schema.from_toml(found.schema.to_toml()) == found.schema
    raw = data.NumericColumn(name="day", low=0, high=4000, date=order)
    encoded = data.encode(data.Schema.build(columns=[raw], label=LABEL, row_norm=1.0), table)
    np.testing.assert_allclose(encoded.X[:2, 0] * 4000, years, rtol=1e-12)
    assert Draft.of(table, label="y").left_out[0].name == "day"
    wrong = {**table, "day": [words[0], "2013-02-30", *table["day"][2:]]}
    schema = data.Schema.build(columns=[raw], label=LABEL)
    with pytest.raises(InputError, match=f"dates in the order '{order}'.*record 2") as caught:
        data.encode(schema, wrong)
    assert "30" not in str(caught.value)


def test_a_date_whose_order_is_open_is_asked_about_and_a_season_is_cyclic():
    table = {"day": ["01/02/2013", "03/04/2014"] * 20, "y": ["a", "b"] * 20}
    found = Draft.of(table, label="y", dates=True)
    assert found.questions[0].startswith("Is the day first in day?")
    season = Draft.of(table, label="y", cyclic={"day": 1}).schema.columns[0]
    assert (season.transform, season.period, season.date) == ("cyclic", 1, "dmy")
    levels = Draft.of(table, label="y", categorical=["day"]).schema.columns[0]
    assert levels.kind == "categorical"


def test_missing_cells_as_told():
    table = {"x": [1.5, None, 2.5, 3.5] * 10, "c": ["u", "v", "", "u"] * 10, "y": ["a", "b"] * 20}
    asked = Draft.of(table, label="y")
    assert asked.asks_about_missing and "are left out" in asked.schema.notes
    kept = Draft.of(table, label="y", missing="indicator")
    assert all(column.missing_indicator for column in kept.schema.columns)
    assert not kept.asks_about_missing and "missing" not in kept.schema.notes
    assert data.encode(kept.schema.confirmed(), table).n_records == 40
    dropped = Draft.of(table, label="y", missing="drop")
    assert not dropped.asks_about_missing and dropped.schema.missing == "drop"
    assert Draft.of(table, label="y", missing="error").schema.missing == "error"


def test_confirming_changes_nothing_else():
    from tacenda.data.schema_toml import confirmed

    schema = drafted(missing="drop").schema
    text = schema.to_toml().replace("low = 0.0\n", "low = 0.0  # never below\n")
    some = confirmed(text, ["age", "ill"], "the 'census'")
    found = data.Schema.from_toml(some)
    assert set(schema.unconfirmed) - set(found.unconfirmed) == {"age", "ill"}
    assert found.label.source == "the 'census'" and some.count("# never below") > 0
    every = data.Schema.from_toml(confirmed(some, found.unconfirmed, None))
    assert every.unconfirmed == () and every.hash() == schema.hash()
    assert every.label.source == "the 'census'"
    with pytest.raises(InputError, match="columns must be one of"):
        confirmed(text, ["nobody"], None)
