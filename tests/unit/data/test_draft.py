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
    assert "period = 24" in asked["hour"] and "--log income" in asked["income"]
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
    assert "some are huge" in question and question.endswith("--log x.")
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
    assert left.name == "day" and left.reason.startswith("a date; to use it, write it as a number")


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
