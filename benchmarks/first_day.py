"""Eleven sets of records that need no preparation, for `benchmarks.strengths`. The tables of a
first day are in `benchmarks.first_day_tables`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import datasets

from benchmarks.regressions import gaussian


@dataclass(frozen=True)
class Records:
    """Rows and targets; bounds of both, "norm" where rows come within norm 1; classes None for a
    regression."""

    X: Any
    y: Any
    bounds: Any
    target_bounds: tuple[float, float] | None = None

    @property
    def regression(self) -> bool:
        return self.target_bounds is not None


def round_bounds(X: Any) -> tuple[Any, Any]:
    """Bounds for data that brings none: where 98 % lie, rounded outwards to one digit. They are
    read from the data, for all methods alike; whoever protects real people declares them."""
    low, high = np.quantile(X, [0.01, 0.99], axis=0)
    unit = 10.0 ** np.floor(np.log10(np.maximum(np.abs(low), np.abs(high)).clip(1e-9)))
    return np.floor(low / unit) * unit, np.ceil(high / unit) * unit


def bundled(name: str) -> Records:
    """A set that scikit-learn brings along."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    if name == "diabetes":
        return Records(X, y, (-0.2, 0.2), (0.0, 350.0))
    return Records(X, y, (0.0, 16.0) if name == "digits" else round_bounds(X))


def encoded(name: str) -> Records:
    """Adult or a9a by their declared schema; rows have norm at most 1."""
    import tacenda as tc

    data = tc.data.load(name)
    X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    return Records(X, data.y, "norm")


def generated(n: int, d: int, informative: int, rare: float, seed: int) -> Records:
    """Two classes, the second one with share `rare`."""
    X, y = datasets.make_classification(
        n,
        d,
        n_informative=informative,
        n_redundant=d // 10,
        weights=[1 - rare],
        class_sep=0.8,
        random_state=seed,
    )
    return Records(X, y, round_bounds(X))


def sparse(n: int = 50_000, d: int = 300, seed: int = 4) -> Records:
    """0/1 features, one in twenty set, frequent ones first; every tenth label is 1."""
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(seed)
    share = np.minimum(0.5, 15 / np.arange(1, d + 1) / np.log(d + 1))
    X = (rng.random((n, d)) < share).astype(float)
    score = X @ (rng.normal(size=d) * 1.5)
    level = np.quantile(score, 0.9)
    y = (rng.random(n) < 1 / (1 + np.exp(-3 * (score - level) / score.std()))).astype(int)
    return Records(csr_matrix(X), y, (0.0, 1.0))


def regression() -> Records:
    X, y, bounds, target_bounds = gaussian(17_000, 58, 1.0, 0.67, 1)
    return Records(X, y, bounds, (float(target_bounds[0]), float(target_bounds[1])))


SETS: dict[str, Callable[[], Records]] = {
    "iris": lambda: bundled("iris"),
    "wine": lambda: bundled("wine"),
    "breast_cancer": lambda: bundled("breast_cancer"),
    "diabetes": lambda: bundled("diabetes"),
    "digits": lambda: bundled("digits"),
    "19,000 x 10": lambda: generated(19_000, 10, 6, 0.5, 2),
    "45,000 x 51, 12 % in one class": lambda: generated(45_000, 51, 12, 0.12, 1),
    "regression 17,000 x 58": regression,
    "adult": lambda: encoded("adult"),
    "a9a": lambda: encoded("a9a"),
    "50,000 x 300, sparse": sparse,
}
