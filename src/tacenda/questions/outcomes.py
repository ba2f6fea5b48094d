"""`OutcomeCounts`: what a model of ordered classes, or of the time until an event, does on records.

A record is in one cell of one table: its bin, by the chance to lie beyond the middle cut that the
model gives it, and its outcome. All chances of such a model follow from one score, so that the bin
tells them at every cut: concordance, calibration and Brier scores follow from the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacenda import checks, losses
from tacenda._types import Array, Floats
from tacenda.errors import InputError
from tacenda.questions.counts import EDGES, MOST_CLASSES, Counts, checked_edges
from tacenda.questions.statistics import Records, register

MOST = 60.0  # scores beyond +-60 have chances of 0 and 1


@register
@dataclass(frozen=True)
class OutcomeCounts(Counts):
    """Records by the predicted chance and by the outcome.

    Parameters
    ----------
    loss : str
        Name of the loss that was learnt, "ordinal" or "discrete-hazard".
    n_classes : int
        Number of outcomes.
    edges : tuple of float, optional
        Of the bins of the chance to lie beyond the middle cut.

    Examples
    --------
    >>> from tacenda.questions.outcomes import OutcomeCounts
    >>> OutcomeCounts("ordinal", 3).tables
    {'outcomes': (16, 3)}
    """

    name: ClassVar[str] = "outcome-counts"
    kinds: ClassVar[tuple[str, ...]] = ("multiclass",)

    loss: str
    n_classes: int
    edges: tuple[float, ...] = EDGES

    def __post_init__(self) -> None:
        if self.loss not in losses.names() or not losses.by_name(self.loss).stacked:
            raise InputError(f"loss must be 'ordinal' or 'discrete-hazard', not {self.loss!r}.")
        if not 2 <= checks.whole("n_classes", self.n_classes, least=2) <= MOST_CLASSES:
            raise InputError(f"n_classes must be at most {MOST_CLASSES}, not {self.n_classes}.")
        object.__setattr__(self, "edges", checked_edges(self.edges))

    @property
    def learnt(self) -> Any:
        """The loss."""
        return losses.by_name(self.loss)

    @property
    def cuts(self) -> int:
        """T, the number of cuts."""
        return int(self.learnt.questions(self.n_classes))

    @property
    def tables(self) -> dict[str, tuple[int, int]]:
        return {"outcomes": (len(self.edges) + 1, self.n_classes)}

    @property
    def need(self) -> dict[str, float]:
        return {"outcomes": 1.0}

    def vectors(self, records: Records, model: Floats) -> Array:
        scores = records.scores(model)[:, : self.cuts]
        beyond = self.learnt.beyond(scores)[:, self.cuts // 2]
        cells = np.digitize(beyond, self.edges) * self.n_classes + records.classes
        return self.filled({"outcomes": cells}, (), np.asarray(np.isfinite(scores).all(axis=1)))

    def chances(self, offsets: Array) -> Floats:
        """(bins, T) the chance to lie beyond each cut in the middle of each bin.

        offsets: shape (T,), the model's scores of the questions less that of the first.
        """
        return self._at(self._middles, np.asarray(offsets, float))

    def ends(self, offsets: Array) -> Floats:
        """(bins + 1, T) the same at the bins' edges."""
        return self._at(np.array([0.0, *self.edges, 1.0]), np.asarray(offsets, float))

    @property
    def _middles(self) -> Floats:
        ends = np.array([0.0, *self.edges, 1.0])
        return np.asarray((ends[:-1] + ends[1:]) / 2)

    def _at(self, middle: Floats, offsets: Floats) -> Floats:
        """Chances at every cut where that at the middle one has these values, by bisection."""
        sign = 1.0 if self.learnt.predicts == "order" else -1.0
        low, high = np.full(len(middle), -MOST), np.full(len(middle), MOST)
        for _ in range(60):
            half = (low + high) / 2
            found = self.learnt.beyond(sign * half[:, None] + offsets)
            below = found[:, self.cuts // 2] < middle
            low, high = np.where(below, half, low), np.where(below, high, half)
        return np.asarray(self.learnt.beyond(sign * ((low + high) / 2)[:, None] + offsets))


def outcome_model(loss: Any, model: Array, cells: int) -> Floats:
    """(K p,) the model of a stacked loss as one of K scores of a record, those beyond T at 0, which
    `OutcomeCounts` asks; model: (T, p), or (d,)."""
    from tacenda.losses.stacked import record_weights

    t, found = loss.questions(cells), np.asarray(model, np.float64)
    weights = found if found.ndim == 2 else record_weights(found, t)
    padded = np.zeros((cells, weights.shape[1]))
    padded[:t] = weights
    return padded.reshape(-1)
