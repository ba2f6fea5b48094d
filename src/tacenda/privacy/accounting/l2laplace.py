"""The privacy loss of additive l2-Laplace noise, density proportional to exp(-a |e|) in R^d, unit
sensitivity.

With x drawn from the noise and the neighbour shifted by a unit vector u, the loss is L = a (|x - u|
- |x|), inside [-a, a]. Write r = |x| ~ Gamma(d, 1/a) and c for the cosine of the angle between x
  and u, (1 + c)/2 ~ Beta((d-1)/2,
(d-1)/2). For s in [-1, 1], |x - u| > r + s holds exactly if c < (1 - s^2)/(2r) - s, so

    P(L > a s) = P(r <= (1-s)/2) + integral over r > (1-s)/2 of gamma(r) I_{t(r)}((d-1)/2, (d-1)/2),
    t(r) = (1 - s)(1 + (1 + s)/(2r))/2,

one integral per point. Reflecting x -> u - x swaps the two laws, so the neighbour's P'(L > l) = P(L
< -l).

The full shift |u| = 1 is the worst one. exp(-a|x|) is a Gaussian whose variance is
Gamma((d+1)/2)-distributed (its Fourier transform is (1 + |t|^2/a^2)^{-(d+1)/2}), and a Gamma law is
self-decomposable: for b < a, noise of rate b is noise of rate a plus an independent variable. A
shift by less than 1 is, after scaling, a unit shift under a rate b < a: it is post-processing of
the full shift, and loses less at every epsilon.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import betainc, gammainc, gammaincc, gammainccinv, gammaincinv, gammaln

from tacenda._types import Floats

# Quadrature points; the plane's root singularity needs more for the same 1e-13
NODES, NODES_PLANE = 56, 112
NEGLIGIBLE = 1e-30  # a cell's mass below which it is joined to the worse side
TAIL = 1e-22  # mass of r outside the quadrature; added back to the infinite loss


def loss_above(epsilon: float, dim: int, losses: Floats) -> Floats:
    """P(L > loss) for each of `losses`, right relative to itself down to about 1e-18."""
    s = np.asarray(losses, dtype=float) / epsilon
    inside = np.clip(s, -1.0, 1.0)
    # d = 1: |x - 1| - |x| > s exactly if x < (1 - s)/2, for s in [-1, 1)
    law = (
        1 - np.exp(-epsilon * (1 - inside) / 2) / 2
        if dim == 1
        else _radial(epsilon, dim, inside, above=True)
    )
    return np.where(s >= 1, 0.0, np.where(s < -1, 1.0, law))


def loss_below(epsilon: float, dim: int, losses: Floats) -> Floats:
    """P(L < loss), as accurately."""
    s = np.asarray(losses, dtype=float) / epsilon
    inside = np.clip(s, -1.0, 1.0)
    law = (
        np.exp(-epsilon * (1 - inside) / 2) / 2
        if dim == 1
        else _radial(epsilon, dim, inside, above=False)
    )
    return np.where(s <= -1, 0.0, np.where(s > 1, 1.0, law))


def l2_laplace_pmf(epsilon: float, dim: int, step: float) -> Any:
    """dp-accounting's pmf of L on the grid `step * integers`, rounded so that loss only grows.

    The mass p of a cell (with neighbour's mass p') goes to the cell's two ends so that both p and
    p' are kept: the profile is then exact at grid points and a chord, which lies above it, between
    them.
    """
    from dp_accounting.pld import pld_pmf

    # in many dimensions the loss has Gaussian tails:
    # what lies beyond 10.5 deviations becomes infinite loss
    reach = epsilon if dim < 40 else min(epsilon, 10.5 * epsilon / math.sqrt(dim))
    top = math.ceil(reach / step)
    grid = np.asarray(np.arange(-top, top + 1) * step, dtype=np.float64)
    # tails that are small themselves, so that the far cells' masses are right relative to
    # themselves; P(L = 0) = 0
    above, below = loss_above(epsilon, dim, grid[top:]), loss_below(epsilon, dim, grid[: top + 1])
    mass = np.maximum(np.concatenate([np.diff(below), -np.diff(above)]), 0.0)
    other = mass[::-1]  # the neighbour's mass of a cell is ours of the mirrored cell
    scaled = other * np.exp(grid[:-1]) - mass * math.exp(-step)
    left = np.clip(scaled / -math.expm1(-step), 0.0, mass)
    probabilities = np.append(left, 0.0)
    probabilities[1:] += mass - left
    probabilities[0] += below[0]  # losses below the grid are raised to it
    kept = np.flatnonzero(probabilities > NEGLIGIBLE)
    first, last = int(kept[0]), int(kept[-1])
    probabilities[first] += probabilities[:first].sum()
    lost = float(above[-1] + probabilities[last + 1 :].sum()) + TAIL
    finite = {k - top: float(probabilities[k]) for k in range(first, last + 1)}
    lost += max(1.0 - sum(finite.values()) - lost, 0.0)  # what rounding took away
    return pld_pmf.create_pmf(finite, step, lost, pessimistic_estimate=True)


def _radial(epsilon: float, dim: int, s: Floats, above: bool) -> Floats:
    """d > 1, by Gauss-Legendre in t with r = kink + t^2, which takes away the root singularity that
    d = 2 has."""
    a, half = epsilon, (dim - 1) / 2
    kink = (1 - s) / 2
    start = np.maximum(kink, float(gammaincinv(dim, TAIL)) / a)
    reach = np.maximum(float(gammainccinv(dim, TAIL)) / a, start)
    nodes, weights = np.polynomial.legendre.leggauss(NODES_PLANE if dim == 2 else NODES)
    low, high = np.sqrt(start - kink), np.sqrt(reach - kink)
    t = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * nodes
    r = kink[:, None] + t * t
    density = np.exp((dim - 1) * np.log(a * r) - a * r - float(gammaln(dim))) * a
    w = density * 2 * t * weights * (high - low)[:, None] / 2
    # the exponent of the density rounds alike at all r (1e-11 at d = 10^4): scaling to the known
    # mass of r takes it away
    known, found = gammaincc(dim, a * start) - gammaincc(dim, a * reach), np.sum(w, axis=1)
    w *= np.where(known > 1e-6, known / np.maximum(found, 1e-300), 1.0)[:, None]
    side = s[:, None]
    if above:
        share = np.clip((1 - side) * (1 + (1 + side) / (2 * r)) / 2, 0.0, 1.0)
        total = gammainc(dim, a * kink) + np.sum(w * betainc(half, half, share), axis=1)
    else:
        share = np.clip((1 + side) * (1 - (1 - side) / (2 * r)) / 2, 0.0, 1.0)
        total = np.sum(w * betainc(half, half, share), axis=1)
    return np.asarray(np.minimum(total, 1.0), dtype=np.float64)
