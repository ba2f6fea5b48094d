"""Records seen as one: F(w) = sum_j a_j loss(w; x_j, y_j), of a problem (a_j = c v_j/(n m_i)) or of
one node (v_j: the weight of a record), in NumPy and SciPy.

Tables are walked in chunks, so that float32 data is never copied to float64 as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda._types import Floats
from tacenda.regularisers.custom import CustomRegulariser

if TYPE_CHECKING:
    from tacenda.problem.problem import Problem
    from tacenda.questions.store import Store

_CHUNK_ELEMENTS = 1 << 20


class Pooled:
    """Value, gradient and second derivatives of F, and the regulariser r R = l1 |w|_1 + (l2/2)
    |w|^2 beside it; around an anchor l2 may be one number for each coordinate."""

    def __init__(self, store: Store, records: slice, weights: Any, l1: float, l2: Any) -> None:
        self.loss, self.labels = store.loss, store.labels[records]
        self.n_features, self.n_outputs, self.dim = store.n_features, store.n_outputs, store.dim
        own = 1.0 if store.weights is None else store.weights[records]
        self.weights, self.l1, self.l2 = weights * own, l1, l2
        self.own: tuple[CustomRegulariser, float] | None = None  # (R, r) in place of l1 and l2
        self.base: Any = (
            None  # scores of the records at the point from which w counts, if that is not 0
        )
        self.rows: Any = store.rows
        if isinstance(store.rows, tuple):
            from scipy.sparse import csr_array

            self.rows = csr_array(store.rows, shape=(len(store.labels), self.n_features))
        self.rows = self.rows[records]

    @classmethod
    def of(cls, problem: Problem) -> Pooled:
        """All records of a problem."""
        weights = np.repeat(
            problem.loss_scale / (problem.n_nodes * problem.divisors), problem.sizes
        )
        strength, regulariser = problem.strength, problem.regulariser
        if isinstance(regulariser, CustomRegulariser):
            found = cls(problem.store, slice(None), weights, 0.0, 0.0)
            found.own = (regulariser, strength)
            return found
        return cls(
            problem.store,
            slice(None),
            weights,
            strength * regulariser.l1,
            strength * regulariser.l2,
        )

    @classmethod
    def around(cls, store: Store, node: int, anchor: Floats, convexity: Any) -> Pooled:
        """One node's records seen from `anchor`: F(u) = (c/m) sum_j loss(anchor + u; x_j, y_j),
        with (convexity/2)|u|^2.

        What a large anchor adds to a score is computed once for each record and then belongs to
        that record: however it was rounded, F is convex in u, and no record's gradient exceeds its
        bound. Residuals, and the gaps between the scores of classes, are formed before u comes in,
        so that they keep their digits.
        """
        records = slice(int(store.offsets[node]), int(store.offsets[node + 1]))
        weight = store.loss_scale / store.divisors[node]
        found = cls(store, records, np.full(records.stop - records.start, weight), 0.0, convexity)
        found.base = np.concatenate([found.scores(table, anchor) for _, table in found.chunks()])
        if found.loss.kind == "regression" and math.isinf(found.loss.label_range[1]):
            found.base, found.labels = found.base - found.labels, np.zeros(len(found.labels))
        elif found.loss.kind == "multiclass":
            found.base -= found.base.max(axis=1, keepdims=True)
        return found

    def chunks(self) -> Iterator[tuple[slice, Any]]:
        """(rows of the chunk as a slice, their table)."""
        step = max(1, _CHUNK_ELEMENTS // self.n_features)
        for a in range(0, len(self.labels), step):
            part = slice(a, min(len(self.labels), a + step))
            table = self.rows[part]
            yield part, table if table.dtype == np.float64 else table.astype(np.float64)

    def scores(self, table: Any, w: Floats) -> Any:
        """(m,) scores of a chunk, or (m, K)."""
        scores = np.asarray(table @ w.reshape(self.n_outputs, self.n_features).T)
        return scores if self.n_outputs > 1 else scores[:, 0]

    def _at(self, part: slice, table: Any, w: Floats) -> Any:
        """The scores to which the loss is applied."""
        return (
            self.scores(table, w) if self.base is None else self.base[part] + self.scores(table, w)
        )

    def value(self, w: Floats) -> float:
        """F(w)."""
        parts = self.chunks()
        return float(
            sum(
                self.weights[s] @ self.loss.value(self._at(s, x, w), self.labels[s])
                for s, x in parts
            )
        )

    def gradient(self, w: Floats) -> Floats:
        """The (sub)gradient of F, (d,)."""
        total = np.zeros((self.n_outputs, self.n_features))
        for s, x in self.chunks():
            slopes = self.loss.derivative(self._at(s, x, w), self.labels[s]).reshape(
                -1, self.n_outputs
            )
            total += np.asarray(x.T @ (self.weights[s, None] * slopes)).T
        return total.ravel()

    def hessian(self, w: Floats) -> Floats:
        """The Hessian of F for losses of one score, (d, d)."""
        total = np.zeros((self.dim, self.dim))
        for s, x in self.chunks():
            curves = self.weights[s] * self._second(self._at(s, x, w), self.labels[s])
            if isinstance(x, np.ndarray):
                total += x.T @ (curves[:, None] * x)
            else:
                total += (x.T @ x.multiply(curves[:, None])).toarray()
        return total

    def hessian_product(self, w: Floats) -> Callable[[Floats], Floats]:
        """v -> H(w) v, with the curvatures at w computed once."""
        if self.n_outputs == 1:
            curves = [
                self.weights[s] * self._second(self._at(s, x, w), self.labels[s])
                for s, x in self.chunks()
            ]
        else:
            curves = [
                self.loss.softmax(self._at(s, x, w), self.labels[s])  # type: ignore[attr-defined]
                for s, x in self.chunks()
            ]
            sharpness = 2.0 * self.loss.curvature

        def product(v: Floats) -> Floats:
            total = np.zeros((self.n_outputs, self.n_features))
            for (s, x), q in zip(self.chunks(), curves, strict=True):
                t = self.scores(x, v)
                if self.n_outputs > 1:
                    t = self.weights[s, None] * q * (t - (q * t).sum(axis=1, keepdims=True))
                    t *= sharpness
                else:
                    t = (q * t)[:, None]
                total += np.asarray(x.T @ t).T
            return total.ravel()

        return product

    def prox(self, w: Floats, step: float) -> Floats:
        """argmin_v step r R(v) + |v - w|^2/2."""
        if self.own is not None:
            return np.asarray(self.own[0].prox(w, step * self.own[1]))
        return np.asarray(
            np.sign(w) * np.maximum(np.abs(w) - step * self.l1, 0.0) / (1.0 + step * self.l2)
        )

    def composite_value(self, w: Floats) -> float:
        """F(w) + r R(w), that is (1/n) sum_i f_i(w)."""
        if self.own is not None:
            return self.value(w) + self.own[1] * float(self.own[0].value(w))
        return self.value(w) + self.l1 * float(np.abs(w).sum()) + 0.5 * self.l2 * float(w @ w)

    def residual(self, w: Floats) -> float:
        """|w - prox(w - gradient F(w), 1)|: zero exactly at the optimum."""
        return float(np.linalg.norm(w - self.prox(w - self.gradient(w), 1.0)))

    def _second(self, scores: Any, labels: Any) -> Any:
        return self.loss.second(scores, labels)  # type: ignore[attr-defined]
