"""Hazard ratios: against statsmodels' Cox model without noise; noise, sensitivity and coverage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime
from statsmodels.duration.hazard_regression import PHReg

import tacenda as tc
from tacenda.errors import BudgetError, InputError, PrivacyError
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.questions.hazards import HazardMoments, hazard_rows
from tacenda.questions.statistics import Records, enforced
from tacenda.tables import NoisyTableWarning

TRUTH = np.array([0.03, -0.5, 0.4, 0.8])
SCHEMA = tc.data.Schema.build(
    columns=[
        {"kind": "numeric", "name": "age", "low": 20, "high": 90},
        {"kind": "categorical", "name": "arm", "levels": ["old", "new"]},
        {"kind": "categorical", "name": "grade", "levels": ["I", "II", "III"]},
    ],
    label={"name": "seen", "classes": ["0", "1"]},
    survival={"time": "t", "event": "seen", "points": [1, 2, 3, 4, 5, 6, 7, 8]},
)


def drawn(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(60, 12, n), 20, 90)
    arm, grade = rng.integers(0, 2, n), rng.choice(3, n, p=[0.3, 0.45, 0.25])
    score = 0.03 * (age - 60) - 0.5 * arm + 0.4 * (grade == 1) + 0.8 * (grade == 2)
    time = 12 * rng.weibull(1.2, n) * np.exp(-score / 1.2)
    last = rng.uniform(2, 10, n)
    return pd.DataFrame(
        {
            "age": age,
            "arm": np.array(["old", "new"])[arm],
            "grade": np.array(["I", "II", "III"])[grade],
            "t": np.minimum(time, last),
            "seen": (time <= last).astype(int),
        }
    )


def test_with_many_periods_it_is_coxs_model() -> None:
    frame = drawn(2000)
    fine = [0.1 * k for k in range(1, 101)]
    found = tc.hazard_ratios(SCHEMA, frame, None, points=fine)
    X = np.column_stack(
        [frame.age, frame.arm == "new", frame.grade == "II", frame.grade == "III"]
    ).astype(float)
    theirs = PHReg(frame.t, X, status=frame.seen, ties="efron").fit()
    assert found.names == ("age", "arm=new", "grade=II", "grade=III")
    assert found.coefficients == pytest.approx(theirs.params, abs=1e-2)
    for effect, value, error in zip(found.effects, theirs.params, theirs.bse, strict=True):
        assert effect.ratio == pytest.approx(np.exp(value), rel=1e-2)
        assert np.log(effect.high / effect.low) == pytest.approx(2 * 1.96 * error, rel=2e-2)
    assert found.effects[1].p_value == pytest.approx(theirs.pvalues[1], abs=1e-3)


def one_record(model: np.ndarray, u: np.ndarray, seen: np.ndarray) -> float:
    """The loss of a record, as the model's definition says."""
    z = np.exp(u @ model[: len(u)] + model[len(u) :])
    chance = np.where(seen < 0, -np.log(-np.expm1(-z)), np.maximum(seen, 0) * z)
    return float(chance.sum())


def test_gradient_and_curvature_are_those_of_the_loss() -> None:
    rng, asked = np.random.default_rng(1), HazardMoments(2, 3, 1e6)
    u = np.array([[0.4, -0.3], [0.1, 0.6]])
    seen = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, 0.3]])
    model = np.append(rng.normal(size=2), [-1.2, -0.5, -2.0])
    rows = hazard_rows(u, seen)
    assert np.linalg.norm(rows, axis=1).max() <= 1
    records = Records(rows, np.zeros(2), 1, "regression", lambda w: rows)
    gradient, curvature = asked.taken_apart(asked.vectors(records, model).sum(axis=0))

    def loss(w: np.ndarray) -> float:
        return sum(one_record(w, *one) for one in zip(u, seen, strict=True))

    def slope(w: np.ndarray) -> np.ndarray:
        return asked.taken_apart(asked.vectors(records, w).sum(axis=0))[0]

    assert gradient == pytest.approx(approx_fprime(model, loss, 1e-7), abs=1e-5)
    numeric = np.array([approx_fprime(model, lambda w, k=k: slope(w)[k], 1e-7) for k in range(5)])
    assert curvature == pytest.approx(numeric, abs=1e-5)


def test_no_record_moves_the_sums_by_more_than_it_pays_for() -> None:
    rng, asked = np.random.default_rng(2), HazardMoments(3, 5)
    u = rng.normal(size=(500, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    seen = rng.choice([-1.0, 0.0, 0.5, 1.0], size=(500, 5))
    rows = hazard_rows(u, seen)
    records = Records(rows, np.zeros(500), 1, "regression", lambda w: rows)
    for scale in (0.1, 1.0, 30.0):
        vectors = asked.vectors(records, scale * rng.normal(size=8))
        assert np.array_equal(enforced(vectors, 500, asked), vectors)
        assert np.linalg.norm(vectors, axis=1).max() <= 1.0


def test_intervals_hold_and_the_budget_is_that_of_all_rounds() -> None:
    held, widths = [], []
    for seed in range(25):
        found = tc.hazard_ratios(SCHEMA, drawn(5000, seed), tc.Privacy(4.0), nodes=4, seed=seed)
        assert found.privacy is not None and found.privacy.epsilon <= 4.0 + 1e-9
        assert len(found.totals) == 6
        if not found.effects[0].known:
            continue
        held.append(
            [e.low <= np.exp(b) <= e.high for e, b in zip(found.effects, TRUTH, strict=True)]
        )
        widths.append(np.log(found.effects[1].high / found.effects[1].low))
    assert len(held) >= 20 and np.mean(held) >= 0.88
    assert 0.17 < np.mean(widths) < 0.35  # without noise 0.18


def test_too_much_noise_is_said() -> None:
    with pytest.raises(PrivacyError, match="hide all effects. Nothing was spent"):
        tc.hazard_ratios(SCHEMA, drawn(400), tc.Privacy(0.3), seed=0)
    with pytest.warns(NoisyTableWarning):
        found = tc.hazard_ratios(SCHEMA, drawn(400), tc.Privacy(0.3), seed=0, noisy="keep")
    assert not any(e.known for e in found.effects)
    assert "too noisy" in found.markdown


def test_records_that_lack_something_are_never_at_risk() -> None:
    frame = drawn(1500)
    odd = frame.copy().astype({"age": object})
    odd.loc[:99, "age"] = "old"
    found = tc.hazard_ratios(SCHEMA, odd, None)
    rest = tc.hazard_ratios(SCHEMA, frame[100:], None)
    assert found.coefficients == pytest.approx(rest.coefficients, abs=1e-8)
    with pytest.raises(InputError, match="lacks the column 'arm'"):
        tc.hazard_ratios(SCHEMA, frame.drop(columns="arm"), None)
    with pytest.raises(InputError, match="rising and above 0"):
        tc.hazard_ratios(SCHEMA, frame, None, points=[3, 1])
    with pytest.raises(InputError, match="distinct columns"):
        tc.hazard_ratios(SCHEMA, frame, None, columns=["age", "age"])


def test_the_ledger_is_charged_for_every_round(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with LedgerStore(ledger) as store:
        store.set_budget("us", 7.0, 1e-5)
    asked: dict[str, Any] = {"ledger": ledger, "dataset": "us", "seed": 0}
    found = tc.hazard_ratios(SCHEMA, drawn(3000), tc.Privacy(6.0), **asked)
    assert found.about["charged"]
    again = tc.hazard_ratios(SCHEMA, drawn(3000), tc.Privacy(6.0), **asked)
    assert np.array_equal(again.totals, found.totals)  # the same run: nothing new was released
    with pytest.raises(BudgetError):
        tc.hazard_ratios(SCHEMA, drawn(3000), tc.Privacy(6.0), **{**asked, "seed": 1})
    for name in ("h.html", "h.csv", "h.md", "h.json"):
        assert found.save(tmp_path / name).stat().st_size > 50


def test_two_questions_share_no_noise() -> None:
    """The same seed on other columns: what is left of the difference must not be exact."""
    frame = drawn(3000)
    frame["twin"] = frame.age
    twin = SCHEMA.columns[0].model_copy(update={"name": "twin"})
    schema = SCHEMA.model_copy(update={"columns": (*SCHEMA.columns, twin)})
    frame.loc[0, "twin"] = 90.0
    one, other = (
        tc.hazard_ratios(schema, frame, tc.Privacy(4.0), columns=[c], seed=0)
        for c in ("age", "twin")
    )
    assert np.abs(one.totals[0] - other.totals[0]).min() > 1e-3
