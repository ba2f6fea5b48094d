"""What every node computes from the contract alone, before any data is read: graph, algorithm,
facts, noise, reservation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tacenda import losses, regularisers
from tacenda._types import Array
from tacenda.algorithms.registry import code_of, from_plain, prepared
from tacenda.algorithms.tabled import Tabled
from tacenda.algorithms.taken import Taken
from tacenda.algorithms.whitened import Whitened
from tacenda.errors import PrivacyError
from tacenda.graph.topology import Topology
from tacenda.privacy.accounting.events import Event, ObjectiveGaussian, ObjectiveLaplace, merged
from tacenda.privacy.lasting.units import Unit
from tacenda.privacy.secrets.bounded import Bounded
from tacenda.privacy.secrets.discrete_charges import discrete_charges, lattice_stretch
from tacenda.privacy.secrets.door import Question
from tacenda.privacy.secrets.ledger import Charge, Charges
from tacenda.privacy.secrets.mechanisms import NoiseKind
from tacenda.privacy.secrets.noise_plan import NoisePlan, ScaledPlan, price
from tacenda.privacy.settings import Privacy
from tacenda.questions.blank import BlankQueries
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts, RecordMap
from tacenda.questions.statistics import statistic_from_plain
from tacenda.runtime.budget import Calibration
from tacenda.runtime.rehearsal import Notebook, blank_host, rehearse, releases_by_round
from tacenda.runtime.spec import RunSpec
from tacenda.terms.problem import declared
from tacenda_node.identity.contract import Contract


@dataclass(frozen=True, eq=False)
class RunPlan:
    """The public half of a run, the same at every member; on_lattice: its noise is drawn on whole
    numbers; releases: how many each round makes."""

    contract: Contract
    spec: RunSpec
    calibration: Calibration
    on_lattice: bool
    releases: tuple[int, ...]

    @property
    def coalition(self) -> int:
        """How many members may combine what they know, where neighbours share noise."""
        assert self.spec.privacy is not None
        return self.spec.privacy.pooled(self.spec.algorithm.title)

    def events(self, name: str) -> list[tuple[Event, int]]:
        """Everything that this member is going to release, if nobody is lost."""
        return self.calibration.reserved.events(self.contract.position(name))

    @cached_property
    def booked(self) -> Charges:
        """What each member's lasting ledger is charged: its own releases, or where a person may be
        at several members those of the worst, who may have the same person's records."""
        return self._as_booked(self.calibration.reserved)

    @cached_property
    def spare(self) -> Charges:
        """The same for releases that are made again after a loss."""
        return self._as_booked(self.calibration.spare)

    def _as_booked(self, charges: Charges) -> Charges:
        return charges if self.contract.privacy.person[1] == 1 else charges.at_worst()

    def reservation(self, name: str) -> list[tuple[Event, int]]:
        """Everything that this member's lasting ledger sets aside before round 1."""
        place = self.contract.position(name)
        return merged([*self.booked.events(place), *self.spare.events(place)])

    @property
    def unit(self) -> Unit:
        """Who loses what the ledger is charged."""
        terms = self.contract.privacy
        return Unit(terms.records_per_person, terms.person[1])


def make_plan(contract: Contract, taken: Taken | None = None) -> RunPlan:
    """Check that the contract's parts go together, and calibrate the noise of every member. taken:
    of a contract that continues a run, what whitening takes over; noise does not depend on it."""
    topology, facts = topology_of(contract), facts_of(contract)
    named = from_plain(contract.algorithm.model_dump())
    algorithm = prepared(named, contract.preparation)
    if contract.continues is not None and isinstance(algorithm, Whitened):
        if taken is None:
            taken = Taken.stand_in(facts, algorithm.whitening, algorithm.algorithm)
        algorithm = replace(algorithm, taken=taken)
    if contract.tables is not None:
        statistic = statistic_from_plain(contract.tables)
        algorithm = Tabled(algorithm, statistic, contract.tables_share)
    code = code_of(algorithm)
    if code is not None and contract.algorithm.code is None:
        raise PrivacyError(
            f"contract field algorithm.code: {algorithm.name} is a plugin, "
            f'and all members must run the same code; after a look at it state code = "{code}".'
        )
    _check_plugins(contract, facts)
    terms = contract.privacy
    if algorithm.traits.shared_noise is not None and terms.coalition is None:
        raise PrivacyError(
            f"contract field privacy.coalition: {algorithm.title} shares noise between "
            "neighbours, so the contract must say how many curious members may combine what they "
            'know; set coalition = 1, or more, or noise = "independent", which holds against all.'
        )
    privacy = terms.promise
    method = contract.method_of(algorithm)
    losses = contract.absence.reserved_losses
    spec = RunSpec.of(method, topology, facts, privacy, losses=losses)
    if contract.continues is not None:
        _check_continues(spec)
    rehearsal = contract.rehearsal_seed is not None
    lattice = _fits_lattice(spec) and not rehearsal
    if not rehearsal and not lattice and not terms.floating_point_noise:
        raise PrivacyError(
            "contract field privacy.floating_point_noise: "
            f"{algorithm.title} as set up here needs floating-point noise, for which "
            "no clean defence against attacks on its low bits is known; accept it by name (true), "
            "or use masks (TreeGD) or full gradients with "
            "IPADMM, DDPADMM, CDPADMM, DPADMM or DPDDA, whose noise is drawn on whole numbers."
        )
    calibration = spec.calibration
    assert calibration is not None
    if lattice and not algorithm.traits.masks:  # masked sums are calibrated as what they are
        calibration = _onto_lattice(calibration, privacy, facts.members_per_person)
    return RunPlan(contract, spec, calibration, lattice, releases_by_round(spec))


def can_be_continued(contract: Contract) -> bool:
    """Whether a next run can start where all members of this one end."""
    spec = make_plan(contract).spec
    return spec.one_model and spec.algorithm.traits.uses_start


def _check_continues(spec: RunSpec) -> None:
    """All members start at one model, and the next run can start at this one's."""
    if not spec.one_model:
        raise PrivacyError(
            "contract field continues: members must end with the same model, from which the next "
            f'run starts, and with {spec.algorithm.title} they do not; set finish_mixing = "exact".'
        )
    if not spec.algorithm.traits.uses_start:
        raise PrivacyError(
            f"contract field continues: {spec.algorithm.title} does not use a start; leave it out."
        )


def _check_plugins(contract: Contract, facts: Facts) -> None:
    """The loss and the regulariser are those of this package, or have the code that is stated."""
    k = facts.constants
    parts = {
        "loss": losses.registry.code_hash(k.loss),
        "regulariser": regularisers.registry.code_hash(k.regulariser),
    }
    for part, here in parts.items():
        stated = getattr(contract.problem, f"{part}_code")
        if here is not None and stated is None:
            raise PrivacyError(
                f"contract field problem.{part}_code: {getattr(contract.problem, part)!r} is a "
                "plugin, and all members must run the same code; after a look at it state "
                f'{part}_code = "{here}".'
            )
        if here != stated:
            raise PrivacyError(
                f"contract field problem.{part}_code: {getattr(contract.problem, part)!r} has "
                f"other code here ({here or 'it is part of tacenda'}) than is stated ({stated}); "
                "install the same version of the plugin as everybody else."
            )


def topology_of(contract: Contract, without: frozenset[str] = frozenset()) -> Topology:
    """The contract's graph in the order of its members, less those who are absent."""
    labels = tuple(name for name in contract.names if name not in without)
    place = {name: k for k, name in enumerate(labels)}
    ends = [sorted((place[a], place[b])) for a, b in contract.edges if a in place and b in place]
    edges = np.array(sorted(ends), np.int64).reshape(-1, 2)
    # Without networkx, whose import takes most of a second
    return Topology.from_edges(labels, edges, contract.title)


def declared_of(contract: Contract) -> dict[str, Any]:
    """What the contract declares of the problem, as `Constants.declared` and `Problem` take it."""
    return declared(contract.problem, "contract field problem.")


def loss_of(contract: Contract) -> losses.Loss:
    """The contract's loss with its options."""
    found: losses.Loss = declared_of(contract)["loss"]
    return found


def facts_of(contract: Contract) -> Facts:
    """Sizes and constants, from declarations only."""
    p = contract.problem
    constants = Constants.declared(
        **declared_of(contract), classes=len(p.classes or ()), prefix="contract field problem."
    )
    sizes = np.array([contract.trained_size(name) for name in contract.names], float)
    found = Facts(
        sizes,
        p.n_features * constants.n_outputs,
        constants,
        contract.privacy.adjacency,
        contract.solver_tolerance,
        records_per_person=contract.privacy.person[0],
        members_per_person=contract.privacy.person[1],
    ).of_outcomes(len(p.classes or ()))
    tables = contract.tables is not None and contract.has_training
    return replace(found, one_beside=found.one_record and tables)


class _Watch(BlankQueries):
    """Blank records that notice questions without an integer answer, also when they are mapped."""

    def __init__(self, facts: Facts, full: bool = False, noticed: set[str] | None = None) -> None:
        super().__init__(facts, full)
        self._noticed = set() if noticed is None else noticed

    @property
    def only_whole_numbers(self) -> bool:
        return not self._noticed

    def mapped(self, by: RecordMap) -> _Watch:
        return _Watch(self.facts.mapped(by), self._full, self._noticed)

    def gradient(
        self, w: Array, turn: int, call: int, batch_size: int | None, one: bool, regularised: bool
    ) -> Bounded:
        if batch_size is not None:
            self._noticed.add("sample")
        return super().gradient(w, turn, call, batch_size, one, regularised)

    def argmin(self, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded) -> Bounded:
        self._noticed.add("argmin")
        return super().argmin(linear, quadratic, centre)

    def question(self, linear: Array, quadratic: Array, centre: Array | Bounded) -> Question:
        self._noticed.add("question")
        return super().question(linear, quadratic, centre)


def _fits_lattice(spec: RunSpec) -> bool:
    """Whether two rounds ask for nothing but whole-numbered values, with Gaussian noise or under
    masks."""
    everybody, two = np.arange(spec.topology.n), spec.changed(rounds=2)
    watch, notebook = _Watch(spec.facts), Notebook(spec.facts.dim, two.weights)
    host = blank_host(two, everybody, notebook, watch)
    host.step(1)
    host.step(2)
    if spec.algorithm.traits.keeps_secret or not host.can_be_saved:
        raise PrivacyError(
            f"contract field algorithm: {spec.algorithm.title} as set up here keeps an "
            "unreleased value, as its paper does; on a real node only the sound form runs."
        )
    wanted = NoiseKind.MASKED if spec.algorithm.traits.masks else NoiseKind.GAUSSIAN
    return watch.only_whole_numbers and all(site.noise == wanted for site, _ in notebook.sites)


def _onto_lattice(calibration: Calibration, privacy: Privacy, members: int = 1) -> Calibration:
    """More noise for every node, by what the discrete form's accountant needs;
    nodes alike are solved once. members: at how many of them a person may be."""
    # Of full gradients with Gaussian noise there is no other
    assert isinstance(calibration.plan, ScaledPlan)
    n = len(calibration.plan.scale)
    target, known = privacy.epsilon_of(n), {}
    stretch = np.empty(n)
    all_charges = [*calibration.reserved, *calibration.spare]
    for row in range(n):
        mu2 = sum(c.parameters["noise_multiplier"][row] ** -2.0 * count for c, count in all_charges)
        kind = (round(float(mu2), 12), float(target[row]))
        if kind not in known:
            known[kind] = lattice_stretch(
                Charges((charge, count * members) for charge, count in all_charges),
                row,
                kind[1],
                privacy.delta,
                privacy.adjacency,
            )
        stretch[row] = known[kind]
    plan = replace(calibration.plan, scale=calibration.plan.scale * stretch)

    def louder(charges: Charges) -> Charges:
        return Charges(
            (
                Charge(c.kind, {"noise_multiplier": c.parameters["noise_multiplier"] * stretch}),
                count,
            )
            for c, count in discrete_charges(charges)
        )

    return Calibration(plan, louder(calibration.reserved), louder(calibration.spare))


def smaller_run(plan: RunPlan, topology: Topology) -> RunSpec:
    """The run on a graph with fewer members, in that graph's order."""
    there = np.array([plan.contract.position(str(label)) for label in topology.labels])
    spec = plan.spec
    return replace(
        spec.changed(algorithm=spec.algorithm.at_nodes(there)),
        topology=topology,
        facts=spec.facts.rows(there),
        privacy=None if spec.privacy is None else spec.privacy.at_nodes(there),
    )


def enough_noise(plan: RunPlan, scaled: Any, topology: Topology, here: int, me: int) -> NoisePlan:
    """The member's noise in a graph with fewer members: where a smaller degree makes its releases
    more sensitive, more noise; where it makes an objective with Gaussian noise less convex, so much
    more convexity that no more is lost by its curvature than was reserved.

    `here` is its position in the smaller graph, `me` in the contract.
    """
    if plan.spec.algorithm.traits.shared_noise is not None:
        return _enough_shared_noise(plan, scaled, topology, here)
    sites = rehearse(smaller_run(plan, topology), np.array([here]))
    made = [
        price(scaled, site)[0].parameters.get("noise_multiplier", np.ones(1))[0]
        for site, n in sites
        for _ in range(n)
    ]
    kept = [
        charge.parameters.get("noise_multiplier", np.ones(plan.spec.topology.n))[me]
        for charge, n in plan.calibration.reserved
        for _ in range(n)
    ]
    if len(made) != len(kept):
        return scaled
    curved = [
        charge.parameters["curvature"][me]
        for charge, _ in plan.calibration.reserved
        if charge.kind in (ObjectiveGaussian, ObjectiveLaplace)
    ]
    if curved:
        scaled = replace(scaled, most_curvature=np.array([min(curved)]))
    return replace(
        scaled, scale=scaled.scale * max(1.0, float(np.max(np.array(kept) / np.array(made))))
    )


def _enough_shared_noise(plan: RunPlan, scaled: Any, topology: Topology, here: int) -> NoisePlan:
    """The same for noise shared by neighbours: fewer members hide each one less well, so that all
    draw more.

    One factor for all who remain, the largest sqrt(h_i now / h_i in the contract): both ends of an
    edge must draw alike, and every member computes it from the graph alone. No release then costs
    more than was reserved, and the ledger sees to it before the draw.
    """
    shares = plan.calibration.plan.leverage
    assert shares is not None
    now = smaller_run(plan, topology).leverage()[0]
    planned = shares[[plan.contract.position(str(label)) for label in topology.labels]]
    factor = max(1.0, float(np.sqrt(np.max(now / planned))))
    return replace(scaled, scale=scaled.scale * factor, leverage=now[[here]])
