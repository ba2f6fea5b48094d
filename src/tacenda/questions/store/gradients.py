"""Sums of gradients over the records of nodes, as floats and as whole numbers."""

from __future__ import annotations

import math

import numpy as np

from tacenda._arrays import read_only
from tacenda._types import Array, Floats, Ints
from tacenda.errors import InputError, UnsupportedError
from tacenda.questions.store.table import NO_RECORDS, Table, checked_grid
from tacenda.rows import new_rows
from tacenda.threads import PARALLEL_ELEMENTS, in_parts

_NO_NORMS: Floats = np.empty(0)


class Gradients(Table):
    """Answers with gradients."""

    def gradient(
        self, nodes: Ints, w: Array, clip_norm: float | None = None, regularised: bool = True
    ) -> Array:
        """(c/m_i) sum_j v_j clip(loss'(w_k; x_j, y_j) x_j) + r R'(w_k) for each row k, node i =
        nodes[k]; (b, d) -> (b, d). v_j, from 0 to 1, is the record's weight.
        """
        part = self._part(nodes)
        w = self._models(part.nodes, w)
        self.reads[0] += part.records
        work = int(part.records) * self.row_elements
        return self._gradients(
            w, part.tasks, part.factor, clip_norm, regularised, work, part.lengths
        )

    def batch_gradient(
        self,
        nodes: Ints,
        w: Array,
        indptr: Ints,
        records: Ints,
        batch_size: Array,
        clip_norm: float | None = None,
        regularised: bool = True,
    ) -> Array:
        """(c/b_i) times the sum over the sampled records, plus r R'(w); batch_size (b,) is the
        public b_i.

        Row k's sample is records[indptr[k] : indptr[k+1]], record numbers within its node.
        """
        part = self._part(nodes)
        nodes, w = part.nodes, self._models(part.nodes, w)
        indptr = np.ascontiguousarray(indptr, np.int64)
        records = np.ascontiguousarray(records, np.int64)
        self.reads[0] += len(records)
        divisor = np.asarray(batch_size, dtype=np.float64)
        factor = self.loss_scale / (
            divisor if divisor.shape == nodes.shape else np.broadcast_to(divisor, nodes.shape)
        )
        self._refuse_sample(
            self._kernels.sample_fault(nodes, self.offsets, indptr, records), len(nodes)
        )
        start = part.numbers
        tasks = (start[:-1], indptr[:-1], indptr[1:], start, records, part.begin)
        work = len(records) * self.row_elements
        lengths = None if work < PARALLEL_ELEMENTS else indptr[1:] - indptr[:-1]
        return self._gradients(w, tasks, factor, clip_norm, regularised, work, lengths)

    def integer_gradient(
        self, nodes: Ints, w: Array, grid: Array, clip_norm: float | None = None
    ) -> Ints:
        """sum_j trunc(clip(loss'(w_k; x_j, y_j) x_j) / grid_k), loss part only, as int64 (b, d).

        Exact for every float: one record moves row k by at most clip_norm/grid_k when it comes or
        goes, twice that when it is replaced. All is computed in float64, where a gradient's norm
        comes out right to (d + 10) 2^-53 of itself; the clip is taken shorter by more than that,
        and rounding toward zero cannot lengthen a gradient.
        """
        nodes, w = self._checked(nodes, w)
        self.count_reads(nodes)
        w = w.astype(np.float64, copy=False)
        bound = self._record_bound(clip_norm)
        grid = checked_grid(grid, nodes, bound)
        out = np.zeros(w.shape, dtype=np.int64)
        first, last = self.offsets[nodes], self.offsets[nodes + 1]
        in_parts(
            self._kernels.integer_sums,
            len(nodes),
            self.elements(nodes),
            self.kernel_rows,
            self.labels,
            self.kernel_weights,
            self.norms,
            first,
            last,
            w,
            self.kernel_classes,
            self.loss.code,
            self.loss.numbers,
            bound * (1.0 - max(1e-12, self.dim * 2.0**-50)),
            grid,
            out,
            sizes=last - first,
        )
        return out

    def _gradients(
        self,
        w: Array,
        tasks: tuple[Ints, ...],
        factor: Array,
        clip_norm: float | None,
        regularised: bool,
        work: int,
        lengths: Ints | None,
    ) -> Array:
        """work: how many numbers of the table are read; lengths (tasks,): how many records each
        task reads, unless all read as many."""
        owner, first, last, start, records, base = tasks
        l1, l2 = self._penalties(regularised)
        clip = math.inf if clip_norm is None else float(clip_norm)
        norms = _NO_NORMS if clip_norm is None else self.norms
        out, w = new_rows(w.shape, w.dtype), read_only(w)  # one compiled version for all models
        several = len(owner) > len(w)

        def run(owner: Ints, count: int, work: int, sizes: Ints | None) -> None:
            in_parts(
                self._kernels.gradients,
                count,
                work,
                self.kernel_rows,
                self.labels,
                self.kernel_weights,
                norms,
                owner,
                first,
                last,
                start,
                records,
                base,
                w,
                self.kernel_classes,
                self.loss.code,
                self.loss.numbers,
                clip,
                factor,
                l1,
                l2,
                self._adds_in_single and w.dtype == np.float32,
                partial,
                out,
                sizes=sizes,
            )

        partial = np.empty((len(owner) if several else 0, self.dim))
        run(owner, len(owner), work, lengths)
        if several:
            run(NO_RECORDS, len(w), partial.size, None)
        return self._with_weights(out, w, regularised)

    def _penalties(self, regularised: bool) -> tuple[float, float]:
        """(r l1, r l2) as the compiled gradients take them; weights are added behind them."""
        if not regularised or self.regulariser.weighted:
            return 0.0, 0.0
        return self.strength * self.regulariser.l1, self.strength * self.regulariser.l2

    def _with_weights(self, gradients: Array, w: Array, regularised: bool) -> Array:
        if regularised and self.regulariser.weighted:
            gradients += (self.strength * self.regulariser.gradient(w)).astype(w.dtype)
        return gradients

    @staticmethod
    def _refuse_sample(fault: int, rows: int) -> None:
        if fault == 1:
            raise InputError(
                f"indptr must have {rows + 1} entries rising from 0 to the number of records."
            )
        if fault == 2:
            raise InputError(
                "records must be record numbers within each node, from 0 to its size minus 1."
            )

    def _record_bound(self, clip_norm: float | None) -> float:
        """A norm which no record's gradient exceeds: that of clipping, else the loss's own."""
        own = self.loss.slope * float(self.norms.max()) * (1.0 + 1e-9)
        bound = own if clip_norm is None else float(clip_norm)
        if not math.isfinite(bound):
            raise UnsupportedError(
                f"The loss {self.loss.name!r} has no gradient bound; set clip_norm, or use 'huber'."
            )
        return bound
