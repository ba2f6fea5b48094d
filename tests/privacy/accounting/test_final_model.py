"""What is said to hold for somebody who sees only the final model, against exact computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm

import tacenda as tc
from support import shards
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.accounting.final_model import Descent, descent_mu, hidden_mu
from tacenda.privacy.statement import Statement


@settings(max_examples=60, deadline=None)
@given(st.floats(0.2, 1.0), st.floats(0.1, 3.0), st.floats(0.1, 3.0), st.integers(1, 40))
def test_a_quadratic_attains_it(c, shift, std, rounds):
    """X_t = c X_{t-1} + N(0, std^2), and another record adds `shift` to each step: both ends are
    Gaussian, and their means lie mu standard deviations apart."""
    powers = c ** np.arange(rounds)
    mean, deviation = shift * powers.sum(), std * math.sqrt((powers**2).sum())
    found = hidden_mu(np.full(rounds, shift), np.full(rounds, std), np.full(rounds, c))
    assert found == pytest.approx(mean / deviation, rel=1e-6) and found >= mean / deviation
    assert found <= math.sqrt(rounds) * shift / std * (1 + 1e-6)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_uneven_steps_are_no_better_than_the_best_choice(seed):
    """Against a search over all a_t with every z_t >= 0."""
    rng = np.random.default_rng(seed)
    rounds = 5
    s, sigma = rng.uniform(0.2, 2, rounds), rng.uniform(0.3, 3, rounds)
    c = rng.uniform(0.5, 1.0, rounds)

    def gaps(a):
        z, found = 0.0, []
        for t in range(rounds):
            z = c[t] * z + s[t] - a[t]
            found.append(z)
        return np.array(found)

    best = minimize(
        lambda a: float(np.sum((a / sigma) ** 2)),
        s,
        constraints=[
            {"type": "ineq", "fun": lambda a: gaps(a)[:-1]},
            {"type": "eq", "fun": lambda a: gaps(a)[-1]},
        ],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    found = hidden_mu(s, sigma, c) ** 2
    assert found >= best.fun * (1 - 1e-6)
    assert found <= float(np.sum((s / sigma) ** 2)) * (1 + 1e-8)
    powers = np.append(np.cumprod(c[:0:-1])[::-1], 1.0)
    exact = (powers @ s) ** 2 / (powers**2 @ sigma**2)  # of the linear chain: Gaussian
    assert found >= exact * (1 - 1e-9)


def test_it_lies_above_the_exact_loss_of_a_chain_that_is_not_linear():
    """Densities of a one-dimensional descent on a logistic loss, with and without one record, on a
    fine grid: their exact delta(epsilon) is below the bound's, and not far below."""
    grid = np.linspace(-9, 9, 901)
    width, eta, strength, std, m = grid[1] - grid[0], 1.5, 0.2, 0.35, 4
    labels = [np.array([1.0, 1.0, -1.0, 1.0]), np.array([1.0, 1.0, -1.0, -1.0])]

    def step(w, y):
        slope = (-y[:, None] / (1 + np.exp(y[:, None] * w))).mean(axis=0)
        return w - eta * slope

    densities = []
    for y in labels:
        kernel = norm.pdf(grid[:, None], step(grid / (1 + eta * strength), y)[None], eta * std)
        found = norm.pdf(grid, step(np.zeros(1), y)[0], eta * std)
        for _ in range(7):
            found = kernel @ found * width
        densities.append(found)
    p, q = densities
    assert p.sum() * width == pytest.approx(1.0, abs=1e-6)
    c = 1 / (1 + eta * strength)  # eta L = 1.5/4 <= 2
    shift = eta * 2.0 / m  # slopes of one record lie between -1 and 1
    bound = GaussianProfile(hidden_mu(np.full(8, shift), np.full(8, eta * std), np.full(8, c)))
    whole = GaussianProfile(math.sqrt(8) * shift / (eta * std))
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        exact = max(
            float(np.maximum(a - math.exp(epsilon) * b, 0).sum() * width)
            for a, b in ((p, q), (q, p))
        )
        assert exact <= bound.delta(epsilon) < whole.delta(epsilon)
    assert float(np.maximum(p - q, 0).sum() * width) > 0.2 * bound.delta(0.0)


def test_iterates_in_the_output_are_charged_in_full():
    z, c = np.full(6, 2.0), np.full(6, 0.7)
    last, all_seen = (descent_mu(z, Descent(np.ones(6), c, seen)) for seen in (1, 6))
    assert last < descent_mu(z, Descent(np.ones(6), c, 3)) < all_seen
    assert all_seen == pytest.approx(math.sqrt(6) / 2.0, rel=1e-8)


def statement(method, strength=0.1, output=None, sizes=(20, 30, 40, 50), rounds=6, **settings):
    problem = tc.Problem(shards(list(sizes), 3), classes=("no", "yes"), strength=strength)
    budget = tc.Privacy(1.0, 1e-5)
    return tc.simulate(
        problem,
        tc.graph.ring(len(sizes)),
        method,
        rounds,
        budget,
        seed=0,
        output=output,
        **settings,
    ).privacy


def test_means_are_hidden_by_the_noise_of_all_nodes():
    """By hand: mu_i = sqrt(T) s_i/sqrt(sum sigma_j^2), with s_i falling as 1/m_i; without strong
    convexity nothing is forgotten."""
    found = statement(tc.algorithms.TreeGD(noise="independent"), strength=0.0)
    z = np.array([found.ledger(i)[0][0].noise_multiplier for i in range(4)])
    s = 1 / np.array([20.0, 30.0, 40.0, 50.0])
    mu = math.sqrt(6) * s / math.sqrt(float(np.sum((z * s) ** 2)))
    np.testing.assert_allclose(found.hidden.mu, mu, rtol=1e-9)
    final = found.final_model()
    assert final.epsilon == GaussianProfile(float(mu.max())).epsilon(1e-5) < found.epsilon
    assert final.better and "the noise of all 4 nodes" in final.why
    assert Statement.from_plain(found.to_plain()).final_model() == final


def test_who_promises_what():
    A = tc.algorithms
    averaged = statement(A.TreeGD(noise="independent")).final_model()
    last = statement(A.TreeGD(noise="independent"), output="last").final_model()
    assert last.epsilon < averaged.epsilon < 1.0 and "forgets" in last.why
    whitened = statement(A.TreeGD(noise="independent"), prepare="whitening").final_model()
    assert whitened.better and "forgets" not in whitened.why
    gossip = statement(
        A.GossipGD(noise="independent", step_size=4.0), output="last", sizes=(30, 30, 30, 30)
    )
    assert gossip.final_model().better and "all 4 nodes" not in gossip.final_model().why
    for other in (A.TreeGD(), A.GossipGD(), A.CDPADMM(), A.DPDDA(), A.PVP()):
        same = statement(other)
        assert same.final_model().epsilon == same.epsilon and not same.final_model().better
        assert "no better bound is known" in same.final_model().why
    problem = tc.Problem(
        shards([20, 20, 20], 3), classes=("no", "yes"), strength=0.1, public_sizes=[10, 10, 10]
    )
    budget, method = tc.Privacy(1.0, 1e-5), A.TreeGD(noise="independent")
    other = tc.simulate(problem, tc.graph.ring(3), method, 6, budget, seed=0, output="last")
    # Ten declared records where there are twenty: the loss may be twice as steep as is known
    assert "forgets" not in other.privacy.final_model().why and other.privacy.final_model().better
    wide = A.GossipGD(noise="independent", step_size=50.0)  # beyond 2/L: no contraction
    assert not statement(wide, output="last").final_model().better


@pytest.mark.slow
def test_an_audit_that_sees_only_the_final_model_stays_below():
    """Many runs in two worlds that differ in one record: the best threshold on the final model
    tells them apart no better than the bound allows, and by at least half as much."""
    rng = np.random.default_rng(0)
    records = [(rng.uniform(-0.2, 0.2, size=(4, 1)), rng.uniform(-1, 1, 4)) for _ in range(3)]
    ends = []
    for label in (-5.0, 5.0):
        x, y = records[0][0].copy(), records[0][1].copy()
        x[0], y[0] = 1.0, label
        problem = tc.Problem([(x, y), *records[1:]], loss="huber", strength=0.3)
        method = tc.algorithms.TreeGD(noise="independent", step_size=1.0)
        budget = tc.Privacy.from_noise(noise_multiplier=2.0, delta=1e-5)
        runs = [
            tc.simulate(problem, tc.graph.ring(3), method, 8, budget, seed=k, output="last")
            for k in range(600)
        ]
        ends.append(np.array([run.model[0] for run in runs]))
    mu = float(np.max(runs[0].privacy.hidden.mu))
    spread = math.sqrt(0.5 * (ends[0].var() + ends[1].var()))
    seen = abs(ends[1].mean() - ends[0].mean()) / spread
    error = math.sqrt(2 / 600) * (1 + seen)
    assert seen <= mu + 4 * error
    assert seen >= 0.5 * mu


def test_a_message_that_may_reach_the_radius_takes_the_bound_away():
    """Twelve saturated records put one node's message at 6: a run is refused, or not, by that
    node's noise alone, with chances 0.5 and 0.16 where one record differs. Means of nine nodes
    (mu = 1/3) would allow a gap of 0.13."""
    x, apart = np.ones((12, 1)), np.repeat([100.0, -100.0], 6)
    records = [(x, np.full(12, 100.0)), *[(x, apart)] * 8]
    budget = tc.Privacy.from_noise(noise_multiplier=1.0, delta=1e-5)
    for radius, better in ((1e9, True), (120.0, True), (60.0, False)):
        problem = tc.Problem(records, loss="huber", strength=0.0, data_norm=1.0, radius=radius)
        for method, reached in (
            (tc.algorithms.TreeGD(noise="independent"), False),
            (tc.algorithms.MomentRegression(noise="independent"), True),
        ):
            if reached:
                problem = tc.Problem(
                    records, loss="squared", data_norm=1.0, clip_norm=1.0, radius=radius
                )
            found = tc.simulate(problem, tc.graph.ring(9), method, 2, budget, seed=0).privacy
            assert found.final_model().better is better


def test_where_the_descent_begins_and_what_it_rounds_count():
    """From near the radius a descent may leave it; and float32 rounds by more than a record of
    many moves a model, so that nothing is known to be forgotten."""
    method, budget = tc.algorithms.TreeGD(noise="independent"), tc.Privacy(1.0, 1e-5)
    small = shards([20, 30, 40], 3)

    def why(records, init=None, radius=1e4):
        problem = tc.Problem(records, classes=("no", "yes"), strength=0.1, radius=radius)
        run = tc.simulate(
            problem, tc.graph.ring(3), method, 6, budget, seed=0, output="last", init=init
        )
        return run.privacy.final_model().why

    assert "forgets" in why(small) and "forgets" in why(small, [100.0, 0.0, 0.0])
    assert "forgets" not in why(small, [9990.0, 0.0, 0.0])
    single = [(x.astype(np.float32), y) for x, y in shards([20000, 20000, 20000], 3)]
    assert "forgets" not in why(single)


def test_steps_that_shrink_beyond_rounding_still_add_up():
    """The last of two steps is 1e-15 of the first: the bound is that of an allowed choice."""
    s, sigma, c = np.array([1.0, 1e-15]), np.array([1.0, 1e-15]), np.ones(2)
    mean, deviation = s.sum(), math.hypot(*sigma)
    assert hidden_mu(s, sigma, c) >= mean / deviation * (1 - 1e-12)
    rng = np.random.default_rng(0)
    for _ in range(50):
        s, sigma = 10.0 ** rng.uniform(-16, 0, 6), 10.0 ** rng.uniform(-16, 0, 6)
        found, whole = hidden_mu(s, sigma, np.ones(6)), math.sqrt(np.sum((s / sigma) ** 2))
        exact = s.sum() / math.sqrt(np.sum(sigma**2))
        assert exact * (1 - 1e-9) <= found <= whole * (1 + 1e-8)
