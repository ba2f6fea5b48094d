"""A plain scikit-learn model with private weights."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain_model(estimator: Any) -> Any:
    """The scikit-learn class of the same kind, fitted by hand: it predicts exactly what the private
    one does. Where rows are shortened, a pipeline that does so first."""
    from sklearn import linear_model, svm

    kinds = {
        "LogisticRegression": linear_model.LogisticRegression,
        "LinearSVC": svm.LinearSVC,
        "Ridge": linear_model.Ridge,
        "Lasso": linear_model.Lasso,
        "ElasticNet": linear_model.ElasticNet,
        "HuberRegressor": linear_model.HuberRegressor,
        "QuantileRegressor": linear_model.QuantileRegressor,
        "PoissonRegressor": linear_model.PoissonRegressor,
    }
    model = kinds[estimator._sklearn_name](fit_intercept=bool(estimator.fit_intercept))
    model.coef_ = np.array(estimator.coef_)
    model.intercept_ = (
        np.array(estimator.intercept_)
        if np.ndim(estimator.intercept_)
        else np.float64(estimator.intercept_)  # a NumPy number, which skl2onnx expects
    )
    if isinstance(model, linear_model.PoissonRegressor):
        model._base_loss = model._get_loss()  # the link, which its own fit would set
    if isinstance(model, linear_model.QuantileRegressor):
        model.set_params(quantile=float(estimator.quantile))
    curves = None
    if hasattr(estimator, "schema_"):
        from tacenda.estimators.plain_additive import pipeline_of

        curves, weights, constant = pipeline_of(
            estimator.schema_, estimator.coef_, dict(estimator.levels or {})
        )
        several = np.ndim(estimator.coef_) == 2
        model.coef_ = weights if several else weights[0]
        model.intercept_ = model.intercept_ + (constant if several else constant[0])
    model.n_features_in_ = estimator.n_features_in_ if curves is None else model.coef_.shape[-1]
    model.n_iter_ = estimator.n_iter_
    if hasattr(estimator, "feature_names_in_") and curves is None:
        model.feature_names_in_ = estimator.feature_names_in_
    if hasattr(estimator, "classes_"):
        model.classes_ = np.array(estimator.classes_)
    from sklearn.pipeline import Pipeline

    if curves is not None:
        return Pipeline([("curves", curves), ("model", model)])
    if not estimator.feature_map_.shortens:
        return model
    # Rows are shortened before they meet the weights, as in training
    from sklearn.preprocessing import FunctionTransformer

    shorten = FunctionTransformer(estimator.feature_map_, accept_sparse=True)
    return Pipeline([("shorten", shorten), ("model", model)])
