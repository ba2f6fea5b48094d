"""The scores of a search's candidates on the records held out, as one private statistic."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from tacenda import checks
from tacenda._types import Floats
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.errors import InputError
from tacenda.estimators.base import Arrangement
from tacenda.estimators.classifiers import _PrivateClassifier
from tacenda.estimators.regressor_base import LinearRegressor
from tacenda.evaluation.private_run import held_out_account
from tacenda.runtime.result import RunResult
from tacenda.runtime.simulate import simulate
from tacenda.selection.scores import CLASSIFIERS, REGRESSORS, CandidateScores


@dataclass(frozen=True, eq=False)
class Reader:
    """The records held out, as the statistic reads them."""

    arranged: Arrangement
    scoring: str
    account: str | None  # of these records in the ledger

    def asked(self, candidates: list[Any], seed: int | None, search: Any) -> RunResult:
        """One private statistic: the sums of all candidates' scores."""
        arranged, model = self.arranged, self.arranged.estimator
        outputs = arranged.problem.n_outputs
        weights = [model._start(c, arranged.scaling, outputs) for c in candidates]
        models = tuple(tuple(w.reshape(-1).tolist()) for w in weights)
        asked = CandidateScores(models, self.scoring)
        privacy = search.estimator._promise_of(search.epsilon, search.delta)
        coalition = privacy.coalition
        masked = coalition is not None and arranged.topology.n > coalition + 1
        return simulate(
            arranged.problem,
            arranged.topology,
            StatisticRelease(asked, "masked" if masked else "independent"),
            1,
            privacy,
            seed=seed,
            progress=False,
            metrics=(),
            ledger=search.ledger,
            dataset=self.account,
        )

    def scores(self, result: RunResult, size: float) -> tuple[Floats, float]:
        """Released scores in the user's units, and the standard deviation of their noise."""
        means = 0.5 + result.released["total"] / size
        noise = float(result.released["noise"][0]) / size
        if self.scoring == "accuracy":
            return means, noise
        unit = CandidateScores(((0.0,),), self.scoring).largest
        if isinstance(self.arranged.estimator, LinearRegressor):
            reach = self.arranged.estimator._target.reach
            unit *= reach**2 if self.scoring == "neg_mean_squared_error" else reach
        return -(1 - means) * unit, noise * unit


def reader_of(search: Any, part: dict[str, Any], training: Arrangement) -> Reader:
    """The records held out, on the same network."""
    model = clone(search.estimator).set_params(
        epsilon=None,
        adjacency=search.estimator._relation,
        algorithm="dpdda",
        prepare=None,
        rounds=None,
        fit_intercept=True,  # candidates may have one
        n_nodes=None,
        graph=training.topology,
        **search._sizes(search.held_out),
    )
    model.set_params(**search._known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say was said by the trainings
        arranged = model._arranged(**part)
    loss = arranged.problem.loss
    allowed: tuple[str, ...] = CLASSIFIERS if isinstance(model, _PrivateClassifier) else REGRESSORS
    if loss.predicts not in ("log-odds", "class", "value"):
        raise InputError(
            f"estimator must be one whose predictions a search can score, not "
            f"{type(model).__name__}; choose its settings on public records."
        )
    if not hasattr(model, "predict_proba"):
        allowed = tuple(a for a in allowed if a not in ("neg_log_loss", "neg_brier_score"))
    scoring = allowed[0] if search.scoring is None else search.scoring
    checks.one_of("scoring", scoring, allowed)
    # Refuses records that the ledger knows as trained on, before anything is spent
    account = (
        None
        if search.ledger is None
        else held_out_account(search.ledger, arranged.problem, search.dataset)
    )
    return Reader(arranged, scoring, account)
