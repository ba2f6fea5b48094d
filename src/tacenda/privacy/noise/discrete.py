"""Noise for a real node: exact discrete Gaussians, and floating-point normals and l2-Laplace, all
from an AES stream.

**What is exact.** `discrete_gaussian(scale, ...)` draws n with probability proportional to
exp(-n^2/(2 scale^2)) over all integers, where `scale` is the rational number that the double stands
for, and the bits of AES-CTR are taken as uniform. Nothing is cut off and no probability is rounded:

- the integers 0, 1, 2, ... are cut into blocks of B = 2^b; a block is chosen with a whole-number
  weight c_k of at least A exp(-(kB)^2/(2 scale^2)), A a whole number near 2^63 (the c_k from
  interval arithmetic); the place inside the block and the sign are plain bits;
- the integer is kept with probability A exp(-n^2/(2 scale^2))/c_k <= 1: a 53-bit uniform is
  compared with that number in double precision, and if they are nearer than 2^-45 the comparison is
  settled with further bits of the uniform and as many digits of the exponential as it takes
  (`_settle`);
- beyond 12 scales the blocks go on without end, with halving weights inside one last cell
  (`_tail`).

So the output is a function of uniform bits with exactly the stated law (timing aside: the number of
tries varies).

**Cost**, measured on one quiet core of a small server: 33 million discrete Gaussians a second at
scale 1 and 37 to 42 million at scales from 4 to 1e6 (a third of that beside busy neighbours), 45
million normals, 32 million coordinates of l2-Laplace. A new scale costs 1 to 20 ms of table, which
is kept for the last 256 scales.

`aes_normal` and `l2_laplace` are doubles: statistically right to about 1e-15, but not safe against
attacks on the low bits of floating point; a node uses them only where its contract accepts
floating-point noise by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacenda._types import Floats, Ints
from tacenda.checks import positive, whole
from tacenda.errors import InputError
from tacenda.privacy.noise.aes import AesStream
from tacenda.privacy.noise.discrete_kernels import (
    GUIDE_SHIFT,
    TAIL,
    UNDECIDED,
    WORDS_PER_TRY,
    fill_discrete,
    fill_normal,
    scale_rows,
)

__all__ = ["AesStream", "aes_normal", "discrete_gaussian", "l2_laplace"]

MARGIN = 2.0**-45  # the double comparison errs by less than 2^-49
LARGEST_SCALE = 2.0**28  # so that squares of all block ends fit into 63 bits
CHUNK = 1 << 18


def discrete_gaussian(scale: float, size: int | tuple[int, ...], stream: AesStream) -> Ints:
    """Integers of the given shape, independent, P(n) proportional to exp(-n^2/(2 scale^2)); `scale`
    on the integer grid."""
    return _discrete(scale, size, stream, MARGIN)


def aes_normal(shape: int | tuple[int, ...], stream: AesStream) -> Floats:
    """Standard normals by Box-Muller on 64-bit radii (up to 9.4 deviations) and 53-bit angles;
    doubles, see above."""
    out = np.empty(_shape(shape))
    flat = out.reshape(-1)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK]
        fill_normal(part, stream.words(part.size + part.size % 2))
    return out


def l2_laplace(rate: ArrayLike, shape: tuple[int, int], stream: AesStream) -> Floats:
    """Rows of shape (b, d), density proportional to exp(-rate |e|);
    `rate` a number or one per row, (b,)."""
    b, d = _shape(shape)
    rates = np.ascontiguousarray(np.broadcast_to(np.asarray(rate, dtype=np.float64), (b,)))
    if b and not (np.all(rates > 0) and np.all(np.isfinite(rates))):
        raise InputError(
            f"rate must be a number above 0 for every row, not {float(rates.min())!r}; "
            "it is epsilon / sensitivity."
        )
    out = aes_normal((b, d), stream)
    scale_rows(out, stream.words(b * d), rates)
    return out


def _shape(size: int | tuple[int, ...]) -> tuple[int, ...]:
    return tuple(whole("size", part) for part in (size if isinstance(size, tuple) else (size,)))


def _discrete(scale: float, size: int | tuple[int, ...], stream: AesStream, margin: float) -> Ints:
    """As `discrete_gaussian`; a wider `margin` only sends more tries the slow way,
    and changes no value."""
    table = _table(_check_scale(scale))
    out = np.empty(_shape(size), dtype=np.int64)
    flat = out.reshape(-1)
    side, at = stream.side(), 0
    while at < flat.size:
        tries = min(int((flat.size - at) * 1.08) + 16, CHUNK)
        words, used = stream.words(WORDS_PER_TRY * tries), 0
        while at < flat.size:
            at, step, status, cell, offset = fill_discrete(
                flat,
                at,
                words[used:],
                table.cumulative,
                table.guide,
                table.block_bits,
                table.keep,
                table.rate,
                margin,
            )
            used += step
            if status not in (UNDECIDED, TAIL):
                break
            choose, accept = int(words[used - 3]), int(words[used - 1])
            settle = table.settle if status == UNDECIDED else table.settle_tail
            magnitude = settle(int(cell), int(offset), accept, side)
            if magnitude is not None:
                flat[at] = -magnitude if choose & 1 else magnitude
                at += 1
    return out


def _check_scale(scale: float) -> float:
    value = positive("scale", scale)
    if value > LARGEST_SCALE:
        raise InputError(
            f"scale must be at most 2^28 grid steps, not {scale!r}; use a coarser grid."
        )
    return value


@dataclass(frozen=True, eq=False)
class _Table:
    """Blocks of 2^block_bits integers with whole-number weights;
    the last cell, of weight 1, is the endless tail."""

    variance: Fraction
    height: int  # A
    block_bits: int
    weights: tuple[int, ...]  # c_k, without the tail's 1
    cumulative: NDArray[np.uint64]
    guide: Ints
    keep: Floats
    rate: float  # 1 / (2 scale^2)

    def settle(self, cell: int, offset: int, accept: int, side: AesStream) -> int | None:
        """The integer if the uniform that starts with the 64 bits `accept` lies below A
        e^{-n^2/2s^2}/c_k, else None."""
        n = (cell << self.block_bits) + offset
        below = is_below(
            accept,
            Fraction(self.height, self.weights[cell]),
            Fraction(n * n) / (2 * self.variance),
            side,
        )
        return n if below else None

    def settle_tail(self, cell: int, offset: int, accept: int, side: AesStream) -> int | None:
        """Block `cell + g` of the tail has weight 2^-(g+1): g is the number of coin tosses before
        the first head."""
        g = 0
        while not int(side.words(1)[0]) & 1:
            g += 1
        n = ((cell + g) << self.block_bits) + offset
        below = is_below(
            accept,
            Fraction(self.height * 2 ** (g + 1)),
            Fraction(n * n) / (2 * self.variance),
            side,
        )
        return n if below else None


def is_below(first: int, factor: Fraction, exponent: Fraction, side: AesStream) -> bool:
    """Whether U < factor e^-exponent,
    U the uniform whose first 64 bits are `first` and the rest from `side`."""
    bits, length, digits = first, 64, 40
    while True:
        low, high = _exp_bounds(exponent, digits)
        if Fraction(bits + 1, 2**length) <= factor * low:
            return True
        if Fraction(bits, 2**length) >= factor * high:
            return False
        bits, length, digits = (bits << 64) | int(side.words(1)[0]), length + 64, digits + 40


def _exp_bounds(exponent: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Rational bounds of e^-exponent, to about `digits` digits: decimal's exp is correctly rounded,
    its ends are moved out."""
    import decimal

    with decimal.localcontext(
        decimal.Context(prec=digits + 20, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
    ) as context:
        top, bottom = decimal.Decimal(exponent.numerator), decimal.Decimal(exponent.denominator)
        context.rounding = decimal.ROUND_CEILING
        low = (-(top / bottom)).exp(context).next_minus(context)
        context.rounding = decimal.ROUND_FLOOR
        high = (-(top / bottom)).exp(context).next_plus(context)
    return Fraction(low), Fraction(high)


@lru_cache(maxsize=256)
def _table(scale: float) -> _Table:
    """Weights for one scale: B is between scale/16 and scale/8 (at least 1), blocks reach just
    beyond 12 scales."""
    variance = Fraction(scale) ** 2
    bits = max(0, math.frexp(scale / 8)[1] - 1)
    cells = math.ceil(12 * scale / (1 << bits)) + 1
    exponents = [Fraction((k << bits) ** 2) / (2 * variance) for k in range(cells)]
    tops = [_exp_bounds(e, 40)[1] for e in exponents]
    height = math.floor((2**63 - cells - 2) / sum(tops, Fraction(0)))
    weights = tuple(math.ceil(height * top) for top in tops)
    ends = np.cumsum(np.array([*weights, 1], dtype=object))
    cumulative = np.array([int(end) for end in ends], dtype=np.uint64)
    corners = np.arange(1 << (63 - GUIDE_SHIFT), dtype=np.uint64) << np.uint64(GUIDE_SHIFT)
    guide = np.searchsorted(cumulative, corners, side="right").astype(np.int64)
    keep = np.array([float(height * top / w) for top, w in zip(tops, weights, strict=True)])
    return _Table(
        variance, height, bits, weights, cumulative, guide, keep, float(1 / (2 * variance))
    )
