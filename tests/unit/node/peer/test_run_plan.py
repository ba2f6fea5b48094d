"""What a node computes from the contract alone: every declaration arrives where it counts, the
graph without absent members, noise on whole numbers, and enough of it when members leave."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from node_stage import small_contract
from tacenda.errors import PrivacyError, UnsupportedError
from tacenda.graph import RandomEdges
from tacenda.privacy.accounting.events import DiscreteGaussian, Gaussian, Pure
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.secrets.discrete_charges import as_discrete, discrete_charges
from tacenda.privacy.secrets.ledger import Charge, Charges
from tacenda.privacy.secrets.noise_plan import price
from tacenda.questions.lattice import grid_for
from tacenda.runtime.places import row_forms
from tacenda.runtime.rehearsal import rehearse
from tacenda_node.identity.contract import Contract
from tacenda_node.peer.run_plan import (
    _fits_lattice,
    enough_noise,
    facts_of,
    make_plan,
    smaller_run,
    topology_of,
)

A = tc.algorithms


def test_every_declaration_arrives() -> None:
    contract = small_contract(
        3,
        rounds=4,
        features=5,
        problem={
            "loss": "huber",
            "regulariser": "elastic-net",
            "strength": 0.02,
            "loss_scale": 1.5,
            "data_norm": 2.5,
            "clip_norm": 0.75,
            "radius": 123.0,
            "n_features": 5,
        },
        privacy={"epsilon": 3.0, "delta": 1e-4, "adjacency": "add-remove"},
        solver_tolerance=1e-6,
        output="last",
        finish_mixing=7,
        mixing="max-degree",
    )
    facts = facts_of(contract)
    k = facts.constants
    assert (k.loss.name, k.regulariser.name) == ("huber", "elastic-net")
    assert (k.strength, k.loss_scale, k.data_norm, k.clip_norm) == (0.02, 1.5, 2.5, 0.75)
    assert (k.radius, k.n_outputs, facts.dim) == (123.0, 1, 5)
    assert facts.sizes.tolist() == [60.0, 70.0, 80.0]
    assert (facts.adjacency, facts.tolerance) == ("add-remove", 1e-6)
    plan = make_plan(contract)
    spec = plan.spec
    assert (spec.rounds, spec.method.output, spec.method.finish_mixing, spec.method.mixing) == (
        4,
        "last",
        7,
        "max-degree",
    )
    assert (spec.privacy.epsilon, spec.privacy.delta) == (3.0, 1e-4)
    assert spec.privacy.adjacency == "add-remove" and spec.privacy.coalition is None
    assert plan.spec.algorithm.inner_steps == 2 and plan.on_lattice
    varying = small_contract(
        algorithm={"name": "dpdda"}, mixing={"edges": "random", "active": 0.9, "seed": 1}
    )
    assert make_plan(varying).spec.method.mixing == RandomEdges(0.9, seed=1)
    assert Contract.build(varying.to_plain()).run_id() == varying.run_id()
    classes = small_contract(
        problem={"loss": "multinomial", "n_features": 4, "classes": ["a", "b", "c"]}
    )
    assert facts_of(classes).dim == 12 and facts_of(classes).constants.n_outputs == 3


def test_the_graph_without_absent_members() -> None:
    """In the contract's order, edges and all, by names."""
    contract = small_contract(6, graph="complete")
    for gone in (frozenset(), frozenset({"m1"}), frozenset({"m0", "m4"})):
        topology = topology_of(contract, gone)
        names = [name for name in contract.names if name not in gone]
        assert list(topology.labels) == names
        found = {
            tuple(sorted((names[a], names[b]))) for a, b in np.asarray(topology.edges).tolist()
        }
        assert found == {tuple(sorted(pair)) for pair in itertools.combinations(names, 2)}
    backwards = small_contract(3, edges=[["m2", "m1"], ["m1", "m0"]])
    assert np.asarray(topology_of(backwards).edges).tolist() == [[0, 1], [1, 2]]
    assert topology_of(backwards).name == "test"


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
@pytest.mark.parametrize(
    "algorithm",
    [
        {"name": "ipadmm", "inner_steps": 3},
        {"name": "cdpadmm", "variance_decay": 0.9},
        {"name": "dpdda"},
    ],
)
def test_noise_on_whole_numbers_costs_every_member_what_the_contract_says(
    algorithm: dict[str, Any], delta: float
) -> None:
    """Judged as what it is, for every member by itself, and in proportion to the ideal plan."""
    contract = small_contract(
        4,
        rounds=6,
        edges=[["m0", "m1"], ["m1", "m2"], ["m2", "m3"], ["m1", "m3"]],
        algorithm=algorithm,
        privacy={"epsilon": 2.0, "delta": delta},
    )
    plan = make_plan(contract)
    assert plan.on_lattice
    steps = 3 if algorithm["name"] == "ipadmm" else 1
    for name in contract.names:
        events = plan.events(name)
        assert {type(event) for event, _ in events} == {DiscreteGaussian}
        assert sum(count for _, count in events) == 6 * steps
        assert judge(events, "replace-one").epsilon(delta) == pytest.approx(2.0, rel=2e-4)
        me = np.array([contract.position(name)])
        scaled = plan.calibration.plan.rows(me)
        made = [
            price(scaled, site)[0].parameters["noise_multiplier"][0]
            for site, count in rehearse(plan.spec, me)
            for _ in range(count)
        ]
        reserved = [event.noise_multiplier for event, count in events for _ in range(count)]
        np.testing.assert_allclose(made, reserved, rtol=1e-9)


@pytest.mark.parametrize(
    ("algorithm", "grows"),
    [
        ({"name": "cdpadmm", "penalty": 0.3, "variance_decay": 0.9}, True),
        ({"name": "ddpadmm", "penalty": 0.3}, True),
        ({"name": "ipadmm", "penalty": 0.3, "inner_steps": 2}, False),
        ({"name": "dpdda"}, False),
    ],
)
def test_where_members_leave_no_release_costs_more_and_none_more_than_needed(
    algorithm: dict[str, Any], grows: bool
) -> None:
    """A smaller degree makes a step of linearised ADMM more sensitive. Where its noise follows the
    sensitivity it grows by itself; where the paper shapes it, by just what is needed."""
    contract = small_contract(5, graph="complete", rounds=3, algorithm=algorithm)
    plan = make_plan(contract)
    topology = topology_of(contract, frozenset({"m1", "m3"}))
    small = smaller_run(plan, topology)
    assert small.facts.sizes.tolist() == [60.0, 80.0, 100.0] and small.topology is topology
    for name in topology.labels:
        me, here = contract.position(str(name)), topology.position(str(name))
        before = plan.calibration.plan.rows(np.array([me]))
        after = enough_noise(plan, before, topology, here, me)
        grown = float(after.scale[0] / before.scale[0])
        made = [
            price(after, site)[0].parameters["noise_multiplier"][0]
            for site, count in rehearse(small, np.array([here]))
            for _ in range(count)
        ]
        reserved = [
            event.noise_multiplier for event, count in plan.events(str(name)) for _ in range(count)
        ]
        ratio = np.array(made) / np.array(reserved)
        assert np.all(ratio >= 1 - 1e-12) and ratio.min() == pytest.approx(1.0, rel=1e-9)
        assert grown > 1.1 if grows else grown == 1.0


@pytest.mark.parametrize("name", ["dvp", "madmm", "radmm"])
@pytest.mark.parametrize("noise", ["gaussian", "l2-laplace"])
def test_where_members_leave_no_objective_costs_more(name: str, noise: str) -> None:
    """A smaller degree makes a local objective less convex."""
    contract = small_contract(
        5,
        graph="complete",
        rounds=3,
        algorithm={"name": name, "noise": noise, "penalty": 2.0},
        privacy={"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True},
    )
    plan = make_plan(contract)
    topology = topology_of(contract, frozenset({"m1", "m3"}))
    small = smaller_run(plan, topology)
    for label in topology.labels:
        me, here = contract.position(str(label)), topology.position(str(label))
        before = plan.calibration.plan.rows(np.array([me]))
        after = enough_noise(plan, before, topology, here, me)
        assert after.scale == before.scale
        made = Charges((price(after, s)[0], n) for s, n in rehearse(small, np.array([here])))
        kept = plan.calibration.reserved.rows(np.array([me]))
        assert len(made) == len(kept) == 3
        assert all(a.covered_by(b) for a, b in zip(made.each(), kept.each(), strict=True))


def test_what_cannot_be_drawn_on_whole_numbers_needs_the_contracts_word() -> None:
    sampled = {"name": "ipadmm", "batch_size": 5}
    for algorithm in (
        sampled,
        {"name": "pvp"},
        {"name": "dvp"},
        {"name": "gossipgd", "noise": "independent", "batch_size": 5},
    ):
        with pytest.raises(PrivacyError, match=r"privacy\.floating_point_noise"):
            make_plan(small_contract(algorithm=algorithm))
    accepted = {"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True}
    plan = make_plan(small_contract(algorithm={"name": "dvp"}, privacy=accepted))
    assert not plan.on_lattice
    seeded = small_contract(rehearsal_seed=3)
    assert not make_plan(seeded).on_lattice  # a rehearsal's noise is seeded
    exact = {"name": "gossipgd", "noise": "independent"}
    assert make_plan(small_contract(algorithm=exact)).on_lattice
    with pytest.raises((PrivacyError, UnsupportedError), match="unreleased|sound form"):
        make_plan(small_contract(algorithm={"name": "pvp", "centre": "hidden"}))


@dataclass(frozen=True)
class Hoards(A.DPDDA):
    """Keeps an unreleased value in its state, and says nothing of it."""

    def step(self, s: Any, node: Any) -> Any:
        after = super().step(s, node)
        return type(after)(node.gradient(after.z, regularised=False), after.z)


@dataclass(frozen=True)
class Admits(A.DPDDA):
    """Says that it keeps a secret."""

    @property
    def traits(self) -> A.Traits:
        return replace(super().traits, keeps_secret=True)


@pytest.mark.parametrize("kind", [Hoards, Admits])
def test_an_unreleased_value_in_the_state_is_refused_said_or_found(kind: Any) -> None:
    spec = make_plan(small_contract(algorithm={"name": "dpdda"})).spec.changed(algorithm=kind())
    with pytest.raises(PrivacyError, match="keeps an unreleased"):
        _fits_lattice(spec)
    assert _fits_lattice(spec.changed(algorithm=A.DPDDA()))


def test_the_coalition_of_a_plan_is_the_contracts() -> None:
    terms = {"epsilon": 5.0, "delta": 1e-5, "floating_point_noise": True, "coalition": 2}
    shared = {"name": "gossipgd", "correlation": 3.0}
    plan = make_plan(small_contract(5, graph="complete", algorithm=shared, privacy=terms))
    assert plan.coalition == 2 and not plan.on_lattice


@pytest.mark.parametrize(
    ("algorithm", "calls"),
    [
        ({"name": "ipadmm", "inner_steps": 3}, 1),
        ({"name": "gossipgd", "noise": "independent", "mixings": 3}, 3),
        ({"name": "dpdda"}, 1),
    ],
)
def test_rows_are_sent_in_as_many_calls_as_there_are_exchanges(
    algorithm: dict[str, Any], calls: int
) -> None:
    spec = make_plan(small_contract(algorithm=algorithm)).spec
    found = {call for _, call in row_forms(spec)}
    assert len(found) == calls


def test_only_gaussian_charges_go_onto_the_lattice() -> None:
    charge = Charge(Gaussian, {"noise_multiplier": np.array([2.0, 3.0])})
    made = as_discrete(charge)
    assert made.kind is DiscreteGaussian
    assert made.parameters["noise_multiplier"].tolist() == [2.0, 3.0]
    assert next(iter(discrete_charges(Charges([(charge, 4)]))))[1] == 4
    with pytest.raises(PrivacyError, match="not on the integer lattice"):
        as_discrete(Charge(Pure, {"epsilon": np.array([1.0])}))


def test_the_grid_follows_the_noise_and_the_clipping() -> None:
    """2^26 to 2^27 steps within one standard deviation of the sum of the gradients."""
    for clip, z, adjacency in itertools.product(
        (None, 0.3), (0.7, 5.0), ("replace-one", "add-remove")
    ):
        contract = small_contract(
            problem={
                "n_features": 4,
                "classes": ["no", "yes"],
                "clip_norm": clip,
                "loss_scale": 3.0,
            },
            privacy={"epsilon": 5.0, "delta": 1e-5, "adjacency": adjacency},
        )
        moved = (2.0 if adjacency == "replace-one" else 1.0) * (1.0 if clip is None else clip)
        grid = grid_for(z, facts_of(contract))
        assert math.log2(grid) == round(math.log2(grid))
        assert 2.0**26 <= z * moved / grid < 2.0**27


def test_the_graph_of_those_who_are_left_keeps_their_order_and_edges() -> None:
    """Down to one member, who has no edge at all."""
    contract = small_contract(4)
    names = contract.names
    whole = topology_of(contract)
    assert [str(v) for v in whole.labels] == list(names)
    for gone in (set(), {names[1]}, set(names[1:])):
        found = topology_of(contract, frozenset(gone))
        left = [name for name in names if name not in gone]
        assert [str(v) for v in found.labels] == left
        expected = {
            tuple(sorted((left.index(a), left.index(b))))
            for a, b in contract.edges
            if a in left and b in left
        }
        assert {tuple(edge) for edge in found.edges.tolist()} == expected
        assert found.edges.shape == (len(expected), 2)
        assert np.issubdtype(found.edges.dtype, np.integer)
        assert np.issubdtype(found.indices.dtype, np.integer)
