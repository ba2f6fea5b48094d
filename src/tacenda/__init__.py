"""Differentially private, fully decentralised convex learning: one model, many data holders, no
server.

Names are loaded when first used, so that `import tacenda` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda._lazy import lazily

__version__ = "0.1.0"

_HOMES = {
    "MPI": "runtime.mpi",
    "Method": "terms.method",
    "Privacy": "privacy.settings",
    "PrivateDiscreteHazard": "estimators",
    "PrivateElasticNet": "estimators",
    "PrivateHuberRegressor": "estimators",
    "PrivateLasso": "estimators",
    "PrivateLinearSVC": "estimators",
    "PrivateLogisticRegression": "estimators",
    "PrivateOrdinalClassifier": "estimators",
    "PrivatePoissonRegressor": "estimators",
    "PrivateQuantileRegressor": "estimators",
    "PrivateRidge": "estimators",
    "PrivateSearchCV": "estimators",
    "Problem": "problem.problem",
    "RunResult": "runtime.result",
    "Whitening": "algorithms.whitening",
    "audit": "auditing.attack",
    "audit_one_run": "auditing.one_run",
    "compare": "runs.application",
    "evaluate_privately": "evaluation.private_run",
    "fit": "runs.application",
    "load": "runtime.result",
    "plan": "planning.planner",
    "records_needed": "planning.needed",
    "simulate": "runtime.simulate",
}
_MODULES = {
    "algorithms": "algorithms",
    "data": "data",
    "errors": "errors",
    "estimators": "estimators",
    "evaluation": "evaluation",
    "evidence": "evidence",
    "graph": "graph",
    "inference": "inference",
    "losses": "problem.losses",
    "regularisers": "problem.regularisers",
    "report": "report",
    "schedules": "schedules",
    "selection": "selection",
    "theory": "theory",
}

__all__ = [
    "MPI",
    "Method",
    "Privacy",
    "PrivateDiscreteHazard",
    "PrivateElasticNet",
    "PrivateHuberRegressor",
    "PrivateLasso",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateOrdinalClassifier",
    "PrivatePoissonRegressor",
    "PrivateQuantileRegressor",
    "PrivateRidge",
    "PrivateSearchCV",
    "Problem",
    "RunResult",
    "Whitening",
    "algorithms",
    "audit",
    "audit_one_run",
    "compare",
    "data",
    "errors",
    "estimators",
    "evaluate_privately",
    "evaluation",
    "evidence",
    "fit",
    "graph",
    "inference",
    "load",
    "losses",
    "plan",
    "records_needed",
    "regularisers",
    "report",
    "schedules",
    "selection",
    "simulate",
    "theory",
]

if TYPE_CHECKING:
    from tacenda import (
        algorithms,
        data,
        errors,
        estimators,
        evaluation,
        evidence,
        graph,
        inference,
        report,
        schedules,
        selection,
        theory,
    )
    from tacenda.algorithms.whitening import Whitening
    from tacenda.auditing.attack import audit
    from tacenda.auditing.one_run import audit_one_run
    from tacenda.estimators import (
        PrivateDiscreteHazard,
        PrivateElasticNet,
        PrivateHuberRegressor,
        PrivateLasso,
        PrivateLinearSVC,
        PrivateLogisticRegression,
        PrivateOrdinalClassifier,
        PrivatePoissonRegressor,
        PrivateQuantileRegressor,
        PrivateRidge,
        PrivateSearchCV,
    )
    from tacenda.evaluation.private_run import evaluate_privately
    from tacenda.planning.needed import records_needed
    from tacenda.planning.planner import plan
    from tacenda.privacy.settings import Privacy
    from tacenda.problem import losses, regularisers
    from tacenda.problem.problem import Problem
    from tacenda.runs.application import compare, fit
    from tacenda.runtime.mpi import MPI
    from tacenda.runtime.result import RunResult, load
    from tacenda.runtime.simulate import simulate
    from tacenda.terms.method import Method

__getattr__ = lazily(__name__, _HOMES, _MODULES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
