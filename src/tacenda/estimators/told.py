"""What a fitted model says of its coefficients: a table, with errors or with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tacenda._types import Array
from tacenda.errors import InputError
from tacenda.estimators.inputs import CheckedInputs
from tacenda.estimators.scaling import Scaling, declared_bounds
from tacenda.estimators.table_rows import category_places, design_of
from tacenda.evaluation.coefficients import (
    ORIGINAL,
    SHORTENED,
    CoefficientTable,
    coefficient_table,
    ratio_note,
)
from tacenda.inference.asking import check_width, facts_of_run, intervals, statistic_of
from tacenda.inference.design import Design, Forecast, forecast
from tacenda.inference.result import Inference
from tacenda.runtime.result import RunResult


class ToldCoefficients(CheckedInputs):
    """The part of a model that tells its coefficients."""

    _ratio: str | None = None  # what exp(coefficient) is, where it has a name
    _references: Sequence[Sequence[int]] = ()  # categories in `intervals`, the reference first
    _inference: Inference | None = None

    @property
    def coef_table_(self) -> CoefficientTable:
        """Coefficients by feature name in the original units, the largest effects over the declared
        bounds first, with the standard error that the privacy noise adds, where it is known, or
        with the intervals that the fit tells or `intervals` asked for."""
        return self._coefficients(intercepts=bool(self.fit_intercept))

    def _coefficients(self, intercepts: bool) -> CoefficientTable:
        check_is_fitted(self)
        coef = np.atleast_2d(self.coef_)
        names, std = self._feature_names(coef.shape[1]), self._coef_std
        intercept = np.atleast_1d(self.intercept_)
        spans = None
        if self.bounds is not None and not isinstance(self.bounds, str):
            low, high = declared_bounds(self.bounds, names)
            spans = high - low
        notes = [] if self._ratio is None else [ratio_note(self._ratio)]
        rows = list(range(coef.shape[1]))
        if self._references:
            coef, intercept = coef.copy(), intercept.copy()
            std = None if std is None else std.copy()
            for reference, *others in self._references:
                intercept += coef[:, reference]
                coef[:, others] -= coef[:, [reference]]
                if std is not None:
                    std[:, others] = np.nan  # their noise is joint
                rows.remove(reference)
            notes.append(
                "Columns of a category are compared with its reference: "
                f"{', '.join(names[group[0]] for group in self._references)}."
            )
        return coefficient_table(
            [names[j] for j in rows],
            coef[:, rows],
            intercept if intercepts else None,
            coef_std=None if std is None else std[:, rows],
            intercept_std=None if self._references else self._intercept_std,
            spans=None if spans is None else spans[rows],
            outputs=getattr(self, "classes_", None),
            errors=self._errors,
            notes=[*notes, *self._shortening_notes()],
            units=SHORTENED if self.feature_map_.shortens else ORIGINAL,
            inference=self._inference,
        )

    def _shortening_notes(self) -> list[str]:
        """What a reader of the coefficients must know where rows may be shortened."""
        if not self.feature_map_.shortens:
            return []
        return [
            f"Rows of norm above {self.feature_map_.norm:g} are shortened to it, in training and "
            "in prediction: coefficients are those of the shortened rows, have no original unit, "
            "and no interval."
        ]

    def _standard_errors(
        self, result: RunResult, scaling: Scaling
    ) -> tuple[Array | None, Array | None]:
        """(K, p) of the coefficients and (K,) of the intercepts by the privacy noise, in the user's
        scale; None where they are not known. An intercept that a shift of the features mixes with
        their coefficients has none."""
        if result.noise_std is None:
            return None, None
        p = len(scaling.scale)
        std = np.asarray(result.noise_std, float).reshape(-1, p + (scaling.constant is not None))
        coef = std[:, :p] * np.abs(scaling.scale) * self._score_unit
        if scaling.constant is None or scaling.centre.any():
            return coef, None
        return coef, std[:, p] * scaling.constant * self._score_unit

    @property
    def _score_unit(self) -> float:
        """What one unit of the scaled score is in the user's own."""
        return 1.0

    @property
    def _score_centre(self) -> float:
        """What the scaled score 0 is in the user's own."""
        return 0.0

    def _set_coef(self, node_coef: Array, node_intercept: Array) -> None:
        """coef (n, K, p) and intercept (n, K) of every node, and their average."""
        self.node_coef_, self.node_intercept_ = node_coef, node_intercept
        self.coef_, self.intercept_ = node_coef.mean(axis=0), node_intercept.mean(axis=0)

    def intervals(
        self,
        X: Any,
        y: Any,
        *,
        epsilon: float | None,
        delta: float = 1e-5,
        level: float = 0.95,
        covariance: str = "robust",
        nodes: Any = None,
        categories: Sequence[Sequence[Any]] = (),
        anyway: bool = False,
    ) -> CoefficientTable:
        """Ask the records once more for intervals of the coefficients; charged.

        The population's coefficients are estimated without a regulariser, with standard errors and
        intervals for the choice of records and the privacy noise together
        (`tacenda.inference.intervals`). Afterwards `coef_table_` shows them too.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The records of `fit`, or others of the same population.
        y : array-like of shape (n_samples,)
            Their labels.
        epsilon : float or None
            What the question costs, on top of the fit; None: no noise, and no privacy.
        delta : float, default=1e-5
            Its delta.
        level : float, default=0.95
            Confidence level of the intervals.
        covariance : {"robust", "model"}, default="robust"
            "robust" needs no model to be right; "model" takes the loss for the truth.
        nodes : array-like of shape (n_samples,) or None, default=None
            The node of each record, as in `fit`.
        categories : sequence of sequences of str or int, default=()
            Groups of columns, by name or position; every record has exactly one of them at 1 and
            the others at 0: a category's indicators. The first of each group is the reference; the
            others are estimated as contrasts to it. Declared by you: nothing is read from X.
        anyway : bool, default=False
            Ask although the forecast from public numbers says that no interval will show. Without
            it such a question is refused, and nothing is charged.

        Returns
        -------
        CoefficientTable
            Coefficients and estimates by feature name, with the conditions and the cost.

        Raises
        ------
        InputError
            If the forecast says that the noise will hide every coefficient.
        """
        check_is_fitted(self)
        if self.feature_map_.shortens:
            raise InputError(
                "intervals needs rows that are never shortened: declare bounds=(low, high) from "
                "public knowledge, and leave data_norm out."
            )
        arranged = self._arranged(X, y, nodes=nodes)
        privacy = None if epsilon is None else self._promise_of(epsilon, delta)
        check_width(len(arranged.scaling.scale))
        references = category_places(categories, self._feature_names(len(arranged.scaling.scale)))
        design = self._design(arranged.scaling, references)
        found = intervals(
            self.result_,
            arranged.problem,
            arranged.topology,
            privacy=privacy,
            level=level,
            covariance=covariance,
            seed=self._seed(),
            ledger=self.ledger,
            dataset=self.dataset,
            design=design,
            anyway=anyway,
        )
        self._inference = found.mapped(design.matrix, design.offset)
        self._references = references
        return self.coef_table_

    def forecast_intervals(
        self,
        *,
        epsilon: float,
        delta: float = 1e-5,
        covariance: str = "robust",
        categories: Sequence[Sequence[Any]] = (),
    ) -> Forecast | None:
        """Forecast which coefficients `intervals` will show at this price; reads no record.

        epsilon: what the question would cost. delta: its delta. covariance: and categories: as in
        `intervals`. Result: by row, whether it will probably show and what epsilon it needs; None
        for a loss of your own.
        """
        check_is_fitted(self)
        facts = facts_of_run(self.result_, self._relation)
        if facts is None:
            return None
        asked = statistic_of(facts, covariance)
        groups = category_places(categories, self._feature_names(len(self._scaling.scale)))
        design = self._design(self._scaling, groups)
        privacy = self._promise_of(epsilon, delta)
        return forecast(asked, facts, privacy, self.result_, design)

    def _design(self, scaling: Scaling, categories: Sequence[Sequence[int]] = ()) -> Design:
        """The rows of the table in the user's scale."""
        names = self._feature_names(len(scaling.scale))
        score = (self._score_centre, self._score_unit)
        return design_of(scaling, names, score, self.fit_intercept, categories)
