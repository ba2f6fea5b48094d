"""Estimators of the losses that ask several questions about each record (`losses.stacked`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda._types import Array, Floats
from tacenda.errors import UnsupportedError
from tacenda.estimators.base import PrivateLinearModel
from tacenda.estimators.scaling import Scaling
from tacenda.evaluation.coefficients import CoefficientTable
from tacenda.runtime.result import RunResult


class StackedModel(PrivateLinearModel):
    """Coefficients that are shared by the T questions about a record, and T intercepts."""

    fit_intercept = True
    _stacked = True

    def _keep(self, result: RunResult, scaling: Scaling, topology: Any) -> None:
        each = int(result.settings["problem"].get("rows_each", 1))
        super()._keep(result, _StackedScaling(scaling, each), topology)  # type: ignore[arg-type]

    def _set_coef(self, node_coef: Array, node_intercept: Array) -> None:
        self.node_coef_, self.node_intercept_ = node_coef[:, 0], node_intercept[:, 0]
        self.coef_ = self.node_coef_.mean(axis=0)
        self.intercept_ = self.node_intercept_.mean(axis=0)

    def _standard_errors(
        self, result: RunResult, scaling: Any
    ) -> tuple[Array | None, Array | None]:
        if result.noise_std is None:
            return None, None
        p = len(scaling.plain.scale)
        std = np.asarray(result.noise_std, float).reshape(-1)
        return std[None, :p] * np.abs(scaling.plain.scale), None

    @property
    def coef_table_(self) -> CoefficientTable:
        """Coefficients by feature name in the original units, the largest effects over the declared
        bounds first, with the standard error that the privacy noise adds, where it is known."""
        return self._coefficients(intercepts=False)

    def _shared_scores(self, X: Any) -> Floats:
        """(N,) X @ coef_, without an intercept."""
        return np.asarray(self._scores(X)[:, 0] - self.intercept_[0])

    def to_sklearn(self) -> Any:
        """Refused: scikit-learn has no such model."""
        raise UnsupportedError(
            f"to_sklearn is not for {type(self).__name__}: scikit-learn has no such model; "
            "use export(path), whose files hold the coefficients."
        )


class _StackedScaling:
    """Weights (..., p + T) of stacked rows in the user's scale."""

    def __init__(self, plain: Scaling, each: int) -> None:
        self.plain, self.each = plain, each
        self.scale, self.centre, self.constant = plain.scale, plain.centre, plain.constant
        self.feature_map = plain.feature_map

    def back(self, w: Array) -> tuple[Floats, Floats]:
        """(coef (..., p), intercepts (..., T))."""
        w = np.asarray(w, float)
        p = len(self.scale)
        coef = w[..., :p] * self.scale
        constant = 1.0 if self.constant is None else self.constant
        return coef, w[..., p:] * constant - (coef @ self.centre)[..., None]
