"""`Table`: the private records of all nodes in one table, and how it is cut into tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacenda._arrays import read_only
from tacenda._types import Array, Floats, Ints
from tacenda.errors import InputError, TacendaError
from tacenda.losses import Loss
from tacenda.regularisers import Regulariser

# A task reads about a megabyte: long beside starting it, short beside a large node. It has at least
# 64 records, so that clearing and adding its one row of sums costs little beside them
_TASK_ELEMENTS, _TASK_RECORDS = 1 << 17, 64
_TASKS_PER_NODE = 16
NO_RECORDS: Ints = np.empty(0, dtype=np.int64)


def _shares(weights: Floats, count: int) -> Floats:
    """Weights of the records, which no bound survives outside 0 to 1."""
    weights = np.ascontiguousarray(weights, np.float64)
    if weights.shape != (count,) or not ((weights >= 0.0) & (weights <= 1.0)).all():
        raise InputError(
            f"weights of a store must be {count} numbers from 0 to 1, one for each record; "
            "divide them by their public bound, which belongs into loss_scale."
        )
    return weights


def checked_grid(grid: Array, nodes: Ints, bound: float) -> Floats:
    """Return a grid for each row (b,) on which a value of at most `bound` fits into 64 bits."""
    grid = np.ascontiguousarray(np.broadcast_to(np.asarray(grid, dtype=np.float64), nodes.shape))
    if not (grid > 0).all() or not np.isfinite(grid).all():
        raise InputError("grid must hold numbers above 0; choose a power of two below the noise.")
    if (bound / grid >= 2.0**61).any():
        raise InputError(
            "grid is so fine that a record's integers could leave 64 bits; choose a coarser grid."
        )
    return read_only(grid)


@dataclass(frozen=True, eq=False)
class Part:
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


class Table:
    """Records of n nodes in one table, the objective they belong to, and checked positions."""

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
        # (N, q) other rows of the same records, for tables beside a training
        self.beside: Floats | None = None

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
        self._last_part: Part | None = None

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

    def kernel_columns(self, norms: Floats) -> Any:
        """The records as the compiled code wants them. norms: theirs, or none at all."""
        from tacenda.questions.kernels.rows import Columns

        return Columns(self.kernel_rows, self.labels, self.kernel_weights, norms)

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
        from tacenda.questions.kernels import gradient as kernels_gradient

        return kernels_gradient

    def elements(self, nodes: Ints) -> int:
        """About how many table entries a pass over these nodes reads."""
        return int(self.sizes[nodes].sum()) * self.row_elements * self.n_outputs

    def count_reads(self, nodes: Ints, passes: float | Floats = 1.0) -> None:
        """Add passes over the records of these nodes to `reads`: one for a gradient, a product with
        the Hessian, or the Hessian itself. (The solver for anchors far away counts none.)"""
        self.reads += float(np.sum(self.sizes[nodes] * passes))

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

    def _part(self, nodes: Ints) -> Part:
        """What gradients of these nodes need besides the models; kept for the next round, which
        asks with the same array, if nobody can change it."""
        if self._last_part is not None and self._last_part.asked is nodes:
            return self._last_part
        at = self._positions(nodes)
        owner, first, last, start = self._tasks(at)
        lengths = last - first
        part = Part(
            nodes,
            at,
            (owner, first, last, start, NO_RECORDS, at),
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

    def _cuts(self, first: int, last: int) -> Ints:
        """Where records first .. last - 1 of the table are cut into tasks."""
        count = last - first
        tasks = max(1, min(count, count * self.row_elements // _TASK_ELEMENTS))
        return first + np.arange(tasks + 1) * count // tasks

    def _record_numbers(self, nodes: Ints) -> Ints:
        """Numbers of these nodes' records in the table, node after node."""
        return np.concatenate([np.arange(*self.offsets[i : i + 2]) for i in nodes])

    def _count_row_elements(self) -> int:
        raise TypeError("Store is a base; use DenseStore or SparseStore.")

    def _square_norms(self) -> Floats:
        raise TypeError("Store is a base; use DenseStore or SparseStore.")
