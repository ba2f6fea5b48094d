"""Members that lie in what they sign, and states that are old copies, between real processes: the
liar is named, the others live."""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from node_stage import Crowd, small_contract
from tacenda_node.state.database import FILE

GOSSIP = {"name": "gossipgd", "noise": "independent", "mixings": 2, "step_size": 0.5}


def _rows(folder: Path, table: str) -> int:
    db = sqlite3.connect(folder / FILE)
    (count,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
    db.close()
    return int(count)


def _check_evidence(crowd: Crowd, at: str, liar: str, texts: int) -> None:
    path = next((crowd.folder(at) / "state").glob(f"evidence-{liar}-view-*.json"))
    found = json.loads(path.read_text())
    key = Ed25519PublicKey.from_public_bytes(
        base64.b64decode(crowd.stage.contract.member(liar).signing_key)
    )
    for signed in found["signed"]:
        key.verify(base64.b64decode(signed["signature"]), signed["text"].encode())
    assert len({signed["text"] for signed in found["signed"]}) == texts


def test_a_restored_copy_of_a_state_sends_nothing(tmp_path: Path) -> None:
    """m1's folder is copied while it stands still; it takes part for a while; the copy is put back.
    The copy may be one message old."""
    crowd = Crowd(
        tmp_path, small_contract(3, rounds=4000, absence={"policy": "stop", "limit_seconds": 60.0})
    )
    state = crowd.folder("m1") / "state"
    try:
        crowd.start()
        crowd.until("m1", "round one done")
        crowd.kill("m1")
        shutil.copytree(state, tmp_path / "backup")
        crowd.start("m1")
        end, copied = time.monotonic() + 120, _rows(tmp_path / "backup", "charges")
        # Four rounds of two releases: the neighbours, who answered three of them, hold rows that
        # the copy does not know.
        while _rows(state, "charges") < copied + 8:
            assert time.monotonic() < end, crowd.output("m1")
            time.sleep(0.02)
        crowd.kill("m1")
        shutil.rmtree(state)
        shutil.copytree(tmp_path / "backup", state)
        before = {table: _rows(state, table) for table in ("charges", "outbox")}
        crowd.start("m1")
        assert crowd.wait(120, ["m1"]) == {"m1": 2}
        assert "StateError: This member (m1) has itself signed round" in crowd.output("m1")
        assert {table: _rows(state, table) for table in before} == before
        assert (state / "evidence-m1-own-state.json").exists()
        assert crowd.processes["m0"].is_alive()
        assert crowd.processes["m2"].is_alive()
    finally:
        crowd.stop()


@pytest.mark.parametrize("graph", ["ring", pytest.param("complete", marks=pytest.mark.slow)])
def test_a_member_that_tells_its_neighbours_different_things_is_named_by_all(
    tmp_path: Path, graph: str
) -> None:
    """m4 sends m0 its rows plus 5 and m3 its rows minus 5;
    on the ring m0 and m3 are three steps apart."""
    crowd = Crowd(tmp_path, small_contract(5, rounds=400, graph=graph, algorithm=GOSSIP))
    honest = ["m0", "m1", "m2", "m3"]
    try:
        crowd.start(*honest)
        crowd.start_false("m4", {"m0": 5.0, "m3": -5.0})
        codes = crowd.wait(120, honest)
        for name in honest:
            assert codes[name] == 2, crowd.output(name)
            assert "MemberCaught: m4 has signed two different messages for round" in crowd.output(
                name
            )
            _check_evidence(crowd, name, "m4", 2)
            assert _rows(crowd.folder(name) / "state", "charges") < 300  # long before the end
        crowd.start("m0")  # a restart does not forget
        assert crowd.wait(60, ["m0"]) == {"m0": 2}
    finally:
        crowd.stop()


@pytest.mark.parametrize("value", [1e300, pytest.param(2e9, marks=pytest.mark.slow)])
def test_rows_beyond_the_radius_end_the_run_by_name(tmp_path: Path, value: float) -> None:
    crowd = Crowd(tmp_path, small_contract(3, rounds=200))
    try:
        crowd.start("m0", "m1")
        crowd.start_false("m2", {"m0": value, "m1": value})
        codes = crowd.wait(90, ["m0", "m1"])
        for name in ("m0", "m1"):
            assert codes[name] == 2, crowd.output(name)
            assert "MemberCaught: m2 has signed" in crowd.output(name)
            assert "diverges" not in crowd.output(name)
            assert not list((crowd.folder(name) / "state").glob("results/*"))
        _check_evidence(crowd, "m0", "m2", 1)
    finally:
        crowd.stop()


@pytest.mark.slow
def test_the_others_go_on_without_the_liar_where_the_contract_says_so(tmp_path: Path) -> None:
    contract = small_contract(
        5,
        rounds=300,
        graph="complete",
        algorithm=GOSSIP,
        absence={"policy": "continue", "limit_seconds": 10.0},
    )
    crowd = Crowd(tmp_path, contract)
    honest = ["m0", "m1", "m2", "m3"]
    try:
        crowd.start(*honest)
        crowd.start_false("m4", {"m0": 5.0, "m3": -5.0})
        codes = crowd.wait(150, honest)
        assert set(codes.values()) == {0}, {name: crowd.output(name) for name in honest}
        for name in honest:
            assert '"absent": "m4"' in crowd.log(name)
            _check_evidence(crowd, name, "m4", 2)
            manifest = json.loads((crowd.folder(name) / "state" / "manifest.json").read_text())
            assert list(manifest["caught"]) == ["m4"]
    finally:
        crowd.stop()
