"""Masked sums on real processes: the simulator's bits, one model from the members' own keys, and a
member that leaves."""

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
from tacenda.errors import PrivacyError
from tacenda.privacy.accounting import events
from tacenda.privacy.accounting.judge import judge
from tacenda.runtime.result import load
from tacenda_node.peer.run_plan import enough_noise, make_plan, topology_of

METHOD = '''
"""w <- w - step * (masked mean of the gradients): one model for all."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.node import Node
from tacenda.algorithms.traits import Traits


@dataclass(frozen=True)
class State:
    w: Array


@dataclass(frozen=True)
class Veiled(Algorithm):
    name: ClassVar[str] = "veiled"
    title: ClassVar[str] = "Masked descent"
    source: ClassVar[str] = "a test"

    step_size: float = 0.5

    @property
    def traits(self) -> Traits:
        return replace(super().traits, masks=True)

    def init(self, node: Node, w: Array) -> State:
        return State(w)

    def step(self, s: State, node: Node) -> State:
        unit = node.facts.worst_gradient_sensitivity
        asked = node.gradient(node.average(s.w), regularised=False) / unit
        more = 4.0 if node.turn == 2 else 1.0
        return State(node.average(s.w) - self.step_size * unit * node.release_mean(
            asked, weight=more
        ))

    def iterate(self, s: State) -> Array:
        return s.w
'''
TERMS = {"epsilon": 5.0, "delta": 1e-5, "coalition": 1}


@pytest.fixture
def veiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A plugin of its own, installed here and in every process that is started from here."""
    home = tmp_path / "site"
    about = home / "veiled-1.0.dist-info"
    about.mkdir(parents=True)
    (home / "veiled.py").write_text(METHOD, "utf-8")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: veiled\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[tacenda.algorithms]\nveiled = veiled:Veiled\n")
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(registry, "ALGORITHMS", dict(registry.ALGORITHMS))
    yield registry.with_code({"name": "veiled", "step_size": 0.5})
    sys.modules.pop("veiled", None)


def test_the_plan_needs_no_floating_point_and_no_more_noise(veiled: dict[str, Any]) -> None:
    """Masks are whole numbers by themselves, calibrated to the budget as what they are."""
    plan = make_plan(small_contract(5, rounds=4, algorithm=veiled, privacy=TERMS))
    assert plan.on_lattice
    assert plan.releases == (1, 1, 1, 1)
    kinds = {charge.kind for charge, _ in plan.calibration.reserved}
    assert kinds == {events.MaskedSum}
    spent = [judge(plan.events(name)).epsilon(1e-5) for name in plan.contract.names]
    assert max(spent) == pytest.approx(5.0, rel=1e-9)
    assert max(spent) <= 5.0
    sizes = plan.spec.facts.sizes
    mu = next(iter(plan.calibration.reserved))[0].parameters["mu"]
    np.testing.assert_allclose(mu * sizes, mu[0] * sizes[0], rtol=1e-9)
    with pytest.raises(PrivacyError, match=r"privacy\.coalition"):
        make_plan(
            small_contract(5, rounds=4, algorithm=veiled, privacy={**TERMS, "coalition": None})
        )


def test_fewer_members_draw_more_and_nobody_is_charged_more(veiled: dict[str, Any]) -> None:
    plan = make_plan(small_contract(6, rounds=4, algorithm=veiled, privacy=TERMS))
    for gone in (frozenset(), frozenset({"m1"}), frozenset({"m1", "m2"})):
        smaller = topology_of(plan.contract, gone)
        scales = set()
        for name in smaller.labels:
            me, here = plan.contract.position(str(name)), smaller.position(name)
            mine = plan.calibration.plan.rows(np.array([me]))
            found = enough_noise(plan, mine, smaller, here, me) if gone else mine
            scales.add(float(found.scale[0]))
            hidden = float(np.sqrt(found.leverage[0]) / found.scale[0])
            planned = float(np.sqrt(mine.leverage[0]) / mine.scale[0])
            assert hidden <= planned * (1 + 1e-12)
            assert found.grid == mine.grid
        assert len(scales) == 1  # both ends of a sum draw alike


@pytest.mark.filterwarnings("ignore::tacenda.runtime.simulate.GraphWarning")
@pytest.mark.parametrize("graph", ["ring", pytest.param("star", marks=pytest.mark.slow)])
def test_peers_have_the_simulators_bits(tmp_path: Path, veiled: dict[str, Any], graph: str) -> None:
    contract = small_contract(5, rounds=5, graph=graph, algorithm=veiled, privacy=TERMS)
    crowd = Crowd(tmp_path / "crowd", contract, seed=5)
    crowd.start()
    found = crowd.finish()
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    np.testing.assert_array_equal(found, simulated(crowd.stage, seed=5))


def test_own_keys_give_one_model_and_an_honest_statement(
    tmp_path: Path, veiled: dict[str, Any]
) -> None:
    """No seed: noise and masks from the members' and the edges' keys. Masks that did not cancel
    would be 2^64 steps wide; a kill in between changes nothing of that."""
    contract = small_contract(4, rounds=25, algorithm=veiled, privacy={**TERMS, "epsilon": 100.0})
    crowd = Crowd(tmp_path / "crowd", contract)
    try:
        crowd.start()
        crowd.until("m2", "round one done")
        crowd.kill("m2")
        crowd.start("m2")
        found = crowd.finish()
    finally:
        crowd.stop()
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    plain = simulated(crowd.stage, seed=1)
    assert np.abs(found - plain).max() < 0.5
    for name, result in crowd.stage.results().items():
        assert result.privacy is not None
        assert sum(count for _, count in result.privacy.ledger(0)) == 25, name
        assert {event.kind for event, _ in result.privacy.ledger(0)} == {"masked-sum"}
        assert result.privacy.epsilon <= 100.0
        assert "exact discrete Gaussian" in result.privacy.noise


def test_whitened_members_find_one_map_under_their_own_keys(tmp_path: Path) -> None:
    """All ask the same questions, also of mapped records, or their masks would not cancel."""
    contract = small_contract(
        4,
        rounds=6,
        algorithm={"name": "treegd"},
        prepare={"name": "whitening"},
        privacy={**TERMS, "epsilon": 100.0},
    )
    assert make_plan(contract).releases == (2, 1, 1, 1, 1, 1)
    crowd = Crowd(tmp_path / "crowd", contract)
    crowd.start()
    found = crowd.finish()
    assert all(row.tobytes() == found[0].tobytes() for row in found)
    assert np.abs(found - simulated(crowd.stage, seed=1)).max() < 1.0
    for result in crowd.stage.results().values():
        assert result.privacy is not None
        assert result.privacy.epsilon <= 100.0
        assert result.privacy.noise.endswith("under masks from the edges' keys")


@pytest.mark.slow
def test_a_member_that_leaves_costs_nobody_more_than_agreed(
    tmp_path: Path, veiled: dict[str, Any]
) -> None:
    """The round that it leaves in is thrown away, and the others go on in a new view, with new
    masks and new noise: were it otherwise the sums would be 2^64 steps wide, or repeat."""
    contract = small_contract(
        5,
        rounds=120,
        graph="complete",
        algorithm=veiled,
        privacy={**TERMS, "epsilon": 100.0},
        absence={"policy": "continue", "limit_seconds": 4.0},
    )
    crowd = Crowd(tmp_path / "crowd", contract)
    rest = [name for name in crowd.names if name != "m3"]
    try:
        crowd.start()
        crowd.until("m3", "round one done")
        crowd.kill("m3")
        codes = crowd.wait(400, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    results = {
        name: load(crowd.folder(name) / "state" / "results" / f"veiled-{name}.safetensors")
        for name in rest
    }
    models = [results[name].models.reshape(-1) for name in rest]
    assert all(row.tobytes() == models[0].tobytes() for row in models)
    assert np.abs(models[0]).max() < 100
    for name in rest:
        assert results[name].privacy.epsilon <= 100.0 * (1 + 1e-9)
