"""Questions that a block of nodes may ask of its private records. Every answer is a `Bounded`, or a question for the door.

Gradients are asked at public points only, so one record moves them by at most 2Gc/m (replace-one). An argmin's linear term
and centre may themselves be Bounded; its sensitivity then is (2Gc/m + sens(linear) + 2 q sens(centre) + 2 tol)/kappa.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import LeakError, PrivacyError, UnsupportedError
from tacenda.privacy.bounded import ALL_RECORDS, Bounded, Sample, open_values, question_of, seal
from tacenda.privacy.door import Question
from tacenda.privacy.noise import NoiseSource
from tacenda.privacy.question import digest
from tacenda.problem.facts import Facts

Array = NDArray[Any]


class Store(Protocol):
    """The private records and their kernels (`problem.store`); plain arrays in and out."""

    def gradient(self, nodes: Array, w: Array, clip_norm: float | None = None, regularised: bool = True) -> Array: ...

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
        self, nodes: Array, linear: Array, quadratic: Array, centre: Array, start: Array, tolerance: float
    ) -> Array: ...


class Answers(Protocol):
    """What a node asks: real records, or the blank ones of a rehearsal."""

    facts: Facts

    def gradient(
        self, w: Array, turn: int, call: int, batch_size: int | None, one: bool, regularised: bool
    ) -> Bounded: ...
    def argmin(self, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded) -> Bounded: ...
    def question(self, linear: Array, quadratic: Array, centre: Array) -> Question: ...


class Queries:
    """Answers from the records of the nodes at positions `nodes` (b,)."""

    def __init__(self, store: Store, counts: Array, nodes: Array, facts: Facts, noise: NoiseSource) -> None:
        self._store, self._counts, self._nodes = store, counts[nodes], nodes
        self.facts, self._noise = facts, noise
        self._counts_are_public = bool(np.all(self._counts == facts.sizes))
        self._divisors: dict[int, Array] = {}

    def gradient(self, w: Array, turn: int, call: int, batch_size: int | None, one: bool, regularised: bool) -> Bounded:
        """The gradient of f_i at the public point w (b, d): of all records, a Poisson sample, or exactly one record."""
        _refuse_secret_point(w)
        clip = self.facts.constants.clip_norm
        asked = self._named("gradient", w, batch_size, one, regularised)
        if batch_size is None:
            values = self._store.gradient(self._nodes, w, clip, regularised)
            return seal(values, self.facts.gradient_sensitivity(), asked=asked)
        sample = sample_of(self.facts, batch_size, one)
        if one:
            if not self._counts_are_public:
                raise PrivacyError(
                    "One of a node's records is drawn, so its chance follows from the true count: public_sizes must be left out, or "
                    "be the counts themselves; or use Poisson batches (sampling='poisson')."
                )
            indptr, records = self._noise.asked(asked).one_record(self._nodes, turn, call, self._counts)
        else:
            source = self._noise.asked(asked)
            indptr, records = source.poisson_records(self._nodes, turn, call, self._counts, _rate(sample))
        divisor = self._divisors.get(batch_size)
        if divisor is None:
            divisor = self._divisors[batch_size] = np.full(len(self._nodes), float(batch_size))
        values = self._store.batch_gradient(self._nodes, w, indptr, records, divisor, clip, regularised)
        return seal(values, self.facts.gradient_sensitivity(batch_size), sample, asked)

    def argmin(self, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded) -> Bounded:
        """argmin f_i(w) + linear.w + quadratic |w - centre|^2, rows (b, d)."""
        sensitivity = argmin_sensitivity(self.facts, linear, quadratic, centre)
        asked = self._named_argmin(linear, quadratic, centre)
        return seal(self._solve(_plain(linear), quadratic, _plain(centre)), sensitivity, asked=asked)

    def question(self, linear: Array, quadratic: Array, centre: Array) -> Question:
        """The same argmin, left open for noise inside its objective."""
        _refuse_secret_point(linear)
        _refuse_secret_point(centre)

        def solve(noise: Array | None, extra: Array | None) -> Array:
            if noise is None or extra is None:
                return self._solve(linear, quadratic, centre)
            # (extra/2)|w|^2 + q|w - centre|^2 = (q + extra/2)|w - moved|^2 + constant
            q = np.broadcast_to(np.asarray(quadratic, float), (len(centre), 1))
            wider = q + extra[:, None] / 2
            moved = centre * np.divide(q, wider, out=np.ones_like(wider), where=wider > 0)
            return self._solve(linear + noise, wider, moved)

        asked = self._named_argmin(linear, quadratic, centre)
        return Question(self.facts.objective_terms(quadratic), centre.shape, solve, asked)

    def _named(self, *parts: Any) -> bytes:
        """The digest of a question, where the noise is named by it."""
        return digest(*parts) if self._noise.by_question else b""

    def _named_argmin(self, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded) -> bytes:
        """Also where the solver stands: within its tolerance the answer depends on it."""
        if not self._noise.by_question:
            return b""
        terms = [question_of(part) if isinstance(part, Bounded) else (part,) for part in (linear, centre)]
        solver = self._store.solver_state()  # type: ignore[attr-defined]
        return digest("argmin", quadratic, *terms[0], *terms[1], *solver.values())

    def _solve(self, linear: Array, quadratic: Array, centre: Array) -> Array:
        q = np.ascontiguousarray(np.broadcast_to(np.asarray(quadratic, float), (len(centre), 1)))
        return self._store.argmin(self._nodes, linear, q, centre, centre, self.facts.tolerance)


class BlankQueries:
    """Answers with no records behind them: zeros of length one with the true sensitivities, for planning the noise."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def gradient(self, w: Array, turn: int, call: int, batch_size: int | None, one: bool, regularised: bool) -> Bounded:
        sample = ALL_RECORDS if batch_size is None else sample_of(self.facts, batch_size, one)
        return seal(np.zeros((self.facts.n, 1)), self.facts.gradient_sensitivity(batch_size), sample)

    def argmin(self, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded) -> Bounded:
        return seal(np.zeros((self.facts.n, 1)), argmin_sensitivity(self.facts, linear, quadratic, centre))

    def question(self, linear: Array, quadratic: Array, centre: Array) -> Question:
        shape = (self.facts.n, 1)
        return Question(self.facts.objective_terms(quadratic), shape, lambda noise, extra: np.zeros(shape))


def sample_of(facts: Facts, batch_size: int, one: bool) -> Sample:
    """The law of a sample: a fresh object, so that values of two different draws are never added."""
    if one:
        return Sample("one", facts.sampling_rate(1))
    rate = facts.sampling_rate(batch_size)
    if rate.max() > 1:
        raise UnsupportedError(
            f"batch_size must be at most the smallest node's {int(facts.sizes.min())} records, not {batch_size}; "
            "use batch_size=None for all records."
        )
    return Sample("poisson", rate)


def argmin_sensitivity(facts: Facts, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded) -> Array:
    """(b,) by the rule in this module's text."""
    for part in (linear, centre):
        if isinstance(part, Bounded) and part.sample.kind != "all":
            raise LeakError("An argmin around a value of a sample of the records has no accountant here; release the value first.")
    moved = linear.sensitivity if isinstance(linear, Bounded) else 0.0
    shifted = centre.sensitivity if isinstance(centre, Bounded) else 0.0
    return facts.argmin_sensitivity(quadratic, moved, shifted)


def _plain(value: Array | Bounded) -> Array:
    return open_values(value) if isinstance(value, Bounded) else value


def _rate(sample: Sample) -> Array:
    assert sample.rate is not None
    return sample.rate


def _refuse_secret_point(w: Any) -> None:
    if not isinstance(w, np.ndarray):
        raise LeakError(
            f"A query must be asked at a public point, a plain array, not at a {type(w).__name__}: at a hidden point one "
            "record moves the answer by more than its bound."
        )
