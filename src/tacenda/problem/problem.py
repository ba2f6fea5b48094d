"""`Problem`: private records of every node, a loss, a regulariser,
and the public bounds that go with them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacenda import checks
from tacenda._types import Array, Floats, Ints
from tacenda.errors import InputError
from tacenda.problem import losses, regularisers
from tacenda.problem.constants import LARGEST_RADIUS, RADIUS, SENSIBLE, Constants
from tacenda.problem.store import DenseStore, SparseStore, Store
from tacenda.problem.validate.labels import encode_labels
from tacenda.problem.validate.rows import NORM_SLACK, bound_rows, read_shards

_CHUNK_SCORES = 1 << 20
# Table entries read between two looks at the losses, where nothing is copied
_CHUNK_RECORDS = 1 << 26
_NEARLY_FREE = 1e-9  # the strength of a constant that is not to be regularised
_FEW_SCORES = 4  # up to so many scores a record a pass of our own is faster


class Problem:
    """Minimise sum_i f_i(w), f_i(w) = (c/m_i) sum_j loss(w; x_ij, y_ij) + r R(w), over n nodes with
    private records.

    shards         list of (X_i, y_i) in the graph's node order, or a dict by node label; X_i dense
                   or scipy sparse
    loss           a name or an object of `tacenda.losses`;      regulariser   likewise
    strength       r >= 0;   loss_scale   c > 0
    data_norm      public bound on the l2 norm of every row of X
    clip_norm      public bound to which per-record gradients are clipped, or None
    radius         public bound on every coordinate of a model: points at which records are asked,
                   and messages, are cut to it
    on_large_rows  "error", or "scale" to shrink rows above data_norm onto it
    classes        the public label set; without it, the sorted labels found at all nodes are taken
                   as public, of which a private run warns once
    public_sizes   declared m_i, one per node, where record counts are themselves private
                   (add-remove adjacency)

    Arrays which are already consecutive views of one array are read in place: do not change them
    afterwards.
    `objective`, `local_objectives`, `loss_of`, `accuracy` and `solve` read private data without
    noise: they are diagnostics of a simulation, and nothing that they return may leave the house of
    a real node.
    """

    def __init__(
        self,
        shards: Sequence[Any] | Mapping[Any, Any],
        *,
        loss: str | losses.Loss = "logistic",
        regulariser: str | regularisers.Regulariser | None = "l2",
        strength: float = 1e-4,
        loss_scale: float = 1.0,
        data_norm: float = 1.0,
        clip_norm: float | None = None,
        radius: float = RADIUS,
        on_large_rows: str = "error",
        classes: Iterable[Any] | None = None,
        public_sizes: ArrayLike | None = None,
    ) -> None:
        # Declarations without sense are refused before any record is read; how many classes there
        # are comes later.
        declared = Constants.declared(
            loss=loss,
            regulariser=regulariser,
            strength=strength,
            loss_scale=loss_scale,
            data_norm=data_norm,
            clip_norm=clip_norm,
            radius=radius,
            classes=2,
        )
        self.loss = declared.loss
        self.regulariser = declared.regulariser
        self.strength = declared.strength
        self.loss_scale = declared.loss_scale
        self.data_norm = declared.data_norm
        self.clip_norm = declared.clip_norm
        self.radius = declared.radius
        checks.one_of("on_large_rows", on_large_rows, ("error", "scale"))
        # How the records were spread, where `data.partition` did it
        self.partition: str | None = getattr(shards, "kind", None)
        table = read_shards(shards)
        labels, self.classes = encode_labels(table, self.loss, classes)
        self._undeclared = classes is None and self.classes is not None
        rows = bound_rows(table, self.data_norm, on_large_rows)
        self.node_labels = table.node_labels
        self.n_features = table.n_features
        self.n_outputs = len(self.classes or ()) if self.loss.kind == "multiclass" else 1
        self.sizes: Ints = np.diff(table.offsets)
        self.public_sizes = _sizes(public_sizes, len(self.sizes))
        self.store = self._store(rows, labels, table.offsets)
        self.dtype: np.dtype[Any] = (rows[0] if isinstance(rows, tuple) else rows).dtype
        # Rounding may lift a float32 row above data_norm by a part in a million, and the bounds
        # then hold that too.
        slack = NORM_SLACK[self.dtype] if self.dtype == np.float32 else 0.0
        self.constants = replace(
            declared, data_norm=self.data_norm * (1.0 + slack), n_outputs=self.n_outputs
        )

    def _store(self, rows: Any, labels: Floats, offsets: Ints) -> Store:
        kind = SparseStore if isinstance(rows, tuple) else DenseStore
        divisors = self.sizes.astype(np.float64) if self.public_sizes is None else self.public_sizes
        return kind(
            rows,
            labels,
            offsets,
            n_features=self.n_features,
            n_outputs=self.n_outputs,
            loss=self.loss,
            regulariser=self.regulariser,
            strength=self.strength,
            loss_scale=self.loss_scale,
            divisors=divisors,
        )

    def declaration_missing(self) -> str | None:
        """What a private run should warn of: the label set, where it was read off the labels. Said
        once for each problem."""
        if not self._undeclared:
            return None
        self._undeclared = False
        return (
            "classes is not declared: the label set was read off the private labels and "
            "counts as public. Declare it from public knowledge, as in Problem(..., "
            "classes=('no', 'yes'))."
        )

    @property
    def n_nodes(self) -> int:
        return len(self.sizes)

    @property
    def dim(self) -> int:
        """d: the length of a node's model, n_outputs * n_features."""
        return self.n_outputs * self.n_features

    @property
    def divisors(self) -> Floats:
        """m_i of the objective, (n,): the declared public sizes, or the record counts."""
        return self.store.divisors

    def __repr__(self) -> str:
        clip = "" if self.clip_norm is None else f", clip_norm={self.clip_norm:g}"
        return (
            f"Problem(n_nodes={self.n_nodes}, n_features={self.n_features}, "
            f"n_outputs={self.n_outputs}, loss={self.loss.name!r}, "
            f"regulariser={self.regulariser.name!r}, strength={self.strength:g}, "
            f"loss_scale={self.loss_scale:g}, data_norm={self.data_norm:g}{clip}, "
            f"radius={self.radius:g})"
        )

    def objective(self, w: ArrayLike) -> Any:
        """(1/n) sum_i f_i(w): a float for w (d,), or (k,) values for the rows of (k, d).
        Reads private data."""
        rows, single = self._models(w)
        weights = np.repeat(self.loss_scale / (self.n_nodes * self.divisors), self.sizes)
        total = self._weighted(rows, weights) + self.strength * self.regulariser.value(rows)
        return float(total[0]) if single else total

    def loss_of(self, w: ArrayLike) -> Any:
        """Mean loss over all records, without c and r R; shapes as in `objective`.
        Reads private data."""
        rows, single = self._models(w)
        total = self._weighted(rows, np.full(len(self.store.labels), 1.0 / len(self.store.labels)))
        return float(total[0]) if single else total

    def local_objectives(self, w: ArrayLike) -> Floats:
        """f_i(w_i) for w (n, d), one row per node, as (n,). Reads private data."""
        rows, _ = self._models(w)
        means = self.store.losses(np.arange(self.n_nodes), rows)
        data = self.loss_scale * means * self.sizes / self.divisors
        return np.asarray(data + self.strength * self.regulariser.value(rows))

    def accuracy(self, w: ArrayLike) -> Any:
        """Share of all records classified rightly, shapes as in `objective`;
        None for a regression. Reads private data.
        """
        if self.loss.kind == "regression":
            return None
        rows, single = self._models(w)
        right = np.zeros(len(rows))
        for a, b, scores in self._score_chunks(rows):
            for k in range(len(rows)):
                right[k] += self.store.right(scores[:, k], self.store.labels[a:b]).sum()
        right /= len(self.store.labels)
        return float(right[0]) if single else right

    def predict_scores(self, x: Any, w: ArrayLike) -> Array:
        """Scores of new records x (N, p) under one model w (d,): (N,), or (N, K) for K classes."""
        rows, single = self._models(w)
        if not single or getattr(x, "ndim", 2) != 2:
            raise InputError(
                "predict_scores takes records of shape (N, p) and one model of shape (d,)."
            )
        scores = np.asarray(x @ rows[0].reshape(self.n_outputs, self.n_features).T)
        return scores if self.n_outputs > 1 else scores[:, 0]

    # ---- other problems of the same records, for comparison; nothing is copied but one column
    def pooled(self) -> Problem:
        """All records as those of a single node: what a trusted server would hold."""
        declared = None if self.public_sizes is None else self.public_sizes.sum(keepdims=True)
        return self._part(slice(0, len(self.store.labels)), declared)

    def of_node(self, position: int) -> Problem:
        """One node's records, as a problem of that node alone."""
        a, b = (int(k) for k in self.store.offsets[position : position + 2])
        sizes = self.public_sizes
        return self._part(slice(a, b), None if sizes is None else sizes[position : position + 1])

    def with_one_feature(self, position: int | None) -> Problem:
        """The records with one of their features only; None: with a constant 1, which is as good as
        not regularised."""
        rows: Any = self.store.rows
        if position is None:
            column = np.ones((len(self.store.labels), 1))
        elif isinstance(rows, tuple):
            from scipy.sparse import csr_array

            whole = csr_array(rows, shape=(len(self.store.labels), self.n_features))
            column = whole[:, [position]].toarray()
        else:
            column = np.ascontiguousarray(rows[:, position : position + 1])
        found = copy.copy(self)
        found.n_features = 1
        found.strength = min(self.strength, _NEARLY_FREE) if position is None else self.strength
        found.store = found._store(column, self.store.labels, self.store.offsets)
        found.dtype = column.dtype
        return found

    def _part(self, records: slice, public_sizes: Floats | None) -> Problem:
        rows: Any = self.store.rows
        if isinstance(rows, tuple):
            values, indices, starts = rows
            starts = starts[records.start : records.stop + 1]
            kept = slice(int(starts[0]), int(starts[-1]))
            rows = (values[kept], indices[kept], starts - starts[0])
        else:
            rows = rows[records]
        found = copy.copy(self)
        found.node_labels, found.partition = None, None
        offsets = np.array([0, records.stop - records.start], self.store.offsets.dtype)
        found.sizes, found.public_sizes = np.diff(offsets), public_sizes
        found.store = found._store(rows, self.store.labels[records], offsets)
        return found

    def solve(self, tolerance: float = 1e-10) -> Floats:
        """The centralised optimum of (1/n) sum_i f_i, (d,): the reference of a simulation. Reads
        private data.

        Smooth problems are solved to gradient norm `tolerance`; the others to that optimality
        residual or duality gap.
        """
        from tacenda.problem.solver import reference as solver_reference

        return solver_reference.solve(self, checks.positive("tolerance", tolerance))

    def _models(self, w: ArrayLike) -> tuple[Floats, bool]:
        rows = np.asarray(w, dtype=np.float64)
        if rows.shape[-1:] != (self.dim,) or rows.ndim > 2:
            raise InputError(
                f"w must have shape ({self.dim},) or (k, {self.dim}), not {rows.shape}."
            )
        return np.atleast_2d(rows), rows.ndim == 1

    def _score_chunks(self, models: Floats) -> Iterator[tuple[int, int, Array]]:
        """(a, b, scores (b - a, k, K)) of all records under k models,
        a chunk of records at a time."""
        matrix = models.reshape(len(models) * self.n_outputs, self.n_features).T
        count = len(self.store.labels)
        step = max(1, _CHUNK_SCORES // max(self.n_features, matrix.shape[1]))
        rows: Any = self.store.rows
        if (
            not isinstance(rows, tuple)
            and rows.dtype == np.float32
            and matrix.shape[1] <= _FEW_SCORES
        ):
            yield from self._single_score_chunks(models)
            return
        if isinstance(rows, tuple):
            from scipy.sparse import csr_array

            rows = csr_array(rows, shape=(count, self.n_features))
        for a in range(0, count, step):
            b = min(count, a + step)
            yield a, b, np.asarray(rows[a:b] @ matrix).reshape(b - a, len(models), self.n_outputs)

    def _single_score_chunks(self, models: Floats) -> Iterator[tuple[int, int, Array]]:
        """The same for few models on float32 records:
        a product by NumPy would first copy them all to float64."""
        count, step = len(self.store.labels), max(1, _CHUNK_RECORDS // self.n_features)
        for a in range(0, count, step):
            b = min(count, a + step)
            yield a, b, np.stack([self.store.scores(a, b, w) for w in models], axis=1)

    def _weighted(self, models: Floats, weights: Floats) -> Floats:
        """sum_j weights_j loss(w_k; x_j, y_j) for each model."""
        total = np.zeros(len(models))
        for a, b, scores in self._score_chunks(models):
            scores = scores if self.n_outputs > 1 else scores[:, :, 0]
            labels = np.broadcast_to(self.store.labels[a:b, None], (b - a, len(models)))
            total += weights[a:b] @ self.loss.value(scores, labels)
        return total


def _sizes(public_sizes: ArrayLike | None, n: int) -> Floats | None:
    if public_sizes is None:
        return None
    sizes = np.asarray(public_sizes, dtype=np.float64)
    if (
        sizes.shape not in ((), (n,))
        or not ((sizes >= SENSIBLE[0]) & (sizes <= LARGEST_RADIUS)).all()
    ):
        raise InputError(
            f"public_sizes must be a number from {SENSIBLE[0]:g} to {LARGEST_RADIUS:g} or one "
            f"per node ({n} of them); found shape {sizes.shape}."
        )
    return np.array(np.broadcast_to(sizes, (n,)))
