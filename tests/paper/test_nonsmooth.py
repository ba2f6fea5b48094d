"""Gauthier et al. (2020) with what is not smooth: least absolute deviations, |D w|_1, subgradients,
the level of the first round, and convergence for every R below 1."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import tacenda as tc
from tacenda.errors import InputError, UnsupportedError
from tacenda_papers import theory

A = tc.algorithms
N, M, D = 5, 30, 6
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, M, D))
X /= np.linalg.norm(X, axis=2, keepdims=True)
TRUTH = np.array([0.8, 0.8, 0.8, -0.5, -0.5, -0.5])
Y = X @ TRUTH + 0.1 * RNG.standard_t(2, size=(N, M))
FUSED = np.diff(np.eye(D), axis=0)
R = 0.02
GRAPH = tc.graph.complete(N)


def problem(**settings: Any) -> tc.Problem:
    shards = [(X[i], Y[i]) for i in range(N)]
    chosen = {"loss": "absolute-deviation", "strength": R, "data_norm": 1.0 + 1e-9, **settings}
    return tc.Problem(shards, **chosen)


def lad_optimum(matrix: np.ndarray) -> np.ndarray:
    """min mean |x.w - y| + R |matrix w|_1 as a linear programme."""
    x, y, k, total = X.reshape(-1, D), Y.reshape(-1), len(matrix), N * M
    cost = np.concatenate([np.zeros(D), np.full(total, 1 / total), np.full(k, R)])
    rows = []
    for sign in (1, -1):
        rows.append(np.hstack([sign * x, -np.eye(total), np.zeros((total, k))]))
        rows.append(np.hstack([sign * matrix, np.zeros((k, total)), -np.eye(k)]))
    limits = np.concatenate([y, np.zeros(k), -y, np.zeros(k)])
    free = [(None, None)] * D + [(0, None)] * (total + k)
    return np.asarray(linprog(cost, np.vstack(rows), limits, bounds=free).x[:D])


@pytest.mark.parametrize("step", ["subgradient", "prox"])
def test_absolute_deviations_with_a_generalised_lasso(step: str) -> None:
    """Both are without derivatives; the objective comes close to the linear programme's."""
    data = problem(regulariser=tc.regularisers.GeneralisedLasso(FUSED))
    best = lad_optimum(FUSED)
    algorithm = A.CDPADMM(0.1, tc.schedules.power(0.5, 0.5), regulariser_step=step)
    result = tc.simulate(data, GRAPH, algorithm, 250, output="average", record_every=0)
    start, least = data.objective(np.zeros(D)), data.objective(best)
    gap = (data.objective(result.model) - least) / (start - least)
    assert 0 <= gap < 0.05, gap
    if step == "prox":
        private = tc.simulate(
            data, GRAPH, algorithm, 20, tc.Privacy(3.0, 1e-5), seed=0, record_every=0
        )
        assert private.privacy is not None
        assert private.privacy.epsilon == pytest.approx(3.0, rel=1e-3)


@pytest.mark.parametrize("matrix", [FUSED, 2 * np.eye(4), RNG.normal(size=(5, 3))])
def test_the_prox_of_a_generalised_lasso(matrix: np.ndarray) -> None:
    """A minimiser of a 1-strongly convex function: every other point is higher by half of the
    squared distance."""
    regulariser, rng = tc.regularisers.GeneralisedLasso(matrix), np.random.default_rng(1)
    w = rng.normal(size=(3, matrix.shape[1]))
    steps = np.array([[0.1], [0.7], [5.0]])
    found = regulariser.checked(matrix.shape[1]).prox(w, steps)
    for row, (step,), v in zip(w, steps, found, strict=True):
        moves = rng.normal(size=(3000, len(row))) * 10.0 ** rng.uniform(-6, 0, size=(3000, 1))
        at = np.vstack([v, v + moves])
        height = step * np.abs(at @ matrix.T).sum(axis=1) + 0.5 * ((at - row) ** 2).sum(axis=1)
        assert np.all(height[1:] >= height[0] + 0.5 * (moves**2).sum(axis=1) - 1e-12)
    np.testing.assert_allclose(regulariser.value(w), np.abs(w @ matrix.T).sum(axis=1))
    np.testing.assert_allclose(regulariser.gradient(w), np.sign(w @ matrix.T) @ matrix)


def test_a_generalised_lasso_is_l1_where_the_matrix_is_one() -> None:
    own = problem(regulariser=tc.regularisers.GeneralisedLasso(np.eye(D)))
    plain = problem(regulariser="l1")
    algorithm = A.CDPADMM(0.1, 1.0)
    a, b = (
        tc.simulate(data, GRAPH, algorithm, 10, tc.Privacy(1.0), seed=3, record_every=0)
        for data in (own, plain)
    )
    np.testing.assert_allclose(a.models, b.models, rtol=1e-12, atol=1e-14)


def test_matrices_that_are_none_are_refused() -> None:
    for wrong in ([1.0, 2.0], np.zeros((0, 3)), [[np.nan, 1.0]]):
        with pytest.raises(InputError, match=r"GeneralisedLasso\.matrix must be a finite matrix"):
            tc.regularisers.GeneralisedLasso(wrong)
    wide = tc.regularisers.GeneralisedLasso(RNG.normal(size=(201, 2)))
    with pytest.raises(UnsupportedError, match="declared without prox"):
        wide.prox(np.ones(2), 1.0)


def test_a_run_as_published_takes_the_subgradient() -> None:
    """r sign(w) stands in the query: after one round from 1, by hand."""
    data = problem(loss="squared", regulariser="l1", clip_norm=50.0)
    start, rho, eta = np.full(D, 0.3), 0.2, 0.7
    privacy = tc.Privacy.from_paper(phi_1=1e26)
    published = tc.simulate(
        data, GRAPH, A.CDPADMM(rho, eta), 1, privacy, seed=0, init=start, record_every=0
    )
    weight, degree = 2 * rho * (N - 1) + eta, N - 1
    for i in range(N):
        slope = X[i].T @ (X[i] @ start - Y[i]) / M
        wanted = (eta * start + 2 * rho * degree * start - slope - R * np.sign(start)) / weight
        np.testing.assert_allclose(published.last[i], wanted, atol=1e-9)
    for kind in (A.CDPADMM, A.DDPADMM, A.IPADMM):
        assert kind().published_form().regulariser_step == "subgradient"
        asked = kind(regulariser_step="prox").published_form()
        assert asked.regulariser_step == "prox"


@pytest.mark.parametrize("decay", [0.8, 1.0])
def test_the_level_of_the_first_round_gives_all_others(decay: float) -> None:
    phi_1, rounds, delta = 0.01, 4, 1e-5
    privacy = tc.Privacy.from_paper(phi_1=phi_1, delta=delta)
    algorithm = A.CDPADMM(0.2, 0.7, variance_decay=decay)
    said: Any = tc.simulate(problem(), GRAPH, algorithm, rounds, privacy, seed=0).privacy
    for node in range(N):
        levels = [
            1 / (2 * event.noise_multiplier**2) for event, c in said.ledger(node) for _ in range(c)
        ]
        wanted = [phi_1 / decay**t for t in range(rounds)]
        assert levels == pytest.approx(wanted, rel=1e-9)
    total = theory.concentrated_total(phi_1, variance_decay=decay, rounds=rounds)
    assert total == pytest.approx(sum(wanted), rel=1e-12)
    claimed = total + 2 * math.sqrt(total * math.log(1 / delta))
    assert said.claimed == pytest.approx((claimed, delta), rel=1e-9)
    assert theory.concentrated_epsilon(total, delta) == pytest.approx(claimed, rel=1e-12)


def test_the_price_of_a_last_round_is_at_least_its_own_level() -> None:
    for r in (0.3, 0.9, 1.0):
        std, s, rounds = 0.05, 0.4, 12
        by_hand = sum(s**2 / (2 * std**2 / r**k) for k in range(rounds))
        known = {"sensitivity": s, "variance_decay": r, "rounds": rounds}
        assert theory.concentrated_price(std, **known) == pytest.approx(by_hand, rel=1e-12)
        assert by_hand >= s**2 / (2 * std**2)
    assert theory.concentrated_total(1.0, variance_decay=0.5, rounds=5000) == math.inf
    with pytest.raises(InputError, match="variance_decay must be above 0 and at most 1"):
        theory.concentrated_total(1.0, variance_decay=1.5, rounds=2)


def test_the_iterates_converge_for_a_decay_below_one_at_a_price_beyond_meaning() -> None:
    """The paper's claim, on a Lasso: the normalised error falls as far as one likes; the true
    epsilon of that run is astronomical."""
    data = problem(loss="squared", regulariser="l1", clip_norm=50.0)
    algorithm = A.CDPADMM(0.05, 1.0, variance_decay=0.9, regulariser_step="prox")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an epsilon that promises nothing
        result = tc.simulate(
            data,
            GRAPH,
            algorithm,
            400,
            tc.Privacy.from_paper(phi_1=1e-3),
            seed=0,
            metrics=("distance",),
            reference="optimum",
            record_every=100,
        )
    error = result.history["distance"]
    assert error[0] > 1e-2 and error[-1] < 1e-6
    assert result.privacy is not None and result.privacy.epsilon > 1e6
