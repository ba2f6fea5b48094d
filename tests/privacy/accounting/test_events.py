"""Events: validated, frozen, and the same after a trip through JSON."""

import dataclasses
import json
import math

import pytest

from tacenda.errors import InputError
from tacenda.privacy.accounting import events as ev
from tacenda.privacy.accounting.judge import judge

SAMPLES = [
    ev.Gaussian(3.5),
    ev.Gaussian(math.inf),
    ev.PoissonGaussian(1.25, 0.01),
    ev.PoissonGaussian(math.inf, 0.01),
    ev.OneOfGaussian(math.inf, 20),
    ev.DiscreteGaussian(math.inf),
    ev.OneOfGaussian(0.4, 20_000),
    ev.BatchGaussian(0.4, 20_000, 5),
    ev.BatchGaussian(0.4, 20, 30, True),
    ev.BatchGaussian(math.inf, 20, 5),
    ev.Pure(0.1),
    ev.ObjectiveGaussian(4.0, 0.01, 2, 0.02),
    ev.ObjectiveLaplace(0.3, 0.01, 105, 1, 0.003),
    ev.ObjectiveLaplace(0.3, math.inf, 105, 1, 0.0),
    ev.ObjectiveGaussian(math.inf, 0.01, 1, 0.0),
    ev.L2Laplace(0.3, 105),
    ev.DiscreteGaussian(12.0),
    ev.CorrelatedGaussian(0.2, 1),
    ev.MaskedSum(0.2, 1),
]


@pytest.mark.parametrize("event", SAMPLES, ids=lambda e: e.kind)
def test_json_round_trip(event):
    text = json.dumps(event.to_dict(), allow_nan=False)
    assert ev.event_from_dict(json.loads(text)) == event
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, dataclasses.fields(event)[0].name, 1.0)


def test_every_kind_is_sampled_above():
    assert {e.kind for e in SAMPLES} == set(ev.KINDS)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: ev.Gaussian(-1), "noise_multiplier"),
        (lambda: ev.Gaussian(float("nan")), "noise_multiplier"),
        (lambda: ev.PoissonGaussian(1, 1.5), "rate"),
        (lambda: ev.OneOfGaussian(1, 0), "population"),
        (lambda: ev.OneOfGaussian(1, 2.5), "population"),
        (lambda: ev.BatchGaussian(1, 5, 0), "batch"),
        (lambda: ev.BatchGaussian(1, 5, 6), "batch"),
        (lambda: ev.BatchGaussian(1, 5, 2, "no"), "replacement"),
        (lambda: ev.Pure(-0.1), "epsilon"),
        (lambda: ev.L2Laplace(1, 0), "dim"),
        (lambda: ev.ObjectiveGaussian(1, -0.1, 1, 0), "curvature"),
        (lambda: ev.ObjectiveLaplace(-1, 0, 3, 1, 0), "inner"),
        (lambda: ev.ObjectiveLaplace(1, 0, 0, 1, 0), "dim"),
        (lambda: ev.ObjectiveLaplace(1, 0, 3, 0, 0), "directions"),
        (lambda: ev.ObjectiveLaplace(1, 0, 3, 1, math.nan), "gap"),
        (lambda: ev.ObjectiveGaussian(1, math.nan, 1, 0), "curvature"),
        (lambda: ev.ObjectiveGaussian(1, 0, 0, 0), "directions"),
        (lambda: ev.ObjectiveGaussian(1, 0, 1, math.nan), "gap_mu"),
        (lambda: ev.CorrelatedGaussian(1, -1), "coalition"),
        (lambda: ev.event_from_dict({"kind": "gauss"}), "kind"),
        (lambda: ev.event_from_dict({"kind": "pure"}), "epsilon"),
        (lambda: ev.merged([(ev.Pure(1), -1)]), "count"),
        (lambda: ev.merged([ev.Pure(1)]), "events"),
    ],
)
def test_wrong_values_are_named(make, name):
    with pytest.raises(InputError, match=name):
        make()


def test_zero_and_infinity():
    assert ev.Gaussian(0).lossy
    assert ev.Gaussian(math.inf).lossless
    assert ev.Gaussian(1e-320).lossy  # 1/z overflows
    assert ev.PoissonGaussian(0, 0.5).lossy
    assert ev.PoissonGaussian(0, 0).lossless
    assert ev.Pure(0).lossless
    assert ev.Pure(math.inf).lossy
    assert ev.DiscreteGaussian(0).lossy
    assert ev.CorrelatedGaussian(0, 3).lossless
    assert ev.ObjectiveGaussian(math.inf, 0, 1, 0).lossless
    assert not ev.ObjectiveGaussian(math.inf, 0.1, 1, 0).lossless
    assert ev.ObjectiveLaplace(0, 0, 3, 1, 0).lossless
    assert not ev.ObjectiveLaplace(0, 0.1, 3, 1, 0).lossless
    assert ev.ObjectiveLaplace(1, math.inf, 3, 1, 0).lossy
    for part in ((0, 0, 1, 0), (1, math.inf, 1, 0), (1, 0, 1, math.inf)):
        assert ev.ObjectiveGaussian(*part).lossy


def test_merged_joins_equal_events_and_drops_free_ones():
    listed = [
        (ev.Pure(0.1), 2),
        (ev.Gaussian(3), 1),
        (ev.Pure(0.1), 5),
        (ev.Gaussian(math.inf), 9),
        (ev.Pure(1), 0),
    ]
    assert ev.merged(listed) == [(ev.Pure(0.1), 7), (ev.Gaussian(3.0), 1)]
    assert ev.pure_sum(listed) == math.inf
    assert ev.pure_sum([(ev.Pure(0.25), 2), (ev.L2Laplace(1, 3), 1)]) == 1.5


@pytest.mark.parametrize(
    "made",
    [
        lambda z: ev.Gaussian(z),
        lambda z: ev.DiscreteGaussian(z),
        lambda z: ev.PoissonGaussian(z, 0.1),
        lambda z: ev.OneOfGaussian(z, 5),
        lambda z: ev.BatchGaussian(z, 5, 2),
        lambda z: ev.BatchGaussian(z, 5, 2, True),
        lambda z: ev.ObjectiveGaussian(z, 0.0, 1, 0.0),
    ],
)
def test_no_noise_and_endless_noise_are_events_too(made):
    """Without noise everything is lost, and a ledger must be able to say so; endless noise loses
    nothing."""
    assert made(0.0).noise_multiplier == 0.0 and made(math.inf).noise_multiplier == math.inf
    assert judge([(made(math.inf), 3)]).delta(0.0) == 0.0
    assert judge([(made(0.0), 1)]).delta(50.0) >= 0.1 * (1 - 1e-9)
    for wrong in (-1.0, math.nan, "x"):
        with pytest.raises(InputError, match="noise_multiplier"):
            made(wrong)
