"""From a target (epsilon, delta) to the noise: exact for Gaussians, a bracketed root of the judged
curve otherwise.

Whatever is returned was evaluated and meets its target: rounding may cost noise, never privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import ndtri

from tacenda.checks import positive
from tacenda.errors import InputError, PrivacyError
from tacenda.privacy.accounting.curves import gaussian_log_delta
from tacenda.privacy.accounting.events import (
    CorrelatedGaussian,
    Events,
    Gaussian,
    L2Laplace,
    ObjectiveLaplace,
    Pure,
    PurePrivacy,
    merged,
    pure_sum,
)
from tacenda.privacy.accounting.judge import Curve, judge
from tacenda.privacy.accounting.pld import pld_profile
from tacenda.privacy.accounting.roots import brent

TOLERANCE = 1e-6  # relative, on the noise scale
SMALLEST, LARGEST = 1e-9, 1e12
# Accountants slow enough to look for the root on a coarse grid first
CONVOLVED = ("l2-laplace", "pld")
FLOOR = -800.0  # ln delta is cut here: below the smallest double


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu whose Gaussian-DP curve passes under (epsilon, delta).

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        Strictly between 0 and 1.

    Raises
    ------
    PrivacyError
        If delta is 0, which Gaussian noise cannot keep.

    Examples
    --------
    >>> from tacenda import accounting
    >>> round(accounting.gaussian_mu(1.0, 1e-5), 5)
    0.26805
    """
    eps, d = _check_target(epsilon, delta)
    if d == 0:
        raise PrivacyError(_no_delta("Gaussian noise"))
    target = math.log(d)
    q = -float(ndtri(d))
    low = 2 * eps / (q + math.sqrt(q * q + 2 * eps)) if q > 0 else -q + math.sqrt(q * q + 2 * eps)

    def gap(log_mu: float) -> float:
        return max(gaussian_log_delta(math.exp(log_mu), eps), FLOOR) - target

    low *= 1 - 1e-9  # Phi(-eps/mu + mu/2) = delta there, and delta(eps) lies below
    high = 2 * low
    while gap(math.log(high)) < 0:
        high *= 2
    mu = math.exp(brent(gap, math.log(low), math.log(high), xtol=1e-14, rtol=1e-14))
    # Beyond the rounding of ln delta, so that any later evaluation agrees
    mu, step = mu * (1 - 2e-13), 1e-15
    while math.exp(gaussian_log_delta(mu, eps)) > d:
        mu, step = mu * (1 - step), 2 * step
    return mu


def solve_scale(
    events_at: Callable[[float], Events],
    epsilon: float,
    delta: float,
    adjacency: str = "replace-one",
    hint: float | None = None,
) -> float:
    """The smallest noise scale k, to a relative 1e-6, whose events `events_at(k)` keep
    delta(epsilon) <= delta.

    A larger k must mean more noise for every event. `hint` is a guess of k, worth a few
    evaluations. delta = 0 asks for pure privacy, where epsilon is the sum over all events.
    """
    eps, d = _check_target(epsilon, delta)
    guess = 1.0 if hint is None else positive("hint", hint)
    sample = merged(events_at(guess))
    if not sample:
        raise InputError(
            "events_at must give at least one event that costs privacy, not none; "
            "without one no noise is needed."
        )
    if d == 0:
        if not all(isinstance(event, PurePrivacy) for event, _ in sample):
            raise PrivacyError(_no_delta("an event that is not pure"))
        return _root(lambda k: math.log(max(pure_sum(events_at(k)), 1e-300)) - math.log(eps), guess)
    if all(isinstance(event, Gaussian | CorrelatedGaussian) for event, _ in sample):
        return _gaussian_scale(events_at, gaussian_mu(eps, d), guess)

    def gap(k: float) -> float:
        return _log_over(judge(events_at(k), adjacency).delta(eps), d)

    start = guess if hint is not None else _first_guess(events_at, eps, d, guess)
    if judge(sample, adjacency).accountant not in CONVOLVED:
        return _root(gap, start)

    def rough(k: float) -> float:
        events = merged(events_at(k))
        if any(event.lossy for event, _ in events):
            return -math.log(d)
        return (
            _log_over(pld_profile(events, adjacency, coarseness=16).delta(eps), d)
            if events
            else FLOOR
        )

    return _root(gap, _root(rough, start, tolerance=1e-3), reach=1.002)


def _gaussian_scale(events_at: Callable[[float], Events], mu: float, guess: float) -> float:
    """All Gaussian: mu of the events is compared with the target's; one step where it is
    proportional to 1/k."""

    def gap(k: float) -> float:
        found = _mu(events_at(k))
        return math.log(found / mu) if found > 0 else FLOOR

    k = guess * math.exp(min(gap(guess), 600.0))
    if SMALLEST < k < LARGEST:
        for lift in (0.0, 1e-15, 1e-14, 1e-13):
            if -1e-12 < gap(k * (1 + lift)) <= 0:
                return k * (1 + lift)
    return _root(gap, guess)


def _mu(events: Events) -> float:
    curve: Curve = judge(events)
    if curve.mu is None:
        raise InputError(
            "events_at must give events of the same kinds at every scale, "
            "not Gaussians at some only."
        )
    return curve.mu


def _first_guess(
    events_at: Callable[[float], Events], eps: float, delta: float, start: float
) -> float:
    """From the closed forms: zCDP of everything,
    with sampled events counted at rate^2 (good for much noise)."""
    mu = gaussian_mu(eps, delta)
    for _ in range(4):  # where the events are proportional to 1/k one step is enough
        square = sum(count * _rough_mu(event) ** 2 for event, count in merged(events_at(start)))
        if not 0 < square < 1e12:
            return start
        start = min(max(start * math.sqrt(square) / mu, 1e-3), 1e6)
    return start


def _rough_mu(event: object) -> float:
    if isinstance(event, Pure):
        return event.epsilon
    if isinstance(event, L2Laplace):
        return event.epsilon / math.sqrt(event.dim)
    if isinstance(event, ObjectiveLaplace):
        return min(event.epsilon, event.inner / math.sqrt(event.dim) + event.curvature + event.gap)
    if isinstance(event, CorrelatedGaussian):
        return event.mu
    rate = getattr(event, "rate", None) or 1 / getattr(event, "population", 1)
    z = max(float(getattr(event, "noise_multiplier", 1.0)), 1e-6)
    return float(rate) * math.sqrt(math.expm1(min(1 / z**2, 20.0))) if rate < 1 else 1 / z


def _log_over(found: float, delta: float) -> float:
    return (math.log(found) if found > 0 else FLOOR) - math.log(delta)


def _root(
    gap: Callable[[float], float], guess: float, tolerance: float = TOLERANCE, reach: float = 1.1
) -> float:
    """The smallest k with gap(k) <= 0 for a falling gap:
    bracket, then regula falsi (Illinois) in ln k."""
    low, high, at_low, at_high = _bracket(gap, guess, reach)
    side = 0
    for _ in range(200):
        if high <= low * (1 + tolerance):
            return high
        x, y = math.log(low), math.log(high)
        middle = y - at_high * (y - x) / (at_high - at_low) if at_high < 0 else y
        edge = 0.4 * tolerance  # step just past the root, so that both ends close in
        middle = min(max(middle + edge if side <= 0 else middle - edge, x + edge), y - edge)
        if (y - x) > 1.0 and side != 0:
            middle = (x + y) / 2
        k = math.exp(middle)
        value = gap(k)
        if value > 0:
            low, at_low = k, value
            at_high = at_high / 2 if side == -1 else at_high
            side = -1
        else:
            high, at_high = k, value
            at_low = at_low / 2 if side == 1 else at_low
            side = 1
    return high


def _bracket(
    gap: Callable[[float], float], guess: float, factor: float
) -> tuple[float, float, float, float]:
    """Ends with gap(low) > 0 >= gap(high), walking out from the guess in growing steps."""
    k, value = guess, gap(guess)
    while True:
        upward = value > 0
        other = k * factor if upward else k / factor
        if not SMALLEST <= other <= LARGEST:
            break
        found = gap(other)
        if (found > 0) != upward:
            return (k, other, value, found) if upward else (other, k, found, value)
        k, value, factor = other, found, min(factor**2, 1e3)
    if value > 0:
        raise PrivacyError(
            f"no noise scale up to {LARGEST:g} meets the target, "
            "because part of the loss does not shrink with the noise; "
            "allow a larger epsilon or delta, or fewer releases."
        )
    raise InputError("the target is met with no noise at all; ask for a smaller epsilon or delta.")


def _check_target(epsilon: float, delta: float) -> tuple[float, float]:
    eps = positive("epsilon", epsilon)
    d = positive("delta", delta, zero=True)
    if d >= 1:
        raise InputError(
            f"delta must be below 1, not {delta!r}; a usual choice is 1e-5, "
            "well under 1 / (number of records)."
        )
    return eps, d


def _no_delta(what: str) -> str:
    return (
        f"delta must be above 0 for {what}, not 0; give a small delta such as 1e-5, "
        "or use pure noise (l2-Laplace)."
    )
