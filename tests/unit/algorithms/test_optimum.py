"""Without privacy a run ends at the optimum of its objective, whatever loss, regulariser, graph and
split; it knows when, and its nodes hold one model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tacenda as tc
from tacenda.algorithms import Optimum
from tacenda.errors import UnsupportedError
from tacenda.planning import without_privacy
from tacenda.questions.facts import Facts

REGRESSION = ("squared", "huber", "absolute-deviation")


def problem(loss: str, regulariser: str = "l2", strength: float = 1e-4, **more: Any) -> tc.Problem:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 8)) * np.arange(1, 9) ** -1.5
    x /= np.linalg.norm(x, axis=1).max()
    scores = 6 * x @ rng.normal(size=8)
    if loss in REGRESSION:
        y = np.clip(scores + 0.3 * rng.normal(size=400), -2, 2)
    elif loss == "multinomial":
        y = np.argmax(6 * x @ rng.normal(size=(8, 3)) + rng.gumbel(size=(400, 3)), axis=1)
    else:
        y = (scores + rng.logistic(size=400) > 0.5).astype(float)
    table: Any = (
        sp.csr_array(x) if more.pop("sparse", False) else x.astype(more.pop("dtype", float))
    )
    classes = None if loss in REGRESSION else tuple(np.unique(y))
    split = tc.data.partition
    numbers = loss in REGRESSION
    parts = split.even(table, y, 6) if numbers else split.by_label_skew(table, y, 6, 0.5, 1)
    return tc.Problem(
        parts, loss=loss, regulariser=regulariser, strength=strength, classes=classes, **more
    )


def run(data: tc.Problem, graph: Any = None, **more: Any) -> Any:
    found = without_privacy(Facts.of(data))
    network = tc.graph.ring(6) if graph is None else graph
    return tc.simulate(data, network, found, record_every=0, progress=False, **more)


def excess(data: tc.Problem, result: Any, tolerance: float = 1e-8) -> float:
    least = data.objective(data.solve(tolerance))
    return float(data.objective(np.ravel(result.models[0])) - least) / least


@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge", "multinomial", "squared", "huber"])
@pytest.mark.parametrize(("regulariser", "strength"), [("l2", 1e-4), ("l1", 3e-3), ("none", 0.0)])
def test_smooth_losses_end_at_the_optimum(loss: str, regulariser: str, strength: float) -> None:
    data = problem(loss, regulariser, strength)
    result = run(data)
    assert result.rounds < Optimum.default_rounds
    assert abs(excess(data, result)) < 1e-7
    assert (result.models == result.models[0]).all()


@pytest.mark.parametrize("loss", ["hinge", "absolute-deviation"])
def test_losses_with_kinks_end_near_it(loss: str) -> None:
    data = problem(loss, strength=1e-3)
    assert excess(data, run(data), 1e-5) < 1e-3


def test_zeros_of_a_lasso_are_zeros() -> None:
    data = problem("squared", "l1", 2e-2)
    best = data.solve(1e-12)
    assert 0 < np.sum(best == 0) < 8
    assert ((run(data).model == 0) == (best == 0)).all()


def test_sparse_records_and_more_features_than_a_moment_is_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tacenda.algorithms.optimum.MOST_FEATURES", 3)
    for regulariser, strength in (("l2", 1e-3), ("l1", 3e-3)):
        data = problem("logistic", regulariser, strength, sparse=True)
        assert abs(excess(data, run(data))) < 1e-6


def test_float32_records_stop_where_their_digits_end() -> None:
    data = problem("logistic", strength=1e-2, dtype=np.float32)
    result = run(data)
    assert result.rounds < 60
    assert abs(excess(data, result, 1e-6)) < 1e-5


def test_the_answer_says_how_far_it_is() -> None:
    data = problem("logistic", strength=1e-3)
    result = run(data)
    w = np.ravel(result.model)
    step = 1e-6 * np.eye(8)
    slopes = [(data.objective(w + e) - data.objective(w - e)) / 2e-6 for e in step]
    said = float(result.released["gradient_norm"][0])
    assert said <= 1e-6
    assert np.linalg.norm(slopes) < said + 1e-8
    # a bound that strong convexity gives: |g|^2 / (2 r)
    assert excess(data, result) * data.objective(w) <= said**2 / (2 * 1e-3) + 1e-12


def test_one_node_needs_no_network() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3)) / 10
    data = tc.Problem([(x, (x[:, 0] > 0).astype(float))], strength=1e-2, classes=(0, 1))
    assert abs(excess(data, run(data, tc.graph.complete(1)))) < 1e-9


def test_a_run_that_is_resumed_ends_with_the_same_bits(tmp_path: Any) -> None:
    data, file = problem("logistic"), tmp_path / "run.ckpt"
    whole = run(data)

    def stop(turn: int, models: Any) -> bool:
        return turn == 5

    found = without_privacy(Facts.of(data))
    ring = tc.graph.ring(6)
    tc.simulate(data, ring, found, seed=0, checkpoint=file, callback=stop, progress=False)
    again = tc.simulate(data, ring, found, seed=0, checkpoint=file, resume=True, progress=False)
    assert again.rounds == whole.rounds and (again.models == whole.models).all()


def test_clipped_gradients_and_a_budget_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="clip_norm must be left out, not 0.5"):
        run(problem("squared", clip_norm=0.5))
    with pytest.raises(UnsupportedError, match="adds no noise"):
        run(problem("logistic"), privacy=tc.Privacy(1.0))
