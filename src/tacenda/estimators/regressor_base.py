"""What every private linear regression does: targets by declared bounds, and the path of
strengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from tacenda import checks, regularisers
from tacenda._types import Array, Floats
from tacenda.algorithms.moments import MOST_FEATURES, MomentRegression
from tacenda.algorithms.quadratic import Quadratic, of_released
from tacenda.errors import InputError, UnsupportedError
from tacenda.estimators.base import PrivateLinearModel
from tacenda.estimators.scaling import Scaling, TargetScaling
from tacenda.privacy.settings import Privacy
from tacenda.questions.constants import Constants
from tacenda.runtime.result import RunResult

# default bound, in units of half the target range: most residuals are smaller already at w = 0
RESIDUAL = 0.5
# likewise where steps begin with the curvature known, and soon come to where residuals are small
NEWTON_RESIDUAL = 0.3
PATH = np.logspace(0.0, -5.0, 31)  # strengths of `path_`, from the one that leaves almost nothing


@dataclass(frozen=True, eq=False)
class RegressionPath:
    """Models of many strengths, all from one fit, in the target's own units.

    Attributes
    ----------
    strengths : ndarray of shape (n_strengths,)
        The strengths of the penalty.
    coef : ndarray of shape (n_strengths, n_features)
        Weights of the features.
    intercept : ndarray of shape (n_strengths,)
        Constants.
    """

    strengths: Floats
    coef: Floats
    intercept: Floats


def released_form(result: RunResult) -> Quadratic | None:
    """The quadratic form that a fit by "moments" released; None of any other."""
    return of_released(result.released) if "vectors" in result.released else None


class LinearRegressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Targets, scaled by declared bounds, and the path of strengths."""

    _leaves_zeros = False

    def __init__(
        self,
        epsilon: float | Privacy | None = 1.0,
        delta: float = 1e-5,
        *,
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
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.coalition = coalition
        self.data_norm = data_norm
        self.clip_norm = clip_norm
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.strength, self.fit_intercept = strength, fit_intercept
        self.weight_bound = weight_bound
        self.n_nodes, self.graph, self.algorithm, self.rounds = n_nodes, graph, algorithm, rounds
        self.prepare = prepare
        self.random_state, self.verbose, self.public_sizes = random_state, verbose, public_sizes
        self.ledger, self.dataset, self.problem = ledger, dataset, problem

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
        """Fit the model, with the privacy that `epsilon` and `delta` state.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records: a dense array, a pandas or polars frame, or a SciPy sparse matrix or array.
        y : array-like of shape (n_samples,)
            Targets; clipped to `target_bounds`.
        nodes : array-like of shape (n_samples,), default=None
            Which data holder each record belongs to. None: an even split over `n_nodes`.
        public : (X, y), default=None
            A sample of the same kind that is public, on which "auto" tunes its step. It has no
            protection, and nothing is charged for it: never pass private records here.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each record counts, from 0 to `weight_bound`. None: all count 1.
        init : fitted model, (coef, intercept) or coef, default=None
            Where the fit starts, in the units of the features: a model that is public, or whose
            privacy was paid for elsewhere. Nothing is charged for it, so never pass a model that
            was fitted on private records without privacy; this cannot be detected.
        groups : array-like of shape (n_samples,), default=None
            Ids of the persons behind the records. The guarantee is then for a person, all of whose
            records are on one node; without `nodes` they are spread over `n_nodes` by person.
        records_per_person : int, default=1
            Number of records kept of each person, drawn at random. Above 1 it goes with
            adjacency="add-remove" and public_sizes.
        """
        self._refuse_own_records(public, X)
        X, y, scaling = self._checked_rows(X, y, y_numeric=True)
        self._declare_targets()
        rows = scaling.rows(X)
        targets = self._scaled_targets(y)
        loss, clip_norm = self._loss(rows.shape[1])
        sample = None if public is None else self._public(public, scaling)
        return self._fit(
            rows,
            targets,
            nodes,
            scaling,
            loss,
            self._regulariser(),
            sample,
            *self._sample_weights(sample_weight, len(targets)),
            self._start(init, scaling, 1),
            clip_norm=None if self.epsilon is None else clip_norm,
            groups=groups,
            records_per_person=records_per_person,
        )

    def _declare_targets(self) -> None:
        """Read the declared bounds of the targets; without them nothing bounds a record."""
        if self.target_bounds is None:
            raise InputError(
                "target_bounds must be declared: (low, high) from public knowledge, in the units "
                "of y. Targets are clipped to them."
            )
        self._target = TargetScaling.of(self.target_bounds, bool(self.fit_intercept))

    def _scaled_targets(self, y: Any) -> Floats:
        """Targets as they are learnt."""
        return self._target.scaled(y)

    def _in_scaled_units(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        reach, centre = self._target.reach, self._target.centre
        return coef / reach, (intercept - centre) / reach

    def _public(self, public: Any, scaling: Scaling) -> tuple[Any, Array]:
        """The public sample as scaled rows and targets."""
        X, y = self._public_rows(public)
        return scaling.rows(X), self._scaled_targets(y)

    def _loss(self, width: int) -> tuple[Any, float | None]:
        """The loss, and the bound on one record's gradient, for rows of that width."""
        if self.clip_norm is not None:
            return "squared", checks.positive("clip_norm", self.clip_norm)
        named = self.algorithm in ("auto", MomentRegression.name)  # the planner's choice, or ours
        known = named if isinstance(self.algorithm, str) else self._is_newton(self.algorithm)
        residual = NEWTON_RESIDUAL if known and width <= MOST_FEATURES else RESIDUAL
        return "squared", residual

    @staticmethod
    def _is_newton(algorithm: Any) -> bool:
        return isinstance(algorithm, MomentRegression)

    def _keep(self, result: RunResult, scaling: Scaling, topology: Any) -> None:
        super()._keep(result, scaling, topology)
        self._scaling, self.path_ = scaling, None
        form = released_form(result)
        if form is not None:
            self.path_ = self.path(self._strengths(form))
        if self._leaves_zeros:
            self._drop_noise(form)

    def _drop_noise(self, form: Quadratic | None) -> None:
        """Set the weights to 0 that a larger strength would, the one with the least forecast error
        of all at least the given one; the others keep the given strength. Post-processing."""
        self.selection_strength_ = self.strength_
        if form is None or self.path_ is None or self.epsilon is None:
            return
        which = self._divided_regulariser
        larger = self.path_.strengths[self.path_.strengths > self.strength_]
        tried = np.append(larger, self.strength_)
        models = form.path(which, tried.tolist())
        risks = [form.forecast_risk(w, r * which.l2) for w, r in zip(models, tried, strict=True)]
        best = int(np.argmin(risks))
        self.selection_strength_ = float(tried[best])
        r, support = self.strength_, np.flatnonzero(models[best])
        coef, intercept = self._scaling.back(form.on_support(support, r * which.l1, r * which.l2))
        n = len(self.node_coef_)
        self._set_coef(np.tile(coef, (n, 1, 1)), np.tile(intercept, (n, 1)))

    def _stated_strength(self) -> float:
        """The parameter `strength`, or what "auto" is for a fit by moments."""
        return Constants.declared(strength=self.strength).strength

    def _strengths(self, form: Quadratic) -> Floats:
        """From a strength that leaves no weight (l1), or a tenth of it (l2), downwards."""
        which = self._divided_regulariser
        slope = form.times(form.centre, form.values)
        top = np.abs(slope).max() / which.l1 if which.l1 else 10.0 * form.values.max() / which.l2
        return np.asarray(PATH * max(float(top), 1e-9))

    def path(self, strengths: Any) -> RegressionPath:
        """Models of other strengths, from what this fit released: at no further cost of privacy.

        For fits by the algorithm "moments", which "auto" chooses for least squares.

        strengths: strengths of the penalty, as in the parameter `strength`. Result: `strengths`,
        `coef` (n_strengths, n_features) and `intercept` (n_strengths,).
        """
        check_is_fitted(self)
        form = released_form(self.result_)
        if form is None:
            name = self.result_settings_["algorithm"]["name"]
            raise UnsupportedError(
                f"path needs a fit by 'moments', whose release holds every strength; this one was "
                f"by {name!r}. Fit with algorithm='moments'."
            )
        values = np.array([checks.positive("strengths", s, zero=True) for s in np.ravel(strengths)])
        models = form.path(self._divided_regulariser, values.tolist())
        coef, intercept = self._scaling.back(models)
        reach, centre = self._target.reach, self._target.centre
        return RegressionPath(values, coef * reach, intercept * reach + centre)

    def _regulariser(self) -> Any:
        return "l2"

    @property
    def _divided_regulariser(self) -> regularisers.Regulariser:
        """Of the rows that were fitted, so that a strength means what the parameter does."""
        found = regularisers.by_name(self._regulariser())
        return regularisers.divided(found, self._scaling.row_scale)

    @property
    def _score_unit(self) -> float:
        return self._target.reach

    @property
    def _score_centre(self) -> float:
        return self._target.centre

    def _set_coef(self, node_coef: Array, node_intercept: Array) -> None:
        reach, centre = self._target.reach, self._target.centre
        self.node_coef_ = node_coef[:, 0] * reach
        self.node_intercept_ = node_intercept[:, 0] * reach + centre
        self.coef_ = self.node_coef_.mean(axis=0)
        self.intercept_ = float(self.node_intercept_.mean())

    def predict(self, X: Any) -> Array:
        """Predict the target of each record.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records, in the units in which they were fitted.

        Returns
        -------
        targets : ndarray of shape (n_samples,)
            X @ coef_ + intercept_, clipped to `target_bounds`.
        """
        found = np.asarray(self._scores(X)[:, 0])
        low, high = (float(b) for b in self.target_bounds)
        return np.clip(found, low, high)

    def _conditions(self, result: Any) -> list[str]:
        if result.privacy is None:
            return super()._conditions(result)
        return [*super()._conditions(result), self._target_condition()]

    def _target_condition(self) -> str:
        low, high = self._target.low, self._target.high
        return f"Targets were clipped to [{low:g}, {high:g}], as declared."

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
