"""A member that signs two different sets of absent members: the honest ones stop before any noise
of the new view is drawn."""

from __future__ import annotations

import base64
import json
import sqlite3
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from node_stage import Crowd, small_contract
from tacenda.node.state.database import FILE

TERMS = {"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True, "coalition": 1}
GOSSIP = {"name": "gossipgd", "correlation": 4.0, "mixings": 2, "step_size": 0.5}
HONEST = ["m0", "m1", "m2", "m3"]


def _rows(crowd: Crowd, name: str, table: str) -> list[int]:
    with sqlite3.connect(crowd.folder(name) / "state" / FILE) as db:
        rows = db.execute(f"SELECT view FROM {table}").fetchall()
    db.close()
    return [int(view) for (view,) in rows]


@pytest.mark.parametrize("graph", ["complete", pytest.param("ring", marks=pytest.mark.slow)])
def test_the_honest_members_stop_and_name_the_liar(tmp_path: Path, graph: str) -> None:
    """m4 tells m0 that m2 is absent, and m3 that m1 is; both are there.
    Shared noise, five members."""
    contract = small_contract(
        5,
        rounds=2000,
        graph=graph,
        algorithm=GOSSIP,
        privacy=TERMS,
        absence={"policy": "continue", "limit_seconds": 20.0},
    )
    crowd = Crowd(tmp_path, contract)
    try:
        crowd.start(*HONEST)
        crowd.start_liar("m4", {"m0": ["m2"], "m3": ["m1"]}, "round one done")
        codes = crowd.wait(150, HONEST)
        assert set(codes.values()) == {2}, {name: crowd.output(name) for name in HONEST}
        for name in HONEST:
            _check_stopped(crowd, name)
        # A restart does not forget: it refuses before it says or draws anything.
        before = _rows(crowd, "m0", "charges")
        crowd.start("m0")
        assert crowd.wait(60, ["m0"]) == {"m0": 2}
        assert crowd.output("m0").count("m4 has signed two different decisions") == 2
        assert _rows(crowd, "m0", "charges") == before
    finally:
        crowd.stop()


def _check_stopped(crowd: Crowd, name: str) -> None:
    assert "ConflictingVotes: m4 has signed two different decisions" in crowd.output(name)
    assert '"a member has signed two decisions"' in crowd.log(name)
    assert "membership changed" not in crowd.log(name)
    # All that was drawn and sent is of the time when all five took part
    for table in ("charges", "outbox"):
        assert set(_rows(crowd, name, table)) == {0}, table
    found = json.loads((crowd.folder(name) / "state" / "evidence-m4-view-1.json").read_text())
    key = Ed25519PublicKey.from_public_bytes(
        base64.b64decode(crowd.stage.contract.member("m4").signing_key)
    )
    for signed in found["signed"]:
        key.verify(base64.b64decode(signed["signature"]), signed["text"].encode())
    sets = [json.loads(signed["text"].partition("\n")[2])["absent"] for signed in found["signed"]]
    assert sorted(sets) == [["m1"], ["m2"]]
