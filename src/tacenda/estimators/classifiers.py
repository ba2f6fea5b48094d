"""Private linear classifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from tacenda import checks
from tacenda._types import Array, Floats, Ints
from tacenda.errors import InputError
from tacenda.estimators.base import PrivateLinearModel
from tacenda.estimators.docstrings import documented
from tacenda.estimators.scaling import Scaling
from tacenda.losses import MulticlassHinge, SmoothedHinge
from tacenda.privacy.settings import Privacy


class _PrivateClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """Labels, decision values and predictions."""

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
        fit_intercept: bool = True,
        classes: Sequence[Any] | None = None,
        class_weight: Mapping[Any, float] | None = None,
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
        self.data_norm, self.clip_norm, self.bounds = data_norm, clip_norm, bounds
        self.strength, self.fit_intercept, self.classes = strength, fit_intercept, classes
        self.class_weight, self.weight_bound = class_weight, weight_bound
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
            Labels; all of them among `classes`, where these are declared.
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
        X, y, scaling = self._checked_rows(X, y)
        check_classification_targets(y)
        codes, known = self._codes(y)
        rows = scaling.rows(X)
        self.classes_ = known
        loss = self._loss(len(known))
        sample = None if public is None else self._public(public, scaling)
        weights, bound = self._weights(sample_weight, codes)
        if init is not None and hasattr(init, "classes_"):
            self._check_same_classes(init.classes_)
        return self._fit(
            rows,
            codes,
            nodes,
            scaling,
            loss,
            "l2",
            sample,
            weights,
            bound,
            self._start(init, scaling, len(known) if len(known) > 2 else 1),
            clip_norm=None if self.epsilon is None else self.clip_norm,
            classes=range(len(known)),
            groups=groups,
            records_per_person=records_per_person,
        )

    def _weights(self, sample_weight: Any, codes: Ints) -> tuple[Any, float]:
        """(weights (N,) of the records or None, their bound): sample_weight times class_weight."""
        weights, bound = self._sample_weights(sample_weight, len(codes))
        if self.class_weight is None:
            return weights, bound
        each = self._class_weights()
        own = each[codes]
        return own if weights is None else own * weights, float(
            each.max() if weights is None else each.max() * bound
        )

    def _class_weights(self) -> Floats:
        """(K,) the declared weight of each class."""
        given = self.class_weight
        if not isinstance(given, Mapping):
            raise InputError(
                f"class_weight must be a dict {{label: weight}} that is public, not {given!r}"
                "; 'balanced' weights would be read from the private labels: declare what is "
                "publicly known, for instance {0: 1, 1: 10} where one record in ten or so is a 1."
            )
        unknown = [label for label in given if label not in self.classes_]
        if unknown:
            raise InputError(
                f"class_weight names {unknown[0]!r}, which is not among the classes; "
                "use the labels of classes."
            )
        each = np.array(
            [checks.positive("class_weight", given.get(c, 1.0), zero=True) for c in self.classes_]
        )
        if not each.any():
            raise InputError("class_weight must be above 0 for some class; it is 0 for all.")
        return each

    def _check_same_classes(self, classes: Any) -> None:
        if not np.array_equal(classes, self.classes_):
            raise InputError(
                "init must be a model of the same classes in the same order; fit it on the same "
                "label set, or pass its (coef, intercept)."
            )

    def _public(self, public: Any, scaling: Scaling) -> tuple[Any, Ints]:
        """The public sample as scaled rows and class numbers."""
        X, y = self._public_rows(public)
        if not np.isin(y, self.classes_).all():
            raise InputError(
                "public holds a label which is not among the classes; drop such records, "
                "or declare it in classes."
            )
        return scaling.rows(X), np.searchsorted(self.classes_, y).astype(np.int64)

    def _loss(self, n_classes: int) -> Any:
        raise InputError(f"{type(self).__name__} has no loss; use one of the public estimators.")

    def _codes(self, y: Array) -> tuple[Ints, Array]:
        """Labels as positions in the sorted classes, and the classes."""
        found = np.unique(y)
        known = found if self.classes is None else np.unique(np.asarray(list(self.classes)))
        if len(known) < 2:
            raise InputError(
                f"{type(self).__name__} needs at least two classes, and y holds one class only; "
                "declare classes=(..., ...)."
            )
        if not np.isin(found, known).all():
            raise InputError(
                "y holds a label which is not among the declared classes; "
                "add it to classes or drop such records."
            )
        return np.searchsorted(known, y).astype(np.int64), known

    def decision_function(self, X: Any) -> Array:
        """Linear scores of the records.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records, in the units in which they were fitted.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes one score each, positive for `classes_[1]`.
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:
        """Predict the class of each record.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records, in the units in which they were fitted.
        """
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def _conditions(self, result: Any) -> list[str]:
        declared = (
            "The label set was declared."
            if self.classes is not None
            else (
                "The label set was read from the data and is taken as public; declare classes=... "
                "to be sure."
            )
        )
        said = [*super()._conditions(result)]
        return said if result.privacy is None else [*said, declared]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = (
            True  # on a few dozen records, noise for epsilon 1 leaves little
        )
        return tags


@documented
class PrivateLogisticRegression(_PrivateClassifier):
    """Logistic regression over a network of private data holders.

    Minimises the mean over nodes of the mean logistic loss of their records (multinomial for more
    than two classes), plus strength/2 |w|^2, on scaled features.

    {parameters}

    {attributes}

    See Also
    --------
    PrivateLinearSVC : The same with a hinge loss.
    tacenda.plan : The plan of `algorithm="auto"`, without data.
    sklearn.linear_model.LogisticRegression : The model without privacy.

    Notes
    -----
    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 3))
    >>> y = np.where(X @ [3.0, -2.0, 1.0] + rng.logistic(size=4000) > 0, "ill", "well")
    >>> model = PrivateLogisticRegression(
    ...     epsilon=1.0, bounds=(-1, 1), classes=("ill", "well"), n_nodes=4, random_state=0
    ... )
    >>> bool(model.fit(X, y).score(X, y) > 0.75)
    True
    >>> model.predict([[1.0, -1.0, 0.0]]).tolist()
    ['ill']
    >>> round(model.privacy_.epsilon, 3)
    1.0
    """

    _sklearn_name = "LogisticRegression"

    def _loss(self, n_classes: int) -> Any:
        return "logistic" if n_classes == 2 else "multinomial"

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records, in the units in which they were fitted.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            The logistic function of the score, or the softmax of the scores, in the order of
            `classes_`.
        """
        from scipy.special import expit, softmax

        scores = self._scores(X)
        if scores.shape[1] > 1:
            return np.asarray(softmax(scores, axis=1))
        return np.hstack([expit(-scores), expit(scores)])

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of the probability of each class, without underflow.

        X: records, in the units in which they were fitted.
        """
        from scipy.special import log_expit, log_softmax

        scores = self._scores(X)
        if scores.shape[1] > 1:
            return np.asarray(log_softmax(scores, axis=1))
        return np.hstack([log_expit(-scores), log_expit(scores)])


@documented
class PrivateLinearSVC(_PrivateClassifier):
    """Linear support vector machine over a network of private data holders.

    Two classes: the hinge loss, smoothed over a half-width of 1/2. More classes: the hinge of
    Crammer and Singer, smoothed at temperature 1/2. It is one loss under one budget, and one record
    moves its gradient by no more than with three classes, however many there are; one machine for
    each class would split the budget, or add up their sensitivities.

    {parameters}

    {attributes}

    See Also
    --------
    PrivateLogisticRegression : The same with a logistic loss, and with probabilities.
    tacenda.losses.MulticlassHinge : The loss for more than two classes.
    sklearn.svm.LinearSVC : The model without privacy.

    Notes
    -----
    {guarantee}

    Examples
    --------
    >>> import numpy as np
    >>> from tacenda.estimators import PrivateLinearSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 2))
    >>> y = np.where(X[:, 0] > 0.3, "right", np.where(X[:, 1] > 0, "above", "below"))
    >>> model = PrivateLinearSVC(
    ...     epsilon=1.0, bounds=(-1, 1), classes=("above", "below", "right"), random_state=0
    ... )
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    >>> model.coef_.shape
    (3, 2)
    """

    _sklearn_name = "LinearSVC"

    def _loss(self, n_classes: int) -> Any:
        return SmoothedHinge(0.5) if n_classes == 2 else MulticlassHinge(0.5)
