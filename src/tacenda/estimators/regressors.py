"""Private linear regressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from tacenda import checks
from tacenda._types import Array, Floats
from tacenda.algorithms.moments import MOST_FEATURES, MomentRegression, Quadratic
from tacenda.errors import UnsupportedError
from tacenda.estimators.base import PrivateLinearModel
from tacenda.estimators.scaling import Scaling, TargetScaling
from tacenda.estimators.warnings import warn_of_targets
from tacenda.problem import regularisers
from tacenda.problem.losses import Huber
from tacenda.problem.regularisers import ElasticNet
from tacenda.runtime.result import RunResult

# default bound, in units of half the target range: most residuals are smaller already at w = 0
RESIDUAL = 0.5
# likewise where steps begin with the curvature known, and soon come to where residuals are small
NEWTON_RESIDUAL = 0.3
PATH = np.logspace(0.0, -5.0, 31)  # strengths of `path_`, from the one that leaves almost nothing


@dataclass(frozen=True, eq=False)
class RegressionPath:
    """Models for many strengths, all from one fit: strengths (k,), coef (k, p) and intercept (k,)
    in the target's own units."""

    strengths: Floats
    coef: Floats
    intercept: Floats


class _PrivateRegressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Targets, scaled by declared bounds; the parameters are those of `PrivateLinearModel`, and

    target_bounds   declared (low, high) of the target, from public knowledge; targets are clipped
                    to it
    clip_norm       bound on one record's gradient, in units of half the target range times a
                    feature norm of 1; by default
                    0.5 * data_norm: residuals above a quarter of the target range then pull no
                    harder; 0.3 * data_norm for least squares with "auto" or "moments"
    Fitted: coef_ (p,), intercept_, node_coef_ (n, p), node_intercept_ (n,), privacy_, history_,
    plan_, conditions_, result_, and path_: a `RegressionPath` of many strengths, at no cost of
    privacy (None where the algorithm was another than "moments"); `path(strengths)` gives others.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: str = "replace-one",
        coalition: int | None = 1,
        data_norm: float = 1.0,
        clip_norm: float | None = None,
        bounds: Any = None,
        target_bounds: Any = None,
        strength: float = 1e-4,
        fit_intercept: bool = True,
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
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.coalition = coalition
        self.data_norm = data_norm
        self.clip_norm = clip_norm
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.strength, self.fit_intercept = strength, fit_intercept
        self.n_nodes, self.graph, self.algorithm, self.rounds = n_nodes, graph, algorithm, rounds
        self.prepare = prepare
        self.random_state, self.verbose, self.public_sizes = random_state, verbose, public_sizes
        self.ledger, self.dataset = ledger, dataset

    def fit(self, X: Any, y: Any, nodes: Any = None, public: Any = None) -> Self:
        """Fit on X (N, p), dense or sparse, and targets y (N,); `nodes` (N,) names each record's
        data holder.

        public: a sample (X, y) of the same kind that is public, on which "auto" tunes its step;
        nothing is charged for it.
        """
        X, y, scaling = self._checked_rows(X, y, y_numeric=True)
        if self.target_bounds is None:
            warn_of_targets()
        self._target = TargetScaling.of(self.target_bounds, bool(self.fit_intercept))
        rows, factors = scaling.rows(X)
        # A record is shortened as a whole, its target too
        targets = self._target.scaled(y) * factors
        loss, clip_norm = self._loss(rows.shape[1])
        sample = None if public is None else self._public(public, scaling)
        return self._fit(
            rows, targets, nodes, scaling, loss, self._regulariser(), sample, clip_norm=clip_norm
        )

    def _public(self, public: Any, scaling: Scaling) -> tuple[Any, Array]:
        """The public sample as scaled rows and targets."""
        X, y = self._public_rows(public)
        rows, factors = scaling.rows(X)
        return rows, self._target.scaled(y) * factors

    def _loss(self, width: int) -> tuple[Any, float | None]:
        """The loss, and the bound on one record's gradient, for rows of that width."""
        if self.clip_norm is not None:
            return "squared", checks.positive("clip_norm", self.clip_norm)
        named = self.algorithm in ("auto", MomentRegression.name)  # the planner's choice, or ours
        known = named if isinstance(self.algorithm, str) else self._is_newton(self.algorithm)
        residual = NEWTON_RESIDUAL if known and width <= MOST_FEATURES else RESIDUAL
        return "squared", residual * float(self.data_norm)

    @staticmethod
    def _is_newton(algorithm: Any) -> bool:
        return isinstance(algorithm, MomentRegression)

    def _keep(self, result: RunResult, scaling: Scaling, topology: Any) -> None:
        super()._keep(result, scaling, topology)
        self._scaling, self.path_ = scaling, None
        if result.released:
            self.path_ = self.path(self._strengths())

    def _strengths(self) -> Floats:
        """From a strength that leaves no weight (l1), or a tenth of it (l2), downwards."""
        form = Quadratic(**self.result_.released)
        which = regularisers.by_name(self._regulariser())
        slope = form.times(form.centre, form.values)
        top = np.abs(slope).max() / which.l1 if which.l1 else 10.0 * form.values.max()
        return np.asarray(PATH * max(float(top), 1e-9))

    def path(self, strengths: Any) -> RegressionPath:
        """The models for other strengths: post-processing of what this fit released, which costs no
        privacy. For fits by "moments", which "auto" chooses wherever it is best.
        """
        check_is_fitted(self)
        if not self.result_.released:
            name = self.result_settings_["algorithm"]["name"]
            raise UnsupportedError(
                f"path needs a fit by 'moments', whose release holds every strength; this one was "
                f"by {name!r}. Fit with algorithm='moments'."
            )
        values = np.array([checks.positive("strengths", s, zero=True) for s in np.ravel(strengths)])
        form = Quadratic(**self.result_.released)
        models = form.path(regularisers.by_name(self._regulariser()), values.tolist())
        coef, intercept = self._scaling.back(models)
        reach, centre = self._target.reach, self._target.centre
        return RegressionPath(values, coef * reach, intercept * reach + centre)

    def _regulariser(self) -> Any:
        return "l2"

    @property
    def _score_unit(self) -> float:
        return self._target.reach

    def _set_coef(self, node_coef: Array, node_intercept: Array) -> None:
        reach, centre = self._target.reach, self._target.centre
        self.node_coef_ = node_coef[:, 0] * reach
        self.node_intercept_ = node_intercept[:, 0] * reach + centre
        self.coef_ = self.node_coef_.mean(axis=0)
        self.intercept_ = float(self.node_intercept_.mean())

    def predict(self, X: Any) -> Array:
        """x.coef_ + intercept_, (N,)."""
        return np.asarray(self._scores(X)[:, 0])

    def _conditions(self, result: Any) -> list[str]:
        low, high = self._target.low, self._target.high
        source = (
            "declared"
            if self.target_bounds is not None
            else "not declared, so the default was used"
        )
        return [
            *super()._conditions(result),
            f"Targets were clipped to [{low:g}, {high:g}], which was {source}.",
        ]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


class PrivateRidge(_PrivateRegressor):
    """Least squares with clipped gradients and strength/2 |w|^2, over a network of private data
    holders.

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


class PrivateLasso(_PrivateRegressor):
    """Least squares with clipped gradients and strength |w|_1; weights that would be small are 0.

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

    def _regulariser(self) -> Any:
        return "l1"


class PrivateElasticNet(_PrivateRegressor):
    """Least squares with clipped gradients and strength (l1_ratio |w|_1 + (1 - l1_ratio)/2
    |w|^2).

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

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        l1_ratio: float = 0.5,
        adjacency: str = "replace-one",
        coalition: int | None = 1,
        data_norm: float = 1.0,
        clip_norm: float | None = None,
        bounds: Any = None,
        target_bounds: Any = None,
        strength: float = 1e-4,
        fit_intercept: bool = True,
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
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            adjacency=adjacency,
            coalition=coalition,
            data_norm=data_norm,
            clip_norm=clip_norm,
            bounds=bounds,
            target_bounds=target_bounds,
            strength=strength,
            fit_intercept=fit_intercept,
            n_nodes=n_nodes,
            graph=graph,
            algorithm=algorithm,
            rounds=rounds,
            prepare=prepare,
            random_state=random_state,
            verbose=verbose,
            public_sizes=public_sizes,
            ledger=ledger,
            dataset=dataset,
        )
        self.l1_ratio = l1_ratio

    def _regulariser(self) -> Any:
        return ElasticNet(self.l1_ratio)


class PrivateHuberRegressor(_PrivateRegressor):
    """Huber's loss, whose slope is bounded by itself: no clipping is needed, and outliers pull with
    bounded force.

    threshold   the residual, in units of half the target range, beyond which the loss is linear
    """

    _sklearn_name = "HuberRegressor"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        threshold: float = RESIDUAL,
        adjacency: str = "replace-one",
        coalition: int | None = 1,
        data_norm: float = 1.0,
        clip_norm: float | None = None,
        bounds: Any = None,
        target_bounds: Any = None,
        strength: float = 1e-4,
        fit_intercept: bool = True,
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
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            adjacency=adjacency,
            coalition=coalition,
            data_norm=data_norm,
            clip_norm=clip_norm,
            bounds=bounds,
            target_bounds=target_bounds,
            strength=strength,
            fit_intercept=fit_intercept,
            n_nodes=n_nodes,
            graph=graph,
            algorithm=algorithm,
            rounds=rounds,
            prepare=prepare,
            random_state=random_state,
            verbose=verbose,
            public_sizes=public_sizes,
            ledger=ledger,
            dataset=dataset,
        )
        self.threshold = threshold

    def _loss(self, width: int) -> tuple[Any, float | None]:
        return Huber(checks.positive("threshold", self.threshold)), self.clip_norm
