"""Generated records of the experiments: the only place of the papers that draws at random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacenda.data import scale_rows


def steep_rows(n: int, features: int, difficulty: float, seed: int) -> tuple[Any, Any]:
    """Generated records as most encodings make them: half of a row's energy in one direction that
    all rows share, the other half in the rest, the k-th of them with 1/k of it; two classes by a
    linear rule, a share `difficulty` of them blurred."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, features)
    spread = np.sqrt(0.5 * share / share.sum())
    x = np.hstack(
        [np.full((n, 1), math.sqrt(0.5)), rng.standard_normal((n, features - 1)) * spread]
    )
    x = scale_rows(x, 1.0, in_place=True)
    scores = x[:, 1:] @ (rng.standard_normal(features - 1) / np.sqrt(spread))
    y = (scores > np.quantile(scores, 0.7)).astype(np.int64)
    blurred = rng.random(n) < difficulty
    y[blurred] = rng.integers(2, size=int(blurred.sum()))
    return x, y
