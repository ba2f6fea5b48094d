"""Generated records for the benchmarks: one table, node after node, made without a second copy."""

from __future__ import annotations

from typing import Any

import numpy as np

CHUNK = 2**22  # numbers drawn at a time


def table(count: int, features: int, dtype: Any = float, seed: int = 0) -> tuple[Any, Any]:
    """X (count, features) with rows on the unit sphere and labels y (count,) of 0 and 1, drawn from
    a linear model with some noise."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=features)
    X, y = np.empty((count, features), dtype), np.empty(count, np.int8)
    rows = max(1, CHUNK // features)
    for start in range(0, count, rows):
        part = rng.normal(size=(min(rows, count - start), features))
        part /= np.linalg.norm(part, axis=1, keepdims=True) * (1 + 1e-6)
        X[start : start + rows] = part
        y[start : start + rows] = part @ truth + 0.1 * rng.normal(size=len(part)) > 0
    return X, y
