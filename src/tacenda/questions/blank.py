"""`BlankQueries`: questions with no records behind them, for a rehearsal."""

from __future__ import annotations

import numpy as np

from tacenda._types import Array
from tacenda.privacy.secrets.bounded import ALL_RECORDS, Bounded, seal
from tacenda.privacy.secrets.door import Question
from tacenda.questions.facts import Facts, RecordMap
from tacenda.questions.moments import label_width, moment_length
from tacenda.questions.rules import argmin_sensitivity, check_statistic, open_argmin, sample_of
from tacenda.questions.statistics import Statistic


class BlankQueries:
    """Answers with no records behind them: zeros with the true sensitivities, for planning the
    noise. They are as long as the models in the question; of length one where nothing says how
    long, or of their true length if `full`."""

    def __init__(self, facts: Facts, full: bool = False) -> None:
        self.facts, self._full = facts, full

    def gradient(
        self, w: Array, turn: int, call: int, batch_size: int | None, one: bool, regularised: bool
    ) -> Bounded:
        sample = ALL_RECORDS if batch_size is None else sample_of(self.facts, batch_size, one)
        return seal(
            np.zeros((self.facts.n, w.shape[1])),
            self.facts.gradient_sensitivity(batch_size),
            sample,
        )

    def argmin(self, linear: Array | Bounded, quadratic: Array, centre: Array | Bounded) -> Bounded:
        self.facts.check_solver(quadratic)
        return seal(
            np.zeros((self.facts.n, centre.shape[1])),
            argmin_sensitivity(self.facts, linear, quadratic, centre),
        )

    def question(self, linear: Array, quadratic: Array, centre: Array | Bounded) -> Question:
        self.facts.check_solver(quadratic)
        terms = open_argmin(self.facts, linear, quadratic, centre)
        shape = (self.facts.n, centre.shape[1])
        return Question(terms, shape, lambda noise, extra: (np.zeros(shape), None))

    def second_moment(
        self, label_scale: float, label_bound: float, diagonal: bool = False
    ) -> Bounded:
        facts = self.facts
        labels = label_width(label_scale, facts.constants.n_outputs)
        width = (facts.n_features if self._full else 1) + labels
        return seal(
            np.zeros((facts.n, moment_length(width, diagonal))),
            facts.moment_sensitivity(label_scale, label_bound),
        )

    def statistic(self, statistic: Statistic, w: Array) -> Bounded:
        check_statistic(self.facts, statistic)
        return seal(
            np.zeros((self.facts.n, statistic.length if self._full else 1)),
            self.facts.statistic_sensitivity(statistic),
        )

    def mapped(self, by: RecordMap) -> BlankQueries:
        return BlankQueries(self.facts.mapped(by), self._full)
