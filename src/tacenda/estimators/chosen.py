"""Prediction with the model that a search has chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tacenda._types import Array


def _has(name: str) -> Callable[[Any], bool]:
    """Whether the model of a search has a method."""
    return lambda search: hasattr(getattr(search, "best_estimator_", search.estimator), name)


class ChosenModel:
    """The part of a search that predicts."""

    best_estimator_: Any

    @property
    def classes_(self) -> Array:
        """Labels of the chosen classifier."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.classes_)

    def predict(self, X: Any) -> Array:
        """Predict with the chosen model.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records, in the units in which they were fitted.
        """
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict(X))

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> Array:
        """Linear scores by the chosen model.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records, in the units in which they were fitted.
        """
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.decision_function(X))

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> Array:
        """Probability of each class by the chosen model.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records, in the units in which they were fitted.
        """
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict_proba(X))

    def score(self, X: Any, y: Any) -> float:
        """Accuracy or R2 of the chosen model, computed without noise: for public records only.

        y: labels or targets.
        """
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y))
