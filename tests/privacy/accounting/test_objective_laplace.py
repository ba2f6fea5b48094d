"""l2-Laplace noise inside an objective: the bound against an integral written apart, against exact
divergences of real minimisers in two dimensions, and against samples of them in forty."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import integrate
from scipy.special import betaln, expit, gammaln, softmax

import tacenda as tc
from tacenda.errors import LeakError
from tacenda.privacy.accounting.events import (
    DiscreteGaussian,
    Gaussian,
    L2Laplace,
    ObjectiveLaplace,
    Pure,
    event_from_dict,
)
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.accounting.renyi import EXCESSES, _laplace_divergence, renyi_profile
from tacenda.privacy.secrets.ledger import Charge
from tacenda.questions.blank import BlankQueries
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts

CHECKED = (0.1, 0.6, 1.0, 4.0, 30.0)  # excesses a - 1 of the orders that are looked at


def at(excess: float) -> int:
    return int(np.argmin(np.abs(EXCESSES - excess)))


def bound(rho, curvature=0.0, dim=40, directions=1):
    """D_a by the dimension alone, without the least of it and pure composition."""
    return np.asarray(_laplace_divergence(rho, curvature, dim, directions))


# The integral, written apart
def psi_less_one(a, x):
    return np.expm1(a * x) + a * np.expm1(-x)


def double_integral(a, rho, curvature, dim, k):
    """ln E max(psi(B), psi(-B)) / a over R and S, by adaptive quadrature."""

    def angle(r):
        free = dim - k
        logs = math.log(2) - betaln(k / 2, free / 2) + (k - 1) * math.log(r)
        return math.exp(logs + (free / 2 - 1) * math.log1p(-r * r))

    def inner(s):
        offset = min(rho, rho**2 / (2 * s)) + curvature

        def integrand(r):
            b = rho * r + offset
            return max(psi_less_one(a, b), psi_less_one(a, -b)) * angle(r)

        # R = 1 - t^2 takes the edge of Beta(., 1/2) away
        return integrate.quad(
            lambda t: integrand(1 - t * t) * 2 * t if 0 < t < 1 else 0.0,
            0,
            1,
            epsabs=0,
            epsrel=1e-9,
            limit=200,
        )[0]

    def outer(s):
        return inner(s) * math.exp((dim - 1) * math.log(s) - s - gammaln(dim))

    reach = 12 * math.sqrt(dim) + 30
    edges = sorted({1e-12, rho / 2, max(dim - reach, 1e-9), float(dim), dim + reach})
    parts = [
        integrate.quad(outer, low, high, epsabs=0, epsrel=1e-7, limit=200)[0]
        for low, high in zip(edges, edges[1:], strict=False)
    ]
    return math.log1p(sum(parts)) / a


@pytest.mark.parametrize(
    ("rho", "curvature", "dim", "k"),
    [(0.3, 0.0, 105, 1), (2.0, 0.05, 12, 2), (0.02, 0.001, 40, 1), (0.5, 0.1, 2, 1)],
)
def test_the_bound_is_the_integral_and_never_below_it(rho, curvature, dim, k):
    found = bound(rho, curvature, dim, k)
    for excess in (0.6, 4.0):
        a = float(EXCESSES[at(excess)])
        exact = double_integral(a, rho, curvature, dim, k)
        assert exact <= found[at(excess)] * (1 + 1e-6)
        assert found[at(excess)] == pytest.approx(exact, rel=0.05)


# Real minimisers of sum logistic(y x.w) + kappa/2 |w|^2 + e.w
@dataclass(frozen=True)
class Records:
    """Rows of norm 1 with labels in {-1, 1}."""

    x: np.ndarray
    y: np.ndarray

    def slopes(self, w):
        """(N, m) of each record's loss at each w."""
        return -self.y * expit(-self.y * (w @ self.x.T))

    def bends(self, w):
        u = w @ self.x.T
        return expit(u) * expit(-u)

    def minimisers(self, e, kappa):
        """(N, d) for each row of e; Newton's method in the span of the rows, where all of it
        happens."""
        gram = self.x @ self.x.T
        u = -(e @ self.x.T) / kappa
        for _ in range(100):
            slope = -self.y * expit(-self.y * u)
            rest = u + (e @ self.x.T + slope @ gram) / kappa
            if np.abs(rest).max() < 1e-12:
                break
            bend = expit(u) * expit(-u)
            jacobian = np.eye(len(gram)) + gram[None] * bend[:, None, :] / kappa
            u = u - np.clip(np.linalg.solve(jacobian, rest[:, :, None])[:, :, 0], -4, 4)
        assert np.abs(rest).max() < 1e-9
        return -(e + (-self.y * expit(-self.y * u)) @ self.x) / kappa

    def log_det(self, w, kappa):
        """ln det H less a constant."""
        gram = self.x @ self.x.T
        matrix = np.eye(len(gram)) + gram[None] * self.bends(w)[:, None, :] / kappa
        return np.linalg.slogdet(matrix)[1]


def losses(one, other, e, kappa, rate):
    """The privacy loss ln p(w) - ln p'(w) at the minimiser of each e under `one`."""
    w = one.minimisers(e, kappa)
    delta = other.slopes(w) @ other.x - one.slopes(w) @ one.x
    lengths = np.linalg.norm(e - delta, axis=1) - np.linalg.norm(e, axis=1)
    return rate * lengths + one.log_det(w, kappa) - other.log_det(w, kappa)


def unit(*angles):
    return np.array([[math.cos(t), math.sin(t)] for t in np.radians(angles)])


def plane(rate, radii=120, directions=160):
    """(noise in the plane, its weight): a quadrature of the density rate^2/(2 pi) e^{-rate |e|}."""
    s, weight = np.polynomial.legendre.leggauss(radii)
    s, weight = 25 * (s + 1), 25 * weight
    angle = 2 * math.pi * (np.arange(directions) + 0.5) / directions
    e = s[:, None, None] / rate * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    mass = np.repeat(weight * s * np.exp(-s) / directions, directions)
    return e.reshape(-1, 2), mass


@pytest.mark.parametrize("angle", [0, 50, 90, 180])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize(("rate", "kappa"), [(0.2, 0.3), (0.8, 2.0)])
def test_no_exact_divergence_in_the_plane_exceeds_the_bound(angle, relation, rate, kappa):
    x = unit(0, angle, 120)
    one = Records(x[[0, 2]], np.array([1.0, -1.0]))
    other = Records(x[[1, 2]], np.array([-1.0, -1.0]))
    rho = 2 * rate
    if relation == "add-remove":
        other, rho = Records(x[[2]], np.array([-1.0])), rate
    e, mass = plane(rate)
    curvature = math.log1p(0.25 / kappa)
    event = ObjectiveLaplace(rho, curvature, 2, 1, 0.0)
    whole = np.asarray(renyi_profile([(event, 1)]).divergences)
    for pair in ((one, other), (other, one)):
        loss = losses(*pair, e, kappa, rate)
        assert np.sum(mass * np.exp(-loss)) == pytest.approx(1, abs=2e-3)  # it is a loss
        for excess in CHECKED:
            k = at(excess)
            exact = math.log(np.sum(mass * np.exp(EXCESSES[k] * loss))) / EXCESSES[k]
            assert exact <= whole[k] + 1e-4
            assert exact <= bound(rho, curvature, 2)[k] + 1e-4


def drawn(rng, count, dim, rate):
    e = rng.standard_normal((count, dim))
    e /= np.linalg.norm(e, axis=1, keepdims=True)
    return e * rng.gamma(dim, 1 / rate, (count, 1))


def some_records(rng, dim, persons, others=2):
    """(records, neighbours): as many of the first are another's there."""
    x = rng.standard_normal((2 * persons + others, dim))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = rng.choice([-1.0, 1.0], len(x))
    own, their, kept = np.split(np.arange(len(x)), [persons, 2 * persons])
    one, two = np.r_[own, kept], np.r_[their, kept]
    y[own], y[their] = 1.0, -1.0
    return Records(x[one], y[one]), Records(x[two], y[two])


def surely(loss, excess):
    """A lower confidence bound on the divergence: five standard errors below the mean."""
    values = np.exp(excess * loss)
    return math.log(values.mean() - 5 * values.std() / math.sqrt(len(loss))) / excess


@pytest.mark.parametrize("persons", [1, 3])
def test_samples_in_forty_dimensions_keep_the_bound(persons):
    """Every loss is within its own B, and no moment exceeds the bound beyond doubt."""
    rng = np.random.default_rng(persons)
    dim, rate, kappa = 40, 1.5 / persons, 6.0
    one, other = some_records(rng, dim, persons)
    e = drawn(rng, 100_000, dim, rate)
    loss = losses(one, other, e, kappa, rate)
    rho, curvature = 2 * persons * rate, persons * math.log1p(0.25 / kappa)
    size = np.linalg.norm(e, axis=1)
    moved = np.r_[one.x[:persons], other.x[:persons]]
    parts = np.abs(e @ moved.T) / size[:, None]
    within = rho * parts.mean(axis=1) + np.minimum(rho, rho**2 / (2 * rate * size)) + curvature
    assert np.all(np.abs(loss) <= within * (1 + 1e-9))
    for excess in (0.6, 1.0, 2.0, 4.0):
        k = at(excess)
        assert surely(loss, EXCESSES[k]) <= bound(rho, curvature, dim)[k]


def test_half_of_the_bound_would_be_noticed():
    """A record on the steep side of its loss, there or not: its gradient has almost its largest
    norm, so that twice the noise's rate would show."""
    rng = np.random.default_rng(7)
    dim, rate, kappa = 40, 3.0, 2.0
    one, _ = some_records(rng, dim, 1, others=0)
    e = drawn(rng, 200_000, dim, rate)
    pull = 30 * one.x[0]  # a public linear term, which makes the record's score very negative
    w = one.minimisers(e + pull, kappa)
    delta = -one.slopes(w) @ one.x
    assert np.abs(one.slopes(w)).min() > 0.99
    loss = rate * (np.linalg.norm(e - delta, axis=1) - np.linalg.norm(e, axis=1))
    loss += one.log_det(w, kappa)
    curvature = math.log1p(0.25 / kappa)
    for k in (at(1.0), at(2.0), at(4.0)):
        assert surely(loss, EXCESSES[k]) <= bound(rate, curvature, dim)[k]
    assert surely(loss, EXCESSES[at(2.0)]) > bound(rate / 2, 0.0, dim)[at(2.0)]


def test_samples_of_several_classes_keep_the_bound():
    """Multinomial models, K = 3 with p = 4: one record moves the gradient in two directions of
    twelve."""
    rng = np.random.default_rng(5)
    classes, p, kappa, rate, count = 3, 4, 4.0, 0.7, 4000
    dim, k = classes * p, classes - 1
    x = rng.standard_normal((4, p))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.array([0, 2, 1, 1])
    sets = [np.array([0, 2, 3]), np.array([1, 2, 3])]

    def gradient(w, rows):
        total = kappa * w
        for j in rows:
            chance = softmax(w @ x[j], axis=1)
            chance[:, y[j]] -= 1
            total = total + chance[:, :, None] * x[j]
        return total

    def hessian(w, rows):
        total = np.broadcast_to(kappa * np.eye(dim), (len(w), dim, dim)).copy()
        for j in rows:
            chance = softmax(w @ x[j], axis=1)
            bend = np.eye(classes) * chance[:, :, None] - chance[:, :, None] * chance[:, None, :]
            total += np.einsum("nab,i,j->naibj", bend, x[j], x[j]).reshape(len(w), dim, dim)
        return total

    e = drawn(rng, count, dim, rate).reshape(count, classes, p)
    w = np.zeros_like(e)
    for _ in range(40):
        rest = (gradient(w, sets[0]) + e).reshape(count, dim, 1)
        w = w - np.linalg.solve(hessian(w, sets[0]), rest).reshape(w.shape)
    assert np.abs(gradient(w, sets[0]) + e).max() < 1e-9
    delta = gradient(w, sets[1]) - gradient(w, sets[0])
    size = np.sqrt((e**2).sum(axis=(1, 2)))
    loss = rate * (np.sqrt(((e - delta) ** 2).sum(axis=(1, 2))) - size)
    loss += np.linalg.slogdet(hessian(w, sets[0]))[1] - np.linalg.slogdet(hessian(w, sets[1]))[1]
    slope = math.sqrt(2)  # of the multinomial loss
    constants = Constants.declared(loss="multinomial", classes=classes)
    assert constants.lipschitz_argmin == pytest.approx(slope)
    rho, curvature = 2 * slope * rate, float(constants.log_curvature(1.0, kappa))
    centred = np.eye(classes) - 1 / classes
    parts = [
        np.linalg.norm(np.einsum("ab,nbi,i->na", centred, e, x[j]), axis=1) / size for j in (0, 1)
    ]
    within = rho * np.mean(parts, axis=0) + np.minimum(rho, rho**2 / (2 * rate * size)) + curvature
    assert np.all(np.abs(loss) <= within * (1 + 1e-9))
    for excess in (0.6, 2.0):
        at_order = at(excess)
        found = bound(rho, curvature, dim, k)[at_order]
        assert surely(loss, EXCESSES[at_order]) <= found


# Between the curve of added noise and generic composition
@pytest.mark.parametrize("dim", [1, 2, 5, 40, 300])
@pytest.mark.parametrize(("rho", "rounds"), [(0.05, 100), (0.5, 1), (0.5, 20), (3.0, 5)])
def test_never_below_added_noise_and_never_above_pure_composition(dim, rho, rounds):
    event = ObjectiveLaplace(rho, 0.01, dim, 1, 0.002)
    assert event.epsilon == pytest.approx(rho + 0.012)
    found = judge([(event, rounds)])
    assert found.accountant == "objective" and not found.exact
    added, pure = judge([(L2Laplace(rho, dim), rounds)]), judge([(Pure(rho + 0.012), rounds)])
    for delta in (1e-9, 1e-5, 0.01):
        assert added.epsilon(delta) * (1 - 1e-6) <= found.epsilon(delta)
        assert found.epsilon(delta) <= pure.epsilon(delta) * (1 + 1e-9)
    assert found.pure_epsilon == pytest.approx(pure.pure_epsilon)


def test_figures_of_the_headline_setting():
    """alpha 0.3 x 100 rounds, a model of length 105, by three accounts."""
    one = [(ObjectiveLaplace(0.3, 0.0, 105, 1, 0.0), 100)]
    assert judge(one).epsilon(1e-5) == pytest.approx(1.325, abs=0.001)
    assert judge([(Pure(0.3), 100)]).epsilon(1e-5) == pytest.approx(16.10, abs=0.01)
    assert judge([(L2Laplace(0.3, 105), 100)]).epsilon(1e-5) == pytest.approx(1.101, abs=0.001)


def test_more_noise_less_curvature_more_dimensions_and_fewer_directions_cost_less():
    for worse, better in (
        (bound(0.6), bound(0.5)),
        (bound(0.5, 0.1), bound(0.5, 0.05)),
        (bound(0.5, dim=40), bound(0.5, dim=60)),
        (bound(0.5, directions=3), bound(0.5, directions=2)),
    ):
        known = np.isfinite(worse)
        assert known.any() and np.all(better[known] < worse[known])
    assert np.all(np.isinf(bound(0.5, dim=1)))  # no direction is left to hide in
    whole = renyi_profile([(ObjectiveLaplace(0.5, 0.1, 1, 1, 0.0), 1)]).divergences
    assert whole == pytest.approx(renyi_profile([(Pure(0.6), 1)]).divergences)


def test_an_event_for_several_nodes_keeps_the_pure_loss_of_the_worst():
    """One node has the larger curvature, another the larger noise; none loses 0.5 + 0.2."""
    both = Charge(
        ObjectiveLaplace,
        {
            "inner": np.array([0.5, 0.3]),
            "curvature": np.array([0.0, 0.2]),
            "dim": np.array([30, 30]),
            "directions": np.array([1, 1]),
            "gap": np.zeros(2),
            "epsilon": np.array([0.5, 0.5]),
        },
    )
    worst = both.worst()
    assert worst == ObjectiveLaplace(0.5, 0.2, 30, 1, 0.0, 0.5)
    for count in (1, 40):
        whole = judge([(worst, count)])
        for node in (0, 1):
            own = judge([(both.event(node), count)])
            for epsilon in (0.1, 0.4, 2.0):
                assert own.delta(epsilon) <= whole.delta(epsilon) * (1 + 1e-9)
    assert whole.pure_epsilon == pytest.approx(20.0)


def test_groups_and_mixtures():
    event = ObjectiveLaplace(0.1, 0.001, 50, 1, 1e-4)
    assert event_from_dict(event.to_dict()) == event
    assert event.grouped(2) == ObjectiveLaplace(0.2, 0.002, 50, 1, 2e-4)
    alone = judge([(event, 30)])
    assert alone.group(2).epsilon(1e-5) > 1.9 * alone.epsilon(1e-5)
    assert alone.epsilon(0.0) == pytest.approx(30 * event.epsilon)
    for other in (Gaussian(20.0), DiscreteGaussian(20.0), Pure(0.05), L2Laplace(0.1, 50)):
        both = judge([(event, 30), (other, 3)])
        assert both.accountant == "objective"
        assert both.epsilon(1e-5) > alone.epsilon(1e-5)


# The whole run
def test_a_run_needs_less_noise_than_generic_composition_asks_for():
    method = tc.Method(tc.algorithms.DVP(), 30)
    found = tc.accounting.account(500, 60, tc.graph.ring(4), method, tc.Privacy(2.0, 1e-5))
    assert 1.999 < found.epsilon <= 2.0 and not found.exact
    ((event, count),) = found.curve().events
    assert isinstance(event, ObjectiveLaplace) and (event.dim, count) == (60, 30)
    generic = tc.accounting.judge([(Pure(event.epsilon), 30)])
    assert generic.epsilon(1e-5) > 4 * found.epsilon


class HiddenCentre(tc.algorithms.DVP):
    """One release around an iterate that was not released."""

    name = "hidden-centre"

    def step(self, s, node):
        quadratic = 1.0 + 0 * node.degree
        node.release_argmin(2 * s.dual, quadratic, node.argmin(2 * s.dual, quadratic, s.w))
        return s


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_a_hidden_centre_is_charged_for_its_way(adjacency):
    """A centre that depends on the records moves the gradient in a direction that is not the
    record's, but it is the same at every w: its way is charged, in one direction."""
    method, known = tc.Method(HiddenCentre(), 1), {"strength": 0.1}
    privacy = tc.Privacy.from_noise(round_epsilon=0.4, delta=1e-5, adjacency=adjacency)
    found = tc.accounting.account(500, 60, tc.graph.ring(4), method, privacy, **known)
    ((event, _),) = found.curve().events
    assert (event.directions, event.dim) == (1, 60)
    pure = judge([(Pure(event.epsilon), 1)], adjacency)
    assert found.epsilon <= pure.epsilon(1e-5)
    # By hand: the iterate moves by (2G/m + 2 tol)/(r + 2), and the gradient by 2 times that more
    declared = Constants.declared(loss="logistic", strength=0.1)
    blank = BlankQueries(Facts(np.array([500.0]), 60, declared, adjacency))
    zero, quadratic = np.zeros((1, 60)), np.ones((1, 1))
    hidden = blank.argmin(zero, quadratic, zero)
    slope = (2 if adjacency == "replace-one" else 1) / 500
    terms = blank.question(zero, quadratic, hidden).terms
    by_hand = slope + 2 * (slope + 2 * blank.facts.tolerance) / 2.1
    assert terms.slope == pytest.approx(by_hand, rel=1e-12) and terms.directions == 1
    assert blank.question(zero, quadratic, zero).terms.slope == pytest.approx(slope, rel=1e-12)
    with pytest.raises(LeakError):  # a linear term must have been released
        blank.question(hidden, quadratic, zero)


@pytest.mark.parametrize("dim", [1, 2])
def test_no_exact_delta_around_a_hidden_centre_exceeds_the_bound(dim):
    """Quadratic losses (x.w - y)^2/2, so that hidden iterate and release are linear in the noise:
    exact densities on a grid, for centres moved towards and away from the record's gradient."""
    kappa, slope, moved, rate = 2.1, 0.4, 0.3, 1.2
    line = np.linspace(-14, 14, 40_001 if dim == 1 else 901)
    points = np.stack(np.meshgrid(*[line] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    cell = (line[1] - line[0]) ** dim
    sphere = math.log(2) + dim / 2 * math.log(math.pi) - gammaln(dim / 2)
    constant = dim * math.log(rate) - gammaln(dim) - sphere
    promised = judge([(ObjectiveLaplace(rate * (slope + 2 * moved), 0.0, dim, 1, 0.0), 1)])
    for degrees in (0, 90, 180):
        turned = math.radians(degrees)
        way = np.array([math.cos(turned), math.sin(turned)][:dim])
        shift = np.zeros(dim)
        shift[0] = slope
        shift = (shift + 2 * moved * way) / kappa  # of the minimiser
        p, q = (
            np.exp(constant - rate * kappa * np.linalg.norm(points - at, axis=1)) * kappa**dim
            for at in (np.zeros(dim), shift)
        )
        assert p.sum() * cell == pytest.approx(1, abs=2e-3)
        for epsilon in (0.0, 0.3, 0.8):
            exact = np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)) * cell
            assert exact <= promised.delta(epsilon) + 2e-3
            if degrees == 0 and dim == 1 and epsilon == 0.8:  # without the centre it would be less
                alone = judge([(ObjectiveLaplace(rate * slope, 0.0, dim, 1, 0.0), 1)])
                assert exact > alone.delta(epsilon) + 0.01


@pytest.mark.parametrize("degrees", [0, 60, 90, 180])
def test_samples_around_a_hidden_centre_keep_the_bound(degrees):
    """Minimisers in 30 dimensions around centres that differ by a vector of any direction: every
    loss is within its own B, and no moment exceeds the bound beyond doubt."""
    dim, kappa, rate, way = 30, 3.0, 0.9, 0.8
    e = drawn(np.random.default_rng(degrees), 100_000, dim, rate)
    one, other = (Records(np.eye(dim)[:1], np.array([y])) for y in (1.0, -1.0))
    moved = np.zeros(dim)  # 2q (c - c'), which the other centre adds to the gradient
    moved[:2] = way * unit(degrees)[0]
    w = one.minimisers(e, kappa)
    delta = other.slopes(w) @ other.x - one.slopes(w) @ one.x + moved
    size = np.linalg.norm(e, axis=1)
    loss = rate * (np.linalg.norm(e - delta, axis=1) - size)
    loss += one.log_det(w, kappa) - other.log_det(w, kappa)
    rho, curvature = rate * (2 + way), math.log1p(0.25 / kappa)
    along = (2 * np.abs(e @ one.x[0]) + np.abs(e @ moved)) / size
    own = rate * along + np.minimum(rho, rho**2 / (2 * rate * size)) + curvature
    assert np.all(np.abs(loss) <= own + 1e-9)
    for excess in CHECKED[:4]:
        k = at(excess)
        assert surely(loss, EXCESSES[k]) <= bound(rho, curvature, dim)[k]


def test_less_curvature_than_was_reserved():
    """A node that lost a neighbour has less convexity: it adds some, and no part of the charge
    exceeds what was reserved."""
    from tacenda.privacy.secrets.mechanisms import objective_charge, objective_noise

    facts = Facts(np.array([50.0]), 20, Constants.declared(loss="logistic", strength=1e-3))
    epsilon = np.array([0.5])
    before, after = (facts.objective_terms(np.array([[quadratic]])) for quadratic in (0.2, 0.1))
    reserved = objective_charge(objective_noise(epsilon, before), before, 20)
    asked = objective_charge(objective_noise(epsilon, after), after, 20)
    assert asked.entries["curvature"] > reserved.entries["curvature"]
    kept = objective_noise(epsilon, after, reserved.entries["curvature"])
    charged = objective_charge(kept, after, 20)
    assert kept.extra > 0
    for name in ("inner", "curvature", "gap"):
        assert charged.entries[name] <= reserved.entries[name] * (1 + 1e-9)
