"""A run calibrated to (epsilon, delta) keeps it at every node, judged again from its own ledger."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import support
import tacenda as tc
from tacenda.errors import LeakError, UnsupportedError

A = tc.algorithms


def run(sizes: list[int], graph: Any, algorithm: Any, privacy: Any) -> Any:
    problem = tc.Problem(support.shards(sizes), classes=("no", "yes"), strength=0.1)
    return tc.simulate(problem, graph, algorithm, 2, privacy, seed=0, record_every=0).privacy


@pytest.mark.parametrize(
    ("sizes", "epsilon"),
    [
        ([40] * 5, 1.0),
        pytest.param([40, 42, 60, 41, 60], 1.0, marks=pytest.mark.slow),
        pytest.param([40] * 5, [1.0, 1.0, 0.5, 1.0, 1.0], marks=pytest.mark.slow),
    ],
)
def test_samples_at_nodes_of_different_degree(sizes: list[int], epsilon: Any) -> None:
    """Found in review: leaves of a star were given the hub's noise scale, and lost epsilon 6.9
    where 1 was asked for."""
    algorithm = A.DDPADMM(penalty=0.5, proximal=0.3, batch_size=8)
    said = run(sizes, tc.graph.star(5), algorithm, tc.Privacy(epsilon, 1e-5))
    share = said.node_epsilons / np.broadcast_to(np.asarray(epsilon), (5,))
    assert share.max() <= 1 + 1e-6
    assert share.min() > 0.9  # rates within a tenth share the noise of the largest
    assert share[0] > 0.999


def test_no_paper_shares_noise() -> None:
    with pytest.raises(UnsupportedError, match="independent"):
        run(
            [20] * 4,
            tc.graph.ring(4),
            A.DPDDA(noise="correlated"),
            tc.Privacy(1.0, 1e-5, mode="as-published"),
        )


@dataclass(frozen=True)
class Twice(A.DDA):
    """Releases the gradient of one sample twice: seen together they are one sample with less noise,
    not two samples."""

    def step(self, s: Any, node: Any) -> Any:
        x = s.x
        g = node.gradient(x, self.batch_size, regularised=False)
        return type(s)(x, node.mix(s.z + node.release(g) + node.release(g * 2.0)))


def test_one_sample_is_released_once() -> None:
    """Found in review: both releases were credited with a sample of their own."""
    privacy = tc.Privacy.from_noise(noise_multiplier=5.0)
    # All records: nothing is amplified
    assert run([20] * 4, tc.graph.ring(4), Twice(), privacy) is not None
    with pytest.raises(LeakError, match="second release of the same sample"):
        run([20] * 4, tc.graph.ring(4), Twice(batch_size=5), privacy)


@dataclass(frozen=True)
class Around(A.PVP):
    """Hides a sampled gradient in an argmin: the sample would be seen twice,
    and charged as if it were not."""

    def step(self, s: Any, node: Any) -> Any:
        g = node.gradient(s.shared, 5)
        v = node.release(node.argmin(g, node.degree, s.shared), noise="gaussian")
        return type(s)(v, s.dual, node.neighbour_sum(v))


def test_no_argmin_around_a_sample() -> None:
    with pytest.raises(LeakError, match="around a value of a sample"):
        run([20] * 4, tc.graph.ring(4), Around(), tc.Privacy.from_noise(noise_multiplier=5.0))


def test_a_checkpoint_is_for_its_owner_only(tmp_path: Path) -> None:
    """It holds the seed of the noise."""
    problem = tc.Problem(support.shards([20] * 4), classes=("no", "yes"))
    tc.simulate(
        problem, tc.graph.ring(4), A.CDPADMM(), 2, tc.Privacy(1.0), checkpoint=tmp_path / "run.ckpt"
    )
    assert (tmp_path / "run.ckpt").stat().st_mode & 0o077 == 0
