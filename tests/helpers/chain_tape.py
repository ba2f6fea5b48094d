"""A tape of everything that passes the door of a run, and the same run again on neighbouring
records that is made to hear the first one's releases.

Both runs then know the same past, as an adversary does, so that the difference of the two secrets
at each release is all that its noise has to hide. What the second run makes of the releases must
equal the first one bit for bit: everything public follows from what was released.

Noise is measured, not asked for: every draw is made once more with a size of 1 and the same
stream, and what came out less the secret, over that unit, is how large the noise really was.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.bounded import Bounded, open_parts, open_values
from tacenda.privacy.secrets.door import Door, Question
from tacenda.questions.lattice import LatticeQueries
from tacenda.questions.queries import Queries

# What may be asked of records: a new question of `Queries` is one here by itself
QUESTIONS = tuple(
    name
    for name, _ in inspect.getmembers(Queries, inspect.isfunction)
    if not name.startswith("_") and name != "mapped"  # the same questions to mapped records
)
# Units are drawn by these, whatever is patched later
GAUSSIAN, LAPLACE = SimulatedNoise.add_gaussian, SimulatedNoise.l2_laplace
Key = tuple[int, int, tuple[int, ...]]
Nodes = dict[int, list[int]]


@dataclass
class Passed:
    """One release of one block.

    nodes (b,); noise: its name; asked: the questions since the last release; secret (b, d), whole
    numbers where it is masked, None where noise is inside an objective; normals, edges, laplaces:
    units of what was drawn, each (b, d); sampled: kind of sample, and rate or number of records
    (b,); terms: of an argmin with noise inside; ideal (b, d) its minimiser and extra (b,) its
    convexity, before the gap's noise.
    """

    nodes: np.ndarray
    noise: str
    asked: tuple[str, ...]
    secret: np.ndarray | None
    normals: list[np.ndarray] = field(default_factory=list)
    laplaces: list[np.ndarray] = field(default_factory=list)
    edges: np.ndarray | None = None
    masks: np.ndarray | None = None
    sampled: tuple[str, np.ndarray] | None = None
    terms: tuple[Any, ...] = ()
    ideal: np.ndarray | None = None
    extra: np.ndarray | None = None
    out: Any = None


@dataclass
class Tape:
    """The releases of a run by (round, call, nodes), in order; the samples by place and node."""

    passed: dict[Key, Passed] = field(default_factory=dict)
    samples: dict[tuple[int, int, int], np.ndarray] = field(default_factory=dict)


class _Spy:
    """What is patched into one run; `heard`: the tape whose releases it goes on with. forced:
    records that every sample of the first run holds, so that it shows what they make when they are
    drawn."""

    def __init__(self, heard: Tape | None, forced: Nodes) -> None:
        self.tape, self._heard, self._forced = Tape(), heard, forced
        self._asked: list[str] = []
        self._sampled: tuple[str, np.ndarray] | None = None
        self._now: Passed | None = None
        self._terms: tuple[Any, ...] = ()

    def question(self, name: str, honest: Any) -> Any:
        def asks(queries: Any, *args: Any, **how: Any) -> Any:
            if name not in self._asked:  # once, also where a class asks its base
                self._asked.append(name)
            if name == "question":
                self._terms = (queries, *args)
            return honest(queries, *args, **how)

        return asks

    # ---- the door
    def release(self, honest: Any) -> Any:
        def through(
            door: Door, value: Bounded, turn: int, call: int, noise: str, *rest: Any
        ) -> Any:
            return self._keep(
                door, turn, call, str(noise), open_values(value),
                lambda now: honest(door, value, turn, call, noise, *rest),
            )  # fmt: skip

        return through

    def release_masked(self, honest: Any) -> Any:
        def through(door: Door, value: Bounded, turn: int, call: int, weight: float) -> Any:
            return self._keep(
                door, turn, call, "masked", open_parts(value)[0].copy(),
                lambda now: honest(door, value, turn, call, weight),
            )  # fmt: skip

        return through

    def release_argmin(self, honest: Any) -> Any:
        def through(
            door: Door, question: Question, turn: int, call: int, noise: str = "l2-laplace"
        ) -> Any:
            def made(now: Passed) -> Any:
                def solve(drawn: Any, extra: Any) -> Any:
                    core, offset = question.solve(drawn, extra)
                    now.ideal = np.array(core if offset is None else core + offset)
                    now.extra = None if extra is None else np.array(extra)
                    return core, offset

                now.terms = self._terms
                open_one = Question(question.terms, question.shape, solve, question.asked)
                return honest(door, open_one, turn, call, noise)

            return self._keep(door, turn, call, f"objective, {noise}", None, made)

        return through

    def _keep(
        self,
        door: Door,
        turn: int,
        call: int,
        noise: str,
        secret: np.ndarray | None,
        release: Callable[[Passed], Any],
    ) -> Any:
        now = Passed(door.nodes.copy(), noise, tuple(self._asked), secret, sampled=self._sampled)
        self._asked, self._sampled, self._now = [], None, now
        try:
            now.out = release(now)
        finally:
            self._now = None
        key = (turn, call, tuple(int(i) for i in now.nodes))
        assert key not in self.tape.passed, f"two releases at one place: {key}"
        self.tape.passed[key] = now
        return now.out if self._heard is None else self._heard.passed[key].out

    # ---- what is drawn
    def add_gaussian(self, honest: Any) -> Any:
        def draws(source: Any, nodes: Any, turn: int, call: int, parts: Any, std: Any) -> Any:
            if self._now is not None:
                nothing = (np.zeros(parts[0].shape), 0.0, None)
                unit = GAUSSIAN(source, nodes, turn, call, nothing, np.ones(len(nodes)))
                self._now.normals.append(unit)
            return honest(source, nodes, turn, call, parts, std)

        return draws

    def l2_laplace(self, honest: Any) -> Any:
        def draws(source: Any, nodes: Any, turn: int, call: int, rate: Any, dim: int) -> Any:
            if self._now is not None:
                unit = LAPLACE(source, nodes, turn, call, np.ones(len(nodes)), dim)
                self._now.laplaces.append(unit)
            return honest(source, nodes, turn, call, rate, dim)

        return draws

    def shared(self, honest: Any) -> Any:
        def draws(source: Any, edges: Any, turn: int, call: int, dim: int) -> Any:
            out = honest(source, edges, turn, call, dim)
            if self._now is not None:
                self._now.edges = out.copy()
            return out

        return draws

    def masks(self, honest: Any) -> Any:
        def draws(source: Any, edges: Any, turn: int, call: int, dim: int) -> Any:
            out = honest(source, edges, turn, call, dim)
            if self._now is not None:
                self._now.masks = out.copy()
            return out

        return draws

    def poisson_records(self, honest: Any) -> Any:
        def draws(source: Any, nodes: Any, turn: int, call: int, sizes: Any, rates: Any) -> Any:
            indptr, records = honest(source, nodes, turn, call, sizes, rates)
            self._sampled = ("poisson", np.array(rates, float))
            drawn = [
                self._with_forced((turn, call, int(node)), records[indptr[k] : indptr[k + 1]])
                for k, node in enumerate(nodes)
            ]
            drawn = [some[some < size] for some, size in zip(drawn, sizes, strict=True)]
            ends = np.concatenate([[0], np.cumsum([len(some) for some in drawn])])
            return ends.astype(np.int64), np.concatenate(drawn).astype(np.int64)

        return draws

    def one_record(self, honest: Any) -> Any:
        def draws(source: Any, nodes: Any, turn: int, call: int, sizes: Any) -> Any:
            indptr, records = honest(source, nodes, turn, call, sizes)
            self._sampled = ("one", np.array(sizes, float))
            for k, node in enumerate(nodes):
                records[k] = self._forced.get(int(node), [records[k]])[0]
            return indptr, records

        return draws

    def _with_forced(self, place: tuple[int, int, int], drawn: np.ndarray) -> np.ndarray:
        """The records of the first run's sample, with the forced ones."""
        if self._heard is not None:
            return self._heard.samples[place]
        both = np.union1d(drawn, np.array(self._forced.get(place[2], []), np.int64))
        self.tape.samples[place] = both.astype(np.int64)
        return self.tape.samples[place]


@contextmanager
def taped(heard: Tape | None = None, forced: Nodes | None = None) -> Iterator[Tape]:
    """Keep what passes the doors of the run inside the `with`; `heard`: the run goes on with the
    releases of that tape."""
    spy = _Spy(heard, forced or {})
    with pytest.MonkeyPatch.context() as patch:
        for kind in (Queries, LatticeQueries):
            for name in QUESTIONS:
                if name in vars(kind):
                    patch.setattr(kind, name, spy.question(name, vars(kind)[name]))
        for owner, names in {
            Door: ("release", "release_masked", "release_argmin"),
            SimulatedNoise: (
                "add_gaussian", "l2_laplace", "shared", "masks", "poisson_records", "one_record"
            ),
        }.items():  # fmt: skip
            for name in names:
                patch.setattr(owner, name, getattr(spy, name)(getattr(owner, name)))
        yield spy.tape
