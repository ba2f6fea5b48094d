"""Tables and Cox's model on real nodes: beside a training under one budget, and as all of a
contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from losses_stage import check_spent, live_until
from tables_stage import PRIVACY, crowd, found, schema, with_settings
from tacenda.runtime.result import load
from tacenda.tables.asked import Asked
from tacenda_node import evidence
from tacenda_node.peer.agreed_tables import AgreedTables


@pytest.mark.slow
def test_tables_open_a_training_under_one_budget(tmp_path: Path) -> None:
    terms = {
        "algorithm": {"name": "treegd"},
        "rounds": 4,
        "describe": {"share": 0.2, "by": "arm"},
        "survival": {"share": 0.2, "by": "arm"},
        "evaluation": {"held_out": 0.25},
    }
    stage, _ = crowd(tmp_path, **terms)
    with_settings(stage)
    stage.start()
    stage.finish()
    one = found(stage, "m0", "describe")
    pack = evidence.make(stage.folder("m0"), tmp_path / "pack")
    assert evidence.check(pack, contract=pack / "contract" / "contract.toml").ok
    listed = json.loads((pack / "evidence.json").read_text("utf-8"))["facts"]["tables"]
    assert [t["table"] for t in listed] == ["describe", "survival"]
    assert [t["share"] for t in listed] == pytest.approx([0.2, 0.2])
    assert 0 < listed[0]["epsilon"] < one["privacy"]["epsilon"]
    assert one["total"] == found(stage, "m2", "describe")["total"]
    assert one["records"] == 3000
    # One budget holds for the training and both tables
    assert 2.1 < one["privacy"]["epsilon"] <= 3.0 * (1 + 1e-6)
    assert found(stage, "m0", "survival")["privacy"] == one["privacy"]
    assert (stage.folder("m0") / "state" / "tables" / "describe.html").exists()
    table = tc.tables.Description.from_plain(one)
    mean = table.row("age", "mean").cells[-1]
    assert mean.low < 55 < mean.high and mean.high - mean.low < 8
    missing = table.row("age", "missing").cells[-1]
    assert 60 < missing.value < 300
    curves = tc.tables.SurvivalCurves.from_plain(found(stage, "m0", "survival"))
    assert curves.log_rank is not None and curves.log_rank.p_value < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("coalition", [1, "all"])
def test_a_contract_of_tables_alone(tmp_path: Path, coalition: Any) -> None:
    stage, whole = crowd(
        tmp_path,
        algorithm={"name": "tables"},
        describe={"by": "arm"},
        privacy={**PRIVACY, "coalition": coalition},
    )
    stage.start()
    stage.finish()
    one = found(stage, "m0", "describe")
    asked = Asked.of(schema(), by="arm")
    assert one["records"] == len(whole) and one["noise"] > 0
    agreed = AgreedTables.of(stage.stage.contract, schema())
    rows = agreed.rows(schema(), tc.data.Table.of(whole))
    problem = tc.Problem([(rows, np.zeros(len(rows)))], loss="squared")
    at = np.zeros((1, rows.shape[1]))
    exact = problem.store.statistic(np.zeros(1, int), agreed.statistic, at)
    off = (np.array(one["total"]) - exact[0]) / one["noise"]
    assert 0 < np.abs(off).max() < 6 and asked.statistic.length == len(off)


@pytest.mark.slow
def test_hazard_ratios_of_several_members(tmp_path: Path) -> None:
    stage, _ = crowd(tmp_path, algorithm="cox", privacy={**PRIVACY, "epsilon": 20.0})
    stage.start()
    stage.finish()
    one = found(stage, "m1", "hazards")
    effects = {e["name"]: e for e in one["effects"]}
    assert effects["arm=new"]["low"] < np.exp(-0.7) < effects["arm=new"]["high"] < 1
    assert 14 < one["privacy"]["epsilon"] <= 20 * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "call", "sent", "whitened"),
    [
        ("m1", 4, True, False),  # the gradient
        ("m1", 7, True, False),  # the table, which the root has
        ("m1", 7, False, False),
        ("m0", 8, True, False),  # the table's total
        ("m1", 10, True, True),  # the same behind the moment
        ("m1", 10, False, True),
    ],
)
def test_a_member_lost_around_the_table(
    tmp_path: Path, name: str, call: int, sent: bool, whitened: bool
) -> None:
    """The others end with one model and one table, and nobody spends more than was reserved."""
    terms: dict[str, Any] = {"algorithm": {"name": "treegd"}, "rounds": 4, "graph": "complete"}
    if whitened:
        terms |= {"prepare": {"name": "whitening"}, "evaluation": {"held_out": 0.25}}
    absence = {"policy": "continue", "limit_seconds": 6.0, "losses": 1}
    stage, _ = crowd(tmp_path, describe={"share": 0.2, "by": "arm"}, absence=absence, **terms)
    stage.keep_own_signatures()
    rest = [other for other in stage.names if other != name]
    try:
        stage.start(*rest)
        stage.start_as(name, live_until, 1, call, sent)
        codes = stage.wait(150, rest)
        assert stage.processes[name].exitcode == 9, stage.output(name)
    finally:
        stage.stop()
    assert set(codes.values()) == {0}, {other: stage.output(other) for other in rest}
    check_spent(stage, rest)
    one, two = (found(stage, other, "describe") for other in rest)
    assert one["total"] == two["total"] and one["records"] is None
    for table in (one, two):
        assert table["privacy"]["epsilon"] <= 3.0 * (1 + 1e-6)
    first, second = (
        load(stage.folder(other) / "state" / "results" / f"treegd-{other}.safetensors").models
        for other in rest
    )
    assert first.tobytes() == second.tobytes()
