"""What is said before the budget is spent, from public numbers alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.errors import WeakPrivacyWarning
from tacenda.planning.advice import (
    RARE,
    WEAK,
    WELL,
    _average_noise,
    _landscape,
    _lost,
    class_records,
    class_sentence,
    forecast_loss,
    noise_advice,
)
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts

BUDGET = tc.Privacy(1.0, coalition=1)


def facts(records: int, dim: int, n: int = 20, **declared: Any) -> Facts:
    k = Constants.declared(**{"loss": "logistic", **declared})
    return Facts(np.full(n, records / n), dim * k.n_outputs, k)


@pytest.mark.parametrize("n", [1, 20])
def test_few_records_for_the_budget_are_said_with_how_many_would_do(n: int) -> None:
    few = facts(514, 15, n)
    (sentence,) = [s for s in noise_advice(few, BUDGET) if s.startswith("Weak signal")]
    needed = int(re.findall(r"about (\d+) in all", sentence)[0])
    assert "514 records" in sentence and 3000 < needed < 9000
    enough = facts(needed, 15, n)
    assert noise_advice(enough, BUDGET) == []
    noise = _average_noise(enough, BUDGET)
    assert noise is not None
    assert _lost(_landscape(enough), noise) == pytest.approx(WELL, rel=0.1)


@pytest.mark.parametrize("dim", [4, 30])
def test_a_class_has_the_records_at_which_noise_costs_half_of_its_signal(dim: int) -> None:
    """By drawing the noise of the mean gradient of whitened rows, and one Newton step."""
    public, records, row = facts(5000, dim), 5000.0, 0.5
    needed, noise = class_records(public, BUDGET), _average_noise(public, BUDGET)
    assert needed is not None and noise is not None
    curvature = needed / (2 * records)  # p (1 - p)/2 of a rare class: half the steepest
    h = curvature * row**2 / dim
    rng = np.random.default_rng(0)
    w = noise * row * rng.normal(size=(20_000, dim)) / h
    lost = np.mean(0.5 * h * (w**2).sum(axis=1))
    assert lost / (0.5 * curvature * 4.0) == pytest.approx(0.5, rel=0.03)  # scores of variance 4


def test_rare_classes_are_said_by_a_plan_and_where_even_classes_are_too_small() -> None:
    plan = tc.plan(500, 30, tc.graph.ring(20), epsilon=1.0)
    assert any("a class needs about" in reason for reason in plan.reasons)
    assert "a class needs" not in tc.plan(500, 30, tc.graph.ring(20), 1.0, loss="huber").explain()
    many = facts(3000, 20, loss="multinomial", classes=12)
    assert any(s.startswith("Rare classes: ") for s in noise_advice(many, BUDGET))
    assert noise_advice(facts(100_000, 20, loss="multinomial", classes=12), BUDGET) == []


def test_a_fit_says_how_many_records_a_class_needs_where_that_is_many(tmp_path: Path) -> None:
    assert class_sentence(facts(9718, 29, loss="multinomial", classes=4), BUDGET, RARE)
    assert not class_sentence(facts(240_000, 29), BUDGET, RARE)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2000, 3)).round(3)
    y = np.where(rng.random(2000) < 0.02, "rare", np.where(X[:, 0] > 0.5, "high", "low"))
    rows = [",".join(map(str, [*x, label])) for x, label in zip(X, y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,y", *rows]))
    tc.data.Schema.build(
        columns=[{"kind": "numeric", "name": n, "low": 0, "high": 1} for n in "abc"],
        label={"name": "y", "classes": ["high", "low", "rare"]},
    ).write(tmp_path / "s.toml")
    fitted = tc.fit(
        {
            "data": {"file": str(tmp_path / "t.csv"), "schema": str(tmp_path / "s.toml")},
            "network": {"nodes": 2},
            "privacy": {"epsilon": 1.0},
            "run": {"folder": str(tmp_path / "run"), "references": False},
        },
        progress=False,
    )
    assert any("a class needs about" in note for note in fitted.notes)


def test_nothing_is_said_of_classes_where_rows_are_not_whitened() -> None:
    """20,000 hashed words: the formula is of whitened rows, and these are not."""
    assert class_records(facts(16_000, 1000), BUDGET) is not None
    assert class_records(facts(16_000, 1001), BUDGET) is None
    texts = facts(16_000, 20_000)
    assert not any(s.startswith("Rare classes") for s in noise_advice(texts, BUDGET))


def test_who_chooses_the_strength_is_said() -> None:
    ring = tc.graph.ring(20)
    assert "strength is chosen after the release" in tc.plan(500, 30, ring, 1.0).explain()
    assert "strength" not in tc.plan(500, 30, ring, 1.0, strength=1e-3).explain()
    other = tc.plan(500, 30, ring, 1.0, regulariser="l1").explain()
    assert "strength is the public 1e-05" in other


@pytest.mark.parametrize("kind", ["logistic", "ordinal", "hazard"])
def test_estimators_warn_before_the_budget_is_spent(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X, common = rng.random((514, 8)), {"bounds": (0, 1), "n_nodes": 20, "random_state": 0}
    model: Any
    if kind == "hazard":
        model = tc.PrivateDiscreteHazard((1, 2, 3, 4, 5), 1.0, **common)
        y: Any = np.column_stack([6 * rng.random(514), rng.random(514) < 0.5])
    elif kind == "ordinal":
        model = tc.PrivateOrdinalClassifier(0.5, classes=(0, 1, 2), **common)
        y = rng.integers(0, 3, 514)
    else:
        model = tc.PrivateLogisticRegression(0.5, classes=(0, 1), **common)
        y = rng.integers(0, 2, 514)

    def nothing(*given: Any, **options: Any) -> Any:
        raise RuntimeError("nothing may be spent")

    monkeypatch.setattr("tacenda.estimators.base.simulate", nothing)
    with (
        pytest.warns(WeakPrivacyWarning, match="Weak signal.* 514 records on 20 nodes") as told,
        pytest.raises(RuntimeError, match="nothing may be spent"),
    ):
        model.fit(X, y)
    # A record of these is several rows, whose answers are no classes of records
    assert kind == "logistic" or not any("Rare classes" in str(one.message) for one in told)


def test_a_table_on_which_a_model_is_no_better_than_a_guess_is_said() -> None:
    """432 prisoners, 8 weights: at epsilon 1 the AUC was .49 to .57, of .66 without noise."""
    assert any(s.startswith("Weak signal") for s in noise_advice(facts(432, 8, 4), BUDGET))
    assert not any(s.startswith("Weak signal") for s in noise_advice(facts(3000, 8, 4), BUDGET))


@pytest.mark.parametrize(
    ("loss", "records", "dim", "weak", "well"),
    [
        ("squared", 506, 6, 1.0, 4.0),  # house prices: noise cost 34 and 11 % of R2
        ("squared", 408, 6, 1.0, 4.0),  # school tests: 55 and 9 %
        ("squared", 814, 7, 0.5, 1.0),  # economics scores: 12 and 5 %
        ("logistic", 1974, 9, 0.5, 2.0),  # loans: 50 and 11 % of the deviance explained
        ("logistic", 1388, 7, 1.0, 4.0),  # light births: 57 and 8 %
        ("poisson", 2725, 9, 1.0, 4.0),  # arrests of young men: 48 and 14 %
    ],
)
def test_the_warning_comes_where_real_tables_lose_much(
    loss: str, records: int, dim: int, weak: float, well: float
) -> None:
    more: dict[str, Any] = {"squared": {"clip_norm": 0.3}, "poisson": {"clip_norm": 0.3}}
    if loss == "poisson":
        more[loss] |= {"loss": tc.losses.Poisson(8.0)}
    real = facts(records, dim, 1, **{"loss": loss, **more.get(loss, {})})
    for epsilon, said in ((weak, True), (well, False)):
        budget = tc.Privacy(epsilon, coalition=1)
        found = noise_advice(real, budget)
        assert (forecast_loss(real, budget) > WEAK) is said
        assert any(s.startswith("Weak signal") for s in found) is said
