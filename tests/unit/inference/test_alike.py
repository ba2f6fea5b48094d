"""Are nodes alike? Against a statistic computed by hand, and under both hypotheses."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, kstest

import tacenda as tc
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.errors import InputError, UnsupportedError
from tacenda.inference import Condition, GradientMoments, heterogeneity
from tacenda.inference.alike import Heterogeneity, compared
from tacenda.runtime.history import History
from tacenda.runtime.result import RunResult

D, NODES, EACH = 3, 5, 400
TRUTH = np.array([1.0, -1.0, 0.5])
GRAPH = tc.graph.complete(NODES)


def start() -> RunResult:
    models = TRUTH[None]
    settings = {"algorithm": {"name": "treegd"}, "rounds": 1, "problem": {"n_features": D}}
    return RunResult(models, models, History([]), None, settings)


def problem(seed: int, shift: float = 0.0, nodes: int = NODES) -> tc.Problem:
    """Nodes of unequal size; the first has another first coefficient."""
    rng, shards = np.random.default_rng(seed), []
    for i in range(nodes):
        X = rng.normal(size=(EACH + 100 * i, D)) * 0.35
        X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
        own = TRUTH + np.array([shift if i == 0 else 0.0, 0.0, 0.0])
        shards.append((X, (rng.random(len(X)) < 1 / (1 + np.exp(-X @ own))).astype(int)))
    return tc.Problem(shards, loss="logistic", classes=(0, 1), data_norm=1.0)


def outcome(seed: int, shift: float = 0.0, epsilon: float | None = 4.0) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        privacy = None if epsilon is None else tc.Privacy(epsilon)
        return heterogeneity(start(), problem(seed, shift), GRAPH, privacy=privacy, seed=seed)


def test_without_noise_it_is_the_statistic_by_hand() -> None:
    found, data = outcome(0, epsilon=None), problem(0)
    rows = []
    for i in range(NODES):
        rng_rows = data.store.rows[data.store.offsets[i] : data.store.offsets[i + 1]]
        y = data.store.labels[data.store.offsets[i] : data.store.offsets[i + 1]]
        rows.append(rng_rows * (-y / (1 + np.exp(y * (rng_rows @ TRUTH))))[:, None])
    together = np.vstack(rows)
    mean = together.mean(axis=0)
    V = together.T @ together / len(together) - np.outer(mean, mean)
    q = sum(
        len(r) * (r.mean(axis=0) - mean) @ np.linalg.solve(V, r.mean(axis=0) - mean) for r in rows
    )
    assert found.statistic == pytest.approx(q, rel=1e-8)
    assert found.degrees == (NODES - 1) * D and found.noise == 0 and found.privacy is None
    assert found.p_value == pytest.approx(chi2.sf(q, found.degrees))
    assert found.nodes.sum() == pytest.approx(q)


def test_alike_nodes_give_a_uniform_p_value_and_others_a_small_one() -> None:
    null = [outcome(seed).p_value for seed in range(40)]
    assert kstest(null, "uniform").pvalue > 0.001
    other = [outcome(seed, shift=4.0) for seed in range(8)]
    assert np.median([found.p_value for found in other]) < 0.01
    assert all(np.argmax(found.nodes) == 0 for found in other)
    assert other[0].privacy.epsilon == pytest.approx(4.0, rel=1e-3)
    assert "epsilon 4" in str(other[0]) and other[0].to_plain()["degrees"] == 12


def test_it_reads_what_was_released_and_nothing_else() -> None:
    asked = GradientMoments(D, "logistic", curvature=False)
    runs = []
    for seed in (0, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = StatisticRelease(asked, "independent")
            runs.append(
                tc.simulate(problem(seed), GRAPH, release, 1, tc.Privacy(2.0), 0, init=TRUTH)
            )
    swapped = replace(runs[1], released=runs[0].released)
    assert compared(asked, swapped).to_plain() == compared(asked, runs[0]).to_plain()
    assert compared(asked, runs[1]).statistic != compared(asked, runs[0]).statistic


def test_what_was_found_is_told_line_by_line() -> None:
    conditions = (Condition("records", True, "Enough."), Condition("model", None, "Right."))
    found = Heterogeneity(7.25, 6, 0.298, np.ones(7), 0.17, 0.31, conditions)
    assert str(found).split("\n") == [
        "Are the nodes alike? Q = 7.25 with 6 degrees of freedom, p = 0.298; 17% of the "
        "differences is more than chance.",
        "31% of the gradients' variance is privacy noise.",
        "Enough.",
        "Right.",
        "It cost nothing: there was no noise, and there is no privacy.",
    ]
    assert "no p-value" in str(replace(found, p_value=None))


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(InputError, match="two nodes"):
        heterogeneity(start(), problem(0, nodes=1), tc.graph.complete(1))
    asked = GradientMoments(D, "logistic", curvature=False)
    masked = tc.simulate(problem(0), GRAPH, StatisticRelease(asked), 1, init=TRUTH)
    with pytest.raises(UnsupportedError, match="masked"):
        compared(asked, masked)
