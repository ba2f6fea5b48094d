"""Estimators that decide between curves and straight lines by the forecast of the noise."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tacenda.estimators.additive import AdditiveModel
from tacenda.estimators.additive_models import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from tacenda.estimators.docstrings import documented
from tacenda.planning.form import carries_curves

if TYPE_CHECKING:
    from tacenda.planning.outcome import Plan

    Base = AdditiveModel
else:
    Base = object


class _ByForecast(Base):
    """The form, decided before the records are used for anything."""

    def fit(
        self,
        X: Any,
        y: Any,
        nodes: Any = None,
        public: Any = None,
        sample_weight: Any = None,
        init: Any = None,
        groups: Any = None,
        records_per_person: int = 1,
    ) -> Self:
        """Decide the form, then fit the model; all arguments are those of the additive estimators.

        X: records, a frame or an array. y: what is to be predicted. nodes: each record's holder.
        public: (X, y), a public sample. sample_weight: how much each record counts. init: where the
        fit starts. groups: ids of the persons behind the records. records_per_person: so many
        records of each are kept.
        """
        given = {
            "nodes": nodes,
            "public": public,
            "sample_weight": sample_weight,
            "init": init,
            "groups": groups,
            "records_per_person": records_per_person,
        }
        self._form, self._why = "additive", "curves: nothing is forecast for a named algorithm"
        if self.epsilon is None:
            self._why = "curves: there is no noise"
        elif isinstance(self.algorithm, str) and self.algorithm == "auto":
            carried, self._why = carries_curves(self._curved_plan(X, y, given))
            self._form = "additive" if carried else "linear"
        return super().fit(X, y, **given)

    def _curved_plan(self, X: Any, y: Any, given: dict[str, Any]) -> Plan:
        """The plan of the additive model, without a run."""
        copy: Any = clone(self)
        copy._run = lambda arranged: arranged
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit itself will say it
            super(_ByForecast, copy).fit(X, y, **given)
        assert copy.plan_ is not None
        return copy.plan_

    @property
    def form_(self) -> str:
        """ "additive" or "linear"."""
        check_is_fitted(self)
        return self._form

    def _conditions(self, result: Any) -> list[str]:
        return [*super()._conditions(result), f"The form was decided by the forecast: {self._why}."]


@documented
class PrivateClassifier(_ByForecast, PrivateAdditiveClassifier):
    """Classification with curves where the records can carry their noise, else straight lines.

    The plan of the additive model is made from public facts alone: how many records, columns and
    nodes, and the budget. Where its noise is forecast to cost at most 0.1 nats of a record, each
    number becomes a curve, as in `PrivateAdditiveClassifier`; else a straight line. `form_` tells
    which, and `conditions_` why. The choice costs no privacy.

    {parameters}

    {attributes}

    See Also
    --------
    PrivateAdditiveClassifier : Curves in any case.
    PrivateLogisticRegression : Straight lines in any case, with coefficients in their units.

    Notes
    -----
    A missing value is a level of its own in every column.

    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivateClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (6000, 2))
    >>> y = (np.abs(X[:, 0]) > 0.5).astype(int)
    >>> model = PrivateClassifier(bounds=(-1, 1), classes=(0, 1), random_state=0).fit(X, y)
    >>> model.form_
    'additive'
    >>> PrivateClassifier(0.1, bounds=(-1, 1), classes=(0, 1)).fit(X[:600], y[:600]).form_
    'linear'
    """


@documented
class PrivateRegressor(_ByForecast, PrivateAdditiveRegressor):
    """Least squares with curves where the records can carry their noise, else straight lines.

    As `PrivateClassifier`, for numbers: curves are taken where their noise is forecast to cost at
    most 0.005, in half squares of half the declared target range.

    {parameters}

    {attributes}

    See Also
    --------
    PrivateAdditiveRegressor : Curves in any case.
    PrivateRidge : Straight lines in any case, with coefficients in their units.

    Notes
    -----
    A missing value is a level of its own in every column.

    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivateRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (6000, 2))
    >>> y = np.abs(X[:, 0])
    >>> model = PrivateRegressor(bounds=(-1, 1), target_bounds=(0, 1), random_state=0).fit(X, y)
    >>> model.form_
    'additive'
    >>> few = PrivateRegressor(0.1, bounds=(-1, 1), target_bounds=(0, 1)).fit(X[:600], y[:600])
    >>> few.form_
    'linear'
    """
