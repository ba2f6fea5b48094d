"""Every algorithm that says it serves a loss of counts or of a quantile runs with it, and keeps the
budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.algorithms.registry import ALGORITHMS
from tacenda.algorithms.support import support

LOSSES = ("poisson", "negative-binomial", "quantile", "smoothed-quantile")
SERVED = [
    pytest.param(name, loss, marks=() if loss == "poisson" else pytest.mark.slow)
    for loss in LOSSES
    for name in ALGORITHMS
    if support(name, loss, "l2").plain
]


def records() -> list[Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(200, 3))
    y = np.clip(0.3 * np.exp(X @ [1.0, -1.0, 0.5]) + 0.1 * rng.normal(size=200), 0, 1)
    return list(tc.data.partition.even(X, y, 4, seed=0))


@pytest.mark.parametrize(("name", "loss"), SERVED)
@pytest.mark.filterwarnings("ignore::tacenda.errors.ConvergenceWarning")
def test_it_runs_and_keeps_the_budget(name: str, loss: str) -> None:
    problem = tc.Problem(records(), loss=loss, strength=0.1)
    private = support(name, loss, "l2").private
    result = tc.simulate(
        problem,
        tc.graph.complete(4),
        name,
        rounds=3,
        privacy=tc.Privacy(1.0, 1e-3) if private else None,
        seed=0,
        record_every=0,
        progress=False,
    )
    assert np.isfinite(result.models).all()
    if private:
        assert result.privacy is not None and result.privacy.epsilon <= 1 + 1e-6
