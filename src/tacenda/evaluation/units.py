"""From encoded labels and scores to the label's own units."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacenda._types import Array, Floats
from tacenda.data.label import Label
from tacenda.losses.registry import predicts


class Units(NamedTuple):
    """From encoded labels to the label's own units: label = centre + reach * encoded, and a
    prediction is kept within [low, high], where these are declared. log_scores: a score is the
    logarithm of the encoded prediction, as for counts."""

    centre: float = 0.0
    reach: float = 1.0
    low: float | None = None
    high: float | None = None
    log_scores: bool = False

    @classmethod
    def of(cls, label: Label | None) -> Units:
        """Those of a schema's label; as encoded where there is none."""
        if label is None:
            return cls()
        return cls(*label.centre_and_reach, label.low, label.high)

    def of_loss(self, loss: str | None) -> Units:
        """The same for scores of the loss with this name."""
        return self._replace(log_scores=predicts(loss) == "log-rate")

    def labels(self, encoded: Array) -> Floats:
        """(N,) labels in their own units."""
        return np.asarray(self.centre + self.reach * np.asarray(encoded, float))

    def predictions(self, scores: Array) -> Floats:
        """(N,) predictions in the label's units, inside its bounds."""
        if self.log_scores:
            with np.errstate(over="ignore"):  # an infinite rate is cut to the bound
                scores = np.exp(np.asarray(scores, float))
        found = self.labels(scores)
        if self.low is None or self.high is None:
            return found
        return np.asarray(np.clip(found, self.low, self.high))
