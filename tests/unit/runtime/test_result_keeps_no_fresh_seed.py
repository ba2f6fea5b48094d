"""A seed that was drawn afresh does not leave the run; closing mixings are counted once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import support
import tacenda as tc

PRIVATE = tc.Privacy(1.0)


def run(**settings: object) -> tc.RunResult:
    return tc.simulate(
        support.problem(4), tc.graph.ring(4), tc.algorithms.CDPADMM(), 5, PRIVATE, **settings
    )


def test_fresh_seed_is_not_written(tmp_path: Path) -> None:
    fresh, again = run(), run()
    assert fresh.settings["seed"] is None
    assert not np.array_equal(fresh.models, again.models)
    assert run(seed=3).settings["seed"] == 3
    resumed = run(checkpoint=tmp_path / "c", resume=True)
    resumed = run(checkpoint=tmp_path / "c", resume=True)
    assert resumed.settings["seed"] is None


def test_closing_mixings_cost_one_message_each() -> None:
    plain, mixed = run(seed=0), run(seed=0, finish_mixing=3)
    assert mixed.messages == plain.messages + 3 * 8
    np.testing.assert_array_equal(plain.last, mixed.last)
