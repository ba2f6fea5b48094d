"""The l2-Laplace curve against quadrature, the scalar Laplace mechanism,
sampling-free brackets and smaller shifts."""

import math

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.optimize import brentq
from scipy.special import gammaln

from tacenda.privacy.accounting.events import L2Laplace
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.accounting.l2laplace import loss_above, loss_below


def l2_laplace_delta(epsilon, dim, at):
    """delta(at) of one release: P(L > at) - e^at P(L < -at)."""
    if at >= epsilon:
        return 0.0
    above = loss_above(epsilon, dim, np.array([at]))
    below = loss_below(epsilon, dim, np.array([-at]))
    return max(float(above[0] - math.exp(at) * below[0]), 0.0)


def test_golden_against_a_bracket_of_its_own():
    """alpha 0.3, T 100, d 105:
    losses rounded up and down on a grid of 2e-5 bracket epsilon(1e-5) within 2e-3."""
    a, d, t, h = 0.3, 105, 100, 2e-5
    n, size = int(0.22 / h), 2**19
    above = np.concatenate(
        [loss_above(a, d, part) for part in np.array_split(np.arange(-n, n + 1) * h, 20)]
    )
    position = np.fft.fftfreq(size, 1 / size) * h
    ends = []
    for shift in (0, 1):
        law = np.zeros(size)
        law[(np.arange(-n, n) + shift) % size] = -np.diff(above)
        total = np.fft.irfft(np.fft.rfft(law) ** t, size)

        def delta(e, total=total):
            far = position > e
            return float(np.dot(total[far], -np.expm1(e - position[far])))

        ends.append(brentq(lambda e: delta(e) - 1e-5, 0.5, 2, xtol=1e-7))
    curve = judge([(L2Laplace(a, d), t)])
    assert curve.accountant == "l2-laplace"
    assert ends[0] - 1e-6 <= curve.epsilon(1e-5) <= ends[1] + 1e-6
    assert ends[1] - ends[0] < 2.1e-3
    assert curve.epsilon(1e-5) == pytest.approx(1.1014, abs=1e-4)
    assert curve.pure_epsilon == pytest.approx(30)


@pytest.mark.parametrize("a", [0.1, 1.0, 4.0])
def test_one_dimension_is_the_scalar_laplace_mechanism(a):
    for eps in (0.0, 0.4 * a, 0.9 * a):
        assert l2_laplace_delta(a, 1, eps) == pytest.approx(-math.expm1((eps - a) / 2), rel=1e-12)
        assert judge([(L2Laplace(a, 1), 1)]).delta(eps) == pytest.approx(
            -math.expm1((eps - a) / 2), rel=1e-3
        )


def test_one_dimension_composed_against_dp_accounting():
    from dp_accounting.pld import privacy_loss_distribution as pld

    theirs = pld.from_laplace_mechanism(1 / 0.3, value_discretization_interval=1e-4).self_compose(
        40
    )
    ours = judge([(L2Laplace(0.3, 1), 40)])
    assert ours.epsilon(1e-5) == pytest.approx(theirs.get_epsilon_for_delta(1e-5), rel=1e-3)


@pytest.mark.parametrize(("a", "eps"), [(1.0, 0.3), (3.0, 1.0)])
def test_two_dimensions_against_cartesian_quadrature(a, eps):
    """delta = integral of [p - e^eps p']_+ over the plane,
    with no polar coordinates and no angle law."""
    side = np.linspace(-30 / a, 30 / a + 1, 2400)
    x, y = np.meshgrid(side, side)
    c = a * a / (2 * math.pi)
    p, q = c * np.exp(-a * np.hypot(x, y)), c * np.exp(-a * np.hypot(x - 1, y))
    want = float(np.sum(np.maximum(p - math.exp(eps) * q, 0))) * (side[1] - side[0]) ** 2
    assert l2_laplace_delta(a, 2, eps) == pytest.approx(want, rel=2e-3)


@pytest.mark.parametrize(("a", "d", "eps"), [(2.0, 3, 0.5), (1.0, 6, 0.1)])
def test_higher_dimensions_against_double_quadrature(a, d, eps):
    log_angle = gammaln(d / 2) - gammaln((d - 1) / 2) - 0.5 * math.log(math.pi)

    def integrand(c, r):
        gain = a * (math.sqrt(max(r * r - 2 * r * c + 1, 0.0)) - r)
        if gain <= eps:
            return 0.0
        radial = math.exp((d - 1) * math.log(a * r) - a * r - gammaln(d)) * a
        return radial * math.exp(log_angle) * (1 - c * c) ** ((d - 3) / 2) * -math.expm1(eps - gain)

    want = dblquad(integrand, 1e-9, 40 / a + d / a, -1, 1, epsabs=1e-7, epsrel=1e-6)[0]
    assert l2_laplace_delta(a, d, eps) == pytest.approx(want, rel=1e-4)


def test_tails_against_adaptive_quadrature_far_out():
    """P(L > 0.18) at a = 0.3, d = 105 is 6e-12: the tail itself is right, not only the bulk."""
    from scipy.special import betainc

    a, d, s = 0.3, 105, 0.6

    def integrand(r):
        t = (1 + (1 - s * s) / (2 * r) - s) / 2
        return (
            math.exp((d - 1) * math.log(a * r) - a * r - gammaln(d))
            * a
            * betainc(52, 52, min(t, 1.0))
        )

    want = (
        quad(integrand, 100, 400, limit=400, epsabs=0)[0]
        + quad(integrand, 400, 900, limit=400, epsabs=0)[0]
    )
    assert loss_above(a, d, np.array([a * s]))[0] == pytest.approx(want, rel=1e-8)
    assert want < 1e-11


def test_tails_sum_to_one_and_end_at_the_pure_bound():
    for d in (1, 2, 3, 40):
        losses = np.linspace(-0.499, 0.499, 9)
        above, below = loss_above(0.5, d, losses), loss_below(0.5, d, losses)
        assert above + below == pytest.approx(np.ones(9), abs=1e-12)
        assert loss_above(0.5, d, np.array([0.5, 0.7])).tolist() == [0, 0]
        assert loss_below(0.5, d, np.array([-0.5, -0.7])).tolist() == [0, 0]


@pytest.mark.parametrize("d", [1, 2, 7, 105])
def test_the_full_shift_is_the_worst(d):
    """A shift by t < 1 is the unit shift at rate t a: delta falls with t at every epsilon (the
    module says why)."""
    a = 2.0
    for eps in (0.0, 0.2, 0.7):
        deltas = [l2_laplace_delta(t * a, d, eps) for t in (0.3, 0.6, 0.9, 0.99, 1.0)]
        assert deltas == sorted(deltas)


def test_far_below_generic_pure_composition():
    from tacenda.privacy.accounting.events import Pure

    assert judge([(L2Laplace(0.3, 105), 100)]).epsilon(1e-5) < 0.1 * judge(
        [(Pure(0.3), 100)]
    ).epsilon(1e-5)
    # Loss spread of 5e-4 a round: the grid must follow
    many = judge([(L2Laplace(0.01, 400), 1000)])
    mu = 0.01 * math.sqrt(1000 / 400)
    from tacenda.privacy.accounting.curves import GaussianProfile

    assert many.epsilon(1e-5) == pytest.approx(GaussianProfile(mu).epsilon(1e-5), rel=0.01)


@pytest.mark.parametrize("d", [2, 3, 5, 39, 40, 400])
@pytest.mark.parametrize("a", [0.2, 3.0])
def test_both_tails_against_adaptive_quadrature_in_many_dimensions(a, d):
    """P(|x - u| - |x| > s): the angle's law integrated over the radius, by another method than the
    module's."""
    from scipy.special import betainc, gammaincc

    half = (d - 1) / 2

    def gamma(r):
        return math.exp((d - 1) * math.log(a * r) - a * r - gammaln(d)) * a

    for s in (-0.9, -0.35, -0.05, 0.0, 0.05, 0.35, 0.9):
        kink, end = (1 - s) / 2, (d + 40 * math.sqrt(d) + 60) / a

        def outside(t, s=s, kink=kink):
            """Of P(L < a s): 1 - I_{t(r)}, r = kink + t^2."""
            r = kink + t * t
            share = (1 + (1 - s * s) / (2 * r) - s) / 2
            return 2 * t * gamma(r) * betainc(half, half, min(max(1 - share, 0.0), 1.0))

        middle = math.sqrt(max(d / a - kink, 0.0))
        ends = sorted({0.0, middle * 0.7, middle, middle * 1.2, math.sqrt(max(end - kink, 0.0))})
        below = sum(
            quad(outside, p, q, limit=200, epsabs=0, epsrel=1e-11)[0]
            for p, q in zip(ends, ends[1:], strict=False)
        )
        at = np.array([a * s])
        found_above, found_below = loss_above(a, d, at), loss_below(a, d, at)
        if below > 1e-15:
            assert found_below[0] == pytest.approx(below, rel=1e-7)
        assert found_above[0] == pytest.approx(1 - below, rel=1e-9, abs=1e-12)
        assert gammaincc(d, a * end) < 1e-13


@pytest.mark.parametrize(("a", "d"), [(0.5, 1), (0.5, 2), (1.5, 7), (0.4, 60), (2.0, 300)])
def test_the_grid_is_exact_at_its_points_and_never_below_between(a, d):
    """Mass is kept under both laws, so that delta on the grid is the true one at grid points, and a
    chord above it between."""
    from tacenda.privacy.accounting.l2laplace import l2_laplace_pmf

    step = a / 64 if d < 40 else a / math.sqrt(d) / 20
    pmf = l2_laplace_pmf(a, d, step)
    last = 1.0
    for k in range(0, 41, 4):
        true = l2_laplace_delta(a, d, k * step)
        assert pmf.get_delta_for_epsilon(k * step) == pytest.approx(true, rel=1e-6, abs=2e-15)
        between = pmf.get_delta_for_epsilon((k + 0.5) * step)
        assert between >= l2_laplace_delta(a, d, (k + 0.5) * step) * (1 - 1e-9) - 1e-18
        assert between <= (true + l2_laplace_delta(a, d, (k + 1) * step)) / 2 * (1 + 0.01) + 2e-15
        assert true <= last
        last = true
    assert pmf.get_delta_for_epsilon(2 * a) <= 1e-12
