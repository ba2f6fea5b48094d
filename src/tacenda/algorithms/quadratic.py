"""From a released second moment to a quadratic form, and from that to models: pure functions.

M = V diag(e) V'                                                  (released)
q = cleaned(e) + half the noise's edge                            (`curvature`)
w -> (1/2)(w - centre)' Q (w - centre) + r R(w),  Q = V diag(q) V'  (`Quadratic`)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from tacenda import checks
from tacenda._types import Floats, Ints
from tacenda.errors import InputError
from tacenda.regularisers import Regulariser

SHORT = 0.5  # expected norm of a whitened row: gradients are clipped at as much of their clip_norm
RIDGE = 0.5  # added to the curvature, in units of the noise's edge
LEAST = 1e-12  # of the largest eigenvalue, where the noise asks for less
TOLERANCE = 1e-10  # duality gap of the coordinate descent, relative
MOST_SWEEPS = 100_000


def cleaned(eigenvalues: Floats, std: float) -> Floats:
    """(d,) what each eigenvector of a noisy symmetric matrix sees of the true one, v'Av.

    The noise has standard deviation std on the diagonal and std/sqrt(2) beside it. Eigenvalues
    repel each other as the noise spreads them, and for large d

        v_k'A v_k  ~  e_k - 2 s (1/d) sum_j (e_k - e_j)/((e_k - e_j)^2 + eta^2),   s = d std^2/2

    (eta, a smoothing of the size of the entries' noise); never below 0.
    """
    d = len(eigenvalues)
    apart = eigenvalues[:, None] - eigenvalues[None, :]
    repelled = (apart / np.maximum(apart**2 + 2 * std**2, np.finfo(float).tiny)).sum(axis=1)
    return np.asarray(np.maximum(eigenvalues - std**2 * repelled, 0.0)) if d else eigenvalues


def ridge_of(d: int, std: float) -> float:
    """Half the edge sqrt(2 d) std of the noise of a symmetric matrix."""
    return RIDGE * math.sqrt(2.0 * d) * std


def curvature(eigenvalues: Floats, std: float) -> Floats:
    """(d,) q: the cleaned eigenvalues plus half the edge sqrt(2 d) std of the noise.

    So no direction that the noise may have made counts as flat, and none as steeper than it is by
    more than the noise can hide.
    """
    d = len(eigenvalues)
    least = LEAST * float(np.max(eigenvalues, initial=0.0))
    ridge = max(ridge_of(d, std), least, float(np.finfo(float).tiny) ** 0.5)
    return cleaned(eigenvalues, std) + ridge


@dataclass(frozen=True, eq=False)
class Quadratic:
    """(1/2)(w - centre)' V diag(q) V' (w - centre): vectors (d, d) V, values (d,) q, centre (d,);
    spread (d,): the variance that noise has given the centre along each of the vectors, and noise
    (1,): the standard deviation on the moment's diagonal, if known.

    All of it is released, or follows from what is.
    """

    vectors: Floats
    values: Floats
    centre: Floats
    spread: Floats | None = None
    noise: Floats | None = None

    def times(self, row: Floats, factors: Floats) -> Floats:
        """(d,) V diag(factors) V' row; sums in one fixed order, whoever computes them."""
        along = (self.vectors * row[:, None]).sum(axis=0)
        return np.asarray((self.vectors * (factors * along)).sum(axis=1))

    def columns(self, std: float, loss_scale: float) -> Floats:
        """(d,) the lengths p = size/sqrt(q) of the columns of a map P = V diag(p) that whitens rows
        to an expected norm of SHORT; std is that of the form.

        In coordinates v with w = P v the loss bends by at most size^2, in nearly all directions
        alike, and so a step there is as long as it may be wherever it leads.
        """
        ridge = ridge_of(len(self.values), std)
        seen = math.fsum(np.maximum(1.0 - ridge / self.values, 0.0))  # of the rows' moment over q
        size = SHORT * math.sqrt(loss_scale / max(seen, LEAST))
        return np.asarray(size / np.sqrt(self.values))

    def solve(self, regulariser: Regulariser, strength: float) -> Floats:
        """(d,) argmin of the form plus strength * R(w); zeros of an l1 part are zeros."""
        return self.path(regulariser, [strength])[0]

    def path(self, regulariser: Regulariser, strengths: Sequence[float]) -> Floats:
        """(k, d) the minimisers for each strength, in the order of the strengths."""
        found = np.empty((len(strengths), len(self.centre)))
        l1, l2 = float(regulariser.l1), float(regulariser.l2)
        for k, strength in enumerate(strengths):
            r = checks.positive("strength", strength, zero=True)
            if r * l1 == 0:
                found[k] = self.times(self.centre, self.values / (self.values + r * l2))
            else:
                found[k] = self._by_coordinates(r * l1, r * l2)
        return found

    def forecast_risk(self, model: Floats, l2: float) -> float:
        """Stein's unbiased estimate of E (w - w*)' H (w - w*), H the form without its ridge and w*
        the centre without its noise, for a minimiser w = `model` with an l1 part and (l2/2)|w|^2.
        It may be negative.

        With y = centre, y ~ N(w*, S): |w - y|_H^2 - tr(H S) + 2 tr(H J S), and on the support A of
        w the minimiser has the Jacobian J_A = (Q_AA + l2)^-1 Q_A.
        """
        if self.spread is None or self.noise is None:
            raise InputError("forecast_risk needs spread and noise; pass a released form.")
        seen = np.maximum(self.values - ridge_of(len(self.values), float(self.noise[0])), 0.0)
        away = (self.vectors * (model - self.centre)[:, None]).sum(axis=0)
        found = float(np.sum(seen * (away**2 - self.spread)))
        support = np.flatnonzero(model)
        if len(support):
            rows = self.vectors[support]
            inner = (rows * self.values) @ rows.T
            inner[np.diag_indices_from(inner)] += l2
            jacobian = np.linalg.solve(inner, rows * self.values)  # of w_A, along the vectors
            found += 2.0 * float(np.sum(jacobian * (rows * seen * self.spread)))
        return found

    def on_support(self, support: Ints, l1: float, l2: float) -> Floats:
        """(d,) the minimiser with l1 |w|_1 + (l2/2)|w|^2 whose other weights are 0."""
        found = np.zeros(len(self.centre))
        if len(support):
            found[support] = self._by_coordinates(l1, l2, support)
        return found

    def _by_coordinates(self, l1: float, l2: float, support: Ints | None = None) -> Floats:
        """The same with l1 |w|_1 + (l2/2)|w|^2, by scikit-learn's coordinate descent on the Gram
        matrix; over the weights of the support alone, if given."""
        from sklearn.linear_model import enet_path

        d = len(self.centre)
        root = np.sqrt(d * self.values)[:, None] * self.vectors.T  # its Gram matrix is d Q
        target = np.sqrt(d * self.values) * (self.vectors * self.centre[:, None]).sum(axis=0)
        root = root if support is None else root[:, support]
        _, found, _ = enet_path(
            np.asfortranarray(root),
            target,
            l1_ratio=l1 / (l1 + l2),
            alphas=[l1 + l2],
            tol=TOLERANCE,
            precompute=True,
            max_iter=MOST_SWEEPS,
        )
        return np.asarray(found[:, 0])


def of_moment(moment: Floats, std: float, label_scale: float = 0.0) -> Quadratic:
    """The form of a released second moment of x, with centre 0; or of (x, label_scale y), with the
    centre where least squares is solved: V diag(1/q) V' (mean of x y)."""
    from tacenda.questions.kernels.eigen import eigen  # here: it loads the compiler

    width = len(moment) - (label_scale > 0)
    e, vectors = eigen(np.ascontiguousarray(moment[:width, :width]))
    form = Quadratic(vectors, curvature(e, std), np.zeros(width))
    if label_scale == 0:
        return form
    return replace(form, centre=form.times(moment[:width, width] / label_scale, 1 / form.values))


def of_released(released: Mapping[str, Floats]) -> Quadratic:
    """The form that a run of `MomentRegression` left in `RunResult.released`."""
    return Quadratic(**{f.name: released[f.name] for f in fields(Quadratic)})
