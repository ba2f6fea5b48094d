"""A statement against every node judged by itself; and its plain form, key by key."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from tacenda.errors import InputError
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.accounting.events import CorrelatedGaussian, Gaussian, MaskedSum, Pure
from tacenda.privacy.accounting.final_model import WHOLE_RUN
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.secrets.ledger import Charge, Charges
from tacenda.privacy.statement import Statement

DELTA = 1e-5


def gaussian(*z: float) -> Charge:
    return Charge(Gaussian, {"noise_multiplier": np.array(z)})


def pure(*epsilon: float) -> Charge:
    return Charge(Pure, {"epsilon": np.array(epsilon)})


def shared(kind: Any, mu: list[float], coalition: list[int]) -> Charge:
    return Charge(kind, {"mu": np.array(mu), "coalition": np.array(coalition, float)})


def said(*charges: tuple[Charge, int], **more: Any) -> Statement:
    n = len(next(iter(charges[0][0].parameters.values()))) if charges else 3
    values = {
        "delta": DELTA,
        "adjacency": "replace-one",
        "mode": "sound",
        "target": 1.0,
        "noise": "seeded",
        **more,
    }
    return Statement(Charges(charges), n, **values)


CASES = {
    "gaussian": [(gaussian(5.0, 3.0, 5.0, 9.0), 4), (gaussian(7.0, 8.0, 7.0, 2.5), 1)],
    "pure": [(pure(0.1, 0.3, 0.1), 3)],
    "shared": [(shared(CorrelatedGaussian, [0.1, 0.4, 0.2], [1, 1, 1]), 5)],
    "nothing": [],
}


@pytest.mark.parametrize("name", CASES)
def test_every_node_has_the_epsilon_of_its_own_charges(name: str) -> None:
    statement = said(*CASES[name])
    n = statement.n_nodes
    each = [
        judge([(charge.event(i), count) for charge, count in CASES[name]]).epsilon(DELTA)
        for i in range(n)
    ]
    np.testing.assert_allclose(statement.node_epsilons, each, rtol=1e-9)
    assert statement.epsilon == pytest.approx(max(each), rel=1e-9)
    assert statement.worst_node == int(np.argmax(each))
    for i in range(n):
        assert statement.curve(i).epsilon(DELTA) == pytest.approx(each[i], rel=1e-9)
        assert statement.ledger(i) == [(c.event(i), count) for c, count in CASES[name]]
    assert statement.curve() is statement.curve(statement.worst_node)
    assert statement.accountant == statement.curve().accountant
    worst = statement.worst_node
    assert statement.round_losses == [
        {**charge.event(worst).to_dict(), "count": count} for charge, count in CASES[name]
    ]
    for wrong in (-1, n):
        with pytest.raises(InputError, match=rf"^node must be a position from 0 to {n - 1}, not "):
            statement.curve(wrong)


def test_nodes_that_lose_the_same_in_another_order_are_judged_once() -> None:
    statement = said((gaussian(2.0, 5.0, 2.0), 3), (gaussian(5.0, 2.0, 5.0), 3))
    assert len(statement._curves) == 1 and len(set(statement.node_epsilons.tolist())) == 1
    apart = said((gaussian(2.0, 5.0, 2.0), 3), (gaussian(5.0, 2.0, 5.0), 2))
    assert len(apart._curves) == 2


def mu_of(epsilon: float) -> float:
    """mu of a Gaussian curve with this epsilon at DELTA, by bisection."""
    low, high = 0.0, 50.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if GaussianProfile(middle).epsilon(DELTA) < epsilon else (low, middle)
        )
    return high


def test_a_person_on_several_nodes() -> None:
    own = said((gaussian(2.0, 4.0, 8.0), 3))
    mu = math.sqrt(3 * (1 / 4 + 1 / 64))
    assert mu_of(own.person([2, 0])) == pytest.approx(mu, rel=1e-6)
    assert own.person([1]) == pytest.approx(own.curve(1).epsilon(DELTA), rel=1e-9)
    for kind in (CorrelatedGaussian, MaskedSum):
        together = said((shared(kind, [0.1, 0.4, 0.2], [2, 2, 2]), 4))
        assert mu_of(together.person([0, 2])) == pytest.approx(math.sqrt(4) * 0.3, rel=1e-6)
    mixed = said((gaussian(2.0, 4.0, 8.0), 1), (shared(CorrelatedGaussian, [0.1] * 3, [1] * 3), 1))
    assert mu_of(mixed.person([0, 1])) == pytest.approx(
        math.sqrt(1 / 4 + 1 / 16 + 0.2**2), rel=1e-6
    )
    for wrong in ([], [0, 0], [-1, 0], [0, 3]):
        with pytest.raises(InputError, match="^nodes must be different positions from 0 to 2, not"):
            own.person(wrong)


def test_the_plain_form_key_by_key_and_back() -> None:
    charges = [(gaussian(5.0, 3.0, 4.0), 4), (gaussian(2.0, 2.0, 2.0), 1)]
    for more in (
        {},
        {"spread": "listed", "claimed": (1.0, 1e-6), "why": "because", "target": [1.0, 2.0, 3.0]},
        {"adjacency": "add-remove", "mode": "as-published", "noise": "none"},
    ):
        statement = said(*charges, **more)
        plain = json.loads(json.dumps(statement.to_plain()))
        assert plain == {
            "epsilon": statement.epsilon,
            "delta": DELTA,
            "adjacency": more.get("adjacency", "replace-one"),
            "unit": "one record of one node",
            "records_per_person": 1,
            "members_per_person": 1,
            "one_record": False,
            "mode": more.get("mode", "sound"),
            "accountant": "gaussian-exact",
            "exact": True,
            "coalition": None,
            "target": more.get("target", 1.0),
            "noise": more.get("noise", "seeded"),
            "spread": more.get("spread", "uniform"),
            "n_nodes": 3,
            "worst_node": 1,
            "claimed": list(more["claimed"]) if "claimed" in more else None,  # type: ignore[call-overload]
            "why": more.get("why"),
            "final_model": {"epsilon": statement.epsilon, "why": WHOLE_RUN, "mu": None},
            "charges": [
                {
                    "kind": "gaussian",
                    "count": 4,
                    "parameters": {"noise_multiplier": [5.0, 3.0, 4.0]},
                },
                {"kind": "gaussian", "count": 1, "parameters": {"noise_multiplier": 2.0}},
            ],
        }
        again = Statement.from_plain(plain)
        assert again.to_plain() == statement.to_plain()
        for name in ("delta", "adjacency", "mode", "target", "noise", "spread", "claimed", "why"):
            assert getattr(again, name) == getattr(statement, name), name


def test_an_infinite_loss_is_a_word() -> None:
    statement = said((pure(math.inf, 1.0, 0.5), 1))
    plain = statement.to_plain()
    assert plain["epsilon"] == "inf" and statement.worst_node == 0
    assert plain["charges"][0]["parameters"] == {"epsilon": ["inf", 1.0, 0.5]}
    again = Statement.from_plain(json.loads(json.dumps(plain)))
    np.testing.assert_array_equal(again.node_epsilons, statement.node_epsilons)


def test_what_it_prints() -> None:
    own = said((gaussian(5.0, 3.0, 4.0), 4))
    assert repr(own) == (
        f"Statement(epsilon={own.epsilon:.6g}, delta=1e-05, replace-one, sound, by gaussian-exact)"
    )
    pooled = said((shared(CorrelatedGaussian, [0.1, 0.4, 0.2], [2, 2, 2]), 4))
    assert ", replace-one, coalition 2, sound, by " in repr(pooled)
    assert pooled.to_plain()["coalition"] == 2
