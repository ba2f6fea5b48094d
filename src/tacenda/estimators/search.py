"""`PrivateSearchCV`: the best of several candidates inside one budget."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.model_selection import ParameterGrid
from sklearn.utils import check_random_state, get_tags

from tacenda import checks
from tacenda._types import Array, Ints
from tacenda.data.holding_out import held_out_records, split_source
from tacenda.errors import InputError
from tacenda.estimators.chosen import ChosenModel
from tacenda.estimators.classifiers import _PrivateClassifier
from tacenda.estimators.held_out_scores import Reader, reader_of
from tacenda.estimators.regressor_base import LinearRegressor
from tacenda.estimators.trainings import Training, together, trainings_of
from tacenda.questions.facts import Facts
from tacenda.runtime.result import RunResult
from tacenda.words import counted

# What belongs to the search and the records, and is the same for all candidates
COMMON = (
    "adjacency",
    "bounds",
    "classes",
    "coalition",
    "dataset",
    "delta",
    "epsilon",
    "graph",
    "ledger",
    "n_nodes",
    "public_sizes",
    "random_state",
    "target_bounds",
)


class PrivateSearchCV(MetaEstimatorMixin, ChosenModel, BaseEstimator):  # type: ignore[misc]
    """Search over settings of a private model, inside one budget.

    Each data holder keeps a share of its records away from training. Candidates are trained on the
    others, all within (epsilon, delta); then one private statistic of the records held out scores
    them all, and the best is chosen. A record is trained on or held out, never both, so the
    search as a whole is (epsilon, delta)-private, and `privacy_` says so.

    Parameters
    ----------
    estimator : PrivateLinearModel
        A private classifier or regressor of `tacenda.estimators`. Its own epsilon, delta, ledger,
        dataset and random_state are not used: those of the search are.
    param_grid : dict or list of dict
        Values to try for each setting, as in scikit-learn's `GridSearchCV`. They must not come
        from a look at the records.
    epsilon : float, default=1.0
        Privacy of the whole search, for one record: all trainings and the choice.
    delta : float, default=1e-5
        The chance with which the bound of epsilon may fail.
    held_out : float, default=0.2
        Share of each data holder's records that is held out for the choice. It must not come from
        a look at the records.
    scoring : str or None, default=None
        "accuracy", "neg_log_loss" (of at most ln 100 a record) or "neg_brier_score" of classifiers,
        "neg_mean_squared_error" or "neg_mean_absolute_error" of regressors, where an error counts
        as at most a quarter of the target range. None: the first one.
    random_state : int, RandomState or None, default=None
        None draws fresh noise and a fresh split. An int makes them reproducible: for simulation
        only.
    verbose : bool, default=False
        Whether to print what is trained, and what it may cost.
    ledger : path or None, default=None
        A lasting ledger's file, to which every training and the choice are charged before their
        noise is drawn.
    dataset : str or None, default=None
        Name of the ledger's account of the records trained on; those held out have the account
        "<dataset>/held-out".

    Attributes
    ----------
    best_estimator_ : PrivateLinearModel
        The chosen model, as it was released: it is not fitted again, and its `privacy_` is that of
        the search.
    best_params_ : dict
        Its settings.
    best_index_ : int
        Its position in `cv_results_`.
    best_score_ : float
        Its score with noise; as the largest of several noisy scores it tends to be too large.
    cv_results_ : dict
        For each candidate "params", "param_<name>", "mean_test_score" (its released score, with
        noise), "noise_test_score" (standard deviation of that noise) and "rank_test_score".
    privacy_ : Statement
        What the search guarantees: that of `training_privacy_` and `held_out_privacy_` with the
        larger epsilon.
    training_privacy_ : Statement
        Of the records that were trained on: all trainings together.
    held_out_privacy_ : Statement
        Of the records that were held out: the choice.
    n_trainings_ : int
        How many trainings were charged: one for each candidate, or for all strengths of a
        regression from released moments together.
    scoring_ : str
        Name of the score.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features; only where X was a frame whose column names are all strings.
    conditions_ : list of str
        What the guarantee rests on, in sentences.

    See Also
    --------
    tacenda.selection.ways_to_search : What one training may cost, by number of candidates.
    sklearn.model_selection.GridSearchCV : The search without privacy.

    Notes
    -----
    There is no cross-validation and no second fit on all records: both would charge the records
    held out as well. A pipeline may end with a search; a search over a pipeline is refused, because
    steps before the model would read the records without noise.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(6000, 3))
    >>> y = X @ [3.0, -2.0, 1.0] + rng.normal(size=6000)
    >>> ridge = tc.PrivateRidge(bounds=(-1, 1), target_bounds=(-8, 8), n_nodes=4)
    >>> search = tc.PrivateSearchCV(
    ...     ridge, {"strength": [1e-4, 1e-2, 1.0]}, epsilon=1.0, random_state=0
    ... )
    >>> search = search.fit(X, y)
    >>> search.best_params_["strength"] < 1.0, search.n_trainings_
    (True, 1)
    >>> round(search.privacy_.epsilon, 2)
    1.0
    """

    # What is known of each record reaches `fit` through pipelines without asking
    __metadata_request__fit = dict.fromkeys(("nodes", "groups", "records_per_person"), True)

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        held_out: float = 0.2,
        scoring: str | None = None,
        random_state: Any = None,
        verbose: bool = False,
        ledger: Any = None,
        dataset: str | None = None,
    ) -> None:
        self.estimator, self.param_grid = estimator, param_grid
        self.epsilon, self.delta = epsilon, delta
        self.held_out, self.scoring = held_out, scoring
        self.random_state, self.verbose = random_state, verbose
        self.ledger, self.dataset = ledger, dataset

    def fit(
        self, X: Any, y: Any, nodes: Any = None, groups: Any = None, records_per_person: int = 1
    ) -> Self:
        """Train the candidates and choose one, within epsilon and delta.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Records: a dense array, a pandas or polars frame, or a SciPy sparse matrix or array.
        y : array-like of shape (n_samples,)
            Labels or targets.
        nodes : array-like of shape (n_samples,), default=None
            Which data holder each record belongs to. None: an even split over the estimator's
            `n_nodes`.
        groups : array-like of shape (n_samples,), default=None
            Ids of the persons behind the records. The guarantee is then for a person, whose records
            are all trained on or all held out. It goes with an estimator of
            adjacency="add-remove" and public_sizes.
        records_per_person : int, default=1
            Number of records kept of each person, drawn at random.
        """
        candidates = self._candidates()
        # A fixed random_state gives every training and the choice noise of its own: equal noise in
        # two releases would cancel
        source = split_source(self._seed())
        inner, outer = self._split(X, y, nodes, groups, records_per_person, source)
        seeds = [int(s) for s in source.choice(2**31 - 1, len(candidates) + 1, replace=False)]
        known = self.random_state is not None
        self._known = self._labels(y)
        trainings = trainings_of(self, candidates, inner, seeds if known else None)
        reader = reader_of(self, outer, trainings[0].arranged)
        self.training_privacy_ = together([t.statement for t in trainings], self.epsilon)
        models: dict[int, Any] = {}
        for number, training in enumerate(trainings, start=1):
            if self.verbose:
                print(
                    f"training {number} of {len(trainings)}: {candidates[training.candidates[0]]}"
                )
            models |= training.models(candidates)
        ordered = [models[k] for k in range(len(candidates))]
        result = reader.asked(ordered, seeds[-1] if known else None, self)
        assert result.privacy is not None
        self.held_out_privacy_ = result.privacy
        self._keep(candidates, ordered, reader, result, trainings)
        return self

    # ---- before anything is released
    def _candidates(self) -> list[dict[str, Any]]:
        model = self.estimator
        if not isinstance(model, _PrivateClassifier | LinearRegressor):
            raise InputError(
                "estimator must be a private classifier or regressor of tacenda.estimators, not "
                f"{type(model).__name__}; steps of a pipeline would read the records without "
                "noise, so put the search at the end of a pipeline of public steps instead."
            )
        found = list(ParameterGrid(self.param_grid))
        for name in sorted({name for params in found for name in params}):
            if name in COMMON:
                raise InputError(
                    f"param_grid must not vary {name!r}, which is the same for all candidates; "
                    "set it on the search or on the estimator."
                )
            if name not in model.get_params(deep=False):
                raise InputError(
                    f"param_grid names {name!r}, which {type(model).__name__} does not have; use "
                    f"one of {', '.join(sorted(set(model.get_params(deep=False)) - set(COMMON)))}."
                )
        if not found:
            raise InputError("param_grid must hold at least one candidate.")
        return found

    def _seed(self) -> int | None:
        if self.random_state is None or isinstance(self.random_state, int | np.integer):
            return None if self.random_state is None else int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _labels(self, y: Any) -> dict[str, Any]:
        """The label set of a classifier, also where a part of the records lacks a label; those
        found count as public, as in a fit."""
        if not isinstance(self.estimator, _PrivateClassifier):
            return {}
        declared = self.estimator.classes
        return {"classes": np.unique(np.asarray(y)).tolist() if declared is None else declared}

    def _split(
        self, X: Any, y: Any, nodes: Any, groups: Any, records_per_person: int, source: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arguments of `fit` for the records trained on, and for those held out."""
        share = checks.between("held_out", self.held_out, 0.0, 1.0)
        count = X.shape[0] if hasattr(X, "shape") else len(X)
        owners = None if nodes is None else np.asarray(nodes)
        if owners is not None and owners.shape != (count,):
            raise InputError(
                f"nodes must name the holder of each record ({count}), not shape {owners.shape}."
            )
        persons, how = None, {}
        if groups is not None:
            if self.estimator._relation != "add-remove":
                raise InputError(
                    "groups needs an estimator with adjacency='add-remove' and public_sizes, not "
                    f"adjacency={self.estimator._relation!r}: persons are held out by a coin each, "
                    "so that the number of records on each side is not public."
                )
            persons, owners = self.estimator._persons(groups, count, owners)
            how = {"records_per_person": records_per_person}
        elif records_per_person != 1:
            raise InputError(
                f"groups must be given where records_per_person is above 1 ({records_per_person}): "
                "the id of the person behind each record."
            )
        away = held_out_records(owners, count, share, self.estimator._relation, source, persons)

        def part(chosen: Array) -> dict[str, Any]:
            where = np.flatnonzero(chosen)
            return {
                "X": _rows(X, where),
                "y": _rows(y, where),
                "nodes": None if owners is None else owners[where],
                **({} if persons is None else {"groups": persons[where], **how}),
            }

        return part(~away), part(away)

    def _sizes(self, share: float) -> dict[str, Any]:
        """Declared sizes of a part of the records."""
        given = self.estimator.public_sizes
        if given is None:
            return {}
        return {"public_sizes": (np.asarray(given, float) * share).tolist()}

    # ---- what was released
    def _keep(
        self,
        candidates: list[dict[str, Any]],
        models: list[Any],
        reader: Reader,
        result: RunResult,
        trainings: list[Training],
    ) -> None:
        scores, noise = reader.scores(result, self._held_out_size(reader))
        best = int(np.argmax(scores))
        self.privacy_ = max(
            self.training_privacy_, self.held_out_privacy_, key=lambda said: said.epsilon
        )
        self.n_trainings_ = len(trainings)
        self.best_index_, self.best_params_ = best, candidates[best]
        self.best_score_, self.scoring_ = float(scores[best]), reader.scoring
        order = np.argsort(-scores)
        ranks = np.empty(len(scores), int)
        ranks[order] = np.arange(1, len(scores) + 1)
        self.cv_results_: dict[str, Any] = {
            "params": candidates,
            "mean_test_score": scores,
            "noise_test_score": np.full(len(scores), noise),
            "rank_test_score": ranks,
        }
        for name in sorted({name for params in candidates for name in params}):
            column = np.ma.MaskedArray(np.empty(len(candidates), object), mask=True)
            for k, params in enumerate(candidates):
                if name in params:
                    column[k] = params[name]
            self.cv_results_[f"param_{name}"] = column
        chosen: Any = copy.copy(models[best])
        # The model alone would seem to cost one training; who has it has what all of them cost
        chosen.privacy_ = self.privacy_
        chosen.result_ = replace(chosen.result_, privacy=self.privacy_)
        said = [
            f"The model is the best of {counted(len(candidates), 'candidate')} from "
            f"{counted(len(trainings), 'training')}: epsilon is that of all trainings together, "
            "and of the choice on records held out from them, whichever is larger.",
            "The candidates and the share held out are public, "
            "and were not chosen by looking at the records.",
        ]
        chosen.conditions_ = [*chosen.conditions_, *said]
        self.best_estimator_, self.conditions_ = chosen, chosen.conditions_
        self.n_features_in_ = chosen.n_features_in_
        if hasattr(chosen, "feature_names_in_"):
            self.feature_names_in_ = chosen.feature_names_in_

    def _held_out_size(self, reader: Reader) -> float:
        """Public number of records held out."""
        return float(Facts.of(reader.arranged.problem, self.estimator._relation).sizes.sum())

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags, tags.input_tags = inner.target_tags, inner.input_tags
        tags.non_deterministic = True
        return tags


def _rows(values: Any, where: Ints) -> Any:
    """Some rows of an array, frame, column or sparse matrix."""
    from sklearn.utils import _safe_indexing

    return _safe_indexing(values, where)
