"""The private records of all nodes in one table, and the plain arrays which queries are made of.

Nothing here is private by itself: `tacenda.problem.queries` wraps what these methods return.
`nodes` is always an int64 array (b,) of node positions, the rows of every other argument belong to
them, and a node's row of the result does not depend on the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacenda._arrays import read_only
from tacenda._types import Array, Flags, Floats, Ints
from tacenda.errors import InputError, TacendaError, UnsupportedError
from tacenda.problem.losses import Loss
from tacenda.problem.moments import check_matrix, moment_length, packed_length
from tacenda.problem.regularisers import Regulariser
from tacenda.problem.statistics import Records, Statistic, block_records, enforced
from tacenda.rows import new_rows
from tacenda.threads import PARALLEL_ELEMENTS, in_parts

# A task reads about a megabyte: long beside starting it, short beside a large node. It has at least
# 64 records, so that clearing and adding its one row of sums costs little beside them
_TASK_ELEMENTS, _TASK_RECORDS = 1 << 17, 64
_TASKS_PER_NODE = 16
_NO_RECORDS: Ints = np.empty(0, dtype=np.int64)
_NO_NORMS: Floats = np.empty(0)


def _shares(weights: Floats, count: int) -> Floats:
    """Weights of the records, which no bound survives outside 0 to 1."""
    weights = np.ascontiguousarray(weights, np.float64)
    if weights.shape != (count,) or not ((weights >= 0.0) & (weights <= 1.0)).all():
        raise InputError(
            f"weights of a store must be {count} numbers from 0 to 1, one for each record; "
            "divide them by their public bound, which belongs into loss_scale."
        )
    return weights


def _grid(grid: Array, nodes: Ints) -> Floats:
    """(b,) a grid for each row."""
    grid = np.ascontiguousarray(np.broadcast_to(np.asarray(grid, dtype=np.float64), nodes.shape))
    if not (grid > 0).all() or not np.isfinite(grid).all():
        raise InputError("grid must hold numbers above 0; choose a power of two below the noise.")
    return grid


@dataclass(frozen=True, eq=False)
class _Part:
    """Some nodes, checked: positions `nodes` (b,), as they were `asked` for; how their records are
    cut into `tasks`, and how long these are, None if all alike; c/m_i (b,); where their records
    `begin` (b,); numbers (b + 1,) from 0; and how many `records` they have."""

    asked: Ints
    nodes: Ints
    tasks: tuple[Ints, ...]
    lengths: Ints | None
    factor: Floats
    begin: Ints
    numbers: Ints
    records: float


class Store:
    """Records of n nodes in one table; the base of `DenseStore` and `SparseStore`, which differ in
    the table only."""

    def __init__(
        self,
        rows: Any,
        labels: Floats,
        offsets: Ints,
        *,
        n_features: int,
        n_outputs: int,
        loss: Loss,
        regulariser: Regulariser,
        strength: float,
        loss_scale: float,
        divisors: Floats,
        weights: Floats | None = None,
        row_elements: int | None = None,
    ) -> None:
        self.rows, self.labels, self.offsets = rows, labels, offsets
        self.n_features, self.n_outputs = n_features, n_outputs
        self.loss, self.regulariser = loss, regulariser
        self.strength, self.loss_scale, self.divisors = strength, loss_scale, divisors
        self.weights = None if weights is None else _shares(weights, len(labels))
        sizes = np.diff(offsets)
        sizes.setflags(write=False)  # compiled code relies on them
        self.sizes: Ints = sizes
        self.cut_for(self._count_row_elements() if row_elements is None else row_elements)
        self._norms: Floats | None = None
        self._chords: Any = None
        # How many records were read so far, each as often as it was: what a run's work is told by
        self.reads = np.zeros(1)
        self._kernel_rows: tuple[Any, Any] | None = None

    @cached_property
    def _adds_in_single(self) -> bool:
        """Whether gradients at float32 points are added up in float32 before they move to float64
        (`kernels.rows.accumulator`)."""
        sparse = isinstance(self.rows, tuple)
        return self.n_outputs == 1 and not sparse and self.rows.dtype == np.float32

    def cut_for(self, row_elements: int) -> None:
        """Cut the nodes' records into tasks as in a table with so many numbers in a row: the
        records of some nodes must be cut as the whole table's, or sums differ in their last bit."""
        self.row_elements = row_elements
        most = np.minimum(self.sizes * row_elements // _TASK_ELEMENTS, self.sizes // _TASK_RECORDS)
        self._tasks_of: Ints = np.clip(most, 1, _TASKS_PER_NODE)
        # Whether the records of every node are added up in one go
        self.one_task_each = bool(self._tasks_of.max() == 1)
        self._last_part: _Part | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_nodes={self.n_nodes}, dim={self.dim})"

    def __reduce__(self) -> Any:
        raise TacendaError(
            "A store holds private records and is not pickled; "
            "build the Problem again where it is needed."
        )

    @property
    def n_nodes(self) -> int:
        return len(self.sizes)

    @property
    def dim(self) -> int:
        return self.n_features * self.n_outputs

    @property
    def norms(self) -> Floats:
        """The l2 norm of every record, computed when clipping first needs it."""
        if self._norms is None:
            self._norms = np.sqrt(self._square_norms())
        return self._norms

    @property
    def nbytes(self) -> int:
        """Bytes of the table and its labels."""
        parts = self.rows if isinstance(self.rows, tuple) else (self.rows,)
        return int(sum(part.nbytes for part in parts)) + self.labels.nbytes

    @property
    def kernel_weights(self) -> Any:
        """What each record counts, (N,) from 0 to 1, as the compiled code wants it: the number 1
        where all count the same."""
        return 1.0 if self.weights is None else self.weights

    @property
    def kernel_classes(self) -> int | None:
        """How many scores the loss has, as the compiled code wants it: None for one, so that what
        only several need is not compiled."""
        return None if self.n_outputs == 1 else self.n_outputs

    @property
    def kernel_rows(self) -> Any:
        """The table as the compiled code wants it: an array, or CSR arrays with unsigned integers.

        Views, not copies, and always read-only, so that one compiled version serves all tables of a
        type.
        """
        if self._kernel_rows is None or self._kernel_rows[0] is not self.rows:
            self._kernel_rows = (self.rows, self._views())
        return self._kernel_rows[1]

    def _views(self) -> Any:
        if isinstance(self.rows, tuple):
            data, indices, indptr = self.rows
            return (
                read_only(data),
                read_only(indices.view(np.uint32)),
                read_only(indptr.view(np.uint64)),
            )
        return read_only(self.rows)

    @cached_property
    def _kernels(self) -> Any:
        """The compiled gradients; the compiler is loaded when first needed."""
        from tacenda.problem.kernels import gradient as kernels_gradient

        return kernels_gradient

    @cached_property
    def _moment_kernels(self) -> Any:
        """The compiled second moments."""
        from tacenda.problem.kernels import moments as kernels_moments

        return kernels_moments

    @cached_property
    def _mapping_kernels(self) -> Any:
        """The compiled maps."""
        from tacenda.problem.kernels import mapping as kernels_mapping

        return kernels_mapping

    def elements(self, nodes: Ints) -> int:
        """About how many table entries a pass over these nodes reads."""
        return int(self.sizes[nodes].sum()) * self.row_elements * self.n_outputs

    def count_reads(self, nodes: Ints, passes: float | Floats = 1.0) -> None:
        """Add passes over the records of these nodes to `reads`: one for a gradient, a product with
        the Hessian, or the Hessian itself. (The solver for anchors far away counts none.)"""
        self.reads += float(np.sum(self.sizes[nodes] * passes))

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
        grid = _grid(grid, nodes)
        bound = self._record_bound(clip_norm)
        if (bound / grid >= 2.0**61).any():
            raise InputError(
                "grid is so fine that a record's integers could leave 64 bits; "
                "choose a coarser grid."
            )
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

    def second_moment(
        self,
        nodes: Ints,
        norm: float,
        label_scale: float,
        label_bound: float,
        diagonal: bool = False,
    ) -> Floats:
        """(1/m_i) sum_j z z' for each row, packed (`problem.moments`); float64 (b, q (q + 1)/2), or
        (b, q) of its diagonal alone.

        z = x_j, cut to `norm`, and behind it label_scale * y_j, with y_j cut to label_bound, unless
        label_scale is 0.
        """
        nodes = self._positions(nodes)
        self.count_reads(nodes)
        width = self.n_features + (label_scale != 0.0)
        kernels = self._moment_kernels
        out = np.empty((len(nodes), moment_length(width, diagonal)))
        in_parts(
            kernels.diagonals if diagonal else kernels.second_moments,
            len(nodes),
            self._moment_work(nodes, width, diagonal),
            self.kernel_rows,
            self.labels,
            self.kernel_weights,
            self.norms,
            self.offsets[nodes],
            self.offsets[nodes + 1],
            float(norm),
            float(label_scale),
            float(label_bound),
            width,
            self.divisors[nodes],
            out,
            sizes=self.sizes[nodes],
        )
        return out

    def _moment_work(self, nodes: Ints, width: int, diagonal: bool) -> int:
        """About how many numbers a second moment of these nodes takes."""
        return width * (int(self.sizes[nodes].sum()) if diagonal else self.elements(nodes))

    def integer_second_moment(
        self,
        nodes: Ints,
        grid: Array,
        norm: float,
        label_scale: float,
        label_bound: float,
        diagonal: bool = False,
    ) -> Ints:
        """sum_j trunc(z z' / grid_k), packed, or its diagonal alone, as int64; z as in
        `second_moment`.

        Exact for every float: with T = B^2/grid_k, B^2 = norm^2 + (label_scale label_bound)^2, one
        record moves row k by at most T when it comes or goes, and by at most sqrt(2) T when it is
        replaced. Rounding toward zero lengthens nothing; but between two records it may turn an
        inner product that is at least 0 into one of -sqrt(P) (|u| + |v|), P = q (q + 1)/2. So every
        z is cut to |z|^2 <= (T - sqrt(P)) grid_k, and by a little more for the rounding of floats.
        On the diagonal nothing is below 0, rounded or not: there only the latter is cut.
        """
        nodes = self._positions(nodes)
        self.count_reads(nodes)
        width = self.n_features + (label_scale != 0.0)
        grid = _grid(grid, nodes)
        square = norm**2 + (label_scale * label_bound) ** 2
        room = square - (0.0 if diagonal else math.sqrt(packed_length(width))) * grid
        if (room < 0.5 * square).any():
            raise InputError(
                "grid is so coarse that rounding to it would take more than half of a second "
                "moment; choose a finer grid."
            )
        if (square / grid >= 2.0**61).any():
            raise InputError(
                "grid is so fine that a record's integers could leave 64 bits; "
                "choose a coarser grid."
            )
        kernels = self._moment_kernels
        out = np.zeros((len(nodes), moment_length(width, diagonal)), dtype=np.int64)
        in_parts(
            kernels.integer_diagonals if diagonal else kernels.integer_moments,
            len(nodes),
            self._moment_work(nodes, width, diagonal),
            self.kernel_rows,
            self.labels,
            self.kernel_weights,
            self.norms,
            self.offsets[nodes],
            self.offsets[nodes + 1],
            float(norm),
            float(label_scale),
            float(label_bound),
            width,
            np.sqrt(room) * (1.0 - max(1e-12, width * 2.0**-50)),
            grid,
            out,
            sizes=self.sizes[nodes],
        )
        return out

    def statistic(self, nodes: Ints, statistic: Statistic, w: Array) -> Floats:
        """sum_j v_j vector_j for each row, float64 (b, length): the records' vectors at the row's
        own model w_k, each as the statistic declares (`statistics.enforced`)."""
        nodes, w = self._checked(nodes, w)
        out = np.zeros((len(nodes), statistic.length))
        for k, vectors in self._vectors(nodes, statistic, w):
            out[k] += vectors.sum(axis=0)
        return out

    def integer_statistic(self, nodes: Ints, statistic: Statistic, w: Array, grid: Array) -> Ints:
        """sum_j trunc(v_j vector_j / grid_k) as int64 (b, length).

        Exact for every float: rounding toward zero lengthens no vector and turns no sign, so one
        record moves row k by at most norm/grid_k when it comes or goes.
        """
        nodes, w = self._checked(nodes, w)
        grid = _grid(grid, nodes)
        if (statistic.norm / grid >= 2.0**61).any():
            raise InputError(
                "grid is so fine that a record's integers could leave 64 bits; "
                "choose a coarser grid."
            )
        out = np.zeros((len(nodes), statistic.length), np.int64)
        for k, vectors in self._vectors(nodes, statistic, w):
            out[k] += np.trunc(vectors / grid[k]).astype(np.int64).sum(axis=0)
        return out

    def _vectors(self, nodes: Ints, statistic: Statistic, w: Array) -> Iterator[tuple[int, Floats]]:
        """(row, vectors of some of its node's records), block after block."""
        self.count_reads(nodes)
        most = block_records(statistic)
        for k, node in enumerate(nodes):
            model = np.asarray(w[k], np.float64)
            for first in range(self.offsets[node], self.offsets[node + 1], most):
                last = min(first + most, int(self.offsets[node + 1]))
                with np.errstate(all="ignore"):
                    found = statistic.vectors(self._records(first, last), model)
                    vectors = enforced(found, last - first, statistic)
                if self.weights is not None:
                    vectors *= self.weights[first:last, None]
                yield k, vectors

    def _records(self, first: int, last: int) -> Records:
        """The table's records first .. last - 1, read-only."""
        rows: Any
        if isinstance(self.rows, tuple):
            from scipy.sparse import csr_array

            data, indices, indptr = self.rows
            span = slice(indptr[first], indptr[last])
            ends = indptr[first : last + 1] - indptr[first]
            rows = csr_array(
                (data[span].copy(), indices[span].copy(), ends),
                shape=(last - first, self.n_features),
            )
        else:
            rows = read_only(self.rows[first:last])
        return Records(
            rows,
            read_only(self.labels[first:last]),
            self.n_outputs,
            self.loss.kind,
            lambda model: self.scores(first, last, model),
        )

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
        taken = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])
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
        records = np.concatenate([np.arange(*self.offsets[i : i + 2]) for i in nodes])
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
        from tacenda.problem.solver import local as solver

        nodes, start = self._checked(nodes, start)
        return solver.argmin(self, nodes, linear, quadratic, centre, start, tolerance, remember)

    def argmin_around(
        self, nodes: Ints, anchor: Array, convexity: Array, tolerance: float
    ) -> Floats:
        """argmin_u (c/m_i) sum_j loss(anchor_k + u; x_j, y_j) + (convexity_k/2) |u|^2 for each row,
        float64 (b, d); convexity (b,), or (b, d): one for each coordinate."""
        from tacenda.problem.solver import around as solver_around

        nodes, anchor = self._checked(nodes, anchor)
        return solver_around.argmin(
            self, nodes, anchor.astype(np.float64), np.asarray(convexity, np.float64), tolerance
        )

    def chords(self) -> Any:
        """The argmin's cache of inverse Hessians, made when first needed."""
        from tacenda.problem.solver.local import Chords

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
        from tacenda.problem.solver import local as solver

        self._chords = None
        if len(state["ridges"]):
            self._chords = solver.restored(self, state)

    def margins(self, nodes: Ints, w: Array) -> tuple[Array, Array, Ints]:
        """Scores (M, K) of all records of the nodes at their own rows of w, their labels (M,), and
        where each node starts.
        """
        nodes, w = self._checked(nodes, w)
        owner, first, last, start = self._tasks(nodes)
        place = np.cumsum(last - first) - (last - first)
        begin = place[start[:-1]]
        scores = np.empty((int(self.sizes[nodes].sum()), self.n_outputs))
        in_parts(
            self._kernels.margins,
            len(owner),
            self.elements(nodes),
            self.kernel_rows,
            owner,
            first,
            last,
            place,
            w,
            self.n_outputs,
            scores,
            sizes=last - first,
        )
        within = np.arange(len(scores)) - np.repeat(begin, self.sizes[nodes])
        return (
            scores,
            self.labels[within + np.repeat(self.offsets[nodes], self.sizes[nodes])],
            begin,
        )

    def scores(self, first: int, last: int, model: Array) -> Floats:
        """Scores (last - first, K) of the table's records first ..
        last - 1 under one model (d,), in float64."""
        out = np.empty((last - first, self.n_outputs))
        tasks = max(1, min(len(out), len(out) * self.row_elements // _TASK_ELEMENTS))
        cuts = first + np.arange(tasks + 1) * len(out) // tasks
        in_parts(
            self._kernels.margins,
            tasks,
            len(out) * self.row_elements * self.n_outputs,
            self.kernel_rows,
            np.zeros(tasks, np.int64),
            cuts[:-1],
            cuts[1:],
            cuts[:-1] - first,
            np.ascontiguousarray(model, np.float64)[None],
            self.n_outputs,
            out,
        )
        return out

    def losses(self, nodes: Ints, w: Array) -> Floats:
        """Mean of each node's weighted losses at its own row of w, (b,);
        unscaled and without the regulariser."""
        scores, labels, begin = self.margins(nodes, w)
        values = self.loss.value(scores if self.n_outputs > 1 else scores[:, 0], labels)
        if self.weights is not None:
            spans = zip(self.offsets[nodes], self.offsets[nodes + 1], strict=True)
            values = values * np.concatenate([self.weights[a:b] for a, b in spans])
        return np.asarray(np.add.reduceat(values, begin) / self.sizes[nodes])

    def correct(self, nodes: Ints, w: Array) -> Ints:
        """How many of each node's records its own row of w classifies rightly, (b,)."""
        if self.loss.kind == "regression":
            raise UnsupportedError(
                f"correct counts class labels, and the loss {self.loss.name!r} has none; "
                "use losses."
            )
        scores, labels, begin = self.margins(nodes, w)
        return np.add.reduceat(self.right(scores, labels).astype(np.int64), begin)

    def right(self, scores: Array, labels: Array) -> Flags:
        """Whether scores (M, K), or (M,) for two classes, pick the label; a score of exactly 0
        counts as the positive class."""
        if self.n_outputs > 1:
            return np.asarray(scores.argmax(axis=1) == labels)
        return np.asarray((scores.reshape(-1) >= 0) == (labels > 0))

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
        out = new_rows(w.shape, w.dtype)
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
            run(_NO_RECORDS, len(w), partial.size, None)
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

    def _tasks(self, nodes: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """(owner, first, last, start): how the nodes' records are cut;
        depends on each node's own size only."""
        if self.one_task_each:
            start = np.arange(len(nodes) + 1)
            return start[:-1], self.offsets[nodes], self.offsets[nodes + 1], start
        counts = self._tasks_of[nodes]
        start = np.concatenate([[0], np.cumsum(counts)])
        owner = np.repeat(np.arange(len(nodes)), counts)
        number, size = np.arange(start[-1]) - start[owner], self.sizes[nodes][owner]
        first = self.offsets[nodes][owner] + number * size // counts[owner]
        last = self.offsets[nodes][owner] + (number + 1) * size // counts[owner]
        return owner, first, last, start

    def _part(self, nodes: Ints) -> _Part:
        """What gradients of these nodes need besides the models; kept for the next round, which
        asks with the same array, if nobody can change it."""
        if self._last_part is not None and self._last_part.asked is nodes:
            return self._last_part
        at = self._positions(nodes)
        owner, first, last, start = self._tasks(at)
        lengths = last - first
        part = _Part(
            nodes,
            at,
            (owner, first, last, start, _NO_RECORDS, at),
            None if len(lengths) == 0 or (lengths == lengths[0]).all() else lengths,
            self.loss_scale / self.divisors[at],
            first if self.one_task_each else self.offsets[at],
            start if self.one_task_each else np.arange(len(at) + 1),
            float(self.sizes[at].sum()),
        )
        if not nodes.flags.writeable:
            self._last_part = part
        return part

    def _checked(self, nodes: Ints, w: Array) -> tuple[Ints, Array]:
        nodes = self._positions(nodes)
        return nodes, self._models(nodes, w)

    def _models(self, nodes: Ints, w: Array) -> Array:
        w = np.ascontiguousarray(w)
        if w.dtype not in (np.float32, np.float64):
            w = w.astype(np.float64)
        if w.shape != (len(nodes), self.dim):
            raise InputError(
                f"w must have shape ({len(nodes)}, {self.dim}), one row per node, not {w.shape}."
            )
        return w

    def _positions(self, nodes: Ints) -> Ints:
        nodes = np.ascontiguousarray(nodes, dtype=np.int64)
        if not self._kernels.are_positions(nodes, self.n_nodes):
            raise InputError(f"nodes must be positions from 0 to {self.n_nodes - 1}.")
        return nodes

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

    def _count_row_elements(self) -> int:
        raise TypeError("Store is a base; use DenseStore or SparseStore.")

    def _square_norms(self) -> Floats:
        raise TypeError("Store is a base; use DenseStore or SparseStore.")


class DenseStore(Store):
    """Records as a C-contiguous table (N, p) of float64 or float32."""

    def _count_row_elements(self) -> int:
        return self.n_features

    def _square_norms(self) -> Floats:
        from tacenda.problem.validate.rows import square_norms

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
        from tacenda.problem.validate.rows import square_norms

        return square_norms(self.rows)
