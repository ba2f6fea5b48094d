"""Audits of the noise of real nodes: whole numbers and masks from keyed streams. Sound ones are
left alone; faults that are planted in the keyed code itself are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.auditing import aim, audit
from tacenda.auditing.keyed_rows import KeyedRows
from tacenda.errors import UnsupportedError
from tacenda.privacy.noise import keyed
from tacenda.privacy.noise.keyed import KeyedNoise

A = tc.algorithms
TERMS = tc.Privacy(4.0, 1e-5, coalition=1)


def audited(algorithm: Any, rounds: int = 2, trials: int = 400, nodes: int = 4) -> Any:
    return audit(
        algorithm,
        privacy=TERMS,
        rounds=rounds,
        trials=trials,
        graph=tc.graph.ring(nodes),
        seed=1,
        keyed=True,
    )


@pytest.mark.parametrize(
    "algorithm",
    [A.DPDDA(), pytest.param(A.TreeGD(), marks=pytest.mark.slow)],
    ids=["dpdda", "treegd"],
)
def test_keyed_noise_is_as_loud_as_seeded_noise(
    algorithm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aim, "SCOUTS", 100)
    found = audited(algorithm)
    assert found.verdict == "consistent"
    assert max(s for _, s in found.attacks) == pytest.approx(found.mu_claimed, rel=0.25)
    for world, sign in ((0, 1.0), (1, -1.0)):  # exact likelihood ratios
        mean = np.exp(sign * found.scores[found.truth == world]).mean()
        assert mean == pytest.approx(1.0, abs=0.4)


def test_a_quiet_sampler_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = keyed.discrete_gaussian
    monkeypatch.setattr(
        keyed, "discrete_gaussian", lambda scale, size, stream: honest(scale / 4, size, stream)
    )
    assert audited(A.DPDDA(), trials=800).verdict == "broken"


@pytest.mark.slow
def test_masks_from_one_key_that_never_change_are_not_as_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aim, "SCOUTS", 100)
    honest = KeyedNoise._edge_stream
    monkeypatch.setattr(
        KeyedNoise, "_edge_stream",
        lambda self, edge, use, turn, call: honest(self, edge, "", 0, 0),
    )  # fmt: skip
    found = audited(A.TreeGD(), rounds=4)
    assert found.verdict != "consistent" and found.as_declared is False


def test_what_real_nodes_draw_as_floating_point_is_refused() -> None:
    for algorithm in (A.PVP(), A.GossipGD(), A.DPDDA(batch_size=2)):
        with pytest.raises(UnsupportedError, match="keyed=True audits the whole-numbered noise"):
            audited(algorithm, trials=100)


def test_rows_have_keys_of_their_own_and_repeat_themselves() -> None:
    nodes, core = np.arange(3), np.zeros((3, 4), np.int64)
    parts, std = (core, np.full(3, 0.5), None), np.full(3, 100.0)

    def drawn(question: bytes, seed: int = 1) -> Any:
        return KeyedRows(seed, False).asked(question).add_gaussian(nodes, 1, 0, parts, std)

    rows = drawn(b"asked")
    np.testing.assert_array_equal(rows, drawn(b"asked"))
    assert len({tuple(row) for row in rows}) == 3
    assert not np.array_equal(rows, drawn(b"another")) and not np.array_equal(
        rows, drawn(b"asked", 2)
    )
