"""All records of a problem seen as one: F(w) = sum_j a_j loss(w; x_j, y_j) with a_j = c/(n m_i), in NumPy and SciPy.

Tables are walked in chunks, so that float32 data is never copied to float64 as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tacenda.problem.problem import Problem

Vector = NDArray[np.float64]
_CHUNK_ELEMENTS = 1 << 20


class Pooled:
    """Value, gradient and second derivatives of F, and the regulariser r R = l1 |w|_1 + (l2/2) |w|^2 beside it."""

    def __init__(self, problem: Problem) -> None:
        store = problem.store
        self.loss, self.labels = problem.loss, store.labels
        self.n_features, self.n_outputs, self.dim = problem.n_features, problem.n_outputs, problem.dim
        self.weights = np.repeat(problem.loss_scale / (problem.n_nodes * problem.divisors), problem.sizes)
        self.l1 = problem.strength * problem.regulariser.l1
        self.l2 = problem.strength * problem.regulariser.l2
        self.rows: Any = store.rows
        if isinstance(store.rows, tuple):
            from scipy.sparse import csr_array

            self.rows = csr_array(store.rows, shape=(len(self.labels), self.n_features))

    def chunks(self) -> Iterator[tuple[slice, Any]]:
        """(rows of the chunk as a slice, their table)."""
        step = max(1, _CHUNK_ELEMENTS // self.n_features)
        for a in range(0, len(self.labels), step):
            part = slice(a, min(len(self.labels), a + step))
            table = self.rows[part]
            yield part, table if table.dtype == np.float64 else table.astype(np.float64)

    def scores(self, table: Any, w: Vector) -> Any:
        """(m,) scores of a chunk, or (m, K)."""
        scores = np.asarray(table @ w.reshape(self.n_outputs, self.n_features).T)
        return scores if self.n_outputs > 1 else scores[:, 0]

    def value(self, w: Vector) -> float:
        """F(w)."""
        parts = self.chunks()
        return float(sum(self.weights[s] @ self.loss.value(self.scores(x, w), self.labels[s]) for s, x in parts))

    def gradient(self, w: Vector) -> Vector:
        """The (sub)gradient of F, (d,)."""
        total = np.zeros((self.n_outputs, self.n_features))
        for s, x in self.chunks():
            slopes = self.loss.derivative(self.scores(x, w), self.labels[s]).reshape(-1, self.n_outputs)
            total += np.asarray(x.T @ (self.weights[s, None] * slopes)).T
        return total.ravel()

    def hessian(self, w: Vector) -> NDArray[np.float64]:
        """The Hessian of F for losses of one score, (d, d)."""
        total = np.zeros((self.dim, self.dim))
        for s, x in self.chunks():
            curves = self.weights[s] * self._second(self.scores(x, w), self.labels[s])
            if isinstance(x, np.ndarray):
                total += x.T @ (curves[:, None] * x)
            else:
                total += (x.T @ x.multiply(curves[:, None])).toarray()
        return total

    def hessian_product(self, w: Vector) -> Callable[[Vector], Vector]:
        """v -> H(w) v, with the curvatures at w computed once."""
        if self.n_outputs == 1:
            curves = [self.weights[s] * self._second(self.scores(x, w), self.labels[s]) for s, x in self.chunks()]
        else:
            zero = np.zeros(len(self.labels), dtype=np.int64)
            curves = [self._softmax(self.scores(x, w), zero[s]) for s, x in self.chunks()]

        def product(v: Vector) -> Vector:
            total = np.zeros((self.n_outputs, self.n_features))
            for (s, x), q in zip(self.chunks(), curves, strict=True):
                t = self.scores(x, v)
                if self.n_outputs > 1:
                    t = self.weights[s, None] * q * (t - (q * t).sum(axis=1, keepdims=True))
                else:
                    t = (q * t)[:, None]
                total += np.asarray(x.T @ t).T
            return total.ravel()

        return product

    def prox(self, w: Vector, step: float) -> Vector:
        """argmin_v step r R(v) + |v - w|^2/2."""
        return np.asarray(np.sign(w) * np.maximum(np.abs(w) - step * self.l1, 0.0) / (1.0 + step * self.l2))

    def composite_value(self, w: Vector) -> float:
        """F(w) + r R(w), that is (1/n) sum_i f_i(w)."""
        return self.value(w) + self.l1 * float(np.abs(w).sum()) + 0.5 * self.l2 * float(w @ w)

    def residual(self, w: Vector) -> float:
        """|w - prox(w - gradient F(w), 1)|: zero exactly at the optimum."""
        return float(np.linalg.norm(w - self.prox(w - self.gradient(w), 1.0)))

    def _second(self, scores: Any, labels: Any) -> Any:
        return self.loss.second(scores, labels)  # type: ignore[attr-defined]

    def _softmax(self, scores: Any, zero: Any) -> Any:
        q = self.loss.derivative(scores, zero)
        q[:, 0] += 1.0
        return q
