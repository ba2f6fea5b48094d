"""A member that comes back after the others have ended: what it reads, and how it gets the
model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from losses_stage import contract_of, live_until
from node_stage import Crowd
from tacenda_node import evidence
from tacenda_node.evidence.model_signatures import signatures_beside


def test_who_comes_back_after_the_end_takes_the_signed_model(tmp_path: Path) -> None:
    """It hears no model from the network. Any member's file is enough: all who ended have signed
    it."""
    crowd = Crowd(tmp_path, contract_of(rounds=4, limit=4.0, whitened=False))
    rest = ["m0", "m1", "m2"]
    try:
        crowd.start(*rest)
        crowd.start_as("m3", live_until, 2, 2, False)
        assert set(crowd.wait(120, rest).values()) == {0}
        crowd.start("m3")
        assert crowd.wait(60, ["m3"]) == {"m3": 2}
    finally:
        crowd.stop()
    said = crowd.output("m3")
    assert "the others have finished the run without this member" in said
    assert "`tacenda evidence check MODEL --contract CONTRACT`" in said

    theirs = crowd.folder("m1") / "state" / "results" / "treegd-m1.safetensors"
    mine = crowd.folder("m3") / "from-m1.safetensors"
    shutil.copy(theirs, mine)
    shutil.copy(signatures_beside(theirs), signatures_beside(mine))
    contract = crowd.stage.contract_path
    found = evidence.check(mine, contract=contract)
    lines = {line.what: line for line in found.lines}
    assert found.ok
    assert lines["members who signed this model"].found == "m0, m1, m2: 3 of 4 members"

    # One signature from elsewhere, or another model: refused
    path = signatures_beside(mine)
    values = json.loads(path.read_text())
    signatures = {**values["signatures"], "m2": values["signatures"]["m1"]}
    path.write_text(json.dumps({**values, "signatures": signatures}))
    refused = evidence.check(mine, contract=contract)
    assert not refused.ok
    assert "the signature of m2 does not hold" in refused.lines[-1].found
    path.write_text(json.dumps({**values, "model": "00" * 32}))
    assert "is about another model" in evidence.check(mine, contract=contract).lines[-1].found
