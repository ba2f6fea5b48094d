"""Signatures of the contract travel between the nodes; nothing of the records is touched before
all members have signed."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest

from node_stage import (
    Crowd,
    live_with_forged_signature,
    live_with_version,
    simulated,
    small_contract,
)
from tacenda_node.identity import contract_files
from tacenda_node.identity.certificates import Identity
from tacenda_node.protocol import frames
from tacenda_node.watch.status_file import read_status

ALGORITHM = {"name": "ipadmm", "penalty": 0.1, "inner_steps": 1}


def _path_of_three(folder: Path, **changes: object) -> Crowd:
    contract = small_contract(3, rounds=6, graph="path", algorithm=ALGORITHM, **changes)
    crowd = Crowd(folder, contract, seed=3)
    crowd.keep_own_signatures()
    return crowd


def _rows(crowd: Crowd, name: str, table: str) -> int:
    with sqlite3.connect(f"file:{crowd.folder(name)}/state/node.sqlite?mode=ro", uri=True) as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _until_known(crowd: Crowd, name: str, states: dict[str, str]) -> None:
    """Signs of life travel before all have signed."""
    end = time.monotonic() + 60
    while True:
        status = read_status(crowd.folder(name) / "state")
        if {one.name: one.state for one in status.members} == states:
            break
        assert time.monotonic() < end, status.members
        time.sleep(0.3)
    assert [root.words for root in status.roots] == ["m2 (not signed) holds up m0, m1"]


def test_signatures_go_along_a_path_also_over_a_restart(tmp_path: Path) -> None:
    """m0 - m1 - m2, each with its own signature only. Until m2 is there, m0 and m1 have neither a
    key, a charge nor a row; m1 is killed meanwhile, and m0's records are not even there."""
    crowd = _path_of_three(tmp_path)
    records = crowd.stage.data["m0"]
    hidden = records.rename(tmp_path / "not-yet.csv")
    try:
        crowd.start("m0", "m1")
        crowd.until("m0", "waiting for the signature of m2 under the contract")
        _until_known(crowd, "m0", {"m0": "waiting", "m1": "waiting", "m2": "not signed"})
        crowd.kill("m1")
        for name in ("m0", "m1"):
            assert not any(_rows(crowd, name, t) for t in ("about", "charges", "outbox", "inbox"))
        crowd.start("m1")
        hidden.rename(records)
        crowd.start("m2")
        models = crowd.finish()
    finally:
        crowd.stop()
    np.testing.assert_array_equal(models, simulated(crowd.stage, seed=3))
    for name in crowd.names:
        assert "all members have signed" in crowd.log(name)
        assert not contract_files.missing_signatures(crowd.folder(name) / "state/contract.toml")


@pytest.mark.slow
def test_another_text_is_named_with_its_fields_also_beyond_the_neighbours(tmp_path: Path) -> None:
    crowd = _path_of_three(tmp_path)
    plain = contract_files.read(crowd.contracts["m2"]).to_plain()
    plain["privacy"]["epsilon"] = 50.0
    contract_files.write(type(crowd.stage.contract).build(plain), crowd.contracts["m2"])
    who = Identity.read(crowd.folder("m2") / "identity")
    contract_files.sign(crowd.contracts["m2"], who)
    try:
        crowd.start()
        crowd.until("m1", "it has signed another text; differing: privacy.epsilon")
        crowd.until("m2", "differ in: privacy.epsilon")
        crowd.until("m0", "m1 says: it has signed another text")
    finally:
        crowd.stop()


def test_a_node_needs_its_own_signature(tmp_path: Path) -> None:
    crowd = _path_of_three(tmp_path)
    contract_files.signatures_path(crowd.contracts["m0"]).write_text("")
    try:
        crowd.start("m0")
        assert crowd.wait(60, ["m0"]) == {"m0": 2}
    finally:
        crowd.stop()
    assert "lacks a valid signature of m0, whose node this is" in crowd.output("m0")


@pytest.mark.slow
def test_a_forged_signature_is_refused_and_named(tmp_path: Path) -> None:
    crowd = _path_of_three(tmp_path)
    try:
        crowd.start("m0")
        crowd.start_as("m1", live_with_forged_signature, "m2")
        crowd.until("m0", "a signature of the contract that is not m2's")
        crowd.until("m0", "peer cut off")
        assert "all members have signed" not in crowd.log("m0")
    finally:
        crowd.stop()


def test_an_older_version_is_refused_in_words_until_it_is_upgraded(tmp_path: Path) -> None:
    """m1 speaks older frames; m0 calls it, and it calls m2: who is to install what is in all logs.
    Upgraded and started again, all give the same bits."""
    contract = small_contract(3, rounds=6, graph="path", algorithm=ALGORITHM)
    crowd = Crowd(tmp_path, contract, seed=3)
    older, now = frames.PROTOCOL - 1, frames.PROTOCOL
    newer = "install a newer version of Tacenda at m1"
    try:
        crowd.start_as("m1", live_with_version, older)
        crowd.start("m0", "m2")
        crowd.until("m0", f"protocol {now} is spoken by m0 and {older} by m1; {newer}")
        crowd.until("m2", f"protocol {older} is spoken by m1 and {now} by m2; {newer}")
        crowd.until("m1", newer)
        crowd.kill("m1")
        crowd.start("m1")
        models = crowd.finish()
    finally:
        crowd.stop()
    np.testing.assert_array_equal(models, simulated(crowd.stage, seed=3))


@pytest.mark.slow
def test_shared_noise_agrees_on_no_edge_key_before_all_have_signed(tmp_path: Path) -> None:
    contract = small_contract(
        3,
        rounds=5,
        graph="path",
        algorithm={"name": "gossipgd", "step_size": 0.5},
        privacy={"epsilon": 5.0, "delta": 1e-5, "coalition": 1, "floating_point_noise": True},
    )
    crowd = Crowd(tmp_path, contract)
    crowd.keep_own_signatures()
    try:
        crowd.start("m0", "m1")
        crowd.until("m1", "peer connected")
        assert not _rows(crowd, "m0", "about")
        assert not _rows(crowd, "m1", "about")
        crowd.start("m2")
        assert np.isfinite(crowd.finish()).all()
    finally:
        crowd.stop()
