"""Questions that a block of nodes may ask of its private records. Every answer is a `Bounded`, or a
question for the door.

Gradients are asked at public points only, so one record moves them by at most 2Gc/m (replace-one).
An argmin's linear term and centre may themselves be Bounded; its sensitivity then is (2Gc/m +
sens(linear) + 2 q sens(centre) + 2 tol)/kappa.

That holds for every float that a neighbour may have sent (docs/decisions/0011-every-float.md).
Points are brought into the public radius. A public part that is so large that adding it would round
a secret visibly is not added here: it goes along as the public offset of the answer, to which noise
is added first.
"""

from __future__ import annotations

import copy
from typing import Any, Protocol

import numpy as np

from tacenda._arrays import read_only
from tacenda._types import Array
from tacenda.errors import PrivacyError
from tacenda.privacy.noise.sources import NoiseSource
from tacenda.privacy.secrets.bounded import (
    ALL_RECORDS,
    Bounded,
    Sample,
    open_values,
    question_of,
    seal,
)
from tacenda.privacy.secrets.door import Question
from tacenda.privacy.secrets.question import digest
from tacenda.questions.facts import Facts, RecordMap
from tacenda.questions.radius import brought_within, is_within
from tacenda.questions.rules import (
    argmin_sensitivity,
    check_map,
    check_moment_bytes,
    check_statistic,
    moment_name,
    open_argmin,
    refuse_secret_point,
    sample_of,
)
from tacenda.questions.statistics import Statistic
from tacenda.regularisers import Regulariser

# Up to here r R'(w) is added to the loss's part before the noise:
# its last place is then far below any noise.
NEAR = {np.dtype(np.float64): 1e4, np.dtype(np.float32): 1e2}


class Kernels(Protocol):
    """The private records and their kernels (`problem.store`); plain arrays in and out."""

    def gradient(
        self, nodes: Array, w: Array, clip_norm: float | None = None, regularised: bool = True
    ) -> Array: ...

    def batch_gradient(
        self,
        nodes: Array,
        w: Array,
        indptr: Array,
        records: Array,
        batch_size: Array,
        clip_norm: float | None = None,
        regularised: bool = True,
    ) -> Array: ...

    def argmin(
        self,
        nodes: Array,
        linear: Array,
        quadratic: Array,
        centre: Array,
        start: Array,
        tolerance: float,
        remember: bool = False,
    ) -> Array: ...

    def argmin_around(
        self, nodes: Array, anchor: Array, convexity: Array, tolerance: float
    ) -> Array: ...

    def second_moment(
        self,
        nodes: Array,
        norm: float,
        label_scale: float,
        label_bound: float,
        diagonal: bool = False,
    ) -> Array: ...

    def statistic(self, nodes: Array, statistic: Statistic, w: Array) -> Array: ...

    def mapped(
        self, nodes: Array, matrix: Array, norm: float, regulariser: Regulariser, strength: float
    ) -> Kernels: ...


class Queries:
    """Answers from the records of the nodes at positions `nodes` (b,); at (b,): their places in
    the store, the same by default, where it holds the records of some nodes only. remembers:
    whether the solver may go on from exact minimisers of earlier rounds, which are private unless
    all of the run's releases are exact."""

    def __init__(
        self,
        store: Kernels,
        counts: Array,
        nodes: Array,
        facts: Facts,
        noise: NoiseSource,
        *,
        at: Array | None = None,
        remembers: bool = False,
    ) -> None:
        self._store, self._counts, self._nodes = store, counts[nodes], nodes
        # Mapped records have places of their own too; the store prepares itself for what stays
        self._at = read_only(nodes if at is None else at)
        self.facts, self._noise = facts, noise
        self._counts_are_public = bool(np.all(self._counts == facts.sizes))
        self._divisors: dict[int, Array] = {}
        self._map, self._remembers = b"", remembers

    def gradient(
        self, w: Array, turn: int, call: int, batch_size: int | None, one: bool, regularised: bool
    ) -> Bounded:
        """The gradient of f_i at the public point w (b, d): of all records, a Poisson sample, or
        exactly one record."""
        refuse_secret_point(w)
        asked = self._named("gradient", w, batch_size, one, regularised)
        sample = ALL_RECORDS if batch_size is None else sample_of(self.facts, batch_size, one)
        records = None if batch_size is None else self._drawn(sample, turn, call, one, asked)
        sensitivity = self.facts.gradient_sensitivity(batch_size)
        if w.dtype not in NEAR:
            w = w.astype(np.float64)
        k = self.facts.constants
        if k.regulariser.weighted and regularised:  # released weights may be of any size
            w = brought_within(w, k.radius)
            values = self._gradient(w, records, batch_size, False)
            return seal(values, sensitivity, sample, asked) + self._regulariser(w)
        near = min(NEAR[w.dtype], k.radius)
        if is_within(w, near):
            return seal(
                self._gradient(w, records, batch_size, regularised), sensitivity, sample, asked
            )
        far = ~(np.abs(w) <= near).all(axis=1, keepdims=True)
        w = brought_within(w, self.facts.constants.radius)
        values = self._gradient(w, records, batch_size, regularised)
        if not regularised or self.facts.constants.strength == 0:
            return seal(values, sensitivity, sample, asked)
        alone = self._gradient(w, records, batch_size, False)
        answer = seal(np.where(far, alone, values), sensitivity, sample, asked)
        return answer + np.where(far, self._regulariser(w), w.dtype.type(0))

    def _drawn(
        self, sample: Sample, turn: int, call: int, one: bool, asked: bytes
    ) -> tuple[Array, Array]:
        """(indptr, records) of a sample; another question draws another one."""
        source = self._noise.asked(asked)
        if not one:
            return source.poisson_records(self._nodes, turn, call, self._counts, _rate(sample))
        if not self._counts_are_public:
            raise PrivacyError(
                "One of a node's records is drawn, so its chance follows from the true count: "
                "public_sizes must be left out, or be the counts themselves; "
                "or use Poisson batches (sampling='poisson')."
            )
        return source.one_record(self._nodes, turn, call, self._counts)

    def _gradient(
        self,
        w: Array,
        records: tuple[Array, Array] | None,
        batch_size: int | None,
        regularised: bool,
    ) -> Array:
        clip = self.facts.constants.clip_norm
        if records is None or batch_size is None:
            return self._store.gradient(self._at, w, clip, regularised)
        divisor = self._divisors.get(batch_size)
        if divisor is None:
            divisor = self._divisors[batch_size] = np.full(len(self._at), float(batch_size))
        return self._store.batch_gradient(self._at, w, *records, divisor, clip, regularised)

    def _regulariser(self, w: Array) -> Array:
        """r R'(w) of a public point, (b, d)."""
        k = self.facts.constants
        return np.asarray(k.strength * k.regulariser.gradient(w), dtype=w.dtype)

    def argmin(self, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded) -> Bounded:
        """argmin f_i(w) + linear.w + quadratic |w - centre|^2, rows (b, d)."""
        self.facts.check_solver(quadratic)
        sensitivity = argmin_sensitivity(self.facts, linear, quadratic, centre)
        asked = self._named_argmin(linear, quadratic, centre)
        core, offset = self._solve(
            *self._settled(_plain(linear), quadratic, _plain(centre), self.facts.constants.radius)
        )
        answer = seal(core, sensitivity, asked=asked)
        return answer if offset is None else answer + offset

    def question(self, linear: Array, quadratic: Array, centre: Array | Bounded) -> Question:
        """The same argmin, left open for noise inside its objective."""
        self.facts.check_solver(quadratic)
        terms = open_argmin(self.facts, linear, quadratic, centre)
        asked, centre = self._named_argmin(linear, quadratic, centre), _plain(centre)

        def solve(noise: Array | None, extra: Array | None) -> tuple[Array, Array | None]:
            if noise is None or extra is None:
                return self._solve(linear, quadratic, centre)
            # (extra/2)|w|^2 + q|w - centre|^2 = (q + extra/2)|w - moved|^2 + constant
            q = np.broadcast_to(np.asarray(quadratic, float), (len(centre), 1))
            wider = q + extra[:, None] / 2
            moved = centre * np.divide(q, wider, out=np.ones_like(wider), where=wider > 0)
            # The noise is never cut, which would not be post-processing: only the public part of
            # the anchor is.
            public, wider, moved = self._settled(
                linear, wider, moved, self.facts.answer_radius(wider)
            )
            return self._solve(public + noise, wider, moved)

        return Question(terms, centre.shape, solve, asked)

    def second_moment(
        self, label_scale: float, label_bound: float, diagonal: bool = False
    ) -> Bounded:
        """(1/m_i) sum_j z z', packed (`problem.moments`), or its diagonal alone; z = x, or (x,
        label_scale y) with y cut to label_bound."""
        sensitivity = self.facts.moment_sensitivity(label_scale, label_bound)
        check_moment_bytes(self.facts, label_scale, diagonal)
        asked = self._named(moment_name(diagonal), label_scale, label_bound)
        values = self._store.second_moment(
            self._at, self.facts.constants.data_norm, label_scale, label_bound, diagonal
        )
        return seal(values, sensitivity, asked=asked)

    def statistic(self, statistic: Statistic, w: Array) -> Bounded:
        """The sum of the records' vectors (b, length) at the public models w (b, d)."""
        refuse_secret_point(w)
        check_statistic(self.facts, statistic)
        w = brought_within(w, self.facts.constants.radius)
        asked = self._named("statistic", statistic.digest(), w)
        values = self._store.statistic(self._at, statistic, w)
        return seal(values, self.facts.statistic_sensitivity(statistic), asked=asked)

    def mapped(self, by: RecordMap) -> Queries:
        """The same questions to mapped records: new private records behind the same door."""
        refuse_secret_point(by.matrix)
        check_map(self.facts, by.matrix)
        facts = self.facts.mapped(by)
        other = copy.copy(self)
        other.facts, other._divisors = facts, {}
        k = facts.constants
        other._store = self._store.mapped(self._at, by.matrix, by.norm, k.regulariser, k.strength)
        other._at = read_only(np.arange(len(self._at)))
        taught = () if by.strength is None else (by.strength,)
        other._map = self._named("mapped", by.matrix, by.norm, by.clip_norm, *taught)
        return other

    def _named(self, *parts: Any) -> bytes:
        """The digest of a question, where the noise is named by it; on mapped records by the map
        too."""
        if not self._noise.by_question:
            return b""
        return digest(*parts, self._map) if self._map else digest(*parts)

    def _named_argmin(
        self, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded
    ) -> bytes:
        """Also where the solver stands: within its tolerance the answer depends on it."""
        if not self._noise.by_question:
            return b""
        terms = [
            question_of(part) if isinstance(part, Bounded) else (part,) for part in (linear, centre)
        ]
        solver = self._store.solver_state()  # type: ignore[attr-defined]
        return self._named("argmin", quadratic, *terms[0], *terms[1], *solver.values())

    def _solve(self, linear: Array, quadratic: Array, centre: Array) -> tuple[Array, Array | None]:
        """(core, offset) of the minimisers core + offset (b, d), each row within gradient norm
        `tolerance` of its minimum.

        A row whose terms are so large that rounding errors would show beside the tolerance is
        solved around its anchor, and the anchor is its offset.
        """
        facts = self.facts
        q = np.ascontiguousarray(np.broadcast_to(np.asarray(quadratic, float), (len(centre), 1)))
        far = np.flatnonzero(~facts.argmin_is_near(q, linear, centre))
        tolerance = facts.tolerance * (1 - facts.ROUNDING_SHARE)
        how = (tolerance, self._remembers)
        if len(far) == 0:
            return self._store.argmin(self._at, linear, q, centre, centre, *how), None
        near, weights = np.setdiff1d(np.arange(len(q)), far), facts.argmin_weights(q)
        core, offset = np.empty((len(q), facts.dim)), np.zeros((len(q), facts.dim))
        if len(near):
            core[near] = self._store.argmin(
                self._at[near], linear[near], q[near], centre[near], centre[near], *how
            )
        offset[far] = _anchor(linear[far], q[far], centre[far], weights[far])
        core[far] = self._store.argmin_around(
            self._at[far], offset[far], weights[far], 0.25 * facts.tolerance
        )
        return core, offset

    def _settled(
        self, linear: Array, quadratic: Array, centre: Array, radius: Array | float
    ) -> tuple[Array, Array, Array]:
        """(linear, quadratic, centre) with their anchor brought into the radius; the same rows
        where they are small.

        The argmin depends on linear and centre through its anchor only, so this is all that must be
        bounded. A row that is large, or has no anchor there, is written anew with linear = 0: large
        terms that cancel would round noise in `linear`.
        """
        q = np.asarray(quadratic, float)
        kappa, weights = self.facts.argmin_convexity(q), self.facts.argmin_weights(q)
        if not np.all(kappa > 0):
            return linear, q, centre
        with np.errstate(over="ignore", invalid="ignore"):
            anchor = _anchor(linear, np.broadcast_to(q, (len(centre), 1)), centre, weights)
            limit = np.broadcast_to(np.asarray(radius, float).reshape(-1, 1), anchor.shape)
            kept = np.all(np.abs(anchor) <= limit, axis=1) & self.facts.argmin_is_near(
                q, linear, centre
            )
        if kept.all():
            return linear, q, centre
        cut = np.clip(np.nan_to_num(anchor), -limit, limit)
        wider = kappa[:, None] - self.facts.constants.strong_convexity  # 2q
        by_centre = wider > 0
        placed = np.divide(weights * cut, wider, out=np.zeros_like(cut), where=by_centre)
        linear = np.where(kept[:, None], linear, np.where(by_centre, 0.0, -weights * cut))
        return linear, q, np.where(kept[:, None], centre, placed)


def _anchor(linear: Array, quadratic: Array, centre: Array, weights: Array) -> Array:
    """(b, d) the minimiser of all but the loss: (2q centre - linear)/weights, those of the squares
    (b, 1) or (b, d)."""
    return np.asarray((2 * quadratic * centre.astype(np.float64) - linear) / weights)


def _plain(value: Array | Bounded) -> Array:
    return open_values(value) if isinstance(value, Bounded) else value


def _rate(sample: Sample) -> Array:
    assert sample.rate is not None
    return sample.rate
