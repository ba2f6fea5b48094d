"""Where noise and samples of records come from.

A source is asked by name: (node, round, call). The same name gives the same numbers, so a partition
of the nodes or a resumed run changes nothing, and no two names share a stream. `SimulatedNoise` is
seeded and therefore for simulation only. On a real node, whose messages others can influence, the
name also holds what is asked (`question`).
"""

from __future__ import annotations

import hashlib
import math
import secrets
from functools import cache
from typing import Any, Protocol, Self

import numpy as np

from tacenda._types import Array
from tacenda.rows import new_rows
from tacenda.threads import in_parts

# How many normals are drawn in the time of opening a stream, and of one sampled record
_OPENING, _PER_RECORD = 16, 4


class NoiseSource(Protocol):
    """What the door draws from; rows belong to `nodes` (b,), `turn` is the round and `call` the
    place within it."""

    kind: str
    by_question: (
        bool  # whether names hold what is asked; if not, nobody needs to work out its digest
    )

    def asked(self, question: bytes) -> NoiseSource:
        """The streams of one question, by its digest."""
        ...

    def add_gaussian(
        self,
        nodes: Array,
        turn: int,
        call: int,
        parts: tuple[Array, Any, Array | None],
        noise_std: Array,
    ) -> Array:
        """factor * core + offset + noise_std * normal, a new (b, d) array;
        parts = (core, factor, offset), the factor a number or (b,)."""
        ...

    def shared(self, edges: tuple[Array, Array, Array], turn: int, call: int, dim: int) -> Array:
        """(b, dim) the sum over each node's edges of plus
        or minus the edge's standard normals (graph.coalition)."""
        ...

    def whole_gaussian(self, nodes: Array, turn: int, call: int, scale: Array, dim: int) -> Array:
        """(b, dim) whole numbers (int64): a discrete Gaussian of each node's scale (b,), in
        steps."""
        ...

    def masks(self, edges: tuple[Array, Array, Array], turn: int, call: int, dim: int) -> Array:
        """(b, dim) the sum modulo 2^64 over each node's edges of plus or minus the edge's uniform
        words (graph.coalition)."""
        ...

    def l2_laplace(self, nodes: Array, turn: int, call: int, rate: Array, dim: int) -> Array:
        """(b, dim) rows with density proportional to exp(-rate |e|)."""
        ...

    def poisson_records(
        self, nodes: Array, turn: int, call: int, sizes: Array, rates: Array
    ) -> tuple[Array, Array]:
        """Each record enters with its node's rate:
        (indptr (b + 1,), record numbers within the node)."""
        ...

    def one_record(self, nodes: Array, turn: int, call: int, sizes: Array) -> tuple[Array, Array]:
        """Exactly one record of each node, uniformly."""
        ...


@cache
def _streams() -> Any:
    """The compiled generators: the compiler is loaded when first needed."""
    from tacenda.privacy.noise import streams

    return streams


class ByPlace:
    """Streams named by their place alone: a seeded run asks one question at each place, and hashing
    it would cost more than the noise."""

    by_question = False

    def asked(self, question: bytes) -> Self:
        return self


class SimulatedNoise(ByPlace):
    """Seeded, one stream per (node, round, call): reproducible, and for simulation only."""

    kind = "seeded noise: simulation only"

    def __init__(self, seed: int | None, name: str = "") -> None:
        self.seed = secrets.randbits(64) if seed is None else int(seed)
        words = (
            np.frombuffer(hashlib.sha256(name.encode()).digest(), np.uint32).tolist()
            if name
            else []
        )
        self._key = np.random.SeedSequence(
            [self.seed, *words] if words else self.seed
        ).generate_state(2, np.uint64)

    def named(self, name: str) -> SimulatedNoise:
        """Streams of the same seed for the run of that name: two names share no noise."""
        return SimulatedNoise(self.seed, name)

    def add_gaussian(
        self,
        nodes: Array,
        turn: int,
        call: int,
        parts: tuple[Array, Any, Array | None],
        noise_std: Array,
    ) -> Array:
        core, factor, offset = parts
        column = np.asarray(factor, float).reshape(-1)
        if isinstance(factor, float):
            column = np.full(nodes.shape, factor)
        shift = np.empty((0, core.shape[1]), core.dtype) if offset is None else offset
        out = new_rows(core.shape, core.dtype)
        in_parts(
            _streams().release_normal,
            len(nodes),
            core.size,
            self._key,
            nodes,
            turn,
            call,
            core,
            column,
            shift,
            noise_std,
            out,
        )
        return out

    def shared(self, edges: tuple[Array, Array, Array], turn: int, call: int, dim: int) -> Array:
        out = np.empty((len(edges[0]) - 1, dim))
        kernel, work, degrees = _streams().edge_normals, dim * len(edges[1]), np.diff(edges[0])
        in_parts(kernel, len(out), work, self._key, *edges, turn, call, out, sizes=degrees)
        return out

    def whole_gaussian(self, nodes: Array, turn: int, call: int, scale: Array, dim: int) -> Array:
        """Normals rounded to whole numbers: at scales of 64 steps and more no simulation can tell
        them from discrete Gaussians."""
        zeros = np.zeros((len(nodes), dim))
        normals = self.add_gaussian(nodes, turn, call, (zeros, 0.0, None), scale)
        return np.rint(normals).astype(np.int64)

    def masks(self, edges: tuple[Array, Array, Array], turn: int, call: int, dim: int) -> Array:
        out = np.empty((len(edges[0]) - 1, dim), np.uint64)
        kernel, work, degrees = _streams().edge_words, dim * len(edges[1]), np.diff(edges[0])
        in_parts(kernel, len(out), work, self._key, *edges, turn, call, out, sizes=degrees)
        return out

    def l2_laplace(self, nodes: Array, turn: int, call: int, rate: Array, dim: int) -> Array:
        out = np.empty((len(nodes), dim))
        kernel = _streams().l2_laplace
        in_parts(kernel, len(out), out.size, self._key, nodes, turn, call, rate, out)
        return out

    def poisson_records(
        self, nodes: Array, turn: int, call: int, sizes: Array, rates: Array
    ) -> tuple[Array, Array]:
        name, indptr = (self._key, nodes, turn, call), np.zeros(len(nodes) + 1, np.int64)
        kernel, records = _streams().poisson_records, np.empty(0, np.int64)
        # As if all were like the first: it only decides on threads
        work = len(nodes) * (_OPENING + _PER_RECORD * math.ceil(sizes[0] * rates[0]))
        in_parts(kernel, len(nodes), work, *name, sizes, rates, indptr, records)
        np.cumsum(indptr, out=indptr)
        if indptr[-1] > 0:
            records = np.empty(indptr[-1], np.int64)
            in_parts(kernel, len(nodes), work, *name, sizes, rates, indptr, records)
        return indptr, records

    def one_record(self, nodes: Array, turn: int, call: int, sizes: Array) -> tuple[Array, Array]:
        records = np.empty(len(nodes), np.int64)
        kernel, work = _streams().one_record, _OPENING * len(nodes)
        in_parts(kernel, len(nodes), work, self._key, nodes, turn, call, sizes, records)
        return np.arange(len(nodes) + 1), records
