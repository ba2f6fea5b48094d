"""One of several candidates, drawn exactly: P(i) proportional to exp(-rate * distance_i).

A candidate is proposed uniformly and kept with probability exp(-rate (distance - least distance)).
A 64-bit uniform is compared with that number in double precision, and where they are nearer than
2^-45 the comparison is settled with further bits and as many digits of the exponential as it takes
(`discrete`). So no weight is ever 0, infinite or rounded: the law is exactly the stated one, the
bits of AES-CTR taken as uniform. Timing aside: the number of tries varies.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tacenda._types import Ints
from tacenda.errors import InputError
from tacenda.privacy.noise.aes import AesStream
from tacenda.privacy.noise.discrete import MARGIN, is_below

WORDS = 256  # read at a time


def choose(distances: Ints, rate: Fraction, stream: AesStream) -> int:
    """The number of a candidate, with probability proportional to exp(-rate * distances[i]);
    distances (k,) are whole numbers."""
    if distances.ndim != 1 or not len(distances) or distances.dtype.kind != "i":
        raise InputError(
            f"distances must be whole numbers of shape (k,) with k > 0, not {distances.shape} "
            f"of {distances.dtype}."
        )
    if not rate > 0:
        raise InputError(f"rate must be above 0, not {rate}.")
    beyond = [int(d) for d in distances - distances.min()]
    limit = (2**64 // len(beyond)) * len(beyond)  # past it the remainder would favour the first
    side, slope = stream.side(), float(rate)
    while True:
        words = stream.words(WORDS).tolist()
        for place, accept in zip(words[::2], words[1::2], strict=True):
            if place >= limit:
                continue
            number = place % len(beyond)
            chance = math.exp(-min(slope * beyond[number], 800.0))
            gap = accept * 2.0**-64 - chance
            if abs(gap) < MARGIN:
                below = is_below(accept, Fraction(1), rate * beyond[number], side)
            else:
                below = gap < 0
            if below:
                return int(number)
