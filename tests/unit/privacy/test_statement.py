"""A printed statement names the coalition where neighbours share noise,
and none where they do not."""

from __future__ import annotations

import numpy as np
import pytest

import tacenda as tc
from tacenda.errors import UnsupportedError


def test_the_coalition_is_printed_with_the_promise() -> None:
    data = tc.data.make_classification(120, 3, difficulty=0.3, seed=0)
    problem = tc.Problem(
        tc.data.partition.even(data.X, data.y, 6, seed=0), strength=1e-3, classes=(0, 1)
    )
    shared, own = tc.algorithms.GossipGD(noise="correlated"), tc.algorithms.CDPADMM()
    for algorithm, pooled, words in (
        (shared, 2, "replace-one, coalition 2, sound"),
        (own, 1, "replace-one, sound"),
        (own, None, "replace-one, sound"),
    ):
        privacy = tc.Privacy(2.0, 1e-5, coalition=pooled)
        run = tc.simulate(
            problem, tc.graph.complete(6), algorithm, 3, privacy, seed=0, record_every=0
        )
        assert words in repr(run.privacy)


def test_no_trust_is_the_same_promise_for_noise_of_ones_own_and_refuses_shared_noise() -> None:
    data = tc.data.make_classification(120, 3, difficulty=0.3, seed=0)
    problem = tc.Problem(
        tc.data.partition.even(data.X, data.y, 6, seed=0), strength=1e-3, classes=(0, 1)
    )
    graph, no_trust = tc.graph.complete(6), tc.Privacy(2.0, 1e-5, coalition=None)
    a, b = (
        tc.simulate(problem, graph, "cdpadmm", 3, p, seed=0, record_every=0)
        for p in (no_trust, tc.Privacy(2.0, 1e-5))
    )
    assert np.array_equal(a.models, b.models) and a.privacy.epsilon == b.privacy.epsilon
    assert a.settings["privacy"]["coalition"] is None and a.privacy.curve().coalition is None
    own = tc.algorithms.GossipGD(noise="independent")
    assert tc.simulate(
        problem, graph, own, 3, no_trust, seed=0, record_every=0
    ).privacy.epsilon == pytest.approx(2.0)
    shared = tc.algorithms.GossipGD(noise="correlated")
    for run in (
        lambda: tc.simulate(problem, graph, shared, 3, no_trust),
        lambda: tc.audit(shared, privacy=no_trust, rounds=2, trials=100),
        lambda: tc.audit_one_run(problem, graph, shared, privacy=no_trust, rounds=2),
        lambda: tc.PrivateLogisticRegression(algorithm=shared, coalition=None, bounds=(-1, 1)).fit(
            data.X, data.y
        ),
        lambda: tc.simulate(
            problem, graph, shared, 3, tc.Privacy.from_noise(noise_multiplier=3.0, coalition=None)
        ),
    ):
        with pytest.raises(
            UnsupportedError, match="coalition=1 or more, or use noise that needs no trust"
        ):
            run()


def test_given_noise_is_judged_against_the_coalition_that_was_named() -> None:
    """On a path the middle is hidden by its two edges; two curious members know both."""
    problem = tc.Problem([(np.zeros((5, 1)), np.ones(5))] * 3, classes=(-1, 1))
    shared = tc.algorithms.GossipGD(noise="correlated")
    found = [
        tc.simulate(
            problem,
            tc.graph.path(3),
            shared,
            2,
            tc.Privacy.from_noise(noise_multiplier=3.0, coalition=q),
            seed=0,
        ).privacy
        for q in (0, 1, 2)
    ]
    assert [p.curve().coalition for p in found] == [0, 1, 2]
    assert found[0].epsilon < found[1].epsilon <= found[2].epsilon
    assert found[2].curve().mu == pytest.approx(np.sqrt(2) / 3.0, rel=1e-5)
