"""With every setting left at its default, models tend to those of statsmodels as epsilon grows.

The table is an ordinary one, as few made-up ones are: a level that one record in fifty has,
residuals that are skewed and fill much of the declared range, counts with a mean of nine.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.special import expit

import tacenda as tc
from tacenda.errors import ConvergenceWarning

Floats = NDArray[Any]
N = 3000
LOW, HIGH = np.array([20.0, 0, 0, 0]), np.array([80.0, 10, 1, 1])
MOST = 40.0


@cache
def table() -> tuple[Floats, dict[str, Floats]]:
    rng = np.random.default_rng(5)
    X = np.column_stack(
        [rng.uniform(20, 80, N), rng.uniform(0, 10, N), rng.random(N) < 0.4, rng.random(N) < 0.02]
    )
    score = X @ [0.02, -0.1, 0.5, 0.7] - 0.6
    rate = np.exp(0.5 * score + 2.1)
    wages = np.clip(score + rng.gumbel(scale=0.5, size=N), -3, 4)
    targets = {
        "logistic": rng.random(N) < expit(score),
        "squared": wages,
        "huber": wages,
        "poisson": rng.poisson(rate),
        "negative-binomial": rng.poisson(rate * rng.gamma(5.0, 0.2, N)),
    }
    return X, {name: np.minimum(y, MOST).astype(float) for name, y in targets.items()}


FAMILIES: dict[str, Any] = {
    "logistic": sm.families.Binomial(),
    "squared": sm.families.Gaussian(),
    "poisson": sm.families.Poisson(),
    "negative-binomial": sm.families.NegativeBinomial(alpha=0.2),
}


def fitted(loss: str, epsilon: float | None, **more: Any) -> Floats:
    X, targets = table()
    common = {"bounds": (LOW, HIGH), "n_nodes": 4, **more}
    kinds: dict[str, Any] = {
        "logistic": lambda: tc.PrivateLogisticRegression(epsilon, classes=(0, 1), **common),
        "squared": lambda: tc.PrivateRidge(epsilon, target_bounds=(-3, 4), **common),
        "huber": lambda: tc.PrivateHuberRegressor(epsilon, target_bounds=(-3, 4), **common),
        "poisson": lambda: tc.PrivatePoissonRegressor(epsilon, count_bound=MOST, **common),
        "negative-binomial": lambda: tc.PrivatePoissonRegressor(
            epsilon, count_bound=MOST, dispersion=0.2, **common
        ),
    }
    model = kinds[loss]().fit(X, targets[loss])
    return np.append(np.ravel(model.coef_), model.intercept_)


# Largest distance of a coefficient at epsilon 10,000, in units of the largest effect: with all
# defaults, and with nearly no regulariser. Measured in brackets: now, and before clips, strengths,
# steps and long rows were as they are now
CLOSE = {
    "logistic": (0.015, 0.005),  # (0.004, 0.003; before 0.21, 0.23)
    "squared": (0.005, 0.005),  # (0.001, 0.001; before 0.08, 0.08)
    "huber": (0.03, 0.005),  # (0.015, 0.001; before 0.08, 0.28)
    # The chosen strength pulls the intercept too, and with it the flag, by about a standard error
    "poisson": (0.08, 0.005),  # (0.042, 0.001; before 0.86, 4.6)
    "negative-binomial": (0.16, 0.005),  # (0.13, 0.001; before 0.20, 2.8)
}


@pytest.mark.parametrize("loss", CLOSE)
def test_defaults_tend_to_the_exact_fit(loss: str) -> None:
    X, targets = table()
    if loss in FAMILIES:
        model = sm.GLM(targets[loss], sm.add_constant(X, prepend=False), family=FAMILIES[loss])
        wanted = np.asarray(model.fit(tol=1e-14).params)
    else:
        wanted = fitted(loss, None, strength=0.0)
    effects = (HIGH - LOW) * wanted[:4]
    for more, close in zip(({}, {"strength": 1e-9}), CLOSE[loss], strict=True):
        found = fitted(loss, 10_000.0, random_state=0, **more)
        assert np.abs((HIGH - LOW) * found[:4] - effects).max() < close * np.abs(effects).max()


def test_a_typical_count_that_may_be_too_small_is_told() -> None:
    """Steps for a mean of up to eight typical counts are too long for one of forty."""
    with pytest.warns(ConvergenceWarning, match="40 times the typical one.*typical_count"):
        fitted("poisson", 4.0, typical_count=1.0, random_state=0)
