"""A rehearsal in which every member has a network of its own:
the same result, over a network with a delay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from node_stage import simulated, small_contract, small_schema
from tacenda_node.setup.namespaces import available
from tacenda_node.setup.rehearse import rehearse, summary


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="network namespaces need Linux, root and iproute2")
def test_members_in_namespaces_equal_the_simulation(tmp_path: Path) -> None:
    small_schema().write(tmp_path / "schema.toml")
    contract = small_contract(3, rounds=10)
    stage = rehearse(
        contract, tmp_path / "schema.toml", tmp_path / "stage", seed=4, namespaces=True
    )
    models = np.vstack([r.models for r in stage.results().values()])
    np.testing.assert_allclose(models, simulated(stage, seed=4), rtol=0, atol=1e-12)
    assert stage.contract.member("m0").address.startswith("10.77.")
    assert summary(stage)["members"] == 3
