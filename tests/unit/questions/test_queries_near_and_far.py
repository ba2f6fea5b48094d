"""An argmin of several nodes is each node's own, wherever its terms are small or very large."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from support import problem
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import open_values
from tacenda.questions.facts import Facts
from tacenda.questions.queries import Queries

DATA = problem(4)
FACTS = Facts.of(DATA)


def asked(nodes: list[int], linear: Any, quadratic: Any, centre: Any) -> Any:
    at = np.array(nodes)
    queries = Queries(DATA.store, DATA.sizes, at, FACTS.rows(at), SimulatedNoise(0))
    DATA.store.restore_solver_state({"ridges": np.zeros(0)})  # nothing of an earlier question
    return open_values(queries.argmin(linear, quadratic, centre))


@pytest.mark.parametrize("far", list(product([False, True], repeat=3)))
def test_every_row_is_the_answer_of_its_own_node(far: tuple[bool, ...]) -> None:
    rng = np.random.default_rng(sum(far))
    nodes = [3, 1, 2]
    linear = rng.normal(size=(3, DATA.dim)) * np.where(far, 1e6, 0.1)[:, None]
    quadratic, centre = np.array([[0.5], [1.0], [2.0]]), rng.normal(size=(3, DATA.dim))
    near = FACTS.rows(np.array(nodes)).argmin_is_near(quadratic, linear, centre)
    assert near.tolist() == [not one for one in far]
    together = asked(nodes, linear, quadratic, centre)
    for row, node in enumerate(nodes):
        alone = asked([node], linear[[row]], quadratic[[row]], centre[[row]])
        np.testing.assert_allclose(together[row], alone[0], rtol=1e-9, atol=1e-7)
