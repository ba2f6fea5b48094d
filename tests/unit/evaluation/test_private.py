"""Private evaluation: counts against scikit-learn, intervals against other formulas, and planted
mistakes that must be caught."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit, softmax
from sklearn import metrics

import tacenda as tc
from tacenda.algorithms.whitening import MOMENT
from tacenda.errors import BudgetError, InputError
from tacenda.evaluation import private_intervals as intervals
from tacenda.evaluation.private import NOTHING_KNOWN, PrivateEvaluation, counts_for
from tacenda.evaluation.private_run import HELD_OUT
from tacenda.evaluation.score_bins import ScoreSpread, score_edges, score_spread
from tacenda.evaluation.units import Units
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.questions.counts import EDGES, ClassCounts, ValueSums, balanced
from tacenda.questions.moments import packed
from tacenda.questions.statistics import Records, enforced


def summed(statistic: Any, labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The statistic's sum over records with these scores."""
    kind = statistic.kinds[0] if scores.shape[1] == 1 else "multiclass"
    records = Records(scores, labels, scores.shape[1], kind, lambda model: scores)
    found = enforced(statistic.vectors(records, np.zeros(1)), len(labels), statistic)
    raw = statistic.vectors(records, np.zeros(1))
    assert np.array_equal(found, raw), "the statistic must keep to what it declares by itself"
    assert np.linalg.norm(raw, axis=1).max() <= statistic.norm
    return found.sum(axis=0)


def binary(n: int = 4000, seed: int = 0, shift: float = -1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    odds = shift + 2 * rng.standard_normal(n)
    return np.where(rng.random(n) < expit(odds), 1.0, -1.0), odds[:, None]


def evaluation(
    statistic: Any, labels: np.ndarray, scores: np.ndarray, std: float = 0.0, **options: Any
) -> PrivateEvaluation:
    total = summed(statistic, labels, scores)
    if std:
        total = total + std * np.random.default_rng(5).standard_normal(len(total))
    return PrivateEvaluation(statistic, total, std, len(labels), None, **options)


# ---- without noise the measures are the usual ones
def test_two_classes_without_noise_agree_with_scikit_learn() -> None:
    labels, scores = binary()
    found = evaluation(ClassCounts(2), labels, scores)
    truth, guess, chance = labels > 0, scores[:, 0] >= 0, expit(scores[:, 0])
    m = found.measures
    assert m["accuracy"].value == pytest.approx(metrics.accuracy_score(truth, guess))
    expected = metrics.balanced_accuracy_score(truth, guess)
    assert m["balanced_accuracy"].value == pytest.approx(expected)
    assert m["f1"].value == pytest.approx(metrics.f1_score(truth, guess))
    clipped = np.minimum(-np.log(np.where(truth, chance, 1 - chance)), 5.0)
    assert m["log_loss"].value == pytest.approx(clipped.mean())
    assert m["brier"].value == pytest.approx(metrics.brier_score_loss(truth, chance))
    assert m["roc_auc"].value == pytest.approx(metrics.roc_auc_score(truth, chance), abs=0.002)
    counts = np.array(found.confusion["value"])
    assert counts == pytest.approx(metrics.confusion_matrix(truth, guess), abs=0.1)
    at_half = found.roc[found.statistic.edges.index(0.5)]
    assert at_half["true"]["value"] == pytest.approx(metrics.recall_score(truth, guess))
    precision = found.class_table[1]["precision"]["value"]
    assert precision == pytest.approx(metrics.precision_score(truth, guess))
    third = found.calibration[4]
    there = (chance >= third["low"]) & (chance < third["high"])
    assert third["observed"]["value"] == pytest.approx(truth[there].mean())


def test_several_classes_without_noise_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    scores = 2 * rng.standard_normal((3000, 4))
    labels = np.array([rng.choice(4, p=p) for p in softmax(scores, axis=1)])
    found = evaluation(ClassCounts(4), labels.astype(float), scores)
    guess, chances = scores.argmax(axis=1), softmax(scores, axis=1)
    m = found.measures
    assert m["accuracy"].value == pytest.approx(metrics.accuracy_score(labels, guess))
    expected = metrics.balanced_accuracy_score(labels, guess)
    assert m["balanced_accuracy"].value == pytest.approx(expected)
    loss = np.minimum(-np.log(chances[np.arange(3000), labels]), 5.0).mean()
    assert m["log_loss"].value == pytest.approx(loss)
    outcome = np.eye(4)[labels]
    assert m["brier"].value == pytest.approx(((chances - outcome) ** 2).sum(axis=1).mean())
    assert "roc_auc" not in m and found.roc == []
    assert np.array(found.confusion["value"]) == pytest.approx(
        metrics.confusion_matrix(labels, guess), abs=0.1
    )


def test_a_regression_without_noise_agrees_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    guess = 0.4 * rng.standard_normal(3000).clip(-2, 2)
    labels = np.clip(0.1 + 0.8 * guess + 0.2 * rng.standard_normal(3000), -1, 1)
    units = Units(10.0, 5.0, 5.0, 15.0)
    found = evaluation(ValueSums(-1.0, 1.0), labels, guess[:, None], units=units)
    y, p = units.labels(labels), units.labels(guess)
    m = found.measures
    assert m["r2"].value == pytest.approx(metrics.r2_score(y, p))
    assert m["rmse"].value == pytest.approx(metrics.root_mean_squared_error(y, p))
    assert m["mae"].value == pytest.approx(metrics.mean_absolute_error(y, p))
    assert m["bias"].value == pytest.approx(np.mean(y - p))
    slope = stats.linregress(guess, labels).slope
    assert m["calibration_slope"].value == pytest.approx(slope)
    last = found.residuals[-3]
    assert last["share"]["value"] == pytest.approx(np.mean(np.abs(y - p) < last["size"]))


# ---- intervals
@pytest.mark.parametrize(("part", "whole"), [(0, 20), (3, 20), (50, 60), (60, 60), (1, 1000)])
def test_without_noise_a_share_has_the_interval_of_wilson(part: int, whole: int) -> None:
    found = intervals.share(part, whole, 0.9)
    other = stats.binomtest(part, whole).proportion_ci(0.9, method="wilson")
    assert (found.low, found.high) == pytest.approx((other.low, other.high), abs=1e-12)


def test_noise_only_widens_and_a_wider_level_too() -> None:
    for std in (0.0, 2.0, 5.0, 20.0):
        for part, whole in ((-10.0, 80.0), (5.0, 80.0), (75.0, 80.0), (95.0, 80.0)):
            noise = (std**2, std**2, 3 * std**2)
            narrow, wide = (intervals.share(part, whole, level, noise) for level in (0.9, 0.99))
            assert 0 <= wide.low <= narrow.low <= narrow.value <= narrow.high <= wide.high <= 1
            plain = intervals.share(min(max(part, 0.0), whole), whole, 0.9)
            if std and 0 < part < whole:
                assert narrow.high - narrow.low > plain.high - plain.low


def test_the_ends_of_a_share_solve_the_stated_equation() -> None:
    z = stats.norm.ppf(0.95)
    vaa, vab, vbb = 30.0, 20.0, 60.0
    found = intervals.share(70.0, 200.0, 0.9, (vaa, vab, vbb))
    for r in (found.low, found.high):
        left = (70.0 - r * 200.0) ** 2
        right = z**2 * (200.0 * r * (1 - r) + vaa - 2 * r * vab + r * r * vbb)
        assert left == pytest.approx(right)


def test_where_the_noise_hides_the_whole_nothing_is_claimed() -> None:
    found = intervals.share(4.0, 9.0, 0.95, (25.0, 25.0, 50.0))
    assert (found.low, found.high) == (0.0, 1.0)
    labels, scores = binary(40)
    m = evaluation(ClassCounts(2), labels, scores, std=60.0).measures
    assert m["roc_auc"].note == NOTHING_KNOWN and not m["roc_auc"].known


@pytest.mark.parametrize("shift", [-3.0, 0.0])
def test_intervals_hold_about_as_often_as_they_say(shift: float) -> None:
    """A small form of benchmarks/evaluation_coverage.py."""
    labels, scores = binary(40_000, shift=shift)
    statistic = ClassCounts(2)
    records = Records(scores, labels, 1, "binary", lambda model: scores)
    rows = statistic.vectors(records, np.zeros(1))
    truth = PrivateEvaluation(statistic, rows.sum(axis=0), 0.0, len(rows), None).measures
    rng, held = np.random.default_rng(0), dict.fromkeys(truth, 0)
    for _ in range(120):
        total = rows[rng.integers(0, len(rows), 2000)].sum(axis=0)
        noisy = total + 4.0 * rng.standard_normal(len(total))
        for name, m in PrivateEvaluation(
            statistic, noisy, 4.0, 2000, None, level=0.9
        ).measures.items():
            held[name] += m.low <= truth[name].value <= m.high
    assert min(held.values()) >= 0.8 * 120, held


def counted(odds: np.ndarray, truth: np.ndarray, edges: Any) -> np.ndarray:
    cells = np.zeros((2, len(edges) + 1))
    np.add.at(cells, (truth.astype(int), np.digitize(expit(odds), edges)), 1.0)
    return cells


@pytest.mark.parametrize("edges", ["fixed", "where the scores are"])
@pytest.mark.parametrize(
    ("mean", "std", "slope"),
    [(0.0, 0.1, 1.0), (-1.5, 0.3, 1.0), (-2.0, 1.0, 0.5), (-2.0, 1.0, 2.0), (0.0, 2.0, 1.0)],
)
def test_the_area_under_roc_is_that_of_the_scores(
    mean: float, std: float, slope: float, edges: str
) -> None:
    """A weak model's scores lie in two or three bins of fixed edges; the interval covers all the
    same, and is narrow where the bins follow the scores. slope: of the scores, over calibrated."""
    rng = np.random.default_rng(1)

    def drawn(n: int) -> tuple[np.ndarray, np.ndarray]:
        odds = mean + std * rng.standard_normal(n)
        return mean + slope * (odds - mean), rng.random(n) < expit(odds)

    far = score_edges(ScoreSpread(mean, slope * std)) if edges != "fixed" else EDGES
    assert len(far) == len(EDGES)
    scores, truth = drawn(1_000_000)
    exact, covered, width = metrics.roc_auc_score(truth, scores), 0, 0.0
    for _ in range(100):
        counts = counted(*drawn(20_000), far)
        noisy = counts + 10.0 * rng.standard_normal(counts.shape)
        found = intervals.roc_auc(noisy, 0.95, 10.0, far)
        covered += found.low <= exact <= found.high
        width += float(found.high - found.low) / 100
    assert covered >= 88  # below it with a chance of 1e-3, were the coverage 95 %
    if edges != "fixed":
        plain = 2 * 1.96 * math.sqrt(1 / (12 * 20_000 * truth.mean() * (1 - truth.mean())))
        assert width < 2.2 * plain


def test_bins_follow_the_scores() -> None:
    for mean, std in ((0.0, 0.1), (-4.0, 1.0), (0.0, 6.0), (2.5, 0.01)):
        edges = np.array(score_edges(ScoreSpread(mean, std)))
        assert 0.5 in edges and len(edges) == len(EDGES) and np.all(np.diff(edges) > 0)
        if std < 3:  # shares of normal scores between neighbours, but for the tails and 0.5
            shares = np.diff(stats.norm.cdf(logit(edges[edges != 0.5]), mean, std))
            assert shares[1:-1] == pytest.approx(np.full(11, 1 / 13), abs=0.02)
    # Nothing is known, or all scores are the same: the usual ones
    assert score_edges(None) == score_edges(ScoreSpread(1.0, 0.0)) == EDGES
    assert score_edges(ScoreSpread(1.0, 1e-6)) == EDGES


def test_where_scores_lie_follows_from_the_moment() -> None:
    """Of rows with a constant, and for a constant of any size: mean and spread over the records."""
    rng = np.random.default_rng(4)
    x = np.column_stack([rng.normal(0.2, 0.3, (500, 3)), np.full(500, 0.4)])
    for w in (np.array([1.0, -2.0, 0.5, 3.0]), np.array([0.0, 0.0, 0.0, -1.0])):
        scores = x @ w
        found = score_spread(run_with_moment(x, w))
        assert found is not None
        assert found == pytest.approx((scores.mean(), scores.std()), abs=1e-7)
    assert score_spread(run_with_moment(x, w, rows_each=2)) is None
    assert score_spread(run_with_moment(x[:, 1:], w)) is None
    assert score_spread(run_with_moment(x, np.ones((2, 4)))) is None


def run_with_moment(x: np.ndarray, w: np.ndarray, **about: Any) -> Any:
    """What is read of a run that released the second moment of these rows."""
    released = {MOMENT: packed(x.T @ x / len(x))}
    return SimpleNamespace(settings={"problem": about}, released=released, model=w)


@pytest.mark.parametrize("edges", [[0.5], [0.5, 0.9], [0.1, 0.5, 0.7]])
def test_the_area_of_few_bins_is_that_of_their_pairs(edges: list[float]) -> None:
    """Pairs in different bins are counted; of those in one bin half are right, and as many more as
    calibrated scores that are spread evenly order: for two bins nobody knows their width."""
    rng = np.random.default_rng(len(edges))
    counts = rng.integers(50, 400, (2, len(edges) + 1)).astype(float)
    found = intervals.roc_auc(counts, 0.95, 0.0, edges)
    right = equal = 0.0
    for i, a in enumerate(counts[0]):
        for j, b in enumerate(counts[1]):
            right += a * b * (i < j)
            equal += a * b * (i == j)
    pairs = counts[0].sum() * counts[1].sum()
    assert 0 <= found.low < found.value < found.high <= 1
    assert found.value >= (right + equal / 2) / pairs
    assert found.value <= (right + 3 * equal / 4) / pairs + 1e-12
    if len(edges) == 1:
        assert found.value == pytest.approx((right + 3 * equal / 4) / pairs)


def test_the_text_says_all_in_order() -> None:
    labels, scores = binary(600)
    found = evaluation(ClassCounts(2), labels, scores, classes=("no", "yes"))
    measures = [f"  {m}" for m in found.measures.values()]
    begin = "Private evaluation on 600 held-out records; intervals of 95%."
    lines = [begin, *measures, "Positive class: yes."]
    assert found.text.split("\n") == [*lines, "No noise: these numbers are not private."]
    problem = tc.Problem(
        tc.data.partition.even(np.tanh(scores), labels > 0, 3, seed=0), classes=(False, True)
    )
    budget, graph = tc.Privacy(1.5, 1e-6), tc.graph.complete(3)
    noisy = tc.evaluate_privately([1.0], problem, graph, budget, seed=0).at(0.9)
    said = noisy.text.split("\n")
    assert said[0] == begin.replace("95", "90")
    end = "Privacy of the held-out records: epsilon 1.5, delta 1e-06 (replace-one), for"
    assert said[-2] == f"{end} one record of one node."
    assert said[-1] == f"Note: {noisy.about['simulation']}."
    assert str(noisy) == noisy.text


def test_scales_are_the_best_ones() -> None:
    need = {"a": 1.0, "b": 4.0, "c": 0.5}
    scales = balanced(need)
    assert sum(s**2 for s in scales.values()) <= 1.0

    def cost(squares: np.ndarray) -> float:
        return float(sum(n**2 / s for n, s in zip(need.values(), squares, strict=True)))

    best = cost(np.array([s**2 for s in scales.values()]))
    rng = np.random.default_rng(0)
    assert all(best <= cost(rng.dirichlet(np.ones(3))) * (1 + 1e-9) for _ in range(200))


# ---- planted mistakes
def test_which_records_are_held_out_depends_on_no_value() -> None:
    data = tc.data.make_classification(60, 3, seed=0)
    shards = tc.data.partition.even(data.X, data.y, 3, seed=0)
    places = [np.arange(len(y), dtype=float) for _, y in shards]
    sides = tc.data.hold_out([(p[:, None], p) for p in places], 0.25, seed=7)
    other = [(np.full_like(X, 1e9), 1 - y) for X, y in shards]
    for records in (shards, other):
        training, held_out = tc.data.hold_out(records, 0.25, seed=7)
        for k, (X, y) in enumerate(records):
            for got, where in zip((training, held_out), sides, strict=True):
                chosen = where[k][1].astype(int)
                assert np.array_equal(got[k][0], X[chosen]) and np.array_equal(got[k][1], y[chosen])
    assert sorted(np.concatenate([sides[0][0][1], sides[1][0][1]])) == sorted(places[0])
    assert [len(y) for _, y in sides[1]] == [5, 5, 5]


def test_coins_fall_alike_for_one_name_and_move_no_other() -> None:
    key = bytes(range(16))
    names = [f"person {k}" for k in range(2000)]
    coins = tc.data.held_out_by_coin(names, 0.3, key)
    assert 0.25 < coins.mean() < 0.35
    fewer = tc.data.held_out_by_coin([*names[:500], *names[501:]], 0.3, key)
    assert np.array_equal(np.delete(coins, 500), fewer)
    assert not np.array_equal(coins, tc.data.held_out_by_coin(names, 0.3, bytes(16)))


def test_a_person_is_on_one_side_and_hides_the_number_of_records() -> None:
    rng = np.random.default_rng(0)
    data = tc.data.make_classification(600, 3, seed=0)
    ids = rng.integers(0, 150, 600)
    shards = tc.data.partition.by_person(data.X, data.y, ids, 3)
    training, held_out = tc.data.hold_out(shards, 0.4, seed=0)
    sides = [set(np.concatenate(part.persons)) for part in (training, held_out)]
    assert not sides[0] & sides[1] and sides[0] | sides[1] == {str(k) for k in ids}
    problem = tc.Problem(held_out, classes=(0, 1), records_per_person=4, public_sizes=[60, 60, 60])
    graph, budget = tc.graph.complete(3), tc.Privacy(4.0, adjacency="add-remove")
    found = tc.evaluate_privately(np.ones(3), problem, graph, budget, seed=0)
    assert found.records is None
    alone = tc.Problem([(X, y) for X, y in held_out], classes=(0, 1), public_sizes=[60, 60, 60])
    one = tc.evaluate_privately(np.ones(3), alone, graph, budget, seed=0)
    assert found.noise == pytest.approx(4 * one.noise)


@pytest.fixture(scope="module")
def parts() -> tuple[tc.Problem, tc.Problem, tc.Problem, np.ndarray]:
    """(all records, those trained on, those held out, a model)."""
    data = tc.data.make_classification(900, 3, difficulty=0.3, seed=0)
    shards = tc.data.partition.even(data.X, data.y, 3, seed=0)
    training, held_out = tc.data.hold_out(shards, 0.5, seed=1)
    problems = [tc.Problem(p, strength=1e-2, classes=(0, 1)) for p in (shards, training, held_out)]
    return *problems, np.array([1.6, 0.9, 1.2])


def test_evaluation_on_training_records_is_refused_and_charges_nothing(
    parts: tuple[tc.Problem, ...], tmp_path: Path
) -> None:
    whole, training, held_out, model = parts
    graph, ledger, budget = tc.graph.complete(3), tmp_path / "ledger.db", tc.Privacy(1.0)
    tc.simulate(
        training, graph, "treegd", 3, budget, seed=0, metrics=(), ledger=ledger, dataset="people"
    )
    for wrong in (training, whole):
        with pytest.raises(InputError, match="never trained on"):
            tc.evaluate_privately(model, wrong, graph, budget, seed=0, ledger=ledger)
        with pytest.raises(InputError, match="never trained on"):
            tc.evaluate_privately(
                model, wrong, graph, budget, seed=0, ledger=ledger, dataset="people"
            )
    found = tc.evaluate_privately(
        model, held_out, graph, budget, seed=0, ledger=ledger, dataset="people"
    )
    with LedgerStore(ledger) as store:
        spent = [store.spent(name).curve.epsilon(1e-5) for name in ("people", f"people{HELD_OUT}")]
    # Two accounts, each charged with its own run: a record is in one of them
    assert spent == pytest.approx([1.0, found.privacy.epsilon], rel=1e-3)


def test_held_out_records_keep_the_budget_of_the_data_set(
    parts: tuple[tc.Problem, ...], tmp_path: Path
) -> None:
    _, _, held_out, model = parts
    ledger, graph = tmp_path / "ledger.db", tc.graph.complete(3)
    with LedgerStore(ledger) as store:
        store.set_budget("people", 1.2, 1e-5)
    go = {"ledger": ledger, "dataset": "people"}
    tc.evaluate_privately(model, held_out, graph, tc.Privacy(1.0), seed=0, **go)
    with pytest.raises(BudgetError):
        tc.evaluate_privately(2 * model, held_out, graph, tc.Privacy(1.0), seed=1, **go)


def test_every_number_of_the_report_follows_from_what_was_released(
    parts: tuple[tc.Problem, ...], tmp_path: Path
) -> None:
    """Other records with the same released vector give the same page, byte by byte."""
    _, _, held_out, model = parts
    graph = tc.graph.complete(3)
    found = tc.evaluate_privately(model, held_out, graph, tc.Privacy(2.0), seed=0)
    page = found.report(tmp_path / "one.html").read_bytes()
    rows = held_out.store.rows.copy()
    held_out.store.rows = np.roll(rows, 1, axis=0)
    try:
        assert found.report(tmp_path / "two.html").read_bytes() == page
    finally:
        held_out.store.rows = rows
    plain = json.loads(json.dumps(found.to_plain()))
    kept = {k: plain[k] for k in plain if k not in ("measures", "confusion", "roc", "calibration")}
    again = PrivateEvaluation.from_plain(kept)
    assert again.to_plain() == plain
    assert again.report(tmp_path / "three.html").read_bytes() == page


def test_where_the_number_of_records_is_private_it_is_nowhere() -> None:
    data = tc.data.make_classification(901, 3, difficulty=0.3, seed=0)
    shards = [(data.X[k::3], data.y[k::3]) for k in range(3)]
    problem = tc.Problem(shards, classes=(0, 1), public_sizes=[300, 300, 300])
    budget = tc.Privacy(4.0, adjacency="add-remove")
    found = tc.evaluate_privately(np.ones(3), problem, tc.graph.complete(3), budget, seed=0)
    assert found.records is None
    # As a number of its own, not among the digits of another
    assert not re.search(r"(?<![\d.])901(?![\d])", json.dumps(found.to_plain()))
    m = found.measures["accuracy"]
    assert m.low < m.value < m.high


def test_what_does_not_fit_is_refused_by_name(parts: tuple[tc.Problem, ...]) -> None:
    _, _, held_out, model = parts
    graph, budget = tc.graph.complete(3), tc.Privacy(1.0)
    with pytest.raises(InputError, match="3 weights"):
        tc.evaluate_privately(np.ones(4), held_out, graph, budget)
    with pytest.raises(InputError, match="Problem"):
        tc.evaluate_privately(model, [], graph, budget)
    with pytest.raises(InputError, match="n_classes"):
        tc.evaluate_privately(model, held_out, graph, budget, counts=ClassCounts(3))
    with pytest.raises(InputError, match="regression"):
        tc.evaluate_privately(model, held_out, graph, budget, counts=ValueSums(-1.0, 1.0))
    with pytest.raises(InputError, match=r"0\.5"):
        ClassCounts(2, edges=(0.2, 0.8))
    with pytest.raises(InputError, match="level"):
        evaluation(ClassCounts(2), *binary(50)).at(1.5)
    assert counts_for(held_out.loss, 1) == ClassCounts(2)


def test_a_model_below_the_floor_is_told() -> None:
    """The floor is a guess that looks at no feature: the most frequent class, the mean label."""
    labels, scores = binary()
    truth = labels > 0
    floor = max(truth.mean(), 1 - truth.mean())
    good = evaluation(ClassCounts(2), labels, scores)
    assert good.measures["accuracy"].value > floor and good.warnings == []
    (worse,) = evaluation(ClassCounts(2), labels, -scores).warnings
    assert worse.startswith("The model's accuracy of") and worse.endswith("Do not use the model.")
    assert f"worse than the {floor:.4f}" in worse
    noise = np.random.default_rng(1).standard_normal((len(labels), 1))
    flipped = evaluation(ClassCounts(2), labels[:60], noise[:60] - 0.3)
    assert flipped.measures["accuracy"].value < 1 - truth[:60].mean()
    assert "is not shown to be better than" in flipped.warnings[0]
    assert flipped.warnings[0] in flipped.text
    # A model that ranks well is no guess, even where its threshold is wrong
    rare, odds = binary(shift=-4.0)
    ranked = evaluation(ClassCounts(2), rare, odds + 1.2)
    assert ranked.measures["roc_auc"].low > 0.5
    assert "choose another threshold" in ranked.warnings[0]
    y = np.clip(0.3 * noise[:, 0], -1, 1)
    assert evaluation(ValueSums(-1.0, 1.0), y, y[:, None]).warnings == []
    (bad,) = evaluation(ValueSums(-1.0, 1.0), y, -y[:, None]).warnings
    assert "is worse than the" in bad and "the mean of the labels" in bad
    # Where the noise hides everything nothing is claimed, not even that it is bad
    assert evaluation(ClassCounts(2), labels[:30], -scores[:30], std=500.0).warnings == []
