"""Records that stand in for private ones while a run is planned: drawn, never read.

rows       normal with variances that fall like k^-decay, then brought to a norm; or a public
           sample's rows, with replacement
labels     two classes  P(y = 1) = 1/(1 + exp(-s));   K classes  P(y = k) proportional to exp(s_k);
           regression  s + noise_std * normal for scores s of a truth w
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.checks import one_of, positive, whole
from tacenda.data.features import scale_rows

KINDS = ("binary", "multiclass", "regression")


class StandIn:
    """A stream of draws for one stand-in data set."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(whole("seed", seed))

    def rows(self, n: int, features: int, decay: float, norm: float) -> Array:
        """X (n, features), every row of that norm,
        variances falling like k^-decay before the rows are scaled."""
        X = self._rng.standard_normal((n, features)) * np.arange(1, features + 1) ** (-decay / 2)
        return np.asarray(scale_rows(X, norm, "scale", in_place=True))

    def resample(self, X: Any, n: int) -> Any:
        """n rows of X, drawn with replacement."""
        return X[self._rng.integers(X.shape[0], size=n)]

    def direction(self, dim: int) -> Array:
        """(dim,) standard normal: a truth that leans nowhere."""
        return self._rng.standard_normal(dim)

    def posterior(self, mean: Array, precision_root: Array) -> Array:
        """A draw of N(mean, (L L^T)^-1), L = precision_root (d, d) lower triangular."""
        from scipy.linalg import solve_triangular

        return np.asarray(
            mean
            + solve_triangular(
                precision_root, self._rng.standard_normal(len(mean)), lower=True, trans="T"
            )
        )

    def labels(self, kind: str, scores: Array, noise_std: float = 0.0) -> Array:
        """y (n,) for scores (n, K), K = 1 but for several classes: codes 0, 1, ..
        or, for a regression, numbers."""
        one_of("kind", kind, KINDS)
        if kind == "regression":
            noise = positive("noise_std", noise_std, zero=True) * self._rng.standard_normal(
                len(scores)
            )
            return np.asarray(scores[:, 0] + noise)
        if kind == "binary":
            return np.asarray(self._rng.logistic(size=len(scores)) < scores[:, 0], dtype=np.int64)
        # The largest of scores with Gumbel noise is a draw of the softmax.
        return np.asarray(
            (scores + self._rng.gumbel(size=scores.shape)).argmax(axis=1), dtype=np.int64
        )
