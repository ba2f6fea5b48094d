"""Whatever numbers a member sends, as long as messages of such a size are accepted at all, no
algorithm stops with an error of arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacenda as tc
from support import TUNED, WHITENED, graph_for, privacy_for, problem, run_spec
from tacenda._types import Array
from tacenda.graph.groups import Groups
from tacenda.questions.blank import BlankQueries
from tacenda.questions.constants import LARGEST_RADIUS
from tacenda.questions.facts import Facts
from tacenda.runtime.network import average_of
from tacenda.runtime.places import OpenGate
from tacenda.runtime.rehearsal import Silence, blank_host

A = tc.algorithms
OPEN = {
    "moments": A.MomentRegression(noise="independent"),
    "treegd, independent": A.TreeGD(noise="independent"),
    "whitened treegd, independent": A.Whitened(A.TreeGD(noise="independent")),
}
ALGORITHMS = {**TUNED, **WHITENED, **OPEN}
del ALGORITHMS["optimum"]  # of which no node runs: nothing hides its rows
SIZES = (0.0, 5e-324, 1e-310, 1e-160, 1e-16, 1e-3, 1.0, 3e4, 1e9, LARGEST_RADIUS)
RANDOM = st.randoms(use_true_random=False)


class Liars(Silence):
    """Neighbours whose rows are of all sizes that the largest radius lets pass."""

    def __init__(self, random: Any, groups: Groups | None = None) -> None:
        self._random, self.groups = random, groups

    def _row(self, like: Array, times: int = 1) -> Array:
        pick, width = self._random.choice, times * like.shape[1]
        return np.array([[pick(SIZES) * pick((-1, 1)) for _ in range(width)]], like.dtype)

    def neighbour_sum(self, shared: Array, tag: Any, senders: Array | None = None) -> Array:
        return self._row(shared)

    def mix(self, shared: Array, tag: Any) -> Array:
        return self._row(shared)

    def average(self, shared: Array, tag: Any, groups: int = 1) -> Array:
        if self.groups is None:
            return self._row(shared)
        return average_of(self._row(shared, groups), self.groups, shared.dtype)

    def total(self, shared: Array, tag: Any, groups: int = 1) -> Array:
        rows = np.clip(self._row(shared.astype(float), groups), -(2.0**63), 2.0**63 - 1024)
        return rows.astype(np.int64)


@pytest.mark.parametrize("name", ALGORITHMS)
@given(random=RANDOM)
@settings(max_examples=15)
def test_no_row_ends_in_an_error_of_arithmetic(name: str, random: Any) -> None:
    task = "regression" if name == "moments" else "binary"
    data = problem(4, task=task, clip_norm=1.0, loss="squared" if name == "moments" else "logistic")
    topology = tc.graph.Topology.of(graph_for(name, 4))
    spec = run_spec(ALGORITHMS[name], topology, Facts.of(data), 3, privacy_for(name)).checked()
    here = np.array([1])
    questions = BlankQueries(spec.facts.rows(here), full=True)
    gate, width = OpenGate(np.float64), spec.facts.dim
    host = blank_host(spec, here, gate, questions, Liars(random), width=width)
    for turn in range(1, spec.rounds + 1):
        host.step(turn)
    assert np.isfinite(host.last()).all()


@pytest.mark.parametrize("name", ["treegd", "moments", "whitened treegd"])
@pytest.mark.parametrize("groups", [2, 3, 4])
@given(random=RANDOM)
@settings(max_examples=15)
def test_no_sum_of_a_group_does_either(name: str, groups: int, random: Any) -> None:
    task = "regression" if name == "moments" else "binary"
    data = problem(4, task=task, clip_norm=1.0, loss="squared" if name == "moments" else "logistic")
    topology = tc.graph.Topology.of(tc.graph.complete(4))
    methods = {"treegd": A.TreeGD(), "moments": A.MomentRegression()}
    method = methods.get(name, A.Whitened(A.TreeGD()))
    privacy = tc.Privacy(1.0)
    spec = run_spec(method, topology, Facts.of(data), 3, privacy, groups=groups).checked()
    here = np.array([1])
    questions = BlankQueries(spec.facts.rows(here), full=True)
    gate, liars = OpenGate(np.float64), Liars(random, spec.groups)
    host = blank_host(spec, here, gate, questions, liars, width=spec.facts.dim)
    for turn in range(1, spec.rounds + 1):
        host.step(turn)
    assert np.isfinite(host.last()).all()
    assert host.apart is not None and np.isfinite(host.apart.squares).all()
