"""From a budget to noise: what is rehearsed, grouped and reserved, against sums written out."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quickly
import tacenda as tc
from support import run_spec
from tacenda.errors import BudgetError, InputError, LeakError, PrivacyError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.privacy.accounting import events
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.secrets.ledger import Charge
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts
from tacenda.runtime import budget, rehearsal
from tacenda.runtime.budget import calibrate, kinds_of
from tacenda.runtime.host import Host
from tacenda.runtime.rehearsal import Notebook, Silence, rehearse
from tacenda.runtime.spec import RunSpec

A = tc.algorithms
GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)])  # degrees 2, 2, 3, 2, 1
SIZES = np.array([50.0, 50.0, 80.0, 50.0, 200.0])
ROUNDS = 4


def spec(algorithm: Any, privacy: Any, *, graph: Any = GRAPH, rounds: int = ROUNDS) -> RunSpec:
    constants = Constants.declared(loss="logistic", strength=0.1, loss_scale=1.5)
    topology = Topology.of(graph)
    sizes = SIZES if topology.n == 5 else np.full(topology.n, 60.0)
    return run_spec(algorithm, topology, Facts(sizes, 3, constants), rounds, privacy)


SPREADS: list[Any] = ["uniform", [1.0, 2.0, 3.0, 2.0], tc.schedules.power(1.0, 0.5)]
EVERY = [
    A.IPADMM(inner_steps=2, penalty=0.2),
    A.DPDDA(),
    A.GossipGD(noise="independent"),
    A.GossipGD(correlation=3.0),
    A.DVP(penalty=0.2),
    A.PVP(penalty=0.2),
    A.PVP(penalty=0.2, noise="gaussian"),
    A.RADMM(),
    A.CDPADMM(variance_decay=0.8),
    A.DDPADMM(),
]
WORDS = ("uniform", "listed", "schedule")
CASES = quickly.cases(
    [(algorithm, spread) for algorithm in EVERY for spread in range(3)],
    lambda case: EVERY.index(case[0]) % 3 == case[1],
    id=lambda case: f"{case[0].name}-{getattr(case[0], 'noise', '')}-{WORDS[case[1]]}",
)


@pytest.mark.parametrize(("algorithm", "spread"), CASES)
def test_every_node_loses_what_its_own_target_says(algorithm: Any, spread: int) -> None:
    """Sizes, degrees and targets differ; the reserved charges, judged again, are each node's own
    epsilon. Where neighbours share noise all draw for the worst."""
    shapes = isinstance(algorithm, (A.CDPADMM, A.DDPADMM))
    target = [2.0, 2.0, 2.0, 1.0, 3.0]
    given_ = tc.Privacy(target, 1e-5, spread=SPREADS[spread], coalition=1)
    if shapes and spread:
        with pytest.raises(UnsupportedError, match="its own spread"):
            calibrate(spec(algorithm, given_))
        return
    found = calibrate(spec(algorithm, given_))
    assert (found.claimed, found.why) == (None, None)
    lost = np.array(
        [judge(found.reserved.events(i), "replace-one").epsilon(1e-5) for i in range(5)]
    )
    if algorithm.traits.shared_noise is None:
        np.testing.assert_allclose(lost, target, rtol=2e-3)
    else:
        assert np.all(lost <= np.array(target) * (1 + 1e-6))
        assert (lost / target).max() == pytest.approx(1.0, rel=1e-4)
        assert len(set(found.plan.scale.tolist())) == 1
    assert sum(count for _, count in found.reserved) == ROUNDS * algorithm.traits.steps_per_round


@pytest.mark.parametrize(("algorithm", "spread"), CASES)
def test_noise_that_is_given_is_the_noise_of_the_first_release(algorithm: Any, spread: int) -> None:
    """z of the first round whatever shapes the noise later; or the pure epsilon of a mean round."""
    if isinstance(algorithm, (A.CDPADMM, A.DDPADMM)) and spread:
        return
    pure = algorithm.traits.noise_in_objective or getattr(algorithm, "noise", "") == "l2-laplace"
    word = {"round_epsilon": 0.6} if pure else {"noise_multiplier": 2.5}
    other = {"noise_multiplier": 2.5} if pure else {"round_epsilon": 0.6}
    with pytest.raises(InputError, match=f"give {next(iter(word))}"):
        calibrate(spec(algorithm, tc.Privacy.from_noise(**other)))
    run = spec(algorithm, tc.Privacy.from_noise(**word, spread=SPREADS[spread]))
    found = calibrate(run)
    first, _ = next(iter(found.reserved))
    if pure:
        weight = [1.0, 4 / 8, 4 / sum(math.sqrt(t) for t in (1, 2, 3, 4))][spread]
        np.testing.assert_allclose(first.parameters["epsilon"], 0.6 * weight, rtol=1e-6)
    elif algorithm.traits.shared_noise is None:
        np.testing.assert_allclose(first.parameters["noise_multiplier"], 2.5, rtol=1e-12)
    else:  # own noise of the most sensitive node, with z: the others have more
        site = rehearse(run, np.arange(5))[0][0]
        std = found.plan.scale / np.sqrt(site.weight)
        np.testing.assert_allclose((std / site.sensitivity).min(), 2.5, rtol=1e-12)


def test_what_a_rehearsal_notes() -> None:
    """One line for each run of equal releases, in order, for these nodes only."""
    sites = rehearse(spec(A.IPADMM(inner_steps=3, penalty=0.2), None), np.array([4, 2]))
    assert [(site.noise, count, site.turn) for site, count in sites] == [("gaussian", 12, 1)]
    site = sites[0][0]
    assert (site.weight, site.dim, site.relative_std, site.objective) == (1.0, 3, None, None)
    wanted = 2 * 1.5 / np.array([200.0, 80.0]) / (2 * 0.2 * np.array([1, 3]) + 1.0)
    np.testing.assert_allclose(site.sensitivity, wanted)
    assert site.sample.kind == "all"
    fading = rehearse(spec(A.CDPADMM(variance_decay=0.64), None), np.arange(5))
    assert [count for _, count in fading] == [1] * 4
    assert [s.relative_std for s, _ in fading] == pytest.approx([1.0, 0.8, 0.64, 0.512])
    assert [s.turn for s, _ in fading] == [1, 2, 3, 4]
    closing = rehearse(spec(A.PVP(closing_dvp=True), None), np.arange(5))
    assert [(s.noise, count) for s, count in closing] == [("l2-laplace", 3), ("objective", 1)]
    growing = rehearse(spec(A.DVP(penalty=tc.schedules.power(0.1, 1.0)), None), np.arange(5))
    assert [count for _, count in growing] == [1] * 4
    sampled = rehearse(spec(A.IPADMM(inner_steps=2, batch_size=5), None), np.arange(5))
    assert [(s.sample.kind, count) for s, count in sampled] == [("poisson", 8)]
    np.testing.assert_allclose(sampled[0][0].sample.rate, 5 / SIZES)
    spread = spec(A.DPDDA(), tc.Privacy(1.0, spread=[1.0, 2.0, 2.0, 3.0]))
    weights = [(s.weight, count) for s, count in rehearse(spread, np.arange(5))]
    assert weights == [(0.5, 1), (1.0, 2), (1.5, 1)]


REPEATING = [
    A.IPADMM(inner_steps=2, penalty=0.2),
    A.IPADMM(inner_steps=1, batch_size=5),
    A.DPDDA(batch_size=1),
    A.DPDDA(sampling="one", batch_size=1),
    A.DPDDA(weights="linear"),
    A.GossipGD(noise="independent", step_size=tc.schedules.power(1.0, -0.5)),
    A.GossipGD(correlation=3.0),
    A.DDPADMM(penalty=0.2),
    A.CDPADMM(variance_decay=0.9, batch_size=5),
    A.CDPADMM(variance_decay=1.0),
    A.DPADMM(noise_decay=0.5),
    A.DPADMM(noise_decay=0.0, batch_size=5),
]


def test_who_says_that_all_rounds_are_alike() -> None:
    said = {type(a) for a in [*REPEATING, *EVERY] if a.traits.repeats_releases}
    assert said == {A.IPADMM, A.DPDDA, A.GossipGD, A.DDPADMM, A.CDPADMM, A.DPADMM}
    for varying in (tc.schedules.power(0.1, 1.0), tc.schedules.Constant(0.1)):
        for method in (A.IPADMM, A.DDPADMM, A.CDPADMM, A.DPADMM):
            assert not method(penalty=varying).traits.repeats_releases
            assert not method(proximal=varying).traits.repeats_releases
    assert not A.IPADMM(proximal="theory").traits.repeats_releases


@pytest.mark.parametrize("rounds", [1, 2, 3, 7])
@pytest.mark.parametrize("spread", ["uniform", "schedule"])
@pytest.mark.parametrize("algorithm", REPEATING, ids=lambda a: a.name)
def test_two_rounds_tell_of_all_where_they_are_alike(
    algorithm: Any, spread: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_ = tc.Privacy(1.0, 1e-5, spread=SPREADS[2] if spread == "schedule" else spread)
    run = spec(algorithm, given_, rounds=rounds)
    played = []
    step = Host.step
    monkeypatch.setattr(Host, "step", lambda h, t: (played.append(t), step(h, t))[1])
    short = rehearse(run, np.arange(5))
    assert len(played) == (min(2, rounds) if spread == "uniform" else rounds)
    assert sum(count for _, count in short) == rounds * getattr(algorithm, "inner_steps", 1)
    every = replace(algorithm.traits, repeats_releases=False)
    monkeypatch.setattr(type(algorithm), "traits", every)
    whole = rehearse(run, np.arange(5))
    assert [count for _, count in short] == [count for _, count in whole]
    assert all(rehearsal._alike(a, b) for (a, _), (b, _) in zip(short, whole, strict=True))
    assert [site.turn for site, _ in short] == [site.turn for site, _ in whole]


def test_a_run_whose_rounds_are_not_alike_after_all_draws_nothing_unreserved() -> None:
    class Growing(A.IPADMM):
        traits = A.Traits(repeats_releases=True)

        def step(self, s: Any, node: Any) -> Any:
            return super().step(s, node) if node.turn < 3 else self.all_records(s, node)

        def all_records(self, s: Any, node: Any) -> Any:
            w = node.release(node.gradient(s.w))
            return type(s)(w, w, s.dual, s.heard)

    algorithm = Growing(inner_steps=1, batch_size=5)
    assert algorithm.traits.repeats_releases
    x = np.eye(4)[np.arange(40) % 4] * 0.5
    data = tc.Problem([(x, np.arange(40) % 2)] * 3, classes=(0, 1))
    with pytest.raises(BudgetError, match="Release 3 .* nothing was drawn"):
        tc.simulate(data, tc.graph.ring(3), algorithm, 4, tc.Privacy(1.0, 1e-5), 0, progress=False)


def test_a_shape_of_the_noise_that_a_step_does_not_keep_draws_nothing_unreserved() -> None:
    """Less noise than it told for round 3: refused there. Another shape in the first two rounds:
    all of them are rehearsed."""

    class Lying(A.CDPADMM):
        traits = A.Traits(repeats_releases=True)

        def step(self, s: Any, node: Any) -> Any:
            if node.turn < self.honest:
                return super().step(s, node)
            w = node.release(node.gradient(s.w) * 1e-3, relative_std=1e-9)
            return type(s)(w, w, s.dual, s.heard)

    x = np.eye(4)[np.arange(40) % 4] * 0.5
    data = tc.Problem([(x, np.arange(40) % 2)] * 3, classes=(0, 1))
    ring, budget_ = tc.graph.ring(3), tc.Privacy(1.0, 1e-5)
    late = Lying()
    object.__setattr__(late, "honest", 3)
    with pytest.raises(BudgetError, match="Release 3 .* nothing was drawn"):
        tc.simulate(data, ring, late, 4, budget_, 0, progress=False)
    early = Lying()
    object.__setattr__(early, "honest", 2)
    plan = rehearse(spec(early, budget_, rounds=4), np.arange(5))
    assert [site.relative_std for site, _ in plan] == [1.0, 1e-9]
    assert [count for _, count in plan] == [1, 3]


@pytest.mark.parametrize("told", [np.inf, -1.0, 0.0, np.nan])
@pytest.mark.parametrize("given_", [1e-3, "the same"])
def test_a_shape_that_is_no_number_above_0_is_refused_before_the_draw(
    told: float, given_: Any, tmp_path: Path
) -> None:
    """Also by what the lasting ledger holds: nothing of it was booked."""

    class Odd(A.DDPADMM):
        traits = A.Traits(repeats_releases=True)

        def relative_std(self, turn: int) -> float:
            return 1.0 if turn < 3 else told

        def step(self, s: Any, node: Any) -> Any:
            std = self.relative_std(node.turn)
            if node.turn > 2 and given_ != "the same":
                std = given_
            w = node.release(s.w - 0.5 * node.gradient(s.w, regularised=False), relative_std=std)
            return type(s)(w, w, s.dual, s.heard)

    x = np.eye(4)[np.arange(40) % 4] * 0.5
    data = tc.Problem([(x, np.arange(40) % 2)] * 3, classes=(0, 1))
    with pytest.raises(PrivacyError, match="relative_std, .* in round 3; nothing was drawn"):
        tc.simulate(
            data,
            tc.graph.ring(3),
            Odd(),
            6,
            tc.Privacy(1.0, 1e-5),
            0,
            progress=False,
            ledger=tmp_path / "l.db",
        )


@pytest.mark.parametrize("reserved", [np.inf, -5.0, np.nan])
def test_a_reservation_that_is_no_amount_of_noise_covers_nothing(reserved: float) -> None:
    def charge(z: float) -> Charge:
        return Charge(events.Gaussian, {"noise_multiplier": np.array([5.0, z])})

    assert charge(5.0).covered_by(charge(5.0)) and charge(np.inf).covered_by(charge(5.0))
    assert not charge(5.0).covered_by(charge(reserved))
    assert not charge(reserved).covered_by(charge(reserved))


@pytest.mark.parametrize(
    ("algorithm", "variances"),
    [
        (A.DDPADMM(), [1, 0.7071067811865475, 0.5773502691896258, 0.5]),  # 1/sqrt(t)
        (A.CDPADMM(variance_decay=0.81), [1, 0.81, 0.6561, 0.531441]),  # R^(t-1)
        (A.DPADMM(noise_decay=0.5), [1, 0.7071067811865475, 0.5773502691896258, 0.5]),
        (A.DPADMM(noise_decay=2.0), [1, 0.25, 0.1111111111111111, 0.0625]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_variance_of_each_round_is_that_of_the_paper(
    algorithm: Any, variances: list[float]
) -> None:
    found = calibrate(spec(algorithm, tc.Privacy(1.0, 1e-5))).reserved
    z = [charge.entries["noise_multiplier"][0] for charge in found.each()]
    np.testing.assert_allclose((np.array(z) / z[0]) ** 2, variances, rtol=1e-12)


def test_several_releases_of_a_round_are_all_reserved() -> None:
    class Twice(A.CDPADMM):
        traits = A.Traits(repeats_releases=True)

        def step(self, s: Any, node: Any) -> Any:
            for _ in range(2):
                node.release(node.gradient(s.w), relative_std=self.relative_std(node.turn))
            return s

    found = rehearse(spec(Twice(), tc.Privacy(1.0, 1e-5), rounds=5), np.arange(5))
    assert [count for _, count in found] == [2] * 5


def test_a_step_of_ones_own_is_rehearsed_for_all_rounds() -> None:
    class Late(A.CDPADMM):
        def step(self, s: Any, node: Any) -> Any:
            if node.turn < 3:
                return super().step(s, node)
            w = node.release(node.gradient(s.w, 5) * 1e-3, relative_std=0.5)
            return type(s)(w, w, s.dual, s.heard)

    plan = rehearse(spec(Late(variance_decay=1.0), tc.Privacy(1.0, 1e-5), rounds=4), np.arange(5))
    assert [(site.sample.kind, site.relative_std, count) for site, count in plan] == [
        ("all", 1.0, 2),
        ("poisson", 0.5, 2),
    ]


def test_a_notebook_takes_nothing_but_bounded_values() -> None:
    notebook = Notebook(3, np.ones(2))
    with pytest.raises(LeakError, match="release takes a Bounded"):
        notebook.release(np.zeros((1, 3)), 1, 0, "gaussian", None)  # type: ignore[arg-type]
    silence, row = Silence(), np.ones((2, 3))
    assert silence.neighbour_sum(row, (1, 0)).tolist() == np.zeros((2, 3)).tolist()
    assert silence.mix(row, (1, 0)) is row


@given(st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=40))
def test_rates_are_grouped_upwards_in_few_groups(rates: list[float]) -> None:
    """No node gets the noise of a smaller rate; those within a tenth of the largest share its; and
    there are at most five groups."""
    values = np.array(rates)
    stand_in = budget._by_largest_rate(values)
    chosen = values[stand_in]
    assert np.all(chosen >= values)
    assert np.array_equal(stand_in[stand_in], stand_in)
    assert len(set(stand_in.tolist())) <= budget.MAX_RATE_GROUPS + 1
    assert np.all(chosen[values > values.max() / budget.SIMILAR_RATES * (1 + 1e-9)] == values.max())
    if values.max() < values.min() * budget.SIMILAR_RATES ** (budget.MAX_RATE_GROUPS - 1):
        assert np.all(chosen <= values * budget.SIMILAR_RATES * (1 + 1e-9))


@given(st.lists(st.floats(-1e6, 1e6) | st.sampled_from([0.0, np.inf]), min_size=1, max_size=9))
def test_rounding_to_twelve_digits_changes_the_thirteenth_at_most(values: list[float]) -> None:
    numbers = np.array(values)
    found = budget._rounded(numbers)
    finite = np.isfinite(numbers)
    assert np.array_equal(found[~finite], numbers[~finite])
    np.testing.assert_allclose(found[finite], numbers[finite], rtol=1e-12, atol=0)
    shifted = numbers[finite] * (1 + 3e-16)
    near = np.isclose(budget._rounded(shifted), found[finite], rtol=1.1e-12, atol=0)
    assert near.all()


def test_rounding_joins_what_differs_by_rounding() -> None:
    assert len(set(budget._rounded(np.array([0.1 + 0.2, 0.3])).tolist())) == 1
    assert len(set(budget._rounded(np.array([0.3, 0.3000000001])).tolist())) == 2
    ups = budget._rounded_up(np.array([0.1234561, 0.123456, 0.9999999, 1.0, 1e-9]))
    np.testing.assert_allclose(ups, [0.123457, 0.123456, 1.0, 1.0, 1e-6], rtol=1e-12)


def test_a_published_plan_carries_its_claim() -> None:
    found = calibrate(spec(A.IPADMM(inner_steps=2), tc.Privacy(1.0, 1e-5, mode="as-published")))
    assert found.claimed == (1.0, 1e-5) and "c0" in (found.why or "")
    z = math.sqrt(2 * 2 * ROUNDS * math.log(1.25e5))
    first, count = next(iter(found.reserved))
    np.testing.assert_allclose(first.parameters["noise_multiplier"], np.full(5, z))
    assert count == 2 * ROUNDS


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.integers(0, 4), st.integers(0, 2**31))
def test_kinds_are_those_of_whole_rows(n: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    traits = [rng.integers(0, 3, n).astype(float) for _ in range(1 + count)]
    traits += [np.ones(n), rng.integers(0, 2, (n, 2)).astype(float), np.empty((n, 0))]
    _, first, kind = np.unique(
        np.column_stack(traits), axis=0, return_index=True, return_inverse=True
    )
    found = kinds_of(traits)
    assert np.array_equal(found[0], first) and np.array_equal(found[1], kind.reshape(-1))
