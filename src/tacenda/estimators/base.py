"""What all estimators share: declarations, placement on nodes, one private run, weights in the
user's own scale."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from tacenda import checks, losses
from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.registry import by_name
from tacenda.errors import InputError
from tacenda.estimators.callbacks import CallbackSupportMixin, rounds_told, with_callbacks
from tacenda.estimators.conditions import conditions
from tacenda.estimators.placement import place
from tacenda.estimators.refusing import columns_named
from tacenda.estimators.scaling import Scaling
from tacenda.estimators.told import ToldCoefficients
from tacenda.estimators.warnings import in_a_search, warn_of_noise, warn_of_search
from tacenda.evaluation.of_runs import how_known, told_intervals
from tacenda.graph.topology import Topology
from tacenda.planning.no_privacy import without_privacy
from tacenda.planning.outcome import Plan
from tacenda.planning.planner import plan_facts
from tacenda.privacy.settings import Privacy
from tacenda.problem.problem import Problem
from tacenda.questions.facts import Facts
from tacenda.runtime.result import RunResult
from tacenda.runtime.simulate import simulate
from tacenda.terms.method import Method
from tacenda.terms.privacy import PROMISE
from tacenda.terms.problem import DECLARED

HISTORY_ROWS = 20
# scikit-learn's parameters, and what to write in their place
RENAMED = {
    "C": "use strength, the weight of the penalty beside the mean loss: about 1/(C * n_samples)",
    "alpha": "use strength, the weight of the penalty beside the mean loss",
    "penalty": "the class decides it; its weight is strength",
    "max_iter": "use rounds, or leave it out: the planner chooses",
    "tol": "leave it out: the number of rounds is planned in advance, since each costs privacy",
}


def handed_on(given: dict[str, Any], to: Any) -> dict[str, Any]:
    """The parameters that a subclass's `__init__` was given and its parent's takes too:
    `super().__init__(**handed_on(locals(), super().__init__))`."""
    return {name: given[name] for name in inspect.signature(to).parameters if name in given}


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


class PrivateLinearModel(CallbackSupportMixin, ToldCoefficients):  # type: ignore[misc]
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

    @with_callbacks
    def _run(self, arranged: Arrangement) -> Self:
        """Carry out what `fit` has arranged."""
        if self.verbose and self.plan_ is not None:
            print(self.plan_.explain())
        rounds = arranged.method.rounds
        every = max(1, rounds // HISTORY_ROWS)
        with rounds_told(self, rounds, every) as told:
            result = simulate(
                arranged.problem,
                arranged.topology,
                arranged.method,
                privacy=arranged.privacy,
                seed=self._seed(),
                init=arranged.start,
                callback=told,
                progress="auto" if self.verbose else False,
                record_every=every,
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

    def _conditions(self, result: RunResult) -> list[str]:
        """What the guarantee rests on, in plain words."""
        return conditions(self, result)

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
