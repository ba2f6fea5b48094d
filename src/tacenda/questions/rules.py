"""What a question is checked for and costs, from public numbers alone: the same for real records,
whole numbers and the blank records of a rehearsal."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tacenda._types import Array
from tacenda.errors import LeakError, UnsupportedError
from tacenda.privacy.secrets.bounded import Bounded, Sample
from tacenda.privacy.secrets.door import Question
from tacenda.privacy.secrets.mechanisms import ObjectiveTerms
from tacenda.questions.facts import Facts, RecordMap
from tacenda.questions.moments import check_bytes, check_matrix, label_width, moment_length
from tacenda.questions.statistics import Statistic, checked


class Answers(Protocol):
    """What a node asks: real records, or the blank ones of a rehearsal."""

    facts: Facts

    def gradient(
        self, w: Array, turn: int, call: int, batch_size: int | None, one: bool, regularised: bool
    ) -> Bounded: ...
    def argmin(
        self, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded
    ) -> Bounded: ...
    def question(self, linear: Array, quadratic: Array, centre: Array | Bounded) -> Question: ...
    def second_moment(
        self, label_scale: float, label_bound: float, diagonal: bool = False
    ) -> Bounded: ...
    def statistic(self, statistic: Statistic, w: Array) -> Bounded: ...
    def mapped(self, by: RecordMap) -> Answers: ...


def moment_name(diagonal: bool) -> str:
    """What a question for a second moment is named by."""
    return "second moment, diagonal" if diagonal else "second moment"


def check_statistic(facts: Facts, statistic: Statistic) -> None:
    """Refuse a statistic that does not fit the records, from public numbers."""
    k = facts.constants
    checked(statistic).check(facts.n_features, k.n_outputs, k.loss.kind)
    check_bytes(
        f"A statistic of {statistic.length} numbers",
        8.0 * facts.n * statistic.length,
        "use fewer bins or candidates, or fewer nodes in a block.",
    )


def check_moment_bytes(facts: Facts, label_scale: float, diagonal: bool = False) -> None:
    """Refuse a second moment whose rows would not fit, from public numbers."""
    width = facts.n_features + label_width(label_scale, facts.constants.n_outputs)
    check_bytes(
        f"The second moment of {facts.n_features} features",
        8.0 * facts.n * moment_length(width, diagonal),
        "use fewer features or fewer nodes in a block, or run without whitening.",
    )


def check_map(facts: Facts, matrix: Array) -> None:
    """Refuse a map of another shape, or to more numbers than fit, from public numbers.

    A diagonal map makes one more table of the size and layout that the records have.
    """
    check_matrix(matrix, facts.n_features)
    if matrix.ndim == 1:
        return
    columns = matrix.shape[1]
    check_bytes(
        f"Records mapped to {columns} dense columns",
        8.0 * float(facts.sizes.sum()) * columns,
        "keep the columns of the largest eigenvalues only, or run without whitening.",
    )


def sample_of(facts: Facts, batch_size: int, one: bool) -> Sample:
    """The law of a sample: a fresh object,
    so that values of two different draws are never added."""
    facts.check_sampled()
    if one:
        return Sample("one", facts.sampling_rate(1))
    rate = facts.sampling_rate(batch_size)
    if rate.max() > 1:
        raise UnsupportedError(
            f"batch_size must be at most the smallest node's {int(facts.sizes.min())} records, "
            f"not {batch_size}; "
            "use batch_size=None for all records."
        )
    return Sample("poisson", rate)


def argmin_sensitivity(
    facts: Facts, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded
) -> Array:
    """(b,) by the rule in the text of `questions.queries`."""
    return facts.argmin_sensitivity(quadratic, moved_by_record(linear), moved_by_record(centre))


def open_argmin(
    facts: Facts, linear: Array, quadratic: Array, centre: Array | Bounded
) -> ObjectiveTerms:
    """The public terms of an argmin whose noise is inside its objective; a centre that was not
    released moves the gradient too, as far at every w."""
    refuse_secret_point(linear)
    if not isinstance(centre, Bounded):
        refuse_secret_point(centre)
        return facts.objective_terms(quadratic)
    return facts.objective_terms(quadratic, moved_by_record(centre))


def moved_by_record(part: Array | Bounded) -> Array | float:
    """How far one record moves a term of an argmin: (b,), 0 where it is public."""
    if not isinstance(part, Bounded):
        return 0.0
    if part.sample.kind != "all":
        raise LeakError(
            "An argmin around a value of a sample of the records has no accountant here; "
            "release the value first."
        )
    return part.sensitivity


def refuse_secret_point(w: Any) -> None:
    """Refuse a point that is not a plain array."""
    if not isinstance(w, np.ndarray):
        raise LeakError(
            "A query must be asked at a public point, a plain array, "
            f"not at a {type(w).__name__}: at an unreleased point one record moves the result by "
            "more than its bound."
        )
