"""Sums of discrete Gaussians are Gaussian noise, to far below the last digit of a double.

Let S be the sum of k independent discrete Gaussians of scale s (whole numbers n with probability
proportional to exp(-n^2 / 2s^2)), in each of d coordinates, and v whole numbers that one record
moves by at most D in the Euclidean norm. Write rho_w(x) = exp(-x^2 / 2w^2) and theta_w(c) = sum
over all whole n of rho_w(n - c). By Poisson's summation

    theta_w(c) = w sqrt(2 pi) (1 + 2 sum_m exp(-2 pi^2 w^2 m^2) cos(2 pi m c)),    m = 1, 2, ...

so that theta_w is constant but for a factor (1 + e_w)/(1 - e_w) between any two places, with
e_w = 2 sum_m exp(-2 pi^2 w^2 m^2).

1. The sum of j + 1 has the weights of a discrete Gaussian of scale sqrt(j + 1) s, but for such a
   factor with w^2 = s^2 j/(j + 1): multiply the weights of j of them with those of one more,
   complete the square, and theta_w is what remains of the sum over the first. By induction, S has
   the law of one discrete Gaussian of scale sqrt(k) s, but for the product of these factors over
   j = 1, ..., k - 1.
2. Take y = v + a real Gaussian of variance a^2 = k s^2 - b^2, and draw a whole number n with weight
   rho_b(n - y). Completing the square again, n has the law of v + a discrete Gaussian of scale
   sqrt(k) s, but for a factor of the same form with w = b, which comes from the normaliser
   theta_b(y).

So at every point the probabilities of v + S lie within a factor e^(d kappa) of those of a step that
does not know v, done with y = v + N(0, a^2): post-processing of a Gaussian release of mu = D/a. For
rounds that follow each other the factors multiply, and with K = sum d kappa

    delta(eps) <= e^K delta_mu(eps - 2 K).

With b = 4 and s of at least 64 steps kappa is below 1e-136. A Gaussian whose mu is larger by the
part MARGIN has a curve above the right hand side whenever K (2.5 + 2.6 exp(mu^2 / 8)) <= MARGIN mu
(compare d delta/d mu = phi(a) with -d delta/d eps = phi(a) M(b) <= 1.26 phi(a), and delta itself =
phi(a) (M(a) - M(b)) <= phi(a) sqrt(2 pi) exp(mu^2 / 8), where a, b = eps/mu -+ mu/2 and M is Mills'
ratio): for mu from 1e-30 to 40, and 1e12 numbers in all, by twenty digits and more. Half of MARGIN
holds what b takes from the variance, from 2^17 steps of the sum on. So a masked sum needs the noise
of an ideal Gaussian, without the few per cent more that concentrated privacy would ask for.

Kairouz, Liu and Steinke (2021, "The distributed discrete Gaussian mechanism") have step 1 with
another constant, and go on by concentrated privacy.
"""

from __future__ import annotations

import math

SMOOTHING = 4.0  # b, in steps
LEAST_SCALE = 64.0  # s, in steps
LEAST_TOTAL = 2.0**17  # sqrt(k) s, in steps
MARGIN = 1e-9  # by how much mu is counted larger


def sum_mu(sensitivity: float, scale: float, members: int, smoothing: float = SMOOTHING) -> float:
    """mu = D/sqrt(k s^2 - b^2), all in steps of the grid; infinite where nothing is left of the
    variance."""
    variance = members * scale * scale - smoothing * smoothing
    return sensitivity / math.sqrt(variance) if variance > 0 else math.inf


def log_ratio(scale: float, members: int, smoothing: float = SMOOTHING) -> float:
    """kappa: by how much, in the logarithm and for one coordinate, the sum's probabilities may
    differ from those of the post-processed Gaussian."""
    widths = [scale * math.sqrt(j / (j + 1)) for j in range(1, members)]
    return math.fsum(_log_factor(w) for w in [*widths, smoothing])


def _log_factor(width: float) -> float:
    """ln((1 + e_w)/(1 - e_w))."""
    wave = 2 * math.fsum(
        math.exp(-2 * (math.pi * width * m) ** 2) for m in range(1, 2 + math.ceil(5 / width))
    )
    return math.log1p(wave) - math.log1p(-wave) if wave < 1 else math.inf


def is_fine(scale: float, members: float) -> bool:
    """Whether a grid with noise of this scale, in steps, is fine enough for MARGIN."""
    return scale >= LEAST_SCALE and math.sqrt(members) * scale >= LEAST_TOTAL
