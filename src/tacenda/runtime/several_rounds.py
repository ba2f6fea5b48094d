"""Several rounds in one compiled call, for simulations of small networks
(docs/decisions/0035-compiled-rounds.md).

A round of few numbers costs more time between its steps than in them. What a round of dual
averaging does is therefore compiled as a whole (`round_kernels`), and many rounds are one call: all
of their releases are charged at the door first, then drawn at the very places where the algorithm's
own step would have drawn them. The result is that of the step, to the last bit; whatever does not
fit in here is left to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from tacenda._arrays import read_only
from tacenda._types import Array
from tacenda.algorithms.dual_averaging import DDA, DPDDA, DualAveragingState, round_numbers
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.door import Door
from tacenda.problem.custom_regulariser import CustomRegulariser
from tacenda.problem.queries import GradientTerms, Queries
from tacenda.problem.radius import largest_within
from tacenda.runtime.block import dual_factor
from tacenda.runtime.network import Network
from tacenda.runtime.spec import RunSpec
from tacenda.threads import PARALLEL_ELEMENTS, meanwhile

# Fewer rounds are not worth the seconds that compiling takes when such a run is made for the first
# time; a later one finds it done
LEAST_ROUNDS = 500
# A call is some milliseconds: progress, checkpoints and Ctrl-C come between calls, and a run that
# ends in one has been charged for all of its rounds
_MOST_ROUNDS = 500
_PER_CALL = 1 << 22  # numbers, of noise or of records
_PER_DRAW = 1 << 19  # numbers of noise: those of the next rounds are drawn beside these
_NO_STD = np.empty((0, 0))


class SeveralRounds:
    """Rounds of DPDDA or DDA of one block that has all nodes."""

    def __init__(
        self, spec: RunSpec, queries: Queries, terms: GradientTerms, door: Door, network: Network
    ) -> None:
        self._spec, self._queries, self._door, self._network = spec, queries, door, network
        self._algorithm: Any = spec.algorithm
        self._terms = terms
        assert isinstance(door.noise, SimulatedNoise)
        self._source = door.noise
        count = max(len(door.nodes) * door.dim, terms.work)
        self._most = max(1, min(_MOST_ROUNDS, _PER_CALL // count))
        self._rooms: list[Array] = []  # two rooms for noise, used in turn

    @classmethod
    def of(
        cls, spec: RunSpec, queries: Queries, door: Door, network: Network
    ) -> SeveralRounds | None:
        """Those of this run; None where its rounds are for the algorithm's own step: too few of
        them, other algorithms, noise that is shared or not seeded, samples of one record, a
        regulariser of somebody's own, with weights or an l1 term, a loss of several scores, edges
        that vary, or a network that is large enough for several threads."""
        algorithm, k = spec.algorithm, spec.facts.constants
        if type(algorithm) not in (DPDDA, DDA) or spec.rounds < LEAST_ROUNDS:
            return None
        assert isinstance(algorithm, DPDDA | DDA)
        regulariser = k.regulariser
        plain = (
            algorithm.noise == "independent"
            and algorithm.sampling == "poisson"
            and not isinstance(regulariser, CustomRegulariser)
            and not regulariser.weighted
            and regulariser.l1 == 0
            and type(queries) is Queries
            and type(door.noise) is SimulatedNoise
            and network.standing_mixing is not None
        )
        if not plain:
            return None
        terms = queries.compiled_terms(algorithm.batch_size)
        small = max(terms.work, len(door.nodes) * door.dim) < PARALLEL_ELEMENTS
        return cls(spec, queries, terms, door, network) if small and terms.simple else None

    def run(
        self, state: DualAveragingState, total: Array | None, first: int, last: int
    ) -> tuple[DualAveragingState, int]:
        """Rounds from `first` on, up to `last` at the most: the state after them, and how far it
        came; `total` gets what they add to the average. Where a message has come to the radius it
        stops in that round, and the network says so: the run ends there."""
        from tacenda.runtime import round_kernels  # here: it loads the compiler

        algorithm, spec, terms = self._algorithm, self._spec, self._terms
        k, mixing = spec.facts.constants, self._network.standing_mixing
        assert mixing is not None
        turns = range(first, min(last, first + self._most - 1) + 1)
        numbers = [round_numbers(algorithm, t) for t in turns]
        shares = np.array([a for a, _, _ in numbers])
        factors = np.array([dual_factor(k, weight, gamma) for _, weight, gamma in numbers])
        averaged = np.array([algorithm.averaging_weight(t, spec.rounds) for t in turns])
        std = self._door.charge_rounds(
            turns, round_kernels.RELEASE, terms.sensitivity, terms.sample
        )
        rates = np.empty(0) if terms.sample.rate is None else terms.sample.rate
        x, z = np.empty_like(state.z), state.z.copy()
        sums = np.empty((0, z.shape[1]), z.dtype) if total is None else total
        done = first - 1
        for part, normals in self._noise(turns, round_kernels.RELEASE, std is not None):
            read, reached = round_kernels.dual_averaging(
                first + part.start,
                shares[part],
                factors[part],
                averaged[part],
                self._source.key,
                self._door.nodes,
                _NO_STD if std is None else std[part],
                normals,
                read_only(rates),
                *terms.kernel,
                *mixing,
                largest_within(k.radius, spec.row_type),
                z,
                x,
                sums,
            )
            before, done = done, reached or turns[part][-1]
            self._queries.note_reads(read)
            self._network.count_rounds(done - before, z, reached)
            if reached:
                break
        return DualAveragingState(x, z), done

    def _noise(self, turns: range, call: int, private: bool) -> Iterator[tuple[slice, Array]]:
        """(which of the rounds, their standard normals (rounds, b, d)), some rounds at a time:
        those of the next ones are drawn meanwhile on another thread. None without privacy."""
        b, d, kind = len(self._door.nodes), self._door.dim, self._spec.row_type
        each = max(1, min(self._most, _PER_DRAW // (b * d)))
        parts = [slice(k, min(k + each, len(turns))) for k in range(0, len(turns), each)]
        if not private:
            yield from ((part, np.empty((0, 0, 0), kind)) for part in parts)
            return
        if not self._rooms:
            self._rooms = [np.empty((each, b, d), kind) for _ in range(2)]

        def draw(k: int) -> None:
            out = self._rooms[k % 2][: parts[k].stop - parts[k].start]
            self._source.normals_of_rounds(self._door.nodes, turns[parts[k].start], call, out)

        draw(0)
        for k, part in enumerate(parts):
            finish = meanwhile(partial(draw, k + 1)) if k + 1 < len(parts) else None
            try:
                yield part, self._rooms[k % 2][: part.stop - part.start]
            finally:
                if finish is not None:
                    finish()
