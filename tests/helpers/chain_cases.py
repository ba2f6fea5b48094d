"""Chains: question -> sensitivity -> price -> charge -> draw -> ledger -> statement, each played
whole on two neighbouring problems, for every algorithm and statistic that is registered.

A case says what is varied. `play` runs it on both problems of every pair of records, works out what
the unit lost (`chain_loss`), and holds that against each charge and against the statement.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import tacenda as tc
from chain_loss import Lost, losses, true_epsilon
from chain_scenes import (
    HOUSE,
    PERSON,
    RELATIONS,
    STAR,
    UNITS,
    Family,
    Scene,
    allowed,
    family_of,
    objectives,
    problems,
)
from chain_tape import Tape, taped
from tacenda.algorithms import registry
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.whitened import Whitened
from tacenda.errors import TacendaError
from tacenda.graph.groups import grouped
from tacenda.graph.topology import Topology
from tacenda.privacy.accounting import events
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.secrets.ledger import Charge
from tacenda.privacy.secrets.mechanisms import NoiseKind
from tacenda.privacy.statement import Statement

DELTA = 1e-5
ROUNDS = 3
# Events of which no run of an algorithm makes one, and what plays their chain instead
ELSEWHERE = {
    "pure": "private bounds: `test_private_bounds_lose_no_more_than_is_said`",
    "discrete-gaussian": "real nodes' whole numbers: `test_node_chains.py`",
    "batch-gaussian": "no algorithm draws it: bounds of papers' batches, `test_batches.py`",
}
EXACT = 1e-6  # how near a claim that is exact comes to what was lost
SHARED = 5e-6  # the same of noise shared by neighbours: leverages are rounded up to six digits
CONVOLVED = 1e-3  # and where losses are convolved on a grid
TIGHT = 1 - SHARED
# Of the solver's gap: its noise is read off the last digits of models far out
ROUNDED = 1 + 1e-3
PRIVACY: dict[str, dict[str, Any]] = {
    "even": {},
    "spread 1:4:2": {"spread": [1, 4, 2]},
    "noise of the smallest": {"node_noise": "worst"},
    "epsilon by node": {"epsilon": [0.7, 3.0, 1.0, 2.0, 0.5, 1.5]},
}
PUBLISHED = "the paper's noise"
GIVEN = {"z = 3": {"noise_multiplier": 3.0}, "0.3 a round": {"round_epsilon": 0.3}}
WORDS = ("independent", "correlated", "masked", "gaussian", "l2-laplace")


@dataclass(frozen=True)
class Case:
    """One chain. blocks: in how many parts the nodes are hosted; groups: in how many sums are made;
    resumed: whether it stops after round 1 and goes on from its checkpoint; budget: a key of
    PRIVACY or GIVEN; family and graph_of: other records and another graph than the algorithm's
    own."""

    title: str
    algorithm: Algorithm
    scene: Scene = Scene()
    budget: str = "even"
    blocks: int = 1
    rounds: int = ROUNDS
    family: Family | None = None
    graph_of: nx.Graph | None = None
    groups: int = 1
    resumed: bool = False

    @property
    def name(self) -> str:
        s = self.scene
        weights = "weights" if s.weighted else "no weights"
        rows = "sparse" if s.sparse else "dense"
        where = f"node {s.at} of {self.blocks} blocks"
        return ", ".join([self.title, s.unit.name, s.relation, where, weights, rows, self.budget])

    @property
    def privacy(self) -> tc.Privacy:
        if self.budget in GIVEN:
            return replace(
                tc.Privacy.from_noise(**GIVEN[self.budget]), adjacency=self.scene.relation
            )
        if self.budget == PUBLISHED:
            return tc.Privacy(1.0, DELTA, self.scene.relation, mode="as-published")
        settings = {"epsilon": 1.0, "delta": DELTA, "coalition": 1, **PRIVACY[self.budget]}
        return tc.Privacy(adjacency=self.scene.relation, **settings)

    @property
    def graph(self) -> nx.Graph:
        if self.graph_of is not None:
            return self.graph_of
        return STAR if self.algorithm.needs.hub else HOUSE

    @property
    def seen(self) -> nx.Graph:
        """The graph on whose edges there are masks or shared noise: none between groups."""
        if self.groups == 1:
            return self.graph
        found = grouped(Topology.of(self.graph), self.groups, self.privacy.coalition or 0)
        inner = [(u, v) for u, v in self.graph.edges if found.of[u] == found.of[v]]
        left = nx.Graph(inner)
        left.add_nodes_from(self.graph)
        return left


@dataclass
class Played:
    """What a case showed. links: (question, noise, event) of each release; of_charges: what was
    lost over what was charged, the largest of any pair of records, for each release; said, lost:
    epsilons; refused: why the program would not run it."""

    case: Case
    links: list[tuple[str, str, str]] = field(default_factory=list)
    of_charges: list[float] = field(default_factory=list)
    said: float = math.nan
    lost: float = math.nan
    refused: str = ""

    @property
    def tight(self) -> bool:
        """Whether every release lost what it was charged, so that the whole must, too."""
        return bool(self.of_charges) and min(self.of_charges) >= TIGHT


# ---- what there is
def variants() -> dict[str, Algorithm]:
    """Every registered algorithm that can be private, with each noise and kind of sample that it
    takes; and the whitened ones."""
    found: dict[str, Algorithm] = {}
    for name, kind in sorted(registry.all_algorithms().items()):
        if not kind.private:
            continue
        base = registry.by_name(name)
        found[name] = base
        for changes in _changes(kind):
            made = _made(base, changes)
            if made is not None and made != base:
                words = ", ".join(f"{k}={v}" for k, v in changes.items())
                found[f"{name} {words}"] = made
    for name in ("treegd", "treegd noise=independent", "gossipgd", "cdpadmm", "dpdda"):
        found[f"whitened {name}"] = Whitened(found[name])
    found["whitened treegd, diagonal"] = Whitened(found["treegd"], tc.Whitening(kind="diagonal"))
    return found


def _changes(kind: type[Algorithm]) -> Iterator[dict[str, Any]]:
    names = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if "noise" in names:
        yield from ({"noise": word} for word in WORDS)
    if "batch_size" in names:
        few = {"inner_steps": 2} if "inner_steps" in names else {}
        yield {"batch_size": 2, **({"noise": "independent"} if "noise" in names else {}), **few}
    if "sampling" in names:
        yield {"batch_size": 1, "sampling": "one"}
    if "inner_steps" in names:
        yield {"inner_steps": 2}


def _made(base: Algorithm, changes: dict[str, Any]) -> Algorithm | None:
    try:
        return replace(base, **changes)  # type: ignore[type-var]
    except TacendaError:
        return None


def cases(full: bool = False) -> list[Case]:
    """The cases of all algorithms. By default every level of every factor is met by each of them;
    full: every combination of unit, relation, node, hosting and weights."""
    found: list[Case] = []
    for title, algorithm in variants().items():
        units = [(u, r) for u in UNITS for r in RELATIONS if allowed(u, r)]
        if full:
            rest: Any = itertools.product((1, 5), (1, 6), (False, True), PRIVACY)
            combos = [(u, *more) for u, more in itertools.product(units, list(rest))]
        else:
            budgets = [*PRIVACY]
            combos = [
                (u, (1, 5)[k % 2], (1, 6)[k // 2 % 2], k % 3 == 1, budgets[k % 4])
                for k, u in enumerate(units)
            ]
        for (unit, relation), at, blocks, weighted, budget in combos:
            # The leaf's own sizes are the fourth largest: another node decides for shared noise
            scene = Scene(unit, relation, at, weighted, sparse=weighted)
            blocks = 1 if algorithm.traits.noise_in_objective else blocks
            given = None if full else _given(algorithm)
            # Losses of samples are convolved, one by one
            rounds = ROUNDS if algorithm.traits.sample == "all" else 2
            case = Case(title, algorithm, scene, given or budget, blocks, rounds)
            found.append(case)
            if (unit, relation) == (UNITS[0], RELATIONS[0]) and not full:
                found.append(replace(case, title=f"{title}, resumed", resumed=True, blocks=1))
            if algorithm.traits.joins_groups:
                several = 2 + (len(found) // 2) % 2
                words = f"{title}, {several} groups"
                found.append(replace(case, title=words, groups=several))
    return found if full else [*found, *published()]


def published() -> list[Case]:
    """Every algorithm with the noise of its own paper, and with an iterate that the paper keeps
    hidden: the statement then says what was really lost, not what the paper claims."""
    found = []
    for name, kind in sorted(registry.all_algorithms().items()):
        if not kind.private or kind.published_noise is Algorithm.published_noise:
            continue
        base = registry.by_name(name)
        names = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
        closing = [{"closing_dvp": True}] if "closing_dvp" in names else []
        for changes in [{}, *closing]:
            words = "".join(f" {k}={v}" for k, v in changes.items())
            made: Algorithm = replace(base, **changes)  # type: ignore[type-var]
            # Its noise is in proportion to 1/strength, and is read off the closing round
            family = objectives(strength=0.05) if changes else None
            for scene in (Scene(), Scene(at=5, sparse=True)):
                title = f"{name}{words} as published"
                case = Case(title, made, scene, PUBLISHED, rounds=2, family=family)
                found.append(case)
            if "centre" in names:
                hidden = replace(made, centre="hidden")  # type: ignore[type-var]
                for scene in (Scene(PERSON, "add-remove"), Scene(at=5)):
                    case = Case(f"{name}{words} centre=hidden", hidden, scene, "0.3 a round")
                    found.append(case)
    return found


def _given(algorithm: Algorithm) -> str | None:
    """The given noise of an algorithm whose calibration needs many convolutions."""
    if algorithm.traits.sample != "all":
        return "z = 3"
    if algorithm.traits.noise_in_objective or getattr(algorithm, "noise", "") == "l2-laplace":
        return "z = 3" if getattr(algorithm, "noise", "") == "gaussian" else "0.3 a round"
    return None


def noise_name(kind: NoiseKind) -> str:
    """The name of a noise on a tape."""
    inside = {
        NoiseKind.OBJECTIVE: "objective, l2-laplace",
        NoiseKind.OBJECTIVE_GAUSSIAN: "objective, gaussian",
    }
    return inside.get(kind, kind.value)


def is_laplace(algorithm: Any) -> bool:
    """Whether its noise is l2-Laplace, whose losses are convolved."""
    inside = algorithm.traits.noise_in_objective
    return getattr(algorithm, "noise", "") == "l2-laplace" or inside


# ---- one chain
def play(case: Case) -> Played:
    """Run the chain on every pair of neighbouring problems, and check all that must hold."""
    family = family_of(case.algorithm) if case.family is None else case.family
    found, best = Played(case), []
    statement: Statement | None = None
    for pair in family.pairs:
        try:
            tapes, statement = _both(case, family, pair)
        except TacendaError as refusal:
            found.refused = str(refusal)
            return found
        each = losses(*tapes, case.scene.nodes, case.seen, case.privacy.coalition or 0)
        if case.groups > 1:
            _masks_cancel_in_groups(tapes[0], case.seen)
        lost = [one for several in each for one in several]
        charges = list(statement.charges.each())
        assert len(charges) == len(each), "as many charges as releases"
        found.links = [
            (" + ".join(one.asked), one.noise, charge.kind.kind)
            for (one, *_), charge in zip(each, charges, strict=True)
        ]
        _hold_against_charges(found, each, charges, case.scene.nodes)
        node = None if case.scene.unit.members > 1 else case.scene.at
        found.said = statement.curve(node).epsilon(DELTA)
        epsilon = true_epsilon(lost, DELTA)
        assert epsilon <= found.said * (1 + slack_of(lost)) + 1e-12, (
            f"{case.name}, {pair.name}: {epsilon} is lost and {found.said} is said"
        )
        best = lost if not best else [_larger(a, b) for a, b in zip(best, lost, strict=True)]
    found.lost = true_epsilon(best, DELTA)
    assert statement is not None
    # A person at several nodes is charged as if each sampled as often as the smallest one
    alike = case.scene.unit.members == 1 or case.algorithm.traits.sample == "all"
    if found.tight and statement.exact and alike:
        assert found.said <= found.lost * (1 + slack_of(best)), (
            f"{case.name}: {found.said} is said to be exact, and {found.lost} can be lost"
        )
    return found


def _masks_cancel_in_groups(tape: Tape, seen: nx.Graph) -> None:
    """What a coalition makes of a group's rows is their sum, and of no fewer of them."""
    for passed in tape.passed.values():
        if passed.masks is None or len(passed.nodes) < len(seen):
            continue
        for part in nx.connected_components(seen):
            rows = passed.masks[sorted(part)]
            assert not rows.sum(axis=0, dtype=np.uint64).any(), "the masks of a group do not cancel"
            assert len(part) == 1 or rows.any(axis=1).all(), "a member of a group has no mask"


def slack_of(lost: list[Lost]) -> float:
    """How exactly the loss is known."""
    if any(one.kind in ("poisson", "one", "l2-laplace") for one in lost):
        return CONVOLVED
    if any(one.noise in ("correlated", "masked") for one in lost):
        return SHARED
    return EXACT


def _larger(a: Lost, b: Lost) -> Lost:
    return a if a.size >= b.size else b


def _both(
    case: Case, family: Family, pair: Any
) -> tuple[tuple[Tape, Tape, Tape | None], Statement]:
    first, second, none, forced = problems(family, pair, case.scene)
    with taped(None, forced) as tape:
        one = _run(case, family, first)
    with taped(tape, forced) as other:
        two = _run(case, family, second)
    absent = None
    if case.algorithm.traits.sample != "all":
        with taped(tape, forced) as absent:
            _run(case, family, none)
    _same_in_public(one, two)
    statement = one.privacy
    again = Statement.from_plain(statement.to_plain())
    assert again.epsilon == statement.epsilon, "the file says something else"
    return (tape, other, absent), statement


def _run(case: Case, family: Family, problem: Any) -> Any:
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        return _simulated(case, family, problem, Path(folder))


def _simulated(case: Case, family: Family, problem: Any, folder: Path) -> Any:
    lasting: dict[str, Any] = {}
    if case.budget == "even" and not case.resumed:  # a ledger closes the run that was stopped
        lasting = {"ledger": folder / "ledger.db", "dataset": "d"}
    how: dict[str, Any] = {
        "seed": 3,
        "init": family.start,
        "blocks": case.blocks,
        "metrics": (),
        "progress": False,
        "groups": case.groups,
        # Tight sensitivities of argmins, but for objectives whose start is far out
        "solver_tolerance": 1e-11 if family.start is None else 1e-8,
        **lasting,
    }
    what = problem, case.graph, case.algorithm, case.rounds, case.privacy
    if case.resumed:
        how["checkpoint"] = folder / "checkpoint"
        tc.simulate(*what, **how, callback=lambda done, models: done == 1)
    result = tc.simulate(*what, **how, record_every=0, resume=case.resumed)
    if lasting:
        with LedgerStore(folder / "ledger.db") as store:
            spent = store.spent("d", case.scene.relation).curve.epsilon(DELTA)
        assert spent >= result.privacy.epsilon * (1 - 1e-9), "the lasting ledger holds less"
    return result


def _same_in_public(one: Any, two: Any) -> None:
    """All that leaves a run follows from its releases, which were the same."""
    np.testing.assert_array_equal(one.models, two.models)
    assert one.released.keys() == two.released.keys()
    for name, value in one.released.items():
        np.testing.assert_array_equal(value, two.released[name])
    assert one.privacy.to_plain() == two.privacy.to_plain()


def _hold_against_charges(
    found: Played, each: list[list[Lost]], charges: list[Charge], nodes: tuple[int, ...]
) -> None:
    """Each loss against the charge of its node; noise that neighbours share hides all nodes of the
    unit together, which the statement adds up."""
    ratios = []
    for k, (several, charge) in enumerate(zip(each, charges, strict=True)):
        if len(several) < len(nodes):
            continue
        for one, node in zip(several, nodes, strict=True):
            parameters = {name: float(v[node]) for name, v in charge.parameters.items()}
            ratio = _of_charge(one, charge.kind, parameters)
            exact = 1 + (1e-7 if one.noise in ("masked", "correlated") else 1e-9)
            assert ratio <= exact, (
                f"{found.case.name}: release {k + 1} of node {node} loses {ratio:.9g} times its "
                f"charge {parameters}"
            )
            ratios.append(ratio)
    before = found.of_charges or [0.0] * len(ratios)
    found.of_charges = [max(a, b) for a, b in zip(before, ratios, strict=True)]


def _of_charge(one: Lost, kind: Any, charged: dict[str, float]) -> float:
    """What was lost over what was charged."""
    if issubclass(kind, events.CorrelatedGaussian):
        assert one.kind == "gaussian"
        return one.size / charged["mu"]
    if kind is events.Gaussian:
        assert one.kind == "gaussian"
        return one.size * charged["noise_multiplier"]
    if kind is events.PoissonGaussian:
        assert one.kind == "poisson" and one.rate <= charged["rate"] * (1 + 1e-12)
        return max(one.size, *one.both) * charged["noise_multiplier"]
    if kind is events.OneOfGaussian:
        assert one.kind == "one" and one.rate <= 1 / charged["population"] * (1 + 1e-12)
        return one.size * charged["noise_multiplier"]
    if kind is events.L2Laplace:
        assert one.kind == "l2-laplace" and one.dim == charged["dim"]
        return one.size / charged["epsilon"]
    assert one.kind == "objective", f"{one.noise} is charged as {kind.kind}"
    assert one.curvature <= charged["curvature"] * (1 + 1e-6) + 1e-9
    if kind is events.ObjectiveLaplace:
        assert one.at_output <= charged["epsilon"]
        assert one.gap <= charged["gap"] * ROUNDED, (one.gap, charged)
        return one.size / charged["inner"]
    assert kind is events.ObjectiveGaussian, kind
    assert one.gap <= charged["gap_mu"] * ROUNDED, (one.gap, charged)
    return one.size * charged["noise_multiplier"]
