"""The shards of this process, in a network whose other nodes may be in other processes, and what a
simulation reads from all of them without noise."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.errors import InputError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.privacy.adjacency import counts_are_public
from tacenda.problem.problem import Problem
from tacenda.questions.facts import Facts
from tacenda.questions.store import SparseStore
from tacenda.questions.validate.persons import refuse_spread
from tacenda.runtime.ranks import ALONE, Ranks
from tacenda.runtime.spec import match

_CHUNK = 1 << 20  # records that are looked at together


@dataclass(frozen=True, eq=False)
class LocalShards:
    """problem: the nodes here alone; parts: the nodes of every block, or of every rank where there
    are several; whole: the problem of all nodes, where this process was given it.

    A value of all nodes is made of one value for each node, gathered in the graph's order and then
    added up: so it does not depend on who holds which node, to the last bit.
    """

    problem: Problem
    parts: list[Array]
    ranks: Ranks = ALONE
    whole: Problem | None = None

    @classmethod
    def of(
        cls, problem: Problem, graph: Any, blocks: Any, ranks: Ranks
    ) -> tuple[LocalShards, Topology]:
        """The nodes of `graph` that are this process's, and the graph; the problem may be that of
        all nodes, or of this rank's alone."""
        if ranks.size == 1:
            topology = match(problem, graph)
            return cls(problem, ranks.parts(topology, blocks), whole=problem), topology
        topology = Topology.of(graph)
        parts = ranks.parts(topology, blocks)
        here = parts[ranks.rank]

        def own() -> tuple[Problem, Problem | None]:
            if problem.n_nodes == topology.n:
                match(problem, graph)
                return problem.of_nodes(here), problem
            if problem.n_nodes != len(here) or problem.node_labels is not None:
                raise InputError(
                    f"problem must hold the records of all {topology.n} nodes, or those of this "
                    f"rank's {len(here)} as a list in the order of MPI.nodes(graph), not of "
                    f"{problem.n_nodes} nodes."
                )
            return problem, None

        mine, whole = ranks.agreed(own, "taking its nodes' records")
        shards = cls(mine, parts, ranks, whole)
        if isinstance(mine.store, SparseStore):
            totals = ranks.total(np.array([len(mine.store.rows[0]), len(mine.store.labels)]))
            mine.store.cut_for(mine.store.row_elements_of(*totals.tolist()))
        return shards, topology

    @classmethod
    def alone(cls, problem: Problem) -> LocalShards:
        """A problem all of whose nodes are here."""
        return cls(problem, [np.arange(problem.n_nodes)], whole=problem)

    @property
    def given(self) -> Problem:
        """The problem as this process was given it: of all nodes, or of its own alone."""
        return self.problem if self.whole is None else self.whole

    @property
    def here(self) -> Array:
        """Positions of the nodes whose records are here."""
        if self.ranks.size == 1:
            return np.arange(self.problem.n_nodes)
        return self.parts[self.ranks.rank]

    @property
    def n(self) -> int:
        """The number of all nodes."""
        return len(self.sizes)

    @cached_property
    def sizes(self) -> Array:
        """(n,) records of every node."""
        return self.gathered(self.problem.sizes)

    @cached_property
    def divisors(self) -> Array:
        """(n,) the declared sizes, or the true ones."""
        return self.gathered(self.problem.divisors)

    @cached_property
    def offsets(self) -> Array:
        """(n + 1,) where each node's records begin, if all stood in one table."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.sizes, dtype=np.int64)])

    def gathered(self, values: Array) -> Array:
        """(n, ...) one row for each node, from the rows of those here."""
        return self.ranks.gathered(values, self.parts)

    def facts(self, relation: str, tolerance: float) -> Facts:
        """The public facts of all nodes."""
        own = Facts.of(self.problem, relation, tolerance)
        if self.ranks.size == 1:
            return own
        known = self.whole is not None or self.problem._persons is None
        exactly = own.exactly if known else self._exactly
        sizes = self.gathered(own.sizes)
        true = counts_are_public(relation, own.records_per_person, exactly) and bool(
            np.all(sizes == self.sizes)
        )
        return replace(own, sizes=sizes, true_sizes=true, exactly=exactly)

    @cached_property
    def _exactly(self) -> bool:
        """Whether each person has exactly so many records as declared, over all nodes; refuses
        persons who are on more nodes than declared. By hashes of their ids: no rank has all."""
        p, ids = self.problem, self.problem._persons
        assert ids is not None
        own = [np.unique(part, return_counts=True) for part in np.split(ids, p.store.offsets[1:-1])]
        words = [
            hashlib.blake2b(str(name).encode("utf-8", "surrogatepass"), digest_size=16).digest()
            for names, _ in own
            for name in names
        ]
        marks = self.ranks.at_root(np.frombuffer(b"".join(words), "V16"))
        counts = self.ranks.at_root(np.concatenate([c for _, c in own]).astype(np.int64))

        def judged() -> bool:
            assert marks is not None and counts is not None
            _, who, nodes = np.unique(
                np.concatenate(marks).view("S16"), return_inverse=True, return_counts=True
            )
            refuse_spread(int(nodes.max()), p.members_per_person)
            records = np.bincount(who, np.concatenate(counts))
            return bool(np.all(records == p.records_per_person))

        return self.ranks.by_root(judged, "counting persons")

    def check_same(self) -> None:
        """Refuse ranks whose records are not of one problem."""
        p = self.problem
        self.ranks.check_same(
            {
                "the number of features": p.n_features,
                "the type of the records": str(p.dtype),
                "the classes": None if p.classes is None else [str(c) for c in p.classes],
                "whether sizes are declared": p.public_sizes is not None,
                "the unit": [p.records_per_person, p.members_per_person],
            },
            "build the problem with the same declarations on all ranks, classes= among them",
        )

    # ---- read without noise: diagnostics of a simulation only
    def objective(self, w: Array) -> float:
        """(1/n) sum_i f_i at one model (d,)."""
        p = self.problem
        data = p.loss_scale * self._losses_at(w) * (self.sizes / self.divisors)
        return float(np.mean(data) + p.strength * p.regulariser.value(w[None])[0])

    def loss(self, w: Array) -> float:
        """Mean loss of one model over all records."""
        return float(np.sum(self._losses_at(w) * self.sizes) / self.sizes.sum())

    def of_records(self, values: Array) -> Array | None:
        """(N, ...) one row for each record, in the graph's order of the nodes, from the rows of
        those here; at the root, and None elsewhere."""
        found = self.ranks.at_root(values)
        sizes, offsets = self.sizes, self.offsets
        if found is None or self.ranks.size == 1:
            return None if found is None else found[0]
        whole = np.empty((int(offsets[-1]), *values.shape[1:]), values.dtype)
        for part, rows in zip(self.parts, found, strict=True):
            starts = np.cumsum(sizes[part]) - sizes[part]
            whole[np.arange(len(rows)) + np.repeat(offsets[part] - starts, sizes[part])] = rows
        return whole

    def scores(self, w: Array) -> Array | None:
        """(N,), or (N, K) for K classes: the scores of all records under one model (d,); at the
        root."""
        store = self.problem.store
        found = self.of_records(store.scores(0, len(store.labels), w))
        return found if found is None or store.n_outputs > 1 else found[:, 0]

    def labels(self) -> Array | None:
        """(N,) the labels of all records; at the root."""
        return self.of_records(self.problem.store.labels)

    def outcomes(self, w: Array) -> tuple[Array | None, Array | None]:
        """(scores, labels) of all records, whose rows a stacked loss made: (N, T) and (N,); at the
        root."""
        if not self.problem.loss.stacked:
            return self.scores(w), self.labels()
        t = self.problem.rows_each
        found = [np.repeat(own, t, axis=0) for own in self.problem.record_scores(w)]
        scores, cells = (self.of_records(own) for own in found)
        if scores is None or cells is None:
            return None, None
        return scores[::t], cells[::t]

    def with_one_feature(self, position: int | None) -> Problem | None:
        """All records with one of their features only (`Problem.with_one_feature`); at the root."""
        mine = self.problem.with_one_feature(position)
        if self.ranks.size == 1:
            return mine
        store, divisors = mine.store, self.divisors
        column, labels = self.of_records(store.rows), self.labels()
        weights = None if store.weights is None else self.of_records(store.weights)
        if column is None or labels is None:
            return None
        found = copy.copy(mine)
        found.sizes = self.sizes
        found.public_sizes = None if mine.public_sizes is None else divisors
        found.store = found._store(column, labels, self.offsets, weights)
        return found

    def accuracy(self, w: Array) -> float:
        """Share of all records that one model classifies rightly."""
        store = self.problem.store
        right = store.right(store.scores(0, len(store.labels), w), store.labels)
        return int(self.ranks.total(np.array([right.sum()]))[0]) / int(self.sizes.sum())

    def objectives(self, models: Array) -> Array:
        """(k,) `objective` of several models."""
        p = self.problem
        factor = p.loss_scale / (self.n * p.divisors)
        data = self.ranks.total(p._weighted(models, np.repeat(factor, p.sizes)))
        return np.asarray(data + p.strength * p.regulariser.value(models))

    def losses(self, models: Array) -> Array:
        """(k,) `loss` of several models."""
        p, count = self.problem, int(self.sizes.sum())
        return self.ranks.total(p._weighted(models, np.full(len(p.store.labels), 1.0 / count)))

    def accuracies(self, models: Array) -> Array:
        """(k,) `accuracy` of several models."""
        p = self.problem
        right = np.asarray(p.accuracy(models)) * len(p.store.labels)
        return self.ranks.total(np.rint(right).astype(np.int64)) / int(self.sizes.sum())

    def own_objectives(self, models: Array) -> Array:
        """(n,) f_i at each node's own model."""
        return self.gathered(self.problem.local_objectives(models[self.here]))

    def own_losses(self, models: Array) -> Array:
        """(n,) mean loss of each node's own model over its own records."""
        return self.gathered(self.problem.local_losses(models[self.here]))

    def own_accuracies(self, models: Array) -> Array:
        """(n,) the share of its own records that each node's own model classifies rightly."""
        store = self.problem.store
        right = store.correct(np.arange(store.n_nodes), models[self.here].astype(np.float64))
        return self.gathered(right / store.sizes)

    def reads(self) -> float:
        """How many records were read so far by all."""
        return float(self.ranks.total(self.problem.store.reads)[0])

    def _losses_at(self, w: Array) -> Array:
        """(n,) each node's mean loss at one model (d,); the records of some nodes at a time."""
        store = self.problem.store
        found, offsets = np.empty(store.n_nodes), store.offsets
        goals = np.searchsorted(offsets, np.arange(_CHUNK, len(store.labels), _CHUNK))
        for first, last in pairwise(np.unique([0, *goals, store.n_nodes]).tolist()):
            a, b = int(offsets[first]), int(offsets[last])
            scores = store.scores(a, b, w)
            values = store.loss.value(
                scores if store.n_outputs > 1 else scores[:, 0], store.labels[a:b]
            )
            if store.weights is not None:
                values = values * store.weights[a:b]
            found[first:last] = np.add.reduceat(values, offsets[first:last] - a)
        return self.gathered(found / store.sizes)

    def reference(self, given: Any) -> Array | None:
        """The optimum that some metrics compare with: as given, or solved for."""
        if isinstance(given, str):
            checks.one_of("reference", given, ("optimum",))
            if self.whole is None:
                raise UnsupportedError(
                    "reference='optimum' needs all records in one process, and each rank holds its "
                    "own nodes' only; give the model itself, as the run 'optimum' finds it."
                )
            return np.asarray(self.whole.solve())
        if given is None:
            return None
        model, dim = np.asarray(given, float), self.problem.dim
        if model.size != dim:
            raise InputError(
                f"reference must be one model of length {dim}, not of shape {model.shape}."
            )
        return model.reshape(dim)

    def digest(self) -> str:
        """A fingerprint of the records in their order and place, to tell runs apart; made of one
        for each node, so that it does not depend on who holds them. Not for sending."""
        store = self.problem.store
        rows: Any = store.rows
        each = np.empty((store.n_nodes, 16), np.uint8)
        labels = np.ascontiguousarray(store.labels)
        for k, (a, b) in enumerate(
            zip(store.offsets[:-1].tolist(), store.offsets[1:].tolist(), strict=True)
        ):
            one = hashlib.blake2b(digest_size=16)
            if isinstance(rows, tuple):
                values, indices, starts = rows
                first, last = int(starts[a]), int(starts[b])
                one.update(np.ascontiguousarray(starts[a : b + 1] - first).data.cast("B"))
                for array in (values[first:last], indices[first:last]):
                    one.update(np.ascontiguousarray(array).data.cast("B"))
            else:
                one.update(np.ascontiguousarray(rows[a:b]).data.cast("B"))
            one.update(labels[a:b].data.cast("B"))
            if store.weights is not None:
                one.update(np.ascontiguousarray(store.weights[a:b]).data.cast("B"))
            each[k] = np.frombuffer(one.digest(), np.uint8)
        whole = hashlib.blake2b(digest_size=16)
        kinds = (str(self.problem.dtype), isinstance(rows, tuple), store.weights is not None)
        whole.update(f"{self.problem.n_features} {kinds} {self.offsets.tolist()}".encode())
        whole.update(np.ascontiguousarray(self.gathered(each)).data.cast("B"))
        return whole.hexdigest()
