"""Gauthier et al. (2020): what CDP-ADMM's geometric variance costs in all, and what its convergence
for every R < 1 costs.

(12) and the corollary assume bounded subgradients and released values in (7). The variance of round
t is R^(t-1) times the first one's, so the last round's noise vanishes for every R < 1 and the
iterates converge; the level of round t is R^-(t-1) times the first one's, and has no limit.
"""

from __future__ import annotations

import math

from tacenda import checks
from tacenda.errors import InputError


def concentrated_total(first_level: float, *, variance_decay: float, rounds: int) -> float:
    """Total zCDP level of CDP-ADMM, by the corollary of Gauthier et al. (2020).

    phi = phi_1 (1 - R^T)/(R^(T-1) - R^T), at equal sensitivities in all rounds.

    Parameters
    ----------
    first_level : float
        phi_1, the level of the first round.
    variance_decay : float
        R, above 0 and at most 1.
    rounds : int
        T.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> round(theory.concentrated_total(0.1, variance_decay=0.5, rounds=3), 6)
    0.7
    """
    phi, t = checks.positive("first_level", first_level), checks.whole("rounds", rounds, least=1)
    r = _decay(variance_decay)
    try:
        return phi * (t if r == 1 else math.expm1(-t * math.log(r)) / (1 / r - 1))
    except OverflowError:
        return math.inf


def concentrated_epsilon(level: float, delta: float) -> float:
    """Epsilon that Gauthier et al. (2020) claim for a total zCDP level.

    epsilon = phi + 2 sqrt(phi ln(1/delta)), which is valid and loose.

    Parameters
    ----------
    level : float
        phi.
    delta : float
        Above 0 and below 1.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> round(theory.concentrated_epsilon(0.5, 1e-5), 3)
    5.299
    """
    phi = checks.positive("level", level, infinite=True)
    return phi + 2 * math.sqrt(phi * -math.log(checks.between("delta", delta, 0.0, 1.0)))


def concentrated_price(
    last_std: float, *, sensitivity: float, variance_decay: float, rounds: int
) -> float:
    """Total zCDP level of a run of CDP-ADMM whose last round has noise of a given size.

    phi = (s^2/(2 last_std^2)) (1 - R^T)/(1 - R). It is at least s^2/(2 last_std^2), that of the
    last round alone, for every R and T: the iterates converge for every R < 1, and no bounded
    level lets them come closer than noise of s/sqrt(2 phi).

    Parameters
    ----------
    last_std : float
        Standard deviation of the noise in round T.
    sensitivity : float
        s, of one release, (11).
    variance_decay : float
        R, above 0 and at most 1.
    rounds : int
        T.

    Examples
    --------
    >>> from tacenda_papers import theory
    >>> theory.concentrated_price(0.5, sensitivity=1.0, variance_decay=0.5, rounds=3)
    3.5
    """
    s, std = checks.positive("sensitivity", sensitivity), checks.positive("last_std", last_std)
    r, t = _decay(variance_decay), checks.whole("rounds", rounds, least=1)
    sums = t if r == 1 else -math.expm1(t * math.log(r)) / (1 - r)
    return (s / std) ** 2 / 2 * sums


def _decay(value: float) -> float:
    if checks.positive("variance_decay", value) > 1:
        raise InputError(f"variance_decay must be above 0 and at most 1, not {value!r}.")
    return float(value)
