"""How far two records' sums are apart, by brute force; sizes of derivatives that are released
first; what a question pays for both; and intervals that are narrow for it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

import tacenda as tc
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.errors import InputError
from tacenda.estimators import PrivatePoissonRegressor, PrivateRidge
from tacenda.inference import GradientMoments, LossScales
from tacenda.inference.scales import BINS, SHARE, scales_of
from tacenda.inference.statistics import NONE, SCALAR
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import bound_of
from tacenda.questions.facts import Facts
from tacenda.questions.lattice import LatticeQueries
from tacenda.questions.statistics import ROUGHNESS, Records, enforced

LOGISTIC = GradientMoments(3, "logistic")
KINDS = (
    LOGISTIC,
    replace(LOGISTIC, spread=NONE),
    replace(LOGISTIC, curvature=False),
    GradientMoments(3, "squared", slope=0.3),
    GradientMoments(3, "squared", slope=0.3, spread=SCALAR),
    GradientMoments(3, "poisson", (("label_bound", 9.0),), 2.0, slope=0.2, bend=0.1),
)


def records_of(asked: GradientMoments, x: Any, s: Any, y: Any) -> Records:
    kind = asked._loss.kind
    return Records(x, y, 1, kind, lambda _: np.asarray(s, float)[:, None])


@pytest.mark.parametrize("asked", KINDS, ids=lambda a: f"{a.loss}-{a.spread}-{a.curvature}")
def test_no_two_records_are_further_apart_than_is_said(asked: GradientMoments) -> None:
    """Rows of all lengths and angles, too long ones too, with scores far and near."""
    rng, n = np.random.default_rng(0), 600
    x = rng.normal(size=(n, 3))
    x /= np.linalg.norm(x, axis=1)[:, None]
    x[: n // 2, 1:] *= 0.05  # nearly parallel
    x *= asked.data_norm * rng.choice([0.3, 1.0, 1.0, 1.0, 5.0], size=n)[:, None]
    s = rng.choice([-30.0, -1.0, 0.0, 0.0, 1.0, 2.0, 30.0], size=n)
    y = rng.choice([-1.0, 1.0], size=n) if asked.loss == "logistic" else rng.uniform(0, 9, size=n)
    rows = enforced(asked.vectors(records_of(asked, x, s, y), np.zeros(3)), n, asked)
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2).max()
    assert apart <= asked.replaced / (1 + ROUGHNESS) * (1 + 1e-12)
    assert asked.replaced < asked.loosely_replaced
    if asked.loss != "logistic" and asked.spread != SCALAR:
        assert apart > 0.9 * asked.replaced  # and it is not far from that


def test_the_distance_is_that_of_two_records_by_hand() -> None:
    """Where opposite gradients and other matrices balance: cosine b/(2(a + c)) between the rows."""
    a, b, c = (LOGISTIC.shares[name] for name in ("curvature", "gradient", "spread"))
    t = b / (2 * (a + c))
    by_hand = math.sqrt((a + c) * (2 - 2 * t * t) + 2 * b * (1 + t))
    assert LOGISTIC.replaced == pytest.approx(by_hand * (1 + ROUGHNESS), rel=1e-12)
    facts = Facts.of(tc.Problem([(np.zeros((5, 3)), np.zeros(5, int))], classes=(0, 1)))
    assert facts.statistic_distance(LOGISTIC) == pytest.approx(LOGISTIC.replaced)
    assert facts.loose_distance(LOGISTIC) == pytest.approx(2.0)


class Foreign(GradientMoments):
    """A class that is not the package's own."""

    @property
    def replaced(self) -> float:
        return 0.01


def test_only_the_packages_own_statistics_are_believed() -> None:
    facts = Facts.of(tc.Problem([(np.zeros((5, 3)), np.zeros(5, int))], classes=(0, 1)))
    assert facts.statistic_distance(Foreign(3, "logistic")) == pytest.approx(2.0)
    added = replace(facts, adjacency="add-remove")
    assert added.statistic_distance(LOGISTIC) == pytest.approx(1.0)


def counted(shares: dict[int, float], records: float) -> Any:
    found = np.zeros(BINS)
    for k, share in shares.items():
        found[k] = share * records
    return found


def test_cuts_follow_from_counts_by_hand() -> None:
    """Bins have the edges 1, .707, .5, .354, ...; without noise and with ten million records."""
    asked, n = GradientMoments(3, "squared"), 1e7
    first = scales_of(asked)
    assert first == LossScales("squared", slope=1.0)
    body = {4: 0.5, 5: 0.5}
    assert first.then(asked, counted(body, n), 0.0, n).slope == pytest.approx(0.25)
    # A share of 0.002 far out is more than a quarter of an error of 1e-4 allows
    tail = {0: 0.002, 4: 0.498, 5: 0.5}
    assert first.then(asked, counted(tail, n), 0.0, n).slope == pytest.approx(1.0)
    # With 100 records nobody could tell that from none
    assert first.then(asked, counted(tail, 100.0), 30.0, 100.0).slope < 0.3


def test_counts_have_their_curvature_cut_too() -> None:
    asked = GradientMoments(3, "poisson", (("label_bound", 20.0),), bend=1.0)
    first, n = scales_of(asked), 1e6
    assert first is not None and first.bend and first.length == 2 * BINS
    told = np.concatenate([counted({6: 1.0}, n), counted({8: 0.9, 6: 0.1}, n)]) / math.sqrt(2)
    found = first.then(asked, told, 0.0, n)
    assert found.slope == pytest.approx(2**-3) and found.bend == pytest.approx(2**-3)
    assert found.length == asked.length  # what was calibrated holds
    assert scales_of(LOGISTIC) is None


def test_a_record_is_in_one_bin_of_each_kind() -> None:
    first = LossScales("poisson", (("label_bound", 4.0),), bend=True)
    s = np.array([0.0, 0.0, -50.0, 5.0, math.nan])
    y = np.array([4.0, 1.0, 0.0, 0.0, 1.0])  # l': -3/4, 0, 0, 1; l'': 1/4, 1/4, 0, 0
    records = Records(np.zeros((5, 3)), y, 1, "regression", lambda _: s[:, None])
    found = first.vectors(records, np.zeros(3)) * math.sqrt(2)
    places = [np.flatnonzero(row).tolist() for row in found]
    last = 2 * BINS - 1
    assert places[:4] == [[0, 24], [BINS - 1, 24], [BINS - 1, last], [0, last]]
    assert np.allclose(np.linalg.norm(found, axis=1), math.sqrt(2))


def regression(n: int, seed: int) -> tuple[Any, Any, Any]:
    rng, w = np.random.default_rng(seed), np.array([-0.3, 0.0, 0.3])
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, np.clip(X @ w + 0.15 * rng.normal(size=n), -1, 1), w


def test_both_releases_share_one_price() -> None:
    """The squares of the two mu add up to that of the question, and epsilon is what was asked."""
    X, y, _ = regression(400, 0)
    problem = tc.Problem([(X[k::4] / 2, y[k::4]) for k in range(4)], loss="squared", clip_norm=1.0)
    asked, graph = GradientMoments(3, "squared"), tc.graph.complete(4)
    release = StatisticRelease(asked, "masked", scales_of(asked), SHARE)
    run = tc.simulate(problem, graph, release, 2, tc.Privacy(2.0, coalition=0), 0, metrics=())
    assert run.privacy is not None and run.privacy.epsilon == pytest.approx(2.0, rel=1e-3)
    told = run.released
    assert release.asked(told["first"], told["first_noise"], 400.0).length == asked.length
    first = scales_of(asked)
    assert first is not None
    both = (first.replaced / told["first_noise"][0]) ** 2 + (asked.replaced / told["noise"][0]) ** 2
    assert math.sqrt(both) == pytest.approx(gaussian_mu(2.0, run.privacy.delta), rel=2e-3)
    assert tc.algorithms.from_plain(release.to_plain()).to_plain() == release.to_plain()
    with pytest.raises(InputError, match="FirstStatistic"):
        StatisticRelease(asked, first=asked)


def test_numbers_are_rounded_finely_enough_for_that() -> None:
    """A grid on which rounding could move two vectors further apart is refused; a fine one, and one
    of a statistic that is not believed, are not."""
    X, y, _ = regression(40, 0)
    problem = tc.Problem([(X / 2, y)], loss="squared", clip_norm=1.0)
    asked, facts = GradientMoments(3, "squared", slope=1.0), Facts.of(problem)

    def queries(grid: float) -> LatticeQueries:
        one = np.arange(1)
        noise = SimulatedNoise(0)
        return LatticeQueries(problem.store, problem.sizes, one, facts, noise, grid, True)

    at = np.zeros((1, 3))
    whole = queries(2.0**-20).statistic(asked, at)
    assert bound_of(whole)[0] == pytest.approx(asked.replaced)
    with pytest.raises(InputError, match="too coarsely"):
        queries(2.0**-8).statistic(asked, at)
    loose = queries(2.0**-8).statistic(Foreign(3, "squared"), at)
    assert bound_of(loose)[0] == pytest.approx(2.0)


@pytest.mark.slow
def test_intervals_of_least_squares_are_narrow_and_right() -> None:
    """5,000 records, half of epsilon 1 for the question: 9 times the width without privacy when the
    noise was sized for residuals of 1; typically 2 to 4 times now."""
    ratios, hits = [], []
    for seed in range(20):
        X, y, w = regression(5000, seed)
        bounds = (-np.ones(3), np.ones(3))
        model = PrivateRidge(
            epsilon=0.72, n_nodes=5, bounds=bounds, target_bounds=(-1, 1), random_state=seed
        ).fit(X, y)
        rows = {r.feature: r for r in model.intervals(X, y, epsilon=0.72)}
        plain = sm.OLS(y, sm.add_constant(X)).fit(cov_type="HC0").bse[1:]
        for j in range(3):
            row = rows[f"x{j}"]
            ratios.append((row.high - row.low) / 2 / 1.96 / plain[j])
            hits.append(row.low <= w[j] <= row.high)
    assert np.median(ratios) < 4.0
    assert np.mean(hits) > 0.87  # 60 intervals of 95 %: three standard errors


def test_counts_show_intervals_at_a_moderate_epsilon() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(8000, 3))
    y = rng.poisson(np.exp(0.3 + X @ [-0.6, 0.0, 0.6])).clip(0, 20)
    model = PrivatePoissonRegressor(
        epsilon=3.0, n_nodes=5, bounds=(-np.ones(3), np.ones(3)), count_bound=20, random_state=0
    ).fit(X, y)
    rows = {r.feature: r for r in model.intervals(X, y, epsilon=3.0)}
    plain = sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson()).fit(cov_type="HC0")
    for j in range(3):
        row = rows[f"x{j}"]
        assert (row.high - row.low) / 2 / 1.96 < 2.0 * plain.bse[j + 1]
        # Four standard errors of the two together
        assert abs(row.estimate - plain.params[j + 1]) < 4.0 * (row.high - row.low) / 2 / 1.96
    assert rows["intercept"].estimate == pytest.approx(plain.params[0], abs=0.3)


def test_the_question_about_scales_has_twenty_bins_each_and_names_what_it_refuses() -> None:
    assert LossScales("poisson").length == 20 and LossScales("poisson", bend=True).length == 40
    for slope in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match=r"^LossScales\.slope must be"):
            LossScales("poisson", slope=slope)
