"""Without noise every algorithm reaches the centralised optimum,
whatever the graph, with nodes of different sizes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import LEAST_SQUARES, TUNED, shards, simulate, uneven
from tacenda.algorithms.registry import ALGORITHMS

A = tc.algorithms
run = partial(simulate, output="last")
GRAPHS = {
    "ring": lambda: tc.graph.ring(7),
    "star": lambda: tc.graph.star(7),
    "complete": lambda: tc.graph.complete(7),
    "erdos-renyi": lambda: tc.graph.erdos_renyi(7, 0.5, seed=3),
    "path": lambda: tc.graph.path(7),
}
EXACT = [name for name in TUNED if name not in ("dda", "dpdda", "gossipgd")]


@pytest.fixture(scope="module")
def data() -> Any:
    return tc.Problem(shards(uneven(7, seed=2), 4, seed=2), strength=0.2, classes=("no", "yes"))


def sklearn_optimum(data: Any, parts: list[Any]) -> Any:
    """The same optimum by scikit-learn: weights c/m_i a record, C = 1/(n r)."""
    from sklearn.linear_model import LogisticRegression

    x, y = np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
    weights = np.repeat([data.loss_scale / len(y) for _, y in parts], [len(y) for _, y in parts])
    inverse = 1 / (len(parts) * data.strength)
    model = LogisticRegression(
        C=inverse, fit_intercept=False, tol=1e-12, max_iter=10_000, solver="newton-cholesky"
    )
    model.fit(x, y, sample_weight=weights)
    return model.coef_[0]


def test_the_reference_is_scikit_learns(data: Any) -> None:
    assert (
        np.abs(data.solve() - sklearn_optimum(data, shards(uneven(7, seed=2), 4, seed=2))).max()
        < 1e-8
    )


def test_every_algorithm_of_the_registry_is_tuned_here() -> None:
    assert {*TUNED, *LEAST_SQUARES} == set(ALGORITHMS)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", EXACT)
def test_admms_reach_the_optimum(data: Any, name: str, graph: str) -> None:
    if name == "dpadmm" and graph not in ("star", "complete"):
        pytest.skip("needs a hub")
    best = sklearn_optimum(data, shards(uneven(7, seed=2), 4, seed=2))
    result = run(data, GRAPHS[graph](), TUNED[name], 700, solver_tolerance=1e-11)
    assert np.abs(result.models - best).max() < 1e-8


@pytest.mark.parametrize("n", [3, 4, 9, 12])
def test_the_star_method_on_more_stars(n: int) -> None:
    data = tc.Problem(shards(uneven(n, seed=n), 3, seed=n), strength=0.3, classes=("no", "yes"))
    result = run(data, tc.graph.star(n), TUNED["dpadmm"], 2500)
    assert np.abs(result.models - data.solve()).max() < 1e-8


@pytest.mark.parametrize("graph", GRAPHS)
def test_dual_averaging_with_linear_weights_falls_like_one_over_t(data: Any, graph: str) -> None:
    best, network = data.solve(), GRAPHS[graph]()
    errors = [
        np.abs(run(data, network, A.DPDDA(offset=0.0), t).models - best).max() for t in (400, 2400)
    ]
    assert errors[1] < 3e-3
    assert errors[1] < errors[0] / 4  # 6 if exactly 1/t


class Quartic(A.DPDDA):
    """d(x) = |x|^2/2 + |x|_4^4/4, coordinate by coordinate."""

    def point(self, node: Any, z: Any, total: float, gamma: float) -> Any:
        r = node.facts.constants.strength
        x = node.dual_step(z, total, gamma)
        for _ in range(50):  # Newton: z + (total r + gamma) x + gamma x^3 = 0 is increasing in x
            slope = total * r + gamma + 3 * gamma * x**2
            x = x - (z + (total * r + gamma) * x + gamma * x**3) / slope
        return x


def test_dual_averaging_with_another_d(data: Any) -> None:
    """Liu et al. (2022) let d be any function of modulus 1. The point is computed from released
    values, so that the promise is the same."""
    gaps = []
    for kind in (A.DPDDA, Quartic):
        run = tc.simulate(data, GRAPHS["ring"](), kind(offset=2.0), 400, output="average")
        gaps.append(data.objective(run.model) - data.objective(data.solve()))
    assert max(gaps) < 2e-3 and gaps[0] != gaps[1]
    said = [
        tc.simulate(data, GRAPHS["ring"](), kind(offset=2.0), 3, tc.Privacy(1.0), seed=0).privacy
        for kind in (A.DPDDA, Quartic)
    ]
    assert said[0].ledger(0) == said[1].ledger(0)


@pytest.mark.parametrize("graph", GRAPHS)
def test_plain_dual_averaging_falls_like_the_root_of_t(data: Any, graph: str) -> None:
    """gamma(t) grows like sqrt(t) against A(t) = t, so the bias falls like 1/sqrt(t)."""
    best, network = data.solve(), GRAPHS[graph]()
    small = A.DDA(offset=tc.schedules.square_root(0.0, 0.01))
    errors = [np.abs(run(data, network, small, t).models - best).max() for t in (300, 3000)]
    assert errors[1] < 3e-2
    assert errors[1] < errors[0] / 2.5  # 3.2 if exactly 1/sqrt(t)


def test_gossip_descent(data: Any) -> None:
    """Exact where one mixing is the average; elsewhere a constant step keeps a bias, and a falling
    one does not."""
    best = data.solve()
    assert (
        np.abs(run(data, tc.graph.complete(7), TUNED["gossipgd"], 400).models - best).max() < 1e-8
    )
    falling = A.GossipGD(step_size=tc.schedules.power(2.0, -0.5))
    errors = [
        np.abs(run(data, tc.graph.ring(7), falling, t).models - best).max() for t in (100, 2500)
    ]
    assert errors[1] < min(5e-2, errors[0] / 2.5)  # 5 if exactly the root


@pytest.mark.slow
def test_dual_averaging_to_the_golden_figure(data: Any) -> None:
    """A few 1e-5 after 4e4 steps."""
    result = run(data, tc.graph.complete(7), A.DPDDA(offset=0.0), 40_000)
    assert np.abs(result.models - data.solve()).max() < 5e-5


def lasso_by_sklearn(parts: list[Any], r: float) -> Any:
    """(1/n) sum_i (1/m_i) sum_j (x.w - y)^2 / 2 + r |w|_1, as scikit-learn weighs it."""
    from sklearn.linear_model import Lasso

    x, y = np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
    weights = np.repeat([1 / len(y) for _, y in parts], [len(y) for _, y in parts])
    model = Lasso(alpha=r, fit_intercept=False, tol=1e-14, max_iter=1_000_000)
    return model.fit(x, y, sample_weight=weights * len(y) / weights.sum()).coef_


LASSO = [
    A.IPADMM(penalty=0.05, proximal=0.3, inner_steps=2),
    A.DDPADMM(penalty=0.05, proximal=0.3),
    A.CDPADMM(penalty=0.05, proximal=0.3, regulariser_step="prox"),
]


@pytest.mark.parametrize("algorithm", LASSO, ids=lambda a: a.name)
@pytest.mark.parametrize("graph", ["ring", "star", "complete", "erdos-renyi"])
def test_lasso_against_scikit_learn(algorithm: Any, graph: str) -> None:
    parts = shards(uneven(7, seed=5, low=20), 6, seed=5, task="regression")
    data = tc.Problem(parts, loss="squared", regulariser="l1", strength=0.05)
    best = lasso_by_sklearn(parts, 0.05)
    assert 0 < np.count_nonzero(best) < 6  # the case is worth testing: some coefficients are zero
    result = run(data, GRAPHS[graph](), algorithm, 1500)
    assert np.abs(result.models - best).max() < 1e-8
    # A mean of inner iterates may keep a last bit; the prox itself gives true zeros
    if algorithm.name != "ipadmm":
        assert np.array_equal(result.models == 0, np.broadcast_to(best == 0, result.models.shape))


@pytest.mark.parametrize("name", ["admm", "pvp", "ipadmm", "radmm"])
def test_three_classes_and_growing_penalties(name: str) -> None:
    data = tc.Problem(
        shards(uneven(5, seed=1), 3, seed=1, task="classes"),
        loss="multinomial",
        strength=0.2,
        classes=(0, 1, 2),
    )
    result = run(data, tc.graph.complete(5), TUNED[name], 700, solver_tolerance=1e-11)
    assert result.models.shape == (5, 3, 3)
    assert np.abs(result.models.reshape(5, -1) - data.solve()).max() < 1e-8


def test_m_admm_and_recycled_admm_with_a_growing_penalty(data: Any) -> None:
    """The penalty rises to twice its start and stays there; both still converge."""
    grow = tc.schedules.listed([0.1 + 0.001 * t for t in range(100)])
    for algorithm in (A.MADMM(penalty=grow), A.RADMM(penalty=grow, recycle_proximal=0.3)):
        result = run(data, tc.graph.complete(7), algorithm, 2500, solver_tolerance=1e-11)
        assert np.abs(result.models - data.solve()).max() < 1e-8


def test_a_start_elsewhere_ends_at_the_same_place(data: Any) -> None:
    for name in ("admm", "radmm", "ipadmm"):
        result = run(
            data,
            tc.graph.ring(7),
            TUNED[name],
            700,
            init=np.array([1.0, -2.0, 0.5, 3.0]),
            solver_tolerance=1e-11,
        )
        assert np.abs(result.models - data.solve()).max() < 1e-8


def test_closing_mixing_rounds_bring_the_nodes_together(data: Any) -> None:
    """They cost no privacy, and a doubly stochastic matrix keeps the average."""
    private = tc.Privacy.from_noise(noise_multiplier=5.0)
    plain, mixed = (
        run(data, tc.graph.ring(7), TUNED["ipadmm"], 20, privacy=private, seed=1, finish_mixing=k)
        for k in (0, 200)
    )
    assert np.abs(mixed.models - plain.model).max() < 1e-9
    assert np.ptp(plain.models, axis=0).max() > 1e-3
    assert mixed.privacy.epsilon == plain.privacy.epsilon
