"""What all estimators share: declarations, placement on nodes, one private run, weights in the
user's own scale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from tacenda import checks
from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.registry import by_name
from tacenda.algorithms.whitening import prepared
from tacenda.data.partition import broken_promise
from tacenda.errors import InputError
from tacenda.estimators.placement import place
from tacenda.estimators.scaling import Scaling
from tacenda.estimators.warnings import in_a_search, warn_of_bounds, warn_of_search
from tacenda.evaluation.coefficients import CoefficientTable, coefficient_table, how_known
from tacenda.graph.topology import Topology
from tacenda.planning.outcome import Plan
from tacenda.planning.planner import plan_facts
from tacenda.privacy.settings import Privacy
from tacenda.problem.facts import Facts
from tacenda.problem.problem import Problem
from tacenda.runtime.closing import EXACT
from tacenda.runtime.result import RunResult
from tacenda.runtime.simulate import simulate
from tacenda.words import counted

HISTORY_ROWS = 20


class PrivateLinearModel(BaseEstimator):  # type: ignore[misc]
    """Parameters of every estimator.

    epsilon, delta   the whole fit's privacy, for one record, against an adversary who sees every
                     message
    adjacency        "replace-one" (record counts are public) or "add-remove" (declare public_sizes)
    coalition        how many curious data holders may pool what they know; None: all others may;
                     noise then needs no trust, and is larger
    data_norm        norm to which rows are brought inside
    clip_norm        bound on one record's gradient there
    bounds           declared (low, high) of the features, numbers or one per feature; "norm": rows
                     are meant for data_norm as they are
    strength         of the regulariser, on the weights of the scaled features
    fit_intercept    a constant feature inside data_norm (and regularised like the others)
    n_nodes, graph   how many data holders (even split) and their network; fit(nodes=...) names each
                     record's holder instead
    algorithm        "auto" (planned from public quantities), a name, or an object of
                     tacenda.algorithms
    rounds           their number
    prepare          what happens to the records first, under the same budget: None, "whitening" or
                     a
                     `tacenda.Whitening`; "auto" decides it by itself
    fit(public=...)  a sample (X, y) of the same kind that *is public*: "auto" tunes its step on it.
                     It has no protection, and nothing is charged for it; never pass private records
                     there
    random_state     an int makes the noise reproducible: for simulation only, since whoever knows
                     it can subtract the noise
    ledger, dataset  a lasting ledger's file, and the name under which this data set's fits are
                     charged and, past its budget, refused
    """

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
        **extra: Any,
    ) -> Self:
        """Run on rows X that are scaled already, as are those of the public sample."""
        if in_a_search():
            warn_of_search(self.epsilon, self.ledger, self.dataset)
        why = (
            broken_promise("even", self.adjacency, 2 if self.n_nodes is None else self.n_nodes)
            if nodes is None
            else None
        )
        if why is not None:
            raise InputError(
                f"nodes must be given to fit under adjacency {self.adjacency!r} (or n_nodes=1): "
                f"{why}, and the guarantee would not hold."
            )
        shards, topology = place(X, y, nodes, self.n_nodes, self.graph)
        problem = Problem(
            shards,
            loss=loss,
            regulariser=regulariser,
            strength=self.strength,
            data_norm=scaling.data_norm,
            public_sizes=self.public_sizes,
            **extra,
        )
        privacy = Privacy(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            coalition=self.coalition,
        )
        settings, self.plan_ = self._settings(problem, topology, public)
        if self.verbose and self.plan_ is not None:
            print(self.plan_.explain())
        result = simulate(
            problem,
            topology,
            privacy=privacy,
            seed=self._seed(),
            progress="auto" if self.verbose else False,
            record_every=max(1, settings["rounds"] // HISTORY_ROWS),
            ledger=self.ledger,
            dataset=self.dataset,
            **settings,
        )
        self._keep(result, scaling, topology)
        return self

    def _settings(
        self, problem: Problem, topology: Topology, public: Any
    ) -> tuple[dict[str, Any], Plan | None]:
        """What to run: planned, or as named."""
        if isinstance(self.algorithm, str) and self.algorithm == "auto":
            if self.prepare is not None:
                raise InputError(
                    "prepare must be left out with algorithm='auto', which decides it by itself; "
                    "or name the algorithm, for instance 'treegd'."
                )
            facts = Facts.of(problem, self.adjacency)
            found = plan_facts(
                facts,
                topology,
                self.epsilon,
                self.delta,
                coalition=self.coalition,
                rounds=self.rounds,
            )
            found = found if public is None else found.tuned(public)
            return found.settings, found
        if public is not None:
            raise InputError(
                "public serves algorithm='auto', whose step it tunes; leave it out, "
                "or leave the choice to 'auto'."
            )
        algorithm = by_name(self.algorithm) if isinstance(self.algorithm, str) else self.algorithm
        if not isinstance(algorithm, Algorithm):
            raise InputError(
                "algorithm must be 'auto', a name or an object of tacenda.algorithms, "
                f"not {algorithm!r}."
            )
        rounds = (
            algorithm.default_rounds
            if self.rounds is None
            else checks.whole("rounds", self.rounds, least=1)
        )
        finish = EXACT if topology.n > 1 and not algorithm.agrees else 0
        algorithm = prepared(algorithm, self.prepare)
        return {"algorithm": algorithm, "rounds": rounds, "finish_mixing": finish}, None

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
        # The seed, also one drawn afresh, would let whoever gets a pickled model subtract the
        # noise: it is not kept.
        result = replace(result, settings={**result.settings, "seed": None})
        self.privacy_, self.history_, self.result_ = result.privacy, result.history, result
        self.n_iter_ = result.rounds
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
        return coef, std[:, p] * abs(scaling.constant) * self._score_unit

    @property
    def _score_unit(self) -> float:
        """What one unit of the scaled score is in the user's own."""
        return 1.0

    @property
    def coef_table_(self) -> CoefficientTable:
        """Coefficients by feature name in the original units, the largest effects over the declared
        bounds first, with the standard error that the privacy noise adds, where it is known."""
        check_is_fitted(self)
        coef = np.atleast_2d(self.coef_)
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(coef.shape[1])])
        spans = None
        if self.bounds is not None and not isinstance(self.bounds, str):
            low, high = (np.broadcast_to(np.asarray(b, float), coef.shape[1]) for b in self.bounds)
            spans = high - low
        return coefficient_table(
            [str(name) for name in names],
            coef,
            np.atleast_1d(self.intercept_) if self.fit_intercept else None,
            coef_std=self._coef_std,
            intercept_std=self._intercept_std,
            spans=spans,
            outputs=getattr(self, "classes_", None),
            errors=self._errors,
        )

    def _set_coef(self, node_coef: Array, node_intercept: Array) -> None:
        """coef (n, K, p) and intercept (n, K) of every node, and their average."""
        self.node_coef_, self.node_intercept_ = node_coef, node_intercept
        self.coef_, self.intercept_ = node_coef.mean(axis=0), node_intercept.mean(axis=0)

    def _conditions(self, result: RunResult) -> list[str]:
        """What the guarantee rests on, in plain words."""
        sizes = (
            "record counts of the nodes"
            if self.adjacency == "replace-one"
            else "the declared public_sizes"
        )
        said = [
            f"{sizes[0].upper()}{sizes[1:]}, the network and all settings are public, "
            "and were not chosen by looking at the records.",
            "A person counts as one record of one node; "
            "several records of one person weaken the guarantee.",
            "The fit was simulated in one process: whoever ran it saw all records; "
            "the guarantee is about the messages and the model.",
            "history_ and any score on training data are computed without noise, "
            "and are not covered.",
        ]
        q = None if result.privacy is None else result.privacy.curve().coalition
        if q is not None:
            said.append(
                "Neighbours share noise: the guarantee holds against eavesdroppers and against "
                f"at most {q} curious data holder{'' if q == 1 else 's'} pooling what they know; "
                "larger coalitions may learn more."
            )
        if self.bounds is None or isinstance(self.bounds, str):
            said.append(
                f"No feature bounds were used: rows longer than data_norm={self.data_norm:g} "
                "were scaled down to it."
            )
        else:
            said.append("The declared feature bounds come from public knowledge.")
        if self.plan_ is not None and self.plan_.public_records is not None:
            said.append(
                f"The step was tuned on {counted(self.plan_.public_records, 'record')} declared "
                "public: these have no protection, and nothing was charged for them."
            )
        if self.random_state is not None:
            said.append(
                "The noise came from a fixed random_state: "
                "whoever knows it can subtract the noise. For simulation only."
            )
        if self.ledger is not None:
            said.append(
                "The fit was charged to a lasting ledger, "
                "which composes it with all other fits on the same data set."
            )
        return said

    def _checked_rows(self, X: Any, y: Any, **how: Any) -> tuple[Any, Any, Scaling]:
        """Validated X, y, and the scaling that the declarations give."""
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", **how
        )
        norm = checks.positive("data_norm", self.data_norm)
        if self.bounds is None:
            warn_of_bounds(norm)
        scaling = Scaling.of(
            self.bounds, X.shape[1], norm, bool(self.fit_intercept), hasattr(X, "tocsr")
        )
        return X, y, scaling

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
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return np.asarray(X @ np.atleast_2d(self.coef_).T + np.atleast_1d(self.intercept_))

    def to_sklearn(self) -> Any:
        """A plain, fitted scikit-learn model with the same weights:
        post-processing, as private as this one."""
        from tacenda.estimators.plain import plain_model

        check_is_fitted(self)
        return plain_model(self)

    def export(self, path: str | Path) -> Path:
        """Write model.safetensors, model.json and MODEL_CARD.md into the folder `path`;
        `tacenda.estimators.load_model` reads it."""
        from tacenda.estimators.export import export

        check_is_fitted(self)
        return export(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.sparse = True
        return tags
