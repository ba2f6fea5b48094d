"""What small members cost, told before a run: against the noise of real runs."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tacenda as tc
from tacenda.planning.advice import uneven_sizes
from tacenda.questions.facts import Facts

SIZES = [500, 500, 500, 1]
NAMES = ["north", "east", "south", "tiny"]


def problem(sizes: list[int]) -> tc.Problem:
    """Records without a signal: what moves the model is noise."""
    rng = np.random.default_rng(0)
    shards = []
    for size in sizes:
        rows = rng.standard_normal((size, 3)) * 1e-9
        shards.append((rows, np.where(rng.random(size) < 0.5, 1.0, -1.0)))
    return tc.Problem(shards, strength=1e-9)


def measured(sizes: list[int], algorithm: tc.algorithms.Algorithm, coalition: int | None) -> float:
    """Standard deviation of the average model after one round, over seeds."""
    graph, budget = tc.graph.complete(len(sizes)), tc.Privacy(1.0, 1e-5, coalition=coalition)
    made, found = problem(sizes), []
    for seed in range(60):
        result = tc.simulate(made, graph, algorithm, 1, budget, seed=seed)
        found.append(result.models.reshape(len(sizes), -1).mean(axis=0))
    return float(np.std(found))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("algorithm", "coalition", "by_hand"),
    [
        # max(s)/sqrt(n (n - q)): (1/sqrt(12)) / ((1/500)/sqrt(6))
        (tc.algorithms.TreeGD(step_size=1e-3), 1, 353.6),
        # |s|/n: (sqrt(1 + 3/500^2)/4) / (sqrt(3/500^2)/3)
        (tc.algorithms.TreeGD(step_size=1e-3, noise="independent"), None, 216.5),
    ],
)
def test_the_factor_is_that_of_real_noise(
    algorithm: tc.algorithms.Algorithm, coalition: int | None, by_hand: float
) -> None:
    (said,) = uneven_sizes(Facts.of(problem(SIZES)), NAMES, coalition)
    assert "tiny (1 record)" in said and "east" not in said
    factor = float(re.search(r"it is (\S+) times", said).group(1))  # type: ignore[union-attr]
    assert factor == pytest.approx(by_hand, rel=0.005)
    real = measured(SIZES, algorithm, coalition) / measured(SIZES[:3], algorithm, coalition)
    assert factor == pytest.approx(real, rel=0.25)  # 180 draws each: 7 % of a ratio


def test_remedies_have_figures() -> None:
    facts = Facts.of(problem(SIZES))
    (worst,) = uneven_sizes(facts.for_the_smallest(), NAMES, None)
    # All draw for one record: 1/sqrt(4) against 1/4 where each draws its own
    assert 'node_noise = "own", for 2 times less' in worst
    assert "all declare size 375), for 375 times less" in worst
    (shared,) = uneven_sizes(Facts.of(problem([100, 100, 100, 20, 20])), "abcde", 1)
    assert "d (20 records)" in shared and "e (20 records)" in shared
    # 1/20/sqrt(20) against sqrt(3/100^2 + 2/20^2)/5
    assert "leave them out" in shared and "independent noise" not in shared


@pytest.mark.parametrize("sizes", [[100] * 5, [100, 90, 80, 70], [40, 100]])
def test_members_alike_are_not_named(sizes: list[int]) -> None:
    assert uneven_sizes(Facts.of(problem(sizes)), "abcde", 1) == []
