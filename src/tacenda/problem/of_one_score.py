"""The derivatives of every loss of one score, by its compiled formula."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from tacenda._arrays import flat_input
from tacenda._types import Array, Floats
from tacenda.problem.multinomial import parameter_numbers


class OfOneScore:
    """The derivatives of a loss of one score, by its compiled formula."""

    code: ClassVar[int]

    @property
    def parameter(self) -> float:
        """The loss's own parameter, 0 where it has none."""
        return 0.0

    @property
    def label_range(self) -> tuple[float, float]:
        """Where the labels of a regression lie.

        A loss whose labels have no bound is a function of the residual s - y; one with a bound
        takes a label beyond it as the bound.
        """
        return -math.inf, math.inf

    @property
    def numbers(self) -> Floats | None:
        """What the compiled formula reads: the parameter h, and 1 + h, rounded once.

        None where there is none, so that only what such a loss needs is compiled.
        """
        return parameter_numbers(self.parameter) if self.parameter else None

    def derivative(self, scores: Array, labels: Array) -> Array:
        """d loss / d s of each record; 0 at a kink.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record.
        labels : ndarray
            y of each record, in the loss's own coding.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """
        from tacenda.problem.kernels.rows import slopes_of  # here: it loads the compiler

        return self._each(slopes_of, scores, labels)

    def second(self, scores: Array, labels: Array) -> Array:
        """d^2 loss / d s^2 of each record.

        One element of it where the loss is only once differentiable.

        Parameters
        ----------
        scores : ndarray
            s = x.w of each record.
        labels : ndarray
            y of each record, in the loss's own coding.

        Returns
        -------
        ndarray
            Of the shape that scores and labels have together.
        """
        from tacenda.problem.kernels.rows import curvatures_of  # here: it loads the compiler

        return self._each(curvatures_of, scores, labels)

    def _each(self, formula: Any, scores: Array, labels: Array) -> Array:
        s, y = np.broadcast_arrays(np.asarray(scores, np.float64), np.asarray(labels, np.float64))
        found = np.empty(s.shape)
        formula(self.code, self.numbers, flat_input(s), flat_input(y), found.reshape(-1))
        return found
