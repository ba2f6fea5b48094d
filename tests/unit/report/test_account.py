"""The report's privacy figures against closed forms computed here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from tacenda.privacy.accounting import events
from tacenda.privacy.secrets.ledger import Charge, Charges
from tacenda.privacy.statement import Statement
from tacenda.report.account import Account, together


def gaussian_delta(epsilon: float, mu: float) -> float:
    return float(
        norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
    )


def gaussian_epsilon(delta: float, mu: float) -> float:
    return float(brentq(lambda e: gaussian_delta(e, mu) - delta, 0.0, 200.0, xtol=1e-12))


def statement(multipliers: list[list[float]], counts: list[int], **changes: Any) -> Statement:
    """multipliers: for each charge, one per node."""
    charges = Charges(
        (Charge(events.Gaussian, {"noise_multiplier": np.array(row)}), count)
        for row, count in zip(multipliers, counts, strict=True)
    )
    given: dict[str, Any] = {
        "adjacency": "replace-one",
        "mode": "sound",
        "target": 1.0,
        "noise": "operating system",
        **changes,
    }
    return Statement(charges, len(multipliers[0]), 1e-5, **given)


def test_worst_node_and_best_guess() -> None:
    account = Account.of(statement([[40.0, 37.31]], [100]), {})
    mu = 10 / 37.31
    assert account.worst_node == 1
    assert account.epsilon == pytest.approx(gaussian_epsilon(1e-5, mu), rel=1e-9)
    # the best test between N(0, 1) and N(mu, 1) with even odds is right with chance Phi(mu / 2)
    assert account.best_guess == pytest.approx(norm.cdf(mu / 2), abs=1e-12)
    assert account.node_epsilons is not None
    assert account.node_epsilons[0] == pytest.approx(gaussian_epsilon(1e-5, 10 / 40), rel=1e-9)


def test_profile_holds_the_stated_point() -> None:
    account = Account.of(statement([[5.0]], [4]), {})
    deltas, epsilons = account.profile()
    assert epsilons[deltas == 1e-5] == pytest.approx(gaussian_epsilon(1e-5, 2 / 5), rel=1e-9)
    assert np.all(np.diff(epsilons) <= 0)


def test_spending_is_the_composition_up_to_each_round() -> None:
    account = Account.of(statement([[50.0], [25.0]], [20, 20]), {})
    rounds, spent = account.spending(20)  # two releases a round
    assert rounds[0] == 0
    assert spent[0] == 0
    for r, s in zip(rounds[1:], spent[1:], strict=True):
        k = round(2 * r)
        mu = math.sqrt(min(k, 20) / 50**2 + max(k - 20, 0) / 25**2)
        assert s == pytest.approx(gaussian_epsilon(1e-5, mu), rel=1e-8)
    assert (rounds[-1], spent[-1]) == (20, pytest.approx(account.epsilon))


def test_single_releases() -> None:
    account = Account.of(statement([[50.0], [5.0]], [3, 1]), {})
    rounds, cost = account.single_releases(4)
    assert rounds.tolist() == [1, 2, 3, 4]
    assert cost[0] == pytest.approx(gaussian_epsilon(1e-5, 1 / 50), rel=1e-8)
    assert cost[3] == pytest.approx(gaussian_epsilon(1e-5, 1 / 5), rel=1e-8)


def test_several_records_of_one_person() -> None:
    account = Account.of(statement([[40.0]], [100]), {})
    for size, epsilon in account.groups((2, 5)):
        assert epsilon == pytest.approx(gaussian_epsilon(1e-5, size * 10 / 40), rel=1e-8)


def test_runs_published_together_add_node_by_node() -> None:
    one = Account.of(statement([[4.0, 8.0]], [1]), {})
    other = Account.of(statement([[8.0, 4.0]], [1]), {})
    found = together([one, other])
    # each node has mu^2 = 1/16 + 1/64, less than the two worst nodes' 2/16
    assert found is not None
    assert found[0] == pytest.approx(gaussian_epsilon(1e-5, math.sqrt(1 / 16 + 1 / 64)), rel=1e-8)
    assert found[1] == 1e-5


def test_together_of_mixed_runs_is_the_plain_sum_and_relations_must_agree() -> None:
    pure = Charges([(Charge(events.Pure, {"epsilon": np.array([0.5, 0.5])}), 1)])
    second = Account.of(Statement(pure, 2, 1e-6, "replace-one", "sound", 0.5, "x"), {})
    first = Account.of(statement([[4.0, 8.0]], [1]), {})
    assert together([first, second]) == pytest.approx((first.epsilon + second.epsilon, 1.1e-5))
    other = Account.of(statement([[4.0, 8.0]], [1], adjacency="add-remove"), {})
    assert together([first, other]) is None


def test_a_missed_target_is_seen() -> None:
    weak = Account.of(statement([[1.0]], [1], target=1.0), {})
    assert weak.epsilon > 3
    assert not weak.kept
    assert Account.of(statement([[1.0]], [1], target={"noise_multiplier": 1.0}), {}).kept


def test_the_stored_worst_node_saves_judging_all() -> None:
    rates = Charge(events.Pure, {"epsilon": np.array([0.1, 0.3, 0.2])})
    s = Statement(Charges([(rates, 5)]), 3, 1e-5, "replace-one", "sound", None, "x")
    assert Account.of(s, {}).worst_node == 1
    assert Account.of(s, {"worst_node": 2}).worst_node == 2
    assert Account.of(s, {"worst_node": 9}).worst_node == 1
