"""Private linear regressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacenda import checks
from tacenda.estimators.base import handed_on
from tacenda.estimators.docstrings import documented
from tacenda.estimators.regressor_base import RESIDUAL, LinearRegressor
from tacenda.losses import Huber, SmoothedQuantile
from tacenda.privacy.settings import Privacy
from tacenda.regularisers import ElasticNet


@documented
class PrivateRidge(LinearRegressor):
    """Least squares with an l2 penalty over a network of private data holders.

    Minimises the mean over nodes of the mean squared error of their records, over 2, plus
    strength/2 |w|^2, on scaled features and targets; gradients are clipped.

    {parameters}

    {attributes}

    See Also
    --------
    PrivateLasso : The same with an l1 penalty.
    PrivateHuberRegressor : The same with a loss that outliers pull less.
    sklearn.linear_model.Ridge : The model without privacy.

    Notes
    -----
    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivateRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 3))
    >>> y = X @ [3.0, -2.0, 1.0] + rng.normal(size=4000)
    >>> model = PrivateRidge(1.0, bounds=(-1, 1), target_bounds=(-8, 8), random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    >>> model.path_.coef.shape  # every strength of this fit, at no further cost
    (31, 3)
    """

    _sklearn_name = "Ridge"


@documented
class PrivateLasso(LinearRegressor):
    """Least squares with an l1 penalty over a network of private data holders.

    The penalty sets most weights to 0.

    Minimises the mean over nodes of the mean squared error of their records, over 2, plus strength
    |w|_1, on scaled features and targets; gradients are clipped.

    {parameters}

    {attributes}

    See Also
    --------
    PrivateElasticNet : With an l2 part in the penalty.
    PrivateRidge : With an l2 penalty.
    sklearn.linear_model.Lasso : The model without privacy.

    Notes
    -----
    Noise alone would leave every weight different from 0. So the weights are 0 that are 0 at a
    larger strength, `selection_strength_`: the one with the least error that noise is forecast to
    cause, by Stein's unbiased estimate from the released moments. The other weights are fitted with
    the given strength. This is post-processing and costs no privacy; `path([strength])` gives the
    model without it. It needs the algorithm "moments", which "auto" takes up to 1000 features;
    others leave no exact zeros.

    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivateLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 10))
    >>> y = 4 * X[:, 0] - 3 * X[:, 1] + rng.normal(size=20_000)
    >>> model = PrivateLasso(
    ...     1.0, bounds=(-1, 1), target_bounds=(-8, 8), strength=0.01, random_state=0
    ... ).fit(X, y)
    >>> np.flatnonzero(model.coef_).tolist()
    [0, 1]
    """

    _sklearn_name = "Lasso"
    _leaves_zeros = True

    def _regulariser(self) -> Any:
        return "l1"


@documented
class PrivateElasticNet(LinearRegressor):
    """Least squares with an l1 and an l2 penalty over a network of private data holders.

    Minimises the mean over nodes of the mean squared error of their records, over 2, plus strength
    (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2), on scaled features and targets; gradients are
    clipped.

    {parameters}

    {attributes}

    See Also
    --------
    PrivateLasso : With an l1 penalty alone; its Notes tell how weights become 0.
    PrivateRidge : With an l2 penalty alone.
    sklearn.linear_model.ElasticNet : The model without privacy.

    Notes
    -----
    Weights that are only noise are set to 0, as in `PrivateLasso`.

    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivateElasticNet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 3))
    >>> y = 4 * X[:, 0] + rng.normal(size=4000)
    >>> model = PrivateElasticNet(1.0, bounds=(-1, 1), target_bounds=(-8, 8), random_state=0)
    >>> stronger = model.fit(X, y).path([0.1, 0.001])
    >>> stronger.coef.shape, stronger.strengths.tolist()
    ((2, 3), [0.1, 0.001])
    """

    _sklearn_name = "ElasticNet"
    _leaves_zeros = True

    def __init__(
        self,
        epsilon: float | Privacy | None = 1.0,
        delta: float = 1e-5,
        *,
        l1_ratio: float = 0.5,
        adjacency: str = "replace-one",
        coalition: int | None = 1,
        data_norm: float | None = None,
        clip_norm: float | None = None,
        bounds: Any = None,
        target_bounds: Any = None,
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
        self.l1_ratio = l1_ratio

    def _regulariser(self) -> Any:
        return ElasticNet(self.l1_ratio)


@documented
class PrivateHuberRegressor(LinearRegressor):
    """Regression with Huber's loss over a network of private data holders.

    The slope of the loss is bounded by itself: no clipping is needed, and outliers pull with
    bounded force. The penalty is strength/2 |w|^2, on scaled features and targets.

    {parameters}

    {attributes}

    See Also
    --------
    PrivateRidge : Least squares, which needs less noise where there are no outliers.
    sklearn.linear_model.HuberRegressor : The model without privacy.

    Notes
    -----
    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivateHuberRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 3))
    >>> y = X @ [3.0, -2.0, 1.0] + rng.standard_t(3, size=4000)
    >>> model = PrivateHuberRegressor(
    ...     epsilon=1.0, bounds=(-1, 1), target_bounds=(-8, 8), random_state=0
    ... )
    >>> bool(model.fit(X, y).score(X, y) > 0.5)
    True
    """

    _sklearn_name = "HuberRegressor"

    def __init__(
        self,
        epsilon: float | Privacy | None = 1.0,
        delta: float = 1e-5,
        *,
        threshold: float = RESIDUAL,
        adjacency: str = "replace-one",
        coalition: int | None = 1,
        data_norm: float | None = None,
        clip_norm: float | None = None,
        bounds: Any = None,
        target_bounds: Any = None,
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
        self.threshold = threshold

    def _loss(self, width: int) -> tuple[Any, float | None]:
        return Huber(checks.positive("threshold", self.threshold)), self.clip_norm


@documented
class PrivateQuantileRegressor(LinearRegressor):
    """Quantile regression over a network of private data holders.

    Predicts the value below which a share `quantile` of the targets lies: the median, or the ends
    of a prediction interval from two fits, and each spends its own epsilon. The loss is the
    pinball loss with its kink smoothed (`tacenda.losses.SmoothedQuantile`), whose slope is bounded
    by itself: no clipping is needed. The penalty is strength/2 |w|^2, on scaled features and
    targets.

    {parameters}

    {attributes}

    See Also
    --------
    PrivateHuberRegressor : The mean, of targets with outliers.
    sklearn.linear_model.QuantileRegressor : The model without privacy.

    Notes
    -----
    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivateQuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 3))
    >>> y = X @ [3.0, -2.0, 1.0] + rng.exponential(size=4000)
    >>> model = PrivateQuantileRegressor(
    ...     epsilon=1.0, quantile=0.9, bounds=(-1, 1), target_bounds=(-7, 11), random_state=0
    ... )
    >>> below = np.mean(y <= model.fit(X, y).predict(X))
    >>> bool(abs(below - 0.9) < 0.05)
    True
    """

    _sklearn_name = "QuantileRegressor"

    def __init__(
        self,
        epsilon: float | Privacy | None = 1.0,
        delta: float = 1e-5,
        *,
        quantile: float = 0.5,
        width: float = 0.05,
        adjacency: str = "replace-one",
        coalition: int | None = 1,
        data_norm: float | None = None,
        clip_norm: float | None = None,
        bounds: Any = None,
        target_bounds: Any = None,
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
        self.quantile, self.width = quantile, width

    def _loss(self, width: int) -> tuple[Any, float | None]:
        level = checks.between("quantile", self.quantile, 0.0, 1.0)
        return SmoothedQuantile(level, checks.positive("width", self.width)), self.clip_norm

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the pinball loss of the best constant that the model explains, without noise.

        X: records, in the units of the fit. y: their labels. sample_weight: how much each record
        counts. Result: 1 at best, 0 for a model no better than the quantile of `y` itself.
        """
        from sklearn.metrics import d2_pinball_score

        guessed = self.predict(X)
        return float(d2_pinball_score(y, guessed, sample_weight=sample_weight, alpha=self.quantile))
