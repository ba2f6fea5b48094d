"""`Privacy` keeps what was stated, refuses what means nothing, and is the same again from a file;
and the prices of all kinds of noise, by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.errors import InputError, LeakError, PrivacyError, UnsupportedError
from tacenda.privacy.accounting import events
from tacenda.privacy.secrets.bounded import ALL_RECORDS, Sample
from tacenda.privacy.secrets.mechanisms import (
    NoiseKind,
    ObjectiveNoise,
    ObjectiveTerms,
    Site,
    correlated_charge,
    gaussian_charge,
    laplace_charge,
    objective_charge,
    objective_noise,
)
from tacenda.privacy.secrets.noise_plan import ScaledPlan, price, round_weights
from tacenda.privacy.settings import Privacy

PLAIN = {
    "epsilon": 1.0,
    "delta": 1e-5,
    "adjacency": "replace-one",
    "mode": "sound",
    "spread": "uniform",
    "node_noise": "own",
    "coalition": 1,
}


def test_what_is_left_out_means_what_it_always_meant() -> None:
    assert Privacy(1.0).to_plain() == PLAIN
    assert Privacy.from_noise(noise_multiplier=2.0).to_plain() == {
        **PLAIN,
        "epsilon": math.inf,
        "noise": {"noise_multiplier": 2.0},
    }
    assert Privacy.from_paper(epsilon=2.0, c0=1.5).to_plain() == {
        **PLAIN,
        "epsilon": 2.0,
        "mode": "as-published",
        "noise": {"c0": 1.5},
    }
    assert Privacy.from_paper(alpha=0.5).epsilon == math.inf
    for name in ("a", "alpha", "phi"):
        assert Privacy.from_paper(**{name: 0.5}).noise == {name: 0.5}  # type: ignore[arg-type]


def test_everything_that_is_stated_is_kept() -> None:
    more: dict[str, Any] = {
        "delta": 1e-3,
        "adjacency": "add-remove",
        "spread": [1, 2],
        "node_noise": "worst",
        "coalition": 3,
    }
    for made in (
        Privacy([1.0, 2.0], **more),
        Privacy.from_noise(noise_multiplier=2.0, **more),
        Privacy.from_noise(round_epsilon=2.0, **more),
    ):
        assert (made.delta, made.adjacency, made.spread) == (1e-3, "add-remove", (1.0, 2.0))
        assert (made.node_noise, made.coalition, made.mode) == ("worst", 3, "sound")
        assert made.to_plain()["spread"] == [1.0, 2.0]
    assert Privacy([1, 2]).to_plain()["epsilon"] == [1.0, 2.0]
    assert Privacy([1, 2]).epsilon_of(2).tolist() == [1.0, 2.0]
    assert Privacy(3.0).epsilon_of(2).tolist() == [3.0, 3.0]
    paper = Privacy.from_paper(phi=1.0, delta=1e-3, spread=[1, 3])
    assert (paper.delta, paper.spread) == (1e-3, (1.0, 3.0))
    schedule = tc.schedules.power(1.0, 0.5)
    assert Privacy(1.0, spread=schedule).to_plain()["spread"]["schedule"] == "power"
    assert Privacy(1.0, 0.0).delta == 0.0 and Privacy(1.0, coalition=0).pooled("x") == 0
    assert Privacy(1.0, coalition=2).pooled("x") == 2


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Privacy(0.0), "epsilon must be a number above 0"),
        (lambda: Privacy("1"), "epsilon must be a number above 0, not '1'"),  # type: ignore
        (lambda: Privacy(None), "privacy=None"),  # type: ignore[arg-type]
        (lambda: Privacy([1.0, -1.0]), "epsilon must be a number above 0"),
        (lambda: Privacy(1.0, 1.0), "delta must be below 1"),
        (lambda: Privacy(1.0, -0.1), "delta must be between 0 and 1"),
        (lambda: Privacy(1.0, adjacency="both"), "adjacency must be one of"),
        (lambda: Privacy(1.0, mode="printed"), "mode must be one of"),
        (lambda: Privacy(1.0, node_noise="all"), "node_noise must be one of"),
        (lambda: Privacy(1.0, coalition=-1), "coalition must be"),
        (lambda: Privacy(1.0, coalition=0.5), "coalition must be"),  # type: ignore[arg-type]
        (lambda: Privacy([1.0, 2.0]).epsilon_of(3), r"one per node \(3\), not 2 numbers"),
        (lambda: Privacy.from_noise(), "noise_multiplier|round_epsilon"),
        (
            lambda: Privacy.from_noise(noise_multiplier=1.0, round_epsilon=1.0),
            "noise_multiplier|round_epsilon",
        ),
        (lambda: Privacy.from_noise(noise_multiplier=0.0), "noise_multiplier must be"),
        (lambda: Privacy.from_paper(), "from_paper needs epsilon"),
        (lambda: Privacy.from_paper(c0=1.0), "from_paper needs epsilon"),
        (
            lambda: Privacy.from_paper(a=1.0, phi=1.0),
            "takes one of c0, a, alpha, phi and phi_1, not a, phi",
        ),
        (lambda: Privacy.from_paper(a=-1.0), "a must be a number above 0"),
    ],
)
def test_what_means_nothing_is_refused(made: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        made()


def test_noise_that_needs_trust_is_refused_where_nobody_is_trusted() -> None:
    with pytest.raises(UnsupportedError, match="GossipGD shares noise"):
        Privacy(1.0, coalition=None).pooled("GossipGD")


def test_shares_of_the_rounds() -> None:
    assert round_weights("uniform", 3).tolist() == [1.0, 1.0, 1.0]
    np.testing.assert_allclose(round_weights([1, 2, 3], 3), [0.5, 1.0, 1.5])
    grows = round_weights(tc.schedules.power(5.0, 1.0), 4)
    np.testing.assert_allclose(grows, np.array([1, 2, 3, 4]) * 0.4)
    assert round_weights([], 0).tolist() == [] and round_weights("uniform", 0).tolist() == []
    for wrong in ([1, 2], [1, 2, 0], [1, 2, -1], [1, 2, math.inf], [1, 2, math.nan]):
        with pytest.raises(InputError, match="spread must hold"):
            round_weights(wrong, 3)
    with pytest.raises(InputError, match="spread must be one of"):
        round_weights("even", 3)


# ---- prices

STD, SENS = np.array([2.0, 3.0]), np.array([0.5, 0.25])


def site(noise: NoiseKind, **more: Any) -> Site:
    return Site(2, 0.5, 7, noise, SENS, more.pop("sample", ALL_RECORDS), **more)


def test_prices_by_hand() -> None:
    plan = ScaledPlan(STD, np.array([1.5, 0.5]), np.array([0.2, 0.3]), 4)
    assert (plan.weight(1), plan.weight(2)) == (1.5, 0.5)
    assert ScaledPlan(STD, np.ones(1)).rows(np.array([1])).leverage is None
    one = plan.rows(np.array([1]))
    assert (one.scale.tolist(), one.leverage.tolist(), one.coalition) == ([3.0], [0.3], 4)
    charge, std = price(plan, site(NoiseKind.GAUSSIAN))
    np.testing.assert_allclose(std, STD * SENS / math.sqrt(0.5))
    assert charge.kind is events.Gaussian
    np.testing.assert_allclose(charge.parameters["noise_multiplier"], STD / math.sqrt(0.5))
    charge, std = price(plan, site(NoiseKind.GAUSSIAN, relative_std=0.1))
    np.testing.assert_allclose(std, 0.1 * STD)
    np.testing.assert_allclose(charge.parameters["noise_multiplier"], 0.1 * STD / SENS)
    charge, std = price(plan, site(NoiseKind.CORRELATED))
    np.testing.assert_allclose(std, STD / math.sqrt(0.5))
    np.testing.assert_allclose(charge.parameters["mu"], SENS * np.sqrt([0.2, 0.3]) / std)
    assert charge.parameters["coalition"].tolist() == [4, 4]
    charge, rate = price(plan, site(NoiseKind.L2_LAPLACE))
    np.testing.assert_allclose(rate, 0.5 / (STD * SENS))
    np.testing.assert_allclose(charge.parameters["epsilon"], 0.5 / STD)
    assert charge.kind is events.L2Laplace and charge.parameters["dim"].tolist() == [7, 7]


def test_samples_are_priced_as_samples() -> None:
    rate = np.array([0.1, 0.25])
    poisson = gaussian_charge(STD, SENS, Sample("poisson", rate))
    assert poisson.kind is events.PoissonGaussian
    np.testing.assert_allclose(poisson.parameters["noise_multiplier"], STD / SENS)
    np.testing.assert_allclose(poisson.parameters["rate"], rate)
    one = gaussian_charge(STD, SENS, Sample("one", rate))
    assert one.kind is events.OneOfGaussian and one.parameters["population"].tolist() == [10, 4]
    for charge in (
        lambda s: correlated_charge(STD, SENS, np.ones(2), 1, s),
        lambda s: laplace_charge(STD, SENS, 3, s),
    ):
        charge(ALL_RECORDS)
        with pytest.raises(PrivacyError, match="on a sample of the records"):
            charge(Sample("poisson", rate))
    with pytest.raises(PrivacyError, match="must state its rate"):
        gaussian_charge(STD, SENS, Sample("poisson", None))
    for wrong, words in (
        (np.array([1.0, math.inf]), "without bound"),
        (np.array([1.0, math.nan]), "without bound"),
        (np.array([1.0, 0.0]), "sensitivity 0"),
        (np.array([1.0, -1.0]), "sensitivity 0"),
    ):
        for priced in (
            lambda w: gaussian_charge(STD, w, ALL_RECORDS),
            lambda w: correlated_charge(STD, w, np.ones(2), 1, ALL_RECORDS),
            lambda w: laplace_charge(STD, w, 3, ALL_RECORDS),
        ):
            with pytest.raises(PrivacyError, match=words):
                priced(wrong)


def terms(tolerance: float) -> ObjectiveTerms:
    steep = np.array([0.02, 0.4])
    return ObjectiveTerms(
        slope=np.array([0.1, 0.3]),
        convexity=np.array([0.5, 0.05]),
        log_curvature=lambda kappa: np.log1p(steep / kappa),
        least_convexity=lambda log: steep / np.expm1(log),
        tolerance=tolerance,
    )


def pure_loss(charge: Any) -> Any:
    """(b,) the pure epsilon of each node's release."""
    return sum(charge.parameters[name] for name in ("inner", "curvature", "gap"))


@pytest.mark.parametrize("tolerance", [0.0, 1e-3])
def test_noise_inside_an_objective_costs_what_was_asked_with_as_little_as_possible(
    tolerance: float,
) -> None:
    """slope * rate + ln(1 + steep/kappa) + the gap's share add up to epsilon; the logarithm takes
    half of the rest at most, and where it would take more just so much convexity is added."""
    t, epsilon = terms(tolerance), np.array([0.8, 1.2])
    found = objective_noise(epsilon, t)
    share = 0.01 if tolerance else 0.0
    ours = epsilon * (1 - share)
    kappa = t.convexity + found.extra
    logs = t.log_curvature(kappa)
    np.testing.assert_allclose(pure_loss(objective_charge(found, t, 3)), epsilon)
    np.testing.assert_allclose(t.slope * found.amount + logs, ours)
    assert found.extra[0] == 0.0 and logs[0] < ours[0] / 2
    assert found.extra[1] > 0 and logs[1] == pytest.approx(ours[1] / 2)
    if tolerance:
        assert found.gap is not None
        np.testing.assert_allclose(found.gap * 2 * tolerance / kappa, 0.01 * epsilon)
    else:
        assert found.gap is None
    bare = ObjectiveNoise(found.amount, found.extra, None)
    np.testing.assert_allclose(pure_loss(objective_charge(bare, t, 3)), ours)
    plan = ScaledPlan(1 / epsilon, np.array([1.0]))
    inside = Site(1, 1.0, 3, NoiseKind.OBJECTIVE, objective=t)
    charge, noise = price(plan, inside)
    np.testing.assert_allclose(noise.amount, found.amount)
    np.testing.assert_allclose(pure_loss(charge), epsilon)
    assert charge.kind is events.ObjectiveLaplace


def test_kinds_of_noise_that_are_added() -> None:
    assert [NoiseKind.added(w) for w in ("gaussian", "correlated", "l2-laplace")] == [
        NoiseKind.GAUSSIAN,
        NoiseKind.CORRELATED,
        NoiseKind.L2_LAPLACE,
    ]
    with pytest.raises(InputError, match="noise must be one of"):
        NoiseKind.added("objective")


def test_a_sample_is_spent_once_and_all_records_never() -> None:
    for kind in ("poisson", "one"):
        drawn, other = (Sample(kind, np.array([0.1])) for _ in range(2))
        drawn.spend()
        with pytest.raises(LeakError, match="second release of the same sample"):
            drawn.spend()
        other.spend()  # another draw of the same law
    for _ in range(3):
        ALL_RECORDS.spend()
