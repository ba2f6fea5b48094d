"""The discrete Gaussian has exactly its law, on every path;
AES streams are repeatable and separate."""

import math
import pickle

import mpmath
import numpy as np
import pytest
from scipy import stats

from tacenda.errors import InputError
from tacenda.privacy.noise import discrete as module
from tacenda.privacy.noise.discrete import AesStream, aes_normal, discrete_gaussian, l2_laplace
from tacenda.privacy.noise.discrete_kernels import TAIL, UNDECIDED, fill_discrete

KEY = bytes(range(32))


def stream(call=0, run="test", number=1):
    return AesStream(KEY, run, number, call)


def chi_square(draws, scale):
    """p-value against exp(-n^2/2s^2)/Z with Z summed by mpmath; rare ends are pooled."""
    reach = int(12 * scale) + 2
    with mpmath.workdps(30):
        weights = [
            mpmath.exp(-(mpmath.mpf(n) ** 2) / (2 * mpmath.mpf(scale) ** 2))
            for n in range(-reach, reach + 1)
        ]
        total = mpmath.fsum(weights)
        expected = np.array([float(w / total) for w in weights]) * draws.size
    seen = np.bincount(draws + reach, minlength=2 * reach + 1).astype(float)
    big = expected > 20
    observed = np.append(seen[big], seen[~big].sum())
    wanted = np.append(expected[big], expected[~big].sum())
    if wanted[-1] < 5:
        observed, wanted = observed[:-1], wanted[:-1]
        wanted = wanted * observed.sum() / wanted.sum()
    return stats.chisquare(observed, wanted, sum_check=False).pvalue if observed.size > 1 else 1.0


@pytest.mark.parametrize("scale", [0.3, 0.5, 1.0, 2.75, 7.99, 8.0, 16.1, 40.0])
def test_law_by_chi_square(scale):
    draws = discrete_gaussian(scale, 400_000, stream(int(100 * scale)))
    assert chi_square(draws, scale) > 1e-3
    assert chi_square(draws, scale * 1.02) < 1e-6  # the test can tell 2 % of scale


@pytest.mark.parametrize("scale", [1000.3, 1e6, 2.0**28])
def test_law_by_kolmogorov_smirnov_at_large_scales(scale):
    draws = discrete_gaussian(scale, 200_000, stream(7))
    assert stats.kstest(draws / scale, "norm").pvalue > 1e-3
    assert stats.kstest(draws / (scale * 1.02), "norm").pvalue < 1e-3
    block = 1 << module._table(scale).block_bits
    # The density falls by less than 1 % over the first block
    first = np.abs(draws)[np.abs(draws) < block]
    assert stats.kstest(first / block, "uniform").pvalue > 1e-4


def test_tiny_scale_is_almost_always_zero():
    assert not discrete_gaussian(0.05, 10_000, stream()).any()


def test_the_exact_path_gives_the_same_values():
    """A margin of 0.3 sends most tries to rational arithmetic:
    every value stays what the doubles said."""
    for scale in (0.7, 3.7, 5000.25):
        quick = module._discrete(scale, 1500, stream(3), module.MARGIN)
        slow = module._discrete(scale, 1500, stream(3), 0.3)
        assert np.array_equal(quick, slow)


def test_double_comparison_is_well_inside_its_margin():
    """Acceptance probabilities in double against 60 digits, at the ends of all blocks."""
    for scale in (0.37, 12.3, 99999.9, 2.0**28):
        table = module._table(scale)
        size = 1 << table.block_bits
        for k in range(0, len(table.weights), 7):
            for j in {0, size // 2, size - 1}:
                start = k * size
                double = table.keep[k] * math.exp(-float(j * (2 * start + j)) * table.rate)
                with mpmath.workdps(60):
                    s = mpmath.mpf(scale)
                    exact = (
                        table.height
                        * mpmath.exp(-(mpmath.mpf(start + j) ** 2) / (2 * s * s))
                        / table.weights[k]
                    )
                assert exact <= 1
                assert abs(double - float(exact)) < module.MARGIN / 8


def test_table_fills_its_63_bits():
    for scale in (0.05, 1.0, 1000.3, 2.0**28):
        table = module._table(scale)
        total = int(table.cumulative[-1])
        assert total == sum(table.weights) + 1 <= 2**63
        assert total > 2**63 * (1 - 1e-9)
        assert (len(table.weights) << table.block_bits) >= 12 * scale


def test_bounds_of_the_exponential():
    from fractions import Fraction

    for x in (Fraction(0), Fraction(1, 3), Fraction(72), Fraction(5000), Fraction(1, 10**20)):
        low, high = module._exp_bounds(x, 40)
        with mpmath.workdps(120):
            exact = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)
            assert (
                mpmath.mpf(low.numerator) / low.denominator
                <= exact
                <= mpmath.mpf(high.numerator) / high.denominator
            )
        assert (high - low) <= high * Fraction(1, 10**40)


def test_tail_cell_is_reached_and_has_the_right_law():
    table = module._table(3.0)
    words = np.array([(int(table.cumulative[-1]) - 1) << 1, 0, 5], dtype=np.uint64)
    out = np.empty(1, dtype=np.int64)
    args = (table.cumulative, table.guide, table.block_bits, table.keep, table.rate, module.MARGIN)
    assert fill_discrete(out, 0, words, *args)[2:4] == (TAIL, len(table.weights))
    # Probability 1e-13: refused
    assert table.settle_tail(len(table.weights), 0, 2**63, stream().side()) is None

    # the same code with a low ceiling, so that the tail is met often: n >= 7 at scale 3
    low = module._Table(
        table.variance, 5, 0, (), table.cumulative, table.guide, table.keep, table.rate
    )
    side = stream(9)
    accepts = side.words(30_000)
    found = [n for word in accepts if (n := low.settle_tail(7, 0, int(word), side)) is not None]
    weights = np.exp(-(np.arange(7, 16) ** 2) / 18.0)
    seen = np.bincount(found, minlength=16)[7:16]
    assert stats.chisquare(seen[:6], weights[:6] / weights[:6].sum() * seen[:6].sum()).pvalue > 1e-3


def test_undecided_is_reported():
    table = module._table(1.0)
    # Cell 0, keep ~ 1: the uniform is nearer than the margin
    words = np.array([2, 0, 2**64 - 1], dtype=np.uint64)
    out = np.empty(1, dtype=np.int64)
    args = (table.cumulative, table.guide, table.block_bits, table.keep, table.rate, module.MARGIN)
    assert fill_discrete(out, 0, words, *args)[2] == UNDECIDED
    assert table.settle(0, 0, 2**64 - 1, stream().side()) in (0, None)


def test_streams_repeat_and_differ():
    a, b = stream(), stream()
    assert np.array_equal(np.concatenate([a.words(5), a.words(7)]), b.words(12))
    names = [
        stream(1),
        stream(0, "other"),
        stream(0, number=2),
        AesStream(bytes(32), "test", 1, 0),
        stream().side(),
    ]
    first = [int(s.words(1)[0]) for s in [stream(), *names]]
    assert len(set(first)) == len(first)
    assert not np.array_equal(AesStream.fresh().words(4), AesStream.fresh().words(4))
    assert np.array_equal(
        discrete_gaussian(9.5, (3, 4), stream(2)), discrete_gaussian(9.5, (3, 4), stream(2))
    )


def test_streams_keep_their_key():
    assert KEY.hex() not in repr(stream())
    assert "key" not in repr(stream())
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(stream())
    for bad in (b"short", "x" * 32):
        with pytest.raises(InputError, match="32 secret bytes"):
            AesStream(bad)


def test_aes_words_are_the_standard_ones():
    """Counter mode by hand: word i is AES(own key, counter i/2), little endian."""
    import hashlib
    import hmac

    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    name = (
        b"tacenda noise v1"
        + (4).to_bytes(8, "big")
        + b"test"
        + b"".join(n.to_bytes(8, "big") for n in (1, 0, 0))
    )
    block = Cipher(
        algorithms.AES(hmac.new(KEY, name, hashlib.sha256).digest()), modes.ECB()
    ).encryptor()
    raw = b"".join(block.update(i.to_bytes(16, "big")) for i in range(3))
    assert stream().words(6).tolist() == [
        int.from_bytes(raw[8 * i : 8 * i + 8], "little") for i in range(6)
    ]


def test_normal_law():
    draws = aes_normal((1000, 301), stream(4))
    assert draws.shape == (1000, 301)
    assert stats.kstest(draws.ravel(), "norm").pvalue > 1e-3
    for wrong in (2 / 3, 1.5, 1.02):
        assert stats.kstest(draws.ravel() * wrong, "norm").pvalue < 1e-6
    pairs = draws.ravel()[:300_000].reshape(-1, 2)
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 0.012
    assert abs(np.corrcoef((pairs**2).T)[0, 1]) < 0.012


def test_l2_laplace_law():
    rate = np.repeat([2.0, 5.0], 20_000)
    e = l2_laplace(rate, (40_000, 6), stream(5))
    length = np.linalg.norm(e, axis=1) * rate
    assert stats.kstest(length, "gamma", args=(6,)).pvalue > 1e-3
    assert stats.kstest(length * 1.02, "gamma", args=(6,)).pvalue < 1e-3
    cosine = e[:, 2] / np.linalg.norm(e, axis=1)
    assert stats.kstest((1 + cosine) / 2, "beta", args=(2.5, 2.5)).pvalue > 1e-3
    assert l2_laplace(1.0, (3, 1), stream(6)).shape == (3, 1)
    assert (
        stats.kstest(l2_laplace(1.5, (20_000, 1), stream(6)).ravel() * 1.5, "laplace").pvalue > 1e-3
    )


def test_refusals():
    for bad in (0, -1, math.inf, math.nan, 2.0**29):
        with pytest.raises(InputError, match="scale"):
            discrete_gaussian(bad, 3, stream())
    with pytest.raises(InputError, match="rate"):
        l2_laplace(0.0, (2, 2), stream())
    with pytest.raises(InputError, match="size"):
        discrete_gaussian(1.0, -1, stream())
    assert discrete_gaussian(1.0, 0, stream()).shape == (0,)


class _Words:
    """A stream that says what it is told to."""

    def __init__(self, *values):
        self.left = list(values)

    def words(self, count):
        assert count == 1
        return np.array([self.left.pop(0)], np.uint64)


@pytest.mark.parametrize(("scale", "exponent"), [(1, 0.5), (3, 2.0), (7, 40.0)])
def test_a_comparison_is_exact_however_many_bits_it_takes(scale, exponent):
    """U < factor e^-x for a U that agrees with the right side in its first 64 (or 128) bits: the
    next bits decide, as in exact arithmetic."""
    from fractions import Fraction

    factor, x = Fraction(scale, 8), Fraction(exponent)
    with mpmath.workdps(120):
        right = mpmath.mpf(scale) / 8 * mpmath.exp(-mpmath.mpf(exponent))
        first = int(mpmath.floor(right * 2**64))
        second = int(mpmath.floor(right * 2**128)) % 2**64
        third = int(mpmath.floor(right * 2**192)) % 2**64
    assert module.is_below(first - 1, factor, x, _Words())
    assert not module.is_below(first + 1, factor, x, _Words())
    assert module.is_below(first, factor, x, _Words(second - 1))
    assert not module.is_below(first, factor, x, _Words(second + 1))
    assert module.is_below(first, factor, x, _Words(second, third - 1))
    assert not module.is_below(first, factor, x, _Words(second, third + 1))


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.7, 200.25])
def test_a_table_accepts_every_integer_with_the_exact_probability(scale):
    """(weight of its block / block size) * acceptance is A e^{-n^2/2s^2} times one constant for all
    n: the law of the whole method, in exact numbers."""
    table = module._table(scale)
    assert table.cumulative.tolist() == np.cumsum([*table.weights, 1], dtype=object).tolist()
    for cell in {0, 1, 2, len(table.weights) // 2, len(table.weights) - 1}:
        top = math.exp(-((cell << table.block_bits) ** 2) / (2 * scale**2))
        assert table.weights[cell] == pytest.approx(table.height * top, rel=1e-15, abs=1.0)
        assert table.weights[cell] >= table.height * top * (1 - 1e-15)
        assert table.keep[cell] == pytest.approx(table.height * top / table.weights[cell])
        assert table.keep[cell] <= 1.0
        n = (cell << table.block_bits) + (1 << table.block_bits) - 1
        kept = table.height * math.exp(-(n**2) / (2 * scale**2)) / table.weights[cell]
        first = int(kept * 2**64)
        if 0 < first < 2**64:
            for word, wanted in (
                (int(first * 0.999), n),
                (min(int(first * 1.001) + 2, 2**64 - 1), None),
            ):
                if wanted is None and word / 2**64 <= kept:
                    continue
                offset = n - (cell << table.block_bits)
                assert table.settle(cell, offset, word, _Words()) == wanted
    assert table.rate == pytest.approx(1 / (2 * scale**2), rel=1e-15)
