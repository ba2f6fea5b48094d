"""The audit finds faults planted in noise that neighbours share, and leaves sound noise alone.

What each fault is worth is worked out here by brute force, from the linear map of independent
normals to all that is seen.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.auditing import aim, audit
from tacenda.auditing.bounds import choose_attack, mu_bound
from tacenda.auditing.listeners import listeners, worst_coalition
from tacenda.auditing.sampling import TrialNoise
from tacenda.auditing.shared_noise import Moments, _declared_row, covariance, declared_chance
from tacenda.auditing.stage import AHEAD_COSINE
from tacenda.graph.coalition import leverage
from tacenda.runtime import spec

FOUR_REGULAR = tc.graph.random_regular(8, 4, seed=0)
RING = tc.graph.ring(8)


@dataclass(frozen=True)
class Fault:
    """own: factor of the nodes' own noise. edges, fresh, one_sign: of the edges' noise.

    alias: (ends of the edge whose stream is used, number of the edge that uses it). planned: the
    coalition that the noise was planned for, where it is not the promised one, `pooled`.
    """

    name: str
    broken: bool
    graph: Any = FOUR_REGULAR
    own: float = 1.0
    edges: bool = True
    fresh: bool = True
    one_sign: bool = False
    alias: tuple[tuple[int, int], int] | None = None
    pooled: int = 1
    planned: int | None = None

    @property
    def as_declared(self) -> bool:
        return (self.own, self.edges, self.fresh, self.one_sign, self.alias) == (
            1.0,
            True,
            True,
            False,
            None,
        )


def number_of(graph: Any, one: int, other: int) -> int:
    edges = tc.graph.Topology.of(graph).edges
    return int(np.flatnonzero((edges == sorted((one, other))).all(axis=1))[0])


# Member 1 holds (0, 1) and (1, 2): with this, both edges of node 0
THIRD = ((1, 2), number_of(RING, 0, 7))
FAULTS = [
    Fault("none", False),
    Fault("no edge noise", True, edges=False),
    Fault("edges of round 1 reused", True, fresh=False),
    Fault("same sign at both ends", False, one_sign=True),
    Fault("a third party knows an edge (ring)", True, graph=RING, alias=THIRD),
    Fault("coalition ignored: 3 promised, 0 planned", True, pooled=3, planned=0),
    Fault("own part too small by half", True, own=0.5),
    Fault("none (ring)", False, graph=RING),
    Fault("none, 3 promised", False, pooled=3),
]
NAMED = {fault.name: fault for fault in FAULTS}


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """The fault in the source of noise, or in the planning, beneath the production door."""
    shared, gaussian, real = TrialNoise.shared, TrialNoise.add_gaussian, spec.leverage
    edges = len(tc.graph.Topology.of(fault.graph).edges)

    def faulty(self: Any, known: Any, turn: int, call: int, dim: int) -> Any:
        indptr, numbers, signs = known
        if fault.alias is not None:
            used = number_of(fault.graph, *fault.alias[0])
            numbers = np.where(
                numbers % edges == fault.alias[1], numbers // edges * edges + used, numbers
            )
        signs = np.abs(signs) if fault.one_sign else signs
        found = shared(self, (indptr, numbers, signs), turn if fault.fresh else 1, call, dim)
        return found if fault.edges else 0 * found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrialNoise, "shared", faulty)
        patch.setattr(
            TrialNoise,
            "add_gaussian",
            lambda s, n, t, c, parts, std: gaussian(s, n, t, c, parts, fault.own * std),
        )
        if fault.planned is not None:
            patch.setattr(spec, "leverage", lambda topology, c, q: real(topology, c, fault.planned))
        yield


def true_mu(fault: Fault, ratio: float, rounds: int, claimed: float) -> float:
    """The largest mu at node 0 over steady and changing canaries, for an eavesdropper and all
    coalitions within the promise."""
    topology = tc.graph.Topology.of(fault.graph)
    planned = fault.pooled if fault.planned is None else fault.planned
    # A record's whole change over a node's own noise:
    unit = claimed / np.sqrt(rounds * leverage(topology, ratio, planned)[0][0])
    late = np.arange(rounds) >= rounds // 2
    shifts = [np.ones(rounds), np.where(late, np.sqrt(1 - AHEAD_COSINE**2), 0.0)]
    groups = [
        (),
        *((k,) for k in range(1, topology.n)),
        worst_coalition(topology, ratio, fault.pooled, 0),
    ]
    return max(
        _mu(fault, topology, ratio, unit * shift, members) for shift in shifts for members in groups
    )


def _mu(
    fault: Fault, topology: Any, ratio: float, shift: np.ndarray, members: tuple[int, ...]
) -> float:
    n, e, rounds = topology.n, len(topology.edges), len(shift)
    own, streams = rounds * n, rounds * e
    rows, known = np.zeros((rounds * n, own + streams)), []
    for t in range(rounds):
        rows[t * n : (t + 1) * n, t * n : (t + 1) * n] = fault.own * np.eye(n)
        for k, (a, b) in enumerate(topology.edges):
            used = (
                number_of(fault.graph, *fault.alias[0])
                if fault.alias is not None and fault.alias[1] == k
                else k
            )
            column = own + (t if fault.fresh else 0) * e + used
            if fault.edges:
                rows[t * n + a, column] += ratio
                rows[t * n + b, column] += ratio if fault.one_sign else -ratio
            if fault.edges and (a in members or b in members):
                known.append(np.eye(1, own + streams, column)[0])
    seen = np.vstack([rows, *known]) if known else rows
    total = np.zeros(len(seen))
    total[: rounds * n : n] = shift
    return float(np.sqrt(total @ np.linalg.pinv(seen @ seen.T, rcond=1e-12) @ total))


def run(
    fault: Fault,
    rounds: int = 2,
    trials: int = 3000,
    seed: int = 1,
    ratio: float = 10.0,
    epsilon: float = 4.5,
) -> Any:
    with planted(fault):
        return audit(
            tc.algorithms.GossipGD(correlation=ratio),
            privacy=tc.Privacy(epsilon, 1e-5, coalition=fault.pooled),
            rounds=rounds,
            graph=fault.graph,
            trials=trials,
            seed=seed,
            progress=False,
        )


@pytest.mark.parametrize(
    "name",
    [
        "none",
        "no edge noise",
        "edges of round 1 reused",
        "a third party knows an edge (ring)",
        "same sign at both ends",
    ],
)
def test_planted_faults_are_found_quickly(name: str) -> None:
    fault = NAMED[name]
    found = run(fault)
    assert found.broken == fault.broken, found.summary()
    # Also what costs accuracy and no privacy is noticed
    assert found.as_declared == fault.as_declared


@pytest.mark.slow
def test_table_of_planted_faults() -> None:
    """docs/results/measured/audit.md prints this table:
    pytest -m slow -s -k table_of_planted tests/privacy/audits/test_audit_shared.py"""
    print(
        "\n| fault | mu claimed | true mu | lower bound | noise as declared | "
        "verdict | found by |\n"
        "| --- |" + " --- |" * 6
    )
    wrong = []
    for fault in FAULTS:
        found = run(fault, rounds=4, trials=20_000, epsilon=4.2)
        assert found.mu_claimed is not None and found.mu_fit is not None
        true = true_mu(fault, 10.0, 4, found.mu_claimed)
        print(
            f"| {fault.name} | {found.mu_claimed:.3f} | {true:.2f} | {found.mu_lower:.2f} | "
            f"{'yes' if found.as_declared else 'no'} | {found.verdict} | {found.attack} |"
        )
        if found.broken != fault.broken or found.as_declared != fault.as_declared:
            wrong.append(found.summary())
        # The attack reaches what is there to be had, and no more.
        assert found.mu_fit.mu == pytest.approx(
            true, abs=0.02 + 4 * (found.mu_fit.interval[1] - found.mu_fit.mu) / 1.96
        )
        assert found.mu_lower <= true
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_sound_shared_noise_stays_consistent(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 95 % confidence at most one in twenty, whatever the graph and the ratio: 96 audits."""
    monkeypatch.setattr(aim, "SCOUTS", 200)
    graphs = [tc.graph.ring(5), tc.graph.complete(4), FOUR_REGULAR, tc.graph.path(4)]
    alarms, unlike = [], 0
    for seed in range(8):
        for graph in graphs:
            for ratio in (1.0, 3.0, 10.0):
                found = run(
                    Fault("none", False, graph=graph), seed=100 + seed, ratio=ratio, trials=600
                )
                alarms += [found.summary()] if found.broken else []
                unlike += not found.as_declared
    print(f"\n{len(alarms)} of 96 called broken, noise of {unlike} called not as declared")
    assert len(alarms) <= 10 and unlike <= 1, alarms  # P[Binomial(96, 1/20) > 10] is 0.7 %


def test_choosing_among_attacks_costs_no_confidence() -> None:
    """Sixty attacks of equal strength on noise that keeps its claim exactly:
    the best of them is not believed."""
    alarms = 0
    for seed in range(200):
        rng, truth = np.random.default_rng(seed), np.arange(400) % 2
        scores = rng.normal(size=(400, 60)) + truth[:, None]
        best, _ = choose_attack(scores, truth)
        alarms += mu_bound(scores[:, best], truth).value > 1.0
    assert alarms <= 18  # P[Binomial(200, 1/20) > 18] is 0.5 %


def test_the_chance_of_declared_noise_is_uniform_where_it_is_declared() -> None:
    topology, edges = tc.graph.Topology.of(RING), np.arange(8)
    rng, found = np.random.default_rng(0), []
    within, mean = covariance(topology, 3.0, edges, "as declared", 4)
    for _ in range(200):
        draws = [
            rng.multivariate_normal(np.zeros(16), part, size=size)
            for part, size in ((within, 900), (mean, 300))
        ]
        moments = Moments(draws[0].T @ draws[0], 900, draws[1].T @ draws[1], 300)
        found.append(declared_chance(moments, topology, 3.0, edges, 4))
    assert (
        0.25 < np.mean(np.asarray(found) < 0.5) < 0.75 and np.mean(np.asarray(found) < 0.05) < 0.12
    )


@pytest.mark.parametrize("graph", [tc.graph.path(4), tc.graph.ring(6), FOUR_REGULAR])
def test_the_worst_listener_is_the_one_that_the_noise_was_planned_for(graph: Any) -> None:
    """Its view of the declared noise is the accountant's leverage, which is worked out elsewhere
    and in another way."""
    topology = tc.graph.Topology.of(graph)
    for pooled in (0, 1, 2):
        for node in range(topology.n):
            one = listeners(topology, 2.0, pooled, node)[0]
            cov = covariance(topology, 2.0, one.edges, "as declared", 1)[0]
            assert np.linalg.inv(cov)[node, node] == pytest.approx(
                leverage(topology, 2.0, pooled)[0][node], rel=1e-6
            )
            assert node not in one.members and len(one.members) == pooled


def test_taking_streams_off_is_the_same_as_seeing_them() -> None:
    """One run takes a coalition's streams off; many trials look at residuals and streams jointly:
    the same scores."""
    topology = tc.graph.Topology.of(FOUR_REGULAR)
    for node in range(topology.n):
        one = listeners(topology, 3.0, 2, node)[0]
        row = _declared_row(topology, 3.0, one.members, node)
        joint = np.linalg.inv(covariance(topology, 3.0, one.edges, "as declared", 1)[0])[node]
        assert np.allclose(row[: topology.n], joint[: topology.n], atol=1e-9)
        assert np.allclose(row[topology.n :][one.edges], joint[topology.n :], atol=1e-9)
        assert np.count_nonzero(row[topology.n :]) <= len(one.edges)


def test_a_coalition_larger_than_promised_sees_more() -> None:
    """Planned against an eavesdropper, attacked by the two neighbours of the middle of a path:
    it stands alone."""
    path = tc.graph.path(3)
    with planted(Fault("planned for nobody", True, graph=path, planned=0)):
        privacy = tc.Privacy(4.5, 1e-5, coalition=2)
        found = audit(
            "gossipgd",
            privacy=privacy,
            graph=path,
            node=1,
            rounds=2,
            trials=3000,
            seed=9,
            progress=False,
        )
    assert found.verdict == "broken" and found.attack.startswith("members 0, 2 together")


@pytest.mark.parametrize("name", ["none", "no edge noise"])
def test_dual_averaging_that_shares_noise_is_attacked_too(name: str) -> None:
    fault = NAMED[name]
    with planted(fault):
        found = audit(
            tc.algorithms.DPDDA(noise="correlated"),
            privacy=tc.Privacy(4.5, 1e-5),
            rounds=2,
            graph=fault.graph,
            trials=1000,
            seed=1,
            progress=False,
        )
    assert found.broken == fault.broken and found.as_declared == fault.as_declared, found.summary()


def test_the_shell_lists_the_attacks() -> None:
    words = shlex.split(
        "audit gossipgd --graph complete:4 --coalition 2 -e 4 -T 2 --trials 400 --seed 1 -q --json"
    )
    done = subprocess.run(
        [sys.executable, "-m", "tacenda", *words], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["verdict"] == "consistent" and found["attack"] in [
        one["name"] for one in found["attacks"]
    ]
    assert (
        any("together" in one["name"] for one in found["attacks"])
        and found["shared_noise_as_declared"] is True
    )


def test_the_result_says_what_was_tried_and_what_found_it() -> None:
    found = run(NAMED["no edge noise"], trials=1000)
    names = [name for name, _ in found.attacks]
    assert found.attack in names and len(set(names)) == len(names)
    for part in (
        "an eavesdropper",
        "member 3",
        "as declared",
        "no edge noise",
        "edges reused",
        "same sign",
        "as measured",
    ):
        assert any(part in name for name in names)
    assert (
        f"Best of {len(names)} attacks: {found.attack}." in found.summary()
        and "not as declared" in found.summary()
    )
    plain = found.to_plain()
    assert [one["name"] for one in plain["attacks"]] == names and plain["attack"] == found.attack
    assert plain["shared_noise_as_declared"] is False
