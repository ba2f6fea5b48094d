"""A curve is one thing, read from either side; and noise that was solved for is enough, and not
much more than enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import networkx as nx
import numpy as np
import pytest

import tacenda as tc
from tacenda.errors import InputError, PrivacyError
from tacenda.graph import coalition
from tacenda.graph.topology import Topology
from tacenda.privacy.accounting import events as ev
from tacenda.privacy.accounting.calibration import gaussian_mu, solve_scale
from tacenda.privacy.accounting.curves import (
    GaussianProfile,
    GroupProfile,
    ZcdpProfile,
    gaussian_log_delta,
)
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.accounting.pure import PureProfile
from tacenda.privacy.secrets.discrete_charges import as_discrete
from tacenda.privacy.secrets.ledger import Charge
from tacenda.privacy.secrets.noise_plan import round_weights

PROFILES = {
    "gaussian": GaussianProfile(0.4),
    "loud gaussian": GaussianProfile(6.0),
    "pure": PureProfile(0.1, 30),
    "many pure": PureProfile(0.02, 400),
    "zcdp": ZcdpProfile(0.08),
    "group": GroupProfile(GaussianProfile(0.1), 3),
}


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 2.5])
def test_epsilon_undoes_delta(name: str, epsilon: float) -> None:
    """Also where delta is large, and epsilon far below one."""
    profile = PROFILES[name]
    delta = profile.delta(epsilon)
    found = profile.epsilon(delta)
    assert found == pytest.approx(epsilon, rel=1e-6 if name != "zcdp" else 1e-3)
    assert profile.delta(found) <= delta * (1 + 1e-12 if name != "zcdp" else 1.001)


@pytest.mark.parametrize("name", PROFILES)
def test_where_no_privacy_is_asked_for_epsilon_is_zero(name: str) -> None:
    assert PROFILES[name].epsilon(1.0) == 0.0
    assert PROFILES[name].delta(0.0) < 1.0


def test_what_is_lost_for_certain() -> None:
    assert judge([(ev.Gaussian(2.0), 1)]).delta(math.inf) == 0.0
    assert judge([(ev.Gaussian(0.0), 1)]).delta(math.inf) == 1.0


def mp_delta(mu: Any, epsilon: Any) -> Any:
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(
            -epsilon / mu - mu / 2
        )


@pytest.mark.parametrize("mu", [1e-4, 0.03, 0.5, 3.0, 9.0, 10.5, 11.5, 40.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.2, 1.0, 30.0, 700.0])
def test_gaussian_delta_in_sixty_digits(mu: float, epsilon: float) -> None:
    """Every branch of the closed form: far tails, cancelling terms, and noise so small that delta
    is nearly one."""
    true = mp_delta(mu, epsilon)
    if true < mpmath.mpf(10) ** -300:
        assert gaussian_log_delta(mu, epsilon) < -680
    else:
        assert gaussian_log_delta(mu, epsilon) == pytest.approx(
            float(mpmath.log(true)), rel=1e-9, abs=1e-12
        )


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1, 0.5, 0.9])
def test_the_largest_mu_meets_its_target_and_no_larger_one_does(
    epsilon: float, delta: float
) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert mp_delta(mu, epsilon) <= delta
    assert mp_delta(mu * (1 + 1e-9), epsilon) > delta


SOLVED: dict[str, tuple[Callable[[float], Any], float, float]] = {
    "gaussian": (lambda k: [(ev.Gaussian(3 * k), 7)], 0.8, 1e-5),
    "two gaussians": (
        lambda k: [(ev.Gaussian(3 * k), 7), (ev.CorrelatedGaussian(0.2 / k, 1), 2)],
        0.8,
        1e-5,
    ),
    "discrete": (lambda k: [(ev.DiscreteGaussian(2 * k), 5)], 1.5, 1e-4),
    "pure": (lambda k: [(ev.Pure(0.4 / k), 12)], 0.7, 1e-3),
    "pure, exactly": (lambda k: [(ev.Pure(0.4 / k), 12)], 0.7, 0.0),
    "laplace, exactly": (
        lambda k: [(ev.L2Laplace(0.4 / k, 3), 2), (ev.Pure(0.1 / k), 1)],
        0.7,
        0.0,
    ),
    "not in proportion": (lambda k: [(ev.Gaussian(k * k), 3), (ev.Gaussian(1 + k), 1)], 1.0, 1e-3),
}


@pytest.mark.parametrize("name", SOLVED)
@pytest.mark.parametrize("hint", [None, 0.05, 40.0])
def test_a_solved_scale_is_enough_and_hardly_more(name: str, hint: float | None) -> None:
    at, epsilon, delta = SOLVED[name]
    k = solve_scale(at, epsilon, delta, hint=hint)

    def met(scale: float) -> bool:
        curve = judge(at(scale))
        return (
            curve.pure_epsilon <= epsilon * (1 + 1e-12)
            if delta == 0
            else curve.delta(epsilon) <= delta
        )

    assert met(k)
    assert not met(k * (1 - 3e-6))


def test_targets_that_mean_nothing_are_refused() -> None:
    pure: Callable[[float], Any] = lambda k: [(ev.Pure(0.4 / k), 12)]  # noqa: E731
    for delta in (1.0, 2.0, -1e-9, math.nan):
        with pytest.raises(InputError, match="delta"):
            solve_scale(pure, 1.0, delta)
        with pytest.raises(InputError, match="delta"):
            gaussian_mu(1.0, delta)
    for epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="epsilon"):
            gaussian_mu(epsilon, 1e-5)
    with pytest.raises(PrivacyError, match="delta must be above 0"):
        gaussian_mu(1.0, 0.0)
    with pytest.raises(PrivacyError, match="delta must be above 0"):
        solve_scale(lambda k: [(ev.Gaussian(k), 1)], 1.0, 0.0)
    with pytest.raises(InputError, match="at least one event"):
        solve_scale(lambda k: [], 1.0, 1e-5)
    with pytest.raises(PrivacyError, match="no noise scale"):
        solve_scale(lambda k: [(ev.Pure(2.0 + 0.1 / k), 1)], 1.0, 1e-9)
    with pytest.raises(PrivacyError, match="no noise scale"):  # missed by less than a factor e
        solve_scale(lambda k: [(ev.Pure(2.0 + 0.1 / k), 1)], 1.0, 0.0)
    with pytest.raises(InputError, match="no noise at all"):
        solve_scale(lambda k: [(ev.Pure(min(0.1 / k, 0.2)), 1)], 1.0, 1e-9)


def test_a_run_of_no_rounds_has_no_shares() -> None:
    assert round_weights([], 0).shape == (0,)
    np.testing.assert_allclose(round_weights([1.0, 3.0], 2), [0.5, 1.5])


def test_settings_that_mean_nothing_are_refused() -> None:
    wrong = {
        "node_noise": ["all"],
        "mode": ["published"],
        "adjacency": ["replace"],
        "coalition": [-1],
        "delta": [1.0, -0.1],
    }
    for name, value in [(name, value) for name, values in wrong.items() for value in values]:
        with pytest.raises(InputError, match=name):
            tc.Privacy(1.0, **{name: value})


@pytest.mark.parametrize(
    "kind", [ev.Pure, ev.PoissonGaussian, ev.CorrelatedGaussian, ev.DiscreteGaussian]
)
def test_only_plain_gaussians_become_whole_numbers(kind: Any) -> None:
    with pytest.raises(PrivacyError, match="not on the integer lattice"):
        as_discrete(Charge(kind, {"noise_multiplier": np.ones(2)}))


# ---- leverage where no inverse is formed


@pytest.mark.parametrize("q", [0, 1, 3])
def test_the_bound_of_a_large_graph_is_its_formula(q: int) -> None:
    """1/k + (1 - 1/k)/(1 + c^2 gap), k = n - q left, gap = the second eigenvalue less q; here by
    numpy's own eigenvalues."""
    graph, c = nx.random_regular_graph(8, 30, seed=3), 1.7
    gap = (
        float(np.sort(np.linalg.eigvalsh(nx.laplacian_matrix(graph).toarray().astype(float)))[1])
        * (1 - 1e-3)
        - q
    )
    k = 30 - q
    found = coalition._bound(Topology.of(graph), c, q)
    np.testing.assert_allclose(
        found, 1 / k + (1 - 1 / k) / (1 + c * c * gap) if gap > 0 else 1.0, rtol=1e-6
    )


@pytest.mark.parametrize("q", [0, 2, 5])
def test_a_complete_graph_by_its_eigenvalues(q: int) -> None:
    n, c = 7, 0.9
    k = max(n - q, 1)
    found, how = coalition.leverage(Topology.of(tc.graph.complete(n)), c, q)
    np.testing.assert_allclose(found, 1 / k + (1 - 1 / k) / (1 + c * c * k), rtol=1e-12)
    assert how == "exact"


def test_without_edge_noise_or_neighbours_a_node_hides_itself() -> None:
    for topology, c in (
        (Topology.of(tc.graph.ring(5)), 0.0),
        (Topology.of(tc.graph.complete(1)), 3.0),
    ):
        found, how = coalition.leverage(topology, c, 1)
        np.testing.assert_array_equal(found, 1.0)
        assert how == "exact"


def test_how_a_leverage_was_found_is_told() -> None:
    """Many coalitions of a graph are not searched: the bound is used, and named."""
    topology = Topology.of(nx.random_regular_graph(12, 40, seed=1))
    assert coalition.leverage(topology, 1.0, 1)[1] == "exact"
    found, how = coalition.leverage(topology, 1.0, 5)
    assert how == "bound"
    np.testing.assert_array_equal(found, coalition._bound(topology, 1.0, 5))
    for wrong in (-1, 1.5):
        with pytest.raises(InputError, match="coalition"):
            coalition.leverage(topology, 1.0, wrong)
    with pytest.raises(InputError, match="correlation"):
        coalition.leverage(topology, -1.0, 1)


def test_a_group_has_no_delta_where_one_record_has_none() -> None:
    """Ten pure rounds of 0.1 give away at most 1, so three records at most 3: beyond that nothing
    is left to chance."""
    group = GroupProfile(PureProfile(0.1, 10), 3)
    assert group.delta(3.3) == 0.0
    assert group.delta(1.0) > 0.0


@pytest.mark.parametrize("name", [*PROFILES, "long", "strong"])
def test_a_delta_is_a_probability(name: str) -> None:
    """Also where it is 1 but for rounding, of sums over thousands of rounds."""
    more = {"long": PureProfile(1.0, 5000), "strong": PureProfile(30.0, 999)}
    profile = {**PROFILES, **more}[name]
    for epsilon in (0.0, 1e-12, 0.1, 1.0, 30.0, 700.0):
        assert 0.0 <= profile.delta(epsilon) <= 1.0
