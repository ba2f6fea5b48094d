"""`PrivateCoxRegression`: hazard ratios in the manner of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tacenda._types import Array, Floats
from tacenda.data.schema import Schema
from tacenda.errors import InputError
from tacenda.estimators.hazard import times_and_events
from tacenda.estimators.refusing import columns_named
from tacenda.estimators.scaling import declared_bounds
from tacenda.evaluation.measures import concordance
from tacenda.privacy.settings import Privacy
from tacenda.tables.hazards import ROUNDS, hazard_ratios

TIME, EVENT, NODE = "time (y)", "event (y)", "node (y)"


class PrivateCoxRegression(BaseEstimator):  # type: ignore[misc]
    """Cox's model in groups over a network of private data holders (`tacenda.hazard_ratios`).

    Parameters
    ----------
    periods : sequence of float, default=(1,2,3,4,5)
        Ends of the periods, each with its own baseline; from public knowledge.
    epsilon : float or None, default=1.0
        Budget; None is not private.
    delta : float, default=1e-5
        Of the budget.
    bounds : tuple, sequence or mapping, default=None
        Public bounds of the features: one pair, a pair for each, or by column name.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        Whether the number of records is public.
    public_size : int or None, default=None
        Under "add-remove": about how many records there are.
    n_nodes : int, default=1
        Over how many nodes the records are spread, where `fit` is not told.
    rounds : int, default=6
        Releases under the budget.
    noisy : {"refuse", "keep"}, default="refuse"
        What happens where noise will probably hide all effects.
    level : float, default=0.95
        Confidence level of the intervals.
    random_state : int or None, default=None
        Of the simulated noise.
    ledger : str, Path or None, default=None
        File of a lasting ledger.
    dataset : str or None, default=None
        Name of the records' account there.

    Attributes
    ----------
    hazard_ratios_ : HazardRatios
        Ratios with intervals and p-values.
    coef_ : ndarray of shape (n_features,)
        Their logarithms, per unit of each feature.
    cumulative_hazard_ : ndarray of shape (n_periods,)
        Of a record in the middle of all bounds.
    privacy_ : Statement or None
        What was promised and kept.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names.

    See Also
    --------
    PrivateDiscreteHazard : A model that predicts, by logistic regression of periods.

    Notes
    -----
    Each period has a baseline hazard of its own, and features multiply it; with many periods it is
    Cox's model. Newton's method releases sums of all records' gradients and curvatures, `rounds`
    times under one budget.

    The fit is (epsilon, delta)-differentially private for one record, whatever its time, against
    all other nodes together but one. Conditions: bounds and periods are declared, and were not
    chosen by looking at the records. It is a simulation: its noise is floating-point and seeded.

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivateCoxRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2))
    >>> time = rng.exponential(3 * np.exp(-X @ [0.8, -0.4]))
    >>> y = np.column_stack([np.minimum(time, 4), time < 4])
    >>> model = PrivateCoxRegression((1, 2, 3, 4), 2.0, bounds=(-1, 1), random_state=0).fit(X, y)
    >>> bool(np.abs(model.coef_ - [0.8, -0.4]).max() < 0.2)
    True
    """

    def __init__(
        self,
        periods: Sequence[float] = (1, 2, 3, 4, 5),
        epsilon: float | None = 1.0,
        delta: float = 1e-5,
        *,
        bounds: Any = None,
        adjacency: str = "replace-one",
        public_size: int | None = None,
        n_nodes: int = 1,
        rounds: int = ROUNDS,
        noisy: str = "refuse",
        level: float = 0.95,
        random_state: int | None = None,
        ledger: Any = None,
        dataset: str | None = None,
    ) -> None:
        self.periods, self.epsilon, self.delta, self.bounds = periods, epsilon, delta, bounds
        self.adjacency, self.public_size, self.n_nodes = adjacency, public_size, n_nodes
        self.rounds, self.noisy, self.level = rounds, noisy, level
        self.random_state, self.ledger, self.dataset = random_state, ledger, dataset

    def fit(self, X: Any, y: Any, nodes: Any = None) -> Self:
        """Fit the model under the budget.

        X: records (n, p), an array or a frame. y: time and event, as `PrivateDiscreteHazard` takes
        them. nodes: (n,) which data holder each record belongs to; None spreads them evenly.
        """
        rows, names = self._rows(X)
        time, event = times_and_events(y)
        if self.bounds is None:
            raise InputError("bounds must be declared: public bounds of every feature.")
        low, high = declared_bounds(self.bounds, names)
        schema = Schema.build(
            columns=[
                {"kind": "numeric", "name": name, "low": float(a), "high": float(b)}
                for name, a, b in zip(names, low, high, strict=True)
            ],
            label={"name": EVENT, "classes": ["0", "1"]},
            survival={"time": TIME, "event": EVENT, "points": tuple(map(float, self.periods))},
            node_column=None if nodes is None else NODE,
        )
        table = {name: rows[:, j] for j, name in enumerate(names)}
        table |= {TIME: time, EVENT: np.where(np.asarray(event, bool), "1", "0")}
        if nodes is not None:
            table[NODE] = np.asarray(nodes).astype(str)
        privacy = None
        if self.epsilon is not None:
            privacy = Privacy(self.epsilon, self.delta, adjacency=self.adjacency)
        self.hazard_ratios_ = hazard_ratios(
            schema,
            table,
            privacy,
            rounds=self.rounds,
            nodes=self.n_nodes,
            public_size=self.public_size,
            noisy=self.noisy,
            level=self.level,
            seed=self.random_state,
            ledger=self.ledger,
            dataset=self.dataset,
        )
        self.coef_ = self.hazard_ratios_.coefficients
        self.cumulative_hazard_ = self.hazard_ratios_.baseline
        self.privacy_, self._ends = self.hazard_ratios_.privacy, (low, high)
        self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, object)
        return self

    def predict(self, X: Any) -> Array:
        """Compute the log hazard of each record, relative to the middle of all bounds.

        X: records, in the units in which they were fitted.
        """
        check_is_fitted(self)
        low, high = self._ends
        rows = np.clip(self._rows(X)[0], low, high)
        return np.asarray((rows - (low + high) / 2) @ self.coef_)

    def predict_survival(self, X: Any) -> Floats:
        """Predict the probability (n, n_periods) of no event up to the end of each period.

        X: records, in the units in which they were fitted.
        """
        return np.exp(-np.exp(self.predict(X))[:, None] * self.cumulative_hazard_)

    def score(self, X: Any, y: Any) -> float:
        """Compute the concordance of predictions with the times, without noise.

        X: records. y: time and event, as in `fit`. Result: 1 at best, 0.5 by chance.
        """
        found = concordance(*times_and_events(y), self.predict(X))
        return float("nan") if found is None else found

    @staticmethod
    def _rows(X: Any) -> tuple[Floats, list[str]]:
        names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        with columns_named(X):
            rows = np.asarray(X, float)
        if rows.ndim != 2:
            raise InputError(f"X must have two dimensions, records and features, not {rows.ndim}.")
        return rows, names or [f"x{j}" for j in range(rows.shape[1])]
