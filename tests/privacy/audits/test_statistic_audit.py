"""The release of a statistic under attack: the attack is at full strength, and finds a forgotten
factor."""

from __future__ import annotations

from typing import Any

import pytest

import tacenda as tc
from tacenda.algorithms import StatisticRelease
from tacenda.questions.counts import ClassCounts
from tacenda.questions.facts import Facts

pytestmark = pytest.mark.slow


def attacked(noise: str, trials: int = 2000) -> Any:
    counts = ClassCounts(2, probabilities=False)
    return tc.audit(
        StatisticRelease(counts, noise),
        privacy=tc.Privacy(2.0),
        rounds=1,
        trials=trials,
        seed=0,
        progress=False,
    )


@pytest.mark.parametrize("noise", ["independent", "masked"])
def test_the_empirical_epsilon_stays_below_the_stated_one(noise: str) -> None:
    found = attacked(noise)
    assert not found.broken
    assert found.lower_bound <= 2.0
    assert found.mu_lower <= found.mu_claimed


def test_the_attack_is_as_strong_as_the_bound_allows() -> None:
    found = attacked("independent", 6000)
    assert found.mu_fit.mu == pytest.approx(found.mu_claimed, rel=0.2)


def test_a_sensitivity_that_is_too_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    distance = Facts.statistic_distance
    monkeypatch.setattr(
        Facts, "statistic_distance", lambda self, statistic: distance(self, statistic) / 8
    )
    assert attacked("independent").broken
