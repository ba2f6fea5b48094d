"""Ordered classes and times on real processes: the simulator's bits at every member, and one budget
for training, tables and evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from node_stage import simulated, small_contract, small_schema
from tables_stage import crowd, found, schema, with_settings
from tacenda.data.schema import Schema
from tacenda.evaluation import measures
from tacenda.tables.description import Description
from tacenda_node import evidence
from tacenda_node.peer.member_records import read_records
from tacenda_node.setup.rehearse import rehearse

POINTS = [1.0, 2.0, 3.0]
KINDS = {
    "ordinal": {"label": {"name": "y", "classes": ["none", "some", "much"], "ordered": True}},
    "discrete-hazard": {"survival": {"time": "t", "event": "died", "points": POINTS}},
}


@pytest.mark.slow
@pytest.mark.parametrize("loss", list(KINDS))
def test_peers_have_the_simulators_bits(loss: str, tmp_path: Path) -> None:
    own = Schema.build(columns=small_schema().columns, **KINDS[loss])
    assert own.intercept and own.label.usual_loss == loss
    own.write(tmp_path / "schema.toml")
    contract = small_contract(
        3,
        rounds=4,
        schema_hash=own.hash(),
        problem={
            "n_features": len(own.feature_names),
            "row_scale": own.row_scale,
            "loss": loss,
            "classes": list(own.label.classes or ()),
            "strength": 0.01,
        },
        privacy={"epsilon": 20.0, "delta": 1e-5},
    )
    stage = rehearse(contract, tmp_path / "schema.toml", tmp_path / "stage", seed=5)
    results = stage.results()
    models = np.vstack([one.models.reshape(1, -1) for one in results.values()])
    np.testing.assert_array_equal(models, simulated(stage, seed=5))
    about = results["m0"].settings["problem"]
    assert (about["loss"], about["rows_each"]) == (loss, 2 if loss == "ordinal" else 3)
    assert about["n_features"] == len(own.feature_names)
    privacy = results["m0"].privacy
    assert privacy is not None and privacy.one_record and privacy.epsilon <= 20.0 * (1 + 1e-6)


def survival_schema() -> Schema:
    return Schema.build(
        columns=[column.model_dump() for column in schema().columns],
        missing="impute",
        survival={"time": "t", "event": "died", "points": POINTS},
    )


@pytest.mark.slow
def test_one_budget_for_training_tables_and_evaluation(tmp_path: Path) -> None:
    own = survival_schema()
    terms = {
        "algorithm": {"name": "treegd"},
        "rounds": 4,
        "describe": {"share": 0.2, "by": "arm"},
        "survival": {"share": 0.2, "by": "arm"},
        "evaluation": {"held_out": 0.25, "epsilon": 3.0},
    }
    stage, whole = crowd(tmp_path, own, **terms)
    with_settings(stage)
    stage.start()
    stage.finish()
    contract = stage.stage.contract
    pack = evidence.make(stage.folder("m0"), tmp_path / "pack")
    assert evidence.check(pack, contract=pack / "contract" / "contract.toml").ok
    # A record is one record in the tables, however many rows the loss makes of it
    table = Description.from_plain(found(stage, "m0", "describe"))
    trained = sum(contract.trained_size(name) for name in stage.names)
    assert table.records == trained
    mean = table.row("age", "mean").cells[-1]
    assert mean.low < whole["age"].mean() < mean.high and mean.high - mean.low < 8
    told = json.loads((stage.folder("m1") / "state" / "evaluation.json").read_text("utf-8"))
    model, scores, cells = stage.models()[0], [], []
    for name in stage.names:
        ledger = stage.folder(name).parent.parent / "ledgers" / name / "ledger.sqlite"
        data = stage.stage.data[name]
        kept = read_records(contract, name, stage.stage.schema, data, ledger).held_out
        assert kept is not None
        for made, part in zip((scores, cells), kept.record_scores(model), strict=True):
            made.append(part)
    plain = measures.outcomes(np.concatenate(cells), np.vstack(scores), "discrete-hazard")
    assert told["measures"].keys() == plain.keys()
    for name, measure in told["measures"].items():
        assert measure["low"] - 0.02 < plain[name] < measure["high"] + 0.02
