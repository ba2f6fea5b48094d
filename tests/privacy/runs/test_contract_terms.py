"""A contract's (epsilon, delta) decides: the noise of every member, what its ledger reserves, and
what its statement says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node_stage import Crowd, small_contract
from privacy_checks import mu_of
from reference_curves import zcdp_epsilon
from tacenda.errors import BudgetError
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.lasting.units import Unit
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.run_plan import make_plan
from tacenda_node.state.spending import Spending

DELTAS = [1e-2, 1e-4, 1e-8]
EPSILON = 2.0
GOSSIP = {"name": "gossipgd", "correlation": 1.5}


def contract(delta: float, algorithm: Any = None, **terms: Any) -> Contract:
    own = {} if algorithm is None else {"algorithm": algorithm}
    return small_contract(
        4, rounds=3, graph="path", privacy={"epsilon": EPSILON, "delta": delta, **terms}, **own
    )


def lattice_epsilon(plan: Any, name: str, delta: float) -> float:
    """From the multipliers that were reserved: rho = sum 1/(2 z^2)."""
    return zcdp_epsilon(
        sum(count / (2 * event.noise_multiplier**2) for event, count in plan.events(name)), delta
    )


@pytest.mark.parametrize("delta", DELTAS)
def test_noise_on_whole_numbers_meets_the_contracts_delta(delta: float) -> None:
    plan = make_plan(contract(delta))
    assert plan.on_lattice
    for name in plan.contract.names:
        assert lattice_epsilon(plan, name, delta) == pytest.approx(EPSILON, rel=1e-4)


@pytest.mark.parametrize("delta", DELTAS)
def test_shared_noise_meets_the_contracts_delta(delta: float) -> None:
    plan = make_plan(contract(delta, GOSSIP, floating_point_noise=True, coalition=1))
    losses = [
        math.sqrt(sum(count * event.mu**2 for event, count in plan.events(name)))
        for name in plan.contract.names
    ]
    assert max(losses) == pytest.approx(mu_of(EPSILON, delta), rel=2e-5)


@pytest.mark.parametrize("delta", DELTAS)
def test_independent_floating_point_noise_meets_the_contracts_delta(delta: float) -> None:
    loud = {"name": "gossipgd", "noise": "independent"}
    plan = make_plan(
        contract(delta, loud, floating_point_noise=True).model_copy(update={"rehearsal_seed": 1})
    )
    for name in plan.contract.names:
        loss = math.sqrt(
            sum(count / event.noise_multiplier**2 for event, count in plan.events(name))
        )
        assert loss == pytest.approx(mu_of(EPSILON, delta), rel=1e-6)


def test_a_smaller_delta_draws_more_noise() -> None:
    scales = [make_plan(contract(delta)).calibration.plan.scale for delta in DELTAS]
    assert np.all(scales[0] < scales[1])
    assert np.all(scales[1] < scales[2])


@pytest.mark.parametrize("delta", DELTAS)
def test_the_members_ledger_reserves_the_contracts_terms(delta: float, tmp_path: Path) -> None:
    """A budget of exactly the contract's terms takes the run; the same epsilon at a tenth of the
    delta does not."""
    plan = make_plan(contract(delta))
    with LedgerStore(tmp_path / "ledger") as store:
        store.set_budget("enough", EPSILON, delta)
        store.set_budget("too little", EPSILON, delta / 10)
    with (
        pytest.raises(BudgetError),
        Spending(tmp_path / "ledger", plan, "m1", b"another state".ljust(32), "too little"),
    ):
        pass
    with Spending(tmp_path / "ledger", plan, "m1", bytes(32), "enough"):
        pass  # what was refused for its budget has begun nothing


@pytest.mark.parametrize("masked", [True, False])
def test_a_contract_for_persons_reserves_what_a_person_loses_at_all_members(
    masked: bool, tmp_path: Path
) -> None:
    """Each one's ledger has what somebody loses who is at three of them; a second run of the same
    terms is refused."""
    terms = {"adjacency": "add-remove", "records_per_person": 2, "members_per_person": 3}
    algorithm = {"name": "treegd"} if masked else {"name": "dpdda"}
    made = contract(1e-4, algorithm, **terms, **({"coalition": 1} if masked else {}))
    plan, again = (make_plan(made.model_copy(update={"title": t})) for t in ("one", "two"))
    for name in plan.contract.names:
        with LedgerStore(tmp_path / name) as store:
            store.set_budget("us", EPSILON, 1e-4, "add-remove")
        with Spending(tmp_path / name, plan, name, bytes(32), "us"):
            pass
        with LedgerStore(tmp_path / name) as store:
            spent = store.spent("us")
            assert spent.unit == plan.unit == Unit(2, 3)
            found = spent.curve_with_reserved.epsilon(1e-4)
        assert found == pytest.approx(EPSILON, rel=2e-3 if masked else 2e-2)
        with pytest.raises(BudgetError), Spending(tmp_path / name, again, name, bytes(32), "us"):
            pass


def test_each_members_ledger_reserves_its_own_loss(tmp_path: Path) -> None:
    """Where neighbours share noise the members lose different amounts;
    each one's ledger has its own."""
    plan = make_plan(contract(1e-4, GOSSIP, floating_point_noise=True, coalition=1))
    found = {}
    for name in plan.contract.names:
        with Spending(tmp_path / "ledger", plan, name, bytes(32), name):
            pass
        with LedgerStore(tmp_path / "ledger") as store:
            found[name] = store.spent(name).curve_with_reserved.mu
    for name, mu in found.items():
        assert mu == pytest.approx(
            math.sqrt(sum(count * event.mu**2 for event, count in plan.events(name))), rel=1e-9
        )
    assert len({round(mu, 6) for mu in found.values()}) > 1
    assert max(found.values()) == pytest.approx(mu_of(EPSILON, 1e-4), rel=2e-5)


def test_a_members_statement_is_at_the_contracts_delta(tmp_path: Path) -> None:
    """Two real members of different sizes, a delta that is nobody's default."""
    terms = small_contract(2, rounds=2, graph="path", privacy={"epsilon": EPSILON, "delta": 3e-3})
    crowd = Crowd(tmp_path, terms, seed=0)
    crowd.start()
    crowd.finish()
    results = crowd.stage.results()
    assert len(results) == 2
    for result in results.values():
        said = result.privacy
        assert said.delta == 3e-3
        assert said.epsilon == pytest.approx(EPSILON, rel=1e-4)
        loss = math.sqrt(sum(count / event.noise_multiplier**2 for event, count in said.ledger(0)))
        assert loss == pytest.approx(mu_of(EPSILON, 3e-3), rel=1e-4)
