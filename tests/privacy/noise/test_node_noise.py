"""Noise of a real node: on whole numbers, exact in law, the same again for the same step, and
refused as floating point."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from node_stage import small_contract
from tacenda.errors import PrivacyError
from tacenda.privacy.noise.key_chain import KeyChain
from tacenda.privacy.noise.keyed import KeyedNoise, rounded_up
from tacenda.privacy.secrets.bounded import open_parts, open_values
from tacenda.questions.lattice import LatticeQueries, grid_for
from tacenda_node.peer.member_records import problem_of
from tacenda_node.peer.run_plan import facts_of

KEY = bytes(range(32))
HERE = np.zeros(1, np.int64)


def _records(seed: int, m: int = 60, p: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(m, p))
    return x / np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True)), rng.integers(2, size=m)


def _query(
    x: np.ndarray, y: np.ndarray, noise: KeyedNoise, grid: float, adjacency: str = "replace-one"
):
    contract = small_contract(privacy={"epsilon": 5.0, "delta": 1e-5, "adjacency": adjacency})
    facts = facts_of(contract).rows(HERE)
    problem = problem_of(contract, contract.member("m0").size, x, y)
    return LatticeQueries(problem.store, problem.sizes, HERE, facts, noise, grid)


def test_the_lattice_gradient_is_the_gradient_and_its_core_is_whole() -> None:
    x, y = _records(0)
    noise = KeyedNoise(KeyChain.begin(KEY), "run", floating_point=False)
    queries = _query(x, y, noise, 2.0**-30)
    w = np.array([[0.3, -0.2, 0.5, 1.0]])
    answer = queries.gradient(w, 1, 0, None, False, True)
    margins = np.where(y == 1, 1.0, -1.0) * (x @ w[0])
    direct = (-(np.where(y == 1, 1.0, -1.0) / (1 + np.exp(margins)))[:, None] * x).mean(
        0
    ) + 0.01 * w[0]
    np.testing.assert_allclose(open_values(answer)[0], direct, atol=1e-8)
    assert open_parts(answer)[0].dtype == np.int64


@pytest.mark.parametrize(("adjacency", "moved"), [("replace-one", 2.0), ("add-remove", 1.0)])
def test_no_neighbouring_data_exceeds_the_declared_sensitivity(
    adjacency: str, moved: float
) -> None:
    """Replace (or remove) each record by the worst one;
    the whole numbers move by at most the lattice sensitivity."""
    grid, w = 2.0**-12, np.array([[3.0, -2.0, 0.5, 1.0]])
    x, y = _records(1)
    noise = KeyedNoise(KeyChain.begin(KEY), "run", floating_point=False)
    base = _query(x, y, noise, grid, adjacency).gradient(w, 1, 0, None, False, True)
    factor = grid / 60
    assert base.sensitivity[0] == pytest.approx(moved / 60)
    worst = 0.0
    for k in range(60):
        changed = x.copy(), y.copy()
        if adjacency == "replace-one":
            direction = w[0] / np.linalg.norm(w[0]) * (-1 if k % 2 else 1)
            changed[0][k], changed[1][k] = direction, k % 2
        else:
            changed = np.delete(x, k, 0), np.delete(y, k)
        other = _query(*changed, noise, grid, adjacency).gradient(w, 1, 0, None, False, True)
        step = np.linalg.norm((open_parts(other)[0] - open_parts(base)[0]).astype(float)) * factor
        worst = max(worst, step)
        assert step <= base.sensitivity[0]
    assert worst > 0.2 * base.sensitivity[0]


@pytest.mark.parametrize(("claimed", "accepted"), [(1.0, True), (2 / 3, False), (1.5, False)])
def test_the_noise_has_the_scale_that_was_asked_for(claimed: float, accepted: bool) -> None:
    noise, core = (
        KeyedNoise(KeyChain.begin(KEY), "law", floating_point=False),
        np.zeros((1, 4000), np.int64),
    )
    factor, std = np.array([[-(2.0**-20)]]), np.array([0.75])
    found = noise.add_gaussian(HERE, 1, 0, (core, factor, None), std)
    assert np.array_equal(found / factor, np.round(found / factor))
    assert bool(kstest(found[0], "norm", args=(0, 0.75 * claimed)).pvalue > 1e-3) is accepted


def test_a_repeated_step_repeats_its_noise_and_nothing_else_does() -> None:
    core, std = np.zeros((1, 50), np.int64), np.array([1000.0])

    def draw(key: bytes = KEY, run: str = "r", turn: int = 1, call: int = 0) -> np.ndarray:
        return KeyedNoise(KeyChain.begin(key), run, floating_point=False).add_gaussian(
            HERE, turn, call, (core, 1.0, None), std
        )

    first = draw()
    np.testing.assert_array_equal(first, draw())
    for other in (draw(key=bytes(32)), draw(run="s"), draw(turn=2), draw(call=1)):
        assert abs(np.corrcoef(first[0], other[0])[0, 1]) < 0.6
        assert not np.array_equal(first, other)


def test_floating_point_noise_is_refused_unless_accepted() -> None:
    strict, free = (
        KeyedNoise(KeyChain.begin(KEY), "run", floating_point=accepted)
        for accepted in (False, True)
    )
    with pytest.raises(PrivacyError, match="floating_point_noise"):
        strict.add_gaussian(HERE, 1, 0, (np.zeros((1, 3)), 1.0, None), np.ones(1))
    with pytest.raises(PrivacyError, match="floating_point_noise"):
        strict.l2_laplace(HERE, 1, 0, np.ones(1), 3)
    assert "exact discrete" in strict.kind
    free.l2_laplace(HERE, 1, 0, np.ones(1), 3)
    assert "floating-point, accepted by name" in free.kind


def test_samples_of_records_have_their_rate() -> None:
    noise = KeyedNoise(KeyChain.begin(KEY), "run", floating_point=True)
    counts = np.zeros(200)
    for turn in range(200):
        indptr, records = noise.poisson_records(HERE, turn, 0, np.array([200]), np.array([0.3]))
        assert indptr.tolist() == [0, len(records)]
        counts[records] += 1
    assert abs(counts.mean() / 200 - 0.3) < 5 * np.sqrt(0.3 * 0.7 / 40_000)
    ones = [int(noise.one_record(HERE, t, 0, np.array([3]))[1][0]) for t in range(600)]
    assert all(abs(ones.count(k) - 200) < 60 for k in range(3))


def test_scales_are_only_rounded_up() -> None:
    for scale in (1.0, 1.1, 2**26 + 0.3, 1e-3):
        assert scale <= rounded_up(scale) <= scale * (1 + 2**-28)


def test_the_grid_is_a_power_of_two_far_below_the_noise() -> None:
    facts = facts_of(small_contract()).rows(HERE)
    grid = grid_for(10.0, facts)
    assert np.log2(grid) == round(np.log2(grid))
    assert 2**26 <= 10.0 * 2.0 / grid < 2**27
