"""The decision from a released spectrum, written out again: one direction, one step and one clip
after the other, the descent by its recursion, and all constants as numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from tacenda.algorithms.spectrum import Setting, decide, descend, records_moment, within
from tacenda.losses import Poisson
from tacenda.questions.constants import Constants

TRIED = (0.5, 0.6, 0.7, 0.85, 1.0, 1.2)


def cut(values: Any, bound: float) -> list[float]:
    return [min(max(0.0 if math.isnan(v) else float(v), -bound), bound) for v in values]


def variances(values: Any, std: float, bound: float, diagonal: bool) -> tuple[list[float], int]:
    """What the records have along each direction, and how many stand out of the noise."""
    e, d = cut(values, bound), len(values)
    edge = std * math.sqrt(max(1.0, 2 * math.log(d)) if diagonal else 2 * d)
    out = [(v if diagonal else math.sqrt(v * v - edge * edge)) if v > edge else None for v in e]
    hidden = out.count(None)
    least = 1e-6 * bound / d
    if hidden:
        share = (sum(e) - sum(v for v in out if v is not None)) / hidden
        share = min(max(share, std / math.sqrt(d)), edge)
        least = min(max(least, share), bound)
    return [max(least, 0.0 if v is None else v) for v in out], d - hidden


def descent(h: float, ridge: float, eta: float, rounds: int, tail: float) -> tuple[float, float]:
    """(what is left of a squared signal of 1, the variance that noise of variance 1 leaves)."""
    count = max(1, round(tail * rounds))
    rate = min(eta * h, 1.9)

    def average(pull: float, kicked: int) -> float:
        v, models = 0.0, []
        for t in range(rounds):
            v = ((1 - rate) * v + eta * pull + (eta if t == kicked else 0.0)) / (1 + eta * ridge)
            models.append(v)
        return sum(models[-count:]) / count

    return (1 - average(h, -1)) ** 2, sum(average(0.0, t) ** 2 for t in range(rounds))


def largest(k: Constants) -> float:
    """The largest count."""
    return float(k.loss.label_range[1])


def loss_of(k: Constants) -> tuple[float, float, float, float, float, tuple[float, ...]]:
    """(steepest curvature, typical one, share of it late, a misfit's slope, signal, clips)."""
    name = k.loss.name
    if name in ("logistic", "smoothed-hinge"):
        steep = {"logistic": 0.25, "smoothed-hinge": min(k.loss.curvature, 1.0)}[name]
        return steep, steep / 2, 0.6, 1.0, 4.0, TRIED
    if name == "multinomial":
        steep = min(k.loss.curvature, 1.0, 2 / k.n_outputs)
        return steep, 0.5 / k.n_outputs, 0.6, 1.0, 4.0, TRIED
    if name == "poisson":
        bend = min(1.0, largest(k) / 8) / largest(k)
        return min(1.0, 8 * bend), bend, 1.0, min(0.3, k.clip_norm or 1.0), 0.5, (1.0,)
    force = k.loss.slope
    if name == "squared" and k.clip_norm is not None:
        force = k.clip_norm / k.data_norm
    signal = 0.5 * (force**2 if math.isfinite(force) else 1.0)
    return min(4.0, k.loss.curvature), 1.0, 1.0, force, signal, (1.0,)


def candidates(clips: tuple[float, ...], unit: float, whole: float) -> list[float]:
    """Below the longest gradient, then by half as much more each time, then that one."""
    if math.isinf(whole):
        return [v * unit for v in clips]
    below = [v * unit for v in clips if v * unit < whole]
    if below:
        more = [below[-1] * 1.5**j for j in range(1, 50)]
        below += [c for c in more if c < whole]
    return [*below, whole]


def decided(
    values: Any,
    std: float,
    weight: float,
    rounds: int,
    k: Constants,
    adjacency: str = "replace-one",
    *,
    norm: float = 1.0,
    floor: float | None = None,
    scale: float | None = None,
    clip: float | None = None,
    rank: int | None = None,
    tail: float = 0.5,
    diagonal: bool = False,
    records: float | None = None,
    guess: bool = False,
) -> Setting:
    bound = k.data_norm**2
    e, d = cut(values, bound), len(values)
    edge = std * math.sqrt(max(1.0, 2 * math.log(d)) if diagonal else 2 * d)
    a, seen = variances(values, std, bound, diagonal)
    lowest = max(edge * (0.7 if floor is None else floor), 1e-6 * max(a))
    f = [max(v, lowest) for v in e][:rank]
    a = a[:rank]
    row = norm * (0.5 if scale is None else scale)
    size2 = row**2 / sum(v / w for v, w in zip(a, f, strict=True))
    top = max(max(v / w for v, w in zip(a, f, strict=True)), min(edge / 2, bound) / lowest)
    guessed = max(size2 * min(top, 1.0), row**2 / sum(1 / math.sqrt(j + 1) for j in range(len(a))))
    top = row**2 if diagonal else size2 * min(top, 1.0)
    more = max(1.0, top / guessed) if guess else 1.0
    steep, typical, late, force, signal, clips = loss_of(k)
    c0, outputs = k.loss_scale, k.n_outputs
    slope = k.loss.slope if k.clip_norm is None else min(k.loss.slope, k.clip_norm / k.data_norm)
    whole = slope * norm  # few gradients of mapped rows are longer
    longest = max(whole, slope * k.data_norm * math.sqrt(size2 / min(f)))  # and none than this
    # the variance of a record's slope over the curvature
    scatter = {"squared": 0.1, "huber": 0.1, "poisson": 1 / largest(k)}.get(k.loss.name, 1.0)
    smooth = c0 * steep * min(top, norm**2)
    changed = {"replace-one": 2, "add-remove": 1}[adjacency]
    # sensitivities: sqrt(changed) bound/m of the moment, changed c0/m of a gradient of bound 1
    noise = std * math.sqrt(weight) * changed * c0 / (math.sqrt(changed) * bound)
    h = [typical * c0 * size2 * v / w for v, w in zip(a, f, strict=True)]
    chooses = k.auto_strength and records is not None and std > 0 and k.regulariser.l2 > 0
    tried = [10 ** (-j / 2) for j in range(15)] if chooses else [k.strength]
    found: list[tuple[float, ...]] = []
    for strength, j in itertools.product(tried, range(27 + math.ceil(2 * math.log2(more)))):
        step = 1.5 * more / math.sqrt(2) ** j
        left = loud = drawn = 0.0
        for hk, fk, ak in zip(h, f, a, strict=True):
            rk = strength * k.regulariser.l2 * size2 / fk
            rest, spread = descent(late * hk, rk, step / smooth, rounds, tail)
            flat, _ = descent(late * hk / 4, rk, step / smooth, rounds, tail)
            if k.loss.kind != "regression" or k.loss.name == "poisson":
                rest = 0.9 * rest + 0.1 * flat
            left += 0.5 * outputs * typical * c0 * signal * ak / sum(a) * rest
            loud += 0.5 * outputs * (hk + rk) * spread
            if chooses and records:  # a mean gradient of variance h c0/records, all rounds alike
                share = 0.5 * outputs * c0 * scatter / records
                drawn += share * (1 - math.sqrt(rest)) ** 2
        for c in candidates(clips, force * row, longest) if clip is None else [clip]:
            bent = 0.15 * c0 * max(0.0, 1 - c / (force * row)) ** 3 if math.isfinite(force) else 0.0
            per_energy = 0.001 if k.loss.kind == "regression" else 0.03
            missed = max(0.0, 1 - c / whole) ** 3
            if math.isfinite(longest):
                missed += 0.01 * max(0.0, 1 - c / longest) ** 3
            bent += per_energy * 0.5 * typical * c0 * signal * missed
            noisy = loud * (noise * c) ** 2 if noise else 0.0
            found.append((left + noisy + bent + drawn, step, c, left, noisy, bent, strength))
    # of each strength the best, and of these to three digits the least; of equals the strongest
    each = [min((one for one in found if one[6] == r), key=lambda one: one[0]) for r in tried]
    _, step, c, left, noisy, bent, strength = min(each, key=lambda one: float(f"{one[0]:.3g}"))
    ridge = [strength * k.regulariser.l2 * size2 / w for w in f]
    none = clip is None and (std == 0 or not math.isfinite(force))
    return Setting(
        lowest,
        math.sqrt(size2),
        None if none else c,
        step,
        smooth,
        seen,
        left,
        noisy,
        bent,
        np.array(h),
        np.array(ridge),
        noise * c if noise else 0.0,
        strength,
    )


def spectrum(seed: int, d: int) -> np.ndarray:
    """Falling, with some at or below the noise."""
    rng = np.random.default_rng(seed)
    e = np.sort(10.0 ** (-3.5 * rng.random(d)))[::-1] * 0.6
    return e - 2e-3 * rng.random(d)


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("plain", {}, {}),
    ("quiet", {}, {"std": 1e-6}),
    ("loud", {}, {"std": 0.2}),
    ("very loud", {}, {"std": 4.0}),
    ("no noise", {}, {"std": 0.0}),
    ("one direction", {}, {"d": 1}),
    ("one feature", {}, {"d": 1, "diagonal": True, "std": 0.05}),
    ("diagonal", {"strength": 0.1}, {"diagonal": True}),
    ("diagonal, a guess", {}, {"diagonal": True, "guess": True, "d": 40, "std": 1e-4}),
    ("one feature, a guess", {}, {"d": 1, "diagonal": True, "guess": True}),
    ("all models", {"strength": 0.05}, {"tail": 1.0, "rounds": 7}),
    ("the last model", {}, {"tail": 0.05, "rounds": 9}),
    ("one round", {}, {"rounds": 1}),
    ("rank", {"strength": 0.02}, {"rank": 2}),
    ("norm", {"strength": 0.02}, {"norm": 3.0}),
    ("long rows", {}, {"norm": 0.5, "scale": 4.0}),
    ("scale", {}, {"scale": 0.9, "std": 1e-2}),
    ("floor", {}, {"floor": 3.0}),
    ("clip", {"strength": 0.3}, {"clip": 0.2, "weight": 30.0}),
    ("add-remove", {"data_norm": 2.0}, {"adjacency": "add-remove", "std": 1e-2}),
    ("units", {"data_norm": 3.0, "loss_scale": 2.5, "strength": 0.4}, {"std": 3e-2}),
    ("weak", {"loss_scale": 0.2}, {"std": 3e-3, "weight": 0.1}),
    ("three classes", {"loss": "multinomial", "classes": 3, "strength": 0.01}, {"std": 5e-3}),
    ("many classes", {"loss": "multinomial", "classes": 9}, {"std": 5e-3}),
    ("smoothed hinge", {"loss": "smoothed-hinge"}, {"std": 3e-3}),
    ("huber", {"loss": "huber", "loss_scale": 3.0}, {"std": 3e-3}),
    ("squared", {"loss": "squared", "clip_norm": 3.0, "data_norm": 2.0}, {"std": 3e-2}),
    ("strength left open", {"strength": "auto"}, {"records": 3000.0}),
    ("few records", {"strength": "auto"}, {"records": 30.0, "std": 1e-2}),
    ("open, huber", {"loss": "huber", "strength": "auto"}, {"records": 200.0, "std": 1e-2}),
    ("open, counts", {"loss": Poisson(20.0), "strength": "auto"}, {"records": 2e3, "std": 1e-4}),
    ("counts, clipped", {"loss": Poisson(4.0), "clip_norm": 0.2}, {"std": 1e-3}),
    ("open, no noise", {"strength": "auto"}, {"records": 200.0, "std": 0.0}),
    ("open, no records", {"strength": "auto"}, {}),
    ("steep", {"loss": "smoothed-quantile"}, {"std": 1e-5}),
    ("squared, not clipped", {"loss": "squared"}, {"std": 0.0, "tail": 0.3}),
]


@pytest.mark.parametrize(("declared", "asked"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_decision_is_the_one_with_the_least_forecast_risk(
    declared: dict[str, Any], asked: dict[str, Any]
) -> None:
    k = Constants.declared(**{"loss": "logistic", "strength": 0.0, **declared})
    given = {"std": 2e-3, "weight": 2.0, "rounds": 12, **asked}
    d = given.pop("d", 5)
    std, weight, rounds = (given.pop(name) for name in ("std", "weight", "rounds"))
    for seed in range(3):
        e = spectrum(seed, d) * k.data_norm**2
        found = vars(decide(e, std, weight, rounds, k, **given))
        expected = vars(decided(e, std, weight, rounds, k, **given))
        for name, value in expected.items():
            near = value if value is None else pytest.approx(value, rel=1e-7, abs=1e-14)
            assert found[name] == near, name


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("std", [0.0, 1e-4, 3e-3, 0.05, 2.0])
def test_the_records_variances(std: float, diagonal: bool) -> None:
    for seed in range(4):
        for bound in (1.0, 0.01, 9.0):
            e = np.concatenate([spectrum(seed, 6) * bound, [np.nan, np.inf, -np.inf]])
            expected, _ = variances(e, std, bound, diagonal)
            assert records_moment(e, std, bound, diagonal) == pytest.approx(expected, rel=1e-12)
            assert within(e, bound).tolist() == cut(e, bound)


def test_an_overshooting_step_is_forecast_as_the_steepest_that_still_converges() -> None:
    for h, ridge in ((3.0, 0.0), (1.9, 0.4), (0.7, 0.1)):
        left, spread = descend(np.array([h]), np.array([ridge]), 1.0, 8, 0.5)
        rest, kicks = descent(h, ridge, 1.0, 8, 0.5)
        assert (float(left[0]), float(spread[0])) == pytest.approx((rest, kicks))


def test_what_is_decided_where_nothing_is_said() -> None:
    e, k = spectrum(0, 5), Constants.declared(loss="logistic")
    assert decide(e, 1e-3, 2.0, 12, k) == decide(
        e, 1e-3, 2.0, 12, k, "replace-one", norm=1.0, tail=0.5, diagonal=False
    )
    assert decide(e, 1e-2, 2.0, 12, k) != decide(e, 1e-2, 2.0, 12, k, tail=1.0)
