"""Attacks on neighbouring runs: lower bounds on epsilon that can disprove a claim.

tacenda.audit("ipadmm", privacy=tacenda.Privacy(1.0), rounds=20, trials=10_000)     # this module can be called
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacenda.audit.attack import audit
    from tacenda.audit.one_run import OneRunResult, audit_one_run
    from tacenda.audit.result import AuditResult

__all__ = ["AuditResult", "OneRunResult", "audit", "audit_one_run"]

_WHERE = {
    "audit": "tacenda.audit.attack",
    "AuditResult": "tacenda.audit.result",
    "audit_one_run": "tacenda.audit.one_run",
    "OneRunResult": "tacenda.audit.one_run",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _WHERE:
        raise AttributeError(f"module 'tacenda.audit' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


class _Callable(ModuleType):
    """Importing the package binds its name in `tacenda`, where users expect the function: so the module is callable."""

    def __call__(self, *args: Any, **settings: Any) -> Any:
        from tacenda.audit.attack import audit

        return audit(*args, **settings)


sys.modules[__name__].__class__ = _Callable
