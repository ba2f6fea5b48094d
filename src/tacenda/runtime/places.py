"""The places (round, call) of a run in which rows are sent, and what these rows look like: found
from public facts alone, by playing the rounds with one node on blank records."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tacenda._types import Array
from tacenda.privacy.secrets.bounded import Bounded
from tacenda.privacy.secrets.door import Question
from tacenda.questions.blank import BlankQueries
from tacenda.runtime.rehearsal import Silence, blank_host
from tacenda.runtime.spec import RunSpec
from tacenda.runtime.transport import Tag


class Form(NamedTuple):
    """Length and type of a node's row."""

    width: int
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return self.width * self.dtype.itemsize


class OpenGate:
    """A gate through which blank rows pass, so that a round can be played without records."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = dtype

    def release(
        self,
        value: Bounded,
        turn: int,
        call: int,
        noise: str,
        relative_std: float | None,
        weight: float = 1.0,
    ) -> Array:
        return np.zeros(value.shape, self._dtype)

    def release_masked(
        self, value: Bounded, turn: int, call: int, weight: float
    ) -> tuple[Array, float]:
        return np.zeros(value.shape, np.uint64), 1.0

    def release_argmin(
        self, question: Question, turn: int, call: int, noise: str = "l2-laplace"
    ) -> Array:
        return np.zeros(question.shape, self._dtype)


class _Listener(Silence):
    """Neighbours that note what they are sent."""

    def __init__(self) -> None:
        self.forms: dict[Tag, Form] = {}
        self.from_root: dict[Tag, int | None] = {}
        self.from_all: set[Tag] = set()

    def neighbour_sum(self, shared: Array, tag: Tag, senders: Array | None = None) -> Array:
        self.from_all.add(tag)
        return super().neighbour_sum(self._noted(shared, tag), tag, senders)

    def mix(self, shared: Array, tag: Tag) -> Array:
        self.from_all.add(tag)
        return super().mix(self._noted(shared, tag), tag)

    def average(self, shared: Array, tag: Tag, groups: int = 1) -> Array:
        self.down(Form(shared.shape[1], shared.dtype), tag, groups)
        return super().average(self._noted(shared, tag), tag, groups)

    def total(self, shared: Array, tag: Tag, groups: int = 1) -> Array:
        self.down(Form(shared.shape[1], shared.dtype), tag, groups)
        return super().total(self._noted(shared, tag), tag, groups)

    def down(self, form: Form, tag: Tag, groups: int) -> None:
        """What roots send down the tree, and others pass on."""
        several = range(groups) if groups > 1 else range(0)
        for group in several:
            place = tag[0], tag[1] + 1 + group
            self.from_root[place], self.forms[place] = group, form
        place = tag[0], tag[1] + 1 + len(several)
        self.from_root[place] = None
        self.forms[place] = Form(groups * form.width, form.dtype)

    def _noted(self, shared: Array, tag: Tag) -> Array:
        self.forms[tag] = Form(shared.shape[1], shared.dtype)
        return shared


class Places(NamedTuple):
    """forms: of the rows in every place of a run in which nodes send any. from_root: the places of
    rows that a root has made and others only pass on, with the group whose root it is; None: the
    root of the whole tree."""

    forms: dict[Tag, Form]
    from_root: dict[Tag, int | None]

    @property
    def totals(self) -> frozenset[Tag]:
        """The places of rows that the root of the whole tree has made."""
        return frozenset(tag for tag, group in self.from_root.items() if group is None)


def row_forms(spec: RunSpec) -> dict[Tag, Form]:
    """The form of the rows in every place of the run in which nodes send any (`places_of`)."""
    return places_of(spec).forms


def places_of(spec: RunSpec) -> Places:
    """The places of the run in which nodes send rows, closing ones included and those of a round
    after a change of the members; the same for all nodes, since lengths and calls follow from
    public facts."""
    here, listener, dim = np.zeros(1, np.int64), _Listener(), spec.facts.dim
    host = blank_host(
        spec,
        here,
        OpenGate(spec.row_type),
        BlankQueries(spec.facts.rows(here), full=True),
        listener,
        width=dim,
    )
    for turn in range(1, spec.rounds + 1):
        before = host.state
        host.step(turn)
        if turn > 1:  # as if the members had changed: what is sent only then has its place too
            after, host.state = host.state, spec.algorithm.restart(before, host.block)
            host.step(turn)
            host.state = after
    groups = 1 if spec.groups is None else spec.groups.count
    closing = Form(dim, np.dtype(spec.row_type))
    for turn in range(1, spec.method.closing_rounds + 1):
        listener.forms[spec.rounds + turn, 0] = closing
    if spec.method.ends_exactly:
        listener.down(closing, (spec.rounds + 1, 0), groups)
    made = {tag: who for tag, who in listener.from_root.items() if tag not in listener.from_all}
    return Places(listener.forms, made)
