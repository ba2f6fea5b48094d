"""How a run ends: by mixings, or by one exact average; what each costs, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.errors import InputError
from tacenda.report.card import model_card
from tacenda.terms.closing import closing_words


def run(finish: Any, blocks: Any = 1, seed: int = 3) -> Any:
    data = tc.data.make_classification(300, 4, difficulty=0.3, seed=0)
    shards = tc.data.partition.even(data.X, data.y, 10, seed=0)
    problem = tc.Problem(shards, strength=0.01, classes=(0, 1))
    graph = tc.graph.random_regular(10, 4, seed=1)
    return tc.simulate(
        problem, graph, "gossipgd", 5, tc.Privacy(epsilon=3.0, coalition=1), seed,
        finish_mixing=finish, blocks=blocks,
    )  # fmt: skip


def test_an_exact_end_is_the_mean_of_all_outputs_and_cheaper_than_one_mixing() -> None:
    bare, mixed, exact = run(0), run(1), run("exact")
    assert np.allclose(exact.models, bare.models.mean(axis=0), rtol=0, atol=1e-14)
    assert all(row.tobytes() == exact.models[0].tobytes() for row in exact.models)
    assert exact.messages - bare.messages == 2 * 9 < mixed.messages - bare.messages == 40
    assert np.array_equal(exact.last, bare.last)
    assert exact.privacy.epsilon == bare.privacy.epsilon
    assert exact.history.rows[-1]["round"] == 6
    assert exact.history.rows[-1]["consensus"] < 1e-15


@pytest.mark.parametrize("blocks", [2, 10, [[0, 9, 4], [1, 2, 3, 5, 6, 7, 8]]])
def test_it_does_not_depend_on_the_placement(blocks: Any) -> None:
    assert run("exact").models.tobytes() == run("exact", blocks).models.tobytes()


def test_result_and_report_say_which_was_used() -> None:
    found = run("exact")
    assert found.settings["finish_mixing"] == "exact"
    assert "one closing average, exact, over a spanning tree," in model_card(found)
    assert closing_words(2) == "2 closing mixing rounds"


@pytest.mark.parametrize("finish", ["exactly", "average", "", -1, 1.5, True])
def test_what_is_no_end_is_refused_by_name(finish: Any) -> None:
    with pytest.raises(InputError, match="finish_mixing must be"):
        run(finish)
