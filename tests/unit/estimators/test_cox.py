"""Cox's model as an estimator: against statsmodels without noise, and true effects with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from statsmodels.duration.hazard_regression import PHReg

import tacenda as tc
from tacenda.errors import InputError

FINE = tuple(np.arange(1, 81) * 0.05)


def drawn(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    time = rng.exponential(3 * np.exp(-X @ [0.8, -0.4]))
    return X, np.column_stack([np.minimum(time, 4), time < 4])


def test_without_noise_it_is_coxs_model() -> None:
    X, y = drawn(2000)
    model = tc.PrivateCoxRegression(FINE, epsilon=None, bounds=(-1, 1)).fit(X, y)
    theirs = PHReg(y[:, 0], X, status=y[:, 1], ties="efron").fit()
    np.testing.assert_allclose(model.coef_, theirs.params, atol=1e-2)
    middle = model.predict_survival([[0.0, 0.0]])[0]
    assert middle[[19, 39]] == pytest.approx(np.exp([-1 / 3, -2 / 3]), abs=0.03)
    assert model.score(X, y) == pytest.approx(0.63, abs=0.03)
    # Cells beyond the bounds are moved to them, as in the fit
    assert model.predict([[9.0, 0.0]]) == model.predict([[1.0, 0.0]])


def test_large_cumulative_hazards_bend_no_effect() -> None:
    X, y = drawn(20_000)
    frame = pd.DataFrame(X, columns=["dose", "age"])
    how = {"bounds": {"dose": (-1, 1), "age": (-1, 1)}, "random_state": 0}
    model = tc.PrivateCoxRegression((1, 2, 3, 4), epsilon=2.0, **how)
    model.fit(frame, y, nodes=np.arange(20_000) % 4)
    np.testing.assert_allclose(model.coef_, [0.8, -0.4], atol=0.06)
    assert model.privacy_.epsilon <= 2.0 * (1 + 1e-9)
    assert list(model.feature_names_in_) == ["dose", "age"]


def test_what_is_missing_is_named() -> None:
    X, y = drawn(50)
    with pytest.raises(InputError, match="bounds must be declared"):
        tc.PrivateCoxRegression().fit(X, y)
