"""The loss of ordered classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacenda._types import Array, Flags, Floats, Ints
from tacenda.losses.registry import built_in
from tacenda.losses.stacked import Stacked


@built_in
@dataclass(frozen=True)
class Ordinal(Stacked):
    """Ordered classes: the mean of the logistic losses of "above step k or not", K - 1 steps.

    The proportional odds model: the odds of a class above step k are exp(x.b - threshold_k), with
    the same b for every step. This all-threshold loss (Rennie and Srebro 2005) is convex in
    coefficients and thresholds together, and each of its terms has slope 1; the model's likelihood
    has no bounded slope where two thresholds come together. The last feature is the constant.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.losses.Ordinal().beyond(np.array([[2.0, -1.0]])).round(3)
    array([[0.881, 0.269]])
    """

    name: ClassVar[str] = "ordinal"
    predicts: ClassVar[str] = "order"

    @staticmethod
    def questions(cells: int) -> int:
        """One step between each two classes."""
        return cells - 1

    @staticmethod
    def answers(cell: Ints, t: int) -> tuple[Flags, Flags]:
        """All are asked: is the class above the step?"""
        yes = np.asarray(cell)[:, None] > np.arange(t)
        return np.ones_like(yes), yes

    @staticmethod
    def cells(asked: Flags, yes: Flags) -> Ints:
        """How many steps the class is above."""
        return np.asarray(yes.sum(axis=1))

    @staticmethod
    def beyond(scores: Array) -> Floats:
        """Of a class above each step. Thresholds that noise put out of order are sorted."""
        from scipy.special import expit

        return np.asarray(expit(-np.sort(-np.asarray(scores, float), axis=1)))

    @staticmethod
    def lowest(scores: Array) -> Floats:
        """The lower the score, the lower the class."""
        return -np.asarray(scores)[:, 0]
