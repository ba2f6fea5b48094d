"""Schedules: values by hand, plain form and back, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tacenda import schedules
from tacenda.errors import InputError

VALUES: list[tuple[Any, list[float]]] = [
    (schedules.constant(0.5), [0.5, 0.5, 0.5]),
    # Start * ratio^t from t = 1, as Zhang et al. (2018) writes 1.01^k
    (schedules.geometric(2.0, 0.5), [1.0, 0.5, 0.25]),
    (schedules.power(3.0, -1.0), [3.0, 1.5, 1.0]),
    (schedules.square_root(20.0, 4.0), [22.0, 20.0 + 8**0.5, 20.0 + 12**0.5]),
    (schedules.listed([5, 7]), [5.0, 7.0, 7.0]),
]


@pytest.mark.parametrize(("schedule", "values"), VALUES, ids=lambda v: getattr(v, "name", ""))
def test_values_by_hand(schedule: Any, values: list[float]) -> None:
    assert [schedules.at(schedule, t) for t in (1, 2, 3)] == pytest.approx(values)


@pytest.mark.parametrize("schedule", [s for s, _ in VALUES], ids=lambda s: s.name)
def test_a_file_can_hold_it(schedule: Any) -> None:
    plain = json.loads(json.dumps(schedules.to_plain(schedule)))
    assert plain["schedule"] == schedule.name
    assert schedules.from_plain(plain) == schedule


def test_numbers_and_other_values_stay_as_they_are() -> None:
    for value in (0.3, 4, "theory", None, [1, 2]):
        assert schedules.to_plain(value) == schedules.from_plain(value) == value
    assert schedules.at(0.3, 17) == 0.3


def test_every_kind_is_tested_here() -> None:
    assert {type(s) for s, _ in VALUES} | {schedules.PerNode} == set(schedules.KINDS.values())


def test_a_value_for_each_node() -> None:
    own = schedules.per_node([0.5, {"schedule": "geometric", "start": 1.0, "ratio": 2.0}, 0.5])
    assert [own(t).tolist() for t in (1, 2)] == [[[0.5], [2.0], [0.5]], [[0.5], [4.0], [0.5]]]
    plain = json.loads(json.dumps(schedules.to_plain(own)))
    assert schedules.from_plain(plain) == own
    assert own.kinds().tolist() == [0, 1, 0]
    assert own.at_nodes(np.array([1, 1, 0]))(3)[:, 0].tolist() == [8.0, 8.0, 0.5]
    table = np.array([[1.0, 3.0], [2.0, 4.0]])  # rounds, nodes
    found = [schedules.per_node(table)(t)[:, 0].tolist() for t in (1, 2, 3)]
    assert found == [[1, 3], [2, 4], [2, 4]]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: schedules.geometric(0.0, 1.1), "geometric: start"),
        (lambda: schedules.geometric(1.0, -1.0), "geometric: ratio"),
        (lambda: schedules.power(-1.0, 2.0), "power: start"),
        (lambda: schedules.square_root(-1.0, 1.0), "square-root: offset"),
        (lambda: schedules.square_root(1.0, float("nan")), "square-root: slope"),
        (lambda: schedules.constant(-0.1), "Constant.value"),
        (lambda: schedules.listed([]), "at least one"),
        (lambda: schedules.listed([1.0, -2.0]), "listed: values"),
        (
            lambda: schedules.from_plain({"schedule": "geometic", "start": 1, "ratio": 2}),
            "Did you mean 'geometric'",
        ),
        (
            lambda: schedules.from_plain({"schedule": "geometric", "begin": 1}),
            "does not take these fields",
        ),
        (lambda: schedules.check("IPADMM.penalty", lambda t: t), "a file cannot hold it"),
        (lambda: schedules.check("IPADMM.penalty", 0), "IPADMM.penalty must be a number above 0"),
        (lambda: schedules.per_node([1.0, -1.0]), "node 1 must be a number of at least 0, not -1"),
        (lambda: schedules.per_node([[1.0, 2.0]]), "value of node 0"),
        (lambda: schedules.per_node(np.array([[1.0, 2.0], [1.0, np.nan]])), "value of node 1"),
        (lambda: schedules.per_node(np.ones((1, 1, 1))), r"\(n,\) or \(rounds, n\)"),
        (lambda: schedules.per_node([]), "holds none"),
        (lambda: schedules.check("DVP.penalty", [0.5, 0.7]), "must be one value for all nodes"),
        (
            lambda: schedules.check("P", schedules.per_node([0.5, 0.0]), per_node=True),
            "P of node 1 must be a number above 0",
        ),
        (lambda: schedules.check_nodes("P", schedules.per_node([1, 2]), 3), "node 2 has none"),
        (lambda: schedules.check_nodes("P", schedules.per_node([1, 2]), 1), "there is no node 1"),
    ],
)
def test_refused(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_zero_where_it_is_allowed() -> None:
    schedules.check("RADMM.recycle_proximal", 0.0, zero=True)
    schedules.check("RADMM.recycle_proximal", schedules.geometric(0.2, 1.01))
