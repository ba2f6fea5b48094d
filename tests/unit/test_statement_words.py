"""A printed statement names the coalition where neighbours share noise, and none where they do not."""

from __future__ import annotations

import tacenda as tc


def test_the_coalition_is_printed_with_the_promise() -> None:
    data = tc.data.make_classification(120, 3, difficulty=0.3, seed=0)
    problem = tc.Problem(tc.data.partition.even(data.X, data.y, 6, seed=0), strength=1e-3)
    shared, own = tc.algorithms.GossipGD(noise="correlated"), tc.algorithms.CDPADMM()
    for algorithm, pooled, words in ((shared, 2, "replace-one, coalition 2, sound"), (own, 1, "replace-one, sound")):
        privacy = tc.Privacy(2.0, 1e-5, coalition=pooled)
        run = tc.simulate(problem, tc.graph.complete(6), algorithm, 3, privacy, seed=0, record_every=0)
        assert words in repr(run.privacy)
