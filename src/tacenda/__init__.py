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
    "Privacy": "privacy.settings",
    "PrivateElasticNet": "estimators",
    "PrivateHuberRegressor": "estimators",
    "PrivateLasso": "estimators",
    "PrivateLinearSVC": "estimators",
    "PrivateLogisticRegression": "estimators",
    "PrivateRidge": "estimators",
    "Problem": "problem.problem",
    "RunResult": "runtime.result",
    "Whitening": "algorithms.whitening",
    "audit": "auditing.attack",
    "audit_one_run": "auditing.one_run",
    "compare": "runs.application",
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
    "graph": "graph",
    "losses": "problem.losses",
    "regularisers": "problem.regularisers",
    "report": "report",
    "schedules": "schedules",
    "theory": "theory",
}

__all__ = [
    "MPI",
    "Privacy",
    "PrivateElasticNet",
    "PrivateHuberRegressor",
    "PrivateLasso",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateRidge",
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
    "evaluation",
    "fit",
    "graph",
    "load",
    "losses",
    "plan",
    "records_needed",
    "regularisers",
    "report",
    "schedules",
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
        graph,
        report,
        schedules,
        theory,
    )
    from tacenda.algorithms.whitening import Whitening
    from tacenda.auditing.attack import audit
    from tacenda.auditing.one_run import audit_one_run
    from tacenda.estimators import (
        PrivateElasticNet,
        PrivateHuberRegressor,
        PrivateLasso,
        PrivateLinearSVC,
        PrivateLogisticRegression,
        PrivateRidge,
    )
    from tacenda.planning.needed import records_needed
    from tacenda.planning.planner import plan
    from tacenda.privacy.settings import Privacy
    from tacenda.problem import losses, regularisers
    from tacenda.problem.problem import Problem
    from tacenda.runs.application import compare, fit
    from tacenda.runtime.mpi import MPI
    from tacenda.runtime.result import RunResult, load
    from tacenda.runtime.simulate import simulate

__getattr__ = lazily(__name__, _HOMES, _MODULES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
