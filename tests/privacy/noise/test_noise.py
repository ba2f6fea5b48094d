"""The noise that is drawn has the law that the ledger charges: scale, shape, tails, independence,
one draw per value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit
from scipy import stats

import tacenda as tc
from support import TUNED, make_block, problem, shards
from tacenda.privacy.noise import streams
from tacenda.privacy.noise.sources import SimulatedNoise

NODES, DIM, ROUNDS = 50, 20, 12
# p-values: the right law is kept, 2/3 and 3/2 of its scale are thrown out
ACCEPT, REJECT = 1e-3, 1e-12


@pytest.fixture(scope="module")
def data() -> Any:
    return tc.Problem(
        shards([4 + k % 5 for k in range(NODES)], DIM), strength=0.1, classes=("no", "yes")
    )


def residuals(data: Any, noise: str, scale: float = 0.7) -> tuple[Any, Any]:
    """What the door adds to a gradient, (rounds, n, d),
    and the std or rate (n,) that its charge says."""
    block, _, ledger = make_block(data, scale=scale, rounds=ROUNDS, seed=123)
    quiet, _, _ = make_block(data)
    w = np.zeros((NODES, DIM))
    value = quiet.release(quiet.gradient(w))
    added = []
    for t in range(1, ROUNDS + 1):
        block.start(t)
        added.append(block.release(block.gradient(w), noise=noise) - value)
    charge = next(iter(ledger.charges))[0].parameters
    sensitivity = 2.0 / data.sizes
    amount = (
        charge["noise_multiplier"] * sensitivity
        if noise == "gaussian"
        else charge["epsilon"] / sensitivity
    )
    return np.array(added), amount


def p_of(values: Any, law: Any) -> float:
    return float(stats.kstest(np.ravel(values), law.cdf).pvalue)


@pytest.mark.parametrize(
    ("wrong", "low", "high"), [(1.0, ACCEPT, 1.0), (2 / 3, 0, REJECT), (1.5, 0, REJECT)]
)
def test_gaussian_scale(data: Any, wrong: float, low: float, high: float) -> None:
    added, std = residuals(data, "gaussian")
    assert low <= p_of(added / (wrong * std[:, None]), stats.norm) <= high


@pytest.mark.parametrize(
    ("wrong", "low", "high"), [(1.0, ACCEPT, 1.0), (2 / 3, 0, REJECT), (1.5, 0, REJECT)]
)
def test_l2_laplace_scale(data: Any, wrong: float, low: float, high: float) -> None:
    """The norm is Gamma(d, 1/rate)."""
    added, rate = residuals(data, "l2-laplace")
    norms = np.linalg.norm(added, axis=2) * rate
    assert low <= p_of(norms / wrong, stats.gamma(DIM)) <= high


def test_l2_laplace_direction_is_uniform(data: Any) -> None:
    """A squared coordinate of a uniform direction is Beta(1/2, (d-1)/2), its sign is fair, and it
    does not know the length."""
    added, _ = residuals(data, "l2-laplace")
    rows = added.reshape(-1, DIM)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    direction = rows / norms
    for j in (0, DIM // 2, DIM - 1):
        assert p_of(direction[:, j] ** 2, stats.beta(0.5, (DIM - 1) / 2)) > ACCEPT
        assert stats.binomtest(int((direction[:, j] > 0).sum()), len(rows)).pvalue > ACCEPT
    assert abs(stats.spearmanr(direction[:, 0] ** 2, norms[:, 0]).statistic) < 4.5 / np.sqrt(
        len(rows)
    )
    assert np.abs(direction.mean(axis=0)).max() < 4.5 / np.sqrt(DIM * len(rows))


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_l2_laplace_in_few_dimensions(dim: int) -> None:
    nodes = np.arange(20_000)
    rate = np.full(len(nodes), 3.0)
    rows = SimulatedNoise(5).l2_laplace(nodes, 1, 0, rate, dim)
    assert p_of(np.linalg.norm(rows, axis=1) * 3.0, stats.gamma(dim)) > ACCEPT
    if dim == 1:
        assert p_of(rows[:, 0] * 3.0, stats.laplace) > ACCEPT


def normals(nodes: int, length: int, *, turn: int = 1, call: int = 0, seed: int = 9) -> Any:
    zero, one = np.zeros((nodes, length)), np.ones(nodes)
    return SimulatedNoise(seed).add_gaussian(np.arange(nodes), turn, call, (zero, 1.0, None), one)


def test_gaussian_tails_are_not_cut() -> None:
    """Counts beyond 1 .. 5 standard deviations of 4 million normals, and the law of those in the
    ziggurat's own tail."""
    rows = normals(40, 100_000)
    size = rows.size
    for edge in (1.0, 2.0, 3.0, 3.6541528853610088, 4.0, 4.5, 5.0):
        count = int((np.abs(rows) > edge).sum())
        assert stats.poisson(2 * stats.norm.sf(edge) * size).cdf(count) > 1e-4
        assert stats.poisson(2 * stats.norm.sf(edge) * size).sf(count - 1) > 1e-4
    tail = np.abs(rows[np.abs(rows) > 3.7])
    assert float(stats.kstest(stats.norm.sf(tail) / stats.norm.sf(3.7), "uniform").pvalue) > ACCEPT
    moments = [np.mean(rows**k) for k in (1, 2, 3, 4)]
    assert np.allclose(moments, [0, 1, 0, 3], atol=5 * np.sqrt(np.array([1, 2, 15, 96]) / size))


def test_streams_are_independent_between_nodes_rounds_calls_and_purposes() -> None:
    length = 20_000
    rows = np.concatenate([normals(3, length, turn=t, call=c) for t in (1, 2, 3) for c in (0, 1)])
    seeds = np.concatenate([normals(2, length, seed=s) for s in (10, 11)])
    everything = np.concatenate([rows, seeds])
    correlation = np.corrcoef(everything) - np.eye(len(everything))
    assert np.abs(correlation).max() < 5 / np.sqrt(length)
    squares = np.corrcoef(everything**2) - np.eye(len(everything))
    assert np.abs(squares).max() < 5.5 / np.sqrt(length)
    lagged = [np.corrcoef(row[:-k], row[k:])[0, 1] for row in everything[:6] for k in (1, 2, 3)]
    assert np.abs(lagged).max() < 5 / np.sqrt(length)


def test_no_two_names_share_a_stream() -> None:
    """First draws of 30,000 names are all different:
    nodes, rounds and calls never run into each other."""
    source, nodes = SimulatedNoise(3), np.arange(1000)
    parts = (np.zeros((1000, 1)), 1.0, None)
    drawn = [
        source.add_gaussian(nodes, t, c, parts, np.ones(1000))[:, 0]
        for t in range(1, 7)
        for c in range(5)
    ]
    assert len(np.unique(np.concatenate(drawn))) == 30_000
    state, seen = np.empty(4, np.uint64), set()

    @njit
    def opened(state: Any, key: Any, purpose: Any) -> None:
        streams.open_stream(state, streams.lanes_of(key), 1, 1, 1, purpose)

    purposes = range(1, 7)
    for purpose in purposes:
        opened(state, source._key, np.uint64(purpose))
        seen.add(tuple(state))
    named = {streams.NORMAL, streams.DIRECTION, streams.RADIUS, streams.RECORDS}
    assert named | {streams.EDGE, streams.MASK} == set(purposes) and len(seen) == 6


def test_poisson_samples_follow_their_law() -> None:
    """Each record enters with its own node's rate, independently of every other one."""
    source, draws = SimulatedNoise(4), 4000
    sizes, rates = np.array([7, 12, 1, 5]), np.array([0.3, 0.75, 0.5, 1.0])
    entered = [np.zeros((draws, m), bool) for m in sizes]
    for t in range(draws):
        indptr, records = source.poisson_records(np.arange(4), t, 0, sizes, rates)
        for k in range(4):
            entered[k][t, records[indptr[k] : indptr[k + 1]]] = True
    for k, chosen in enumerate(entered):
        expected = stats.binom(int(sizes[k]), rates[k]).pmf(np.arange(sizes[k] + 1)) * draws
        counts = np.bincount(chosen.sum(axis=1), minlength=sizes[k] + 1)
        if rates[k] == 1:
            assert chosen.all()
            continue
        large = expected > 5
        pooled = (
            np.append(counts[large], counts[~large].sum()),
            np.append(expected[large], expected[~large].sum()),
        )
        keep = pooled[1] > 0
        assert (
            stats.chisquare(
                pooled[0][keep], pooled[1][keep] * pooled[0][keep].sum() / pooled[1][keep].sum()
            ).pvalue
            > ACCEPT
        )
        for j in range(sizes[k]):
            assert stats.binomtest(int(chosen[:, j].sum()), draws, rates[k]).pvalue > ACCEPT / 10
        if sizes[k] > 1:
            pairs = np.corrcoef(chosen.T.astype(float)) - np.eye(sizes[k])
            assert np.abs(pairs).max() < 5 / np.sqrt(draws)


def test_exactly_one_record_is_uniform() -> None:
    source, sizes = SimulatedNoise(6), np.array([3, 10])
    found = np.array([source.one_record(np.arange(2), t, 0, sizes)[1] for t in range(4000)])
    for k, m in enumerate(sizes):
        assert stats.chisquare(np.bincount(found[:, k], minlength=m)).pvalue > ACCEPT


def test_the_same_seed_is_the_same_run_and_another_is_not() -> None:
    data, budget = problem(6), tc.Privacy.from_noise(noise_multiplier=3.0)
    runs = [tc.simulate(data, tc.graph.ring(6), TUNED["ipadmm"], 5, budget, s) for s in (1, 1, 2)]
    assert np.array_equal(runs[0].models, runs[1].models)
    assert not np.any(runs[0].models == runs[2].models)


def test_equal_nodes_do_not_share_noise() -> None:
    """Six nodes with the same records on a complete graph release six different values."""
    data = tc.Problem(shards([9], 4) * 6, classes=("no", "yes"))
    result = tc.simulate(
        data,
        tc.graph.complete(6),
        TUNED["ddpadmm"],
        1,
        tc.Privacy.from_noise(noise_multiplier=1.0),
        0,
    )
    assert len(np.unique(result.models, axis=0)) == 6
    assert np.abs(np.corrcoef(result.models - result.model)).min() < 0.999


def test_unseeded_runs_differ() -> None:
    data, budget = problem(4), tc.Privacy.from_noise(noise_multiplier=3.0)
    a, b = (tc.simulate(data, tc.graph.ring(4), TUNED["ddpadmm"], 2, budget) for _ in range(2))
    assert not np.any(a.models == b.models)


def test_every_receiver_gets_the_same_value() -> None:
    """Noise is drawn once per value: the hub of a star sends identical rows to all its neighbours,
    each in its own block."""
    from tacenda.runtime.transport import InProcess

    sent: dict[Any, list[Any]] = {}
    honest = InProcess.exchange

    def spy(self: Any, me: int, tag: Any, outgoing: dict[int, Any], awaited: Any) -> Any:
        if me == 0:
            sent.setdefault(tag, []).extend(outgoing.values())
        return honest(self, me, tag, outgoing, awaited)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InProcess, "exchange", spy)
        tc.simulate(
            problem(5),
            tc.graph.star(5),
            TUNED["ddpadmm"],
            3,
            tc.Privacy.from_noise(noise_multiplier=1.0),
            0,
            blocks=5,
        )
    assert len(sent) == 3
    for rows in sent.values():
        assert len(rows) == 4
        assert all(np.array_equal(row, rows[0]) for row in rows)
    assert len({rows[0].tobytes() for rows in sent.values()}) == 3
