"""A private table's numbers as later declarations: bounds, stand-ins and prevalences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.data.schema import Schema
from tacenda.errors import InputError
from tacenda.privacy.lasting.ledger_store import LedgerStore

N = 4000


def records() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    crp = rng.normal(300, 40, N)
    crp[:100] = np.nan
    ill = np.where(rng.uniform(size=N) < 0.2, "yes", "no")
    return {"crp": crp, "arm": rng.choice(["old", "new"], N, p=[0.3, 0.7]), "ill": ill}


def own() -> Schema:
    return Schema.build(
        columns=[
            {"kind": "numeric", "name": "crp", "low": 0, "high": 1000},
            {"kind": "categorical", "name": "arm", "levels": ["old", "new"]},
        ],
        label={"name": "ill", "classes": ["no", "yes"]},
    )


def test_bounds_hold_nearly_all_records_and_cost_nothing_more(tmp_path: Path) -> None:
    table, ledger = records(), tmp_path / "ledger.db"
    found = tc.describe(own(), table, tc.Privacy(2.0), seed=0, ledger=ledger, dataset="d")
    with LedgerStore(ledger) as store:
        before = store.spent("d").curve.epsilon(1e-5)
    made = tc.tables.declared(found, own())
    with LedgerStore(ledger) as store:
        assert store.spent("d").curve.epsilon(1e-5) == before
    crp, arm = made.columns
    there = table["crp"][100:]
    assert 0 < crp.low < 250 and 350 < crp.high < 1000
    assert (there < crp.low).mean() <= 0.02 and (there > crp.high).mean() <= 0.02
    assert crp.impute == pytest.approx(300, abs=30) and arm.impute == "new"
    assert crp.confirmed and "epsilon" in crp.source
    assert made.label == own().label
    shares = tc.tables.prevalences(found, "ill")
    assert shares["yes"] == pytest.approx(0.2, abs=0.03) and sum(shares.values()) == pytest.approx(
        1
    )


def skewed(n: int, seed: int) -> dict[str, Any]:
    """A tenth of the range holds nearly all values, and there the label bends."""
    rng = np.random.default_rng(seed)
    dose = np.minimum(rng.exponential(3.0, n), 100.0)
    chance = 1 / (1 + np.exp(-4.0 * np.sin(dose)))
    return {"dose": dose, "ill": np.where(rng.random(n) < chance, "yes", "no")}


def of_dose(**more: Any) -> Schema:
    column = {"kind": "numeric", "name": "dose", "low": 0, "high": 100, **more}
    return Schema.build(columns=[column], label={"name": "ill", "classes": ["no", "yes"]})


def test_knots_are_quantiles_of_the_table() -> None:
    """Without noise, of 100 bins of one unit: those of the exponential distribution."""
    found = tc.describe(of_dose(), skewed(10_000, 0), None, bins=100)
    breaks = tc.tables.declared(found, of_dose(), 0.001, knots=9).columns[0].breaks
    expected = -3.0 * np.log(1 - np.arange(1, 10) / 10)
    assert breaks == pytest.approx(tuple(expected), abs=0.5)
    assert tc.tables.declared(found, of_dose()).columns[0].breaks is None
    # A straight column stays straight, and knots of one's own stay
    for more in ({"hats": 0}, {"breaks": (5.0, 50.0)}):
        schema = of_dose(**more)
        kept = tc.tables.declared(found, schema, 0.001, knots=9).columns[0]
        assert kept.breaks == schema.columns[0].breaks
    with pytest.raises(InputError, match="knots"):
        tc.tables.declared(found, of_dose(), knots=-1)


def test_knots_that_noise_hides_are_not_declared() -> None:
    table = skewed(4000, 1)
    with pytest.warns(tc.tables.NoisyTableWarning):
        found = tc.describe(of_dose(), table, tc.Privacy(0.005), seed=0, noisy="keep")
    assert tc.tables.declared(found, of_dose(), knots=9).columns[0].breaks is None


def test_private_knots_find_what_even_ones_miss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through the command, and half of the budget for the table."""
    from tacenda.cli.schemas import from_table

    table, test = skewed(8000, 2), skewed(8000, 3)
    found = tc.describe(of_dose(), table, tc.Privacy(0.7), seed=0, bins=100)
    plain, told, out = (tmp_path / name for name in ("plain.toml", "table.json", "knots.toml"))
    of_dose().write(plain)
    found.save(told)
    from_table(plain, told, out, 0.02, 24)
    assert "dose" in capsys.readouterr().out
    column = Schema.read(out).columns[0]
    assert len(column.breaks) > 15 and "epsilon 0.7" in column.source

    def accuracy(epsilon: float, high: float, **how: Any) -> float:
        model = tc.PrivateAdditiveClassifier(
            epsilon=epsilon, classes=("no", "yes"), random_state=0, n_nodes=5, **how
        ).fit(table["dose"][:, None], table["ill"])
        return float(model.score(test["dose"][:, None], test["ill"]))

    even = accuracy(1.0, 100, bounds=((0.0,), (100.0,)))
    ends = ((column.low,), (column.high,))
    private = accuracy(0.7, column.high, bounds=ends, breaks={"x0": column.breaks})
    assert private > even + 0.03


def test_what_noise_hides_is_not_declared() -> None:
    with pytest.warns(tc.tables.NoisyTableWarning):
        found = tc.describe(own(), records(), tc.Privacy(0.005), seed=0, noisy="keep")
    assert tc.tables.declared(found, own()).columns[0].high == 1000
    assert tc.tables.prevalences(found, "arm") == {}


def test_a_table_of_another_schema_is_refused() -> None:
    found = tc.describe(own(), records(), None)
    columns = [{"kind": "numeric", "name": "crp", "low": 0, "high": 500}]
    other = Schema.build(columns=columns, label=own().label)
    with pytest.raises(InputError, match="by which the table was made"):
        tc.tables.declared(found, other)
    with pytest.raises(InputError, match="levels"):
        tc.tables.prevalences(found, "crp")


def test_from_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tacenda.cli.schemas import from_table

    own().write(tmp_path / "schema.toml")
    tc.describe(own(), records(), tc.Privacy(2.0), seed=0).save(tmp_path / "table.json")
    assert json.loads((tmp_path / "table.json").read_text("utf-8"))["format"]
    from_table(tmp_path / "schema.toml", tmp_path / "table.json", tmp_path / "narrow.toml", 0.02)
    assert "crp" in capsys.readouterr().out
    assert Schema.read(tmp_path / "narrow.toml").columns[0].high < 1000
