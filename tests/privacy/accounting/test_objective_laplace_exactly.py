"""A second reading of l2-Laplace noise inside objectives (decision 42), written apart from the
first: the two densities of the released minimiser on a grid of w, and the delta that the judge
gives against the exact one, in one and two dimensions; samples of adaptive runs in ten."""

import math

import numpy as np
import pytest
from scipy.special import expit, gammaln

from tacenda.privacy.accounting.events import ObjectiveLaplace
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.accounting.renyi import renyi_profile

EPSILONS = (0.0, 0.1, 0.3, 0.6, 1.0, 1.5)
OTHER = -1.0  # the label of the record that both data sets hold


def slope(w, x, y):
    """(N,) slopes of ln(1 + exp(-y x.w)) in x.w."""
    return -y * expit(-y * (w @ x))


def log_density(w, records, kappa, rate, pull):
    """ln of the density of argmin sum_j loss_j(w) + kappa/2 |w|^2 + (pull + e).w at each w."""
    dim = w.shape[1]
    gradient = kappa * w + pull
    hessian = np.broadcast_to(kappa * np.eye(dim), (len(w), dim, dim)).copy()
    for x, y in records:
        gradient = gradient + slope(w, x, y)[:, None] * x
        u = w @ x
        hessian = hessian + (expit(u) * expit(-u))[:, None, None] * np.outer(x, x)
    sphere = math.log(2) + dim / 2 * math.log(math.pi) - gammaln(dim / 2)
    constant = dim * math.log(rate) - gammaln(dim) - sphere
    return (
        constant - rate * np.linalg.norm(gradient, axis=1) + np.log(np.linalg.det(hessian)).ravel()
    )


def grid(dim, half):
    """(points (N, dim), cells (N,)) of [-half, half]^dim, finer around 0."""
    t = np.linspace(-1, 1, 20_001 if dim == 1 else 501)
    line = half * (0.03 * t + 0.97 * t**3)
    width = half * (0.03 + 2.91 * t**2) * (t[1] - t[0])
    if dim == 1:
        return line[:, None], width
    one, two = np.meshgrid(line, line, indexing="ij")
    return np.stack([one.ravel(), two.ravel()], axis=1), np.outer(width, width).ravel()


def unit(dim, degrees):
    t = math.radians(degrees)
    return np.array([math.cos(t), math.sin(t)][:dim])


def curve(rate, kappa, dim, adjacency, rounds=1):
    inner = rate * (2 if adjacency == "replace-one" else 1)
    event = ObjectiveLaplace(inner, math.log1p(0.25 / kappa), dim, 1, 0.0)
    return judge([(event, rounds)], adjacency)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize(("dim", "degrees"), [(1, 0), (1, 180), (2, 0), (2, 90), (2, 180)])
@pytest.mark.parametrize(("rate", "kappa", "pull"), [(0.3, 0.3, 0.0), (1.0, 2.0, 4.0)])
def test_no_exact_delta_exceeds_the_judge_s(adjacency, dim, degrees, rate, kappa, pull):
    shared = (unit(dim, 53.0) if dim == 2 else np.ones(1), OTHER)
    first = (unit(dim, 0), 1.0)
    one, other = [first, shared], [(unit(dim, degrees), -1.0), shared]
    if adjacency == "add-remove":
        other = [shared]
    w, cell = grid(dim, (30 / rate + pull + 3) / kappa)
    p, q = (np.exp(log_density(w, r, kappa, rate, pull * first[0])) for r in (one, other))
    for density in (p, q):
        assert np.sum(density * cell) == pytest.approx(1, abs=2e-4)
    promised = curve(rate, kappa, dim, adjacency)
    for a, b in ((p, q), (q, p)):
        for epsilon in EPSILONS:
            exact = np.sum(np.maximum(a - math.exp(epsilon) * b, 0.0) * cell)
            assert exact <= promised.delta(epsilon) + 2e-4
    assert promised.delta(promised.pure_epsilon) == 0.0


def minimisers(x, y, kappa, linear):
    """(N, d): Newton's method for every row of `linear` (N, d)."""
    w = -linear / kappa
    for _ in range(60):
        gradient = kappa * w + linear
        hessian = np.broadcast_to(kappa * np.eye(w.shape[1]), (len(w), *(w.shape[1],) * 2)).copy()
        for j in range(len(x)):
            gradient = gradient + slope(w, x[j], y[j])[:, None] * x[j]
            u = w @ x[j]
            hessian = hessian + (expit(u) * expit(-u))[:, None, None] * np.outer(x[j], x[j])
        if np.abs(gradient).max() < 1e-9:
            return w
        w = w - np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
    raise AssertionError("no minimiser")


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("persons", [1, 3])
def test_adaptive_runs_in_ten_dimensions_keep_the_judge_s_delta(adjacency, persons):
    """Six rounds, whose linear terms depend on what was released before; one person's records all
    point the same way, which is the worst case."""
    rng = np.random.default_rng(persons)
    dim, count, rounds, kappa, rate = 10, 20_000, 6, 3.0, 0.8 / persons
    x = np.zeros((persons, dim))
    x[:, 0] = 1.0
    y, theirs = np.ones(persons), -np.ones(persons)
    loss, w = np.zeros(count), np.zeros((count, dim))
    for _ in range(rounds):
        e = rng.standard_normal((count, dim))
        e *= (rng.gamma(dim, 1 / rate, count) / np.linalg.norm(e, axis=1))[:, None]
        w = minimisers(x, y, kappa, e - 0.5 * w)
        own = sum(slope(w, a, b)[:, None] * a for a, b in zip(x, y, strict=True))
        u = w @ x[0]
        bend = np.log1p(persons * expit(u) * expit(-u) / kappa)
        if adjacency == "replace-one":  # the same x, another label: the same Hessian
            moved = sum(slope(w, a, b)[:, None] * a for a, b in zip(x, theirs, strict=True)) - own
            bend = np.zeros(count)
        else:
            moved = -own
        loss += rate * (np.linalg.norm(e - moved, axis=1) - np.linalg.norm(e, axis=1)) + bend
    weight = np.exp(-loss)
    assert abs(weight.mean() - 1) < 5 * weight.std() / math.sqrt(count)  # it is a loss
    promised = curve(rate, kappa, dim, adjacency, rounds).group(persons)
    assert loss.max() <= promised.pure_epsilon
    for epsilon in EPSILONS:
        lost = np.maximum(-np.expm1(epsilon - loss), 0.0)
        assert lost.mean() - 5 * lost.std() / math.sqrt(count) <= promised.delta(epsilon)


def test_curvature_alone_has_a_finite_bound():
    """No noise on the linear part is needed if a record moves no gradient: only ln det counts."""
    found = np.array(renyi_profile([(ObjectiveLaplace(0.0, 0.1, 10, 1, 0.0), 1)]).divergences)
    assert np.all(np.isfinite(found)) and np.all(found <= 0.1 + 1e-9)


def some_loss(rng, lean):
    """(slope, bend, largest bend) of a random convex loss whose slopes are within [-1, 1]: steps
    of any place and steepness, which clipping and losses of one's own may have. The larger |lean|,
    the closer all slopes are to its sign."""
    share = rng.dirichlet(np.ones(2))
    place, steep = rng.normal(0, 2, 2), np.exp(rng.uniform(-1.5, 1.5, 2))

    def slope(u):
        return (np.tanh((u[:, None] - place) * steep) @ share + lean) / (1 + abs(lean))

    def bend(u):
        away = np.clip((u[:, None] - place) * steep, -50, 50)
        return (steep / np.cosh(away) ** 2) @ share / (1 + abs(lean))

    return slope, bend, float(steep @ share / (1 + abs(lean)))


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("dim", [1, 2, 3, 10, 105])
def test_no_sample_of_random_losses_exceeds_the_judge_s(dim, adjacency):
    """One record against another of the same x, which is the worst, or of its opposite, beside a
    shared one. All happens along x: the exact law of e there, and minimisers by bisection."""
    rng, count = np.random.default_rng(dim), 50_000
    sign = rng.choice([-1.0, 1.0])
    mine, theirs, shared = (some_loss(rng, lean) for lean in (8.0, -8.0 * sign, 0.0))
    curvature = math.exp(rng.uniform(math.log(0.01), math.log(0.2)))
    rate, kappa = 1.0, max(mine[2], theirs[2]) / math.expm1(curvature)
    s, z = rng.gamma(dim, 1 / rate, count), rng.standard_normal(count)
    across = np.sqrt(rng.chisquare(dim - 1, count)) if dim > 1 else np.zeros(count)
    along, across = (s * part / np.hypot(z, across) for part in (z, across))

    def gradient(u):
        return kappa * u + along + mine[0](u) + shared[0](u)

    low, high = -(along + 2) / kappa, (2 - along) / kappa
    for _ in range(60):
        middle = (low + high) / 2
        above = gradient(middle) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    u = (low + high) / 2
    assert np.abs(gradient(u)).max() < 1e-9 * kappa * max(1, np.abs(u).max())
    other, bent = np.zeros(count), np.zeros(count)
    if adjacency == "replace-one":
        other, bent = sign * theirs[0](sign * u), theirs[1](sign * u)
    moved = other - mine[0](u)
    own = kappa + shared[1](u)
    loss = rate * (np.hypot(along - moved, across) - s) + np.log((own + mine[1](u)) / (own + bent))
    weight = np.exp(-loss)
    assert abs(weight.mean() - 1) < 5 * weight.std() / math.sqrt(count)  # it is a loss
    inner = rate * (2 if adjacency == "replace-one" else 1)
    promised = judge([(ObjectiveLaplace(inner, curvature, dim, 1, 0.0), 1)], adjacency)
    assert loss.max() <= promised.pure_epsilon + 1e-9
    for epsilon in EPSILONS:
        lost = np.maximum(-np.expm1(epsilon - loss), 0.0)
        assert lost.mean() - 5 * lost.std() / math.sqrt(count) <= promised.delta(epsilon)
