"""Noise of a real node: a keyed AES stream for every (run, round, call, question), on the integer
lattice wherever a query allows it.

Each place (view, round, call) has a key of its own, from a chain that begins with the operating
system's entropy and goes one way (`key_chain`). Until what it hides is durable, a step that is done
again draws the same noise, which it must: a second draw on the same answer would be a second
release. After that the chain has passed the place, and nobody draws there again. Another question
at the same place (an old copy of the state, a neighbour that sends other rows than before) has
another digest, and so meets other noise.

A gradient of `problem.lattice` arrives as whole numbers (int64) times a public factor plus a public
offset. Its noise is an exact discrete Gaussian added to the whole numbers, before anything becomes
a floating-point number (rule 7 of the specification). Everything else needs floating-point noise,
which is refused unless the contract accepts it by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import PrivacyError
from tacenda.privacy.noise.discrete import AesStream, aes_normal, discrete_gaussian, l2_laplace
from tacenda.privacy.noise.key_chain import Keys
from tacenda.privacy.noise.sources import ByPlace

Parts = tuple[Array, Any, Array | None]
SCALE_BITS = (
    30  # scales are rounded up to so many bits, so that equal rounds share one table of the sampler
)


# In a round that is made again the sample's key is gone, and what was released of it is stored
_NO_RECORDS = np.zeros(2, np.int64), np.zeros(0, np.int64)


def keyed_kind(*, doubles: bool, masked: bool) -> str:
    """Describe real noise for the statement of a run."""
    what = "floating-point, accepted by name" if doubles else "exact discrete Gaussian"
    what += ", under masks from the edges' keys" if masked else ""
    return f"keyed by the operating system's entropy (AES-CTR): {what}"


# All that a statement of real noise may say of it
KINDS = tuple(keyed_kind(doubles=d, masked=m) for d in (False, True) for m in (False, True))


class KeyedNoise:
    """A `NoiseSource` for one node; `run` names the run, and holds the data's fingerprint, so other
    data means other noise. masked: the run adds masks; the statement says so, also that of a start
    in which nothing was drawn."""

    def __init__(self, keys: Keys, run: str, *, floating_point: bool, masked: bool = False) -> None:
        self._keys, self._run, self._floating_point = keys, run, floating_point
        self._masked = masked
        self.kind = keyed_kind(doubles=floating_point, masked=masked)
        self._question = ""
        self._view = 0
        self._edge_keys: Callable[[int], Keys] | None = None
        self._edge_run = ""

    by_question = True

    def asked(self, question: bytes) -> KeyedNoise:
        """The streams of one question; normals shared by neighbours have none of it, because both
        ends must draw alike and may ask at different points."""
        if not question:
            raise PrivacyError(
                "A real node's noise is named by what is asked, and here no question was given; "
                "nothing was drawn."
            )
        named = object.__new__(KeyedNoise)
        named.__dict__.update(self.__dict__, _question=f"?{question.hex()}")
        return named

    def _stream(self, turn: int, call: int) -> AesStream:
        key = self._keys.key((self._view, turn, call))
        return AesStream(key, self._run + self._question, turn, call)

    def share(self, edge_keys: Callable[[int], Keys], run: str) -> None:
        """The keys of the edges in use, by their number, and the name that both ends give to this
        run and its members.

        Where the two ends do not mean the same members their streams differ, and nothing cancels:
        more noise, never less.
        """
        self._edge_keys, self._edge_run = edge_keys, run

    def enter(self, view: int) -> None:
        """After a change of membership: streams of a new name,
        so that no noise is ever used twice."""
        self._run = f"{self._run.partition('#')[0]}#{view}"
        self._view = view

    def add_gaussian(
        self, nodes: Array, turn: int, call: int, parts: Parts, noise_std: Array
    ) -> Array:
        core, factor, offset = parts
        stream = self._stream(turn, call)
        if core.dtype.kind == "i":
            column = float(np.asarray(factor).reshape(-1)[0])
            scale = rounded_up(float(noise_std[0]) / abs(column))
            noisy = core + discrete_gaussian(scale, core.shape, stream)
            out: Array = noisy * column  # from here on post-processing of a released whole number
            return out if offset is None else out + offset
        self._accept("a value that is not on the integer lattice")
        released: Array = (
            core * np.reshape(factor, (-1, 1)) + noise_std[:, None] * aes_normal(core.shape, stream)
        ).astype(core.dtype)
        # Last: a large one would round what noise has not covered
        return released if offset is None else released + offset

    def shared(self, edges: tuple[Array, Array, Array], turn: int, call: int, dim: int) -> Array:
        """(1, dim) the sum over this node's edges of plus or minus the edge's normals, the same
        numbers at both ends."""
        self._accept("noise shared by neighbours")
        _, numbers, signs = edges
        out = np.zeros((1, dim))
        for k, sign in zip(numbers, signs, strict=True):
            out += sign * aes_normal((1, dim), self._edge_stream(int(k), "", turn, call))
        return out

    def whole_gaussian(self, nodes: Array, turn: int, call: int, scale: Array, dim: int) -> Array:
        steps = rounded_up(float(scale[0]))
        return discrete_gaussian(steps, (1, dim), self._stream(turn, call))

    def masks(self, edges: tuple[Array, Array, Array], turn: int, call: int, dim: int) -> Array:
        """(1, dim) the sum modulo 2^64 over this node's edges of plus or minus the edge's words,
        the same words at both ends, if both ask the same question.

        All members ask it at one and the same point. Who is led to another point, or asks again
        from an old copy of its state, draws other masks: they do not cancel, and its row tells
        nothing.
        """
        if not self._masked:
            raise PrivacyError("This noise was set up without masks, and its statement names none.")
        out = np.zeros((1, dim), np.uint64)
        _, numbers, signs = edges
        for k, sign in zip(numbers, signs, strict=True):
            words = self._edge_stream(int(k), f"masks{self._question}", turn, call).words(dim)
            out[0] = out[0] + words if sign > 0 else out[0] - words
        return out

    def _edge_stream(self, edge: int, use: str, turn: int, call: int) -> AesStream:
        if self._edge_keys is None:
            raise PrivacyError(
                "Noise shared by neighbours needs the keys of the edges, "
                "and this node was set up without them."
            )
        name = f"{self._edge_run}#{self._view}{use}"
        return AesStream(self._edge_keys(edge).key((self._view, turn, call)), name, turn, call)

    def l2_laplace(self, nodes: Array, turn: int, call: int, rate: Array, dim: int) -> Array:
        self._accept("l2-Laplace noise")
        return l2_laplace(rate, (len(nodes), dim), self._stream(turn, call))

    def poisson_records(
        self, nodes: Array, turn: int, call: int, sizes: Array, rates: Array
    ) -> tuple[Array, Array]:
        if self._keys.has_passed((self._view, turn, call)):
            return _NO_RECORDS
        words = self._stream(turn, call).words(int(sizes[0]))
        uniform = (words >> np.uint64(11)).astype(float) * 2.0**-53
        chosen = np.flatnonzero(uniform < rates[0]).astype(np.int64)
        return np.array([0, len(chosen)], np.int64), chosen

    def one_record(self, nodes: Array, turn: int, call: int, sizes: Array) -> tuple[Array, Array]:
        if self._keys.has_passed((self._view, turn, call)):
            return _NO_RECORDS
        stream, m = self._stream(turn, call), int(sizes[0])
        limit = (2**64 // m) * m  # beyond it the remainder would favour small numbers
        word = int(stream.words(1)[0])
        while word >= limit:
            word = int(stream.words(1)[0])
        return np.array([0, 1], np.int64), np.array([word % m], np.int64)

    def _accept(self, what: str) -> None:
        if not self._floating_point:
            raise PrivacyError(
                f"This release needs floating-point noise ({what}), "
                "which the contract does not accept; set privacy.floating_point_noise = true in "
                "the contract, or use IPADMM, DDPADMM, CDPADMM, DPADMM or DPDDA with all records."
            )

    def __reduce__(self) -> Any:
        raise TypeError("keyed noise holds a node's secret key and cannot be pickled.")


class AtPosition(ByPlace):
    """Seeded noise of a rehearsal, for a node whose only record store has position 0 but whose
    place in the graph is another."""

    def enter(self, view: int) -> None:
        """Rounds are never done twice, so seeded streams keep their names."""

    def __init__(self, noise: Any, position: int) -> None:
        self._noise, self._at = noise, np.array([position], np.int64)

    @property
    def kind(self) -> str:
        return str(self._noise.kind)

    def shared(self, edges: tuple[Array, Array, Array], turn: int, call: int, dim: int) -> Array:
        return np.asarray(self._noise.shared(edges, turn, call, dim))

    def whole_gaussian(self, nodes: Array, turn: int, call: int, scale: Array, dim: int) -> Array:
        return np.asarray(self._noise.whole_gaussian(self._at, turn, call, scale, dim))

    def masks(self, edges: tuple[Array, Array, Array], turn: int, call: int, dim: int) -> Array:
        return np.asarray(self._noise.masks(edges, turn, call, dim))

    def add_gaussian(
        self, nodes: Array, turn: int, call: int, parts: Parts, noise_std: Array
    ) -> Array:
        return np.asarray(self._noise.add_gaussian(self._at, turn, call, parts, noise_std))

    def l2_laplace(self, nodes: Array, turn: int, call: int, rate: Array, dim: int) -> Array:
        return np.asarray(self._noise.l2_laplace(self._at, turn, call, rate, dim))

    def poisson_records(
        self, nodes: Array, turn: int, call: int, sizes: Array, rates: Array
    ) -> tuple[Array, Array]:
        found: tuple[Array, Array] = self._noise.poisson_records(self._at, turn, call, sizes, rates)
        return found

    def one_record(self, nodes: Array, turn: int, call: int, sizes: Array) -> tuple[Array, Array]:
        found: tuple[Array, Array] = self._noise.one_record(self._at, turn, call, sizes)
        return found


def rounded_up(scale: float) -> float:
    """The next number with SCALE_BITS significant bits that is not below `scale`:
    never less noise."""
    mantissa, exponent = math.frexp(scale)
    return math.ldexp(math.ceil(math.ldexp(mantissa, SCALE_BITS)), exponent - SCALE_BITS)
