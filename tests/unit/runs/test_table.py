"""The measures of a run's table, against scores computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.evaluation.measures import as_shown
from tacenda.evaluation.units import Units
from tacenda.runs import table
from tacenda.runtime.held_out import HeldOutRecords
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.ranks import ALONE

RNG = np.random.default_rng(7)
X = RNG.uniform(-0.5, 0.5, (60, 3))
W = np.array([1.0, -0.5, 0.25])


def evaluate(problem: tc.Problem, test: Any, *rest: Any) -> dict[str, Any]:
    return table.evaluate(
        LocalShards.alone(problem), HeldOutRecords.of(test, problem, ALONE), *rest
    )


def regression() -> tc.Problem:
    y = X @ W + RNG.normal(0, 0.1, 60)
    return tc.Problem([(X[:30], y[:30]), (X[30:], y[30:])], loss="squared", clip_norm=1.0)


def test_regression_measures_are_in_the_labels_units() -> None:
    problem = regression()
    y = problem.store.labels
    plain = evaluate(problem, (X, y), W, "replace-one")
    units = evaluate(problem, (X, y), W, "replace-one", Units(50.0, 200.0))
    rmse = float(np.sqrt(np.mean((X @ W - y) ** 2)))
    assert plain["rmse"] == pytest.approx(rmse) and units["rmse"] == pytest.approx(200 * rmse)
    assert units["mae"] == pytest.approx(200 * plain["mae"])
    assert units["r2"] == pytest.approx(plain["r2"]) == pytest.approx(units["test_r2"])
    assert plain["loss"] == pytest.approx(rmse**2 / 2) == pytest.approx(units["test_loss"])
    assert "accuracy" not in plain


def test_predictions_stay_inside_the_labels_bounds() -> None:
    problem = regression()
    units = Units(0.0, 1.0, -0.05, 0.05)
    found = evaluate(problem, None, W, "replace-one", units)
    off = np.clip(X @ W, -0.05, 0.05) - problem.store.labels
    assert found["mae"] == pytest.approx(np.mean(np.abs(off)))


def test_classification_measures_on_both_parts() -> None:
    y = np.where(X @ W > 0.05, "yes", "no")
    problem = tc.Problem([(X, y)], loss="logistic", classes=("no", "yes"))
    found = evaluate(problem, (X[:20], y[:20]), W, "replace-one")
    assert found["roc_auc"] == 1.0 == found["test_roc_auc"]
    assert found["accuracy"] == pytest.approx(np.mean((X @ W >= 0) == (y == "yes")))
    assert found["log_loss"] == pytest.approx(found["loss"])
    hinge = tc.Problem([(X, y)], loss="hinge", classes=("no", "yes"))
    assert "log_loss" not in evaluate(hinge, None, W, "replace-one")


def test_a_row_has_means_and_ranges_of_the_measures() -> None:
    problem = regression()
    result = tc.simulate(problem, tc.graph.path(2), tc.algorithms.DDA(), 2, None, seed=0)
    row = table.row("dda", [result, result], [{"r2": 0.5, "rmse": 1.0}, {"r2": 0.25, "mae": None}])
    assert row["r2"] == 0.375 and row["r2_range"] == [0.25, 0.5]
    assert row["rmse"] == 1.0 and "mae" not in row


def test_under_add_remove_every_measure_of_private_records_is_coarse() -> None:
    fine = dict.fromkeys(table.MEANS, 0.123456)
    shown = as_shown(fine, "add-remove")
    for name, value in shown.items():
        assert (value == 0.123456) == name.startswith("test_"), name
    assert as_shown({"r2_range": [0.1234, 0.5678]}, "add-remove") == {"r2_range": [0.12, 0.57]}
