"""Metrics of a simulation, against their definitions written out node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import TUNED, problem, shards, uneven
from tacenda.runtime import local_shards, metrics
from tacenda.runtime.held_out import HeldOutRecords, encode_like
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.metrics import METRICS, Snapshot, measure
from tacenda.runtime.ranks import ALONE

N = 5


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    rng = np.random.default_rng(3)
    data = problem(N)
    test = shards([30], 4, seed=9)[0]
    here, topology = LocalShards.of(data, tc.graph.ring(N), 1, ALONE)
    test_records = HeldOutRecords.of(test, data, ALONE)
    return Snapshot(here, topology, rng.normal(size=(N, 4)), data.solve(), test_records)


def by_definition(s: Snapshot) -> dict[str, float]:
    """Every metric from the raw records, with loops and the logistic formula."""
    parts = shards(uneven(N), 4)
    sign = [np.where(y == "yes", 1.0, -1.0) for _, y in parts]

    def losses(i: int, w: Any) -> Any:
        return np.log1p(np.exp(-sign[i] * (parts[i][0] @ w)))

    def f(i: int, w: Any) -> float:
        return float(losses(i, w).mean() + 0.1 / 2 * w @ w)

    def mean_f(w: Any) -> float:
        return float(np.mean([f(i, w) for i in range(N)]))

    def right(w: Any) -> float:
        return float(np.concatenate([sign[i] * (parts[i][0] @ w) > 0 for i in range(N)]).mean())

    w, best, mean = s.models, s.reference, s.models.mean(axis=0)
    assert s.test is not None
    x, y = s.test.x, s.test.labels
    return {
        "objective": mean_f(mean),
        "suboptimality": mean_f(mean) - mean_f(best),
        "node_objective": float(np.mean([mean_f(row) for row in w])),
        "worst_objective": max(mean_f(row) for row in w),
        "local_objective": float(np.mean([f(i, w[i]) for i in range(N)])),
        "loss": float(np.concatenate([losses(i, mean) for i in range(N)]).mean()),
        "accuracy": right(mean),
        "misclassification": 1 - right(mean),
        "node_accuracy": float(np.mean([right(row) for row in w])),
        "worst_accuracy": min(right(row) for row in w),
        "node_loss": float(
            np.mean([np.concatenate([losses(i, row) for i in range(N)]).mean() for row in w])
        ),
        "node_misclassification": 1 - float(np.mean([right(row) for row in w])),
        "own_loss": float(np.mean([losses(i, w[i]).mean() for i in range(N)])),
        "own_misclassification": float(
            np.mean([(sign[i] * (parts[i][0] @ w[i]) < 0).mean() for i in range(N)])
        ),
        "test_loss": float(np.log1p(np.exp(-y * (x @ mean))).mean()),
        "test_accuracy": float((y * (x @ mean) > 0).mean()),
        "consensus": float(np.sqrt(sum(np.sum((row - mean) ** 2) for row in w) / N)),
        "distance": float(sum(np.sum((row - best) ** 2) for row in w) / np.sum(best**2)),
        "zeros": float(np.mean([np.count_nonzero(row == 0.0) / len(row) for row in w])),
        "infeasibility": float(sum(np.linalg.norm(w[i] - w[(i + 1) % N]) for i in range(N))),
        "data_passes": s.passes,
    }


def test_every_metric_by_its_definition(snapshot: Snapshot) -> None:
    expected = by_definition(snapshot)
    assert set(expected) == set(METRICS)
    assert measure(list(METRICS), snapshot) == pytest.approx(expected, rel=1e-10)


def test_every_metric_of_private_records_is_told_coarsely() -> None:
    """Where their number is private: all but those of public test data and of models alone."""
    exact = {name for name, metric in METRICS.items() if metric.coarse is None}
    assert exact == {
        "test_loss", "test_accuracy", "consensus", "distance", "infeasibility", "zeros"
    }  # fmt: skip
    for name in METRICS.keys() - exact:
        assert METRICS[name].coarse(0.123456789) == 0.12  # type: ignore[misc]


def test_passes_over_the_records_are_counted() -> None:
    """A gradient is one pass; of a local solver every gradient and every Hessian is one. R-ADMM
    reads the records in every second iteration only."""
    data, ring = problem(N), tc.graph.ring(N)

    def passes(algorithm: Any, rounds: int, blocks: int = 1) -> Any:
        settings: Any = {"metrics": ("data_passes",), "solver_tolerance": 1e-6, "blocks": blocks}
        return tc.simulate(data, ring, algorithm, rounds, **settings).history["data_passes"]

    for _ in range(2):  # each run counts its own
        assert passes(tc.algorithms.IPADMM(inner_steps=3), 4).tolist() == [3, 6, 9, 12]
    one_by_one = passes(tc.algorithms.DDA(batch_size=1, sampling="one"), 5)
    assert one_by_one.tolist() == pytest.approx([t * N / data.sizes.sum() for t in range(1, 6)])
    admm, recycled = tc.algorithms.ADMM(0.1), tc.algorithms.RADMM(0.1, 0.5)
    # The first minimiser: its gradient, a Hessian, and a gradient for each step
    assert passes(admm, 1)[0] >= 3
    with pytest.warns(match="bipartite|recycle_proximal"):
        assert passes(recycled, 10)[-1] < 0.75 * passes(admm, 20)[-1]
    assert passes(admm, 5, blocks=2).tolist() == pytest.approx(passes(admm, 5).tolist())


def test_history_rows_columns_and_recording() -> None:
    data = problem(N)
    result = tc.simulate(
        data,
        tc.graph.ring(N),
        TUNED["ipadmm"],
        7,
        record_every=3,
        metrics=("objective", "consensus"),
        finish_mixing=2,
    )
    assert result.history["round"].tolist() == [3, 6, 7, 9]
    assert result.history.columns == [
        "round",
        "objective",
        "consensus",
        "seconds",
        "messages",
        "bytes",
    ]
    assert result.history["messages"].tolist()[:3] == [30, 60, 70]
    assert np.all(np.diff(result.history["seconds"]) >= 0)
    assert len(result.history.to_pandas()) == 4
    assert "private data" in result.history.note


def test_a_true_answer_of_the_callback_stops_the_run() -> None:
    result = tc.simulate(
        problem(N), tc.graph.ring(N), TUNED["ipadmm"], 50, callback=lambda t, models: t == 4
    )
    assert result.rounds == 4
    assert result.history["round"].tolist() == [1, 2, 3, 4]


def test_a_stopped_private_run_is_charged_for_what_it_released() -> None:
    budget = tc.Privacy(epsilon=2.0)
    stopped = tc.simulate(
        problem(N),
        tc.graph.ring(N),
        TUNED["ipadmm"],
        20,
        budget,
        0,
        callback=lambda t, models: t == 5,
    )
    assert len(stopped.privacy.charges) == 15
    assert 0 < stopped.privacy.epsilon < 2.0


def test_labels_in_the_problems_own_coding() -> None:
    assert encode_like(problem(N), ["yes", "no"]).tolist() == [1.0, -1.0]
    classes = tc.Problem(
        shards(uneven(N), 3, task="classes"), loss="multinomial", classes=(2, 0, 1)
    )
    assert encode_like(classes, [2, 0, 1]).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("chunk", [1, 7, 60])
def test_looking_at_some_records_at_a_time_changes_no_bit(
    chunk: int, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured() -> dict[str, float]:
        again = Snapshot(snapshot.shards, snapshot.topology, snapshot.models, None, None)
        return measure(("objective", "loss", "consensus"), again)

    whole = measured()
    for module in (local_shards, metrics):
        monkeypatch.setattr(module, "_CHUNK", chunk)
    assert measured() == whole
