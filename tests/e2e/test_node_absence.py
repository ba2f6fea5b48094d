"""A member that stays away: stop with everything saved, or go on without it,
and with it again when it returns."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from node_stage import Crowd, small_contract

ALGORITHM = {"name": "ipadmm", "penalty": 0.1, "inner_steps": 1}
# Seconds. A thousand rounds are many so that no run ends before its member is back, and take five
# minutes where ten other programs want the same two cores.
PATIENCE = 900


@pytest.mark.slow
def test_stop_saves_everything_and_goes_on_when_the_peer_is_back(tmp_path: Path) -> None:
    contract = small_contract(
        3, rounds=120, algorithm=ALGORITHM, absence={"policy": "stop", "limit_seconds": 6.0}
    )
    crowd = Crowd(tmp_path, contract, seed=2)
    from node_stage import simulated

    try:
        crowd.start()
        crowd.until("m2", "round one done")
        crowd.kill("m2")
        codes = crowd.wait(60, ["m0", "m1"])
        assert set(codes.values()) == {2}, crowd.output("m0")
        assert "m2 stayed away for more than 6 s" in crowd.output("m0") + crowd.output("m1")
        assert "Everything is saved" in crowd.output("m0")
        crowd.start()
        np.testing.assert_allclose(
            crowd.finish(), simulated(crowd.stage, seed=2), rtol=0, atol=1e-12
        )
    finally:
        crowd.stop()


@pytest.mark.parametrize(
    "name",
    [
        "ipadmm",
        pytest.param("cdpadmm", marks=pytest.mark.slow),
        pytest.param("dpdda", marks=pytest.mark.slow),
    ],
)
def test_the_rest_goes_on_and_the_lost_member_rejoins(tmp_path: Path, name: str) -> None:
    """Ring of four: m3 is killed, the path of three goes on; m3 comes back and all four finish.
    Nobody spends more than agreed."""
    algorithm = ALGORITHM if name == "ipadmm" else {"name": name}
    contract = small_contract(
        4, rounds=1000, algorithm=algorithm, absence={"policy": "continue", "limit_seconds": 4.0}
    )
    crowd = Crowd(tmp_path, contract)
    try:
        crowd.start()
        crowd.until("m3", "round one done")
        crowd.kill("m3")
        for other in ("m0", "m1", "m2"):
            crowd.until(other, "membership changed")
        crowd.start("m3")
        crowd.until("m3", "membership changed")
        crowd.finish(PATIENCE)
    finally:
        crowd.stop()
    results = crowd.stage.results()
    models = crowd.models()
    assert np.isfinite(models).all()
    for member, result in results.items():
        assert result.privacy is not None
        assert result.privacy.epsilon <= 5.0 * (1 + 1e-6), member
    assert '"absent": "nobody"' in crowd.log("m0")


@pytest.mark.slow
def test_a_member_that_hangs_is_left_out_and_taken_in_again(tmp_path: Path) -> None:
    """m3's process is stopped for a while: its connections stay open, but it says nothing. The
    others go on; then it is back."""
    contract = small_contract(
        4, rounds=1500, algorithm=ALGORITHM, absence={"policy": "continue", "limit_seconds": 4.0}
    )
    crowd = Crowd(tmp_path, contract)
    try:
        crowd.start()
        crowd.until("m3", "round one done")
        os.kill(crowd.processes["m3"].pid, signal.SIGSTOP)
        try:
            for other in ("m0", "m1", "m2"):
                crowd.until(other, '"absent": "m3"')
                crowd.until(other, "membership changed")
        finally:
            os.kill(crowd.processes["m3"].pid, signal.SIGCONT)
        crowd.until("m3", "membership changed")
        crowd.finish(PATIENCE)
    finally:
        crowd.stop()
    for member, result in crowd.stage.results().items():
        assert result.privacy is not None
        assert result.privacy.epsilon <= 5.0 * (1 + 1e-6), member


@pytest.mark.slow
def test_a_lost_disk_rejoins_with_everything_counted_as_spent(tmp_path: Path) -> None:
    """m3 comes back with an empty state folder: it goes on in the peers' round, and all earlier
    rounds count as released, the one that a loss had made again twice.

    The limit is long enough for a busy machine: a member that is left out once more releases
    nothing meanwhile, and counts less.
    """
    contract = small_contract(
        4, rounds=1000, algorithm=ALGORITHM, absence={"policy": "continue", "limit_seconds": 6.0}
    )
    crowd = Crowd(tmp_path, contract)
    try:
        crowd.start()
        crowd.until("m3", "round one done")
        time.sleep(0.5)
        crowd.kill("m3")
        shutil.rmtree(crowd.folder("m3") / "state")
        # One who has not gone on yet would refuse an empty state of the present view
        for other in ("m0", "m1", "m2"):
            crowd.until(other, "membership changed")
        crowd.start("m3")
        crowd.finish(PATIENCE)
    finally:
        crowd.stop()
    result = crowd.stage.results()["m3"]
    assert result.privacy is not None
    assert sum(count for _, count in result.privacy.ledger(0)) == 1001
    assert result.privacy.epsilon == pytest.approx(5.0, rel=1e-6)


@pytest.mark.slow
def test_kills_in_the_middle_of_an_agreement_change_no_vote(tmp_path: Path) -> None:
    """m4 goes, and while the others agree each of them is killed -9 and started again: nobody signs
    twice, and all end well."""
    contract = small_contract(
        5,
        rounds=1500,
        algorithm=ALGORITHM,
        # A process that was killed is back within the limit, also where all cores are busy
        absence={"policy": "continue", "limit_seconds": 10.0, "losses": 5},
    )
    crowd = Crowd(tmp_path, contract)
    crowd.keep_own_signatures()  # so that no round begins before all processes are there
    rest = ["m0", "m1", "m2", "m3"]
    try:
        crowd.start()
        crowd.until("m4", "round one done")
        crowd.kill("m4")
        for name in rest:
            crowd.until(name, "agreement under way")
            crowd.kill(name)
            crowd.start(name)
        crowd.start("m4")
        crowd.finish(PATIENCE)
    finally:
        crowd.stop()
    for name in crowd.names:
        assert "two decisions" not in crowd.log(name)
        assert "cut off" not in crowd.log(name)
    for name in rest:
        assert "agreement under way" in crowd.log(name)


@pytest.mark.slow
def test_two_of_four_do_not_go_on(tmp_path: Path) -> None:
    contract = small_contract(
        4, rounds=400, algorithm=ALGORITHM, absence={"policy": "continue", "limit_seconds": 2.0}
    )
    crowd = Crowd(tmp_path, contract)
    crowd.keep_own_signatures()  # so that no round begins before all processes are there
    try:
        crowd.start()
        crowd.until("m0", "round one done")
        crowd.kill("m2")
        crowd.kill("m3")
        codes = crowd.wait(60, ["m0", "m1"])
        assert set(codes.values()) == {2}
        assert "not more than half" in crowd.output("m0") + crowd.output("m1")
    finally:
        crowd.stop()
