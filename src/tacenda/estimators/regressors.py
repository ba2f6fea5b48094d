"""Private linear regressions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from tacenda import checks
from tacenda._types import Array
from tacenda.estimators.base import PrivateLinearModel
from tacenda.estimators.scaling import Scaling, TargetScaling
from tacenda.estimators.warnings import warn_of_targets
from tacenda.problem.losses import Huber
from tacenda.problem.regularisers import ElasticNet

# default bound, in units of half the target range: most residuals are smaller already at w = 0
RESIDUAL = 0.5


class _PrivateRegressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Targets, scaled by declared bounds; the parameters are those of `PrivateLinearModel`, and

    target_bounds   declared (low, high) of the target, from public knowledge; targets are clipped
                    to it
    clip_norm       bound on one record's gradient, in units of half the target range times a
                    feature norm of 1; by default
                    0.5 * data_norm: residuals above a quarter of the target range then pull no
                    harder
    Fitted: coef_ (p,), intercept_, node_coef_ (n, p), node_intercept_ (n,), privacy_, history_,
    plan_, conditions_, result_.
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
        targets = (
            self._target.scaled(y) * factors
        )  # a record is shortened as a whole, its target too
        loss, clip_norm = self._loss()
        sample = None if public is None else self._public(public, scaling)
        return self._fit(
            rows, targets, nodes, scaling, loss, self._regulariser(), sample, clip_norm=clip_norm
        )

    def _public(self, public: Any, scaling: Scaling) -> tuple[Any, Array]:
        """The public sample as scaled rows and targets."""
        X, y = self._public_rows(public)
        rows, factors = scaling.rows(X)
        return rows, self._target.scaled(y) * factors

    def _loss(self) -> tuple[Any, float | None]:
        """The loss, and the bound on one record's gradient."""
        norm = float(self.data_norm)
        return "squared", RESIDUAL * norm if self.clip_norm is None else checks.positive(
            "clip_norm", self.clip_norm
        )

    def _regulariser(self) -> Any:
        return "l2"

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
    holders."""

    _sklearn_name = "Ridge"


class PrivateLasso(_PrivateRegressor):
    """Least squares with clipped gradients and strength |w|_1; small weights are soft-thresholded
    towards 0."""

    _sklearn_name = "Lasso"

    def _regulariser(self) -> Any:
        return "l1"


class PrivateElasticNet(_PrivateRegressor):
    """Least squares with clipped gradients and strength (l1_ratio |w|_1 + (1 - l1_ratio)/2
    |w|^2)."""

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
            random_state=random_state,
            verbose=verbose,
            public_sizes=public_sizes,
            ledger=ledger,
            dataset=dataset,
        )
        self.threshold = threshold

    def _loss(self) -> tuple[Any, float | None]:
        return Huber(checks.positive("threshold", self.threshold)), self.clip_norm
