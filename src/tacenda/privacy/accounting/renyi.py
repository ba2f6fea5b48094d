"""Renyi bounds of our own, for noise inside an objective: Gaussian, which no other accountant here
can judge, and l2-Laplace, of which generic composition sees no dimension.

Gaussian noise
--------------

Let a node release w = argmin F(w) + e.w with e ~ N(0, s^2 I) and F strongly convex. Then w and e
determine each other, e = -grad F(w), and with D, D' neighbouring data and Delta = grad F_D' - grad
F_D at w, the privacy loss at w is

    l = (|e - Delta|^2 - |e|^2) / (2 s^2) + ln det H_D - ln det H_D'         under D, e normal

(Kifer, Smith, Thakurta 2012). For a linear model Delta = a x - b x', with |a x| and |b x'| at most
G: along each of the two records e is normal in k directions (k = 1 for one output, K - 1 for K
classes), so that |e.Delta| <= G s (R + R') with R, R' distributed as chi with k degrees of freedom,
and |Delta| <= 2G. With 1/z = tau = 2G/s and L a bound on |ln det H_D - ln det H_D'|,

    |l| <= B,       B = tau (R + R')/2 + tau^2/2 + L.

Redberg, Koskela and Wang (2023) bound moments by E exp((a - 1) B), whose first term grows like the
number of rounds. But E exp(-l) = 1 as well, since exp(-l) is a ratio of densities, so

    E exp((a - 1) l) = E psi(l),    psi(x) = exp((a - 1) x) + (a - 1) (exp(-x) - 1),

and psi is convex with its minimum 1 at 0: E psi(l) <= E max(psi(B), psi(-B)), which is 1 + a (a -
1) tau^2/2 to leading order, as for noise that is added to a value. max(psi(x), psi(-x)) is convex
and grows for x >= 0, and of all joint laws of R and R' the one with R = R' has the largest mean of
such functions of their sum: so R + R' is replaced by 2R. (add-remove: Delta = a x, tau = G/s, the
same. A person with j records: Delta has up to j terms on either side, |Delta| <= 2jG, and tau =
2jG/s counts the mean of their R, which is again replaced by R; L is that of all their records. A
quadratic term around a centre that a record moves adds one vector to Delta, whatever w is: along it
e is normal too, and its length counts like that of a x.)
Rounds that see released values only compose by adding the logarithms.

l2-Laplace noise
----------------
With e of density proportional to exp(-rate |e|) in R^D the loss at w is

    l = rate (|e - Delta| - |e|) + ln det H_D - ln det H_D'.

A norm lies above its tangents, and sqrt(r^2 + q) <= r + q/(2r), so

    -e.Delta/|e| <= |e - Delta| - |e| <= -e.Delta/|e| + |Delta|^2/(2|e|),

and the middle is within |Delta|. Delta is in the two records' directions as above, so that
|e.Delta|/|e| <= G (R + R'), where R is the length of the part of e/|e| in the k directions of one
record. e/|e| is uniform on the sphere and independent of |e|: R^2 ~ Beta(k/2, (D - k)/2), and
rate |e| ~ Gamma(D, 1) =: S. With rho = 2G rate (add-remove, G rate; a person of j records, j times
that), which bounds rate |Delta|,

    |l| <= B,       B = rho (R + R')/2 + min(rho, rho^2/(2S)) + L.

The rest is the argument above, given S: R + R' is replaced by 2R, and the mean over S comes last.
Noise that is added to a value is the case k = 1 and L = 0. What hides the solver's gap is a pure
release of its own. For a - 1 >= 1 psi(B) is the larger of the two, and below 1 psi(-B); both are
sums of exponentials of rho R, min(rho, rho^2/(2S)) and L, whose means are found one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import gammaincinv, gammaln

from tacenda._types import Floats
from tacenda.privacy.accounting.events import (
    CorrelatedGaussian,
    DiscreteGaussian,
    Event,
    Gaussian,
    L2Laplace,
    ObjectiveGaussian,
    ObjectiveLaplace,
    Pure,
)

# Excesses a - 1 of the Renyi orders at which a run is judged: every order is sound, the best counts
EXCESSES: Floats = np.exp(np.linspace(math.log(1e-2), math.log(1e5), 281))
LARGEST_TILT = 40.0  # max(a - 1, 1) tau; beyond it the divergence exceeds any epsilon of use
REACH = 12.0  # how far beyond the tilted mean is integrated, in standard deviations
PANELS, NODES = 32, 12
ROUNDING = 1e-10  # on the logarithm of every moment; quadrature and rounding err far less


def _rule() -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on PANELS equal parts of [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(NODES)
    left = np.arange(PANELS)[:, None]
    return ((left + (x + 1) / 2) / PANELS).reshape(-1), np.tile(w / (2 * PANELS), PANELS)


_UNIT_NODES, _UNIT_WEIGHTS = _rule()


@dataclass(frozen=True)
class RenyiProfile:
    """A composition known by its Renyi divergences at the orders 1 + EXCESSES."""

    divergences: tuple[float, ...]

    @cached_property
    def _terms(self) -> tuple[Floats, Floats]:
        known = np.asarray(self.divergences)
        kept = np.isfinite(known)
        return EXCESSES[kept], known[kept]

    def log_delta(self, epsilon: float) -> float:
        """The smallest over the orders a of (a - 1)(D_a - eps + ln((a - 1)/a)) - ln a."""
        excess, known = self._terms
        if not len(excess):
            return 0.0
        order = 1 + excess
        found = excess * (known - epsilon + np.log(excess / order)) - np.log(order)
        return min(float(found.min()), 0.0)

    def delta(self, epsilon: float) -> float:
        return math.exp(self.log_delta(epsilon))

    def epsilon(self, delta: float) -> float:
        if delta <= 0:
            return math.inf
        if delta >= 1:
            return 0.0
        excess, known = self._terms
        if not len(excess):
            return math.inf
        order = 1 + excess
        found = known + np.log(excess / order) - (math.log(delta) + np.log(order)) / excess
        return max(float(found.min()), 0.0)


def renyi_profile(events: Sequence[tuple[Event, int]]) -> RenyiProfile:
    """The composition of unsampled events, objectives with Gaussian noise among them."""
    total = np.zeros_like(EXCESSES)
    for event, count in events:
        total = total + count * _divergence(event)
    return RenyiProfile(tuple(total.tolist()))


def _divergence(event: Event) -> Floats:
    """D_a at every order; infinite where it is too large to be of use."""
    order = 1 + EXCESSES
    match event:
        case Gaussian() | CorrelatedGaussian():
            return order * event.mu**2 / 2
        case DiscreteGaussian():
            return order * event.rho
        case Pure():
            return _response(event.epsilon)
        case L2Laplace(epsilon=epsilon, dim=dim):
            added = np.array(_laplace_divergence(epsilon, 0.0, dim, 1))
            return np.minimum(added, _response(epsilon))
        case ObjectiveLaplace():
            inside = _laplace_divergence(event.inner, event.curvature, event.dim, event.directions)
            return np.minimum(np.array(inside) + _response(event.gap), _response(event.epsilon))
        case ObjectiveGaussian():
            return _objective(event) + order * event.gap_mu**2 / 2
    raise TypeError(f"no Renyi bound is known for {event}.")


def _response(epsilon: float) -> Floats:
    """Randomised response, which dominates every pure release:
    ln((p^a q^(1-a) + q^a p^(1-a)))/(a - 1), p = e^eps q."""
    log_p, log_q = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    order = 1 + EXCESSES
    both = np.logaddexp(order * log_p - EXCESSES * log_q, order * log_q - EXCESSES * log_p)
    return np.asarray(np.minimum(np.maximum(both, 0.0) / EXCESSES, epsilon))


def _objective(event: ObjectiveGaussian) -> Floats:
    key = (1 / event.noise_multiplier, event.curvature, event.directions)
    return np.asarray(_objective_divergence(*key))


@lru_cache(maxsize=4096)
def _objective_divergence(tau: float, curvature: float, directions: int) -> tuple[float, ...]:
    """ln E max(psi(B), psi(-B)) / (a - 1), B = tau R + tau^2/2 + curvature, R ~ chi."""
    found = np.full_like(EXCESSES, np.inf)
    # psi(B) grows like e^{(a - 1) B}, and psi(-B) like e^B: the steeper one says how far to go
    tilt = np.maximum(EXCESSES, 1.0) * tau
    useful = tilt < LARGEST_TILT
    a = EXCESSES[useful][:, None]
    if len(a):
        top = tilt[useful][:, None] + math.sqrt(directions) + REACH
        r, weight = top * _UNIT_NODES, top * _UNIT_WEIGHTS
        b = tau * r + tau * tau / 2 + curvature
        above = np.maximum(_log_above(a, b), _log_above(a, -b))  # ln(psi - 1)
        half = directions / 2
        log_density = (
            (1 - half) * math.log(2) - gammaln(half) + (directions - 1) * np.log(r) - r * r / 2
        )
        log_mean = np.logaddexp.reduce(above + log_density + np.log(weight), axis=1)
        found[useful] = np.logaddexp(0.0, log_mean + ROUNDING * (1 + np.abs(log_mean))) / a[:, 0]
    return tuple(found.tolist())


LARGEST_EXPONENT = 500.0  # of e in a moment; beyond it the divergence exceeds any epsilon of use


@lru_cache(maxsize=4096)
def _laplace_divergence(
    rho: float, curvature: float, dim: int, directions: int
) -> tuple[float, ...]:
    """ln E psi(+-B) / (a - 1), B = rho R + min(rho, rho^2/(2S)) + curvature."""
    found = np.full_like(EXCESSES, np.inf)
    steeper = np.maximum(EXCESSES, 1.0)
    useful = steeper * (2 * rho + curvature) < LARGEST_EXPONENT
    if dim <= directions or not useful.any():
        return tuple(found.tolist())
    a, steeper = EXCESSES[useful], steeper[useful]
    above_one = a >= 1
    up, down = np.where(above_one, a, -a), np.where(above_one, -1.0, 1.0)
    radius, chance = _radius(steeper * rho, dim, directions)
    s, mass = _inverse_norms(dim)
    # Without a linear part there is no offset either; 0 times the first cell's infinity is not one
    offset = np.minimum(rho, rho * rho * s) if rho > 0 else np.zeros_like(s)

    def less_one(power: Floats) -> Floats:
        """E exp(power B) - 1."""
        by_angle = np.sum(np.expm1(power[:, None] * rho * radius) * chance, axis=1)
        by_norm = np.expm1(power[:, None] * offset) @ mass
        return np.asarray(_joined(_joined(by_angle, by_norm), np.expm1(power * curvature)))

    one, other = less_one(up), a * less_one(down)
    error = 1e-14 * (np.abs(one) + np.abs(other))
    mean = np.maximum(one + other, 0.0) * (1 + ROUNDING) + error
    found[useful] = np.log1p(mean) / a
    return tuple(found.tolist())


def _joined(x: Floats, y: Floats) -> Floats:
    """(1 + x)(1 + y) - 1."""
    return x + y + x * y


def _radius(tilt: Floats, dim: int, directions: int) -> tuple[Floats, Floats]:
    """Nodes of R = sin t, shape (orders, nodes), and their chances: R^2 ~ Beta(k/2, (D - k)/2), up
    to where exp(tilt R) has no weight."""
    free = dim - directions
    spread = math.sqrt(max(free - 1, 1))
    top = np.arctan(tilt / spread**2) + (math.sqrt(directions) + REACH + 2) / spread
    t = np.minimum(top, math.pi / 2)[:, None] * _UNIT_NODES
    width = np.minimum(top, math.pi / 2)[:, None] * _UNIT_WEIGHTS
    log_density = (directions - 1) * np.log(np.sin(t)) + (free - 1) * np.log(np.cos(t))
    chance = np.exp(log_density - log_density.max(axis=1, keepdims=True)) * width
    # By their own sum: logarithms of Gamma functions lose digits in a million dimensions
    return np.sin(t), chance / chance.sum(axis=1, keepdims=True)


@lru_cache(maxsize=64)
def _inverse_norms(dim: int) -> tuple[Floats, Floats]:
    """1/(2S) with S ~ Gamma(dim, 1) in cells, each at its largest, and the cells' chances."""
    chances = np.concatenate(
        [np.geomspace(1e-30, 1e-2, 40), np.linspace(0.02, 0.98, 49), [0.99, 0.999, 0.9999, 1.0]]
    )
    low = np.concatenate([[0.0], gammaincinv(dim, chances[:-1])])
    with np.errstate(divide="ignore"):
        return 0.5 / low, np.diff(chances, prepend=0.0)


def _log_above(a: Floats, x: Floats) -> Floats:
    """ln(psi(x) - 1) = ln(e^{ax} - 1 + a (e^{-x} - 1)), from above where it would overflow."""
    up, down = a * x, -x
    small = (1 + a) * np.abs(x) < 1e-3
    series = a * (1 + a) / 2 * x**2 + a * (a**2 - 1) / 6 * x**3 + a * (a**3 + 1) / 24 * x**4
    plain = np.expm1(np.minimum(up, 600.0)) + a * np.expm1(np.minimum(down, 600.0))
    with np.errstate(divide="ignore"):
        exact = np.log(np.maximum(np.where(small, series, plain), 0.0))
    large = np.logaddexp(up, np.log(a) + down)
    return np.asarray(np.where(np.maximum(up, down) > 30, large, exact))
