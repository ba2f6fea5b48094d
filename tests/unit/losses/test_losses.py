"""Losses: formulas against independent values, declared bounds against brute force, names."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import numpy_losses
from tacenda import losses
from tacenda.errors import InputError
from tacenda.losses import compiled, registry
from tacenda.losses.base import PREDICTIONS

WRITTEN_APART = [  # with formulas in numpy_losses
    losses.Logistic(),
    losses.Hinge(),
    losses.SmoothedHinge(0.3),
    losses.Squared(),
    losses.Huber(0.7),
    losses.AbsoluteDeviation(),
    losses.Poisson(6.0),
    losses.NegativeBinomial(6.0, 0.5),
    losses.NegativeBinomial(2.0, 0.1),
    losses.Quantile(0.8),
    losses.SmoothedQuantile(0.3, 0.2),
]
GRID = np.linspace(-6, 6, 2001)
SCALAR = WRITTEN_APART + [
    loss
    for loss in map(losses.by_name, losses.names())
    if loss.kind != "multiclass" and loss.name not in {known.name for known in WRITTEN_APART}
]


def labels_of(loss):
    if loss.kind == "binary":
        return -1.0, 1.0
    low, high = loss.label_range
    return (low, 0.3 * high, high) if math.isfinite(high) else (-1.3, 0.0, 2.1)


@pytest.mark.parametrize(
    ("loss", "score", "label", "value", "slope"),
    [
        (losses.Logistic(), 0.0, 1.0, math.log(2), -0.5),
        (losses.Logistic(), math.log(3), -1.0, math.log(4), 0.75),
        (losses.Hinge(), 0.25, 1.0, 0.75, -1.0),
        (losses.Hinge(), -2.0, -1.0, 0.0, 0.0),
        (losses.SmoothedHinge(0.5), 1.0, 1.0, 0.125, -0.5),
        (losses.SmoothedHinge(0.5), 0.0, -1.0, 1.0, 1.0),
        (losses.SmoothedHinge(0.5), 1.5, 1.0, 0.0, 0.0),
        (losses.Squared(), 3.0, 1.0, 2.0, 2.0),
        (losses.Huber(1.0), 3.0, 1.0, 1.5, 1.0),
        (losses.Huber(1.0), 0.5, 1.0, 0.125, -0.5),
        (losses.AbsoluteDeviation(), -1.0, 1.5, 2.5, -1.0),
        (losses.Poisson(8.0), math.log(2), 0.0, 2 / 8, 2 / 8),
        (losses.Poisson(8.0), 0.0, 4.0, (math.log(256) - 3) / 8, -3 / 8),
        (losses.Poisson(8.0), math.log(8) + 1, 0.0, 2.0, 1.0),
        (losses.NegativeBinomial(8.0, 0.5), math.log(2), 0.0, 2 * math.log(2) / 8, 1 / 8),
        (losses.NegativeBinomial(1.0, 0.25), 0.0, 0.0, math.log(1.25), 1 / 5),
        (losses.Quantile(0.75), 1.0, 3.0, 1.5, -0.75),
        (losses.Quantile(0.75), 3.0, 1.0, 0.5, 0.25),
        (losses.SmoothedQuantile(0.75, 0.5), 1.0, 1.0, 0.125, -0.25),
        (losses.SmoothedQuantile(0.75, 0.5), 3.0, 1.0, 0.5, 0.25),
    ],
)
def test_values_computed_by_hand(loss, score, label, value, slope):
    s, y = np.array([score]), np.array([label])
    assert loss.value(s, y)[0] == pytest.approx(value, rel=1e-15)
    assert loss.derivative(s, y)[0] == pytest.approx(slope, rel=1e-15)


@pytest.mark.parametrize("loss", SCALAR, ids=lambda loss: loss.name)
def test_derivative_is_the_slope_of_the_value(loss):
    for y in labels_of(loss):
        away = GRID[(np.abs(y * GRID - 1) > 1e-3) & (np.abs(GRID - y) > 1e-3)]
        away = away if loss.name != "poisson" else away[np.abs(np.exp(away) - 6.0) > 1e-2]
        h = 1e-6
        slope = (loss.value(away + h, y) - loss.value(away - h, y)) / (2 * h)
        np.testing.assert_allclose(loss.derivative(away, np.array(y)), slope, atol=2e-6)


@pytest.mark.parametrize(
    "loss", [loss for loss in SCALAR if loss.smooth], ids=lambda loss: loss.name
)
def test_curvature_bounds_the_change_of_slope_and_is_attained(loss):
    for y in labels_of(loss):
        slopes = loss.derivative(GRID, np.array(y))
        rates = np.diff(slopes) / np.diff(GRID)
        assert rates.max() <= loss.curvature * (1 + 1e-9)
        assert rates.min() >= -1e-12
        # The steepest label of a negative binomial is the largest
        if loss.name != "negative-binomial" or y == loss.label_bound:
            assert rates.max() >= 0.99 * loss.curvature
            assert loss.second(GRID, np.array(y)).max() == pytest.approx(loss.curvature, rel=5e-3)


@pytest.mark.parametrize("loss", SCALAR, ids=lambda loss: loss.name)
def test_slope_bound_holds_and_is_nearly_attained(loss):
    far = np.linspace(-40, 40, 4001)
    sizes = np.concatenate([np.abs(loss.derivative(far, np.array(y))) for y in labels_of(loss)])
    assert sizes.max() <= loss.slope
    assert sizes.max() >= 0.999 * (loss.slope if math.isfinite(loss.slope) else 40)


def test_logistic_keeps_all_digits_where_it_is_tiny():
    s = np.array([-700.0, -30.0, 1e-9, 30.0, 700.0])
    for y in (-1.0, 1.0):
        want = [float(-y / (1 + mpmath.exp(mpmath.mpf(y) * mpmath.mpf(v)))) for v in s]
        np.testing.assert_allclose(losses.Logistic().derivative(s, np.array(y)), want, rtol=4e-16)
        value = [float(mpmath.log1p(mpmath.exp(-mpmath.mpf(y) * mpmath.mpf(v)))) for v in s]
        np.testing.assert_allclose(losses.Logistic().value(s, np.array(y)), value, rtol=4e-16)


@pytest.mark.parametrize("loss", WRITTEN_APART, ids=lambda loss: loss.name)
def test_compiled_derivatives_agree_with_numpy(loss):
    for y in map(np.array, labels_of(loss)):
        want = numpy_losses.derivative(loss, GRID, y)
        # A difference of rate and label loses digits near 0
        near = 1e-15 if loss.predicts in ("log-rate", "quantile") else 1e-300
        np.testing.assert_allclose(loss.derivative(GRID, y), want, rtol=1e-15, atol=near)
        bent = numpy_losses.second(loss, GRID, y)
        np.testing.assert_allclose(loss.second(GRID, y), bent, rtol=2e-15)


def test_derivatives_have_the_shape_of_scores_and_labels_together():
    scores, labels = GRID[:6].reshape(3, 2).astype(np.float32), np.array([-1, 1])
    got = losses.Logistic().derivative(scores, labels)
    assert got.shape == (3, 2) and got.dtype == np.float64
    want = numpy_losses.derivative(losses.Logistic(), scores.astype(float), labels)
    np.testing.assert_allclose(got, want, rtol=1e-15)
    assert losses.Squared().second(np.float64(1.0), np.float64(0.0)).shape == ()


def test_multinomial_gradient_and_bounds():
    loss, rng = losses.Multinomial(), np.random.default_rng(0)
    scores, labels = rng.normal(size=(50, 4)) * 3, rng.integers(0, 4, 50)
    h, got = 1e-6, loss.derivative(scores, labels)
    want = numpy_losses.derivative(loss, scores, labels)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-15)
    for k in range(4):
        e = h * np.eye(4)[k]
        slope = (loss.value(scores + e, labels) - loss.value(scores - e, labels)) / (2 * h)
        np.testing.assert_allclose(got[:, k], slope, atol=1e-8)
    assert np.linalg.norm(loss.derivative(scores * 50, labels), axis=1).max() <= loss.slope * (
        1 + 1e-15
    )
    worst = loss.derivative(np.array([[100.0, 0.0, 0.0]]), np.array([1]))
    assert np.linalg.norm(worst) == pytest.approx(math.sqrt(2), rel=1e-12)
    # Two classes with scores (0, s) are the binary logistic loss; 1000 does not overflow.
    two = loss.value(np.array([[0.0, 1.7]]), np.array([1]))
    assert two[0] == pytest.approx(losses.Logistic().value(np.array(1.7), np.array(1.0)), rel=1e-15)
    assert loss.value(np.array([[1000.0, 0.0]]), np.array([1]))[0] == 1000.0


@pytest.mark.parametrize("temperature", [0.5, 2.0, 0.02])
def test_multiclass_hinge_is_the_smoothed_hinge_of_crammer_and_singer(temperature):
    loss, rng, k = losses.MulticlassHinge(temperature), np.random.default_rng(5), 4
    scores, labels = rng.normal(size=(200, k)) * 3, rng.integers(0, k, 200)
    sharp = np.array(
        [max(s[j] + (j != y) for j in range(k)) - s[y] for s, y in zip(scores, labels, strict=True)]
    )
    above = loss.value(scores, labels) - sharp
    assert above.min() >= -1e-9 and above.max() <= temperature * math.log(k) + 1e-9
    step, gradient = 1e-6, loss.derivative(scores, labels)
    for j in range(k):
        moved = scores + step * np.eye(k)[j]
        by_hand = (loss.value(moved, labels) - loss.value(scores, labels)) / step
        np.testing.assert_allclose(gradient[:, j], by_hand, atol=1e-5 / temperature)
    assert np.linalg.norm(gradient, axis=1).max() <= loss.slope
    q = loss.softmax(scores, labels)
    hessians = 2 * loss.curvature * (np.eye(k) * q[:, None] - q[:, :, None] * q[:, None])
    for j in range(k):
        moved = loss.derivative(scores + step * np.eye(k)[j], labels)
        by_hand = (moved - gradient) / step
        np.testing.assert_allclose(hessians[:, j], by_hand, atol=1e-4 / temperature**2)
    assert np.linalg.eigvalsh(hessians).max() <= loss.curvature * (1 + 1e-9)
    traces = np.trace(hessians, axis1=1, axis2=2)
    assert traces.max() <= 2 * loss.curvature * (1 - 1 / k) * (1 + 1e-9)
    with pytest.raises(InputError, match="temperature"):
        losses.MulticlassHinge(0.0)


@pytest.mark.parametrize("name", losses.names())
def test_a_loss_says_what_the_rest_asks_of_it(name):
    loss = losses.by_name(name)
    assert loss.predicts in PREDICTIONS
    assert (loss.kind == "regression") == (loss.predicts in ("value", "log-rate", "quantile"))
    assert 0 < loss.typical.curvature <= max(1.0, loss.curvature) and 0 < loss.typical.signal <= 2
    assert 0 < loss.unit < math.inf
    assert not (loss.has_two_lines and loss.smooth)
    assert not loss.quadratic or (loss.slope, loss.curvature) == (math.inf, 1.0)


@pytest.mark.parametrize("numbers", [None, np.zeros(4)])
def test_a_code_that_no_loss_has_gives_no_number(numbers):
    point, found = np.zeros(1), np.zeros(1)
    for compiled_form in (compiled.slopes_of, compiled.curvatures_of):
        compiled_form(77, numbers, point, point, found)
        assert math.isnan(found[0])


@pytest.mark.parametrize("name", losses.names())
def test_a_loss_of_ones_own_may_not_bear_the_name_of_another(name):
    with pytest.raises(InputError, match=f"{name!r} is the name of another loss"):
        losses.CustomLoss(name, value=np.abs, slope=np.sign, slope_bound=1.0, kinks=(0.0,))


def test_two_losses_never_share_a_name_or_a_code():
    for wrong in ({"name": "logistic", "code": 99}, {"name": "new", "code": 0}):
        with pytest.raises(TypeError, match="a name and a code of its own"):
            registry.built_in(type("Wrong", (losses.Logistic,), wrong))
    wrong = {"name": "new", "code": 99, "predicts": "something"}
    with pytest.raises(TypeError, match="predicts must be one of"):
        registry.built_in(type("Wrong", (losses.Logistic,), wrong))
    assert "new" not in losses.names()


def test_truth_about_smoothness():
    facts = {name: losses.by_name(name) for name in losses.names()}
    assert {n for n, x in facts.items() if x.twice_differentiable} == {
        "logistic",
        "squared",
        "multinomial",
        "multiclass-hinge",
        "negative-binomial",
        "ordinal",
        "discrete-hazard",
    }
    assert {n for n, x in facts.items() if not x.smooth} == {
        "hinge",
        "absolute-deviation",
        "quantile",
    }
    assert all(math.isinf(x.curvature) != x.smooth for x in facts.values())


def test_names():
    assert losses.by_name("smoothed_hinge") == losses.SmoothedHinge(0.5)
    huber = losses.Huber(2.0)
    assert losses.by_name(huber) is huber
    with pytest.raises(InputError, match="Did you mean 'logistic'"):
        losses.by_name("logistc")
    with pytest.raises(InputError, match=r"write Huber\(\)"):
        losses.by_name(losses.Huber)
    with pytest.raises(InputError, match="delta must be a number above 0"):
        losses.Huber(0.0)
    with pytest.raises(InputError, match="width must be a number above 0"):
        losses.SmoothedHinge(-1)


def test_at_a_kink_the_element_that_is_promised_is_taken():
    """0 of the subgradients, 0 of the generalised second derivatives."""
    at = {
        losses.Hinge(): [(1.0, 1.0, 0.0, None), (-1.0, -1.0, 0.0, None)],
        losses.AbsoluteDeviation(): [(2.5, 2.5, 0.0, None)],
        losses.SmoothedHinge(0.5): [(1.5, 1.0, 0.0, 0.0), (0.5, 1.0, -1.0, 0.0)],
        losses.Quantile(0.3): [(2.5, 2.5, 0.0, None)],
        losses.SmoothedQuantile(0.25, 0.5): [(2.0, 1.5, 0.75, 0.0), (1.0, 1.5, -0.25, 0.0)],
        losses.Huber(0.75): [(2.0, 1.25, 0.75, 0.0), (0.5, 1.25, -0.75, 0.0)],
    }
    for loss, points in at.items():
        for s, y, slope, second in points:
            assert loss.derivative(np.array(s), np.array(y)) == slope
            if second is not None:
                assert loss.second(np.array(s), np.array(y)) == second


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_the_multinomial_loss_takes_scores_of_any_shape(shape):
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(size=(*shape, 4)), rng.integers(0, 4, size=shape)
    loss = losses.Multinomial()
    value, slope = loss.value(scores, labels), loss.derivative(scores, labels)
    assert value.shape == shape and slope.shape == (*shape, 4)
    for place in np.ndindex(*shape):
        s, y = scores[place], labels[place]
        q = np.exp(s) / np.exp(s).sum()
        assert value[place] == pytest.approx(-np.log(q[y]))
        assert slope[place] == pytest.approx(q - np.eye(4)[y])
    if shape:  # one label for all
        first = labels.reshape(-1)[0]
        alike = loss.derivative(scores, first)
        assert alike == pytest.approx(loss.derivative(scores, np.full(shape, first)))


@pytest.mark.parametrize(
    "loss", [losses.Poisson(6.0), losses.NegativeBinomial(6.0, 0.5)], ids=lambda loss: loss.name
)
def test_counts_are_half_the_deviance_in_units_of_the_bound(loss):
    """Against SciPy's likelihoods, where the rate is below the label bound."""
    from scipy import stats

    def likelihood(y, m):
        if loss.name == "poisson":
            return stats.poisson.logpmf(y, m)
        r = 1 / loss.dispersion
        return stats.nbinom.logpmf(y, r, r / (r + m))

    scores = np.linspace(-5.0, math.log(5.9), 50)
    for y in (0, 1, 3, 6):
        least = likelihood(y, max(y, 1e-300)) - likelihood(y, np.exp(scores))
        got = 6.0 * loss.value(scores, np.array(float(y)))
        np.testing.assert_allclose(got, least, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "loss", [losses.Poisson(6.0), losses.NegativeBinomial(6.0, 0.5)], ids=lambda loss: loss.name
)
def test_a_count_beyond_the_bound_counts_as_the_bound(loss):
    hostile = np.array([-np.inf, -1e308, -3.0, 7.0, 1e308, np.inf])
    for s in (-1e300, -800.0, -1.0, 0.0, 2.0, 800.0, 1e300):
        scores = np.full(6, s)
        kept = np.clip(hostile, 0.0, 6.0)
        slopes = loss.derivative(scores, hostile)
        np.testing.assert_array_equal(slopes, loss.derivative(scores, kept))
        assert np.abs(slopes).max() <= loss.slope
        assert (loss.second(scores, hostile) <= loss.curvature).all()
        if abs(s) < 1e3:
            np.testing.assert_array_equal(loss.value(scores, hostile), loss.value(scores, kept))


def test_the_smoothed_quantile_is_the_pinball_loss_of_blurred_labels():
    sharp, smooth = losses.Quantile(0.8), losses.SmoothedQuantile(0.8, 0.3)
    blur = (np.arange(4000) + 0.5) / 4000 * 0.6 - 0.3
    for s in (-1.0, -0.2, 0.0, 0.1, 0.29, 2.0):
        mean = sharp.value(np.full(4000, s), blur).mean()
        assert smooth.value(np.array(s), np.array(0.0)) == pytest.approx(mean, abs=1e-6)
        gap = smooth.value(np.array(s), np.array(0.0)) - sharp.value(np.array(s), np.array(0.0))
        assert -1e-15 <= gap <= 0.3 / 4 + 1e-15


def test_parameters_out_of_range_are_refused():
    for make, word in (
        (lambda: losses.Poisson(0.0), "label_bound"),
        (lambda: losses.NegativeBinomial(math.nan), "label_bound"),
        (lambda: losses.NegativeBinomial(1.0, 0.0), "dispersion"),
        (lambda: losses.Quantile(1.0), "level"),
        (lambda: losses.SmoothedQuantile(0.0), "level"),
        (lambda: losses.SmoothedQuantile(0.5, 0.0), "width"),
    ):
        with pytest.raises(InputError, match=word):
            make()
