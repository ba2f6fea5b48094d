"""Members that are killed, frozen, asked to stop and started again at random, under `continue`."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from losses_stage import check_spent, check_the_rest, contract_of
from node_stage import Crowd

pytestmark = pytest.mark.slow
FAULTS_SECONDS = 25.0
MOST_STARTS = 6  # after the faults: who stopped because others were away goes on with them


def disturb(crowd: Crowd, chance: random.Random) -> None:
    """One fault, or a start of whoever is gone."""
    gone = [name for name in crowd.names if not crowd.processes[name].is_alive()]
    name = chance.choice(crowd.names)
    what = chance.choice(["kill", "freeze", "stop", "start", "start", "all"])
    if what == "start":
        for each in gone:
            crowd.start(each)
    elif what == "all" and chance.random() < 0.3:
        for each in crowd.names:
            crowd.kill(each)
    elif name not in gone and what == "kill":
        crowd.kill(name)
    elif name not in gone and what == "stop":
        os.kill(crowd.processes[name].pid, signal.SIGTERM)
    elif name not in gone and what == "freeze":
        crowd.freeze(name, chance.choice([0.5, 3.0, 9.0, 13.0]))


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_all_end_with_one_model(tmp_path: Path, seed: int) -> None:
    """Nobody is called dishonest, nobody spends more than was reserved, and all finish."""
    chance = random.Random(seed)
    contract = contract_of(
        n=4 + seed % 2,
        rounds=1500,
        limit=6.0,
        graph=("complete", "ring")[seed // 2],
        whitened=seed != 1,
        losses=2,
        evaluation={"held_out": 0.4, "epsilon": 100.0} if seed % 2 else None,
    )
    crowd = Crowd(tmp_path, contract)
    crowd.keep_own_signatures()
    try:
        crowd.start()
        for name in crowd.names:
            crowd.until(name, "round one done")
        end = time.monotonic() + FAULTS_SECONDS
        while time.monotonic() < end:
            disturb(crowd, chance)
            time.sleep(chance.choice([0.1, 1.0, 3.0]))
        for _ in range(MOST_STARTS):
            gone = [name for name in crowd.names if not crowd.processes[name].is_alive()]
            for name in gone:
                if crowd.processes[name].exitcode:
                    crowd.start(name)
            codes = crowd.wait(300)
            if set(codes.values()) == {0}:
                break
        assert set(codes.values()) == {0}, {name: crowd.output(name) for name in crowd.names}
    finally:
        crowd.stop()
    for name in crowd.names:
        assert "a member was caught" not in crowd.log(name)
    check_the_rest(crowd, crowd.names, 1)
    check_spent(crowd, crowd.names)
