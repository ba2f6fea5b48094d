"""Real processes over real TLS: the same model as the simulator,
and what happens when things go wrong."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from node_stage import Crowd, simulated, small_contract


def test_three_processes_equal_the_simulation(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path, small_contract(3, rounds=6, finish_mixing=2), seed=5)
    crowd.start()
    np.testing.assert_allclose(crowd.finish(), simulated(crowd.stage, seed=5), rtol=0, atol=1e-12)
    for name, result in crowd.stage.results().items():
        neighbours = len(crowd.stage.contract.neighbours(name))
        # One a round and neighbour, closing rounds too
        assert result.messages == (6 + 2) * neighbours


@pytest.mark.slow
def test_edges_that_vary_equal_the_simulation(tmp_path: Path) -> None:
    """Nothing is sent over an edge that is not active; closing rounds use all."""
    contract = small_contract(
        4,
        rounds=8,
        finish_mixing=2,
        graph="complete",
        algorithm={"name": "dpdda"},
        mixing={"edges": "random", "active": 0.5, "seed": 3},
    )
    crowd = Crowd(tmp_path, contract, seed=5)
    crowd.start()
    np.testing.assert_allclose(crowd.finish(), simulated(crowd.stage, seed=5), rtol=0, atol=1e-12)
    sent = sum(result.messages for result in crowd.stage.results().values())
    assert 2 * 12 < sent < (8 + 2) * 12


@pytest.mark.slow
def test_values_of_each_member_equal_the_simulation(tmp_path: Path) -> None:
    """A list of the contract is one value for each member, in the members' order."""
    grows = {"schedule": "geometric", "start": 0.5, "ratio": 1.1}
    contract = small_contract(
        3,
        rounds=4,
        algorithm={"name": "madmm", "penalty": [0.6, grows, 1.0]},
        privacy={"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True},
    )
    crowd = Crowd(tmp_path, contract, seed=3)
    crowd.start()
    np.testing.assert_allclose(crowd.finish(), simulated(crowd.stage, seed=3), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tacenda.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", ["ddpadmm", "cdpadmm", "dpdda", "dvp", "pvp", "radmm", "madmm"])
def test_every_private_algorithm_equals_the_simulation(tmp_path: Path, name: str) -> None:
    contract = small_contract(
        5,
        rounds=5,
        algorithm={"name": name},
        privacy={"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True},
    )
    crowd = Crowd(tmp_path, contract, seed=3)
    crowd.start()
    np.testing.assert_allclose(crowd.finish(), simulated(crowd.stage, seed=3), rtol=0, atol=1e-12)


def test_a_kill_changes_nothing_with_real_noise(tmp_path: Path) -> None:
    """Kill -9 in the middle; the node resumes, sends the same bytes, charges nothing twice, and the
    run ends as promised."""
    crowd = Crowd(tmp_path, small_contract(3, rounds=400))
    crowd.start()
    wait_for_log(crowd, "m1", "round one done")
    crowd.kill("m1")
    crowd.start("m1")
    crowd.finish()
    for name, result in crowd.stage.results().items():
        assert result.privacy is not None
        assert sum(count for _, count in result.privacy.ledger(0)) == 800, name
        assert result.privacy.epsilon == pytest.approx(5.0, rel=1e-5)
        assert "exact discrete Gaussian" in result.privacy.noise


def test_a_run_that_reaches_the_radius_says_so(tmp_path: Path) -> None:
    """Messages are cut to the contract's radius;
    the log, the result and the manifest say it, once each."""
    problem = {"n_features": 4, "classes": ["no", "yes"], "strength": 0.01}
    crowd = Crowd(
        tmp_path, small_contract(3, rounds=4, problem={**problem, "radius": 1e-3}), seed=5
    )
    crowd.start()
    # The member's own model is not cut, only what it sends
    assert np.abs(crowd.finish()).max() > 1e-3
    for name, result in crowd.stage.results().items():
        [sentence] = result.warnings
        assert sentence.startswith(
            "the run diverges: in round 1 this member's message reached the "
            "contract's problem.radius"
        )
        assert crowd.log(name).count("the run diverges") == 1
        assert json.loads((crowd.folder(name) / "state" / "manifest.json").read_text())[
            "warnings"
        ] == [sentence]


@pytest.mark.slow
def test_a_renewed_certificate_goes_on_with_the_same_state(tmp_path: Path) -> None:
    """Stop in the middle; m1 gets a new key, certificate and address, all sign again, and the run
    ends as if nothing had been."""
    import os
    import signal

    from tacenda_node.identity import certificates as identity
    from tacenda_node.identity import contract_files
    from tacenda_node.identity.contract import Contract
    from tacenda_node.setup.rehearse import free_ports

    crowd = Crowd(tmp_path, small_contract(3, rounds=400), seed=9)
    crowd.start()
    wait_for_log(crowd, "m1", "round one done")
    for name in crowd.names:
        os.kill(crowd.processes[name].pid, signal.SIGTERM)
    assert set(crowd.wait(60).values()) == {2}
    assert "asked to stop" in crowd.output("m1")
    home = crowd.folder("m1") / "identity"
    identity.sign(
        crowd.stage.folder / "authority", identity.request(home, "m1", new_key=True), home, 2
    )
    plain = crowd.stage.contract.to_plain()
    address = f"127.0.0.1:{free_ports(1)[0]}"
    plain["members"][1] |= {
        "fingerprint": identity.Identity.read(home).fingerprint,
        "address": address,
    }
    crowd.stage.contract = Contract.build(plain)
    contract_files.write(crowd.stage.contract, crowd.stage.contract_path)
    for name in crowd.names:
        contract_files.sign(
            crowd.stage.contract_path, identity.Identity.read(crowd.folder(name) / "identity")
        )
    crowd.start()
    np.testing.assert_allclose(crowd.finish(), simulated(crowd.stage, seed=9), rtol=0, atol=1e-12)


def wait_for_log(crowd: Crowd, name: str, words: str) -> None:
    """Until a member's log says so."""
    path, end = crowd.folder(name) / "state" / "log.jsonl", time.monotonic() + 60
    while not (path.exists() and words in path.read_text()):
        assert time.monotonic() < end, crowd.output(name)
        time.sleep(0.01)
