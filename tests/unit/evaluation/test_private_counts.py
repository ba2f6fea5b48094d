"""Counts and quantiles: measures of released sums against scikit-learn, and how often their
intervals hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

import tacenda as tc
from tacenda.errors import InputError, UnsupportedError
from tacenda.evaluation.private import NOTHING_KNOWN, PrivateEvaluation, counts_for
from tacenda.evaluation.units import Units
from tacenda.questions.counts import CountSums, QuantileSums, ValueSums
from tacenda.questions.statistics import Records, enforced

ODD = [0.0, -0.0, 1e-320, 1.0, -1.0, 1e308, -1e308, np.inf, -np.inf, np.nan, 0.5, 12.0]


def rows_of(statistic: Any, labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    records = Records(scores[:, None], labels, 1, "regression", lambda model: scores[:, None])
    return statistic.vectors(records, np.zeros(1))


def counts(n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = 0.3 + 0.7 * rng.standard_normal(n)
    return rng.poisson(np.exp(scores)).clip(0, 12).astype(float), scores


def numbers(n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    guess = 0.3 * rng.standard_normal(n)
    return np.clip(guess - 0.25 + 0.3 * rng.standard_normal(n), -1, 1), np.clip(guess, -1, 1)


def evaluation(
    s: Any, total: np.ndarray, n: int | None, std: float = 0.0, **how: Any
) -> PrivateEvaluation:
    return PrivateEvaluation(s, total, std, n, None, **how)


@pytest.mark.parametrize(
    "statistic", [CountSums(12.0), CountSums(1e-3), CountSums(1e8), QuantileSums(-1.0, 1.0, 0.9)]
)
def test_every_record_keeps_to_the_declared_norm_and_sign(statistic: Any) -> None:
    labels, scores = (x.ravel() for x in np.meshgrid(ODD, ODD))
    with np.errstate(all="ignore"):
        raw = rows_of(statistic, labels, scores)
    assert np.isfinite(raw).all() and raw.min() >= 0
    assert np.linalg.norm(raw, axis=1).max() <= statistic.norm
    assert np.array_equal(enforced(raw, len(raw), statistic), raw)
    odd = np.isnan(labels) | np.isnan(scores)
    assert not raw[odd].any() and (raw[~odd].sum(axis=1) > 0).all()


@pytest.mark.parametrize("own", [1.0, 12.0])  # encoded as counts, or as places from 0 to 1
def test_counts_without_noise_agree_with_scikit_learn(own: float) -> None:
    y, scores = counts()
    s = CountSums(12.0 / own)
    total = rows_of(s, y / own, scores - np.log(own)).sum(axis=0)
    found = evaluation(s, total, len(y), units=Units(0.0, own, 0.0, 12.0))
    rate = np.minimum(np.exp(scores), 12.0)
    m = found.measures
    assert m["deviance"].value == pytest.approx(metrics.mean_poisson_deviance(y, rate))
    assert m["d2"].value == pytest.approx(metrics.d2_tweedie_score(y, rate, power=1))
    assert m["bias"].value == pytest.approx(np.mean(y - rate))
    third = found.calibration[4]
    there = (rate >= third["low"]) & (rate < third["high"])
    assert third["observed"]["value"] == pytest.approx(y[there].mean())
    assert found.calibration_words == ("predicted rate", "mean label")


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_a_quantile_without_noise_agrees_with_scikit_learn(level: float) -> None:
    y, guess = numbers()
    s = QuantileSums(-1.0, 1.0, level)
    units = Units(10.0, 5.0, 5.0, 15.0)
    found = evaluation(s, rows_of(s, y, guess).sum(axis=0), len(y), units=units)
    own, predicted = units.labels(y), units.labels(guess)
    m = found.measures
    assert m["pinball"].value == pytest.approx(
        metrics.mean_pinball_loss(own, predicted, alpha=level)
    )
    assert m["share_below"].value == pytest.approx(np.mean(own <= predicted))
    third = found.calibration[2]
    there = (predicted >= third["low"]) & (predicted < third["high"])
    assert third["observed"]["value"] == pytest.approx(np.mean((own <= predicted)[there]))
    again = PrivateEvaluation.from_plain(found.to_plain())
    assert again.to_plain() == found.to_plain()


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize(
    ("statistic", "made"), [(CountSums(12.0), counts), (QuantileSums(-1.0, 1.0, 0.9), numbers)]
)
def test_intervals_hold_about_as_often_as_they_say(statistic: Any, made: Any, public: bool) -> None:
    rows = rows_of(statistic, *made(40_000))
    n = len(rows)
    exact = evaluation(statistic, rows.sum(axis=0), n)
    truth = {name: m.value for name, m in exact.measures.items()}
    truth |= {
        f"bin {k}": b["observed"]["value"]
        for k, b in enumerate(exact.calibration)
        if b["records"] > 4000
    }
    rng, held, told = np.random.default_rng(0), dict.fromkeys(truth, 0), dict.fromkeys(truth, 0)
    for _ in range(100):
        total = rows[rng.integers(0, n, 3000)].sum(axis=0)
        noisy = total + 2.0 * rng.standard_normal(len(total))
        found = evaluation(statistic, noisy, 3000 if public else None, 2.0, level=0.9)
        said = {name: (m.low, m.high) for name, m in found.measures.items() if m.known}
        said |= {
            f"bin {k}": (b["observed"]["low"], b["observed"]["high"])
            for k, b in enumerate(found.calibration)
            if b["observed"] is not None
        }
        for name in truth.keys() & said.keys():
            told[name] += 1
            held[name] += said[name][0] <= truth[name] <= said[name][1]
    assert all(held[name] >= 0.8 * told[name] for name in truth), (held, told)
    assert all(told[name] >= 50 for name in exact.measures), told


def test_the_spread_of_residuals_follows_from_their_bins() -> None:
    """By hand: a tenth of the squared residuals is 1, the others are just below an eighth."""
    from tacenda.evaluation.private_intervals import quantile
    from tacenda.evaluation.value_measures import _Values

    s, guess = ValueSums(-1.0, 1.0), np.full(1000, -1.0)
    residual = 2 * np.sqrt(np.where(np.arange(1000) < 100, 1.0, 0.12499))  # of a reach of 2
    total = rows_of(s, guess + residual, guess).sum(axis=0)
    found = _Values(evaluation(s, total, 1000), s).squares
    mean = 0.1 + 0.9 * 0.12499
    assert found.value == pytest.approx(mean)
    spread = 0.1 * 1.0 + 0.9 * 0.125**2 - mean**2  # each square is taken as large as its bin's end
    reach = quantile(0.95) * np.sqrt(spread / 1000)
    assert found.high - found.low == pytest.approx(2 * reach, rel=0.02)


@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_how_sure_the_explained_deviance_is_by_hand(spread: float) -> None:
    """From the records: their deviance from the best constant, taken as large as at the worse end
    of the bin of their label, and the deviance of the model add up."""
    rng = np.random.default_rng(2)
    scores = 0.3 + spread * rng.standard_normal(3000)
    y, s = rng.poisson(np.exp(scores)).clip(0, 12).astype(float), CountSums(12.0)
    m = evaluation(s, rows_of(s, y, scores).sum(axis=0), len(y), level=0.9).measures
    c, b = y / 12, y.mean() / 12
    edges = np.array([0.0, *(2.0**-k for k in range(8, 0, -1)), 1.0])

    def own(x: np.ndarray) -> np.ndarray:
        return np.asarray(2 * (np.where(x > 0, x * np.log(np.maximum(x, 1e-9) / b), 0) - x + b))

    bins = np.digitize(c, edges[1:-1])
    worst = np.maximum(own(edges[bins]), own(edges[bins + 1]))
    null, z = own(c).mean(), stats.norm.ppf(0.95)
    sure = z * np.sqrt((np.mean(worst**2) - null**2) / len(y))
    q, low, high = (x / 12 for x in (m["deviance"].value, m["deviance"].low, m["deviance"].high))
    assert m["d2"].value == pytest.approx(1 - q / null)
    assert m["d2"].low == pytest.approx(1 - high / null - q / null**2 * sure, rel=1e-6)
    assert m["d2"].high == pytest.approx(min(1 - low / null + q / null**2 * sure, 1), rel=1e-6)


def test_a_mean_error_stays_within_what_is_possible() -> None:
    from tacenda.evaluation.private_counts import bias
    from tacenda.evaluation.released import Released

    for sign in (-1.0, 1.0):
        sums = {"label": sign * 90.0, "prediction": -sign * 20.0, "squares": 99.0}
        parts = {name: np.array([value]) for name, value in sums.items()}
        found = bias(Released(parts, dict.fromkeys(sums, 50.0), 100.0, 0.0, 0.95))
        assert found.value == sign and -1.0 <= found.low < found.high <= 1.0


def test_where_the_noise_hides_everything_nothing_is_claimed() -> None:
    s = CountSums(12.0)
    total = rows_of(s, *counts(50)).sum(axis=0)
    noisy = total + 100.0 * np.random.default_rng(1).standard_normal(len(total))
    assert evaluation(s, noisy, 50, 100.0).measures["d2"].note == NOTHING_KNOWN


def test_the_loss_says_what_is_counted() -> None:
    assert counts_for(tc.losses.NegativeBinomial(label_bound=8), 1) == CountSums(8.0)
    assert counts_for(tc.losses.SmoothedQuantile(0.9), 1) == QuantileSums(-1.0, 1.0, 0.9)
    assert counts_for(tc.losses.Huber(), 1, (0.0, 2.0)) == ValueSums(0.0, 2.0)
    with pytest.raises(InputError, match="must start at 0"):
        counts_for(tc.losses.Poisson(), 1, (-1.0, 1.0))
    own = tc.losses.CustomLoss(
        "log-cosh",
        value=lambda u: np.abs(u) + np.log1p(np.exp(-2 * np.abs(u))) - np.log(2),
        slope=np.tanh,
        slope_bound=1.0,
        curvature=1.0,
    )
    with pytest.raises(UnsupportedError, match="pass counts=ValueSums"):
        counts_for(own, 1)


def test_a_simulation_says_what_it_is() -> None:
    y, scores = counts(600)
    problem = tc.Problem(
        tc.data.partition.even(np.tanh(scores)[:, None], y, 3, seed=0),
        loss=tc.losses.Poisson(label_bound=12),
    )
    graph = tc.graph.complete(3)
    found = tc.evaluate_privately([0.5], problem, graph, tc.Privacy(2.0), seed=0)
    assert "floating-point and seeded" in found.text and "[evaluation]" in found.text
    assert found.measures["deviance"].low > 0
    plain = tc.evaluate_privately([0.5], problem, graph, None, seed=0)
    assert "seeded" not in plain.text
