"""What a run takes over: the moment with its labels' scale, of the same records' kind only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.algorithms.taken import Taken
from tacenda.algorithms.whitening import Whitening
from tacenda.errors import InputError
from tacenda.questions.facts import Facts

TREEGD, RING = tc.algorithms.TreeGD(), tc.graph.ring(3)


def problem(loss: str = "logistic") -> tc.Problem:
    rng = np.random.default_rng(0)
    x = rng.uniform(-0.5, 0.5, size=(90, 4))
    parts = [(x[i::3], (x[i::3, 0] > 0).astype(int)) for i in range(3)]
    return tc.Problem(parts, classes=(0, 1), loss=loss, strength=0.01)


def left_by(whitening: Whitening, loss: str = "logistic") -> Any:
    run = tc.simulate(problem(loss), RING, TREEGD, 4, tc.Privacy(5.0), seed=1, prepare=whitening)
    return run.released


@pytest.mark.parametrize(
    ("loss", "scale", "expected"),
    [("logistic", None, 0.15), ("logistic", 0.3, 0.3), ("logistic", 0, 0), ("hinge", None, 0)],
)
def test_it_is_what_the_run_before_released(loss: str, scale: Any, expected: float) -> None:
    if loss == "hinge":
        loss = "smoothed-hinge"
    row = left_by(Whitening(label_scale=scale), loss)["for_next"]
    width = 5 if expected else 4
    taken = Taken.of({"for_next": row}, 0.02)
    assert taken is not None and taken.label_scale == expected and taken.drift == 0.02
    assert len(taken.moment) == width * (width + 1) // 2 == len(row) - 3
    assert taken.std > 0 and taken.std == row[-2] and taken.risk == row[-1] > 0
    facts = Facts.of(problem(loss))
    found = taken.moment_for(facts, Whitening(label_scale=scale), TREEGD, np.zeros((1, 4)))
    np.testing.assert_array_equal(found, row[:-3])


@pytest.mark.parametrize(("before", "now"), [(0.15, 0.3), (0.3, None), (0.0, 0.15), (0.2, 0.0)])
def test_labels_of_another_scale_are_refused(before: float, now: float | None) -> None:
    """They would be misread without a word: the moment may be just as long."""
    taken = Taken.of(left_by(Whitening(label_scale=before)))
    assert taken is not None
    wrapped = tc.algorithms.Whitened(TREEGD, Whitening(label_scale=now), taken)
    meant = 0.15 if now is None else now
    with pytest.raises(InputError, match=f"scale {before:g}, and Whitening.label_scale here means"):
        tc.simulate(problem(), RING, wrapped, 4, tc.Privacy(5.0), seed=2)
    again = tc.algorithms.Whitened(TREEGD, Whitening(label_scale=before), taken)
    assert before != meant and tc.simulate(problem(), RING, again, 4, tc.Privacy(5.0), seed=2)


def test_the_scale_is_in_what_names_it() -> None:
    moment = np.arange(15.0)
    named = [Taken(moment, scale, 0.1, 0.02).to_plain() for scale in (0.15, 0.15, 0.3)]
    assert named[0] == named[1] != named[2]


def test_there_is_nothing_to_take_over_from_a_run_that_was_not_whitened() -> None:
    run = tc.simulate(problem(), RING, TREEGD, 4, tc.Privacy(5.0), seed=1)
    assert Taken.of(run.released) is None
