"""Whitening's release is charged in its share to the run's ledger, and the map is made of it
alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import TUNED, problem, run_spec
from tacenda.algorithms import whitening
from tacenda.algorithms.whitened import Whitened
from tacenda.algorithms.whitening import Whitening, choose
from tacenda.errors import BudgetError, LeakError
from tacenda.graph.topology import Topology
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import open_values
from tacenda.privacy.secrets.door import Door
from tacenda.questions.facts import Facts
from tacenda.questions.moments import unpacked
from tacenda.runtime.local import LocalHosts
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.rehearsal import Notebook, rehearse
from tacenda.runtime.spec import RunSpec

A = tc.algorithms
ROUNDS = 6
SHARED = {"treegd": A.TreeGD(), "gossipgd": TUNED["gossipgd"]}
OWN = {
    "treegd, independent": A.TreeGD(noise="independent"),
    "gossipgd, independent": A.GossipGD(noise="independent"),
    "pvp, gaussian": A.PVP(noise="gaussian"),
    **{name: TUNED[name] for name in ("ipadmm", "ddpadmm", "cdpadmm", "dpadmm", "dpdda")},
}


def spec_of(
    algorithm: Any, data: Any, share: float = 0.2, epsilon: float = 5.0, kind: str | None = None
) -> RunSpec:
    graph = tc.graph.star(6) if algorithm.needs.hub else tc.graph.ring(6)
    wrapped = Whitened(algorithm, Whitening(share=share, kind=kind))
    facts = Facts.of(data)
    return run_spec(wrapped, Topology.of(graph), facts, ROUNDS, tc.Privacy(epsilon)).checked()


def mu_squares(charges: Any) -> Any:
    """(releases, n) mu^2 of every release, in order."""
    return np.array(
        [
            c.parameters["mu"] ** 2
            if "mu" in c.parameters
            else c.parameters["noise_multiplier"] ** -2.0
            for c in charges.each()
        ]
    )


def played(spec: RunSpec, data: Any, rounds: int = ROUNDS, seed: int = 0) -> Any:
    hosts = LocalHosts(
        spec, LocalShards(data, [np.arange(6)]), SimulatedNoise(seed), np.zeros((6, data.dim))
    )
    for turn in range(1, rounds + 1):
        hosts.step(turn)
    return hosts


@pytest.mark.parametrize("name", [*SHARED, *OWN])
@pytest.mark.parametrize("share", [0.1, 0.4])
@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_the_moment_costs_its_share_of_the_budget(name: str, share: float, kind: str) -> None:
    algorithm = {**SHARED, **OWN}[name]
    spent = mu_squares(spec_of(algorithm, problem(6), share, kind=kind).calibration.reserved)
    assert len(spent) == ROUNDS * algorithm.traits.steps_per_round + 1
    assert spent[0] / spent.sum(axis=0) == pytest.approx(np.full(6, share), rel=1e-9)


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_the_moment_costs_its_share_beside_l2_laplace_noise(share: float) -> None:
    """What is left to the rounds is told by the accountant, not by `spends`: at the same total a
    round's mu^2, about epsilon^2/d of an l2-Laplace release in d dimensions, falls by the share."""
    made = tc.data.make_classification(1200, 40, 0.3, 1)
    data = tc.Problem(tc.data.partition.even(made.X, made.y, 6), strength=1e-4, classes=(0, 1))

    def rate(algorithm: Any) -> Any:
        ring, facts = Topology.of(tc.graph.ring(6)), Facts.of(data)
        spec = run_spec(algorithm, ring, facts, ROUNDS, tc.Privacy(1.0)).checked()
        return list(spec.calibration.reserved.each())[-1].parameters["epsilon"]

    left = (rate(Whitened(A.PVP(), Whitening(share=share))) / rate(A.PVP())) ** 2
    assert left == pytest.approx(np.full(6, 1 - share), rel=0.02)


@pytest.mark.parametrize("name", [*SHARED, *OWN])
@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_a_run_is_charged_what_was_reserved(name: str, kind: str) -> None:
    data = problem(6)
    spec = spec_of({**SHARED, **OWN}[name], data, kind=kind)
    made = played(spec, data).charges()
    assert mu_squares(made) == pytest.approx(mu_squares(spec.calibration.reserved), rel=1e-12)
    assert spec.statement(made, "test").epsilon <= 5.0 * (1 + 1e-9)


def test_more_of_the_budget_makes_the_moment_clearer() -> None:
    data, found = problem(6), []
    for share in (0.1, 0.8):
        noisy = [
            played(spec_of(A.TreeGD(noise="independent"), data, share), data, 1, seed)
            for seed in range(5)
        ]
        found.append(np.var([h._hosts[0].state.matrix[0, 0] for h in noisy]))
    assert found[1] < found[0]


# ---- planted bugs
def map_is_made_of_what_was_released(kind: str = "full") -> None:
    """The map equals the one that anybody computes from the released rows and public facts."""
    data = problem(6)
    spec = spec_of(A.TreeGD(noise="independent"), data, kind=kind)
    released: list[Any] = []
    honest = Door.release

    def listening(self: Door, value: Any, *place: Any) -> Any:
        released.append(honest(self, value, *place))
        return released[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Door, "release", listening)
        state = played(spec, data, 1)._hosts[0].state
    plan = spec.calibration.plan
    weight = 0.2 / 0.8 * ROUNDS
    labels = spec.algorithm.whitening.labels_in(spec.facts, spec.algorithm.algorithm)
    std = plan.scale * spec.facts.moment_sensitivity(labels) / np.sqrt(weight)
    row = released[0].mean(axis=0)
    again = choose(
        row if kind == "diagonal" else unpacked(row),
        float(np.sqrt((std**2).mean() / 6)),
        spec.facts,
        spec.algorithm.whitening,
        spec.algorithm.algorithm,
        weight,
        ROUNDS,
        spec.topology.n * spec.facts.smallest,
    )
    assert np.allclose(state.matrix, again.matrix, rtol=1e-6, atol=1e-9)
    assert state.numbers[1] == pytest.approx(again.smoothness)


def diagonal_is_made_of_what_was_released() -> None:
    map_is_made_of_what_was_released("diagonal")


def every_release_is_reserved() -> None:
    data = problem(6)
    played(spec_of(A.TreeGD(noise="independent"), data), data)


def opened(honest: Any) -> Any:
    """The map from the moment as it is, noise-free; the release is made for show."""

    def moment(self: Any, node: Any, dtype: Any) -> Any:
        honest(self, node, dtype)
        diagonal = self.whitening.kind == "diagonal"
        labels = self.whitening.labels_in(node.facts, self.algorithm)
        return open_values(node.second_moment(labels, diagonal=diagonal)).mean(axis=0), 0.0

    return moment


def opened_without_release(honest: Any) -> Any:
    def moment(self: Any, node: Any, dtype: Any) -> Any:
        labels = self.whitening.labels_in(node.facts, self.algorithm)
        return np.asarray(node.second_moment(labels)).mean(axis=0), 0.0

    return moment


def twice(honest: Any) -> Any:
    """Released again where there are records, for a second look."""

    def moment(self: Any, node: Any, dtype: Any) -> Any:
        first = honest(self, node, dtype)
        rehearsed = 3  # numbers of one feature and one label
        return honest(self, node, dtype) if len(first[0]) > rehearsed else first

    return moment


def forgotten(honest: Any) -> Any:
    """The rehearsal forgets what was released before the first step."""

    def release(self: Any, value: Any, turn: int, call: int, *rest: Any) -> Any:
        known = list(self.sites)
        out = honest(self, value, turn, call, *rest)
        if turn == 1 and not known:
            self.sites = known
        return out

    return release


def lighter(honest: Any) -> Any:
    """The rehearsal prices the moment as one release of a round like any other."""

    def release(
        self: Any, value: Any, turn: int, call: int, noise: str, std: Any, weight: float = 1.0
    ) -> Any:
        return honest(self, value, turn, call, noise, std, 1.0)

    return release


PLANTED: dict[str, tuple[Any, str, Callable[[Any], Any], Callable[[], None], Any]] = {
    "map from unreleased values": (
        Whitened,
        "_moment",
        opened,
        map_is_made_of_what_was_released,
        AssertionError,
    ),
    "diagonal from unreleased values": (
        Whitened,
        "_moment",
        opened,
        diagonal_is_made_of_what_was_released,
        AssertionError,
    ),
    "map without a release": (
        Whitened,
        "_moment",
        opened_without_release,
        map_is_made_of_what_was_released,
        LeakError,
    ),
    "released twice": (Whitened, "_moment", twice, every_release_is_reserved, BudgetError),
    "moment forgotten": (Notebook, "release", forgotten, every_release_is_reserved, BudgetError),
    "share charged too little": (
        Notebook,
        "release",
        lighter,
        every_release_is_reserved,
        BudgetError,
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, what, plant, check, error = PLANTED[name]
    check()
    monkeypatch.setattr(owner, what, plant(getattr(owner, what)))
    with pytest.raises(error):
        check()


def test_sensitivities_before_and_after_the_release_are_the_same() -> None:
    """What is calibrated on blank records holds for the real map, whatever was released."""
    data = problem(6)
    spec = spec_of(A.CDPADMM(), data)
    before = rehearse(spec, np.arange(6))
    assert [count for _, count in before] == [1] * (ROUNDS + 1)
    played(spec, data)
    assert whitening.clip_of(spec.facts, Whitening()) == 0.5
