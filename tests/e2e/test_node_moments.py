"""Least squares by moments on real processes: the simulator's bits at every member."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from node_stage import Crowd, simulated, small_contract, small_schema


@pytest.mark.slow
@pytest.mark.parametrize("regulariser", ["l1", "l2"])
def test_peers_have_the_simulators_bits(tmp_path: Path, regulariser: str) -> None:
    contract = small_contract(
        4,
        rounds=4,
        schema_hash=small_schema(4, regression=True).hash(),
        problem={"n_features": 4, "loss": "squared", "clip_norm": 0.3, "regulariser": regulariser},
        algorithm={"name": "moments"},
        privacy={"epsilon": 50.0, "delta": 1e-5, "coalition": 1},
    )
    crowd = Crowd(tmp_path / "crowd", contract, seed=5)
    crowd.start()
    found = crowd.finish()
    np.testing.assert_array_equal(found, simulated(crowd.stage, seed=5))
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    for result in crowd.stage.results().values():
        assert set(result.released) == {"vectors", "values", "centre", "spread", "noise"}
        assert result.noise_std is not None and (result.noise_std >= 0).all()
