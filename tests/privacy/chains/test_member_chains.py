"""The chain of a run that loses a member, with and without it when it comes back: what one unit
really loses to all that came out, in every view, against what its member's ledger has booked."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import tacenda as tc
from chain_loss import Lost, masked_mu, true_epsilon
from chain_members import Place, Release, World, listening
from node_stage import small_contract
from tacenda.privacy.accounting.events import MaskedSum, event_from_dict
from tacenda.privacy.accounting.judge import judge
from tacenda_node.peer.run_plan import RunPlan, make_plan

ROUNDS, LOST, BESIDE, OTHERS, FEATURES = 5, "m3", "m2", ("m1", "m5"), 2
DELTA, EPSILON = 1e-5, 2.0
METHODS: dict[str, dict[str, Any]] = {
    "dpdda": {"name": "dpdda"},
    "treegd": {"name": "treegd"},
    "ipadmm": {"name": "ipadmm", "penalty": 0.1, "inner_steps": 2},
}
UNITS: dict[str, dict[str, Any]] = {
    "record": {},
    "person": {"adjacency": "add-remove", "records_per_person": 3},
}


Script = Callable[[World], None]


def leaves(heard: int) -> Script:
    """One member is lost in round 2 and stays away. heard: how many others get its last row."""

    def script(world: World) -> None:
        world.go(ROUNDS, LOST, (2, heard))
        world.regroup(1, {LOST}, again=True)

    return script


def returns(heard: int, rounds: int, lost_disk: bool) -> Script:
    """The same member comes back after so many rounds, with its state or without."""

    def script(world: World) -> None:
        leaves(heard)(world)
        world.go(1 + rounds)
        world.begin(LOST, lost_disk=lost_disk)
        world.regroup(2, set(), again=False)

    return script


def loses_three(lost_disk: bool) -> Script:
    """Round 2 is made three times for others' sake, then this one is lost and back at once."""

    def script(world: World) -> None:
        gone: set[str] = set()
        for view, other in enumerate(OTHERS, start=1):
            world.go(ROUNDS, other, (2, 0))
            gone.add(other)
            world.regroup(view, gone, again=True)
        world.go(ROUNDS, LOST, (3, 1))
        world.regroup(3, {*gone, LOST}, again=True)
        world.begin(LOST, lost_disk=lost_disk)
        world.regroup(4, gone, again=False)

    return script


def changes_places(lost_disk: bool) -> Script:
    """One comes back while another is lost, so that the round is made once more with it."""

    def script(world: World) -> None:
        world.go(ROUNDS, LOST, (2, 1))
        world.regroup(1, {LOST}, again=True)
        world.go(ROUNDS, OTHERS[0], (3, 0))
        world.begin(LOST, lost_disk=lost_disk)
        world.regroup(2, {OTHERS[0]}, again=True)

    return script


def stays(world: World) -> None:
    """One is there only after round 1, with an empty state, and stays while two others are lost."""
    world.go(ROUNDS, LOST, (1, 0))
    world.regroup(1, {LOST}, again=True)
    world.begin(LOST, lost_disk=True)
    world.regroup(2, set(), again=False)
    gone: set[str] = set()
    for view, (other, turn) in enumerate(zip(OTHERS, (3, 4), strict=True), start=3):
        world.go(turn, other, (turn, 0))
        gone.add(other)
        world.regroup(view, gone, again=True)


SCRIPTS = {
    "comes late, and stays while others are lost": stays,
    "leaves before its row is sent": leaves(0),
    "leaves when its row is sent": leaves(6),
    **{
        f"returns {how} its state after {rounds} rounds": returns(1 + rounds, rounds, how != "with")
        for how in ("with", "without")
        for rounds in (0, 2)
    },
    **{
        f"{what}, {how} its state": script(how != "with")
        for how in ("with", "without")
        for what, script in {
            "after others were lost": loses_three, "while another is lost": changes_places
        }.items()
    },
}  # fmt: skip


@lru_cache
def plan_of(method: str, unit: str) -> RunPlan:
    """Seven members, all neighbours of all, three of whom may be lost."""
    terms = {"epsilon": EPSILON, "delta": DELTA, **UNITS[unit]}
    if method == "treegd":
        terms["coalition"] = 1
    problem = {
        "n_features": FEATURES, "classes": ["no", "yes"], "strength": 0.01, "clip_norm": 2.0**-5,
    }  # fmt: skip
    plan = make_plan(
        small_contract(
            7, ROUNDS, FEATURES, "complete", algorithm=METHODS[method], privacy=terms,
            problem=problem, absence={"policy": "continue", "losses": 3},
        )
    )  # fmt: skip
    assert plan.on_lattice
    return plan


def problem_of(plan: RunPlan, name: str, present: int, label: str) -> tc.Problem:
    """A member's problem: rows of zeros, and `present` records that all pull one way."""
    k, at = plan.spec.facts.constants, plan.contract.position(name)
    size = int(plan.spec.facts.sizes[at])
    most = plan.spec.facts.records_per_person
    x = np.zeros((size - most + present, FEATURES))
    x[size - most :, 0] = 0.9
    y = ["no"] * (size - most) + [label] * present
    persons = [f"{j}" for j in range(size - most)] + ["the person"] * present
    return tc.Problem(
        [(x, np.array(y))], classes=("no", "yes"), loss=k.loss, data_norm=k.data_norm,
        strength=k.strength, clip_norm=k.clip_norm, public_sizes=[size], persons=[persons],
        records_per_person=most,
    )  # fmt: skip


def played(
    folder: Path, plan: RunPlan, unit: str, script: Script, heard: dict[Place, Release] | None
) -> tuple[World, bytes]:
    """A world after its run, and all that is public of it; the second one hears the first."""
    most, replaced = plan.spec.facts.records_per_person, plan.spec.facts.adjacency == "replace-one"

    def problem(name: str) -> tc.Problem:
        if name != unit or heard is None:
            return problem_of(plan, name, most, "no")
        return problem_of(plan, name, most if replaced else 0, "yes")

    worlds: list[World] = []
    with listening(lambda: worlds[0]):
        world = World(folder, plan, problem, heard)
        worlds.append(world)
        script(world)
        world.go(ROUNDS)
        models = [world.peers[name].models().tobytes() for name in sorted(world.peers)]
        world.close()
    return world, b"".join(models)


def lost_by(
    unit: str, one: dict[Any, Release], two: dict[Any, Release], masked: bool
) -> list[float]:
    """mu of every release of the unit's member, in all its lives and views."""
    found = []
    for place, a in one.items():
        name, _, view, _, _ = place
        b = two[place]
        assert a.scale == b.scale, "noise knows nothing of the records"
        if name != unit:
            assert np.array_equal(a.secret, b.secret)
            continue
        moved = a.secret - b.secret
        mu = float(np.linalg.norm(moved)) / a.scale
        if masked:  # the worst coalition of one among those who take part in this view
            there = sorted({p[0] for p in one if p[2] == view})
            rows = np.zeros((len(there), moved.shape[1]))
            rows[there.index(name)] = moved
            graph, at = nx.complete_graph(len(there)), (there.index(name),)
            mu = masked_mu(rows, a.scale, at, graph, 1)
        found.append(mu)
    return found


def held(folder: Path, method: str, unit: str, whose: str, script: Script) -> None:
    """Play a run on both data sets, and hold what was lost against what is booked and said."""
    plan = plan_of(method, unit)
    first, public = played(folder / "1", plan, whose, script, None)
    other, again = played(folder / "2", plan, whose, script, first.released)
    assert public == again and first.released.keys() == other.released.keys()
    assert first.booked == other.booked, "charges know nothing of the records"
    found = lost_by(whose, first.released, other.released, method == "treegd")
    booked = [event_from_dict(event) for _, event in first.booked[whose]]
    prices = [e.mu if isinstance(e, MaskedSum) else 1 / e.noise_multiplier for e in booked]
    assert max(found) <= max(prices) * (1 + 1e-9)
    lost = true_epsilon([Lost((), "", "gaussian", mu) for mu in found], DELTA)
    said = judge([(event, 1) for event in booked], plan.spec.facts.adjacency)
    assert lost <= said.epsilon(DELTA) * (1 + 1e-9), f"{len(found)} releases, {len(booked)} booked"
    left = dict(plan.reservation(whose))
    for event in booked:
        left[event] -= 1
    assert min(left.values()) >= 0, "more is booked than was reserved"
    assert said.epsilon(DELTA) <= EPSILON * (1 + 1e-6)
    assert math.fsum(mu**2 for mu in found) >= 0.25 * math.fsum(mu**2 for mu in prices)


CASES = [
    pytest.param(method, unit, script, marks=[pytest.mark.slow] if k % 4 else [])
    for k, (script, method, unit) in enumerate(product(SCRIPTS, METHODS, UNITS), start=2)
]


@pytest.mark.parametrize(("method", "unit", "script"), CASES)
def test_a_run_that_loses_members_keeps_its_word(
    tmp_path: Path, method: str, unit: str, script: str
) -> None:
    for whose in (BESIDE, LOST):
        held(tmp_path / whose, method, unit, whose, SCRIPTS[script])
