"""Real processes whose noise cancels between neighbours: the simulator's model, the same bits after
kills, members that leave."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kept_keys import same_keys
from node_stage import Crowd, simulated, small_contract
from tacenda_node.identity.contract import Contract
from tacenda_node.identity.edge_keys import EdgeKeys
from tacenda_node.state.database import NodeState

GOSSIP = {"name": "gossipgd", "correlation": 4.0, "mixings": 2, "step_size": 0.5}
TERMS = {"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True, "coalition": 1}


def _contract(n: int, rounds: int, algorithm: dict[str, Any] = GOSSIP, **changes: Any) -> Contract:
    return small_contract(n, rounds=rounds, **{"algorithm": algorithm, "privacy": TERMS, **changes})


def test_four_processes_equal_the_simulation(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path, _contract(4, 6, finish_mixing=2), seed=5)
    crowd.start()
    np.testing.assert_allclose(crowd.finish(), simulated(crowd.stage, seed=5), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm", [GOSSIP, {"name": "dpdda", "noise": "correlated", "correlation": 4.0}]
)
def test_eight_processes_equal_the_simulation(tmp_path: Path, algorithm: dict[str, Any]) -> None:
    crowd = Crowd(tmp_path, _contract(8, 40, algorithm, finish_mixing=3), seed=6)
    crowd.start()
    np.testing.assert_allclose(
        crowd.finish(240), simulated(crowd.stage, seed=6), rtol=0, atol=1e-12
    )


@pytest.mark.slow
def test_a_kill_changes_no_bit(tmp_path: Path) -> None:
    _kills(tmp_path, members=3, rounds=200, kills=3)


@pytest.mark.slow
def test_kills_at_random_change_no_bit_of_eight_peers(tmp_path: Path) -> None:
    _kills(tmp_path, members=8, rounds=600, kills=30)


def _kills(tmp_path: Path, members: int, rounds: int, kills: int) -> None:
    """Two runs with the same keys (noise keys and edge keys),
    one of them with kill -9 at random moments."""
    contract = _contract(members, rounds)
    calm, wild = Crowd(tmp_path / "calm", contract), Crowd(tmp_path / "wild", contract)
    same_keys(calm, wild)
    calm.start()
    expected = calm.finish(240)
    rng, done = random.Random(3), 0
    try:
        wild.start()
        wild.until(wild.names[0], "round one done")
        while done < kills and any(p.is_alive() for p in wild.processes.values()):
            name = rng.choice(wild.names)
            wild.kill(name)
            wild.start(name)
            done += 1
            time.sleep(rng.uniform(0.0, 0.3))
        models = wild.finish(240)
    finally:
        wild.stop()
    assert done == kills
    assert np.array_equal(models, expected)
    for name in wild.names:
        assert wild.charges(name) == calm.charges(name)
        assert len(wild.charges(name)) == rounds
    _check_ledgers(wild, rounds)


@pytest.mark.slow
def test_kills_while_keys_are_agreed_leave_both_ends_with_one_key(tmp_path: Path) -> None:
    crowd, rng = Crowd(tmp_path, _contract(4, 60)), random.Random(8)
    try:
        crowd.start()
        for _ in range(12):
            time.sleep(rng.uniform(0.2, 0.9))
            name = rng.choice(crowd.names)
            crowd.kill(name)
            crowd.start(name)
        crowd.finish(240)
    finally:
        crowd.stop()
    _check_ledgers(crowd, 60)
    checks = {name: _checks(crowd, name) for name in crowd.names}
    for a, b in crowd.stage.contract.edges:
        assert checks[a][b] == checks[b][a]
    assert len({check for mine in checks.values() for check in mine.values()}) == len(
        crowd.stage.contract.edges
    )


@pytest.mark.slow
def test_a_member_that_leaves_ends_its_edges_noise_and_may_return(tmp_path: Path) -> None:
    """Complete graph of five: m4 is killed, four go on with more noise; m4 comes back. Nobody
    spends more than agreed."""
    crowd = Crowd(
        tmp_path,
        _contract(5, 1500, graph="complete", absence={"policy": "continue", "limit_seconds": 2.0}),
    )
    try:
        crowd.start()
        crowd.until("m4", "round one done")
        crowd.kill("m4")
        for other in crowd.names[:4]:
            crowd.until(other, "membership changed")
        time.sleep(0.5)
        crowd.start("m4")
        crowd.until("m4", "membership changed")
        models = crowd.finish(240)
    finally:
        crowd.stop()
    assert np.isfinite(models).all()
    for name, result in crowd.stage.results().items():
        assert result.privacy is not None
        assert result.privacy.epsilon <= 5.0 * (1 + 1e-6), name
        views = {view for view, *_ in crowd.charges(name)}
        assert views >= ({0, 1} if name != "m4" else {0}), name
    assert '"absent": "nobody"' in crowd.log("m0")


@pytest.mark.slow
def test_a_lost_state_cannot_take_part_again(tmp_path: Path) -> None:
    crowd = Crowd(
        tmp_path,
        _contract(4, 3000, graph="complete", absence={"policy": "continue", "limit_seconds": 2.0}),
    )
    try:
        crowd.start()
        crowd.until("m3", "round one done")
        crowd.kill("m3")
        shutil.rmtree(crowd.folder("m3") / "state")
        crowd.until("m0", "membership changed")
        crowd.start("m3")
        codes = crowd.wait(200, ["m3"])
        assert codes == {"m3": 2}, crowd.output("m3")
        assert "StateError" in crowd.output("m3") and "lost" in crowd.output("m3")
        assert set(crowd.wait(200, ["m0", "m1", "m2"]).values()) == {0}, crowd.output("m0")
    finally:
        crowd.stop()


def _checks(crowd: Crowd, name: str) -> dict[str, bytes]:
    """The check values of a member's edges, which tell whether two keys are one."""
    contract, state = crowd.stage.contract, NodeState(crowd.folder(name) / "state")
    keys = EdgeKeys(contract, name, state)
    try:
        return {peer: keys.check(peer) for peer in contract.neighbours(name)}
    finally:
        state.close()


def _check_ledgers(crowd: Crowd, rounds: int) -> None:
    """Every member booked each round once, as noise shared against one curious member, and the
    worst one spent it all."""
    spent = []
    for name, result in crowd.stage.results().items():
        assert result.privacy is not None
        assert "floating-point, accepted by name" in result.privacy.noise
        ledger = result.privacy.ledger(0)
        assert sum(count for _, count in ledger) == rounds, name
        assert {event.coalition for event, _ in ledger} == {1}
        spent.append(result.privacy.epsilon)
    assert max(spent) == pytest.approx(5.0, rel=1e-4)
