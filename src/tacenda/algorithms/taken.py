"""What a whitened run takes over from the one before it: the moment, which was released there."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.spectrum import risk_of_change
from tacenda.errors import InputError
from tacenda.questions.facts import Facts

if TYPE_CHECKING:
    from tacenda.algorithms.whitening import Whitening

FOR_NEXT = "for_next"  # by which name it stands in `RunResult.released`
DRIFT = 0.01


@dataclass(frozen=True, eq=False)
class Taken:
    """What a run takes over from the one before it: all of it was released there.

    Parameters
    ----------
    moment : ndarray (d (d + 1) / 2,) or (d,)
        The second moment as it was released, packed, or its diagonal.
    label_scale : float
        With which the labels are in it; 0 where they are not.
    std : float
        Of the noise of a diagonal entry.
    risk : float
        The forecast excess risk of the last model, at which the descent starts.
    drift : float, default=0.01
        How much the optimum may have moved since, as a share of the whole signal.
    """

    moment: Array
    label_scale: float
    std: float
    risk: float
    drift: float = DRIFT

    @classmethod
    def of(cls, released: Mapping[str, Any], drift: float = DRIFT) -> Taken | None:
        """From what a whitened run released; None where it was no such run."""
        row = released.get(FOR_NEXT)
        if row is None:
            return None
        scale, std, risk = (float(v) for v in row[-3:])
        return cls(np.asarray(row[:-3], float), scale, std, risk, drift)

    @classmethod
    def stand_in(cls, facts: Facts, whitening: Whitening, algorithm: Algorithm) -> Taken:
        """For a rehearsal: of that size, and nobody's."""
        scale = whitening.labels_in(facts, algorithm)
        return cls(np.zeros(whitening.moment_numbers(facts, algorithm)), scale, 1.0, math.inf)

    def to_plain(self) -> dict[str, Any]:
        """Plain values that name it."""
        row = np.append(self.moment, [self.label_scale, self.std, self.risk]).astype("<f8")
        return {"moment": hashlib.sha256(row.tobytes()).hexdigest(), "drift": self.drift}

    def moment_for(
        self, facts: Facts, whitening: Whitening, algorithm: Algorithm, start: Array
    ) -> Array:
        """The moment, if it is of these records and labels; of one feature in a rehearsal, as its
        models are."""
        d, length = facts.n_features, whitening.moment_numbers
        if start.shape[1] == 1 < d:
            return np.zeros(length(facts, algorithm, 1))
        scale = whitening.labels_in(facts, algorithm)
        if self.label_scale != scale:
            raise InputError(
                f"The run before released its moment with labels of scale {self.label_scale:g}, "
                f"and Whitening.label_scale here means {scale:g}; use the same, or leave the "
                "moment out, and release one again."
            )
        if len(self.moment) == length(facts, algorithm):
            return self.moment
        raise InputError(
            f"The moment of the run before has {len(self.moment)} numbers, which are not those of "
            f"{d} features; leave it out, and release one again."
        )

    def start(self, facts: Facts, directions: int, records: float) -> float:
        """The forecast excess risk of the last model on these records."""
        moved = risk_of_change(facts.constants, directions, records, self.drift)
        return self.risk + moved
