"""What all estimators share: declarations, placement on nodes, one private run, weights in the
user's own scale."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from tacenda import checks, losses
from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.registry import by_name
from tacenda.data.as_read import of_arrays
from tacenda.data.partition import broken_promise
from tacenda.errors import InputError
from tacenda.estimators.placement import place
from tacenda.estimators.refusing import columns_named
from tacenda.estimators.scaling import Scaling, declared_bounds
from tacenda.estimators.table_rows import category_places, design_of
from tacenda.estimators.warnings import in_a_search, warn_of_bounds, warn_of_noise, warn_of_search
from tacenda.evaluation.coefficients import (
    ORIGINAL,
    SHORTENED,
    CoefficientTable,
    coefficient_table,
    how_known,
    ratio_note,
    told_intervals,
)
from tacenda.graph.topology import Topology
from tacenda.inference.asking import check_width, facts_of_run, intervals, statistic_of
from tacenda.inference.design import Design, Forecast, forecast
from tacenda.planning.advice import class_sentence
from tacenda.planning.no_privacy import without_privacy
from tacenda.planning.outcome import Plan
from tacenda.planning.planner import plan_facts
from tacenda.privacy.noise.persons import PUBLIC_KEY, person_names, persons_over
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import UNIT
from tacenda.problem.problem import Problem
from tacenda.questions.facts import Facts
from tacenda.runtime.result import RunResult
from tacenda.runtime.simulate import simulate
from tacenda.terms.method import Method
from tacenda.terms.privacy import PROMISE
from tacenda.terms.problem import DECLARED
from tacenda.words import counted

HISTORY_ROWS = 20
# scikit-learn's parameters, and what to write in their place
RENAMED = {
    "C": "use strength, the weight of the penalty beside the mean loss: about 1/(C * n_samples)",
    "alpha": "use strength, the weight of the penalty beside the mean loss",
    "penalty": "the class decides it; its weight is strength",
    "max_iter": "use rounds, or leave it out: the planner chooses",
    "tol": "leave it out: the number of rounds is planned in advance, since each costs privacy",
}


@dataclass(frozen=True, eq=False)
class Arrangement:
    """A fit that is arranged and not run: the problem with its records, the network, the budget and
    the method."""

    estimator: PrivateLinearModel
    problem: Problem
    topology: Topology
    privacy: Privacy | None
    method: Method
    scaling: Scaling
    start: Any = None


class PrivateLinearModel(BaseEstimator):  # type: ignore[misc]
    """What all private linear models share: one private run, and weights in the user's own units.

    Use one of its subclasses, whose docstrings name all parameters and attributes.
    """

    # X, y, nodes and the rest reach `fit` through pipelines and searches without asking
    __metadata_request__fit = {  # noqa: RUF012
        **dict.fromkeys(("nodes", "public", "init", "groups", "records_per_person"), True)
    }

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Say what scikit-learn's name for a parameter is called here."""
        for name in kwargs.keys() & RENAMED.keys():
            if name not in inspect.signature(cls).parameters:
                raise TypeError(f"{cls.__name__} has no {name!r}: {RENAMED[name]}.")
        return super().__new__(cls)

    _sklearn_name: str
    _ratio: str | None = None  # what exp(coefficient) is, where it has a name
    _references: Sequence[Sequence[int]] = ()  # categories in `intervals`, the reference first

    def _fit(
        self,
        X: Any,
        y: Array,
        nodes: Any,
        scaling: Scaling,
        loss: Any,
        regulariser: Any,
        public: Any = None,
        weights: Any = None,
        weight_bound: float = 1.0,
        start: Any = None,
        groups: Any = None,
        **extra: Any,
    ) -> Self:
        """Run on rows X that are scaled already, as are those of the public sample and the start.

        weights (N,): from 0 to weight_bound. groups (N,): ids of the persons behind the records.
        """
        if self.epsilon is not None and in_a_search():
            warn_of_search(self.epsilon, self.ledger, self.dataset)
        if groups is not None:
            ids, nodes = self._persons(groups, len(y), nodes)
            parts = place(X, ids, nodes, self.n_nodes, self.graph)[0]
            extra["persons"] = [own for _, own in parts]
        self._check_split(nodes)
        shards, topology = place(X, y, nodes, self.n_nodes, self.graph)
        own = {
            "loss": loss,
            "regulariser": regulariser,
            "strength": self.strength,
            "row_scale": scaling.row_scale,
            "clip_norm": extra.pop("clip_norm"),
        }
        problem = Problem(
            shards,
            **self._declared(own),
            weights=None
            if weights is None
            else [own for _, own in place(X, weights, nodes, self.n_nodes, self.graph)[0]],
            weight_bound=weight_bound,
            fingerprints=self.__dict__.pop("_as_read", None),
            **{"public_sizes": self.public_sizes, **extra},
        )
        privacy = self._promise()
        if privacy is not None:
            warn_of_noise(Facts.of(problem, privacy.adjacency), privacy)
        method, self.plan_ = self._method(problem, topology, public)
        if start is not None and not method.algorithm.traits.uses_start:
            raise InputError(
                f"init must be left out with {method.algorithm.title}, which has a start of "
                "its own; or name an algorithm that uses one, such as algorithm='gossipgd'."
            )
        self._heaviest = None if weights is None else weight_bound
        return self._run(Arrangement(self, problem, topology, privacy, method, scaling, start))

    def _declared(self, own: dict[str, Any]) -> dict[str, Any]:
        """What is declared of the problem: by the estimator, and by its parameter `problem`."""
        further = dict(self.problem or {})
        free = {s.name for s in DECLARED} - (own.keys() | {"data_norm"}) | {"loss"}
        for name in further.keys() - free:
            raise InputError(
                f"problem must not hold {name!r}: {type(self).__name__} decides it, or nothing of "
                f"that name is declared of a problem; it takes {sorted(free)}."
            )
        if "loss" in further:
            usual, other = losses.by_name(own["loss"]), losses.by_name(further["loss"])
            if (usual.kind, usual.predicts) != (other.kind, other.predicts):
                raise InputError(
                    f"problem['loss'] must predict what that of {type(self).__name__} does "
                    f"({usual.kind}, {usual.predicts}), not {other.kind}, {other.predicts}; use "
                    "another estimator, or tacenda.Problem."
                )
            # The usual bound on gradients is one for the usual loss
            own = {**own, "clip_norm": None if self.epsilon is None else self.clip_norm}
        return {**own, **further}

    def _promise(self) -> Privacy | None:
        """What a fit promises; None without privacy."""
        if self.epsilon is None:
            return None
        own = {s.name: getattr(self, s.name) for s in PROMISE if hasattr(self, s.name)}
        return Privacy.of(**own)

    def _promise_of(self, epsilon: float, delta: float) -> Privacy:
        """The same promise with another budget, for a question after the fit."""
        privacy = self._promise()
        if privacy is None:
            return Privacy(epsilon, delta, self.adjacency, coalition=self.coalition)
        return replace(privacy, epsilon=epsilon, delta=delta, mode="sound", noise={})

    def _budgeted(self, epsilon: float, delta: float) -> dict[str, Any]:
        """The parameters that give a fit this budget."""
        if isinstance(self.epsilon, Privacy):
            return {"epsilon": replace(self.epsilon, epsilon=epsilon, delta=delta)}
        return {"epsilon": epsilon, "delta": delta}

    @property
    def _relation(self) -> str:
        """The neighbouring relation of a fit."""
        epsilon = self.epsilon
        return str(epsilon.adjacency if isinstance(epsilon, Privacy) else self.adjacency)

    def _run(self, arranged: Arrangement) -> Self:
        """Carry out what `fit` has arranged."""
        if self.verbose and self.plan_ is not None:
            print(self.plan_.explain())
        result = simulate(
            arranged.problem,
            arranged.topology,
            arranged.method,
            privacy=arranged.privacy,
            seed=self._seed(),
            init=arranged.start,
            progress="auto" if self.verbose else False,
            record_every=max(1, arranged.method.rounds // HISTORY_ROWS),
            ledger=self.ledger,
            dataset=self.dataset,
        )
        self._started = arranged.start is not None
        self._keep(result, arranged.scaling, arranged.topology)
        return self

    def _arranged(self, X: Any, y: Any, **how: Any) -> Arrangement:
        """A copy's fit up to its run, which is left to `arranged.estimator._run(arranged)`."""
        copy: Any = clone(self)
        copy._run = lambda arranged: arranged
        found: Arrangement = copy.fit(X, y, **how)
        del copy._run
        return found

    def _persons(self, groups: Any, count: int, nodes: Any) -> tuple[Array, Any]:
        """(ids (N,), nodes (N,)): where no nodes are given, all records of a person go to one, by a
        draw that looks at the id alone."""
        ids = person_names(groups, "groups")
        if len(ids) != count:
            raise InputError(f"groups must hold one id per record ({count}), not {len(ids)}.")
        if nodes is not None:
            return ids, nodes
        if self.n_nodes is None:
            raise InputError(
                "n_nodes must be given with groups, or nodes to fit: by default it follows from "
                "the number of records, which is private where persons have several."
            )
        return ids, persons_over(ids, checks.whole("n_nodes", self.n_nodes, least=1), PUBLIC_KEY)

    def _check_split(self, nodes: Any) -> None:
        """Refuse an even split where it would break the guarantee."""
        count = 2 if self.n_nodes is None else self.n_nodes
        why = None if nodes is not None else broken_promise("even", self._relation, count)
        if why is not None:
            raise InputError(
                f"nodes must be given to fit under adjacency {self._relation!r} (or n_nodes=1): "
                f"{why}, and the guarantee would not hold."
            )

    def _sample_weights(self, sample_weight: Any, count: int) -> tuple[Any, float]:
        """(weights (N,) or None, their declared bound)."""
        bound = checks.positive("weight_bound", self.weight_bound)
        if sample_weight is None:
            return None, bound
        weights = np.asarray(sample_weight, float)
        if weights.shape != (count,):
            raise InputError(
                f"sample_weight must hold one number per record ({count}), "
                f"not shape {weights.shape}."
            )
        if not ((weights >= 0) & (weights <= bound)).all():
            raise InputError(
                f"sample_weight must lie from 0 to weight_bound={bound:g}, and some do not; "
                "declare a larger weight_bound from public knowledge, or clip the weights to it."
            )
        if not weights.any():
            raise InputError("sample_weight must not be zero for all records; give some a weight.")
        return weights, bound

    def _start(self, init: Any, scaling: Scaling, outputs: int) -> Any:
        """The public model `init` as weights of scaled rows, (K, p) or (K, p + 1); None for none.

        init: a fitted model with coef_ and intercept_, a pair of both, or coef alone.
        """
        if init is None:
            return None
        if hasattr(init, "coef_"):
            coef, intercept = init.coef_, init.intercept_
        elif isinstance(init, tuple):
            coef, intercept = init if len(init) == 2 else (None, None)
        else:
            coef, intercept = init, 0.0
        try:
            coef = np.asarray(coef, float).reshape(outputs, -1)
            intercept = np.broadcast_to(np.ravel(np.asarray(intercept, float)), (outputs,))
        except (TypeError, ValueError):
            coef = np.zeros((0, 0))
        if coef.shape != (outputs, len(scaling.scale)) or not (
            np.isfinite(coef).all() and np.isfinite(intercept).all()
        ):
            raise InputError(
                "init must be a fitted linear model, a pair (coef, intercept) or coef alone, with "
                f"finite numbers for {counted(len(scaling.scale), 'feature')} and "
                f"{counted(outputs, 'output')}, not {type(init).__name__}."
            )
        return scaling.forth(*self._in_scaled_units(coef, intercept))

    def _in_scaled_units(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """coef (K, p) and intercept (K,) of the labels as they are learnt."""
        return coef, intercept

    def _method(
        self, problem: Problem, topology: Topology, public: Any
    ) -> tuple[Method, Plan | None]:
        """What to run: planned, or as named."""
        if isinstance(self.algorithm, str) and self.algorithm == "auto":
            if self.prepare is not None:
                raise InputError(
                    "prepare must be left out with algorithm='auto', which decides it by itself; "
                    "or name the algorithm, for instance 'treegd'."
                )
            facts = Facts.of(problem, self._relation)
            privacy = self._promise()
            if privacy is None:
                if public is not None:
                    raise InputError(
                        "public must be left out with epsilon=None: a fit without privacy ends at "
                        "the optimum and has no step to tune."
                    )
                return without_privacy(facts, self.rounds), None
            found = plan_facts(facts, topology, privacy, rounds=self.rounds)
            found = found if public is None else found.tuned(public)
            return found.method, found
        if public is not None:
            raise InputError(
                "public serves algorithm='auto', whose step it tunes; leave it out, "
                "or leave the choice to 'auto'."
            )
        if isinstance(self.algorithm, Method):
            return Method.of(self.algorithm, self.prepare, rounds=self.rounds), None
        algorithm = by_name(self.algorithm) if isinstance(self.algorithm, str) else self.algorithm
        if not isinstance(algorithm, Algorithm):
            raise InputError(
                "algorithm must be 'auto', a name, an object of tacenda.algorithms or a "
                "tacenda.Method, "
                f"not {algorithm!r}."
            )
        rounds = None if self.rounds is None else checks.whole("rounds", self.rounds, least=1)
        return Method.of(Method.usual(algorithm, topology, rounds), self.prepare), None

    def _seed(self) -> int | None:
        """None draws fresh noise; a RandomState gives a seed."""
        if self.random_state is None or isinstance(self.random_state, int | np.integer):
            return None if self.random_state is None else int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _keep(self, result: RunResult, scaling: Scaling, topology: Topology) -> None:
        """The fitted attributes, in the user's own scale."""
        n = topology.n
        models = result.models if result.models.ndim == 3 else result.models.reshape(n, 1, -1)
        node_coef, node_intercept = scaling.back(models)
        self._set_coef(node_coef, node_intercept)
        self._coef_std, self._intercept_std = self._standard_errors(result, scaling)
        self._errors = how_known(result)
        told = told_intervals(result)
        self.feature_map_ = scaling.feature_map
        self._inference = None
        if told is not None and not self.feature_map_.shortens:
            design = self._design(scaling)
            self._inference = told.mapped(design.matrix, design.offset)
        self._references, self._scaling = (), scaling
        # The seed, also one drawn afresh, would let whoever gets a pickled model subtract the
        # noise: it is not kept.
        result = replace(result, settings={**result.settings, "seed": None})
        self.privacy_, self.history_, self.result_ = result.privacy, result.history, result
        self.n_iter_ = result.rounds
        self.strength_ = result.strength
        self.node_labels_ = topology.labels
        self.result_settings_ = result.settings
        self.conditions_ = self._conditions(result)

    def _standard_errors(
        self, result: RunResult, scaling: Scaling
    ) -> tuple[Array | None, Array | None]:
        """(K, p) of the coefficients and (K,) of the intercepts by the privacy noise, in the user's
        scale; None where they are not known. An intercept that a shift of the features mixes with
        their coefficients has none."""
        if result.noise_std is None:
            return None, None
        p = len(scaling.scale)
        std = np.asarray(result.noise_std, float).reshape(-1, p + (scaling.constant is not None))
        coef = std[:, :p] * np.abs(scaling.scale) * self._score_unit
        if scaling.constant is None or scaling.centre.any():
            return coef, None
        return coef, std[:, p] * scaling.constant * self._score_unit

    @property
    def _score_unit(self) -> float:
        """What one unit of the scaled score is in the user's own."""
        return 1.0

    @property
    def _score_centre(self) -> float:
        """What the scaled score 0 is in the user's own."""
        return 0.0

    def _design(self, scaling: Scaling, categories: Sequence[Sequence[int]] = ()) -> Design:
        """The rows of the table in the user's scale."""
        names = self._feature_names(len(scaling.scale))
        score = (self._score_centre, self._score_unit)
        return design_of(scaling, names, score, self.fit_intercept, categories)

    def _feature_names(self, p: int) -> list[str]:
        return [str(n) for n in getattr(self, "feature_names_in_", [f"x{j}" for j in range(p)])]

    def forecast_intervals(
        self,
        *,
        epsilon: float,
        delta: float = 1e-5,
        covariance: str = "robust",
        categories: Sequence[Sequence[Any]] = (),
    ) -> Forecast | None:
        """Forecast which coefficients `intervals` will show at this price; reads no record.

        epsilon: what the question would cost. delta: its delta. covariance: and categories: as in
        `intervals`. Result: by row, whether it will probably show and what epsilon it needs; None
        for a loss of your own.
        """
        check_is_fitted(self)
        facts = facts_of_run(self.result_, self._relation)
        if facts is None:
            return None
        asked = statistic_of(facts, covariance)
        groups = category_places(categories, self._feature_names(len(self._scaling.scale)))
        design = self._design(self._scaling, groups)
        privacy = self._promise_of(epsilon, delta)
        return forecast(asked, facts, privacy, self.result_, design)

    def intervals(
        self,
        X: Any,
        y: Any,
        *,
        epsilon: float | None,
        delta: float = 1e-5,
        level: float = 0.95,
        covariance: str = "robust",
        nodes: Any = None,
        categories: Sequence[Sequence[Any]] = (),
        anyway: bool = False,
    ) -> CoefficientTable:
        """Ask the records once more for intervals of the coefficients; charged.

        The population's coefficients are estimated without a regulariser, with standard errors and
        intervals for the choice of records and the privacy noise together
        (`tacenda.inference.intervals`). Afterwards `coef_table_` shows them too.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The records of `fit`, or others of the same population.
        y : array-like of shape (n_samples,)
            Their labels.
        epsilon : float or None
            What the question costs, besides the fit; None: no noise, and no privacy.
        delta : float, default=1e-5
            Its delta.
        level : float, default=0.95
            Of the intervals.
        covariance : {"robust", "model"}, default="robust"
            "robust" needs no model to be right; "model" takes the loss for the truth.
        nodes : array-like of shape (n_samples,) or None, default=None
            The node of each record, as in `fit`.
        categories : sequence of sequences of str or int, default=()
            Groups of columns, by name or position, of which every record has exactly one at 1 and
            the others at 0: a category's indicators. The first of each group is the reference; the
            others are estimated as contrasts to it. Declared by you: nothing is read from X.
        anyway : bool, default=False
            Ask although the forecast from public numbers says that no interval will show. Without
            it such a question is refused, and nothing is charged.

        Returns
        -------
        CoefficientTable
            Coefficients and estimates by feature name, with the conditions and the cost.

        Raises
        ------
        InputError
            If the forecast says that the noise will hide every coefficient.
        """
        check_is_fitted(self)
        if self.feature_map_.shortens:
            raise InputError(
                "intervals needs rows that are never shortened: declare bounds=(low, high) from "
                "public knowledge, and leave data_norm out."
            )
        arranged = self._arranged(X, y, nodes=nodes)
        privacy = None if epsilon is None else self._promise_of(epsilon, delta)
        check_width(len(arranged.scaling.scale))
        references = category_places(categories, self._feature_names(len(arranged.scaling.scale)))
        design = self._design(arranged.scaling, references)
        found = intervals(
            self.result_,
            arranged.problem,
            arranged.topology,
            privacy=privacy,
            level=level,
            covariance=covariance,
            seed=self._seed(),
            ledger=self.ledger,
            dataset=self.dataset,
            design=design,
            anyway=anyway,
        )
        self._inference = found.mapped(design.matrix, design.offset)
        self._references = references
        return self.coef_table_

    @property
    def coef_table_(self) -> CoefficientTable:
        """Coefficients by feature name in the original units, the largest effects over the declared
        bounds first, with the standard error that the privacy noise adds, where it is known, or
        with the intervals that the fit tells or `intervals` asked for."""
        return self._coefficients(intercepts=bool(self.fit_intercept))

    def _coefficients(self, intercepts: bool) -> CoefficientTable:
        check_is_fitted(self)
        coef = np.atleast_2d(self.coef_)
        names, std = self._feature_names(coef.shape[1]), self._coef_std
        intercept = np.atleast_1d(self.intercept_)
        spans = None
        if self.bounds is not None and not isinstance(self.bounds, str):
            low, high = declared_bounds(self.bounds, names)
            spans = high - low
        notes = [] if self._ratio is None else [ratio_note(self._ratio)]
        rows = list(range(coef.shape[1]))
        if self._references:
            coef, intercept = coef.copy(), intercept.copy()
            std = None if std is None else std.copy()
            for reference, *others in self._references:
                intercept += coef[:, reference]
                coef[:, others] -= coef[:, [reference]]
                if std is not None:
                    std[:, others] = np.nan  # their noise is joint
                rows.remove(reference)
            notes.append(
                "Columns of a category are compared with its reference: "
                f"{', '.join(names[group[0]] for group in self._references)}."
            )
        return coefficient_table(
            [names[j] for j in rows],
            coef[:, rows],
            intercept if intercepts else None,
            coef_std=None if std is None else std[:, rows],
            intercept_std=None if self._references else self._intercept_std,
            spans=None if spans is None else spans[rows],
            outputs=getattr(self, "classes_", None),
            errors=self._errors,
            notes=[*notes, *self._shortening_notes()],
            units=SHORTENED if self.feature_map_.shortens else ORIGINAL,
            inference=getattr(self, "_inference", None),
        )

    def _shortening_notes(self) -> list[str]:
        """What a reader of the coefficients must know where rows may be shortened."""
        if not self.feature_map_.shortens:
            return []
        return [
            f"Rows of norm above {self.feature_map_.norm:g} are shortened to it, in training and "
            "in prediction: coefficients are those of the shortened rows, have no original unit, "
            "and no interval."
        ]

    def _set_coef(self, node_coef: Array, node_intercept: Array) -> None:
        """coef (n, K, p) and intercept (n, K) of every node, and their average."""
        self.node_coef_, self.node_intercept_ = node_coef, node_intercept
        self.coef_, self.intercept_ = node_coef.mean(axis=0), node_intercept.mean(axis=0)

    def _conditions(self, result: RunResult) -> list[str]:
        """What the guarantee rests on, in plain words."""
        if result.privacy is None:
            return [
                "There is no privacy (epsilon=None): the model and every message are exact "
                "functions of the records, and nothing is promised about them."
            ]
        sizes = (
            "record counts of the nodes"
            if self._relation == "replace-one"
            else "the declared public_sizes"
        )
        said = [
            f"{sizes[0].upper()}{sizes[1:]}, the network and all settings are public, "
            "and were not chosen by looking at the records.",
            "A person counts as one record of one node; "
            "several records of one person weaken the guarantee."
            if result.privacy.unit == UNIT
            else f"The guarantee is for {result.privacy.for_whom}, of one node; several records "
            "of one person weaken it."
            if result.privacy.one_record
            else f"The guarantee is for {result.privacy.for_whom}; records beyond that were left "
            "out by a random draw.",
            "The fit was simulated in one process: the person who ran it saw all records; "
            "the guarantee is about the messages and the model.",
            "history_ and any score on training data are computed without noise, "
            "and are not covered.",
        ]
        q = result.privacy.curve().coalition
        if q is not None:
            said.append(
                "Neighbours share noise: the guarantee holds against eavesdroppers and against "
                f"at most {q} curious data holder{'' if q == 1 else 's'} combining what they know; "
                "larger coalitions may learn more."
            )
        if self.bounds is not None and not isinstance(self.bounds, str):
            said.append("The declared feature bounds come from public knowledge.")
        said += self._shortening_notes()
        if self.plan_ is not None and self.plan_.public_records is not None:
            said.append(
                f"The step was tuned on {counted(self.plan_.public_records, 'record')} declared "
                "public: these have no protection, and nothing was charged for them."
            )
        if self.plan_ is not None:
            said += class_sentence(self.plan_.facts, self.plan_.privacy)
        if self._heaviest is not None:
            said.append(
                f"Records have weights from 0 to {self._heaviest:g}, a public bound for which the "
                "noise was made; a weight is part of its record, and class weights are public."
            )
        if self._started:
            said.append(
                "The fit started from the model given as init, which must be public or paid for "
                "elsewhere: nothing was charged for it."
            )
        if self.random_state is not None:
            said.append(
                "The noise came from a fixed random_state: "
                "anyone who knows it can subtract the noise. For simulation only."
            )
        if self.ledger is not None:
            said.append(
                "The fit was charged to a lasting ledger, "
                "which composes it with all other fits on the same data set."
            )
        return said

    def _checked_rows(self, X: Any, y: Any, **how: Any) -> tuple[Any, Any, Scaling]:
        """Validated X, y, and the scaling that the declarations give."""
        with columns_named(X):
            X, y = validate_data(
                self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", **how
            )
        norm = None if self.data_norm is None else checks.positive("data_norm", self.data_norm)
        if self.bounds is None:
            warn_of_bounds(1.0 if norm is None else norm)
        scaling = Scaling.of(
            self._declared_bounds(X.shape[1]),
            X.shape[1],
            norm,
            bool(self.fit_intercept),
            hasattr(X, "tocsr"),
        )
        # A ledger knows named columns again as they are here, before they are scaled
        names = getattr(self, "feature_names_in_", None)
        self._as_read = None if names is None else of_arrays(X, names, y)
        return X, y, scaling

    def _declared_bounds(self, n_features: int) -> Any:
        """None, "norm" or the pair (low, high) of arrays."""
        if self.bounds is None or isinstance(self.bounds, str):
            return self.bounds
        return declared_bounds(self.bounds, self._feature_names(n_features))

    @staticmethod
    def _refuse_own_records(public: Any, X: Any) -> None:
        """The records themselves are no public sample; copies and parts of them are not noticed."""
        if isinstance(public, tuple | list) and any(part is X for part in public):
            raise InputError(
                "public must not be the private records themselves, which it would leave without "
                "protection; leave it out, or pass other records that are public."
            )

    def _public_rows(self, public: Any) -> tuple[Any, Any]:
        """The public sample's (X, y), checked like the private records."""
        try:
            X, y = public
        except (TypeError, ValueError):
            raise InputError(
                f"public must be a pair (X, y) of arrays, not {type(public).__name__}."
            ) from None
        found = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False
        )
        return found[0], found[1]

    def _scores(self, X: Any) -> Array:
        """(N, K) linear scores of the average model."""
        check_is_fitted(self)
        with columns_named(X):
            X = validate_data(
                self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
            )
        X = self.feature_map_(X)
        return np.asarray(X @ np.atleast_2d(self.coef_).T + np.atleast_1d(self.intercept_))

    def to_sklearn(self) -> Any:
        """Return a plain, fitted scikit-learn model with the same weights.

        It needs no Tacenda to predict with, and is as private as this one (post-processing). Where
        rows are shortened (`feature_map_.shortens`), it is a pipeline that does so first, and that
        step needs Tacenda. Else it is the linear model alone: cells outside `bounds` are not
        clipped to them, nor a regressor's predictions to `target_bounds`.

        Result: `LogisticRegression`, `LinearSVC`, `Ridge`, `Lasso`, `ElasticNet`, `HuberRegressor`,
        `QuantileRegressor` or `PoissonRegressor`.
        """
        from tacenda.estimators.plain import plain_model

        check_is_fitted(self)
        return plain_model(self)

    def export(self, path: str | Path) -> Path:
        """Write the model into a folder, with its privacy statement and a model card.

        Nothing that was computed without noise is written: no history, no training score, no seed.

        path: the folder for model.safetensors, model.json and MODEL_CARD.md; made if missing.
        Result: the folder, which `tacenda.estimators.load_model` reads.
        """
        from tacenda.estimators.export import export

        check_is_fitted(self)
        return export(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.sparse = True
        return tags
