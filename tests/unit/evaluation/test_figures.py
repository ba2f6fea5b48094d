"""Figures of a model against counting by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tacenda.evaluation import figures, measures

RNG = np.random.default_rng(2)


def test_two_classes_by_hand() -> None:
    truth, scores = np.array([0, 0, 1, 1, 1]), np.array([-2.0, 1.0, -1.0, 0.0, 3.0])
    found = figures.classification(truth, scores, ("no", "yes"), probabilities=True)
    assert found["confusion"] == {"classes": ["no", "yes"], "counts": [[1, 1], [1, 2]]}
    roc = found["roc"][0]
    assert roc["class"] == "yes"
    steps = {(round(x, 3), round(y, 3)) for x, y in zip(roc["x"], roc["y"], strict=True)}
    assert {(0.0, 0.333), (0.5, 0.333), (1.0, 1.0)} <= steps
    assert sum(part["records"] for part in found["calibration"]) == 5
    assert json.loads(json.dumps(found)) == found


def test_bins_of_calibration_are_ten_equal_ones() -> None:
    sure = (np.arange(1000) + 0.5) / 1000
    scores = np.log(sure / (1 - sure))
    truth = (RNG.uniform(size=1000) < sure).astype(int)
    found = figures.classification(truth, scores, ("no", "yes"), probabilities=True)["calibration"]
    assert [(one["low"], one["high"]) for one in found] == [
        (round(k / 10, 2), round((k + 1) / 10, 2)) for k in range(10)
    ]
    for k, one in enumerate(found):
        assert one["records"] == 100 and one["predicted"] == pytest.approx(k / 10 + 0.05)
        assert one["observed"] == pytest.approx(truth[100 * k : 100 * (k + 1)].mean())


def test_the_area_under_the_thinned_curve_is_the_auc() -> None:
    truth = RNG.integers(0, 2, 3000)
    scores = RNG.normal(size=3000) + truth
    found = figures.classification(truth, scores, ("a", "b"), probabilities=False)
    curve = found["roc"][0]
    assert len(curve["x"]) <= figures.POINTS + 2 and "calibration" not in found
    auc = measures.classification(truth, scores, probabilities=False)["roc_auc"]
    assert np.trapezoid(curve["y"], curve["x"]) == pytest.approx(auc, abs=0.005)


def test_a_long_curve_keeps_its_ends() -> None:
    x = np.linspace(0, 1, 20 * figures.POINTS)
    found = figures._curve(x, x**2)
    assert len(found["x"]) == figures.POINTS
    assert (found["x"][0], found["x"][-1], found["y"][-1]) == (0.0, 1.0, 1.0)


def test_several_classes_have_a_curve_each_where_they_occur() -> None:
    truth, scores = np.array([0, 0, 1, 1]), RNG.normal(size=(4, 3))
    found = figures.classification(truth, scores, ("a", "b", "c"), probabilities=True)
    assert [c["class"] for c in found["roc"]] == ["a", "b"]
    assert np.sum(found["confusion"]["counts"]) == 4


def test_regression_figures() -> None:
    y = RNG.normal(size=101)
    found = figures.regression(y, np.zeros(101))
    values = {r["share"]: r["value"] for r in found["residuals"]}
    assert values[0.5] == np.median(y) and values[1.0] == y.max()
    assert sum(part["records"] for part in found["fit"]) == 101
    assert figures.regression([], []) == {"residuals": [], "fit": []}


def test_coarse_figures_hold_no_counts_and_no_fine_number() -> None:
    truth, scores = RNG.integers(0, 2, 211), RNG.normal(size=211)
    found = figures.coarse(figures.classification(truth, scores, ("a", "b"), probabilities=True))
    text = json.dumps(found)
    assert "records" not in text and "counts" not in text

    def numbers(value: object) -> list[float]:
        if isinstance(value, dict):
            return [v for part in value.values() for v in numbers(part)]
        if isinstance(value, list):
            return [v for part in value for v in numbers(part)]
        return [float(value)] if isinstance(value, int | float) else []

    assert all(v == round(v, 2) for v in numbers(found))
    parts = np.zeros((2, 2))
    np.add.at(parts, (truth, (scores >= 0).astype(int)), 1 / 211)
    assert found["confusion"] == {"classes": ["a", "b"], "shares": np.round(parts, 2).tolist()}
    plain = figures.coarse(figures.regression(RNG.normal(size=50), RNG.normal(size=50)))
    assert {r["share"] for r in plain["residuals"]}.isdisjoint({0.0, 1.0})
    assert all(r["value"] == float(f"{r['value']:.2g}") for r in plain["residuals"])
