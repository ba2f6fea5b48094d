"""`Store`: all that the records of nodes answer, and their records mapped.

Nothing here is private by itself: `tacenda.questions.queries` wraps what these methods return.
`nodes` is always an int64 array (b,) of node positions, the rows of every other argument belong to
them, and a node's row of the result does not depend on the others.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from tacenda._arrays import read_only
from tacenda._types import Array, Floats, Ints
from tacenda.questions.moments import check_matrix
from tacenda.questions.solver import around as solver_around
from tacenda.questions.solver import local as solver
from tacenda.questions.solver.local import Chords
from tacenda.questions.store.gradients import Gradients
from tacenda.questions.store.moments import Moments
from tacenda.questions.store.statistics import Statistics
from tacenda.questions.validate.rows import square_norms
from tacenda.regularisers import Regulariser
from tacenda.threads import in_parts


class Store(Gradients, Moments, Statistics):
    """Records of n nodes in one table; the base of `DenseStore` and `SparseStore`, which differ in
    the table only."""

    @cached_property
    def _mapping_kernels(self) -> Any:
        """The compiled maps."""
        from tacenda.questions.kernels import mapping as kernels_mapping

        return kernels_mapping

    def mapped(
        self,
        nodes: Ints,
        matrix: Array,
        norm: float,
        regulariser: Regulariser,
        strength: float | None = None,
    ) -> Store:
        """The records x' = matrix' x of these nodes, cut to `norm`, as a store of their own:
        position k is nodes[k].

        No row is longer than `norm`, whatever floats matrix and records hold: sums are made in
        float64, come out right to (k + 2) 2^-53 of a row's norm, and what is cut is cut shorter by
        more than that (in float32 by 1e-6). A row without a finite norm is 0. matrix (p, k) gives
        dense rows; (p,), a diagonal one, leaves sparse rows sparse.
        """
        nodes = self._positions(nodes)
        matrix = np.ascontiguousarray(matrix, np.float64)
        check_matrix(matrix, self.n_features)
        columns, sparse = matrix.shape[-1], isinstance(self.rows, tuple)
        single = (self.rows[0] if sparse else self.rows).dtype == np.float32
        norm = float(norm) * (1.0 - max(1e-12, columns * 2.0**-50, 1e-6 if single else 0.0))
        offsets = np.concatenate([[0], np.cumsum(self.sizes[nodes])]).astype(np.int64)
        first, last = self.offsets[nodes], self.offsets[nodes + 1]
        keeps = sparse and matrix.ndim == 1
        rows: Any
        if keeps:
            rows = self._scaled_sparse(nodes, read_only(matrix), norm)
        else:
            map_rows = self._mapping_kernels.mapped_rows
            if matrix.ndim == 1:
                map_rows = self._mapping_kernels.scaled_rows
            rows = np.empty((int(offsets[-1]), columns), np.float32 if single else np.float64)
            in_parts(
                map_rows,
                len(nodes),
                self.elements(nodes) * (1 if matrix.ndim == 1 else columns),
                self.kernel_rows,
                first,
                last,
                offsets[:-1],
                read_only(matrix),
                norm,
                rows,
                sizes=last - first,
            )
        taken = self._record_numbers(nodes)
        self.count_reads(nodes)
        other = (SparseStore if keeps else DenseStore)(
            rows,
            self.labels[taken],
            offsets,
            n_features=columns,
            n_outputs=self.n_outputs,
            loss=self.loss,
            regulariser=regulariser,
            strength=self.strength if strength is None else strength,
            loss_scale=self.loss_scale,
            divisors=self.divisors[nodes],
            weights=None if self.weights is None else self.weights[taken],
            row_elements=self.row_elements if keeps else None,  # it must not depend on the block
        )
        other.reads = self.reads  # the same records
        return other

    def _scaled_sparse(self, nodes: Ints, weights: Floats, norm: float) -> tuple[Array, ...]:
        """CSR arrays of these nodes' rows, column a times weights[a], each row cut to `norm`."""
        data, indices, indptr = self.rows
        records = self._record_numbers(nodes)
        spans = [slice(indptr[self.offsets[i]], indptr[self.offsets[i + 1]]) for i in nodes]
        taken = np.concatenate([indices[span] for span in spans])
        ends = np.concatenate([[0], np.cumsum(np.diff(indptr)[records])]).astype(np.int64)
        out = np.empty(len(taken), data.dtype)
        in_parts(
            self._mapping_kernels.scaled_sparse_rows,
            len(records),
            len(taken),
            read_only(data),
            taken,
            ends,
            indptr[records],
            weights,
            norm,
            out,
        )
        return out, taken, ends

    def argmin(
        self,
        nodes: Ints,
        linear: Array,
        quadratic: Array,
        centre: Array,
        start: Array,
        tolerance: float,
        remember: bool = False,
    ) -> Array:
        """argmin_w f_i(w) + linear_k.w + quadratic_k |w - centre_k|^2 for each row, to gradient
        norm <= tolerance. remember: start where the node's last call ended, if there was one; only
        without privacy (`solver.local`)."""
        nodes, start = self._checked(nodes, start)
        return solver.argmin(self, nodes, linear, quadratic, centre, start, tolerance, remember)

    def argmin_around(
        self, nodes: Ints, anchor: Array, convexity: Array, tolerance: float
    ) -> Floats:
        """argmin_u (c/m_i) sum_j loss(anchor_k + u; x_j, y_j) + (convexity_k/2) |u|^2 for each row,
        float64 (b, d); convexity (b,), or (b, d): one for each coordinate."""
        nodes, anchor = self._checked(nodes, anchor)
        return solver_around.argmin(
            self, nodes, anchor.astype(np.float64), np.asarray(convexity, np.float64), tolerance
        )

    def chords(self) -> Any:
        """The argmin's cache of inverse Hessians, made when first needed."""
        if self._chords is None:
            self._chords = Chords.empty(self.n_nodes, self.dim)
        return self._chords

    def solver_state(self, *, kept: bool = False, remembered: bool = False) -> dict[str, Floats]:
        """Where the cached inverse Hessians were taken: what a checkpoint needs so that a resumed
        run is bit-identical. kept, remembered: whether rows for the cache and for what calls
        remember are wanted even if no call here has left any, as other parts of the run have.

        The points are `start` rows of earlier calls, so nothing here is more private than the run's
        own state; what calls with `remember` leave is there only where nothing is private.
        """
        if self._chords is None and not kept:
            return {"anchors": np.zeros((0, self.dim)), "ridges": np.zeros(0)}
        return self.chords().state(remembered)

    def restore_solver_state(self, state: dict[str, Floats]) -> None:
        """Rebuild the cache from `solver_state`; an empty state forgets it."""
        self._chords = None
        if len(state["ridges"]):
            self._chords = solver.restored(self, state)


class DenseStore(Store):
    """Records as a C-contiguous table (N, p) of float64 or float32."""

    def _count_row_elements(self) -> int:
        return self.n_features

    def _square_norms(self) -> Floats:
        return square_norms(self.rows)


class SparseStore(Store):
    """Records as CSR arrays (data, indices, indptr) without duplicate entries;
    costs by its non-zeros."""

    def _count_row_elements(self) -> int:
        return self.row_elements_of(len(self.rows[0]), len(self.labels))

    @staticmethod
    def row_elements_of(filled: int, records: int) -> int:
        """About how many numbers a row takes, by those of the whole table."""
        return 1 + filled // max(1, records)

    def _square_norms(self) -> Floats:
        return square_norms(self.rows)
