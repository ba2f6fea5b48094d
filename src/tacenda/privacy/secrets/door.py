"""The one door: the only way from a secret to a plain array. Charge first, then draw, once per
value.

    release(value)             value + noise, for a Bounded value
    release_masked(value)      whole numbers + noise + masks that cancel in the network's sum
    release_argmin(question)   the minimiser of an objective with noise inside it
    release_choice(choice)     one of several public candidates, the better ones more probable

Without a plan (privacy=None) values pass as they are, and the run says that it has no privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array, Ints
from tacenda.errors import LeakError, PrivacyError
from tacenda.privacy.accounting import discrete_sums
from tacenda.privacy.noise.aes import AesStream
from tacenda.privacy.noise.sources import NoiseSource
from tacenda.privacy.secrets.bounded import (
    Bounded,
    Sample,
    as_column,
    bound_of,
    open_parts,
    open_values,
    question_of,
    require_bounded,
    same_numbers,
)
from tacenda.privacy.secrets.ledger import Charge, Ledger
from tacenda.privacy.secrets.mechanisms import NoiseKind, ObjectiveTerms, Site, choice_charge
from tacenda.privacy.secrets.noise_plan import NoisePlan, price
from tacenda.privacy.secrets.question import digest


@dataclass(frozen=True, eq=False)
class Question:
    """An argmin that is asked but not answered: its public terms, and how to solve it once the
    noise is known.

    The answer comes as (core, offset), the minimiser core + offset with an offset that holds
    nothing of the records, or None.
    """

    terms: ObjectiveTerms
    shape: tuple[int, int]
    # (noise (b, d), extra (b,)) -> rows (b, d)
    solve: Callable[[Array | None, Array | None], tuple[Array, Array | None]]
    asked: bytes = b""  # the digest of its terms, where the noise is named by what is asked


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """The block's edges (indptr, numbers, signs), and how much larger than its own a node's noise
    on each edge is; infinitely larger: uniform masks."""

    edges: tuple[Array, Array, Array]
    ratio: float


@dataclass(frozen=True, eq=False)
class _Priced:
    """A price that was worked out, and all that it depends on."""

    plan: NoisePlan
    terms: tuple[Any, ...]
    sensitivity: Array
    rate: Array | None
    charge: Charge
    amount: Any

    def holds(
        self, plan: NoisePlan, terms: tuple[Any, ...], sensitivity: Array, rate: Array | None
    ) -> bool:
        if self.plan is not plan or self.terms != terms or self.rate is not rate:
            return False
        return same_numbers(self.sensitivity, sensitivity)


class Door:
    """The door of one block of nodes, at positions `nodes` (b,); `dim` is the model's length."""

    def __init__(
        self,
        nodes: Array,
        dim: int,
        plan: NoisePlan | None,
        ledger: Ledger,
        noise: NoiseSource,
        shared: SharedNoise | None = None,
    ) -> None:
        self.nodes, self.dim, self.plan, self.ledger, self.noise = nodes, dim, plan, ledger, noise
        self.shared = shared
        self._priced: _Priced | None = None

    def release(
        self,
        value: Bounded,
        turn: int,
        call: int,
        noise: str,
        relative_std: float | None,
        weight: float = 1.0,
    ) -> Array:
        """The value plus noise (b, d)."""
        require_bounded(value, "release")
        if self.plan is None:
            return open_values(value)
        kind = NoiseKind.added(noise)
        if kind is NoiseKind.CORRELATED and self.shared is None:
            raise LeakError(
                "noise='correlated' needs the edges' streams, and this run was set up without them."
            )
        value.sample.spend()
        charge, amount = self._price(
            bound_of(value), value.sample, turn, kind, relative_std, weight
        )
        parts = open_parts(value)
        asked = self._named(value, parts[0].dtype.str, value.shape[1], kind, amount)
        self.ledger.charge(turn, call, charge, asked)
        return self.ledger.once(
            turn, call, lambda: self._noisy(parts, turn, call, kind, amount, asked)
        )

    def _noisy(
        self, parts: Any, turn: int, call: int, kind: NoiseKind, amount: Any, asked: bytes
    ) -> Array:
        """The value in its parts plus noise, once it is charged for."""
        source = self.noise.asked(asked)
        if kind is NoiseKind.GAUSSIAN:
            return source.add_gaussian(self.nodes, turn, call, parts, amount)
        # The public offset comes last:
        # added first, a large one would round what no noise has covered yet.
        core, factor, offset = parts
        if kind is NoiseKind.L2_LAPLACE:
            released = core * as_column(factor) + source.l2_laplace(
                self.nodes, turn, call, amount, core.shape[1]
            )
        else:
            assert self.shared is not None
            released = source.add_gaussian(self.nodes, turn, call, (core, factor, None), amount)
            edges = source.shared(self.shared.edges, turn, call, core.shape[1])
            released += ((self.shared.ratio * amount)[:, None] * edges).astype(released.dtype)
        return released if offset is None else released + offset

    def release_masked(
        self, value: Bounded, turn: int, call: int, weight: float
    ) -> tuple[Array, float]:
        """(whole numbers (b, d) modulo 2^64, the public size of one): each node's value in steps of
        the grid, plus its own discrete Gaussian, plus and minus its edges' masks.

        The masks cancel in the network's sum, and only there: any smaller part of it that holds
        less than a component of the graph without its reader is uniform, whatever the values are.
        """
        require_bounded(value, "release_masked")
        if self.plan is None or self.shared is None or not np.isinf(self.shared.ratio):
            raise LeakError(
                "noise='masked' needs a plan and the edges' streams, and this run was set up "
                "without them: an algorithm that masks says so (Traits.masks)."
            )
        core, factor, offset = open_parts(value)
        unit = _common_unit(core, factor, offset)
        value.sample.spend()
        charge, std = self._price(
            bound_of(value), value.sample, turn, NoiseKind.MASKED, None, weight
        )
        self._check_fine(std / unit)
        asked = self._named(value, core.dtype.str, value.shape[1], NoiseKind.MASKED, std)
        self.ledger.charge(turn, call, charge, asked)
        source, edges, width = self.noise.asked(asked), self.shared.edges, value.shape[1]

        def masked() -> Array:
            own = source.whole_gaussian(self.nodes, turn, call, std / unit, width)
            masks = source.masks(edges, turn, call, width)
            return np.asarray(core.view(np.uint64) + own.view(np.uint64) + masks)

        return self.ledger.once(turn, call, masked), unit

    @staticmethod
    def public_unit(value: Bounded) -> float:
        """The public size of one step of a value for `release_masked`."""
        return _common_unit(*open_parts(value))

    def _check_fine(self, scale: Array) -> None:
        """Refuse a grid on which the noise would not be what it is charged as; of public numbers
        only."""
        assert self.plan is not None and self.plan.leverage is not None
        least, members = float(scale.min()), float(1 / self.plan.leverage.max())
        if not discrete_sums.is_fine(least, members):
            raise PrivacyError(
                f"The noise of a masked release spans {least:.3g} steps of its grid, and must span "
                f"{discrete_sums.LEAST_SCALE:g}, and {discrete_sums.LEAST_TOTAL:g} over the "
                f"{members:.0f} members of a sum; nothing was drawn. Use a finer grid."
            )

    def _price(
        self,
        sensitivity: Array,
        sample: Sample,
        turn: int,
        noise: NoiseKind,
        relative_std: float | None,
        share: float,
    ) -> tuple[Charge, Any]:
        """What the release costs and its noise; an equal release just before has the same, and so
        the same Charge object."""
        assert self.plan is not None
        weight = share * self.plan.weight(turn)
        last = self._priced
        known = weight.tobytes() if isinstance(weight, np.ndarray) else weight
        terms = (known, noise, relative_std, sample.kind)
        if last is not None and last.holds(self.plan, terms, sensitivity, sample.rate):
            return last.charge, last.amount
        charge, amount = price(
            self.plan, Site(turn, weight, self.dim, noise, sensitivity, sample, relative_std)
        )
        charge.freeze()
        self._priced = _Priced(self.plan, terms, sensitivity, sample.rate, charge, amount)
        return charge, amount

    def _named(self, value: Bounded | Question, *terms: Any) -> bytes:
        """The release's own name: what the records were asked,
        and all that was done with the answer."""
        if not self.noise.by_question:
            return b""
        if isinstance(value, Bounded):
            question, *done = question_of(value)
            terms = (*done, *terms)
        else:
            question = value.asked
        if not question:
            raise LeakError(
                "This noise is named by what is asked, "
                "and the value does not say what it was asked; nothing was drawn."
            )
        return digest("release", question, *terms)

    def release_argmin(
        self, question: Question, turn: int, call: int, noise: str = "l2-laplace"
    ) -> Array:
        """The minimiser (b, d) with noise in the objective, and a little on top for what the solver
        leaves undone.

        Two draws, so it takes the places `call` and `call + 1` of the round.
        """
        if self.plan is None:
            core, offset = question.solve(None, None)
            return core if offset is None else core + offset
        kind, d = NoiseKind.within(noise), question.shape[1]
        site = Site(turn, self.plan.weight(turn), self.dim, kind, objective=question.terms)
        charge, amount = price(self.plan, site)
        asked = self._named(question, d, kind, amount.amount, amount.extra, amount.gap)
        self.ledger.charge(turn, call, charge, asked)
        source = self.noise.asked(asked)

        def draw(place: int, size: Array) -> Array:
            if kind is NoiseKind.OBJECTIVE:
                return source.l2_laplace(self.nodes, turn, place, size, d)
            nothing = (np.zeros((len(self.nodes), d)), 0.0, None)
            return source.add_gaussian(self.nodes, turn, place, nothing, size)

        def solved() -> Array:
            core, offset = question.solve(draw(call, amount.amount), amount.extra)
            if amount.gap is not None:
                core = core + draw(call + 1, amount.gap)
            return np.asarray(core if offset is None else core + offset)

        return self.ledger.once(turn, call, solved, places=2)


@dataclass(frozen=True, eq=False)
class Choice:
    """A choice among public candidates that is asked for but not made.

    `distances` gives, for each candidate, how far it is from the right one, as a whole number
    (k,); each of them moves by at most `sensitivity` when one record changes.
    """

    distances: Callable[[], Ints]
    sensitivity: int


def release_choice(
    choice: Choice,
    epsilon: float,
    ledger: Ledger,
    stream: AesStream,
    turn: int,
    call: int,
    *,
    pure: bool,
) -> int:
    """The number of a candidate, drawn exactly with probability proportional to exp(-epsilon *
    distance / (2 sensitivity)): the exponential mechanism, epsilon-DP. It is charged as pure
    epsilon, or as a Gaussian that hides less."""
    from tacenda.privacy.noise.choice import choose  # loads a compiler

    sensitivity = checks.whole("sensitivity", choice.sensitivity, least=1)
    ledger.charge(turn, call, choice_charge(epsilon, pure), b"")  # the stream names no question
    return choose(choice.distances(), Fraction(epsilon) / (2 * sensitivity), stream)


def _common_unit(core: Array, factor: Any, offset: Array | None) -> float:
    """The one public size of a step, of a value that is nothing but whole steps."""
    column = np.unique(np.asarray(factor, float))
    if core.dtype != np.int64 or offset is not None or len(column) != 1 or not column[0] > 0:
        raise LeakError(
            "A masked release takes whole numbers with one public factor above 0 for all nodes, "
            "and no public part: ask for node.gradient(w, regularised=False) of all records or "
            "node.second_moment(), divided by one number."
        )
    return float(column[0])
