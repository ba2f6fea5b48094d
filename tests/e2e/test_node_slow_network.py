"""Distance and loss: a round takes about as long as a message under way, and a network that loses
packets changes nothing but the time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from node_stage import simulated, small_contract, small_schema
from tacenda_node.setup.rehearse import Stage, rehearse

ROUNDS = 40
OWN_NETWORK = ["unshare", "--map-root-user", "--net"]  # for users without rights, too


def may_lose() -> bool:
    """Whether a network of its own can be had here, with rules that drop packets."""
    needed = ("unshare", "nft", "ip")
    if any(shutil.which(name) is None for name in needed):
        return False
    tried = subprocess.run([*OWN_NETWORK, "nft", "list", "ruleset"], capture_output=True)
    return tried.returncode == 0


def far_away(folder: Path, delay_ms: float) -> Stage:
    small_schema().write(folder / "schema.toml")
    contract = small_contract(
        3, rounds=ROUNDS, algorithm={"name": "ipadmm", "penalty": 0.1, "inner_steps": 1}
    )
    return rehearse(contract, folder / "schema.toml", folder / "stage", seed=4, delay_ms=delay_ms)


def same(stage: Stage) -> None:
    models = np.vstack([r.models for r in stage.results().values()])
    np.testing.assert_allclose(models, simulated(stage, seed=4), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_a_round_takes_less_than_a_round_trip(tmp_path: Path) -> None:
    """Neighbours send at once and wait for each other: one way, not two, and no acknowledgement."""
    stage = far_away(tmp_path, 100.0)
    same(stage)
    a_round = stage.seconds_of_rounds() / (ROUNDS - 1)
    assert 0.095 < a_round < 0.2, a_round


@pytest.mark.slow
@pytest.mark.skipif(not may_lose(), reason="a lossy network needs nft and namespaces of users")
def test_a_far_network_that_loses_packets(tmp_path: Path) -> None:
    """200 ms to and fro, and one packet in a hundred is lost."""
    code = (
        "import sys; from pathlib import Path; "
        "from test_node_slow_network import far_away, same; "
        f"same(far_away(Path({str(tmp_path)!r}), 100.0))"
    )
    script = (
        "ip link set lo up && nft add table inet t && "
        "nft add chain inet t c '{ type filter hook input priority 0; }' && "
        "nft add rule inet t c numgen random mod 100 '<' 1 counter drop && "
        f'{sys.executable} -c "{code}" && nft list ruleset'
    )
    here = Path(__file__).parent
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [os.environ.get("PYTHONPATH", ""), str(here), str(here.parent / "helpers")]
        ),
    }
    done = subprocess.run(
        [*OWN_NETWORK, "sh", "-c", script], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-1500:]
    assert "counter packets 0" not in done.stdout  # some were lost
    assert "counter packets" in done.stdout
