"""`Problem`: private records of every node, a loss, a regulariser,
and the public bounds that go with them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from tacenda import checks
from tacenda._types import Array, Floats, Ints
from tacenda.errors import InputError, UnsupportedError
from tacenda.losses.stacked import outcome_rows, record_weights, sparse_outcome_rows
from tacenda.privacy.noise.persons import PUBLIC_KEY
from tacenda.questions.constants import LARGEST_RADIUS, SENSIBLE, Constants
from tacenda.questions.solver import reference as solver_reference
from tacenda.questions.store import DenseStore, SparseStore, Store
from tacenda.questions.validate.labels import encode_labels
from tacenda.questions.validate.persons import capped, joined_persons
from tacenda.questions.validate.rows import NORM_SLACK, ByNode, bound_rows, read_shards
from tacenda.questions.validate.weights import joined_weights
from tacenda.terms.problem import Declared, DeclaredOptions
from tacenda.terms.reference import takes

_CHUNK_SCORES = 1 << 20
# Table entries read between two looks at the losses, where nothing is copied
_CHUNK_RECORDS = 1 << 26
_NEARLY_FREE = 1e-9  # the strength of a constant that is not to be regularised
_FEW_SCORES = 4  # up to so many scores a record a pass of our own is faster


@takes(Declared)
class Problem:
    """A convex learning problem over n nodes with private records.

    Minimise sum_i f_i(w), f_i(w) = (c/m_i) sum_j v_ij loss(w; x_ij, y_ij) + r R(w), where v_ij =
    1 without weights.

    Arrays which are already consecutive views of one array are read in place: do not change them
    afterwards. `objective`, `local_objectives`, `loss_of`, `accuracy` and `solve` read private data
    without noise: they are diagnostics of a simulation, and nothing that they return may leave the
    organisation of a real node.

    Parameters
    ----------
    shards : list of (X_i, y_i), or dict
        The records of each node, in the graph's node order or by node label; X_i dense or scipy
        sparse of shape (m_i, p), y_i of shape (m_i,).
    {settings}
    on_large_rows : {"error", "scale"}, default="error"
        What happens to rows above `data_norm`: an error, or they are shortened to it, also those
        of test records. Shorten new rows in the same way before you predict (`data.scale_rows`).
    classes : iterable of object or None, default=None
        The public label set. Without it, the sorted labels found at all nodes are taken as
        public; a private run then warns once.
    public_sizes : array_like or None, default=None
        Declared m_i, one per node, where record counts are themselves private (add-remove
        adjacency).
    weights : sequence of ndarray or None, default=None
        How much each record counts: one array (m_i,) per node, as in `shards`; None counts each
        once. A record's loss is multiplied by its weight, which is as private as the record.
    weight_bound : float, default=1.0
        Public bound on the weights, which are from 0 to `weight_bound`: one record then moves
        every answer by up to `weight_bound` times as much.
    persons : sequence of array_like or None, default=None
        Ids of the persons behind the records: one array (m_i,) per node, as in `shards`, which may
        also carry them (`data.partition.by_person`). At most `records_per_person` records of each
        are kept, drawn at random, before anything else is done with the records.
    records_per_person : int, default=1
        k: the guarantee is for a person with at most k records of one node. Above 1 it needs
        `persons`, and a private run needs `public_sizes`.
    members_per_person : int, default=1
        On how many nodes the same person may be; the guarantee then covers all of them together.
    person_key : bytes or None, default=None
        Secret key of the draw of kept records; None takes a public one, as a simulation may.
    one_record : bool, default=False
        Whether the records of a "person" are rows that were made of one record, so that the
        guarantee is for that record. A loss that makes rows by itself says so.
    fingerprints : ndarray of uint64 or None, default=None
        Of the records as they were read (`Dataset.fingerprints`), in any order: a lasting ledger
        knows the records again by them. None: it knows them by the rows.
    beside : ndarray or None, default=None
        Other rows of all records, node after node, shape (N, q): what tables are counted from that
        are released beside a training (`algorithms.Tabled`).

    Attributes
    ----------
    n_features : int
        p, the number of columns.
    n_outputs : int
        1, or the number of classes of a multinomial problem.
    sizes : ndarray of int
        Records of each node, shape (n,).
    node_labels : tuple
        The graph's names of the nodes.

    Raises
    ------
    InputError
        If rows exceed `data_norm`, labels do not fit the loss, or a value is out of range.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(200, 3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> problem = tc.Problem(shards, loss="logistic", strength=1e-3, classes=(0, 1))
    >>> problem.n_nodes, problem.dim
    (4, 3)
    >>> best = problem.solve()
    >>> problem.objective(best) < problem.objective([0.0, 0.0, 0.0])
    True
    """

    def __init__(
        self,
        shards: Sequence[Any] | Mapping[Any, Any] | ByNode,
        *,
        on_large_rows: str = "error",
        classes: Iterable[Any] | None = None,
        public_sizes: ArrayLike | None = None,
        weights: Any = None,
        weight_bound: float = 1.0,
        persons: Any = None,
        records_per_person: int = 1,
        members_per_person: int = 1,
        person_key: bytes | None = None,
        one_record: bool = False,
        fingerprints: Array | None = None,
        beside: Floats | None = None,
        **settings: Unpack[DeclaredOptions],
    ) -> None:
        # Declarations without sense are refused before any record is read; how many classes there
        # are comes later.
        declared = Constants.declared(classes=2, **settings)
        if weights is not None:
            scale = _scaled_by(weight_bound, declared.loss_scale)
            declared = replace(declared, loss_scale=scale)
        self.loss = declared.loss
        self.regulariser = declared.regulariser
        self.strength = declared.strength
        self.loss_scale = declared.loss_scale
        self.data_norm = declared.data_norm
        self.clip_norm = declared.clip_norm
        self.radius = declared.radius
        checks.one_of("on_large_rows", on_large_rows, ("error", "scale"))
        # Whether rows longer than data_norm are shortened to it: test records then are, too
        self.shortens = on_large_rows == "scale"
        # How the records were spread, where `data.partition` did it
        self.partition: str | None = getattr(shards, "kind", None)
        self.records_per_person = checks.whole("records_per_person", records_per_person, least=1)
        self.members_per_person = checks.whole("members_per_person", members_per_person, least=1)
        self.one_record, self.fingerprints = bool(one_record), fingerprints
        given = getattr(shards, "persons", None) if persons is None else persons
        table = read_shards(shards)
        shares = None if weights is None else joined_weights(table, weights, weight_bound)
        self._persons: Array | None = None
        # Whether each person has exactly records_per_person records, so that counts are public
        self.exactly = False
        if beside is not None and len(beside) != (count := int(table.offsets[-1])):
            raise InputError(
                f"beside has {len(beside)} rows for {count} records; give one for each."
            )
        if given is not None:
            ids = joined_persons(table, given, self.members_per_person)
            key = PUBLIC_KEY if person_key is None else person_key
            table, kept = capped(table, ids, self.records_per_person, key)
            shares = None if shares is None else shares[kept]
            beside = None if beside is None else beside[kept]
            self._persons = np.concatenate(ids)[kept]
            each = np.unique(self._persons, return_counts=True)[1]
            self.exactly = bool(np.all(each == self.records_per_person))
        elif max(self.records_per_person, self.members_per_person) > 1:
            raise InputError(
                "persons must be given where records_per_person or members_per_person is above 1 "
                f"({self.records_per_person} and {self.members_per_person}): one array of ids per "
                "node, so that no person has more records than that."
            )
        labels, self.classes = encode_labels(table, self.loss, classes)
        self._undeclared = classes is None and self.classes is not None
        rows = bound_rows(table, self.data_norm, on_large_rows)
        # Rows that the loss makes of each record
        self.rows_each = 1
        self.node_labels = table.node_labels
        self.n_features = table.n_features
        if self.loss.stacked:
            table, rows, labels = self._stacked(table, rows, labels)
            times = self.rows_each
            shares = None if shares is None else np.repeat(shares, times)
            if beside is not None:  # beside the first row of each record; the others count nowhere
                whole = np.full((len(labels), beside.shape[1]), np.nan)
                whole[::times] = beside
                beside = whole
            if public_sizes is not None:
                public_sizes = np.multiply(public_sizes, float(times))
        self.n_outputs = len(self.classes or ()) if self.loss.kind == "multiclass" else 1
        self.sizes: Ints = np.diff(table.offsets)
        self.public_sizes = _sizes(public_sizes, len(self.sizes))
        self.store = self._store(rows, labels, table.offsets, shares)
        self.store.beside = beside
        self.sizes = self.store.sizes  # the same numbers, once
        self.dtype: np.dtype[Any] = (rows[0] if isinstance(rows, tuple) else rows).dtype
        # Rounding may lift a float32 row above data_norm by a part in a million, and the bounds
        # then hold that too.
        slack = NORM_SLACK[self.dtype] if self.dtype == np.float32 else 0.0
        self.constants = replace(
            declared, data_norm=self.data_norm * (1.0 + slack), n_outputs=self.n_outputs
        )

    def _stacked(self, table: Any, rows: Any, cell: Floats) -> tuple[Any, Any, Floats]:
        """The table, rows and labels of the loss's questions about each record."""
        loss: Any = self.loss
        if self._persons is not None:
            raise UnsupportedError(
                f"persons do not go with the loss {loss.name!r}: it makes several rows of each "
                "record, and its guarantee is for one record; leave records_per_person out."
            )
        each = self.rows_each = loss.questions(len(self.classes or ()))
        asked, yes = loss.answers(cell.astype(np.int64), each)
        if isinstance(rows, tuple):
            from scipy.sparse import csr_array

            whole = csr_array(rows, shape=(len(cell), table.n_features))
            found = sparse_outcome_rows(whole, asked)
            indices = found.indices.astype(rows[1].dtype), found.indptr.astype(rows[2].dtype)
            rows = (found.data, *indices)
        else:
            rows = outcome_rows(rows, asked)
        self.n_features += each - 1
        if each > 1:
            self.records_per_person, self.one_record, self.exactly = each, True, True
        return replace(table, offsets=table.offsets * each), rows, np.where(yes, 1.0, -1.0).ravel()

    @classmethod
    def from_arrays(cls, X: Any, y: ArrayLike, sizes: ArrayLike, **options: Any) -> Problem:
        """A problem from one table whose records stand node after node.

        The same problem as `Problem([(X[:m0], y[:m0]), (X[m0:m0 + m1], ...), ...])`, without an
        object for each node: a million nodes take about a second. X is read in place where it is a
        C-contiguous array of float64 or float32: do not change it afterwards.

        Parameters
        ----------
        X : array_like or scipy sparse
            All records, shape (N, p).
        y : array_like
            Their labels, shape (N,).
        sizes : int or array_like of int
            How many records each node has, in the graph's node order; one number if all have as
            many.
        **options : object
            As for `Problem`; `weights` and `persons` are arrays (N,) here.

        Raises
        ------
        InputError
            As for `Problem`, and if the sizes do not add up to the number of records.

        Examples
        --------
        >>> import tacenda as tc
        >>> data = tc.data.make_classification(200, 3, seed=0)
        >>> problem = tc.Problem.from_arrays(data.X, data.y, 50, classes=(0, 1))
        >>> problem.n_nodes, problem.sizes.tolist()
        (4, [50, 50, 50, 50])
        """
        return cls(ByNode(X, y, sizes), **options)

    def _store(self, rows: Any, labels: Floats, offsets: Ints, weights: Floats | None) -> Store:
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
            weights=weights,
        )

    def declaration_missing(self) -> str | None:
        """What a private run should warn of: a label set that was read from the labels.

        Result: the warning, once for each problem; None where the classes were declared.
        """
        if not self._undeclared:
            return None
        self._undeclared = False
        return (
            "classes is not declared: the label set was read from the private labels and "
            "counts as public. Declare it from public knowledge, as in Problem(..., "
            "classes=('no', 'yes'))."
        )

    @property
    def n_nodes(self) -> int:
        """n: the number of nodes."""
        return len(self.sizes)

    @property
    def dim(self) -> int:
        """d: the length of a node's model, n_outputs * n_features."""
        return self.n_outputs * self.n_features

    @property
    def record_features(self) -> int:
        """The number of columns of a record, from which the loss may make longer rows."""
        return self.n_features - self.rows_each + 1

    def matrix_of(self, w: ArrayLike) -> Floats:
        """The weights of a record's scores under one model (d,).

        (K, p), or (T, p) for a loss that makes T rows of each record.
        """
        if not self.loss.stacked:
            return np.asarray(w, np.float64).reshape(self.n_outputs, self.n_features)
        return record_weights(np.asarray(w), self.rows_each)

    def record_scores(self, w: ArrayLike) -> tuple[Floats, Ints]:
        """(scores (N, T), outcomes (N,)) of the records here, where the loss makes T rows of each.

        Reads private data without noise. Of a record about which nothing is asked the scores mean
        nothing, and no measure reads them.
        """
        loss: Any = self.loss
        store, t = self.store, self.rows_each
        rows: Any = store.rows
        if isinstance(rows, tuple):
            from scipy.sparse import csr_array

            rows = csr_array(rows, shape=(len(store.labels), self.n_features))
            last = rows[:, -t:].toarray()
        else:
            last = rows[:, -t:]
        constants = np.abs(last).max(axis=1).reshape(-1, t).astype(np.float64)
        asked = constants > 0
        weights, whole = np.asarray(w, np.float64).reshape(-1), constants.max(axis=1)
        plain = store.scores(0, len(store.labels), weights).reshape(-1, t)
        own = weights[-t:] * whole[:, None]
        shared = np.where(asked, plain - own, 0.0).sum(axis=1) / np.maximum(asked.sum(axis=1), 1)
        yes = (store.labels > 0).reshape(-1, t) & asked
        return shared[:, None] + own, loss.cells(asked, yes)

    def of_records(self) -> Problem:
        """The records from which a stacked loss made rows, each once.

        A problem of as many classes as there are outcomes: what an evaluation counts.
        """
        from tacenda.losses.multinomial import Multinomial

        loss: Any = self.loss
        t, count, rows = self.rows_each, len(self.store.labels) // self.rows_each, self.store.rows
        p = self.record_features
        if isinstance(rows, tuple):
            from scipy.sparse import csr_array, hstack

            whole = csr_array(rows, shape=(count * t, self.n_features))
            constants = whole[:, -t:].toarray().max(axis=1)
            whole = csr_array(hstack([whole[:, : p - 1], constants[:, None]], format="csr"))
        else:
            whole = np.column_stack([rows[:, : p - 1], rows[:, -t:].max(axis=1)])
            constants = whole[:, -1]
        asked = (constants > 0).reshape(count, t)
        cell = loss.cells(asked, (self.store.labels > 0).reshape(count, t) & asked)
        first = np.arange(count) * t + asked.argmax(axis=1)
        sizes = None if self.public_sizes is None else self.public_sizes / t
        own = whole[first]
        return Problem.from_arrays(
            own,
            cell,
            self.sizes // t,
            loss=Multinomial(),
            data_norm=self.data_norm,
            classes=range(len(self.classes or ())),
            public_sizes=sizes,
            fingerprints=self.fingerprints,
        )

    def largest_constant(self) -> float:
        """The largest last feature, which is a constant where the model has one."""
        rows: Any = self.store.rows
        if isinstance(rows, tuple):
            from scipy.sparse import csr_array

            rows = csr_array(rows, shape=(len(self.store.labels), self.n_features))
            return float(rows[:, [self.n_features - 1]].max())
        return float(rows[:, -1].max())

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
        """(1/n) sum_i f_i(w). Reads private data without noise.

        w: one model of shape (d,), or several as rows of (k, d). Result: a number for one model,
        (k,) values for several.
        """
        rows, single = self._models(w)
        weights = np.repeat(self.loss_scale / (self.n_nodes * self.divisors), self.sizes)
        total = self._weighted(rows, weights) + self.strength * self.regulariser.value(rows)
        return float(total[0]) if single else total

    def loss_of(self, w: ArrayLike) -> Any:
        """Mean weighted loss over all records, without c and r R. Reads private data without noise.

        w: one model of shape (d,), or several as rows of (k, d). Result: a number for one model,
        (k,) values for several.
        """
        rows, single = self._models(w)
        total = self._weighted(rows, np.full(len(self.store.labels), 1.0 / len(self.store.labels)))
        return float(total[0]) if single else total

    def local_objectives(self, w: ArrayLike) -> Floats:
        """f_i(w_i) of each node at its own model. Reads private data without noise.

        w: shape (n, d), one row per node.
        """
        rows, _ = self._models(w)
        data = self.loss_scale * self.local_losses(rows) * self.sizes / self.divisors
        return np.asarray(data + self.strength * self.regulariser.value(rows))

    def local_losses(self, w: ArrayLike) -> Floats:
        """Mean loss of each node's own model over its own records, without c and r R.

        Reads private data without noise.

        w: shape (n, d), one row per node.
        """
        rows, _ = self._models(w)
        return np.asarray(self.store.losses(np.arange(self.n_nodes), rows))

    def accuracy(self, w: ArrayLike) -> Any:
        """Share of all records classified correctly. Reads private data without noise.

        w: one model of shape (d,), or several as rows of (k, d). Result: a number for one model,
        (k,) values for several; None for a regression.
        """
        if not self.loss.classifies:
            return None
        rows, single = self._models(w)
        right = np.zeros(len(rows))
        for a, b, scores in self._score_chunks(rows):
            for k in range(len(rows)):
                right[k] += self.store.right(scores[:, k], self.store.labels[a:b]).sum()
        right /= len(self.store.labels)
        return float(right[0]) if single else right

    def predict_scores(self, x: Any, w: ArrayLike) -> Array:
        """Scores of new records under one model.

        x: new records, shape (N, p). w: one model, shape (d,). Result: shape (N,), or (N, K) for K
        classes or questions.
        """
        rows, single = self._models(w)
        if not single or getattr(x, "ndim", 2) != 2:
            raise InputError(
                "predict_scores takes records of shape (N, p) and one model of shape (d,)."
            )
        scores = np.asarray(x @ self.matrix_of(rows[0]).T)
        return scores if self.n_outputs > 1 or self.loss.stacked else scores[:, 0]

    # ---- other problems of the same records, for comparison; nothing is copied but one column
    def pooled(self) -> Problem:
        """All records as those of a single node: what a trusted server would hold."""
        declared = None if self.public_sizes is None else self.public_sizes.sum(keepdims=True)
        count = len(self.store.labels)
        found = self._part(slice(0, count), np.array([0, count]), declared)
        found.records_per_person = self.records_per_person * self.members_per_person
        found.exactly = self.exactly and self.members_per_person == 1
        found.members_per_person = 1
        found.fingerprints = self.fingerprints
        return found

    def of_node(self, position: int) -> Problem:
        """One node's records, as a problem of that node alone."""
        return self.of_nodes([position])

    def of_nodes(self, positions: ArrayLike) -> Problem:
        """Some nodes' records, as a problem of those nodes; a copy, where they are not consecutive.

        positions: positions of the nodes, in the order that the new problem has them in.
        """
        at, before = np.asarray(positions, np.int64), self.store.offsets
        counts = self.sizes[at]
        offsets = np.concatenate([np.zeros(1, before.dtype), np.cumsum(counts)])
        records: slice | Ints = slice(int(before[at[0]]), int(before[at[-1] + 1]))
        if not np.array_equal(at, np.arange(at[0], at[0] + len(at))):
            records = np.arange(offsets[-1]) + np.repeat(before[at] - offsets[:-1], counts)
        sizes = self.public_sizes
        return self._part(records, offsets, None if sizes is None else sizes[at])

    def with_one_feature(self, position: int | None) -> Problem:
        """The records with one of their features only.

        position: which feature; None takes a constant 1, which is as good as not regularised.
        """
        rows: Any = self.store.rows
        if position is None and self.loss.stacked:  # the constants of its questions
            count, t = len(self.store.labels), self.rows_each
            if isinstance(rows, tuple):
                from scipy.sparse import csr_array

                rows = csr_array(rows, shape=(count, self.n_features))[:, -t:].toarray()
            column = np.ascontiguousarray(rows[:, -t:] != 0, np.float64)
        elif position is None:
            column = np.ones((len(self.store.labels), 1))
        elif isinstance(rows, tuple):
            from scipy.sparse import csr_array

            whole = csr_array(rows, shape=(len(self.store.labels), self.n_features))
            column = whole[:, [position]].toarray()
        else:
            column = np.ascontiguousarray(rows[:, position : position + 1])
        found = copy.copy(self)
        found.n_features = column.shape[1]
        found.strength = min(self.strength, _NEARLY_FREE) if position is None else self.strength
        store = self.store
        found.store = found._store(column, store.labels, store.offsets, store.weights)
        found.dtype = column.dtype
        return found

    def _part(self, records: slice | Ints, offsets: Ints, public_sizes: Floats | None) -> Problem:
        rows: Any = self.store.rows
        if isinstance(rows, tuple):
            values, indices, starts = rows
            lengths = np.diff(starts)[records]
            found_starts = np.concatenate([starts[:1] * 0, np.cumsum(lengths, dtype=starts.dtype)])
            if isinstance(records, slice):
                kept: Any = slice(int(starts[records.start]), int(starts[records.stop]))
            else:
                shift = starts[:-1][records] - found_starts[:-1]
                kept = np.arange(found_starts[-1]) + np.repeat(shift, lengths)
            rows = (values[kept], indices[kept], found_starts)
        else:
            rows = rows[records]
        found = copy.copy(self)
        found.node_labels, found.partition, found.fingerprints = None, None, None
        offsets = offsets.astype(self.store.offsets.dtype, copy=False)
        found.sizes, found.public_sizes = np.diff(offsets), public_sizes
        found._persons = None if self._persons is None else self._persons[records]
        weights = None if self.store.weights is None else self.store.weights[records]
        found.store = found._store(rows, self.store.labels[records], offsets, weights)
        found.store.beside = None if self.store.beside is None else self.store.beside[records]
        return found

    def solve(self, tolerance: float = 1e-10) -> Floats:
        """Centralised optimum of (1/n) sum_i f_i. Reads private data without noise.

        It is the reference of a simulation. Smooth problems are solved to gradient norm
        `tolerance`; the others to that optimality residual or duality gap.

        tolerance: when to stop, above 0. Result: the optimal model, shape (d,).
        """
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
        if self.store.weights is not None:
            weights = weights * self.store.weights
        total = np.zeros(len(models))
        for a, b, scores in self._score_chunks(models):
            scores = scores if self.n_outputs > 1 else scores[:, :, 0]
            labels = np.broadcast_to(self.store.labels[a:b, None], (b - a, len(models)))
            total += weights[a:b] @ self.loss.value(scores, labels)
        return total


def _scaled_by(weight_bound: float, loss_scale: float) -> float:
    """c times the bound of the weights: these are kept as shares of it, from 0 to 1, so that every
    bound on a record holds as it stands, and each answer grows by the bound through c alone."""
    bound = checks.between("weight_bound", weight_bound, *SENSIBLE, open_ends=False)
    return bound * loss_scale


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
