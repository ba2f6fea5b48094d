"""Chaos: kills, freezes, resets, delays, changed, doubled and swapped bytes; the run ends in the
same bits, and spends the same."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest

from chaos_proxy import ChaosProxy, between
from kept_keys import same_keys
from node_stage import Crowd, small_contract

FAULTS = ("kill", "drop", "delay", "corrupt", "freeze", "double", "swap", "drop")


def test_every_kind_of_fault_changes_no_bit(tmp_path: Path) -> None:
    _chaos(tmp_path, faults=len(FAULTS), rounds=120)


@pytest.mark.slow
def test_three_hundred_faults_change_no_bit(tmp_path: Path) -> None:
    _chaos(tmp_path, faults=300, rounds=4000)


def _chaos(tmp_path: Path, faults: int, rounds: int) -> None:
    contract = small_contract(
        3, rounds=rounds, algorithm={"name": "ipadmm", "penalty": 0.1, "inner_steps": 1}
    )
    calm, wild = Crowd(tmp_path / "calm", contract), Crowd(tmp_path / "wild", contract)
    same_keys(calm, wild)
    calm.start()
    expected = calm.finish(300)
    proxies = between(wild)
    try:
        wild.start()
        done = _strike(wild, list(proxies.values()), faults)
        models = wild.finish(600)
    finally:
        wild.stop()
        for proxy in proxies.values():
            proxy.close()
    assert done >= faults
    assert np.array_equal(models, expected)
    for name in wild.names:
        assert wild.charges(name) == calm.charges(name)
        assert len(wild.charges(name)) == rounds
        assert "two different messages" not in wild.log(name)


def _strike(crowd: Crowd, proxies: list[ChaosProxy], faults: int) -> int:
    rng, done = random.Random(11), 0
    _until_first_round(crowd)
    while done < faults and any(p.is_alive() for p in crowd.processes.values()):
        fault, name = FAULTS[done % len(FAULTS)], rng.choice(crowd.names)
        if fault == "kill":
            crowd.kill(name)
            crowd.start(name)
        elif fault == "freeze":
            crowd.freeze(name, 0.1)
        else:
            rng.choice(proxies).strike(fault)
        done += 1
        time.sleep(rng.uniform(0.0, 0.1))
    return done


def _until_first_round(crowd: Crowd) -> None:
    end = time.monotonic() + 60
    paths = [crowd.folder(name) / "state" / "log.jsonl" for name in crowd.names]
    while not all(path.exists() and "round one done" in path.read_text() for path in paths):
        assert time.monotonic() < end, [crowd.output(name) for name in crowd.names]
        time.sleep(0.01)
