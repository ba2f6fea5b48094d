"""Samples of a fixed number of records, with and without replacement: the bound against exact
divergences of real mixtures, and against the figures of Huang and Gong (2020), Note 1."""

import itertools
import math
from math import comb

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.stats import binom, norm

import quickly
from tacenda.accounting import BatchGaussian, Gaussian, OneOfGaussian, PoissonGaussian, judge
from tacenda.errors import InputError, PrivacyError
from tacenda.privacy.accounting.events import event_from_dict

EPSILONS = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)


def density(values, batch, std, replacement, at):
    """The density at `at` of the sum of a batch of `values`, with noise: a mixture over all
    batches, counted one by one."""
    if replacement:
        batches = list(itertools.product(range(len(values)), repeat=batch))
    else:
        batches = list(itertools.combinations(range(len(values)), batch))
    return np.mean(
        [norm.pdf(at, sum(values[i] for i in chosen), std) for chosen in batches], axis=0
    )


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("others", ["low", "high", "mixed", "middle"])
@pytest.mark.parametrize(("population", "batch", "z"), [(4, 2, 0.7), (5, 3, 1.0), (6, 1, 0.5)])
def test_no_exact_delta_exceeds_the_bound(replacement, others, population, batch, z):
    """A record's value is 1 in one data set and -1 in the other, so it moves the sum by 2."""
    rest = {"low": [-1.0], "high": [1.0], "mixed": [-1.0, 1.0], "middle": [0.0]}[others]
    rest = (rest * population)[: population - 1]
    at = np.linspace(-batch - 12 * 2 * z, batch + 12 * 2 * z, 40_001)
    p, q = (
        density([own, *rest], batch, 2 * z, replacement, at) * (at[1] - at[0])
        for own in (1.0, -1.0)
    )
    curve = judge([(BatchGaussian(z, population, batch, replacement), 1)])
    assert not curve.exact
    for one, other in ((p, q), (q, p)):
        for epsilon in EPSILONS:
            exact = np.maximum(one - math.exp(epsilon) * other, 0.0).sum()
            assert exact <= curve.delta(epsilon) + 1e-7


@pytest.mark.parametrize("others", ["low", "mixed"])
def test_two_rounds_keep_the_bound(others):
    rest = {"low": [-1.0] * 3, "mixed": [-1.0, 1.0, 0.0]}[others]
    at = np.linspace(-10, 10, 801)
    p, q = (density([own, *rest], 2, 1.6, True, at) * (at[1] - at[0]) for own in (1.0, -1.0))
    curve = judge([(BatchGaussian(0.8, 4, 2, True), 2)])
    for epsilon in EPSILONS:
        exact = np.maximum(np.outer(p, p) - math.exp(epsilon) * np.outer(q, q), 0.0).sum()
        assert exact <= curve.delta(epsilon) + 1e-6


def test_one_round_is_the_bound_written_apart():
    """g [(1 - s) H(mixture | N(0)) + s sum_k w_k delta_k] at the amplified epsilon, the mixture's
    divergence by summing over a grid."""
    population, batch, z, inner = 50, 4, 0.8, 1.3
    rate = 1 - (1 - 1 / population) ** batch
    outer = math.log(1 + rate * (math.exp(inner) - 1))
    chances = [
        comb(batch, k) * population**-k * (1 - 1 / population) ** (batch - k)
        for k in range(1, batch + 1)
    ]
    apart = sum(
        p * judge([(Gaussian(z / k), 1)]).delta(inner) for k, p in enumerate(chances, start=1)
    )
    y = np.linspace(-10, 16, 200_001)
    mixture = sum(p / rate * norm.pdf(y, k, z) for k, p in enumerate(chances, start=1))
    tops = np.maximum(mixture - math.exp(inner) * norm.pdf(y, 0, z), 0.0)
    joined = rate * tops.sum() * (y[1] - y[0])
    share = rate + (1 - rate) * math.exp(-inner)
    expected = (1 - share) * joined + share * apart
    found = judge([(BatchGaussian(z, population, batch, True), 1)]).delta(outer)
    assert expected * (1 - 1e-6) <= found <= expected * 1.001
    assert joined < apart


def test_many_directions_are_hidden_better_than_one():
    """Kahane's inequality, by simulation: records that push in several directions lose no more
    than the line at full distance which the bound takes."""
    rng = np.random.default_rng(0)
    weights, epsilon = np.array([0.7, 0.3]), 0.8
    y = rng.standard_normal((400_000, 3))
    line = np.exp(1.2 * y[:, 0] - 0.72) * 0.7 + np.exp(2.4 * y[:, 0] - 2.88) * 0.3
    worst = np.maximum(line - math.exp(epsilon), 0.0)
    for angle in (0.3, 1.5, 3.0):
        towards = np.array([math.cos(angle), math.sin(angle), 0.0])
        ratio = weights[0] * np.exp(1.2 * y[:, 0] - 0.72)
        ratio = ratio + weights[1] * np.exp(2.4 * (y @ towards) - 2.88)
        gap = worst - np.maximum(ratio - math.exp(epsilon), 0.0)
        assert gap.mean() > -3 * gap.std() / math.sqrt(len(gap))


def test_limits():
    whole = judge([(BatchGaussian(3.0, 20, 20), 7)])
    assert whole.epsilon(1e-5) == judge([(Gaussian(3.0), 7)]).epsilon(1e-5)
    for replacement in (False, True):
        one = judge([(BatchGaussian(1.0, 30, 1, replacement), 9)])
        assert one.epsilon(1e-5) == judge([(OneOfGaussian(1.0, 30), 9)]).epsilon(1e-5)
    alone = judge([(BatchGaussian(3.0, 1, 4, True), 1)])  # the same record four times
    assert alone.epsilon(1e-5) == judge([(Gaussian(0.75), 1)]).epsilon(1e-5)
    event = BatchGaussian(1.0, 30, 4, True)
    assert event_from_dict(event.to_dict()) == event
    with pytest.raises(InputError, match="at most the population of 3"):
        BatchGaussian(1.0, 3, 4)
    with pytest.raises(PrivacyError, match="fixed number of records"):
        judge([(event, 1)], "add-remove")


@pytest.mark.parametrize(
    ("batch", "least", "most"),
    quickly.cases([(1, 69.6, 70.3), (2, 16.3, 16.9), (5, 1.56, 1.85)], lambda case: case[0] == 5),
)
def test_the_paper_s_noise_with_the_paper_s_sampling(batch, least, most):
    """45,222 records on 100 nodes, T = 30 rounds of l = 10 steps, (1, 1e-5) claimed, the noise that
    of all records. One pair of data sets attains `least`: the record is at one end and all others
    are at the other, a mixture of Gaussians against one, computed by dp_accounting."""
    records, steps = 452, 300
    z = math.sqrt(2 * steps * math.log(1.25 / 1e-5)) * batch / records
    drawn = np.arange(min(batch, 4) + 1)
    attained = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        z,
        [float(k) for k in drawn],
        [float(p) for p in binom.pmf(drawn, batch, 1 / records)],
        value_discretization_interval=1e-3,
    ).self_compose(steps)
    found = judge([(BatchGaussian(z, records, batch, True), steps)]).epsilon(1e-5)
    assert least < attained.get_epsilon_for_delta(1e-5) < found < most
    poisson = judge([(PoissonGaussian(z, batch / records), steps)])
    assert poisson.epsilon(1e-5) < found
