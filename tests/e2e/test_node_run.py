"""Real processes over real TLS: the same model as the simulator, and what happens when things go wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from node_stage import Crowd, simulated, small_contract


def test_three_processes_equal_the_simulation(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path, small_contract(3, rounds=6, finish_mixing=2), seed=5)
    crowd.start()
    np.testing.assert_allclose(crowd.finish(), simulated(crowd.stage, seed=5), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tacenda.runtime.simulate.ConvergenceWarning")
@pytest.mark.parametrize("name", ["ddpadmm", "cdpadmm", "dpdda", "dvp", "pvp", "radmm", "madmm"])
def test_every_private_algorithm_equals_the_simulation(tmp_path: Path, name: str) -> None:
    contract = small_contract(
        5, rounds=5, algorithm={"name": name}, privacy={"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True}
    )
    crowd = Crowd(tmp_path, contract, seed=3)
    crowd.start()
    np.testing.assert_allclose(crowd.finish(), simulated(crowd.stage, seed=3), rtol=0, atol=1e-12)


def test_a_kill_changes_nothing_with_real_noise(tmp_path: Path) -> None:
    """Kill -9 in the middle; the node resumes, sends the same bytes, charges nothing twice, and the run ends as promised."""
    import time

    crowd = Crowd(tmp_path, small_contract(3, rounds=400))
    crowd.start()
    log = crowd.folder("m1") / "state" / "log.jsonl"
    end = time.monotonic() + 60
    while time.monotonic() < end and not (log.exists() and "round one done" in log.read_text()):
        time.sleep(0.01)
    crowd.kill("m1")
    crowd.start("m1")
    crowd.finish()
    for name, result in crowd.stage.results().items():
        assert result.privacy is not None
        assert sum(count for _, count in result.privacy.ledger(0)) == 800, name
        assert result.privacy.epsilon == pytest.approx(5.0, rel=1e-5)
        assert "exact discrete Gaussian" in result.privacy.noise
