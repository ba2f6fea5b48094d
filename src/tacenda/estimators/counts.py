"""Private regression of counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array, Floats
from tacenda.estimators.base import handed_on
from tacenda.estimators.docstrings import documented
from tacenda.estimators.regressor_base import LinearRegressor
from tacenda.estimators.warnings import warn_of_counts, warn_of_residuals
from tacenda.losses import NegativeBinomial, Poisson
from tacenda.privacy.settings import Privacy

UNDECLARED = 10.0  # where counts are cut if nothing is declared
TYPICAL_REACH = 8.0  # the largest count over a typical one, if none is declared
UNDECLARED_TYPICAL = 1.0  # in the forecast of the cut
RATES_REACH = 2.0  # times the typical count: the rate at which a cut is forecast
MOST_LOST = 0.01  # of the mean at that rate, by the cut
MOST_CLIPPED = 0.03  # of it, by the bound on a gradient
RESIDUAL = 0.3  # default bound on a gradient: a residual of so much of the largest count, or more


@documented
class PrivatePoissonRegressor(LinearRegressor):
    """Poisson regression of counts over a network of private data holders.

    The rate of a record is exp(X @ coef_ + intercept_), so that exp(coefficient) is a rate ratio:
    by what the rate is multiplied for one more unit of the feature. Counts are cut to
    `count_bound`; a rate above it is penalised along a straight line (`tacenda.losses.Poisson`).
    With `dispersion` above 0 it is negative binomial regression. The penalty is strength/2 |w|^2,
    on scaled features.

    {parameters}

    {attributes}

    See Also
    --------
    PrivateRidge : Least squares, for targets that are no counts.
    sklearn.linear_model.PoissonRegressor : The model without privacy.

    Notes
    -----
    Counts over different times or areas: fit the rate y / exposure with `sample_weight=exposure`
    and `weight_bound` the largest exposure; the likelihood is the same.

    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivatePoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 3))
    >>> y = rng.poisson(np.exp(X @ [1.0, -0.7, 0.4] + 0.5))
    >>> model = PrivatePoissonRegressor(
    ...     epsilon=1.0, bounds=(-1, 1), count_bound=12, typical_count=2, random_state=0
    ... )
    >>> bool(model.fit(X, y).score(X, y) > 0.2)
    True
    """

    _sklearn_name = "PoissonRegressor"
    _ratio = "a rate ratio"

    def __init__(
        self,
        epsilon: float | Privacy | None = 1.0,
        delta: float = 1e-5,
        *,
        count_bound: float | None = None,
        typical_count: float | None = None,
        dispersion: float = 0.0,
        adjacency: str = "replace-one",
        coalition: int | None = 1,
        data_norm: float | None = None,
        clip_norm: float | None = None,
        bounds: Any = None,
        strength: float | str = "auto",
        fit_intercept: bool = True,
        weight_bound: float = 1.0,
        n_nodes: int | None = None,
        graph: Any = None,
        algorithm: Any = "auto",
        rounds: int | None = None,
        prepare: Any = None,
        random_state: Any = None,
        verbose: bool = False,
        public_sizes: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(**handed_on(locals(), super().__init__))
        self.count_bound, self.typical_count = count_bound, typical_count
        self.dispersion = dispersion

    @property
    def _most(self) -> float:
        if self.count_bound is None:
            return UNDECLARED
        return checks.positive("count_bound", self.count_bound)

    @property
    def _unit(self) -> float:
        """The count whose rate is that of a score of 0."""
        if not self.fit_intercept:
            return 1.0
        if self.typical_count is None:
            return self._most / TYPICAL_REACH
        return checks.positive("typical_count", self.typical_count)

    def _declare_targets(self) -> None:
        typical = UNDECLARED_TYPICAL if self.typical_count is None else self.typical_count
        mean = RATES_REACH * checks.positive("typical_count", typical)
        dispersion = checks.positive("dispersion", self.dispersion, zero=True)

        lost, proposed = cut_share(self._most, mean, dispersion), self._most
        if lost > MOST_LOST:
            while cut_share(proposed, mean, dispersion) > MOST_LOST / 10:
                proposed = math.ceil(1.25 * proposed)
        if self.count_bound is None or lost > MOST_LOST:
            warn_of_counts(self._most, self.count_bound is not None, mean, lost, proposed)
        clip = self._clip  # cuts residuals of the longest rows, and none without privacy
        lost = cut_share(min(self._most, mean + clip * self._most), mean, dispersion) - lost
        if self.epsilon is not None and lost > MOST_CLIPPED:
            warn_of_residuals(clip, self._most, mean, lost)

    @property
    def _clip(self) -> float:
        clip = RESIDUAL if self.clip_norm is None else self.clip_norm
        return checks.positive("clip_norm", clip)

    def _scaled_targets(self, y: Any) -> Floats:
        return np.clip(np.asarray(y, float), 0.0, self._most) / self._unit

    def _loss(self, width: int) -> tuple[Any, float | None]:
        most = self._most / self._unit
        if checks.positive("dispersion", self.dispersion, zero=True) == 0.0:
            return Poisson(most), self._clip
        return NegativeBinomial(most, self.dispersion * self._unit), self._clip

    def _in_scaled_units(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        return coef, intercept - self._score_centre

    @property
    def _score_unit(self) -> float:
        return 1.0

    @property
    def _score_centre(self) -> float:
        return math.log(self._unit)

    def _set_coef(self, node_coef: Array, node_intercept: Array) -> None:
        self.node_coef_ = node_coef[:, 0]
        self.node_intercept_ = node_intercept[:, 0] + self._score_centre
        self.coef_ = self.node_coef_.mean(axis=0)
        self.intercept_ = float(self.node_intercept_.mean())

    def predict(self, X: Any) -> Array:
        """Predict the rate of each record: the expected count.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records, in the units in which they were fitted.

        Returns
        -------
        rates : ndarray of shape (n_samples,)
            exp(X @ coef_ + intercept_), at most `count_bound` where it is declared.
        """
        with np.errstate(over="ignore"):
            rates = np.exp(self._scores(X)[:, 0])
        return np.asarray(rates if self.count_bound is None else np.minimum(rates, self._most))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the Poisson deviance of a constant rate that the model explains, without noise.

        X: records, in the units of the fit. y: their labels. sample_weight: how much each record
        counts. Result: 1 at best, 0 for a model no better than the mean of `y`.
        """
        from sklearn.metrics import d2_tweedie_score

        rates = np.maximum(self.predict(X), np.finfo(float).tiny)
        return float(d2_tweedie_score(y, rates, sample_weight=sample_weight, power=1))

    def _target_condition(self) -> str:
        source = "declared" if self.count_bound is not None else "not declared: the default"
        return f"Counts were cut to [0, {self._most:g}]; this bound was {source}."

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def cut_share(bound: float, mean: float, dispersion: float) -> float:
    """The share of the mean that is lost where counts above `bound` are cut to it,
    E[(Y - bound)+]/mean, of a Poisson or, with a dispersion, a negative binomial count."""
    from scipy import stats

    whole = math.floor(bound)
    if dispersion == 0.0:
        law = stats.poisson(mean)
    else:
        law = stats.nbinom(1 / dispersion, 1 / (1 + dispersion * mean))
    above = law.sf(np.arange(whole + 1))
    kept = float(above[:-1].sum() + (bound - whole) * above[-1])  # E[min(Y, bound)]
    return max(1.0 - kept / mean, 0.0)
