"""Counts on real processes, with the loss's options in the contract: the simulator's bits at every
member."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node_stage import simulated, small_contract, small_schema
from tacenda.data.label import Label
from tacenda.data.schema import Schema
from tacenda_node.setup.rehearse import rehearse


def _stage(folder: Path, **changes: Any) -> Any:
    label = Label(name="y", low=0.0, high=12.0)
    schema = Schema(columns=small_schema().columns, label=label, intercept=True)
    folder.mkdir(parents=True, exist_ok=True)
    schema.write(folder / "schema.toml")
    contract = small_contract(
        3,
        rounds=4,
        schema_hash=schema.hash(),
        problem={
            "n_features": 4,
            "row_scale": schema.row_scale,
            "loss": "poisson",
            "loss_options": {"label_bound": 12.0},
            "strength": 0.01,
        },
        privacy={"epsilon": 20.0, "delta": 1e-5},
        **changes,
    )
    return rehearse(contract, folder / "schema.toml", folder / "stage", seed=5)


@pytest.mark.slow
def test_peers_have_the_simulators_bits(tmp_path: Path) -> None:
    stage = _stage(tmp_path)
    results = stage.results()
    found = np.vstack([one.models.reshape(1, -1) for one in results.values()])
    np.testing.assert_array_equal(found, simulated(stage, seed=5))
    about = results["m0"].settings["problem"]
    assert about["loss_options"] == {"label_bound": 12.0}
