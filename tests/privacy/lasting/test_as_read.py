"""Records are known again as they were read: whatever is made of them, by whatever way in."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tacenda as tc
from tacenda.data.as_read import fingerprints, of_arrays
from tacenda.data.readers import read_table
from tacenda.errors import PrivacyError
from tacenda.privacy.lasting.fingerprints import marks_as_read
from tacenda.privacy.lasting.ledger_store import LedgerStore


def table(count: int = 400) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "age": rng.integers(20, 80, count).astype(float),
        "pay": np.round(rng.uniform(0, 9e4, count), 2),
        "hour": rng.integers(0, 24, count).astype(float),
        "ill": rng.choice(["no", "yes"], count),
    }


def words(columns: dict[str, Any], label: str | None = "ill") -> Any:
    features = {name: cells for name, cells in columns.items() if name != label}
    cells = tc.data.Table.of(columns).columns
    return fingerprints({name: cells[name] for name in features}, cells.get(label))


@pytest.mark.parametrize(
    "same",
    [
        ["1", "1.0", " 1.00 ", 1, 1.0, np.float32(1), "1e0", "+1"],
        ["0.1", 0.1, np.float32(0.1), ".1"],
        ["", None, float("nan"), "NA", "n/a", "NaN", "null", "?", "None", "<NA>"],
        ["0", "-0.0", 0, -0.0],
        ["Yes", "yes", " YES "],
        ["True", "true", True, "1", 1.0],
        ["Zürich", "Zu\u0308rich", "ZÜRICH"],
    ],
)
def test_one_value_has_one_fingerprint_however_it_is_written(same: list[Any]) -> None:
    found = [fingerprints({"a": np.array([cell], object)})[0] for cell in same]
    found += [
        fingerprints({"a": np.array([float(cell)])})[0]
        for cell in same
        if isinstance(cell, int | float) and not isinstance(cell, bool)
    ]
    assert all(np.array_equal(a, b) for a, b in pairwise(found))


def test_other_values_columns_or_places_have_other_fingerprints() -> None:
    cells = ["1", "2", "", "yes", "no", "1.0000002", "-1", "inf"]
    each = [
        tuple(fingerprints({name: np.array([cell], object)})[0])
        for cell in cells
        for name in ("a", "b")
    ]
    assert len(set(each)) == len(each)
    one, other = {"a": ["x"], "b": ["y"]}, {"a": ["y"], "b": ["x"]}
    assert not np.array_equal(words(one, None), words(other, None))
    # A label is not a feature with the same cell
    assert not np.array_equal(words({"a": ["x"], "ill": ["y"]}), words({"ill": ["x"], "a": ["y"]}))


def test_a_file_a_frame_and_float32_agree(tmp_path: Path) -> None:
    columns = table()
    columns["pay"][3] = np.nan
    frame = pd.DataFrame(columns)
    frame.to_csv(tmp_path / "t.csv", index=False)
    first = words(dict(read_table(tmp_path / "t.csv").columns))
    assert np.array_equal(first, words(columns))
    assert np.array_equal(first, words(dict(pd.read_csv(tmp_path / "t.csv").items())))
    reversed_columns = {name: columns[name] for name in reversed(columns)}
    assert np.array_equal(first, words(reversed_columns))
    X = frame[["hour", "pay", "age"]].to_numpy(np.float32)
    assert np.array_equal(first, of_arrays(X, ["hour", "pay", "age"], columns["ill"]))


def test_names_of_columns_count_without_case_and_form() -> None:
    names = ["Größe", "GRÖSSE", "Gro\u0308ße ", "größe"]
    found = [fingerprints({name: np.array([1.0])})[0] for name in names]
    assert all(np.array_equal(a, b) for a, b in pairwise(found))


def test_a_date_is_one_value_however_it_is_written() -> None:
    """By the year that the schema reads from it: text in each order, with a time, and as frames and
    Parquet files have dates."""
    dates = pd.to_datetime(["1987-03-31", "2001-12-01", "1950-02-07"])
    forms = {
        "ymd": ["%Y-%m-%d", "%Y/%m/%d", "%Y-%m-%d 00:00:00", "%Y-%m-%dT00:00:00Z"],
        "dmy": ["%d.%m.%Y", "%d/%m/%Y"],
        "mdy": ["%m/%d/%Y"],
    }
    found = []
    for order, writings in forms.items():
        column = {"kind": "numeric", "name": "born", "low": 1900, "high": 2020, "date": order}
        label = {"name": "ill", "classes": ["no", "yes"]}
        made = tc.data.Schema.build(columns=[column], label=label)
        cells = [list(dates.strftime(writing)) for writing in writings]
        for born in [*cells, *([dates, dates.date] if order == "ymd" else [])]:
            frame = pd.DataFrame({"born": born, "ill": ["no", "yes", "no"]})
            found.append(tc.data.encode(made, frame).fingerprints)
    assert len(np.unique(found[0], axis=0)) == 3
    assert all(np.array_equal(a, b) for a, b in pairwise(found))


def schema(**other: Any) -> tc.data.Schema:
    columns = [
        {"name": "age", "low": 0, "high": 100},
        {"name": "pay", "low": 0, "high": 1e5},
        {"name": "hour", "low": 0, "high": 24},
    ]
    fields: dict[str, Any] = {
        "columns": [{"kind": "numeric", **column} for column in columns],
        "label": {"name": "ill", "classes": ["no", "yes"]},
    }
    for name, more in other.pop("change", {}).items():
        own = next(column for column in fields["columns"] if column["name"] == name)
        own |= more
    if other.pop("turned", False):
        fields["columns"].reverse()
    return tc.data.Schema.build(**{**fields, **other})


SCHEMAS = {
    "linear": {},
    "rescaled": {"change": {"age": {"low": 18, "high": 90}, "pay": {"high": 9.5e4}}},
    "turned": {"turned": True},
    "classes": {"label": {"name": "ill", "classes": ["yes", "no"]}},
    "basis": {
        "change": {
            "pay": {"transform": "log1p"},
            "hour": {"transform": "cyclic", "period": 24},
            "age": {"missing_indicator": True},
        },
        "intercept": True,
    },
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_of_the_same_columns_meets_the_same_account(name: str, tmp_path: Path) -> None:
    """Function and estimator: the first run names the account, all others find it."""
    columns, ledger = table(), tmp_path / "ledger"
    with LedgerStore(ledger) as store:
        store.set_budget("us", 3.0, 1e-5)

    def run(which: str, dataset: str | None, seed: int) -> None:
        data = tc.data.encode(schema(**SCHEMAS[which]), columns)
        problem = tc.Problem(
            tc.data.partition.even(data.X, data.y, 4, seed=seed),
            classes=(0, 1),
            data_norm=10.0,
            fingerprints=data.fingerprints,
        )
        terms = tc.Privacy(0.5, coalition=1)
        tc.simulate(
            problem,
            tc.graph.ring(4),
            "dpdda",
            2,
            terms,
            seed,
            ledger=ledger,
            dataset=dataset,
            metrics=(),
        )

    run("linear", "us", 0)
    run(name, None, 1)
    frame = pd.DataFrame(columns)[["hour", "age", "pay"]]
    model = tc.PrivateLogisticRegression(
        epsilon=0.5, bounds=([0, 0, 0], [24, 100, 1e5]), n_nodes=4, random_state=0, ledger=ledger
    )
    model.fit(frame, columns["ill"])
    assert "_as_read" not in vars(model)
    with LedgerStore(ledger) as store:
        assert {row["dataset"] for row in store.runs()} == {"us"}
        assert len(store.runs()) == 3


def test_held_out_sides_and_nodes_go_by_the_records_as_read(tmp_path: Path) -> None:
    """A member's records under two schemas of the same columns: one account, and each record on
    the same side of the split."""
    from node_stage import small_contract
    from tacenda_node.peer.member_records import read_records
    from tacenda_node.state.accounts import claim, claim_held_out

    columns, ledger = table(60), tmp_path / "ledger"
    pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
    found = {}
    for name in ("linear", "rescaled", "turned", "classes"):
        made = schema(**SCHEMAS[name])
        (tmp_path / f"{name}.toml").write_text(made.to_toml(), "utf-8")
        plain = small_contract(2, 3).to_plain()
        plain["privacy"] |= {"adjacency": "add-remove"}
        plain["problem"] |= {
            "n_features": 3,
            "row_scale": made.row_scale,
            "classes": list(made.label.classes or ()),
        }
        plain |= {"schema_hash": made.hash(), "finish_mixing": "exact"}
        plain["evaluation"] = {"held_out": 0.3}
        terms = type(small_contract(2, 3)).build(plain)
        records = read_records(terms, "m0", tmp_path / f"{name}.toml", tmp_path / "t.csv", ledger)
        account, _ = claim(ledger, records.trained, None, terms.privacy, None, False)
        held, notes = claim_held_out(
            ledger, account, records.trained, records.held_out, named=False
        )
        assert notes == []
        assert records.held_out is not None and records.held_out.fingerprints is not None
        with LedgerStore(ledger) as store:
            marks = marks_as_read(records.held_out.fingerprints, store.salt)
        found[name] = account, held, marks.digest
    assert len(set(found.values())) == 1


def test_arrays_without_names_in_another_order_of_columns_are_pointed_to(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows, labels = rng.uniform(-0.5, 0.5, (200, 3)), rng.integers(0, 2, 200).astype(float)
    with LedgerStore(tmp_path / "ledger") as store:
        assert store.account(rows, labels, "us").notes == ()
        turned = store.account(rows[::-1, ::-1], labels[::-1], "them")
        assert "the features of those of 'us'" in " ".join(turned.notes)
        assert "ledger join LEDGER 'them' 'us'" in " ".join(turned.notes)
        other = store.account(rows, 1 - labels, "coded otherwise")
        assert "the features of those of 'us'" in " ".join(other.notes)
        scaled = store.account(rows / 2, labels, "scaled")
        assert scaled.notes == ()
        assert store.spent("us").names == ("us",)  # it only warns
        assert store.verify().ok


def test_an_evaluation_without_a_name_meets_the_budget(tmp_path: Path) -> None:
    columns, ledger = table(), tmp_path / "ledger"
    data = tc.data.encode(schema(), columns)
    assert data.fingerprints is not None

    def problem(part: slice) -> tc.Problem:
        shards = tc.data.partition.even(data.X[part], data.y[part], 4, seed=0)
        own = data.fingerprints[part]
        return tc.Problem(shards, classes=(0, 1), data_norm=10.0, fingerprints=own)

    def evaluate(part: slice, dataset: str | None, seed: int) -> None:
        tc.evaluate_privately(
            np.zeros(3),
            problem(part),
            tc.graph.ring(4),
            tc.Privacy(1.0, coalition=1),
            seed=seed,
            ledger=ledger,
            dataset=dataset,
        )

    with LedgerStore(ledger) as store:
        store.set_budget("us", 1.0, 1e-5)
    with pytest.raises(PrivacyError, match="these records have no name"):
        evaluate(slice(0, 100), None, 0)
    evaluate(slice(0, 100), "us", 0)
    for seed in range(1, 4):
        with pytest.raises(tc.errors.BudgetError):
            evaluate(slice(0, 100), None, seed)
    with LedgerStore(ledger) as store:
        assert store.spent("us/held-out").curve.epsilon(1e-5) <= 1.0 + 1e-9


def test_two_names_for_one_file_add_up_whatever_the_schema(tmp_path: Path) -> None:
    columns = table()
    with LedgerStore(tmp_path / "ledger") as store:
        for name, which in (("us", "linear"), ("them", "basis")):
            data = tc.data.encode(schema(**SCHEMAS[which]), columns)
            assert data.fingerprints is not None
            account = store.account_of_marks(marks_as_read(data.fingerprints, store.salt), name)
        assert "from now on the two add up" in " ".join(account.notes)
        assert set(store.spent("us").names) == {"us", "them"}
