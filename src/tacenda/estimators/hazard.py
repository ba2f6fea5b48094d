"""Private survival times in discrete periods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from tacenda._types import Array, Flags, Floats
from tacenda.errors import InputError
from tacenda.estimators.docstrings import documented
from tacenda.estimators.stacked import StackedModel
from tacenda.evaluation.coefficients import RATIOS
from tacenda.evaluation.measures import concordance
from tacenda.losses.discrete_hazard import DiscreteHazard
from tacenda.privacy.settings import Privacy


def person_periods(time: Any, event: Any, periods: Any) -> tuple[Floats, Floats]:
    """Tell in which periods each person was at risk, and in which the event happened.

    Period t goes from the end of the one before (0 for the first), which it excludes, to
    `periods[t]`. A person is at risk in every period that was survived, and in the one of the
    event. Who was last seen without the event during a period is not at risk in it, since whether
    the event happened before its end is not known.

    Parameters
    ----------
    time : array-like of shape (n_samples,)
        Time of the event, or until which the person was seen without it; above 0.
    event : array-like of shape (n_samples,)
        Whether the event was seen (1), or not (0).
    periods : sequence of float
        The end of each period, rising and above 0.

    Returns
    -------
    at_risk : ndarray of shape (n_samples, n_periods)
        1 or 0.
    happened : ndarray of shape (n_samples, n_periods)
        1 in the period of the event, else 0.

    Examples
    --------
    >>> from tacenda.estimators import person_periods
    >>> at_risk, happened = person_periods([1.5, 2.5], [1, 0], [1.0, 2.0, 3.0])
    >>> at_risk.tolist(), happened.tolist()
    ([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]], [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    """
    ends = _period_ends(periods)
    time, seen = np.asarray(time, float), np.asarray(event)
    if time.ndim != 1 or seen.shape != time.shape:
        raise InputError(
            f"time and event must be of one length, not of shapes {time.shape} and {seen.shape}."
        )
    if not (np.isfinite(time) & (time > 0)).all():
        raise InputError("time must hold finite numbers above 0; drop such records first.")
    if not np.isin(seen, (0, 1)).all():
        raise InputError("event must hold 1 (seen) or 0 (not seen); convert it first.")
    seen = seen.astype(bool)
    at = np.searchsorted(ends, time)  # the period in which the time lies; T beyond the last
    t = np.arange(len(ends))
    happened = (at[:, None] == t) & seen[:, None]
    # Seen until exactly the end of a period without the event: survived it
    whole = np.append(ends, np.inf)[at] == time
    at_risk = (t < at[:, None]) | happened | ((at[:, None] == t) & whole[:, None])
    return at_risk.astype(float), happened.astype(float)


def _period_ends(periods: Any) -> Floats:
    try:
        ends = np.asarray(list(periods), float)
    except (TypeError, ValueError):
        ends = np.zeros(0)
    if not len(ends) or not (np.isfinite(ends).all() and ends[0] > 0 and np.all(np.diff(ends) > 0)):
        raise InputError(
            "periods must be rising numbers above 0, the end of each period, such as "
            f"(1, 2, 5), declared from public knowledge, not {periods!r:.60}."
        )
    return ends


def times_and_events(y: Any) -> tuple[Floats, Flags]:
    """(time, event) of a structured array with these fields, or of two columns in this order."""
    array = y if isinstance(y, np.ndarray) else None
    if array is not None and array.dtype.names is not None:
        if set(array.dtype.names) != {"time", "event"}:
            raise InputError(
                f"y must have the fields 'time' and 'event', not {array.dtype.names}; rename them."
            )
        return np.asarray(array["time"], float), np.asarray(array["event"])
    if hasattr(y, "columns") and {"time", "event"} <= set(map(str, y.columns)):
        return np.asarray(y["time"], float), np.asarray(y["event"])
    plain = np.asarray(y, float)
    if plain.ndim != 2 or plain.shape[1] != 2:
        raise InputError(
            f"y must hold two columns, time and event, not shape {plain.shape}; "
            "for instance numpy.column_stack([time, event])."
        )
    return plain[:, 0], plain[:, 1]


@documented
class PrivateDiscreteHazard(StackedModel):
    """Survival times in declared periods, over a network of private data holders.

    A person who came into period t without the event has it there with probability

        expit(X @ coef_ + intercept_[t])

    the hazard of the period, with the same coefficients in all of them (Cox 1972; Singer and
    Willett 1993): logistic regression on person-periods, each of them one row. exp(coefficient) is
    the ratio of the hazard's odds, close to the hazard ratio where the hazard of one period is
    small. The penalty is strength/2 |w|^2, on scaled features.

    {parameters}

    {attributes}

    See Also
    --------
    PrivateLogisticRegression : Whether the event happens at all.

    Notes
    -----
    A person has one row for each period, those not at risk with weight 0, and the guarantee is for
    all of them together: for the person, however long the time. Few periods cost less than many: in
    each the records say less, and the noise is the same.

    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivateDiscreteHazard
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 2))
    >>> time = rng.exponential(np.exp(-X @ [1.5, -1.0])) * 2
    >>> event, time = (time < 3).astype(int), np.minimum(time, 3)
    >>> model = PrivateDiscreteHazard((1, 2, 3), epsilon=1.0, bounds=(-1, 1), random_state=0)
    >>> model = model.fit(X, np.column_stack([time, event]))
    >>> model.predict_survival([[0.5, 0.0]]).shape
    (1, 3)
    >>> bool(model.score(X, np.column_stack([time, event])) > 0.65)
    True
    """

    _ratio = RATIOS["hazard"]

    def __init__(
        self,
        periods: Sequence[float] = (1, 2, 3, 4, 5),
        epsilon: float | Privacy | None = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: str = "replace-one",
        coalition: int | None = 1,
        data_norm: float | None = None,
        clip_norm: float | None = None,
        bounds: Any = None,
        strength: float | str = "auto",
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
        self.periods = periods
        self.epsilon, self.delta = epsilon, delta
        self.adjacency, self.coalition = adjacency, coalition
        self.data_norm, self.clip_norm, self.bounds = data_norm, clip_norm, bounds
        self.strength, self.weight_bound = strength, weight_bound
        self.n_nodes, self.graph, self.algorithm, self.rounds = n_nodes, graph, algorithm, rounds
        self.prepare, self.random_state, self.verbose = prepare, random_state, verbose
        self.public_sizes, self.ledger, self.dataset = public_sizes, ledger, dataset
        self.problem = problem

    def fit(self, X: Any, y: Any, nodes: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model, with the privacy that `epsilon` and `delta` state.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records: a dense array, a pandas or polars frame, or a SciPy sparse matrix or array.
        y : array-like of shape (n_samples, 2)
            Time and event (1, or 0 for a person last seen without it): two columns in this order,
            or a structured array or frame with the fields "time" and "event".
        nodes : array-like of shape (n_samples,), default=None
            Which data holder each person belongs to. None: an even split over `n_nodes`.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each person counts, from 0 to `weight_bound`. None: all count 1.
        """
        at_risk, happened = person_periods(*times_and_events(y), self.periods)
        X, _, scaling = self._checked_rows(X, np.zeros(len(at_risk)))
        weights, bound = self._sample_weights(sample_weight, len(at_risk))
        return self._fit(
            scaling.rows(X),
            DiscreteHazard.cells(at_risk > 0, happened > 0),
            nodes,
            scaling,
            "discrete-hazard",
            "l2",
            weights=weights,
            weight_bound=bound,
            clip_norm=None if self.epsilon is None else self.clip_norm,
            classes=range(2 * at_risk.shape[1] + 1),
        )

    def predict(self, X: Any) -> Array:
        """Compute the risk score of each person: the larger, the sooner the event.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records, in the units in which they were fitted.
        """
        return self._shared_scores(X)

    def predict_hazard(self, X: Any) -> Floats:
        """Predict the probability of the event in each period, given no event before it.

        X: records, in the units in which they were fitted.
        """
        from scipy.special import expit

        return np.asarray(expit(self._shared_scores(X)[:, None] + self.intercept_))

    def predict_survival(self, X: Any) -> Floats:
        """Predict the survival curve: the probability of no event up to the end of each period.

        X: records, in the units in which they were fitted.
        """
        return np.asarray(np.cumprod(1.0 - self.predict_hazard(X), axis=1), np.float64)

    def score(self, X: Any, y: Any) -> float:
        """Concordance of the risk scores with the times, computed without noise.

        X: records, in the units in which they were fitted. y: time and event, as in `fit`. Result:
        1 at best, 0.5 by chance; NaN where no two persons can be compared.
        """
        found = concordance(*times_and_events(y), self.predict(X))
        return float("nan") if found is None else found

    def _conditions(self, result: Any) -> list[str]:
        said = super()._conditions(result)
        if result.privacy is None:
            return said
        return [*said, "The periods are declared, and were not chosen by looking at the times."]
