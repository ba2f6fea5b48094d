"""A member's policy in a real run: a refusal that names its line, an officer's approval, and a
pause outside the hours, after which the run goes on with the same bits."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from node_stage import Crowd, simulated, small_contract
from tacenda.cli.app import app
from tacenda_node.operate.policy import DAYS
from tacenda_node.operate.settings import write_settings


def _elsewhere() -> str:
    """A day of the week that is neither today nor a neighbour of today."""
    return DAYS[(datetime.now(UTC) + timedelta(days=3)).weekday()]


@pytest.mark.slow
def test_a_forbidden_run_waits_for_the_officer_and_a_pause_loses_nothing(tmp_path: Path) -> None:
    policy = tmp_path / "m0" / "policy.toml"
    policy.parent.mkdir()
    policy.write_text("# ours\nepsilon = 1.0\n", "utf-8")
    crowd = Crowd(
        tmp_path / "crowd", small_contract(3, rounds=6), seed=4, options={"m0": {"policy": policy}}
    )
    try:
        crowd.start("m0")
        assert crowd.wait(60, ["m0"]) == {"m0": 2}
        assert "line 2 (`epsilon = 1.0`)" in crowd.output("m0")
        assert not (crowd.folder("m0") / "state" / "node.sqlite").exists()
        home = crowd.folder("m0")
        settings = {
            "schema": crowd.stage.schema,
            "data": crowd.stage.data["m0"],
            "contract": crowd.stage.contract_path,
            "identity": home / "identity",
            "policy": policy,
        }
        write_settings(home, settings)
        command = [
            "node",
            "approve",
            str(home),
            "--by",
            "A. Example",
            "--reason",
            "the board said so",
        ]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        assert "line 2" in done.output
        # Approved, and now outside the hours: it meets the others, and computes nothing
        policy.write_text(
            f'# ours\nepsilon = 1.0\nhours = ["{_elsewhere()} 01:00-02:00"]\n', "utf-8"
        )
        crowd.start()
        crowd.until("m0", "outside the hours of")
        crowd.until("m0", "approved against the policy")
        assert "round one done" not in crowd.log("m1")
        crowd.kill("m0")
        policy.write_text("# ours\nepsilon = 1.0\n", "utf-8")
        crowd.start("m0")
        np.testing.assert_array_equal(crowd.finish(), simulated(crowd.stage, seed=4))
        (used,) = json.loads((home / "state" / "manifest.json").read_text())["approvals"]
        assert (used["by"], used["reason"]) == ("A. Example", "the board said so")
        assert "the board said so" not in (home / "state" / "statement.json").read_text()
    finally:
        crowd.stop()
