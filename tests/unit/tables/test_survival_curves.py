"""Survival: exactly statsmodels' on the points without noise; coverage and type-I error with it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

import tacenda as tc
from tacenda.errors import InputError, PrivacyError
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.tables import NoisyTableWarning, SurvivalCurves
from tacenda.tables.life_table import counting, rising
from tacenda.tables.survival_curves import statistic_of

POINTS = tuple(float(k) for k in range(1, 13))
SCHEMA = tc.data.Schema.build(
    columns=[{"kind": "categorical", "name": "arm", "levels": ["a", "b", "c"]}],
    label={"name": "seen", "classes": ["0", "1"]},
    survival={"time": "weeks", "event": "seen", "points": POINTS},
)


def drawn(rng: np.random.Generator, n: int, ratio: float = 1.0, arms: int = 2) -> pd.DataFrame:
    arm = rng.integers(0, arms, n)
    time = rng.weibull(1.3, n) * 8 * np.where(arm == 1, ratio, 1.0)
    last = rng.uniform(2, 18, n)
    return pd.DataFrame(
        {
            "weeks": np.minimum(time, last),
            "seen": (time <= last).astype(int),
            "arm": np.array(list("abc"))[arm],
        }
    )


def on_points(frame: pd.DataFrame) -> pd.DataFrame:
    """Whole weeks from 1 to 14."""
    return frame.assign(weeks=np.clip(np.ceil(frame.weeks), 1, 14))


def test_on_the_points_it_is_kaplan_and_meier() -> None:
    frame = on_points(drawn(np.random.default_rng(0), 700, 1.5, arms=3))
    found = tc.survival(SCHEMA, frame, None, by="arm", times="on points")
    assert found.names == ("a", "b", "c", "all")
    for name in found.names:
        own = frame if name == "all" else frame[frame.arm == name]
        theirs = SurvfuncRight(own.weeks, own.seen)
        at = np.searchsorted(theirs.surv_times, POINTS, side="right") - 1
        curve = found.survival(name)
        assert curve.value == pytest.approx(theirs.surv_prob[at], abs=1e-12)
        assert found.at_risk(name)[1] == (own.weeks > 1).sum()
        assert found.events(name)[2] == ((own.weeks == 3) & (own.seen == 1)).sum()
        hazard = np.cumsum(
            [((own.weeks == p) & (own.seen == 1)).sum() / (own.weeks >= p).sum() for p in POINTS]
        )
        assert found.cumulative_hazard(name).value == pytest.approx(hazard, abs=1e-12)
        assert found.median(name).value == theirs.quantile(0.5)
        steps = np.append(1.0, curve.value[:8])
        assert found.restricted_mean(name, 9.0).value == pytest.approx(steps.sum(), abs=1e-12)
    # Mantel's test of the times that the points know
    until = frame.assign(
        seen=np.where(frame.weeks > 12, 0, frame.seen), weeks=np.minimum(frame.weeks, 12.5)
    )
    statistic, chance = survdiff(until.weeks, until.seen, until.arm)
    assert found.log_rank is not None
    assert found.log_rank.statistic == pytest.approx(statistic, rel=1e-10)
    assert found.log_rank.p_value == pytest.approx(chance, rel=1e-8)
    assert found.log_rank.degrees == 2


def test_without_noise_the_standard_error_is_greenwoods() -> None:
    frame = on_points(drawn(np.random.default_rng(1), 900))
    found = tc.survival(SCHEMA, frame, None, times="on points")
    table = found.tables["all"]
    theirs = SurvfuncRight(frame.weeks, frame.seen)
    at = np.searchsorted(theirs.surv_times, POINTS, side="right") - 1
    own = np.exp(table.log_survival) * np.sqrt(np.diag(table.sampling))
    assert own == pytest.approx(theirs.surv_prob_se[at], rel=1e-10)


def test_noise_is_propagated_as_finite_differences_say() -> None:
    """Variance of log S, and of the log-rank score, under noise: against draws."""
    rng = np.random.default_rng(2)
    frame = drawn(rng, 4000)
    exact = tc.survival(SCHEMA, frame, None, by="arm")
    noise = 2.0
    draws, scores = [], []
    for _ in range(400):
        total = exact.total + noise * rng.standard_normal(len(exact.total))
        found = SurvivalCurves(exact.groups, POINTS, total, noise, 4000, None)
        draws.append(found.tables["a"].log_survival[:8])
        assert found.log_rank is not None
        scores.append(found.tables["all"].log_survival[:8])
    one = SurvivalCurves(exact.groups, POINTS, exact.total, noise, 4000, None)
    for name, seen in (("a", draws), ("all", scores)):
        told = np.sqrt(np.diag(one.tables[name].noise))[:8]
        assert np.std(seen, axis=0) == pytest.approx(told, rel=0.12)


def test_between_points_the_truth_is_covered_and_the_test_keeps_its_size() -> None:
    rng, truth = np.random.default_rng(3), np.exp(-((np.array(POINTS) / 8) ** 1.3))
    median, noise = 8 * math.log(2) ** (1 / 1.3), 5.3  # that of epsilon 1 for counts
    held, medians, rejected, powers = [], [], [], []
    asked = statistic_of(4, len(POINTS))
    for _ in range(150):
        for ratio in (1.0, 1.35):
            frame = drawn(rng, 3000, ratio)
            exact = tc.survival(SCHEMA, frame, None, by="arm").total
            total = exact + noise * rng.standard_normal(asked.length)
            found = SurvivalCurves(("a", "b", "c", "missing"), POINTS, total, noise, 3000, None)
            # The third group is empty, and must be seen as such
            assert found.tables["c"].known == 0
            assert found.log_rank is not None and found.log_rank.degrees == 1
            curve, middle = found.survival("a"), found.median("a")
            known = ~np.isnan(curve.value)
            held += list(((curve.low <= truth) & (truth <= curve.high))[known])
            medians.append(middle.low <= median <= middle.high)
    assert np.mean(held) >= 0.93 and np.mean(medians) >= 0.92
    plain = tc.data.Schema.build(
        **{
            **dict(SCHEMA),
            "columns": [{"kind": "categorical", "name": "arm", "levels": ["a", "b"]}],
        }
    )
    for _ in range(200):
        for ratio, kept in ((1.0, rejected), (1.35, powers)):
            exact = tc.survival(plain, drawn(rng, 3000, ratio), None, by="arm")
            total = exact.total + noise * rng.standard_normal(len(exact.total))
            found = SurvivalCurves(exact.groups, POINTS, total, noise, 3000, None)
            assert found.log_rank is not None
            kept.append(found.log_rank.p_value < 0.05)
    assert np.mean(rejected) <= 0.10 and np.mean(powers) >= 0.9, (rejected, powers)


def test_the_release_is_priced_by_the_gaussian_curve() -> None:
    frame = drawn(np.random.default_rng(4), 3000)
    found = tc.survival(SCHEMA, frame, tc.Privacy(1.0), nodes=1, seed=0)
    assert found.privacy is not None and found.privacy.epsilon <= 1.0 + 1e-9
    assert GaussianProfile(math.sqrt(2) / found.noise).epsilon(1e-5) == pytest.approx(1, abs=2e-3)
    assert found.statistic.length == 26  # one group: no table of groups


def test_what_would_be_noise_is_refused_first(tmp_path: Path) -> None:
    few: dict[str, Any] = {"by": "arm", "ledger": tmp_path / "ledger", "dataset": "us"}
    frame = drawn(np.random.default_rng(5), 150)
    with pytest.raises(PrivacyError, match="points.*Nothing was spent.*epsilon of about"):
        tc.survival(SCHEMA, frame, tc.Privacy(0.5), **few)
    assert not (tmp_path / "ledger").exists()
    with pytest.warns(NoisyTableWarning):
        found = tc.survival(SCHEMA, frame, tc.Privacy(0.5), by="arm", noisy="keep", seed=0)
    unknown = [name for name in found.names if found.tables[name].known < len(POINTS)]
    assert unknown and "too few at risk" in found.markdown


def test_odd_records_are_missing() -> None:
    frame = drawn(np.random.default_rng(6), 300).astype({"seen": object, "weeks": object})
    frame.loc[0, "weeks"], frame.loc[1, "weeks"] = "soon", -2.0
    frame.loc[2, "seen"], frame.loc[3, "seen"] = None, 1.0
    found = tc.survival(SCHEMA, frame, None)
    assert found.at_risk("all")[0] == 297
    with pytest.raises(InputError, match=r"no \[survival\]"):
        tc.survival(SCHEMA.model_copy(update={"survival": None}), frame, None)
    with pytest.raises(InputError, match="lacks the column 'weeks'"):
        tc.survival(SCHEMA, frame.drop(columns="weeks"), None)
    with pytest.raises(ValueError, match="rising and above 0"):
        tc.data.Survival(time="weeks", event="seen", points=(2.0, 1.0))
    with pytest.raises(InputError, match="until must be one of the points"):
        found.restricted_mean("all", 1.5)


def test_a_schema_with_survival_is_written_and_read() -> None:
    again = tc.data.Schema.from_toml(SCHEMA.to_toml())
    assert again.survival == SCHEMA.survival and again.hash() == SCHEMA.hash()
    bare = SCHEMA.model_copy(update={"survival": None})
    assert bare.hash() != SCHEMA.hash()
    assert "survival" not in bare.to_toml()


def test_files(tmp_path: Path) -> None:
    frame = drawn(np.random.default_rng(7), 3000, 1.4)
    schema = tc.data.Schema.build(
        **{
            **dict(SCHEMA),
            "columns": [{"kind": "categorical", "name": "arm", "levels": ["a", "b"]}],
        }
    )
    found = tc.survival(schema, frame, tc.Privacy(2.0), by="arm", nodes=3, seed=0)
    again = SurvivalCurves.from_plain(found.to_plain())
    assert again.markdown == found.markdown and "Log-rank test up to" in found.markdown
    lines = pd.read_csv(found.save(tmp_path / "s.csv"))
    assert len(lines) == 3 * len(POINTS)
    assert "Survival by arm" in found.save(tmp_path / "s.html").read_text()
    for name in ("s.json", "s.md", "s.svg"):
        assert found.save(tmp_path / name).stat().st_size > 500
    with pytest.raises(InputError, match="must end in"):
        found.save(tmp_path / "s.doc")


def test_rising_is_the_isotonic_regression() -> None:
    from sklearn.isotonic import IsotonicRegression

    values = np.random.default_rng(8).normal(size=40).cumsum()
    theirs = IsotonicRegression().fit_transform(np.arange(40), values)
    assert rising(values) == pytest.approx(theirs)


def test_counting_by_hand() -> None:
    """Two points: event in 1, event in 2, last seen before 1, between, after 2; missing."""
    events, at_risk = counting(2, on_points=False)
    assert events.tolist() == [[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]]
    assert at_risk.tolist() == [[1, 1, 0.5, 1, 1, 0], [0, 1, 0, 0.5, 1, 0]]
    assert counting(2, on_points=True)[1].tolist() == [[1, 1, 0, 1, 1, 0], [0, 1, 0, 0, 1, 0]]
