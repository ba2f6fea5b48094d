"""Generated sets of records, for `benchmarks.strengths`, `limits` and `forecasts`: rare classes,
heavy tails, many correlated or sparse columns, small, easy and hard ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.first_day import Records


def _labels(rng: Any, score: Any, rare: float, slope: float = 2.0) -> Any:
    """0/1 labels of a logistic model in the score, of which a share `rare` is 1."""
    z = slope * (score - score.mean()) / score.std()
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _rate(z + middle) < rare else (low, middle)
    return (rng.random(len(z)) < 1 / (1 + np.exp(-(z + low)))).astype(int)


def _rate(z: Any) -> float:
    return float(np.mean(1 / (1 + np.exp(-z))))


def dense(n: int, d: int, rare: float, slope: float, seed: int) -> Records:
    """Normal rows with uneven columns; all weights alike in size."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(0.3, 1.0, d)
    return Records(X, _labels(rng, X @ rng.normal(size=d), rare, slope), (-3.0, 3.0))


def heavy_tails(n: int = 20_000, d: int = 20, seed: int = 3) -> Records:
    """Student's t with 2.5 degrees of freedom, in bounds that hold nearly all."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2.5, size=(n, d))
    return Records(X, _labels(rng, np.tanh(X) @ rng.normal(size=d), 0.4), (-6.0, 6.0))


def correlated(n: int = 30_000, d: int = 300, seed: int = 4) -> Records:
    """Many columns that ten factors share, with a little of their own."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10)) @ rng.normal(size=(10, d)) / np.sqrt(10)
    X += 0.3 * rng.normal(size=(n, d))
    return Records(X, _labels(rng, X @ rng.normal(size=d), 0.5), (-3.0, 3.0))


def sparse(n: int = 40_000, d: int = 200, seed: int = 5) -> Records:
    """0/1 features, frequent ones first; 3 % positive, by the rarer features too."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) < np.minimum(0.4, 3.0 / np.arange(1, d + 1))).astype(float)
    return Records(X, _labels(rng, X @ rng.normal(size=d), 0.03), (0.0, 1.0))


def flagged(n: int = 40_000, seed: int = 21) -> Records:
    """2 % positive, and more than half of the records with a rare flag."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 12))
    flags = (rng.random((n, 3)) < np.array([0.01, 0.03, 0.2])).astype(float)
    z = X[:, :6] @ np.array([0.6, -0.5, 0.4, 0.3, -0.2, 0.2]) + flags @ np.array([5.5, 3.0, 1.0])
    y = (rng.random(n) < 1 / (1 + np.exp(5.5 - z))).astype(int)
    ends = np.r_[np.full(12, 3.0), np.ones(3)]
    return Records(np.hstack([X, flags]), y, (np.r_[np.full(12, -3.0), np.zeros(3)], ends))


def levels(n: int = 30_000, seed: int = 22) -> Records:
    """10 % positive, by a category of 40 levels, some of them rare, of very different rates."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, 41)
    level = rng.choice(40, size=n, p=share / share.sum())
    effect, X = 2 * rng.normal(size=40), rng.normal(size=(n, 5))
    z = effect[level] + X @ np.array([0.5, 0.4, -0.3, 0.2, 0.0])
    y = (rng.random(n) < 1 / (1 + np.exp(3.2 - z))).astype(int)
    ends = np.r_[np.full(5, 3.0), np.ones(40)]
    both = np.hstack([X, np.eye(40)[level]])
    return Records(both, y, (np.r_[np.full(5, -3.0), np.zeros(40)], ends))


GENERATED: dict[str, Callable[[], Records]] = {
    "1 % positive, 40,000 x 15": lambda: dense(40_000, 15, 0.01, 2.0, 1),
    "3 % positive, 30,000 x 30": lambda: dense(30_000, 30, 0.03, 2.0, 2),
    "heavy tails, 20,000 x 20": heavy_tails,
    "correlated, 30,000 x 300": correlated,
    "correlated, 30,000 x 500": lambda: correlated(30_000, 500, 14),
    "sparse, 3 %, 40,000 x 200": sparse,
    "rare flag, 40,000 x 15": flagged,
    "40 levels, 30,000 x 45": levels,
    "small, 1,500 x 8": lambda: dense(1_500, 8, 0.4, 2.0, 6),
    "easy, 10,000 x 10": lambda: dense(10_000, 10, 0.5, 6.0, 7),
    "hard, 10,000 x 40": lambda: dense(10_000, 40, 0.5, 0.6, 8),
}
