"""Private linear classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from tacenda._types import Array, Ints
from tacenda.errors import InputError
from tacenda.estimators.base import PrivateLinearModel
from tacenda.estimators.scaling import Scaling
from tacenda.problem.losses import SmoothedHinge


class _PrivateClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """Labels, decision values and predictions; the parameters are those of `PrivateLinearModel`.

    classes   the declared label set; without it, the labels found in y are taken as public, which
              they are not always
    Fitted: coef_ (1, p) or (K, p), intercept_ (1,) or (K,), classes_, node_coef_ (n, ., p),
    node_intercept_, privacy_ (what was really spent), history_ (simulation only), plan_,
    conditions_, result_.
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
        strength: float = 1e-4,
        fit_intercept: bool = True,
        classes: Sequence[Any] | None = None,
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
        self.data_norm, self.clip_norm, self.bounds = data_norm, clip_norm, bounds
        self.strength, self.fit_intercept, self.classes = strength, fit_intercept, classes
        self.n_nodes, self.graph, self.algorithm, self.rounds = n_nodes, graph, algorithm, rounds
        self.prepare = prepare
        self.random_state, self.verbose, self.public_sizes = random_state, verbose, public_sizes
        self.ledger, self.dataset = ledger, dataset

    def fit(self, X: Any, y: Any, nodes: Any = None, public: Any = None) -> Self:
        """Fit on X (N, p), dense or sparse, and labels y (N,); `nodes` (N,) names each record's
        data holder.

        public: a sample (X, y) of the same kind that is public, on which "auto" tunes its step;
        nothing is charged for it.
        """
        X, y, scaling = self._checked_rows(X, y)
        check_classification_targets(y)
        codes, known = self._codes(y)
        rows, _ = scaling.rows(X)
        self.classes_ = known
        loss = self._loss(len(known), y)
        sample = None if public is None else self._public(public, scaling)
        return self._fit(
            rows,
            codes,
            nodes,
            scaling,
            loss,
            "l2",
            sample,
            clip_norm=self.clip_norm,
            classes=range(len(known)),
        )

    def _public(self, public: Any, scaling: Scaling) -> tuple[Any, Ints]:
        """The public sample as scaled rows and class numbers."""
        X, y = self._public_rows(public)
        if not np.isin(y, self.classes_).all():
            raise InputError(
                "public holds a label which is not among the classes; drop such records, "
                "or declare it in classes."
            )
        return scaling.rows(X)[0], np.searchsorted(self.classes_, y).astype(np.int64)

    def _loss(self, n_classes: int, y: Array) -> Any:
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
        """(N,) scores for two classes, positive for classes_[1]; else (N, K)."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:
        """The likeliest class of each record."""
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
        return [*super()._conditions(result), declared]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = (
            True  # on a few dozen records, noise for epsilon 1 leaves little
        )
        return tags


class PrivateLogisticRegression(_PrivateClassifier):
    """Logistic regression (multinomial for more than two classes) over a network of private data
    holders.

    Minimises (1/n) sum_i (1/m_i) sum_j ln(1 + exp(-y w.x)) + strength/2 |w|^2 on the scaled rows.
    """

    _sklearn_name = "LogisticRegression"

    def _loss(self, n_classes: int, y: Array) -> Any:
        return "logistic" if n_classes == 2 else "multinomial"

    def predict_proba(self, X: Any) -> Array:
        """(N, K) probabilities: the logistic function of the score,
        or the softmax of the scores."""
        from scipy.special import expit, softmax

        scores = self._scores(X)
        if scores.shape[1] > 1:
            return np.asarray(softmax(scores, axis=1))
        return np.hstack([expit(-scores), expit(scores)])

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`, without underflow."""
        from scipy.special import log_expit, log_softmax

        scores = self._scores(X)
        if scores.shape[1] > 1:
            return np.asarray(log_softmax(scores, axis=1))
        return np.hstack([log_expit(-scores), log_expit(scores)])


class PrivateLinearSVC(_PrivateClassifier):
    """Linear support vector machine for two classes,
    with the hinge smoothed over a half-width of 1/2."""

    _sklearn_name = "LinearSVC"

    def _loss(self, n_classes: int, y: Array) -> Any:
        if n_classes > 2:
            raise InputError(
                "Only binary classification is supported. "
                f"The type of the target is {type_of_target(y)}: "
                "use PrivateLogisticRegression for more than two classes."
            )
        return SmoothedHinge(0.5)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
