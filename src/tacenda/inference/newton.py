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

If H were 0 in j directions, the j-th smallest eigenvalue of H + E would be at most the largest of
E in these directions (Cauchy's interlacing), which `edge(j)` std bounds at 99 %. The directions up
to the last eigenvalue that does not exceed its edge are hidden: nothing shows that the records vary
there. They are left at w, as far from s as anybody can tell. With U the hidden directions, V and L
the seen ones and their eigenvalues, and u = U'(w - s), a combination r of coefficients is off by

    r'U u   and   r'V L^-1 V'EU u, of standard deviation (std/sqrt(2)) |r'V L^-1| |u|.

Where w is far from s (`far`; one round of least squares starts from 0), E also decides what is
seen: a direction a little above its edge is there because E raised it, and the step along it is too
short. With x the standard deviations above the edge, the noise's covariance takes the eigenvalue
min(2, 3/x) of them lower, the lower end of what it may be.

No release bounds |u|: where columns nearly follow from one another it can be any number. It is
*assumed* that u moves no allowed record's score by more than `hidden_score`. Intervals grow by the
length of the two terms (`spill`), and a row that would grow by more than MOST_SPILL has none.

Redundant directions v, of which the declarations say that x.v = 0 for every record (the indicators
of a category add up to the constant), are public. All of the above is done in what is left: with Q
an orthonormal basis of it, Q'EQ is noise of the same kind in fewer dimensions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tacenda._types import Array, Floats

LEAST = 1e-10  # of the largest eigenvalue, where there is no noise
MOST_SPILL = 1.5  # standard errors by which hidden directions may widen an interval to each side
ROUNDING = 1e-6  # share of a row that may be in redundant directions
TRACY_WIDOM = 2.0234  # 99 % quantile of the largest eigenvalue's law, real symmetric noise
# Where the point is far from the coefficients: by how many standard deviations an eigenvalue is
# lowered, at most and times its distance from its edge, and to what part of it at least
LOWERED, NEAR, LOWEST = 2.0, 3.0, 0.25
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
    far : bool
        Whether the point is far from the coefficients: then noise that makes an eigenvalue too
        large shortens the step, and a direction near its edge may be seen for that noise alone.
        Its eigenvalue is lowered in the noise's covariance, by `doubt`.
    hidden_score : float
        An assumption: what the point misses in hidden directions moves the score of no record
        that `data_norm` allows by more.

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
    far: bool = False
    hidden_score: float = 50.0


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
    redundant : ndarray
        Shape (d, r), orthonormal directions in which no record varies, by declaration.
    spill : ndarray
        Shape (d, m): a combination r of coefficients may be off by |r'spill| more, because of the
        directions that the noise hides.
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
    redundant: Floats
    spill: Floats
    directions: int
    short: float
    higher: float

    @property
    def seen(self) -> Array:
        """Which coefficients the noise leaves visible, shape (d,)."""
        error = np.sqrt(np.maximum(np.diag(self.sampling + self.noise), 0.0))
        return visible(np.eye(len(error)), error, self.redundant, self.spill)


def visible(rows: Floats, error: Floats, redundant: Floats, spill: Floats) -> Array:
    """Return which combinations (k, d) of coefficients, with their standard errors, can be told."""
    empty = np.linalg.norm(rows @ redundant, axis=1) <= ROUNDING * np.linalg.norm(rows, axis=1)
    return np.asarray(empty & (np.linalg.norm(rows @ spill, axis=1) <= MOST_SPILL * error))


def edge(j: Array) -> Floats:
    """Return the 99 % quantile of the largest eigenvalue of noise in j directions, for standard
    deviation 1 on the diagonal and 1/sqrt(2) beside it: the law of Tracy and Widom (1996), with
    2j - 1 for 2j, which a test finds right from j = 1 on."""
    j = np.asarray(j, float)
    return np.asarray(np.sqrt(2.0 * j - 1.0) + TRACY_WIDOM * j ** (-1 / 6) / math.sqrt(2.0))


def hidden_count(eigenvalues: Floats, needed: Floats) -> int:
    """Return how many of the ascending eigenvalues are hidden: all up to the last that does not
    exceed what it needs."""
    below = np.flatnonzero(eigenvalues <= needed)
    return int(below[-1]) + 1 if len(below) else 0


def doubt(above: Floats) -> Floats:
    """Return by how many standard deviations of the noise eigenvalues are lowered that many above
    their edges: two, at which noise of a lucky draw ends, and less far from the edge, where
    directions are seen whatever the noise is."""
    return np.minimum(LOWERED, NEAR / np.maximum(above, NEAR / LOWERED))


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
    least = max(LEAST * float(np.max(e, initial=0.0)), np.finfo(float).tiny)
    needed = np.maximum(edge(np.arange(1, d + 1)) * std, least)
    h = hidden_count(e, needed)
    v, seen = vectors[:, h:], e[h:]
    back = (v / seen) @ v.T
    spill = np.zeros((d, 0))
    if h:
        missed = found.hidden_score / found.data_norm
        spill = missed * np.hstack([vectors[:, :h], std / math.sqrt(2.0) * back])
    away = back @ found.gradient  # w - t
    # Twice: the size of the bias follows from what is left after it
    twice = 0.5 * std**2 * (np.trace(back) * back + back @ back)
    away = away - twice @ away
    plain = found.gradient_std**2 + 0.5 * std**2 * (away @ away)
    less = std * doubt((seen - needed[h:]) / std) if found.far and std else np.zeros(d - h)
    slow = (v / np.maximum(seen - less, LOWEST * seen)) @ v.T
    noise = slow @ (plain * np.eye(d) + 0.5 * std**2 * np.outer(away, away)) @ slow
    sampling = back @ positive(found.variance) @ back / n
    short = 1.0
    if h:
        short = float(np.max(needed[:h] / e[:h])) if e[0] > 0 else math.inf
    higher = _higher(found, away, noise, n)
    return Estimate(w - away, sampling, noise, np.zeros((d, 0)), spill, h, short, higher)


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
        redundant=redundant,
        spill=q @ made.spill,
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
