"""Differentially private, fully decentralised convex learning: one model, many data holders, no
server.

Names are loaded when first used, so that `import tacenda` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda._lazy import lazily

__version__ = "0.1.0"

_WHERE = {
    "Privacy": "tacenda.privacy.settings",
    "PrivateElasticNet": "tacenda.estimators",
    "PrivateHuberRegressor": "tacenda.estimators",
    "PrivateLasso": "tacenda.estimators",
    "PrivateLinearSVC": "tacenda.estimators",
    "PrivateLogisticRegression": "tacenda.estimators",
    "PrivateRidge": "tacenda.estimators",
    "Problem": "tacenda.problem.problem",
    "RunResult": "tacenda.runtime.result",
    "audit": "tacenda.auditing.attack",
    "audit_one_run": "tacenda.auditing.one_run",
    "compare": "tacenda.runs.application",
    "fit": "tacenda.runs.application",
    "load": "tacenda.runtime.result",
    "plan": "tacenda.planning.planner",
    "records_needed": "tacenda.planning.needed",
    "simulate": "tacenda.runtime.simulate",
}
_MODULES = {
    "algorithms": "tacenda.algorithms",
    "data": "tacenda.data",
    "errors": "tacenda.errors",
    "estimators": "tacenda.estimators",
    "graph": "tacenda.graph",
    "losses": "tacenda.problem.losses",
    "regularisers": "tacenda.problem.regularisers",
    "report": "tacenda.report",
    "schedules": "tacenda.schedules",
    "theory": "tacenda.theory",
}

__all__ = sorted([*_WHERE, *_MODULES])

if TYPE_CHECKING:
    from tacenda import algorithms, data, errors, estimators, graph, report, schedules, theory
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
    from tacenda.runtime.result import RunResult, load
    from tacenda.runtime.simulate import simulate

__getattr__ = lazily(__name__, _WHERE, _MODULES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
