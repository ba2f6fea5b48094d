"""The chain of a real node: whole numbers, noise from its secret key, the node's own ledger. What
is drawn is read off the sampler itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from chain_loss import Lost, true_epsilon
from node_stage import small_contract
from tacenda.privacy.accounting.events import DiscreteGaussian, Event, MaskedSum
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.noise import keyed
from tacenda.privacy.noise.key_chain import KeyChain
from tacenda.privacy.noise.keyed import KeyedNoise
from tacenda.privacy.secrets.bounded import open_parts
from tacenda.questions.lattice import grid_for
from tacenda.runtime.assemble import Records, ask, open_door, shared_noise
from tacenda.runtime.host import Seat
from tacenda_node.peer.run_plan import RunPlan, make_plan
from tacenda_node.state.charges import NodeLedger

ROUNDS, ME, FEATURES = 3, 1, 2
CLIP = 2.0**-5
ADD_REMOVE = {"adjacency": "add-remove"}


@contextmanager
def sampled() -> Iterator[list[float]]:
    """The scales of all discrete Gaussians that are drawn inside the `with`."""
    found: list[float] = []
    honest = keyed.discrete_gaussian

    def spy(scale: float, size: Any, stream: Any) -> Any:
        found.append(float(scale))
        return honest(scale, size, stream)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "discrete_gaussian", spy)
        yield found


def contract_of(algorithm: dict[str, Any], privacy: dict[str, Any], groups: int = 1) -> Any:
    """Of three members in a ring, or of three for each group, all neighbours of all."""
    problem = {
        "n_features": FEATURES, "classes": ["no", "yes"], "strength": 0.01, "clip_norm": CLIP,
    }  # fmt: skip
    return small_contract(
        3 * groups, ROUNDS, FEATURES, algorithm=algorithm, problem=problem, groups=groups,
        graph="complete" if groups > 1 else "ring",
        privacy={"epsilon": 2.0, "delta": 1e-5, **privacy},
    )  # fmt: skip


def records_of(plan: RunPlan, present: int, label: str) -> tc.Problem:
    """One member's problem: rows of zeros, and `present` records that all pull one way."""
    size = int(plan.spec.facts.sizes[ME])
    most = plan.spec.facts.records_per_person
    x = np.zeros((size - most + present, FEATURES))
    x[size - most :, 0] = 0.9
    y = ["no"] * (size - most) + [label] * present
    persons = [f"{k}" for k in range(size - most)] + ["the person"] * present
    k = plan.spec.facts.constants
    return tc.Problem(
        [(x, np.array(y))], classes=("no", "yes"), loss=k.loss, data_norm=k.data_norm,
        strength=k.strength, clip_norm=k.clip_norm, public_sizes=[size], persons=[persons],
        records_per_person=most,
    )  # fmt: skip


def releases(
    plan: RunPlan, problem: tc.Problem
) -> tuple[list[np.ndarray], list[float], list[Event]]:
    """(whole numbers, scales in steps, what the node's own ledger books) of all releases of a run
    at member ME: the question, the door and the ledger as a peer puts them together."""
    at = np.array([ME])
    masked = plan.spec.algorithm.traits.masks
    noise = KeyedNoise(KeyChain.begin(bytes(32)), "run", floating_point=False, masked=masked)
    noise.share(lambda k: KeyChain.begin(bytes([k]) * 32), "run/all")
    mine, booked = plan.calibration.reserved.rows(at), []
    ledger = NodeLedger(
        mine, plan.releases, plan.on_lattice,
        lambda turn, call, event, asked: booked.append(event), plan.booked.rows(at),
    )  # fmt: skip
    seat = Seat(plan.spec, at, plan.calibration.plan.rows(at))
    records = Records(problem.store, problem.sizes, np.array([0]), noise)
    grid = None
    if plan.calibration.plan.grid is None:
        z = max(float(c.parameters["noise_multiplier"][0]) for c, _ in mine)
        grid = grid_for(z, plan.spec.facts.rows(at))
    questions = ask(seat, records, grid=grid)
    door = open_door(seat, records, ledger, shared_noise(plan.spec, plan.spec.topology, at))
    whole = []
    with sampled() as scales:
        for turn, count in enumerate(plan.releases, start=1):
            for call in range(count):
                w = np.full((1, FEATURES), 0.01 * turn)
                value = questions.gradient(w, turn, 10 * call, None, False, False)
                if masked:
                    value = value / plan.spec.facts.worst_gradient_sensitivity
                    door.release_masked(value, turn, 10 * call + 1, 1.0)
                else:
                    door.release(value, turn, 10 * call + 1, "gaussian", None)
                whole.append(open_parts(value)[0].astype(float))
    return whole, scales, booked


@pytest.mark.parametrize(
    "privacy",
    [{}, ADD_REMOVE, {**ADD_REMOVE, "records_per_person": 3}],
    ids=["record, replace-one", "record, add-remove", "person of 3"],
)
@pytest.mark.parametrize(("name", "groups"), [("dpdda", 1), ("treegd", 1), ("treegd", 3)])
def test_the_chain_of_a_real_node_keeps_its_word(
    name: str, groups: int, privacy: dict[str, Any]
) -> None:
    """In groups of three as in a ring of three: a curious member leaves two in the sum."""
    masked = name == "treegd"
    terms = {**privacy, **({"coalition": 1} if masked else {})}
    plan = make_plan(contract_of({"name": name}, terms, groups))
    assert plan.on_lattice
    most = plan.spec.facts.records_per_person
    replaced = plan.spec.facts.adjacency == "replace-one"
    one, scales, booked = releases(plan, records_of(plan, most, "no"))
    two, again, others = releases(plan, records_of(plan, most if replaced else 0, "yes"))
    assert scales == again and booked == others, "noise and charges know nothing of the records"
    assert len(booked) == len(one) == sum(plan.releases)
    members = 2 if masked else 1
    lost = []
    for a, b, scale, event in zip(one, two, scales, booked, strict=True):
        mu = float(np.linalg.norm(a - b)) / (scale * math.sqrt(members))
        assert isinstance(event, MaskedSum if masked else DiscreteGaussian)
        charged = event.mu if isinstance(event, MaskedSum) else 1 / event.noise_multiplier
        assert mu <= charged
        assert mu == pytest.approx(charged, rel=1e-5), "these records are the worst"
        lost.append(Lost((), "", "gaussian", mu))
    said = judge([(event, 1) for event in booked], plan.spec.facts.adjacency)
    epsilon = true_epsilon(lost, 1e-5)
    assert epsilon <= said.epsilon(1e-5) <= 2.0 * (1 + 1e-6)
    # Discrete noise outside masks is judged by zero-concentrated privacy: a little more is said
    assert said.epsilon(1e-5) <= epsilon * (1.00001 if masked else 1.25)
