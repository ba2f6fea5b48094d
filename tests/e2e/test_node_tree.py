"""Exact averages on real processes: the simulator's bits at every member, kills change none, and a
new tree when members leave or return."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node_stage import Crowd, simulated, small_contract
from tacenda.algorithms import registry
from tacenda.graph.tree import spanning_tree
from tacenda.runtime.places import Form, row_forms
from tacenda_node.peer.run_plan import make_plan, topology_of

METHOD = '''
"""w <- w - step * mean over all nodes of (grad f_i(w) + noise): one model for all."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.node import Node


@dataclass(frozen=True)
class State:
    w: Array


@dataclass(frozen=True)
class Together(Algorithm):
    name: ClassVar[str] = "together"
    title: ClassVar[str] = "Descent along exact averages"
    source: ClassVar[str] = "a test"

    step_size: float = 0.5

    def init(self, node: Node, w: Array) -> State:
        return State(w)

    def step(self, s: State, node: Node) -> State:
        noisy = node.release(node.gradient(s.w))
        both = node.average(np.hstack([noisy, s.w]))
        d = s.w.shape[1]
        return State(both[:, d:] - self.step_size * both[:, :d])

    def iterate(self, s: State) -> Array:
        return s.w
'''


@pytest.fixture
def together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A plugin of its own, installed here and in every process that is started from here."""
    home = tmp_path / "site"
    (home / "together-1.0.dist-info").mkdir(parents=True)
    (home / "together.py").write_text(METHOD, "utf-8")
    about = home / "together-1.0.dist-info"
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: together\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[tacenda.algorithms]\ntogether = together:Together\n")
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(registry, "ALGORITHMS", dict(registry.ALGORITHMS))
    yield registry.with_code({"name": "together", "step_size": 0.5})
    sys.modules.pop("together", None)


def test_the_rows_of_a_tree_are_known_before(together: dict[str, Any]) -> None:
    plan = make_plan(small_contract(5, rounds=2, algorithm=together))
    row = Form(2 * plan.spec.facts.dim, np.dtype(float))
    assert row_forms(plan.spec) == {(t, c): row for t in (1, 2) for c in (2, 3)}


@pytest.mark.parametrize("graph", ["ring", pytest.param("star", marks=pytest.mark.slow)])
def test_peers_have_one_model_and_the_simulators_bits(
    tmp_path: Path, together: dict[str, Any], graph: str
) -> None:
    contract = small_contract(5, rounds=6, graph=graph, algorithm=together)
    crowd = Crowd(tmp_path / "crowd", contract, seed=5)
    crowd.start()
    found = crowd.finish()
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    np.testing.assert_array_equal(found, simulated(crowd.stage, seed=5))
    sent = sum(result.messages for result in crowd.stage.results().values())
    assert sent == 6 * 2 * (5 - 1)


@pytest.mark.slow
def test_an_exact_end_of_any_algorithm(tmp_path: Path) -> None:
    """Closing averages of a method that only knows its neighbours."""
    contract = small_contract(5, rounds=4, finish_mixing="exact")
    crowd = Crowd(tmp_path / "crowd", contract, seed=5)
    crowd.start()
    found = crowd.finish()
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    np.testing.assert_allclose(found, simulated(crowd.stage, seed=5), rtol=0, atol=1e-12)
    for name, result in crowd.stage.results().items():
        assert result.settings["finish_mixing"] == "exact", name
    sent = sum(result.messages for result in crowd.stage.results().values())
    assert sent == 4 * 2 * 5 + 2 * (5 - 1)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["masked", "independent"])
def test_whitened_descent_through_a_kill(tmp_path: Path, noise: str) -> None:
    """Rows of the second moment's length go along the tree first, then those of gradients."""
    contract = small_contract(
        4,
        rounds=40,
        algorithm={"name": "treegd", "noise": noise},
        prepare={"name": "whitening", "share": 0.2},
        privacy={"epsilon": 5.0, "delta": 1e-5, **({"coalition": 1} if noise == "masked" else {})},
    )
    crowd = Crowd(tmp_path / "crowd", contract, seed=5)
    try:
        crowd.start()
        crowd.until("m1", "round one done")
        crowd.kill("m1")
        crowd.start("m1")
        found = crowd.finish()
    finally:
        crowd.stop()
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    np.testing.assert_array_equal(found, simulated(crowd.stage, seed=5))


@pytest.mark.slow
def test_kills_change_no_bit(tmp_path: Path, together: dict[str, Any]) -> None:
    """The root, a node between and a leaf of a path's tree are killed, one after the other."""
    contract = small_contract(5, rounds=300, graph="path", algorithm=together)
    topology = topology_of(contract)
    tree = spanning_tree(topology)
    assert [tree.root, tree.depth] == [2, 2]
    crowd = Crowd(tmp_path / "crowd", contract, seed=5)
    try:
        crowd.start()
        for name in ("m2", "m1", "m4"):
            crowd.until(name, "round one done")
            crowd.kill(name)
            crowd.start(name)
        found = crowd.finish()
    finally:
        crowd.stop()
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    np.testing.assert_array_equal(found, simulated(crowd.stage, seed=5))
    for name, result in crowd.stage.results().items():
        assert result.privacy is not None
        assert sum(count for _, count in result.privacy.ledger(0)) == 300, name


@pytest.mark.slow
def test_a_new_tree_without_the_root_and_with_it_again(
    tmp_path: Path, together: dict[str, Any]
) -> None:
    """Ring of five: the root of its tree is killed, the path of four goes on with another root; it
    comes back, and all five end with one model. Nobody spends more than agreed."""
    contract = small_contract(
        5, rounds=1000, algorithm=together, absence={"policy": "continue", "limit_seconds": 4.0}
    )
    lost = str(topology_of(contract).labels[spanning_tree(topology_of(contract)).root])
    crowd = Crowd(tmp_path / "crowd", contract)
    try:
        crowd.start()
        crowd.until(lost, "round one done")
        crowd.kill(lost)
        for other in sorted(set(crowd.names) - {lost}):
            crowd.until(other, "membership changed")
        crowd.start(lost)
        crowd.until(lost, "membership changed")
        found = crowd.finish(900)
    finally:
        crowd.stop()
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    for result in crowd.stage.results().values():
        assert result.privacy is not None and result.privacy.epsilon <= 5.0 * (1 + 1e-9)


def test_a_root_that_hands_down_two_results_is_named_by_all(
    tmp_path: Path, together: dict[str, Any]
) -> None:
    """Ring of five: the root tells its two children different means. Rows go along the tree, in
    which the root stands between them; digests go along every edge."""
    contract = small_contract(5, rounds=400, algorithm=together)
    tree = spanning_tree(topology_of(contract))
    assert (tree.root, tree.parent.tolist()) == (0, [-1, 0, 1, 4, 0])
    honest = ["m1", "m2", "m3", "m4"]
    crowd = Crowd(tmp_path / "crowd", contract)
    try:
        crowd.start(*honest)
        crowd.start_false("m0", {"m1": 5.0, "m4": -5.0})
        codes = crowd.wait(120, honest)
        for name in honest:
            assert codes[name] == 2, crowd.output(name)
            said = "MemberCaught: m0 has signed two different messages for round"
            assert said in crowd.output(name)
    finally:
        crowd.stop()


def test_a_branch_beyond_the_radius_is_refused_by_name(
    tmp_path: Path, together: dict[str, Any]
) -> None:
    crowd = Crowd(
        tmp_path / "crowd", small_contract(3, rounds=200, graph="path", algorithm=together)
    )
    try:
        crowd.start("m0", "m1")
        crowd.start_false("m2", {"m1": 2e9})
        codes = crowd.wait(90, ["m1"])
        assert codes["m1"] == 2, crowd.output("m1")
        assert "MemberCaught: m2 has signed rows with values beyond" in crowd.output("m1")
    finally:
        crowd.stop()
