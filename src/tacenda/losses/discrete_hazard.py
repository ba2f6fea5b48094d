"""The loss of the time until an event, in periods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacenda._types import Array, Flags, Floats, Ints
from tacenda.losses.registry import built_in
from tacenda.losses.stacked import Stacked


@built_in
@dataclass(frozen=True)
class DiscreteHazard(Stacked):
    """Time until an event, in T periods: logistic in each, of those at risk in it.

    The hazard of period t is expit(x.b + a_t), with the same b in all (Cox 1972). Outcomes are the
    cells of a life table: the event in period 0 .. T-1, or last seen without it after 0 .. T
    periods, cells T .. 2T. Who was last seen during a period is not asked about it. The last
    feature is the constant.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> tc.losses.DiscreteHazard().beyond(np.array([[0.0, 0.0]]))
    array([[0.5 , 0.25]])
    """

    name: ClassVar[str] = "discrete-hazard"
    predicts: ClassVar[str] = "hazard"

    @staticmethod
    def questions(cells: int) -> int:
        """One in each period."""
        return (cells - 1) // 2

    @staticmethod
    def answers(cell: Ints, t: int) -> tuple[Flags, Flags]:
        """Asked of those at risk in the period: did the event happen in it?"""
        cell, k = np.asarray(cell)[:, None], np.arange(t)
        yes = cell == k
        return np.where(cell < t, k <= cell, k < cell - t), yes

    @staticmethod
    def cells(asked: Flags, yes: Flags) -> Ints:
        """The period of the event, or how many were survived."""
        survived = asked.sum(axis=1)
        return np.where(yes.any(axis=1), survived - 1, asked.shape[1] + survived)

    @staticmethod
    def beyond(scores: Array) -> Floats:
        """Of no event up to the end of each period."""
        from scipy.special import expit

        return np.asarray(np.cumprod(expit(-np.asarray(scores, float)), axis=1))

    @staticmethod
    def lowest(scores: Array) -> Floats:
        """The higher the hazard, the earlier the event."""
        return np.asarray(scores)[:, 0]
