"""The audits attack the very run that `simulate` makes:
the same noise at every node, and the same statement."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import quickly
import support
import tacenda as tc
from tacenda.algorithms.registry import ALGORITHMS
from tacenda.auditing import attack
from tacenda.auditing.portion import run_portion
from tacenda.auditing.sampling import TrialNoise
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.runtime.spec import RunSpec

ROUNDS = 3
SIZES = [20, 180, 60, 45, 90]
GRAPHS = {"ring": tc.graph.ring(5), "star": tc.graph.star(5), "path": tc.graph.path(5)}
PRIVATE = sorted(
    name for name, kind in ALGORITHMS.items() if kind.private and not kind.needs.squared_loss
)
SETTINGS: dict[str, dict[str, Any]] = {
    "own": {},
    "worst": {"node_noise": "worst"},
    "spread": {"spread": (1.0, 2.0, 4.0)},
    "worst, spread, nobody pools": {
        "node_noise": "worst",
        "spread": (3.0, 1.0, 1.0),
        "coalition": 0,
    },
    "two pool": {"coalition": 2},
    "one target each": {"epsilon": (1.0, 2.0, 3.0, 4.0, 5.0)},
}
OWN_SHAPE = {"cdpadmm", "ddpadmm", "dpadmm"}  # these spread the noise over the rounds themselves


def noise_drawn(
    monkeypatch: pytest.MonkeyPatch, source: type
) -> dict[tuple[str, int, int], np.ndarray]:
    """(kind, round, call) -> amounts (rows,) that a source is asked for from now on."""
    asked: dict[tuple[str, int, int], np.ndarray] = {}
    gaussian, whole, laplace = source.add_gaussian, source.whole_gaussian, source.l2_laplace

    @functools.wraps(gaussian)
    def add_gaussian(self: Any, nodes: Any, turn: int, call: int, parts: Any, std: Any) -> Any:
        asked["gaussian", turn, call] = np.array(std)
        return gaussian(self, nodes, turn, call, parts, std)

    @functools.wraps(whole)
    def whole_gaussian(self: Any, nodes: Any, turn: int, call: int, scale: Any, dim: int) -> Any:
        asked["gaussian", turn, call] = np.array(scale)
        return whole(self, nodes, turn, call, scale, dim)

    @functools.wraps(laplace)
    def l2_laplace(self: Any, nodes: Any, turn: int, call: int, rate: Any, dim: int) -> Any:
        if turn <= ROUNDS:  # the coins of a one-run audit come from a round that no run reaches
            asked["laplace", turn, call] = np.array(rate)
        return laplace(self, nodes, turn, call, rate, dim)

    monkeypatch.setattr(source, "add_gaussian", add_gaussian)
    monkeypatch.setattr(source, "whole_gaussian", whole_gaussian)
    monkeypatch.setattr(source, "l2_laplace", l2_laplace)
    return asked


def plain(statement: Any) -> dict[str, Any]:
    return {k: v for k, v in statement.to_plain().items() if k != "epsilon"} | {
        "epsilon": pytest.approx(statement.epsilon)
    }


@pytest.mark.filterwarnings("ignore::tacenda.errors.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::tacenda.runtime.simulate.GraphWarning")
@pytest.mark.parametrize(
    ("name", "setting"),
    quickly.cases(
        [(name, setting) for name in PRIVATE for setting in SETTINGS],
        lambda case: (PRIVATE.index(case[0]) + list(SETTINGS).index(case[1])) % 3 == 0,
    ),
)
def test_the_audits_attack_what_simulate_runs(
    name: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, chosen = ALGORITHMS[name](), dict(SETTINGS[setting])
    if "spread" in chosen and name in OWN_SHAPE:
        chosen.pop("spread")
    privacy = tc.Privacy(**{"epsilon": 2.0, "delta": 1e-5, **chosen})
    curved = method.needs.smooth_loss or method.needs.bounded_curvature
    loss = "logistic" if curved else "hinge"
    problem = tc.Problem(support.shards(SIZES, 4), loss=loss, strength=0.1, classes=("no", "yes"))
    graph = GRAPHS["star" if method.needs.hub else ("ring", "path")[len(setting) % 2]]

    statements: list[Any] = []
    real = RunSpec.statement
    monkeypatch.setattr(
        RunSpec, "statement", lambda *a, **k: statements.append(real(*a, **k)) or statements[-1]
    )
    with monkeypatch.context() as patch:
        asked = noise_drawn(patch, SimulatedNoise)
        simulated = tc.simulate(
            problem, graph, method, ROUNDS, privacy, seed=1, record_every=0, progress=False
        )
        expected = dict(asked)
        asked.clear()
        if not method.traits.masks:  # which the audit of one run does not attack
            tc.audit_one_run(
                problem, graph, method, privacy=privacy, rounds=ROUNDS, seed=1, progress=False
            )
        once = expected if method.traits.masks else dict(asked)
    with monkeypatch.context() as patch:
        asked = noise_drawn(patch, TrialNoise)
        scene = attack._scene(
            method, privacy, ROUNDS, problem, graph, 10, None, None, None, "metropolis", 1, 1e-8, 1
        )
        run_portion(scene.script(attack.stage.candidates(problem, None, "replace-one", 1)[0]), 0, 2)
        many = dict(asked)

    assert expected and expected.keys() == once.keys() == many.keys()
    for place, amounts in expected.items():
        assert np.allclose(once[place], amounts, rtol=1e-12)
        # In every copy of the network
        assert np.allclose(many[place].reshape(-1, len(SIZES)), amounts, rtol=1e-12)
    # Of the simulation, of the one run, and of the scene of many
    assert len(statements) == (2 if method.traits.masks else 3)
    assert plain(statements[1]) == plain(simulated.privacy) == plain(scene.statement)
    assert scene.node == simulated.privacy.worst_node
