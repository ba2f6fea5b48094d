"""Huang and Gong (2020), Theorem 7: the excess risk of IPADMM with feasibility violation.

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
    """Noise over sensitivity of Huang and Gong (2020): c0 sqrt(2 t l ln(1.25/delta)) / epsilon.

    Parameters
    ----------
    rounds : int
        t, at least 1.
    inner_steps : int
        l, at least 1.
    epsilon : float
        The claimed epsilon.
    delta : float
        The claimed delta.
    c0 : float, default=1.0
        The paper's constant.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> round(theory.published_multiplier(100, 10, 1.0, 1e-5), 1)
    153.2
    """
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
    """Excess risk and feasibility violation of IPADMM, Theorem 7 of Huang and Gong (2020).

    The right-hand side of (24), summed over the nodes.

    Parameters
    ----------
    rounds : int
        t, at least 1.
    inner_steps : int
        l, at least 1.
    dim : int
        d, the length of the model.
    sizes : array_like
        m_i, a number or (n,).
    degrees : array_like
        Neighbours of each node, a number or (n,).
    penalty : float
        rho.
    noise_multiplier : float
        z, 0 for no noise.
    diameter : float
        D of the set that holds the iterates.
    dual_bound : float, default=0.0
        beta, a bound on the dual variables.
    loss_slope : float, default=1.0
        c1, a bound on the gradient of the loss.
    objective_slope : float, default=1.0
        c2/n, a bound on the slope of one node's part of the objective (about 1 by section 5.4).

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> facts = {"dim": 10, "sizes": [1000] * 5, "degrees": 2, "penalty": 0.1, "diameter": 2.0}
    >>> quiet = theory.ipadmm_bound(100, 10, **facts, noise_multiplier=0.0)
    >>> quiet < theory.ipadmm_bound(100, 10, **facts, noise_multiplier=100.0)
    True
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
    """What is left of the bound of Huang and Gong (2020) after ever more rounds.

    At the paper's noise: sum_i 4 c0 c1 D sqrt(d ln(1.25/delta)) / (m_i epsilon).

    Parameters
    ----------
    dim : int
        d, the length of the model.
    sizes : array_like
        m_i, a number or (n,).
    epsilon : float
        The claimed epsilon.
    delta : float
        The claimed delta.
    diameter : float
        D of the set that holds the iterates.
    c0 : float, default=1.0
        The paper's constant.
    loss_slope : float, default=1.0
        c1, a bound on the gradient of the loss.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> facts = {"dim": 10, "sizes": [1000] * 5, "delta": 1e-5, "diameter": 2.0}
    >>> one = theory.ipadmm_bound_limit(**facts, epsilon=1.0)
    >>> round(one / theory.ipadmm_bound_limit(**facts, epsilon=2.0), 6)
    2.0
    """
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
