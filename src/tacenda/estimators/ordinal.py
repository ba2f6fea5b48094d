"""Private regression of ordered classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from tacenda._types import Array, Floats, Ints
from tacenda.errors import InputError
from tacenda.estimators.base import handed_on
from tacenda.estimators.classifiers import _PrivateClassifier
from tacenda.estimators.docstrings import documented
from tacenda.estimators.stacked import StackedModel
from tacenda.evaluation.coefficients import RATIOS
from tacenda.privacy.settings import Privacy


@documented
class PrivateOrdinalClassifier(StackedModel, _PrivateClassifier):
    """Logistic regression of ordered classes over a network of private data holders.

    The proportional odds model: for each of the K - 1 steps between neighbouring classes

        odds of a label above step k = exp(X @ coef_ - thresholds_[k])

    with the same coefficients for every step, so that exp(coefficient) is an odds ratio: by what
    the odds of a higher class are multiplied for one more unit of the feature. It minimises the sum
    of the K - 1 logistic losses "above step k or not" (the all-threshold loss of Rennie and Srebro
    2005), which is convex in coefficients and thresholds together, plus strength/2 |w|^2, on scaled
    features.

    {parameters}

    {attributes}
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds between neighbouring classes, in rising order.

    See Also
    --------
    PrivateLogisticRegression : Classes without an order.

    Notes
    -----
    The likelihood of the proportional odds model is convex too, but its slope in a threshold grows
    without bound as two thresholds come together, so that no noise would be enough. The
    all-threshold loss has the same parameters, which it estimates consistently where the model
    holds, and each of its terms has slope 1. A record is K - 1 rows of one logistic loss, and the
    guarantee is for all of them together. Thresholds that noise puts out of order are sorted, which
    is post-processing.

    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivateOrdinalClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 3))
    >>> pain = np.digitize(X @ [3.0, -2.0, 1.0] + rng.logistic(size=4000), [-1.5, 1.5])
    >>> y = np.array(["none", "some", "much"])[pain]
    >>> model = PrivateOrdinalClassifier(
    ...     epsilon=1.0, bounds=(-1, 1), classes=("none", "some", "much"), random_state=0
    ... )
    >>> bool(model.fit(X, y).score(X, y) > 0.55)
    True
    >>> model.predict([[1.0, -1.0, 0.5]]).tolist()
    ['much']
    """

    _ratio = RATIOS["order"]

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
        strength: float | str = "auto",
        classes: Any = None,
        class_weight: Any = None,
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

    def fit(self, X: Any, y: Any, nodes: Any = None, sample_weight: Any = None) -> Self:  # type: ignore[override]
        """Fit the model, with the privacy that `epsilon` and `delta` state.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records: a dense array, a pandas or polars frame, or a SciPy sparse matrix or array.
        y : array-like of shape (n_samples,)
            Labels; all of them among `classes`, where these are declared.
        nodes : array-like of shape (n_samples,), default=None
            Which data holder each record belongs to. None: an even split over `n_nodes`.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each record counts, from 0 to `weight_bound`. None: all count 1.
        """
        X, y, scaling = self._checked_rows(X, y)
        check_classification_targets(y)
        codes, self.classes_ = self._codes(y)
        rows = scaling.rows(X)
        weights, bound = self._weights(sample_weight, codes)
        return self._fit(
            rows,
            codes,
            nodes,
            scaling,
            "ordinal",
            "l2",
            weights=weights,
            weight_bound=bound,
            clip_norm=None if self.epsilon is None else self.clip_norm,
            classes=range(len(self.classes_)),
        )

    def _codes(self, y: Array) -> tuple[Ints, Array]:
        """Labels as positions in the classes, in the declared order."""
        if self.classes is None:
            return super()._codes(y)
        known = np.asarray(list(self.classes))
        if len(known) < 2 or len(np.unique(known)) != len(known):
            raise InputError(
                f"classes must be two or more different labels in rising order, not {known!r}."
            )
        if not np.isin(np.unique(y), known).all():
            raise InputError(
                "y holds a label which is not among the declared classes; "
                "add it to classes or drop such records."
            )
        order = np.argsort(known, kind="stable")
        return order[np.searchsorted(known[order], y)].astype(np.int64), known

    @property
    def thresholds_(self) -> Floats:
        """Thresholds between neighbouring classes, in rising order, (n_classes - 1,)."""
        check_is_fitted(self)
        return np.sort(-np.asarray(self.intercept_))

    def decision_function(self, X: Any) -> Array:
        """Linear scores of the records, without a threshold.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records, in the units in which they were fitted.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes the log odds of `classes_[1]`; with more the log probability of each
            class.
        """
        if len(self.thresholds_) == 1:
            return np.asarray(self._shared_scores(X) - self.thresholds_[0])
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records, in the units in which they were fitted.
        """
        from scipy.special import expit

        above = expit(self._shared_scores(X)[:, None] - self.thresholds_)
        ends = np.ones((len(above), 1)), np.zeros((len(above), 1))
        return np.asarray(-np.diff(np.hstack([ends[0], above, ends[1]]), axis=1))

    def predict(self, X: Any) -> Array:
        """Predict the most probable class of each record.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records, in the units in which they were fitted.
        """
        found = self.predict_proba(X)  # first: it says so if nothing was fitted
        return np.asarray(self.classes_[found.argmax(axis=1)])
