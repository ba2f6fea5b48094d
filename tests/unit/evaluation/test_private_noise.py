"""What private measures are told about their noise, against differences: every released number is
moved a little, and what follows of it is looked at. No formula of the package is used.

The noise of a released sum is independent and of one size, so that whatever is linear in it has
the covariance noise^2 J J', J the derivatives by the numbers of the sum.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacenda.evaluation import private_intervals as intervals
from tacenda.evaluation.private import NOTHING_KNOWN, PrivateEvaluation
from tacenda.evaluation.units import Units
from tacenda.questions.counts import ClassCounts, CountSums, QuantileSums, ValueSums
from tacenda.questions.outcomes import OutcomeCounts
from tacenda.questions.statistics import Records

N, STD = 40_000, 5.0
RNG = np.random.default_rng(8)
SCORES = RNG.standard_normal(N)
SIZES = {"public": N, "private": None}


def _summed(statistic: Any, labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    scores = scores.reshape(N, -1)
    kind = statistic.kinds[0] if scores.shape[1] == 1 else statistic.kinds[-1]
    records = Records(scores, labels.astype(float), scores.shape[1], kind, lambda model: scores)
    return np.asarray(statistic.vectors(records, np.zeros(1)).sum(axis=0))


def _binary() -> tuple[Any, np.ndarray]:
    s = ClassCounts(2)
    chance = 1 / (1 + np.exp(0.7 - 1.5 * SCORES))
    return s, _summed(s, np.where(RNG.random(N) < chance, 1, -1), 1.5 * SCORES - 0.5)


def _classes() -> tuple[Any, np.ndarray]:
    s, scores = ClassCounts(3), RNG.standard_normal((N, 3))
    return s, _summed(s, (scores + RNG.gumbel(size=(N, 3))).argmax(axis=1), scores)


def _values(bound: float | None = None) -> tuple[Any, np.ndarray]:
    s, guess = ValueSums(-1.0, 2.0, bound), np.clip(0.4 + 0.4 * SCORES, -1, 2)
    return s, _summed(s, np.clip(guess + 0.1 + 0.3 * RNG.standard_normal(N), -1, 2), guess)


def _counts() -> tuple[Any, np.ndarray]:
    s, score = CountSums(12.0), 0.3 + 0.7 * SCORES
    return s, _summed(s, RNG.poisson(np.exp(score)).clip(0, 12), score)


def _quantiles() -> tuple[Any, np.ndarray]:
    s, guess = QuantileSums(-1.0, 1.0, 0.8), np.clip(0.3 * SCORES + 0.1, -1, 1)
    return s, _summed(s, np.clip(guess - 0.2 + 0.3 * RNG.standard_normal(N), -1, 1), guess)


MADE: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "two classes": _binary,
    "three classes": _classes,
    "values": _values,
    "values, cut": lambda: _values(0.8),
    "counts": _counts,
    "quantiles": _quantiles,
}


def _read(s: Any, total: np.ndarray, size: str, std: float = STD, **how: Any) -> PrivateEvaluation:
    how = {"units": Units(5.0, 3.0, 2.0, 8.0), **how}
    return PrivateEvaluation(s, total, std, SIZES[size], None, **how)


def _heard(
    patch: pytest.MonkeyPatch, found: PrivateEvaluation
) -> list[tuple[str, np.ndarray, np.ndarray, list[np.ndarray]]]:
    """(kind, part, whole, what is said of their noise) of every interval that is asked for, when
    all that an evaluation tells is read."""
    heard: list[Any] = []

    def spy(kind: str, honest: Any, first: int) -> Any:
        def asks(part: Any, whole: Any, level: float, *rest: Any) -> Any:
            noise = rest[first] if len(rest) > first else (0.0,) * (3 - first)
            heard.append((kind, *(np.array(x, float) for x in np.broadcast_arrays(part, whole)),
                          [np.asarray(x, float) for x in noise]))  # fmt: skip
            return honest(part, whole, level, *rest)

        return asks

    with patch.context() as inside:
        inside.setattr(intervals, "share", spy("share", intervals.share, 0))
        inside.setattr(intervals, "mean", spy("mean", intervals.mean, 1))
        found.to_plain()
        if isinstance(found.statistic, ClassCounts) and found.statistic.n_classes == 2:
            found.threshold(flagged=0.3)
            found.threshold(missed_cost=3.0)
    return heard


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("made", MADE)
def test_an_interval_is_told_the_noise_of_what_it_is_given(
    made: str, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly where the number of records is private; where it is public the cells are moved so
    that they add up to it, and what is said may be the little more that they had before."""
    s, total = MADE[made]()
    before = _heard(monkeypatch, _read(s, total, size))
    parts = [np.zeros((len(total), *part.shape)) for _, part, _, _ in before]
    wholes = [np.zeros((len(total), *part.shape)) for _, part, _, _ in before]
    for k in range(len(total)):
        moved = total.copy()
        moved[k] += 0.5
        for j, (_, part, whole, _) in enumerate(_heard(monkeypatch, _read(s, moved, size))):
            parts[j][k] = (part - before[j][1]) / 0.5
            wholes[j][k] = (whole - before[j][2]) / 0.5
    assert len(before) > 4
    for (kind, part, whole, said), a, b in zip(before, parts, wholes, strict=True):
        vaa, vab, vbb = (STD**2 * (x * y).sum(axis=0) for x, y in ((a, a), (a, b), (b, b)))
        if kind == "mean":
            np.testing.assert_allclose(vab, 0, atol=1e-6 * vaa.max())
            told = [said[0], np.zeros(()), said[1]]
        else:
            told = said
        ratio = np.clip(part / np.maximum(whole, 1.0), 0, 1)
        true, claimed = (x - 2 * ratio * y + ratio**2 * z for x, y, z in ((vaa, vab, vbb), told))
        assert np.all(claimed >= true * (1 - 1e-6)), kind
        if size == "private":
            for one, other in zip(told, (vaa, vab, vbb), strict=True):
                np.testing.assert_allclose(np.broadcast_to(one, other.shape), other, rtol=1e-6)
        else:
            assert np.all(claimed <= 2.2 * true + 1e-6), kind


def _outcomes(kind: str) -> tuple[Any, np.ndarray, tuple[float, ...]]:
    """A table of ordered classes or of times, as calibrated scores fill it."""
    s = OutcomeCounts(kind, 3 if kind == "ordinal" else 5)
    offsets = (0.0, -0.8) if kind == "ordinal" else (0.0, 0.2)
    table = RNG.gamma(6.0, N / 6 / np.prod(s.tables["outcomes"]), s.tables["outcomes"])
    table *= N / table.sum()
    return s, table.reshape(-1) * s.scales["outcomes"], offsets


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("made", [*MADE, "ordinal", "discrete-hazard"])
def test_no_interval_is_narrower_than_what_the_noise_does(made: str, size: str) -> None:
    """Of every measure the distance to either end is at least z times the noise of its value to
    first order; and not many times as far, where the noise is all there is."""
    how: dict[str, Any] = {}
    if made in MADE:
        s, total = MADE[made]()
    else:
        s, total, how["offsets"] = _outcomes(made)
    found = _read(s, total, size, **how)
    value = found.measures
    slopes = {name: np.zeros(len(total)) for name in value}
    for k in range(len(total)):
        moved = total.copy()
        moved[k] += 0.1
        there = _read(s, moved, size, **how).measures
        for name, slope in slopes.items():
            slope[k] = (there[name].value - value[name].value) / 0.1
    # Of so many records sampling is nothing beside the noise
    many = _read(s, 1e4 * total, "private", 1e4 * STD, **how)
    z = intervals.quantile(0.95)
    for name, m in value.items():
        reach = z * STD * float(np.linalg.norm(slopes[name]))
        assert m.known and reach > 0, name
        down, up = _apart(m)
        assert min(down, up) >= reach * (1 - 1e-2), name
        if size == "private":
            most = 6 if name == "calibration_slope" else 4  # whose bound adds up the worst
            assert max(_apart(many.measures[name])) <= most * reach, name


def _apart(m: Any) -> tuple[float, float]:
    """How far both ends are; those of a root were found as squares, whose slope is 2 times it."""
    if m.name == "rmse":
        low, value, high = (x**2 / (2 * m.value) for x in (m.low, m.value, m.high))
        return value - low, high - value
    return m.value - m.low, m.high - m.value


@pytest.mark.parametrize("made", [*MADE, "ordinal", "discrete-hazard"])
@pytest.mark.parametrize("times", [0.0, -1e-3])
def test_of_no_records_nothing_is_known(made: str, times: float) -> None:
    """No records, or fewer than none by the noise: no number that is none, no interval that says
    anything, and no warning of numpy's."""
    how: dict[str, Any] = {}
    if made in MADE:
        s, total = MADE[made]()
    else:
        s, total, how["offsets"] = _outcomes(made)
    for size in SIZES:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = PrivateEvaluation(s, times * total, 5.0, None if size == "private" else 0, None)
            found = PrivateEvaluation.from_plain({**found.to_plain(), **how})
            plain = json.dumps(found.to_plain())
            assert found.text
        assert "NaN" not in plain
        for m in found.measures.values():
            assert m.note == NOTHING_KNOWN or m.name == "calibration_slope", (m, size)
