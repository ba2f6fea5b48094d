"""Checks of a run's privacy from the outside: what was drawn against formulas worked out here, by
hand.

`test_mutations` runs each of them on the real code, where it must pass, and on code with a planted
bug, where it must not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

import tacenda as tc
from support import make_block, problem, shards
from tacenda.errors import LeakError
from tacenda.privacy.secrets.bounded import open_values, seal
from tacenda.privacy.secrets.door import Door
from tacenda.questions.queries import Queries
from tacenda.runtime.block import Block

A = tc.algorithms
SIZES, DIM, DELTA = np.array([6, 9, 14, 30]), 1200, 1e-5
EPSILONS = np.array([1.0, 2.0, 3.0, 4.0])
RING = tc.graph.ring(4)
DEGREE, KAPPA_REG = 2, 0.1


def data(p: int = DIM, **settings: Any) -> Any:
    return tc.Problem(shards(list(SIZES), p), classes=("no", "yes"), strength=KAPPA_REG, **settings)


def mu_of(epsilon: float, delta: float = DELTA) -> float:
    """The mu whose Gaussian curve passes through (epsilon, delta)."""

    def gap(mu: float) -> float:
        return (
            stats.norm.cdf(-epsilon / mu + mu / 2)
            - np.exp(epsilon) * stats.norm.cdf(-epsilon / mu - mu / 2)
            - delta
        )

    return float(optimize.brentq(gap, 1e-3, 50))


class Watch:
    """Keeps the noise of every release of the runs inside the `with`:
    (round, rows (n, d)), and of every argmin."""

    def __init__(self) -> None:
        self.noise: list[tuple[int, Any]] = []
        self.gaps: list[Any] = []
        self.rates: list[tuple[int, Any]] = []

    def __enter__(self) -> Watch:
        self._patch = pytest.MonkeyPatch()
        release, release_argmin, solve = Block.release, Block.release_argmin, Queries._solve
        solved: list[Any] = []

        def spy(block: Any, value: Any, **how: Any) -> Any:
            if not isinstance(block._gate, Door):  # the rehearsal
                return release(block, value, **how)
            secret = open_values(value)
            out = release(block, value, **how)
            self.noise.append((block.turn, out - secret))
            return out

        def spy_solve(queries: Any, *args: Any) -> Any:
            solved.append(solve(queries, *args))
            return solved[-1]

        def spy_argmin(block: Any, *args: Any, **how: Any) -> Any:
            if not isinstance(block._gate, Door):
                return release_argmin(block, *args, **how)
            source = block._gate.noise
            draw = source.l2_laplace

            def drawn(nodes: Any, turn: int, call: int, rate: Any, dim: int) -> Any:
                self.rates.append((turn, np.array(rate)))
                return draw(nodes, turn, call, rate, dim)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(source, "l2_laplace", drawn, raising=False)
                out = release_argmin(block, *args, **how)
            core, offset = solved[-1]
            self.gaps.append(out - (core if offset is None else core + offset))
            return out

        self._patch.setattr(Block, "release", spy)
        self._patch.setattr(Block, "release_argmin", spy_argmin)
        self._patch.setattr(Queries, "_solve", spy_solve)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def stds(watch: Watch) -> Any:
    """(releases, n) the measured standard deviation of the noise."""
    return np.array([rows.std(axis=1) for _, rows in watch.noise])


def shaped_run() -> tuple[Watch, Any]:
    """Four rounds of CDP-ADMM, another budget at each node."""
    with Watch() as watch:
        result = tc.simulate(
            data(),
            RING,
            A.CDPADMM(penalty=0.1, proximal=0.5, variance_decay=0.5),
            4,
            tc.Privacy(list(EPSILONS), DELTA),
            3,
            record_every=0,
        )
    return watch, result


def spread_run() -> tuple[Watch, Any]:
    """Three rounds of two steps of IPADMM, the budget spread as 1 : 2 : 6."""
    with Watch() as watch:
        result = tc.simulate(
            data(),
            RING,
            A.IPADMM(penalty=0.1, proximal=0.5, inner_steps=2),
            3,
            tc.Privacy(2.0, DELTA, spread=[1, 2, 6]),
            3,
            record_every=0,
        )
    return watch, result


SENSITIVITY = 2.0 / (SIZES * (2 * 0.1 * DEGREE + 0.5))  # 2Gc/(m (2 rho deg + eta)), G = c = 1
CLOSE = 0.12  # six standard errors of a deviation measured on 1200 numbers


def noise_is_enough() -> None:
    """sum_t (s/std_t)^2 is mu^2 of each node's own budget, with the measured std."""
    watch, _ = shaped_run()
    mu = np.sqrt(((SENSITIVITY / stds(watch)) ** 2).sum(axis=0))
    assert np.allclose(mu, [mu_of(e) for e in EPSILONS], rtol=CLOSE)


def noise_is_enough_with_shares() -> None:
    """The same, and the losses of the rounds are as 1 : 2 : 6."""
    watch, _ = spread_run()
    losses = (SENSITIVITY / stds(watch)) ** 2
    assert np.allclose(np.sqrt(losses.sum(axis=0)), mu_of(2.0), rtol=CLOSE)
    assert np.allclose(
        losses / losses.sum(axis=0), np.repeat([1, 2, 6], 2)[:, None] / 18, rtol=3 * CLOSE
    )


def add_remove_noise_is_enough() -> None:
    with Watch() as watch:
        budget = tc.Privacy(1.0, DELTA, adjacency="add-remove")
        tc.simulate(
            data(public_sizes=SIZES),
            RING,
            A.DDPADMM(penalty=0.1, proximal=0.5),
            2,
            budget,
            3,
            record_every=0,
        )
    mu = np.sqrt(((SENSITIVITY / 2 / stds(watch)) ** 2).sum(axis=0))
    assert np.allclose(mu, mu_of(1.0), rtol=CLOSE)


def ledger_tells_the_noise() -> None:
    """Each node's ledger holds one event per release, with the z that was measured;
    the epsilon is the target's."""
    for watch, result in (shaped_run(), spread_run()):
        booked = np.array(
            [
                c.parameters["noise_multiplier"]
                for c, count in result.privacy.charges
                for _ in range(count)
            ]
        )
        assert booked.shape == (len(watch.noise), 4)
        assert np.allclose(booked, stds(watch) / SENSITIVITY, rtol=CLOSE)
        assert np.allclose(result.privacy.node_epsilons, result.privacy.target, rtol=1e-6)


def noise_is_fresh() -> None:
    """No two releases share noise: not two rounds, not two steps of a round, not two nodes."""
    watch, _ = spread_run()
    rows = np.concatenate([rows for _, rows in watch.noise])
    others = np.corrcoef(rows) - np.eye(len(rows))
    assert np.abs(others).max() < 5.5 / np.sqrt(DIM)


def noise_is_normal() -> None:
    watch, _ = shaped_run()
    rows = np.concatenate([rows / rows.std(axis=1, keepdims=True) for _, rows in watch.noise])
    assert stats.kstest(rows.ravel(), "norm").pvalue > 1e-4


def receivers_agree() -> None:
    """What a node of its own block sends to its neighbours is one value."""
    from tacenda.runtime.transport import InProcess

    sent: dict[Any, list[Any]] = {}
    honest = InProcess.exchange

    def spy(hall: Any, me: int, tag: Any, outgoing: dict[int, Any], awaited: Any) -> Any:
        sent.setdefault((me, tag), []).extend(row.copy() for row in outgoing.values())
        return honest(hall, me, tag, outgoing, awaited)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InProcess, "exchange", spy)
        tc.simulate(
            data(5),
            RING,
            A.DDPADMM(),
            2,
            tc.Privacy.from_noise(noise_multiplier=1.0),
            0,
            blocks=4,
            record_every=0,
        )
    assert len(sent) == 8
    assert all(
        np.array_equal(a, b) for rows in sent.values() for a, b in zip(rows, rows[1:], strict=False)
    )


def charged_before_drawn() -> None:
    """At every draw the ledger already holds the charge of it."""
    from tacenda.privacy.noise.sources import SimulatedNoise

    for noise in ("gaussian", "l2-laplace", "objective"):
        source = SimulatedNoise(0)
        block, _, ledger = make_block(problem(4), scale=1.0, source=source)
        draws: list[int] = []
        for name in ("add_gaussian", "l2_laplace"):
            honest = getattr(source, name)

            def counted(*a: Any, f: Any = honest, d: Any = draws, b: Any = ledger) -> Any:
                d.append(len(b.charges))
                return f(*a)

            setattr(source, name, counted)
        w = np.zeros((4, 4))
        for k in range(1, 4):
            if noise == "objective":
                block.release_argmin(w, np.ones((4, 1)), w)
            else:
                block.release(block.gradient(w), noise=noise)
            assert draws, "nothing was drawn"
            assert min(draws) == max(draws) == len(ledger.charges) == k
            draws.clear()


def samples_are_poisson() -> None:
    """Over 600 rounds: each record enters at its node's rate,
    and the sample's size varies as a binomial does."""
    from tacenda.privacy.noise.sources import SimulatedNoise

    rounds, batch = 600, 3
    seen: list[Any] = []
    source = SimulatedNoise(8)
    small = data(3)
    honest = small.store.batch_gradient

    def spy(nodes: Any, w: Any, indptr: Any, records: Any, *rest: Any) -> Any:
        seen.append((np.diff(indptr), records))
        return honest(nodes, w, indptr, records, *rest)

    small.store.batch_gradient = spy
    block, _, _ = make_block(small, scale=1.0, rounds=rounds, source=source)
    for t in range(1, rounds + 1):
        block.start(t)
        bounded = block.gradient(np.zeros((4, 3)), batch)
    assert np.allclose(bounded.sample.rate, batch / SIZES)
    counts = np.array([sizes for sizes, _ in seen])
    deviation = np.sqrt(batch * (1 - batch / SIZES))
    assert np.all(np.abs(counts.mean(axis=0) - batch) < 5 * deviation / np.sqrt(rounds))
    assert np.allclose(counts.std(axis=0), deviation, rtol=0.2)


def clipping_bounds_the_gradient() -> None:
    """One record's residual of a million moves the clipped gradient by at most 2 clip/m."""
    parts = [(np.array([[0.6, 0.8], [1.0, 0.0]]), [1e6, 0.0])] * 3
    other = [(np.array([[-0.6, 0.8], [1.0, 0.0]]), [1e6, 0.0])] * 3
    rows = []
    for records in (parts, other):
        block, _, _ = make_block(tc.Problem(records, loss="squared", clip_norm=0.5))
        bounded = block.gradient(np.zeros((3, 2)))
        rows.append(block.release(bounded))
    assert np.all(np.linalg.norm(rows[0] - rows[1], axis=1) <= bounded.sensitivity * (1 + 1e-9))


def objective_noise_is_as_worked_out() -> None:
    """A round of pure 0.5: rate (0.495 - ln(1 + c1/(m kappa)))/(2/m) inside, gap noise of rate
    0.005 kappa/(2 tol) outside."""
    rounds, p = 40, 5
    with Watch() as watch:
        budget = tc.Privacy.from_noise(round_epsilon=0.5)
        result = tc.simulate(
            data(p),
            RING,
            A.DVP(penalty=1.0),
            rounds,
            budget,
            0,
            record_every=0,
            solver_tolerance=1e-6,
        )
    kappa = KAPPA_REG + 2 * 1.0 * DEGREE
    inside = (0.495 - np.log1p(0.25 / (SIZES * kappa))) / (2 / SIZES)
    outside = 0.005 * kappa / 2e-6
    assert len(watch.gaps) == rounds
    assert np.allclose([rate for _, rate in watch.rates[::2]], inside, rtol=1e-9)
    norms = np.linalg.norm(np.concatenate(watch.gaps), axis=1)
    assert stats.kstest(norms * outside, stats.gamma(p).cdf).pvalue > 1e-4
    for node in range(len(SIZES)):
        epsilons = [event.epsilon for event, _ in result.privacy.ledger(node)]
        assert np.allclose(epsilons, 0.5, rtol=1e-9)


def primal_noise_is_as_worked_out() -> None:
    """PVP, a round of 0.5: the norm of the noise is Gamma(d) over 0.5 kappa/(2/m + 2 tol)."""
    p = 5
    with Watch() as watch:
        tc.simulate(
            data(p),
            RING,
            A.PVP(penalty=1.0),
            60,
            tc.Privacy.from_noise(round_epsilon=0.5),
            0,
            record_every=0,
        )
    kappa = KAPPA_REG + 2 * 1.0 * DEGREE
    rate = 0.5 * kappa / (2 / SIZES + 2e-8)
    norms = np.array([np.linalg.norm(rows, axis=1) for _, rows in watch.noise]) * rate
    assert stats.kstest(norms.ravel(), stats.gamma(p).cdf).pvalue > 1e-4


def target_is_met() -> None:
    """The epsilon of what was charged is not above what was asked for."""
    for algorithm in (A.DVP(), A.IPADMM()):
        result = tc.simulate(data(4), RING, algorithm, 5, tc.Privacy(2.0, DELTA), 0, record_every=0)
        assert result.privacy.epsilon <= 2.0 * (1 + 1e-6)
        assert len(result.privacy.charges) == (5 if algorithm.name == "dvp" else 50)


def samples_do_not_mix() -> None:
    block, _, _ = make_block(problem(4))
    w = np.zeros((4, 4))
    with pytest.raises(LeakError, match="different samples"):
        block.gradient(w, 3) + block.gradient(w, 3)


def arithmetic_keeps_bounds() -> None:
    """Shifted, scaled and added secrets declare what neighbouring values can do."""
    one, other = np.array([[1.0, 0.0]]), np.array([[0.0, 0.0]])
    for build in (
        lambda b: b * 3.0,
        lambda b: b / -0.25,
        lambda b: b + b,
        lambda b: b - b * 2.0,
        lambda b: np.array([[4.0]]) * b,
    ):
        a, b = (build(seal(v, np.array([1.0]))) for v in (one, other))
        moved = np.linalg.norm(open_values(a) - open_values(b))
        assert moved <= a.sensitivity[0] * (1 + 1e-12)


def resumed_ledger_is_whole(folder: Any) -> None:
    """A broken and resumed run has charged as much as an unbroken one."""
    path = folder / "run.ckpt"

    class Stop(Exception):
        pass

    def die(t: int, models: Any) -> bool:
        if t == 3:
            raise Stop
        return False

    args = (
        data(4),
        RING,
        A.IPADMM(inner_steps=2),
        5,
        tc.Privacy.from_noise(noise_multiplier=2.0),
        0,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacenda.runtime.loop.SAVE_SECONDS", -1.0)
        with pytest.raises(Stop):
            tc.simulate(*args, checkpoint=path, callback=die)
    assert len(tc.simulate(*args, checkpoint=path, resume=True).privacy.charges) == 10
