"""Penalties eta_i(t), rates a_i(k) and levels alpha_p(t): one for each node and round, by hand."""

from __future__ import annotations

import math
import warnings
from typing import Any

import networkx as nx
import numpy as np
import pytest

import tacenda as tc
from support import shards
from tacenda.errors import InputError, UnsupportedError

A, S = tc.algorithms, tc.schedules
SIZES, R = [12, 15, 12, 20], 0.2
GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3)])  # degrees 2, 2, 3, 1
DEGREE = np.array([2, 2, 3, 1])
ETA = S.per_node([0.5, S.geometric(0.6, 1.2), 0.9, S.listed([0.5, 0.7])])
TOLERANCE = 1e-8


def run(algorithm: Any, rounds: int, privacy: Any, blocks: Any = 1, **more: Any) -> Any:
    problem = tc.Problem(shards(SIZES, 3), classes=("no", "yes"), strength=R)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sufficient conditions that these few rounds need not meet
        return tc.simulate(
            problem,
            GRAPH,
            algorithm,
            rounds,
            privacy,
            seed=0,
            record_every=0,
            blocks=blocks,
            **more,
        )


def losses(result: Any, node: int) -> list[float]:
    return [event.epsilon for event, count in result.privacy.ledger(node) for _ in range(count)]


def test_the_papers_rate_of_each_node_and_round_in_the_objective() -> None:
    """R-ADMM: round k of node i costs (2/m_i) a_i(k) + ln(1 + c1/(m_i kappa_i)); the claim is
    (30), the largest of the nodes' sums."""
    a = S.per_node([3.0, S.geometric(2.0, 1.5), S.listed([5.0, 1.0, 2.0]), 4.0])
    eta, rounds = 0.4, 3
    result = run(A.RADMM(eta, S.per_node([1.0, 2.0, 3.0, 4.0])), rounds, tc.Privacy.from_paper(a=a))
    claims = []
    for i, m in enumerate(SIZES):
        kappa = R + 2 * eta * DEGREE[i]
        rates = [float(a(k)[i, 0]) for k in range(1, rounds + 1)]
        wanted = [2 / m * rate + math.log1p(0.25 / (m * kappa)) for rate in rates]
        assert losses(result, i) == pytest.approx(wanted, rel=1e-9)
        claims.append(sum(2 / m * (rate + 1.4 * 0.25 / kappa) for rate in rates))
    assert result.privacy.claimed == pytest.approx((max(claims), 0.0), rel=1e-9)


def test_the_papers_rate_in_the_penalty_of_each_node_and_round() -> None:
    """M-ADMM's e stands in the penalty: rate a_i/(2 eta_i(t) deg_i) in the objective, on any graph
    and with penalties that grow."""
    a, rounds = np.array([3.0, 2.0, 5.0, 4.0]), 3
    result = run(A.MADMM(ETA, 0.5), rounds, tc.Privacy.from_paper(a=a))
    for i, m in enumerate(SIZES):
        wanted = []
        for t in range(1, rounds + 1):
            pull = 2 * float(ETA(t)[i, 0]) * DEGREE[i]
            wanted.append(2 / m * a[i] / pull + math.log1p(0.25 / (m * (R + pull))))
        assert losses(result, i) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("own", [[0.0] * 4, [0.3, 0.0, 0.7, 0.1]])
@pytest.mark.parametrize("kind", ["dvp", "pvp"])
def test_the_papers_level_of_each_node_and_round(kind: str, own: Any, blocks: int) -> None:
    """Zhang and Zhu (2016): DVP's noise for alpha_p(t), line 5 as it stands, costs 2 ah + the
    curvature's logarithm; PVP's rate is rho_p m alpha_p(t)/2. Every node has a rho_p of its own
    (section 3.1)."""
    alpha = S.per_node([0.8, S.geometric(1.0, 1.3), S.listed([2.0, 1.0]), 1.5])
    eta, rounds = 0.6, 2
    algorithm = (A.DVP if kind == "dvp" else A.PVP)(eta, own_strength=own)
    result = run(algorithm, rounds, tc.Privacy.from_paper(alpha=alpha), blocks)
    levels = np.array([alpha(t)[:, 0] for t in (1, 2)])
    for i, m in enumerate(SIZES):
        rho = R + own[i]
        kappa = rho + 2 * eta * DEGREE[i]
        curve = math.log1p(0.25 / (m * kappa))
        if kind == "dvp":
            wanted = [2 * (level - 2 * curve) + curve for level in levels[:, i]]
        else:  # the centre is the node's own hidden iterate: its shift is carried on
            moved, wanted = 0.0, []
            for level in levels[:, i]:
                moved = (2 / m + 2 * eta * DEGREE[i] * moved + 2 * TOLERANCE) / kappa
                wanted.append(rho * m * level / 2 * moved)
        assert losses(result, i) == pytest.approx(wanted, rel=1e-6)
    assert result.privacy.claimed == pytest.approx((levels.max(), 0.0), rel=1e-12)


def test_nodes_with_strengths_of_their_own_agree_on_that_of_their_mean() -> None:
    own = [0.3, 0.0, 0.7, 0.2]
    problem = tc.Problem(shards(SIZES, 3), classes=("no", "yes"), strength=R)
    mean = tc.Problem(shards(SIZES, 3), classes=("no", "yes"), strength=R + float(np.mean(own)))
    found = tc.simulate(problem, GRAPH, A.ADMM(0.2, own), 300, record_every=0, output="last")
    np.testing.assert_allclose(found.models, np.tile(mean.solve(), (4, 1)), atol=1e-4)
    assert np.abs(mean.solve() - problem.solve()).max() > 1e-2


def test_a_strength_of_its_own_adds_to_the_convexity_that_protects() -> None:
    """Where the objective is more convex its minimiser moves less, and the same budget asks for
    less noise: PVP's noise is that of the same stream, divided by the factor."""
    own, eta, budget = [0.0, 2.0, 0.0, 0.0], 0.6, tc.Privacy(1.0, 1e-5)
    noise = []
    for algorithm in (A.PVP(eta), A.PVP(eta, own_strength=own)):
        said = run(algorithm, 1, budget)
        assert said.privacy.node_epsilons == pytest.approx([1.0] * 4, rel=1e-3)
        e = np.asarray(said.models) - np.asarray(run(algorithm, 1, None).models)
        noise.append(np.linalg.norm(e, axis=1))
    wider = (R + 2 * eta * DEGREE[1] + own[1]) / (R + 2 * eta * DEGREE[1])
    assert noise[0] / noise[1] == pytest.approx([1.0, wider, 1.0, 1.0], rel=1e-3)


@pytest.mark.parametrize("kind", [A.ADMM, A.DVP, A.PVP])
def test_a_strength_of_its_own_is_one_number_a_node(kind: Any) -> None:
    for wrong in (S.geometric(1.0, 1.1), [0.1, S.geometric(1.0, 1.1)]):
        with pytest.raises(InputError, match="own_strength is the same in every round"):
            kind(0.5, own_strength=wrong)
    with pytest.raises(InputError, match="own_strength"):
        kind(0.5, own_strength=-0.1)
    with pytest.raises(InputError, match="own_strength"):
        run(kind(0.5, own_strength=[0.1, 0.2]), 2, None)


def test_a_sound_budget_is_spread_by_each_node_in_its_own_way() -> None:
    """Every node meets its own epsilon; its rounds' shares are those that it asked for."""
    spread = S.per_node([1.0, S.listed([1.0, 3.0]), S.geometric(1.0, 0.5), 2.0])
    epsilon = [1.0, 1.0, 2.0, 0.5]
    privacy = tc.Privacy(epsilon, 1e-5, spread=spread)
    result = run(A.DVP(0.6), 2, privacy)
    assert result.privacy.node_epsilons == pytest.approx(epsilon, rel=1e-3)
    ratios = [losses(result, i)[-1] / losses(result, i)[0] for i in range(4)]
    assert ratios == pytest.approx([1.0, 3.0, 0.5, 1.0], rel=1e-9)
    gaussian = run(A.IPADMM(0.1, S.per_node([1.0, 2.0, 3.0, 4.0]), 1), 2, privacy)
    assert gaussian.privacy.node_epsilons == pytest.approx(epsilon, rel=1e-3)
    z = [
        [e.noise_multiplier for e, c in gaussian.privacy.ledger(i) for _ in range(c)]
        for i in (1, 2)
    ]
    assert z[0][0] / z[0][1] == pytest.approx(math.sqrt(3.0), rel=1e-9)
    assert z[1][0] / z[1][1] == pytest.approx(math.sqrt(0.5), rel=1e-9)


@pytest.mark.parametrize(
    ("own", "common"),
    [
        (A.MADMM([0.5] * 4), A.MADMM(0.5)),
        (A.MADMM(np.full((2, 4), 0.5)), A.MADMM(0.5)),
        (A.RADMM(0.5, [0.2] * 4), A.RADMM(0.5, 0.2)),
        (A.CDPADMM(proximal=[1.5] * 4), A.CDPADMM(proximal=1.5)),
        (A.IPADMM(proximal=[1.5] * 4, inner_steps=2), A.IPADMM(proximal=1.5, inner_steps=2)),
    ],
)
def test_equal_values_are_the_common_value_to_the_bit(own: Any, common: Any) -> None:
    privacy = tc.Privacy(2.0, 1e-5)
    a, b = run(own, 3, privacy), run(common, 3, privacy)
    assert np.array_equal(a.models, b.models)
    assert a.privacy.epsilon == b.privacy.epsilon
    for paper in ({"a": [2.0] * 4}, {"a": S.constant(2.0)}):
        if isinstance(common, (A.MADMM, A.RADMM)):
            a = run(own, 3, tc.Privacy.from_paper(**paper))
            b = run(common, 3, tc.Privacy.from_paper(a=2.0))
            assert np.array_equal(a.models, b.models) and a.privacy.claimed == b.privacy.claimed


def test_blocks_give_the_same_bits() -> None:
    """The dual step is one for all nodes, wherever they are hosted."""
    privacy = tc.Privacy(3.0, 1e-5, spread=S.per_node([1.0, S.power(1.0, 0.5), 1.0, 1.0]))
    for algorithm in (A.MADMM(ETA), A.RADMM(0.5, S.per_node([1.0, 2.0, 3.0, 4.0]))):
        one = run(algorithm, 3, privacy)
        for blocks in (2, [[3, 1], [0], [2]]):
            other = run(algorithm, 3, privacy, blocks)
            assert np.array_equal(one.models, other.models)
            assert np.array_equal(one.privacy.node_epsilons, other.privacy.node_epsilons)


@pytest.mark.slow
def test_an_attack_on_a_node_with_values_of_its_own_comes_close_to_its_cost() -> None:
    """Neither too little noise nor too much: the attacked node spends three quarters of its budget
    in the second round, and has a proximal weight of its own."""
    from tacenda.auditing.attack import audit

    spread = S.per_node([1.0, S.listed([1.0, 3.0]), 1.0, 2.0])
    found = audit(
        A.IPADMM(0.1, [1.0, 2.0, 3.0, 4.0], inner_steps=1),
        privacy=tc.Privacy(8.0, 1e-5, spread=spread),
        rounds=2,
        graph=GRAPH,
        records=12,
        dim=3,
        trials=6000,
        node=1,
        seed=0,
        progress=False,
    )
    assert found.mu_lower is not None and found.mu_claimed is not None
    assert 0.8 * found.mu_claimed < found.mu_lower <= found.mu_claimed


def test_own_penalties_still_lead_to_the_optimum() -> None:
    problem = tc.Problem(shards(SIZES, 3), classes=("no", "yes"), strength=R)
    result = tc.simulate(
        problem, GRAPH, A.MADMM([0.1, 0.2, 0.15, 0.3]), 400, solver_tolerance=1e-11
    )
    assert np.abs(result.models - problem.solve()).max() < 1e-7


def test_refusals_name_the_node() -> None:
    none = tc.Privacy(1.0)
    with pytest.raises(InputError, match="MADMM.penalty of node 2 must be a number above 0"):
        A.MADMM([1.0, 1.0, 0.0, 1.0])
    with pytest.raises(InputError, match="one value for each of the 4 nodes, not 3: node 3 has"):
        run(A.MADMM([1.0, 1.0, 1.0]), 2, none)
    falling = S.per_node([1.0, 1.0, S.geometric(1.0, 0.9), 1.0])
    with pytest.raises(InputError, match="MADMM.penalty of node 2 must not decrease"):
        run(A.MADMM(falling), 2, none)
    with pytest.raises(InputError, match="first penalty of node 3 0.4, not 0.5"):
        run(A.MADMM([1.0, 1.0, 1.0, 0.4], 0.5), 2, none)
    with pytest.raises(InputError, match="DVP.penalty must be one value for all nodes"):
        A.DVP([1.0, 1.0, 1.0, 1.0])
    with pytest.raises(InputError, match="spread must hold one value for each of the 4 nodes"):
        run(A.DVP(), 2, tc.Privacy(1.0, spread=S.per_node([1.0])))
    late = S.per_node([1.0, S.listed([1.0, 0.0]), 1.0, 1.0])
    with pytest.raises(InputError, match=r"above 0.*see node 1"):
        run(A.DVP(), 2, tc.Privacy(1.0, spread=late))
    with pytest.raises(InputError, match="spread must be left 'uniform' where alpha"):
        run(A.DVP(), 2, tc.Privacy.from_paper(alpha=[1.0] * 4, spread=[1.0, 2.0]))
    with pytest.raises(UnsupportedError, match="who must draw alike"):
        run(A.GossipGD(), 2, tc.Privacy(1.0, spread=S.per_node([1.0, 1.0, 1.0, 2.0])))


def test_a_file_holds_them() -> None:
    """A list in TOML is a value for each node; what is written reads back."""
    import tomllib

    text = 'penalty = [0.5, {schedule = "geometric", start = 0.6, ratio = 1.2}, 0.9, 1.0]'
    made = A.by_name("madmm", **tomllib.loads(text))
    assert made.penalty == S.PerNode((0.5, S.geometric(0.6, 1.2), 0.9, 1.0))
    assert A.from_plain(made.to_plain()) == made
    plain = tc.Privacy.from_paper(alpha=[0.5, S.power(1.0, 0.5)]).to_plain()
    assert plain["noise"]["alpha"]["values"][1] == {
        "schedule": "power",
        "start": 1.0,
        "exponent": 0.5,
    }
