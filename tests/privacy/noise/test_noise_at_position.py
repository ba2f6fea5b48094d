"""A rehearsed node draws what a simulation draws at its place in the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacenda.privacy.noise.keyed import AtPosition
from tacenda.privacy.noise.sources import SimulatedNoise

HERE = np.array([0])
SIZES = np.array([40])
EDGES = (np.array([0, 2]), np.array([1, 4]), np.array([1.0, -1.0]))


def asked(noise: Any, nodes: Any, turn: int, call: int) -> dict[str, Any]:
    one = np.full(1, 3.0)
    zeros = (np.zeros((1, 4)), 1.0, None)
    return {
        "gaussian": noise.add_gaussian(nodes, turn, call, zeros, one),
        "whole": noise.whole_gaussian(nodes, turn, call, np.full(1, 900.0), 4),
        "laplace": noise.l2_laplace(nodes, turn, call, one, 4),
        "sample": np.concatenate(noise.poisson_records(nodes, turn, call, SIZES, np.full(1, 0.4))),
        "one": np.concatenate(noise.one_record(nodes, turn, call, SIZES)),
        "shared": noise.shared(EDGES, turn, call, 4),
        "masks": noise.masks(EDGES, turn, call, 4),
    }


@pytest.mark.parametrize("position", [0, 3])
def test_all_kinds_are_those_of_the_position(position: int) -> None:
    plain = SimulatedNoise(7)
    there = AtPosition(plain, position)
    there.enter(5)  # another view changes nothing
    for turn, call in ((1, 0), (2, 3)):
        mine, theirs = (
            asked(there, HERE, turn, call),
            asked(plain, np.array([position]), turn, call),
        )
        for kind, values in mine.items():
            assert np.array_equal(values, theirs[kind]), kind
    other = asked(AtPosition(plain, position + 1), HERE, 1, 0)
    first = asked(there, HERE, 1, 0)
    for kind in ("gaussian", "whole", "laplace", "sample"):
        assert not np.array_equal(other[kind], first[kind]), kind
    assert there.kind == plain.kind and there.asked(b"question") is there
