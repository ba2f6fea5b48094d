"""How a run of hosts in one process ends: closing mixings, or one exact average, by dense
matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import problem
from tacenda.graph.topology import Topology

GRAPH = tc.graph.torus(2, 4)


def ended(finish: Any, blocks: int) -> np.ndarray:
    how: dict[str, Any] = {"finish_mixing": finish, "blocks": blocks, "record_every": 0}
    result = tc.simulate(problem(8), GRAPH, tc.algorithms.DPDDA(), 3, seed=1, **how)
    return np.asarray(result.models).reshape(8, -1)


@pytest.mark.parametrize("blocks", [1, 3])
def test_models_are_mixed_as_often_as_is_said_or_averaged_exactly(blocks: int) -> None:
    before = ended(0, 1)
    assert np.ptp(before, axis=0).max() > 1e-6
    w = np.zeros((8, 8))
    indptr, indices, weights = Topology.of(GRAPH).mixing("metropolis")
    for i in range(8):
        for at in range(indptr[i], indptr[i + 1]):
            w[i, indices[at]] += weights[at]
    w += np.diag(1 - w.sum(axis=1))
    for k in (0, 1, 3):
        found = ended(k, blocks)
        np.testing.assert_allclose(found, np.linalg.matrix_power(w, k) @ before, atol=1e-12)
    exact = ended("exact", blocks)
    np.testing.assert_allclose(exact, np.tile(before.mean(axis=0), (8, 1)), atol=1e-12)
    assert len({row.tobytes() for row in exact}) == 1
