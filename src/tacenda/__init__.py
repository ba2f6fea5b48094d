"""Differentially private, fully decentralised convex learning: one model, many data holders, no
server.

Names are loaded when first used, so that `import tacenda` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda._lazy import lazily
from tacenda._version import of_build

__version__ = of_build()

_HOMES = {
    "MPI": "runtime.mpi",
    "Method": "terms.method",
    "Privacy": "privacy.settings",
    "PrivateAdditiveClassifier": "estimators",
    "PrivateAdditivePoissonRegressor": "estimators",
    "PrivateAdditiveRegressor": "estimators",
    "PrivateClassifier": "estimators",
    "PrivateCoxRegression": "estimators",
    "PrivateDiscreteHazard": "estimators",
    "PrivateElasticNet": "estimators",
    "PrivateHuberRegressor": "estimators",
    "PrivateLasso": "estimators",
    "PrivateLinearSVC": "estimators",
    "PrivateLogisticRegression": "estimators",
    "PrivateOrdinalClassifier": "estimators",
    "PrivatePoissonRegressor": "estimators",
    "PrivateQuantileRegressor": "estimators",
    "PrivateRegressor": "estimators",
    "PrivateRidge": "estimators",
    "PrivateSearchCV": "estimators",
    "Problem": "problem.problem",
    "RunResult": "runtime.result",
    "Whitening": "algorithms.whitening",
    "audit": "auditing.attack",
    "audit_one_run": "auditing.one_run",
    "compare": "runs.application",
    "describe": "tables.describing",
    "evaluate_privately": "evaluation.private_run",
    "fit": "runs.application",
    "hazard_ratios": "tables.hazards",
    "load": "runtime.result",
    "plan": "planning.planner",
    "records_needed": "planning.needed",
    "simulate": "runtime.simulate",
    "survival": "tables.surviving",
}
_MODULES = {
    "accounting": "accounting",
    "algorithms": "algorithms",
    "checks": "checks",
    "data": "data",
    "engines": "engines",
    "errors": "errors",
    "estimators": "estimators",
    "evaluation": "evaluation",
    "graph": "graph",
    "inference": "inference",
    "losses": "losses",
    "regularisers": "regularisers",
    "report": "report",
    "schedules": "schedules",
    "selection": "selection",
    "tables": "tables",
}

__all__ = [
    "MPI",
    "Method",
    "Privacy",
    "PrivateAdditiveClassifier",
    "PrivateAdditivePoissonRegressor",
    "PrivateAdditiveRegressor",
    "PrivateClassifier",
    "PrivateCoxRegression",
    "PrivateDiscreteHazard",
    "PrivateElasticNet",
    "PrivateHuberRegressor",
    "PrivateLasso",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateOrdinalClassifier",
    "PrivatePoissonRegressor",
    "PrivateQuantileRegressor",
    "PrivateRegressor",
    "PrivateRidge",
    "PrivateSearchCV",
    "Problem",
    "RunResult",
    "Whitening",
    "accounting",
    "algorithms",
    "audit",
    "audit_one_run",
    "checks",
    "compare",
    "data",
    "describe",
    "engines",
    "errors",
    "estimators",
    "evaluate_privately",
    "evaluation",
    "fit",
    "graph",
    "hazard_ratios",
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
    "survival",
    "tables",
]

if TYPE_CHECKING:
    from tacenda import (
        accounting,
        algorithms,
        checks,
        data,
        engines,
        errors,
        estimators,
        evaluation,
        graph,
        inference,
        losses,
        regularisers,
        report,
        schedules,
        selection,
        tables,
    )
    from tacenda.algorithms.whitening import Whitening
    from tacenda.auditing.attack import audit
    from tacenda.auditing.one_run import audit_one_run
    from tacenda.estimators import (
        PrivateAdditiveClassifier,
        PrivateAdditivePoissonRegressor,
        PrivateAdditiveRegressor,
        PrivateClassifier,
        PrivateCoxRegression,
        PrivateDiscreteHazard,
        PrivateElasticNet,
        PrivateHuberRegressor,
        PrivateLasso,
        PrivateLinearSVC,
        PrivateLogisticRegression,
        PrivateOrdinalClassifier,
        PrivatePoissonRegressor,
        PrivateQuantileRegressor,
        PrivateRegressor,
        PrivateRidge,
        PrivateSearchCV,
    )
    from tacenda.evaluation.private_run import evaluate_privately
    from tacenda.planning.needed import records_needed
    from tacenda.planning.planner import plan
    from tacenda.privacy.settings import Privacy
    from tacenda.problem.problem import Problem
    from tacenda.runs.application import compare, fit
    from tacenda.runtime.mpi import MPI
    from tacenda.runtime.result import RunResult, load
    from tacenda.runtime.simulate import simulate
    from tacenda.tables.describing import describe
    from tacenda.tables.hazards import hazard_ratios
    from tacenda.tables.surviving import survival
    from tacenda.terms.method import Method

__getattr__ = lazily(__name__, _HOMES, _MODULES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
