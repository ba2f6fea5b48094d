"""Measures against scikit-learn called directly, against counting pairs, and at the edges."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from sklearn import metrics

from tacenda.evaluation import class_measures, measures
from tacenda.evaluation.measures import classification, regression, undefined
from tacenda.evaluation.units import Units

RNG = np.random.default_rng(4)


def pairs_auc(truth: Any, scores: Any) -> float:
    """The chance that a positive record has the higher score, ties counted half."""
    pairs = itertools.product(scores[truth == 1], scores[truth == 0])
    return float(np.mean([(a > b) + 0.5 * (a == b) for a, b in pairs]))


def test_two_classes() -> None:
    truth = RNG.integers(0, 2, 60)
    scores = np.round(RNG.normal(size=60) + truth, 1)  # with ties
    found = classification(truth, scores, probabilities=True)
    chances = 1 / (1 + np.exp(-scores))
    assert list(found) == [m.name for m in class_measures.MEASURES]
    assert found["accuracy"] == pytest.approx(np.mean((scores >= 0) == truth))
    assert found["roc_auc"] == pytest.approx(pairs_auc(truth, scores))
    assert found["log_loss"] == pytest.approx(metrics.log_loss(truth, chances))
    assert found["brier"] == pytest.approx(metrics.brier_score_loss(truth, chances))
    hits = np.sum((scores >= 0) & (truth == 1))
    assert found["f1"] == pytest.approx(2 * hits / (np.sum(scores >= 0) + np.sum(truth)))
    recalls = [np.mean((scores >= 0)[truth == c] == c) for c in (0, 1)]
    assert found["balanced_accuracy"] == pytest.approx(np.mean(recalls))


def test_several_classes_are_means_over_one_against_the_rest() -> None:
    truth, scores = RNG.integers(0, 3, 90), RNG.normal(size=(90, 3))
    scores[np.arange(90), truth] += 1
    found = classification(truth, scores, probabilities=True)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    auc = [pairs_auc((truth == c).astype(int), chances[:, c]) for c in range(3)]
    assert found["roc_auc"] == pytest.approx(np.mean(auc))
    assert found["roc_auc"] == pytest.approx(
        metrics.roc_auc_score(truth, chances, multi_class="ovr")
    )
    assert found["log_loss"] == pytest.approx(metrics.log_loss(truth, chances))
    assert found["f1"] == pytest.approx(
        metrics.f1_score(truth, chances.argmax(axis=1), average="macro")
    )
    one_hot = np.eye(3)[truth]
    assert found["brier"] == pytest.approx(np.mean(np.sum((chances - one_hot) ** 2, axis=1)))


def test_losses_without_probabilities_have_no_log_loss() -> None:
    truth, scores = np.array([0, 1, 1, 0]), np.array([-3.0, 2.0, -0.1, 0.4])
    found = classification(truth, scores, probabilities=False)
    assert "log_loss" not in found and "brier" not in found
    assert found["roc_auc"] == pytest.approx(0.75)


def test_large_scores_do_not_overflow() -> None:
    found = classification(np.array([0, 1]), np.array([800.0, 800.0]), probabilities=True)
    assert found["log_loss"] == pytest.approx(400.0)
    several = classification(np.array([0, 1, 2]), 900.0 * np.eye(3)[::-1], probabilities=True)
    assert several["log_loss"] == pytest.approx(600.0)


def test_what_records_do_not_define_is_none_and_said() -> None:
    found = classification(np.ones(4, int), np.array([1.0, 2, -1, 3]), probabilities=True)
    assert found["roc_auc"] is None and found["average_precision"] is None
    assert found["balanced_accuracy"] is None and found["accuracy"] == 0.75
    said = undefined(found)
    assert len(said) == 3 and any("ROC AUC is not defined" in text for text in said)
    nothing = classification(np.zeros(4, int), np.full(4, -1.0), probabilities=False)
    assert nothing["f1"] is None  # no positive record, none predicted
    absent = classification(np.array([0, 1, 1]), RNG.normal(size=(3, 3)), probabilities=True)
    assert absent["roc_auc"] is None and absent["balanced_accuracy"] is not None
    assert all(v is None for v in classification([], np.zeros(0), probabilities=True).values())
    assert all(v is None for v in regression([], []).values())


def test_regression_in_the_labels_units() -> None:
    y = np.array([1.0, 2.0, 4.0])
    found = regression(y, np.array([1.0, 3.0, 2.0]))
    assert found["mae"] == pytest.approx(1.0)
    assert found["rmse"] == pytest.approx(math.sqrt(5 / 3))
    assert found["r2"] == pytest.approx(1 - 5 / np.sum((y - y.mean()) ** 2))
    assert regression([2.0, 2.0], [1.0, 3.0])["r2"] is None
    assert regression([0.1, 0.3], [0.1, 0.3])["r2"] == 1.0  # labels that are near each other


def test_where_the_number_of_records_is_private_measures_are_coarse() -> None:
    """As each measure says, where add-remove hides the number; unchanged where it is public."""
    values = {"accuracy": 0.81234567, "log_loss": 0.4321987}
    assert measures.as_shown(values, "replace-one") == values
    shown = measures.as_shown(values, "add-remove")
    for name, value in values.items():
        assert shown[name] == measures.MEASURES[name].coarse(value) != value


def test_headlines_are_of_test_records_where_there_are_any() -> None:
    assert measures.headline([{"accuracy": 0.5, "roc_auc": None}]) == ["accuracy"]
    rows = [{"r2": 0.5, "rmse": 2.0}, {"test_r2": 0.4, "test_rmse": 3.0, "r2": 0.5}]
    assert measures.headline(rows) == ["test_r2", "test_rmse"]
    assert measures.headline([{"loss": 1.0}]) == []
    assert measures.title("test_roc_auc") == "test ROC AUC"


def test_counts_and_quantiles_have_measures_of_their_own() -> None:
    y, rates = np.array([0.0, 2.0, 5.0, 1.0]), np.array([0.5, 2.0, 3.0, 1.5])
    found = regression(y, rates, loss="poisson")
    unit = 2 * (np.where(y > 0, y * np.log(np.maximum(y, 1) / rates), 0.0) - y + rates)
    assert found["deviance"] == pytest.approx(unit.mean())
    assert regression(-y, rates, loss="poisson")["deviance"] is None
    found = regression(y, rates, loss="smoothed-quantile", level=0.75)
    assert found["pinball"] == pytest.approx(
        np.maximum(0.75 * (y - rates), 0.25 * (rates - y)).mean()
    )
    assert found["share_below"] == 0.75 and "deviance" not in found
    assert set(regression(y, rates, loss="huber")) == {"r2", "rmse", "mae"}


def test_scores_of_counts_are_logarithms_of_rates() -> None:
    units = Units(0.0, 12.0, 0.0, 12.0)
    scores = np.array([-1e9, math.log(0.25), 5.0, 1e9])
    assert units.of_loss("poisson").predictions(scores) == pytest.approx([0.0, 3.0, 12.0, 12.0])
    assert units.of_loss("huber") == units
    assert units.of_loss("poisson").labels([0.5]) == pytest.approx([6.0])
