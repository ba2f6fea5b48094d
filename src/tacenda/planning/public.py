"""What a public sample tells of a problem, and what it leaves open: a posterior of the truth.

A sample of a few thousand records has an optimum of its own, overfitted by d/(2N); to plan with it
would forecast that overfit. So the sample is read as evidence: scores s = x.w with w ~ N(0,
I/lambda), labels as in `data.stand_in`, Laplace's approximation

    w | sample ~ N(mode, H^-1),     H = sum_j x_j x_j' (x) curvature_j + lambda I,

with the lambda of the largest evidence: the least of cost(mode) + lambda/2 |mode|^2 + ln det(H)/2 -
d/2 ln lambda. (A regression with noise of variance v has lambda in units of 1/v; v = 2 cost/N takes
its best value, and N/2 ln cost stands for the cost.) Each trial of a prediction draws its own
truth, so that the range of a prediction also holds what the sample cannot know.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.data.features import is_sparse, scale_rows
from tacenda.errors import InputError
from tacenda.questions.constants import Constants

MOST_ENTRIES = 3000  # of the model: beyond, H is too large to factor
WEIGHTS = (math.log(1e-5), math.log(1e4))  # ln lambda is sought between these
NEWTON = 50
LEAST_COUNT = 0.25  # in the unit of the labels: a count of 0 has no logarithm


@dataclass(frozen=True, eq=False)
class PublicSample:
    """Rows X (N, p) within the norm bound, mode (d,) and root L (d, d) of the precision H = L L^T,
    noise of a regression."""

    X: Any
    mode: Array
    precision_root: Array
    noise_std: float

    @classmethod
    def of(cls, public: Any, constants: Constants, dim: int) -> PublicSample:
        """From (X, y) with as many features as the problem;
        labels are any two values, K values, or numbers."""
        X, y = _checked(public, constants, dim)
        if math.isfinite(constants.loss.label_range[1]):
            y = np.log(np.maximum(y, LEAST_COUNT))  # scores of counts are logarithms of a rate
        mode, precision, noise_std = _fit(X, y, constants.loss.kind, dim)
        return cls(X, mode, np.linalg.cholesky(precision), noise_std)


def _checked(public: Any, k: Constants, dim: int) -> tuple[Any, Array]:
    try:
        X, y = public
    except (TypeError, ValueError):
        raise InputError(
            f"public must be a pair (X, y) of arrays, not {type(public).__name__}."
        ) from None
    p = dim // k.n_outputs
    X = X.tocsr() if is_sparse(X) else np.asarray(X, float)
    if X.ndim != 2 or X.shape[1] != p or X.shape[0] != len(y) or len(y) < 10:
        raise InputError(
            f"public must hold X of shape (N, {p}) and N labels, N at least 10, "
            f"not {X.shape} and {len(y)}."
        )
    if dim > MOST_ENTRIES:
        raise InputError(
            f"public serves models of at most {MOST_ENTRIES} entries, and this one has {dim}; "
            "leave it out, and generated data is used."
        )
    labels = np.asarray(y)
    if k.loss.kind == "regression":
        return scale_rows(X, k.data_norm), labels.astype(float)
    wanted = max(2, k.n_outputs)
    names, codes = np.unique(labels, return_inverse=True)
    if len(names) != wanted:
        raise InputError(
            f"public must show all {wanted} classes, but its labels have {len(names)}; "
            "take a larger sample."
        )
    return scale_rows(X, k.data_norm), codes


def _fit(X: Any, y: Array, kind: str, dim: int) -> tuple[Array, Array, float]:
    """(mode (d,), precision H (d, d), noise_std) at the lambda of the largest evidence."""
    from scipy.optimize import minimize_scalar

    start = np.zeros(dim)

    def surprise(log_weight: float) -> float:
        nonlocal start
        weight = math.exp(log_weight)
        start, precision = _mode(X, y, kind, start, weight)
        cost = _cost(np.asarray(X @ start.reshape(-1, X.shape[1]).T), y, kind) + weight / 2 * float(
            start @ start
        )
        misfit = cost if kind != "regression" else len(y) / 2 * math.log(max(cost, 1e-300))
        return misfit + float(np.linalg.slogdet(precision)[1]) / 2 - dim / 2 * log_weight

    found: Any = minimize_scalar(
        surprise, bounds=WEIGHTS, method="bounded", options={"xatol": 0.05}
    )
    weight = math.exp(float(found.x))
    w, precision = _mode(X, y, kind, start, weight)
    if kind != "regression":
        return w, precision, 0.0
    rest = np.asarray(X @ w) - y
    variance = max((float(rest @ rest) + weight * float(w @ w)) / len(y), 1e-24)
    return w, precision / variance, math.sqrt(variance)


def _mode(X: Any, y: Array, kind: str, w: Array, weight: float) -> tuple[Array, Array]:
    """Newton's method for sum_j -ln P(y_j | x_j.w) + weight/2 |w|^2: (mode, its Hessian)."""
    p = X.shape[1]
    outputs, value = len(w) // p, math.inf
    step = np.zeros_like(w)
    for _ in range(NEWTON):
        trial = w - step
        scores = np.asarray(X @ trial.reshape(outputs, p).T)
        cost = _cost(scores, y, kind) + weight / 2 * float(trial @ trial)
        if cost > value + 1e-9 * abs(value) and np.abs(step).max() > 1e-8:
            step = step / 2
            continue
        w, value = trial, cost
        slope, curvature = _bends(scores, y, kind)
        gradient = np.asarray(X.T @ slope).T.ravel() + weight * w
        hessian = _hessian(X, curvature) + weight * np.eye(len(w))
        step = np.linalg.solve(hessian, gradient)
        if float(gradient @ step) < 1e-8 * max(1.0, abs(value)):
            break
    return w, hessian


def _cost(scores: Array, y: Array, kind: str) -> float:
    if kind == "regression":
        return float(np.sum((scores[:, 0] - y) ** 2)) / 2
    if kind == "binary":
        return float(np.sum(np.logaddexp(0.0, np.where(y > 0, -scores[:, 0], scores[:, 0]))))
    from scipy.special import logsumexp

    return float(np.sum(logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]))


def _bends(scores: Array, y: Array, kind: str) -> tuple[Array, Array]:
    """(slope (N, K), curvature (N, K, K)) of each record's -ln P in its scores."""
    from scipy.special import expit, softmax

    if kind == "regression":
        return scores - y[:, None], np.ones((len(y), 1, 1))
    if kind == "binary":
        chance = expit(scores)
        return chance - y[:, None], (chance * (1 - chance))[:, :, None]
    chance = softmax(scores, axis=1)
    curvature = -chance[:, :, None] * chance[:, None, :]
    every = np.arange(chance.shape[1])
    curvature[:, every, every] += chance
    chance[np.arange(len(y)), y] -= 1.0
    return chance, curvature


def _hessian(X: Any, curvature: Array) -> Array:
    """sum_j curvature_j (x) x_j x_j', (K p, K p)."""
    p, outputs = X.shape[1], curvature.shape[1]
    found = np.empty((outputs * p, outputs * p))
    for a in range(outputs):
        for b in range(a + 1):
            bent = (
                X.multiply(curvature[:, a, b][:, None]).tocsr()
                if is_sparse(X)
                else X * curvature[:, a, b][:, None]
            )
            block = X.T @ bent
            block = block.toarray() if is_sparse(block) else block
            found[a * p : (a + 1) * p, b * p : (b + 1) * p] = block
            found[b * p : (b + 1) * p, a * p : (a + 1) * p] = block.T
    return found
