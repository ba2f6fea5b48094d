"""From released sums at a public model to coefficients with their covariance: pure functions.

At a public point w the records' mean loss has the gradient g, the curvature H (d, d) and the second
moment V (d, d) of the records' gradients. What is released is g + a, H + E, V + F with Gaussian
noise of known size. One Newton step

    t = w - (H + E)^-1 (g + a)

estimates the coefficients t* at which the mean loss of the *population* is least: without the
regulariser, and whatever algorithm w came from (one-step estimator, Le Cam 1956; van der Vaart
1998, section 5.7). Around the minimiser s of the sample, for a quadratic loss exactly,

    t - s = (H + E)^-1 (E (w - s) - a)                                       privacy noise
    s - t* ~ N(0, H^-1 V H^-1 / n)                                           sampling

E u has the covariance (std^2/2)(|u|^2 I + u u') for noise of standard deviation std on the diagonal
and std/sqrt(2) beside it, and E (H + E)^-1 E has the mean (std^2/2)(tr(H^-1) I + H^-1) to second
order: that bias of t is taken off.

Directions in which the noise hides the curvature (eigenvalues below EDGES times the noise's edge
sqrt(2 d) std) are left at w; a coefficient that lies in them by more than LEAK has no interval.

Redundant directions v, of which the declarations say that x.v = 0 for every record (the indicators
of a category add up to the constant), are public. All of the above is done in what is left: with Q
an orthonormal basis of it, Q'EQ is noise of the same kind in fewer dimensions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tacenda._types import Array, Floats

EDGES = 0.5  # least eigenvalue that counts as seen, in units of the noise's edge
LEAST = 1e-10  # of the largest eigenvalue, where there is no noise
LEAK = 0.05  # largest length of a coefficient's unit vector in the hidden directions
LOWEST = 0.25  # of an eigenvalue that is lowered
HIGHER = math.sqrt(3.0) / 2  # of the remainder of a Newton step, for scores of normal shape


@dataclass(frozen=True, eq=False)
class Information:
    """What was released at a public point.

    Parameters
    ----------
    point : ndarray
        Shape (d,), the public model w.
    gradient : ndarray
        Shape (d,), of the mean loss at w, with noise of `gradient_std`.
    curvature : ndarray
        Shape (d, d), of the mean loss at w, with noise of `curvature_std` on the diagonal and
        1/sqrt(2) of it beside the diagonal.
    variance : ndarray
        Shape (d, d), the mean of the records' gradients times their transposes.
    records : float
        How many records the means are over; for means of nodes' means, how many records taken
        together would vary as much.
    gradient_std : float
        Standard deviation of the gradient's noise.
    curvature_std : float
        That of the curvature's.
    data_norm : float
        Largest norm of a record's features.
    redundant : ndarray or None
        Shape (r, d), public directions in which no record varies from 0.
    lowered : float
        By how many times `curvature_std` eigenvalues are lowered in the covariance. Where the point
        is far from the coefficients, noise that makes an eigenvalue too large shortens both the
        step and its error.

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.inference import Information, one_step
    >>> found = Information(np.zeros(1), -np.ones(1), 2 * np.eye(1), np.eye(1), 100)
    >>> one_step(found).values
    array([0.5])
    """

    point: Floats
    gradient: Floats
    curvature: Floats
    variance: Floats
    records: float
    gradient_std: float = 0.0
    curvature_std: float = 0.0
    data_norm: float = 1.0
    redundant: Floats | None = None
    lowered: float = 0.0


@dataclass(frozen=True, eq=False)
class Estimate:
    """Coefficients and how far they may be off.

    Parameters
    ----------
    values : ndarray
        Shape (d,), the coefficients.
    sampling : ndarray
        Shape (d, d), their covariance by the choice of records.
    noise : ndarray
        Shape (d, d), their covariance by the privacy noise.
    hidden : ndarray
        Shape (d, h), orthonormal directions about which nothing is known: those that the noise
        hides, and redundant ones.
    directions : int
        In how many directions the noise hides the curvature, the redundant ones not counted.
    short : float
        By how much the noise would have to be smaller for all directions to be seen; 1 where they
        are.
    higher : float
        Bound of the terms of higher order that one Newton step leaves, in standard errors, for
        losses whose third derivative is at most their second.

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.inference import Information, one_step
    >>> one_step(Information(np.zeros(1), np.zeros(1), np.eye(1), np.eye(1), 100)).sampling
    array([[0.01]])
    """

    values: Floats
    sampling: Floats
    noise: Floats
    hidden: Floats
    directions: int
    short: float
    higher: float

    @property
    def seen(self) -> Array:
        """Which coefficients the noise leaves visible, shape (d,)."""
        return visible(self.hidden)


def visible(hidden: Floats, rows: Floats | None = None, leak: float = LEAK) -> Array:
    """Return which linear combinations of coefficients can be told.

    Parameters
    ----------
    hidden : ndarray
        Shape (d, h), orthonormal directions about which nothing is known.
    rows : ndarray or None, default=None
        Shape (k, d), the combinations; None: each coefficient by itself.
    leak : float, default=LEAK
        Largest share of a combination's length that may be hidden.

    Returns
    -------
    ndarray
        Shape (k,), True where no more of the combination's length is hidden.
    """
    rows = np.eye(len(hidden)) if rows is None else rows
    lengths = np.linalg.norm(rows, axis=1)
    return np.asarray(np.linalg.norm(rows @ hidden, axis=1) <= leak * lengths)


def identifiable(redundant: Floats | None, d: int) -> tuple[Floats, Floats]:
    """Return orthonormal bases (d, d - r) of what records can tell, and (d, r) of the redundant
    directions."""
    if redundant is None or not len(redundant):
        return np.eye(d), np.zeros((d, 0))
    u, s, _ = np.linalg.svd(np.asarray(redundant, float).T, full_matrices=True)
    rank = int(np.sum(s > 1e-9 * s.max(initial=0.0)))
    return u[:, rank:], u[:, :rank]


def one_step(found: Information) -> Estimate:
    """Make one Newton step from the point, and say how far it may be off.

    Parameters
    ----------
    found : Information
        What was released.

    Returns
    -------
    Estimate
        Coefficients, the two parts of their covariance, and where they cannot be told.

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.inference import Information, one_step
    >>> noisy = Information(
    ...     np.zeros(1), np.zeros(1), np.eye(1), np.eye(1), 100, gradient_std=0.1
    ... )
    >>> one_step(noisy).noise
    array([[0.01]])
    """
    w, std, n = np.asarray(found.point, float), found.curvature_std, max(found.records, 1.0)
    d = len(w)
    if found.redundant is not None:
        return _in_the_rest(found, *identifiable(found.redundant, d))
    e, vectors = np.linalg.eigh((found.curvature + found.curvature.T) / 2)
    edge = math.sqrt(2.0 * d) * std
    needed = max(EDGES * edge, LEAST * float(np.max(e, initial=0.0)), np.finfo(float).tiny)
    seen = e > needed
    v = vectors[:, seen]
    back = (v / e[seen]) @ v.T
    away = back @ found.gradient  # w - t
    # Twice: the size of the bias follows from what is left after it
    twice = 0.5 * std**2 * (np.trace(back) * back + back @ back)
    away = away - twice @ away
    moved = away
    if found.lowered:
        back = (v / np.maximum(e[seen] - found.lowered * std, LOWEST * e[seen])) @ v.T
        moved = back @ found.gradient
    plain = found.gradient_std**2 + 0.5 * std**2 * (moved @ moved)
    noise = back @ (plain * np.eye(d) + 0.5 * std**2 * np.outer(moved, moved)) @ back
    sampling = back @ positive(found.variance) @ back / n
    least = float(e.min(initial=math.inf))
    short = 1.0 if seen.all() else (EDGES * edge / least if least > 0 else math.inf)
    return Estimate(
        w - away,
        sampling,
        noise,
        vectors[:, ~seen],
        int(np.sum(~seen)),
        short,
        _higher(found, away, noise, n),
    )


def _in_the_rest(found: Information, q: Floats, redundant: Floats) -> Estimate:
    """Return the step in the span of q (d, k), where the records are, as one in all coordinates."""
    w = np.asarray(found.point, float)
    made = one_step(
        replace(
            found,
            point=q.T @ w,
            gradient=q.T @ found.gradient,
            curvature=q.T @ found.curvature @ q,
            variance=q.T @ found.variance @ q,
            redundant=None,
        )
    )
    return replace(
        made,
        values=w + q @ (made.values - q.T @ w),
        sampling=q @ made.sampling @ q.T,
        noise=q @ made.noise @ q.T,
        hidden=np.hstack([redundant, q @ made.hidden]),
    )


def positive(matrix: Floats) -> Floats:
    """The nearest symmetric matrix without negative eigenvalues."""
    e, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(e, 0.0)) @ vectors.T)


def _higher(found: Information, away: Floats, noise: Floats, n: float) -> float:
    """sqrt(n) (sqrt(3)/2) u'Hu / sqrt(c): with |l'''| <= l'' and by Cauchy and Schwarz the
    remainder of a coefficient is at most half the root of mean(l'' (x'u)^4) (H^-1)_jj, and its
    standard error at least that of (H^-1)_jj / n; u = w - s without what noise adds to it, c = mean
    of l'', at least tr(H) / data_norm^2."""
    moved = float(away @ found.curvature @ away) - float(np.sum(found.curvature * noise))
    bent = max(float(np.trace(found.curvature)) / found.data_norm**2, np.finfo(float).tiny)
    return math.sqrt(n) * HIGHER * max(moved, 0.0) / math.sqrt(bent)
