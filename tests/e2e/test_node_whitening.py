"""Whitened runs on real processes: the simulator's bits at every member, kills change none."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node_stage import Crowd, simulated, small_contract
from tacenda.errors import PrivacyError
from tacenda_node.peer.run_plan import make_plan

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
    plain = plan.spec.algorithm.to_plain()
    assert plain["name"] == "whitened" and plain["algorithm"]["name"] == "treegd"


def test_a_masked_method_needs_a_coalition() -> None:
    with pytest.raises(PrivacyError, match="coalition"):
        make_plan(contract_of(4, privacy={"epsilon": 5.0, "delta": 1e-5}))


OWN = {"epsilon": 50.0, "delta": 1e-5}


@pytest.mark.parametrize(
    ("algorithm", "whole"),
    [
        ({"name": "treegd", "noise": "independent"}, True),
        ({"name": "cdpadmm"}, True),
        ({"name": "cdpadmm", "batch_size": 2}, False),
        ({"name": "pvp", "noise": "gaussian"}, False),
        ({"name": "dvp"}, False),
        ({"name": "dvp", "noise": "gaussian"}, False),
    ],
)
def test_only_questions_with_whole_answers_need_no_floating_point(
    algorithm: dict[str, Any], whole: bool
) -> None:
    """Also those that are asked of mapped records."""
    contract = contract_of(4, algorithm=algorithm, privacy=OWN)
    if whole:
        assert make_plan(contract).on_lattice
    else:
        with pytest.raises(PrivacyError, match="floating_point_noise"):
            make_plan(contract)


@pytest.mark.slow
def test_independent_noise_on_whole_numbers(tmp_path: Path) -> None:
    """No seed: each member's noise from its own key, moment and gradients as whole numbers."""
    contract = contract_of(4, rounds=3, algorithm={"name": "cdpadmm"}, privacy=OWN)
    crowd = Crowd(tmp_path / "crowd", contract)
    crowd.start()
    found = crowd.finish()
    assert np.isfinite(found).all()
    for result in crowd.stage.results().values():
        assert result.privacy is not None and result.privacy.epsilon <= 50.0
        assert {event.kind for event, _ in result.privacy.ledger(0)} == {"discrete-gaussian"}
        assert sum(count for _, count in result.privacy.ledger(0)) == 4


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        ("treegd", "full"),
        ("treegd", "diagonal"),
        pytest.param("ipadmm", "full", marks=pytest.mark.slow),
    ],
)
def test_peers_have_the_simulators_bits(tmp_path: Path, algorithm: str, kind: str) -> None:
    contract = contract_of(
        4, rounds=4, algorithm={"name": algorithm}, prepare={**PREPARE, "kind": kind}
    )
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


@pytest.mark.slow
def test_a_member_that_leaves_and_returns_ends_with_the_others_model(tmp_path: Path) -> None:
    """The map stays, the members agree on one model anew, and nobody spends more than agreed."""
    contract = contract_of(
        5,
        rounds=600,
        graph="complete",
        output="last",
        privacy={**TERMS, "epsilon": 100.0},
        absence={"policy": "continue", "limit_seconds": 4.0},
    )
    crowd = Crowd(tmp_path / "crowd", contract)
    try:
        crowd.start()
        until(crowd, "m3", "round one done")
        crowd.kill("m3")
        for other in ("m0", "m1", "m2", "m4"):
            until(crowd, other, "membership changed")
        crowd.start("m3")
        until(crowd, "m3", "membership changed")
        found = crowd.finish(600)
    finally:
        crowd.stop()
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    assert np.abs(found).max() < 100
    for result in crowd.stage.results().values():
        assert result.privacy is not None and result.privacy.epsilon <= 100.0 * (1 + 1e-9)
