"""One run with many canaries: how near it comes to the claim, that it finds faults, and that it
seldom accuses sound noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.algorithms.registry import ALGORITHMS
from tacenda.auditing import audit_one_run
from tacenda.auditing.one_run import louder
from tacenda.auditing.stage import default_problem, default_start
from tacenda.privacy.noise.sources import SimulatedNoise

A = tc.algorithms
PRIVATE = sorted(
    name for name, kind in ALGORITHMS.items() if kind.private and not kind.needs.squared_loss
)


def one_run(
    method: Any,
    epsilon: float,
    nodes: int = 20,
    records: int = 100,
    dim: int | None = 50,
    seed: int = 3,
    rounds: int = 10,
) -> Any:
    """The stage of `tacenda audit --one-run`."""
    graph = (tc.graph.star if method.needs.hub else tc.graph.ring)(nodes)
    problem = default_problem(method, nodes, records, "replace-one", dim)
    init = default_start(problem, method, rounds) if method.needs.smooth_loss else None
    privacy = tc.Privacy(epsilon, 1e-5)
    return audit_one_run(
        problem, graph, method, privacy=privacy, rounds=rounds, seed=seed, init=init, progress=False
    )


def staged(name: str, epsilon: float, **settings: Any) -> Any:
    method = ALGORITHMS[name]()
    if method.needs.smooth_loss:
        return one_run(method, epsilon, 2000, 4, None, **settings)
    return one_run(
        method, epsilon, dim=1000 if method.traits.shared_noise is not None else 50, **settings
    )


@pytest.mark.parametrize("name", ["gossipgd", "dpdda", pytest.param("dvp", marks=pytest.mark.slow)])
def test_the_bound_comes_within_two_of_the_claim(name: str) -> None:
    found = staged(name, 4.0)
    assert found.independent and found.coins >= 1000
    assert found.claimed[0] - 2 < found.curve_bound and found.verdict == "consistent", (
        found.summary()
    )
    assert found.lower_bound <= found.curve_bound + 1e-3
    assert found.attack in found.summary()


@pytest.mark.slow
def test_table_of_one_run_bounds() -> None:
    """docs/results/measured/audit.md prints this table:
    pytest -m slow -s -k table_of_one tests/privacy/audits/test_audit_one_run.py"""
    print(
        "\n| algorithm | claimed | noise of the declared kind | any run | claimed | "
        "declared kind | any run |"
    )
    print("| --- |" + " --- |" * 6)
    far = []
    for name in PRIVATE:
        if ALGORITHMS[name]().traits.masks:
            continue  # refused: no attack of one run speaks of masked sums
        found = [staged(name, epsilon) for epsilon in (4.0, 8.0)]
        cells = [f" {r.claimed[0]:.3g} | {r.curve_bound:.2f} | {r.lower_bound:.2f} " for r in found]
        print(f"| {name} |" + "|".join(cells) + "|")
        far += [] if found[0].curve_bound > 2.0 else [found[0].summary()]
        assert not any(r.broken for r in found)
    assert not far, far


@pytest.mark.slow
def test_sound_noise_is_seldom_called_broken_by_one_run() -> None:
    """120 runs at 95 %."""
    settings = {"nodes": 10, "records": 20, "rounds": 3}
    methods = [(A.DPDDA(), 10), (A.GossipGD(), 100), (A.IPADMM(), 10)]
    broken = sum(
        one_run(m, 6.0, dim=dim, seed=seed, **settings).broken
        for m, dim in methods
        for seed in range(40)
    )
    assert broken <= 12  # P[Binomial(120, 1/20) > 12] is 0.8 %


def test_one_run_sees_that_edges_have_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SimulatedNoise.shared
    monkeypatch.setattr(SimulatedNoise, "shared", lambda s, e, t, c, d: 0 * real(s, e, t, c, d))
    found = one_run(A.GossipGD(), 4.0, nodes=8, records=40, dim=160, rounds=4)
    assert found.verdict == "broken" and "no edge noise" in found.attack, found.summary()
    assert found.to_plain()["attack"] == found.attack


def test_canaries_that_share_noise_are_not_called_independent() -> None:
    # Eight canaries on three axes
    crowded = one_run(A.GossipGD(), 4.0, nodes=8, records=4, dim=3, rounds=2)
    assert not crowded.independent and "clearest" in crowded.attack
    problem = default_problem(A.DVP(), 5, 4, "replace-one", 2)
    ring, privacy = tc.graph.ring(5), tc.Privacy(4.0)
    pairs = audit_one_run(
        problem, ring, "dvp", privacy=privacy, rounds=2, canaries=2, seed=1, progress=False
    )
    assert not pairs.independent  # two canaries inside one objective


@pytest.mark.parametrize("name", ["gossipgd", "dpdda", "pvp", "dvp"])
def test_the_family_of_curves_starts_at_the_claim_and_gets_worse(name: str) -> None:
    problem = default_problem(ALGORITHMS[name](), 4, 10, "replace-one")
    run = tc.simulate(
        problem,
        tc.graph.ring(4),
        name,
        3,
        tc.Privacy(2.0, 1e-5),
        seed=1,
        record_every=0,
        progress=False,
    )
    assert run.privacy is not None
    found = [louder(run.privacy, loss).epsilon(1e-5) for loss in (0.5, 1.0, 2.0)]
    assert found[1] == pytest.approx(run.privacy.epsilon, rel=1e-6) and np.all(np.diff(found) > 0.5)
