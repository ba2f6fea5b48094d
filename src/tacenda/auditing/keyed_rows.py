"""The noise of real nodes under attack: every row of every trial is a node with a key of its own.

`KeyedNoise` serves one node, whose stream is named by what is asked. Here its rows are drawn one by
one, by the production code: its AES streams, its sampler of whole numbers, its masks from the keys
of edges. The keys follow from the audit's seed, so that a trial can be repeated.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import UnsupportedError
from tacenda.privacy.noise.key_chain import KeyChain
from tacenda.privacy.noise.keyed import KeyedNoise

RUN = "audit"


class KeyedRows:
    """Noise by row numbers, as `SimulatedNoise` has it, from one `KeyedNoise` for each row."""

    by_question = True
    kind = "keyed by the audit's seed: as on real nodes"

    def __init__(self, seed: int, masked: bool) -> None:
        self._seed, self._masked = seed, masked
        self._rows: dict[int, KeyedNoise] = {}
        self._question = b""

    def asked(self, question: bytes) -> KeyedRows:
        """The streams of one question."""
        self._question = question
        return self

    def _keys(self, what: str, number: int) -> KeyChain:
        return KeyChain.begin(hashlib.sha256(f"{self._seed} {what} {number}".encode()).digest())

    def _node(self, row: int) -> KeyedNoise:
        found = self._rows.get(row)
        if found is None:
            keys = self._keys("node", row)
            found = KeyedNoise(keys, RUN, floating_point=False, masked=self._masked)
            found.share(lambda edge: self._keys("edge", edge), RUN)
            self._rows[row] = found
        return found.asked(self._question)

    def add_gaussian(
        self, nodes: Array, turn: int, call: int, parts: Any, noise_std: Array
    ) -> Array:
        core, factor, offset = parts
        out = [
            self._node(int(row)).add_gaussian(
                nodes[k : k + 1],
                turn,
                call,
                (
                    core[k : k + 1],
                    factor[k : k + 1] if isinstance(factor, np.ndarray) else factor,
                    None if offset is None else offset[k : k + 1],
                ),
                noise_std[k : k + 1],
            )
            for k, row in enumerate(nodes)
        ]
        return np.vstack(out)

    def whole_gaussian(self, nodes: Array, turn: int, call: int, scale: Array, dim: int) -> Array:
        rows = [
            self._node(int(row)).whole_gaussian(nodes[k : k + 1], turn, call, scale[k : k + 1], dim)
            for k, row in enumerate(nodes)
        ]
        return np.vstack(rows)

    def masks(self, edges: tuple[Array, Array, Array], turn: int, call: int, dim: int) -> Array:
        indptr, numbers, signs = edges
        out = np.zeros((len(indptr) - 1, dim), np.uint64)
        for k, (first, last) in enumerate(zip(indptr[:-1], indptr[1:], strict=True)):
            own = (np.array([0, last - first]), numbers[first:last], signs[first:last])
            out[k] = self._node(0).masks(own, turn, call, dim)[0]
        return out

    def shared(self, edges: tuple[Array, Array, Array], turn: int, call: int, dim: int) -> Array:
        raise floating()

    def l2_laplace(self, nodes: Array, turn: int, call: int, rate: Array, dim: int) -> Array:
        raise floating()

    def poisson_records(
        self, nodes: Array, turn: int, call: int, sizes: Array, rates: Array
    ) -> tuple[Array, Array]:
        raise floating()

    def one_record(self, nodes: Array, turn: int, call: int, sizes: Array) -> tuple[Array, Array]:
        raise floating()


def floating() -> UnsupportedError:
    """The refusal of noise that real nodes draw as floating-point numbers."""
    return UnsupportedError(
        "keyed=True audits the whole-numbered noise of real nodes: masks, or full gradients and "
        "moments with Gaussian noise. Leave it out for samples, l2-Laplace noise and "
        "floating-point noise that neighbours share."
    )
