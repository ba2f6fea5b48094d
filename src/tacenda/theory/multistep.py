"""HuangGong20 Theorem 7: the excess risk of IPADMM with feasibility violation.

Assumes: every loss convex and c1-Lipschitz (our G); the regularised objective c2-Lipschitz;
iterates in a set of diameter D; dual variables of norm at most beta; the learning rate (23); full
gradients, noise multiplier z the same in every step. Bounds

    E[ sum_i L_i(what_i) - L_i(w*) ] + beta sum_i sum_j |what_i - what_j|                       (21)
      <=  sum_i ( sqrt(2) D / sqrt(t l) * sqrt( c2^2/n^2 + d (2 c1 z / m_i)^2 )
                  + (rho deg_i D^2 + deg_i beta^2 / rho) / t )                                  (24)

The print has z = c0 sqrt(2 t l ln(1.25/delta))/epsilon; written in z the bound holds for any noise,
ours included.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tacenda import checks


def published_multiplier(
    rounds: int, inner_steps: int, epsilon: float, delta: float, c0: float = 1.0
) -> float:
    """z = c0 sqrt(2 t l ln(1.25/delta)) / epsilon, HuangGong20's noise over its sensitivity."""
    steps = checks.whole("rounds", rounds, least=1) * checks.whole(
        "inner_steps", inner_steps, least=1
    )
    log = math.log(1.25 / checks.between("delta", delta, 0.0, 1.0))
    return (
        checks.positive("c0", c0) * math.sqrt(2 * steps * log) / checks.positive("epsilon", epsilon)
    )


def ipadmm_bound(
    rounds: int,
    inner_steps: int,
    *,
    dim: int,
    sizes: ArrayLike,
    degrees: ArrayLike,
    penalty: float,
    noise_multiplier: float,
    diameter: float,
    dual_bound: float = 0.0,
    loss_slope: float = 1.0,
    objective_slope: float = 1.0,
) -> float:
    """The right-hand side of (24), summed over the nodes; sizes m_i and degrees are numbers or
    (n,).

    noise_multiplier: z, 0 for no noise. loss_slope: c1. objective_slope: c2/n, how steep
    one node's part of the objective is (about 1 by section 5.4). dual_bound: beta.
    """
    t = checks.whole("rounds", rounds, least=1)
    steps = rounds * checks.whole("inner_steps", inner_steps, least=1)
    m, deg = np.broadcast_arrays(np.asarray(sizes, float), np.asarray(degrees, float))
    m, deg = np.atleast_1d(m), np.atleast_1d(deg)
    rho, diam = checks.positive("penalty", penalty), checks.positive("diameter", diameter)
    spread = (
        dim
        * (2 * loss_slope * checks.positive("noise_multiplier", noise_multiplier, zero=True) / m)
        ** 2
    )
    steps_term = math.sqrt(2 / steps) * diam * np.sqrt(objective_slope**2 + spread)
    return float(np.sum(steps_term + (rho * deg * diam**2 + deg * dual_bound**2 / rho) / t))


def ipadmm_bound_limit(
    *,
    dim: int,
    sizes: ArrayLike,
    epsilon: float,
    delta: float,
    diameter: float,
    c0: float = 1.0,
    loss_slope: float = 1.0,
) -> float:
    """What is left of (24) after ever more rounds at the print's noise: sum_i 4 c0 c1 D sqrt(d
    ln(1.25/delta)) / (m_i epsilon)."""
    m = np.atleast_1d(np.asarray(sizes, float))
    log = math.log(1.25 / checks.between("delta", delta, 0.0, 1.0))
    return float(
        np.sum(
            4
            * c0
            * loss_slope
            * diameter
            * math.sqrt(dim * log)
            / (m * checks.positive("epsilon", epsilon))
        )
    )
