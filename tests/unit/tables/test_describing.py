"""`tacenda.describe`: against pandas without noise; coverage, ledger and forecast with noise."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tacenda as tc
from tacenda.errors import BudgetError, InputError, PrivacyError
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.questions.statistics import Records, enforced
from tacenda.tables import Asked, Description, NoisyTableWarning, forecast

SCHEMA = tc.data.Schema.build(
    columns=[
        {"kind": "numeric", "name": "age", "low": 0, "high": 100},
        {"kind": "numeric", "name": "pay", "low": 0, "high": 5000, "transform": "log1p"},
        {"kind": "categorical", "name": "ward", "levels": ["north", "south", "west"]},
        {"kind": "categorical", "name": "arm", "levels": ["a", "b"]},
    ],
    label={"name": "ill", "classes": ["no", "yes"]},
)


def records(n: int = 3000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    arm = rng.choice(["a", "b"], n)
    frame = pd.DataFrame(
        {
            "age": np.clip(rng.normal(np.where(arm == "a", 50, 56), 14), 0, 100),
            "pay": np.minimum(rng.lognormal(6, 1, n), 5000),
            "ward": rng.choice(["north", "south", "west"], n, p=[0.6, 0.3, 0.1]),
            "arm": arm,
            "ill": rng.choice(["no", "yes"], n, p=[0.8, 0.2]),
        }
    )
    frame.loc[::50, "age"] = np.nan
    frame.loc[::70, "ward"] = None
    return frame


@pytest.fixture(scope="module")
def plain() -> tuple[pd.DataFrame, Description]:
    frame = records()
    return frame, tc.describe(SCHEMA, frame, None, by="arm")


def test_without_noise_the_table_is_that_of_pandas(plain: tuple[pd.DataFrame, Description]) -> None:
    frame, found = plain
    assert found.groups == ("a", "b", "missing", "all")
    parts = [frame[frame.arm == "a"], frame[frame.arm == "b"], frame]
    for place, part in zip((0, 1, 3), parts, strict=True):
        assert found.row("", "records").cells[place].value == len(part)
        for name in ("age", "pay"):
            cells = {w: found.row(name, w).cells[place] for w in ("mean", "deviation", "missing")}
            assert cells["mean"].value == pytest.approx(part[name].mean(), rel=1e-9)
            assert cells["deviation"].value == pytest.approx(part[name].std(), rel=1e-9)
            assert cells["missing"].value == part[name].isna().sum()
            for q in (0.25, 0.5, 0.75):
                cell = found.row(name, f"quantile {q:g}").cells[place]
                assert cell.low <= part[name].quantile(q) <= cell.high
                assert cell.high > cell.low
        shares = part.ward.value_counts(normalize=True)
        for level, count in part.ward.value_counts().items():
            cell = found.row("ward", str(level)).cells[place]
            assert (cell.value, cell.low, cell.high) == (count, count, count)
            assert cell.share is not None and cell.share.value == pytest.approx(shares[level])
    a, b = parts[0].age, parts[1].age
    smd = (b.mean() - a.mean()) / np.sqrt((a.var() + b.var()) / 2)
    assert found.row("age", "mean").differences[0].value == pytest.approx(smd, rel=1e-6)


def test_a_record_moves_the_release_by_no_more_than_it_is_charged_for() -> None:
    asked = Asked.of(SCHEMA, "arm")
    rows = asked.rows(SCHEMA, tc.data.Table.of(records(500)))
    assert np.linalg.norm(rows, axis=1).max() <= 1.0
    seen = Records(rows, np.zeros(len(rows)), 1, "regression", lambda w: rows)
    vectors = asked.statistic.vectors(seen, np.zeros(1))
    assert np.array_equal(enforced(vectors, len(rows), asked.statistic), vectors)
    norms = np.linalg.norm(vectors, axis=1)
    assert norms.max() <= 1.0 and norms.max() > 0.9 and vectors.min() >= 0


@pytest.mark.parametrize("nodes", [1, 4])
def test_noise_and_epsilon_of_the_chain_are_exact(nodes: int) -> None:
    """The noise of the network's sum against the Gaussian's own curve: a replaced record moves it
    by sqrt(2). Under masks a coalition of one takes its own share of the noise away."""
    privacy = tc.Privacy(1.0, 1e-5)
    found = tc.describe(SCHEMA, records(), privacy, by="arm", nodes=nodes, seed=3, noisy="keep")
    assert found.privacy is not None and found.privacy.epsilon <= 1.0 + 1e-9
    hidden = found.noise * np.sqrt(1 if nodes == 1 else (nodes - 1) / nodes)
    assert GaussianProfile(np.sqrt(2) / hidden).epsilon(1e-5) == pytest.approx(1.0, abs=2e-3)
    told = forecast(Asked.of(SCHEMA, "arm"), 3000, privacy, nodes)
    assert told.noise == pytest.approx(found.noise, rel=1e-6)


def test_parts_add_up_to_their_totals() -> None:
    with pytest.warns(NoisyTableWarning, match="'age', 'pay' unreadable"):
        found = tc.describe(SCHEMA, records(), tc.Privacy(0.3), by="arm", noisy="keep", seed=1)
    assert sum(found.sizes) == 3000
    for name, levels in (
        ("ward", ["north", "south", "west", "missing"]),
        ("ill", ["no", "yes", "missing"]),
    ):
        rows = [found.row(name, level) for level in levels]
        for place, size in enumerate([*found.sizes, 3000]):
            cells = [row.cells[place] for row in rows]
            assert sum(c.value for c in cells) == size
            assert all(c.value >= 0 and c.low <= c.value <= c.high for c in cells)
        for row in rows:
            assert sum(c.value for c in row.cells[:-1]) == row.cells[-1].value


def test_intervals_hold_as_often_as_they_say() -> None:
    """Of 60 samples of one population: every interval of a share, mean, deviation, quantile and
    difference, and of these records' counts."""
    asked = Asked.of(SCHEMA, "arm")
    truth = tc.describe(SCHEMA, records(400_000, 99), None, by="arm")
    noise = forecast(asked, 3000, tc.Privacy(1.0)).noise
    hits: dict[str, list[bool]] = {}
    rng = np.random.default_rng(0)
    for seed in range(60):
        exact = tc.describe(SCHEMA, records(3000, seed), None, by="arm")
        total = exact.total + noise * rng.standard_normal(len(exact.total))
        found = Description(asked, total, noise, 3000, None)
        for row, own, whole in zip(found.rows, exact.rows, truth.rows, strict=True):
            for place in (0, 1, 3):
                cell = row.cells[place]
                if row.is_count:
                    count = own.cells[place].value
                    hits.setdefault("count", []).append(cell.low <= count <= cell.high)
                    share, true = cell.share, whole.cells[place].share
                    if share is not None and true is not None and row.what != "missing":
                        hits.setdefault("share", []).append(share.low <= true.value <= share.high)
                elif cell.known:
                    kind = row.what.split()[0]
                    hits.setdefault(kind, []).append(
                        cell.low <= whole.cells[place].value <= cell.high
                    )
            for one, true_one in zip(row.differences, whole.differences, strict=True):
                if row.what != "missing":
                    hits.setdefault("difference", []).append(one.low <= true_one.value <= one.high)
    rates = {kind: np.mean(held) for kind, held in hits.items()}
    assert set(rates) == {"count", "share", "mean", "deviation", "quantile", "difference"}
    assert all(rate >= 0.93 for rate in rates.values()), rates
    assert rates["mean"] <= 0.99 and rates["count"] <= 0.995, rates


def test_what_cannot_be_read_is_said_before_anything_is_spent(tmp_path: Path) -> None:
    ledger, few = tmp_path / "ledger", records(120)
    asked: dict[str, Any] = {"by": "arm", "ledger": ledger, "dataset": "us"}
    with pytest.raises(
        PrivacyError, match="'age'.*unreadable.*Nothing was spent.*epsilon of about"
    ):
        tc.describe(SCHEMA, few, tc.Privacy(0.3), **asked)
    assert not ledger.exists()
    with pytest.warns(NoisyTableWarning, match="is left out"):
        found = tc.describe(SCHEMA, few, tc.Privacy(3.0), noisy="leave out", **asked)
    names = [c.name for c in found.asked.columns]
    assert "age" not in names and "ill" in names
    with LedgerStore(ledger) as store:
        assert len(store.runs()) == 1


def test_the_ledger_is_charged_once_and_refuses_more(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with LedgerStore(ledger) as store:
        store.set_budget("us", 1.0, 1e-5)
    asked: dict[str, Any] = {"ledger": ledger, "dataset": "us", "columns": ["ward"], "seed": 0}
    found = tc.describe(SCHEMA, records(), tc.Privacy(0.9), **asked)
    assert found.about["charged"]
    with pytest.raises(BudgetError):
        tc.describe(SCHEMA, records(), tc.Privacy(0.9), **asked)


def test_persons_count_once_and_sizes_may_be_private() -> None:
    frame = records(2000).assign(who=[f"p{k % 1000}" for k in range(2000)])
    schema = SCHEMA.model_copy(update={"person": "who"})
    assert tc.describe(schema, frame, None, by="arm").records == 1000
    privacy = tc.Privacy(1.0, adjacency="add-remove")
    found = tc.describe(SCHEMA, frame, privacy, columns=["ward"], public_size=1800, seed=0)
    assert found.records is None and abs(found.sizes[0] - 2000) < 60
    with pytest.raises(InputError, match="public_size"):
        tc.describe(SCHEMA, frame, privacy)


def test_odd_cells_are_missing_and_columns_are_named() -> None:
    frame = records(500).astype({"age": object})
    frame.loc[3, "age"], frame.loc[4, "ward"] = "about forty", "east"
    found = tc.describe(SCHEMA, frame, None)
    assert found.row("ward", "missing").cells[0].value == int(records(500).ward.isna().sum()) + 1
    assert found.row("age", "missing").cells[0].value == int(records(500).age.isna().sum()) + 1
    with pytest.raises(InputError, match="lacks the column 'ward'"):
        tc.describe(SCHEMA, frame.drop(columns="ward"), None)
    with pytest.raises(InputError, match="by"):
        tc.describe(SCHEMA, frame, None, by="age")
    with pytest.raises(InputError, match="no row 'east'"):
        found.row("ward", "east")


def test_files_hold_what_was_found(tmp_path: Path, plain: tuple[pd.DataFrame, Description]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = tc.describe(SCHEMA, records(), tc.Privacy(2.0), by="arm", nodes=3, seed=0)
    again = Description.from_plain(found.to_plain())
    assert again.markdown == found.markdown
    lines = pd.read_csv(found.save(tmp_path / "t.csv"))
    mine = lines[(lines.column == "age") & (lines.what == "mean") & (lines.group == "all")]
    assert float(mine.value.iloc[0]) == pytest.approx(found.row("age", "mean").cells[-1].value)
    assert "b – a" in found.save(tmp_path / "t.md").read_text()
    page = found.save(tmp_path / "t.html").read_text()
    assert "Who is in the data by arm" in page and "ward: north" in page
    for name in ("t.json", "t.svg", "t.png"):
        assert found.save(tmp_path / name).stat().st_size > 1000
    with pytest.raises(InputError, match="must end in"):
        found.save(tmp_path / "t.doc")
    assert found.at(0.6).row("age", "mean").cells[0].low > found.row("age", "mean").cells[0].low


@pytest.mark.parametrize(("nodes", "epsilon"), [(1, 0.05), (4, 0.05), (4, 1.0)])
def test_the_epsilon_that_is_named_is_enough_and_hardly_more(nodes: int, epsilon: float) -> None:
    """Of a table, of curves and of hazard ratios: noise falls as mu grows, not as epsilon does."""
    table = records(300 if epsilon < 1 else 60)
    table["days"], table["seen"] = np.linspace(1, 400, len(table)), table["ill"]
    schema = tc.data.Schema.build(
        columns=list(SCHEMA.columns),
        label=SCHEMA.label,
        survival={"time": "days", "event": "seen", "happened": ["yes"], "points": [100, 200, 400]},
    )
    for ask in (
        lambda e: tc.describe(schema, table, tc.Privacy(e), nodes=nodes),
        lambda e: tc.survival(schema, table, tc.Privacy(e), nodes=nodes),
        lambda e: tc.hazard_ratios(schema, table, tc.Privacy(e), columns=["arm"], nodes=nodes),
    ):
        with pytest.raises(PrivacyError) as refused:
            ask(epsilon)
        found = re.search(r"epsilon of about ([\d.e+]+) would do", str(refused.value))
        assert found is not None, str(refused.value)
        named = float(found[1])
        with pytest.raises(PrivacyError):
            ask(named / 1.1)
        ask(named)


def test_a_two_valued_number_makes_groups() -> None:
    """As levels of the same two values do; other numbers are refused in words."""
    table = records(400)
    table["sex"] = np.where(table["arm"] == "a", 1, 2)
    table.loc[:9, "sex"] = 3
    fields = {"kind": "numeric", "name": "sex", "low": 1, "high": 2, "two_valued": True}
    levels = {"kind": "categorical", "name": "sex", "levels": ["1", "2"]}
    age = {"kind": "numeric", "name": "age", "low": 0, "high": 100}
    one, two = (
        tc.describe(
            tc.data.Schema.build(columns=[age, sex], label=SCHEMA.label),
            table,
            None,
            by="sex",
            columns=["age"],
        )
        for sex in (fields, levels)
    )
    assert one.row("age", "mean").cells == two.row("age", "mean").cells
    plain = tc.data.Schema.build(columns=[age], label={"name": "pay", "low": 0, "high": 5000})
    with pytest.raises(InputError, match="must be a column of levels, and schema .* has none"):
        tc.describe(plain, table, None, by="age")
