"""The audit of masked runs: sound ones are left alone, and faults planted in production noise are
found, as broken or as not what was declared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from masked_stage import Veiled, problem_of
from tacenda.auditing import aim, audit, audit_one_run
from tacenda.auditing.masked_noise import plan_masked
from tacenda.errors import UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.runtime.block import ImpossibleSum

TERMS = tc.Privacy(4.0, 1e-5, coalition=1)


def no_masks(honest: Any) -> Any:
    return lambda self, edges, turn, call, dim: np.zeros((len(edges[0]) - 1, dim), np.uint64)


def same_masks(honest: Any) -> Any:
    return lambda self, edges, turn, call, dim: honest(self, edges, 0, call, dim)


def one_sign(honest: Any) -> Any:
    return lambda self, edges, turn, call, dim: honest(
        self, (*edges[:2], np.ones_like(edges[2])), turn, call, dim
    )


def half_noise(honest: Any) -> Any:
    return lambda self, nodes, turn, call, scale, dim: honest(
        self, nodes, turn, call, scale / 2, dim
    )


@pytest.mark.parametrize(
    ("method", "fault", "broken", "declared"),
    [
        (None, None, False, True),
        ("masks", no_masks, True, False),
        ("masks", same_masks, False, False),  # of one gradient in all rounds no difference tells
        ("whole_gaussian", half_noise, True, False),
    ],
)
def test_verdicts(
    method: str | None, fault: Any, broken: bool, declared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aim, "SCOUTS", 200)
    if method is not None:
        monkeypatch.setattr(SimulatedNoise, method, fault(getattr(SimulatedNoise, method)))
    result = audit(Veiled(), privacy=TERMS, rounds=4, trials=1500, seed=1)
    assert result.broken == broken
    assert result.as_declared == declared


def test_masks_that_are_reused_in_every_round_are_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A steady pull stays hidden behind a mask that stays, and one that begins half-way does not:
    the canary whose pull changes is chosen, and rows are compared with their mean."""
    monkeypatch.setattr(aim, "SCOUTS", 400)
    sound = audit(tc.algorithms.TreeGD(), privacy=TERMS, rounds=8, trials=2400, seed=1)
    assert sound.verdict == "consistent"
    monkeypatch.setattr(SimulatedNoise, "masks", same_masks(SimulatedNoise.masks))
    result = audit(tc.algorithms.TreeGD(), privacy=TERMS, rounds=8, trials=2400, seed=1)
    assert result.verdict == "broken"
    assert result.as_declared is False
    assert "masks reused" in result.attack and "ahead of the start" in result.canary["name"]
    # Worked out by hand: deviations of K/2 rounds of 1.9 of 2, and the mean in the sum of 12
    half = 2 * np.sqrt(1 - 0.3**2) / 2
    mu = result.mu_claimed * np.sqrt(11 * (half**2 + half**2 / 12) / 4)
    assert dict(result.attacks)[result.attack] == pytest.approx(mu, rel=0.15)


def test_masks_that_do_not_cancel_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing leaks, and there is no model: the sum is one that honest members cannot make."""
    monkeypatch.setattr(aim, "SCOUTS", 200)
    monkeypatch.setattr(SimulatedNoise, "masks", one_sign(SimulatedNoise.masks))
    with pytest.raises(ImpossibleSum, match="a row or a mask of this sum is wrong"):
        audit(Veiled(), privacy=TERMS, rounds=4, trials=1500, seed=1)


def test_a_sound_run_is_seen_as_well_as_it_is_charged() -> None:
    """The worst coalition's score reaches the mu of the ledger: the charge is not too high."""
    result = audit(Veiled(), privacy=TERMS, rounds=4, trials=6000, seed=3)
    assert result.mu_claimed is not None
    assert result.mu_fit is not None
    assert max(strength for _, strength in result.attacks) == pytest.approx(
        result.mu_claimed, rel=0.08
    )
    assert result.attack.endswith("noise as declared")
    for world, sign in ((0, 1.0), (1, -1.0)):  # an identity of exact likelihood ratios
        assert np.exp(sign * result.scores[result.truth == world]).mean() == pytest.approx(
            1.0, abs=0.1
        )


def test_the_worst_coalition_listens() -> None:
    """A clique of four with a tail 3-4-5: member 4 alone cuts off 5, member 3 the tail."""
    import networkx as nx

    topology = Topology.of(nx.lollipop_graph(4, 2))
    for node, part in ((5, [5]), (4, [4, 5]), (0, [0, 1, 2])):
        attacks = plan_masked(topology, 1, node)
        assert np.flatnonzero(attacks.parts[0]).tolist() == part
        assert attacks.share == 1 / len(part)
        assert attacks.names[-1] == ("an eavesdropper", "masks reused")


def test_the_one_run_audit_says_that_it_knows_no_masks() -> None:
    with pytest.raises(UnsupportedError, match=r"tacenda\.audit"):
        audit_one_run(problem_of(), tc.graph.ring(8), Veiled(), privacy=TERMS, rounds=2)
