"""Whitened runs on real processes: the simulator's bits at every member, kills change none."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node_stage import Crowd, simulated, small_contract
from tacenda.errors import PrivacyError
from tacenda.node.run_plan import make_plan

TERMS = {"epsilon": 5.0, "delta": 1e-5, "coalition": 1}
PREPARE = {"name": "whitening", "share": 0.2}


def contract_of(n: int, **more: Any) -> Any:
    known = {"algorithm": {"name": "treegd"}, "prepare": PREPARE, "privacy": TERMS}
    return small_contract(n, **{**known, **more})


def test_the_plan_holds_the_moment_and_needs_no_floating_point() -> None:
    plan = make_plan(contract_of(4, rounds=5))
    spent = [c.parameters["mu"][0] ** 2 for c in plan.calibration.reserved.each()]
    assert len(spent) == 6
    assert spent[0] / sum(spent) == pytest.approx(0.2)
    plain = plan.algorithm.to_plain()
    assert plain["name"] == "whitened" and plain["algorithm"]["name"] == "treegd"


def test_a_masked_method_needs_a_coalition() -> None:
    with pytest.raises(PrivacyError, match="coalition"):
        make_plan(contract_of(4, privacy={"epsilon": 5.0, "delta": 1e-5}))


@pytest.mark.parametrize("algorithm", ["treegd", "ipadmm"])
def test_peers_have_the_simulators_bits(tmp_path: Path, algorithm: str) -> None:
    contract = contract_of(4, rounds=4, algorithm={"name": algorithm})
    crowd = Crowd(tmp_path / "crowd", contract, seed=5)
    crowd.start()
    found = crowd.finish()
    np.testing.assert_array_equal(found, simulated(crowd.stage, seed=5))
    if algorithm == "treegd":
        assert all(row.tobytes() == found[0].tobytes() for row in found)


def until(crowd: Crowd, name: str, words: str, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    path = crowd.folder(name) / "state" / "log.jsonl"
    while not (path.exists() and words in path.read_text()):
        assert time.monotonic() < end, f"{name} never said {words!r}: {crowd.output(name)}"
        time.sleep(0.02)


@pytest.mark.slow
def test_kills_change_no_bit(tmp_path: Path) -> None:
    contract = contract_of(6, rounds=150)
    crowd = Crowd(tmp_path / "crowd", contract, seed=5)
    try:
        crowd.start()
        for name in ("m0", "m3", "m5"):
            until(crowd, name, "round one done")
            crowd.kill(name)
            crowd.start(name)
        found = crowd.finish()
    finally:
        crowd.stop()
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    np.testing.assert_array_equal(found, simulated(crowd.stage, seed=5))
    for name, result in crowd.stage.results().items():
        assert result.privacy is not None
        assert sum(count for _, count in result.privacy.ledger(0)) == 151, name
