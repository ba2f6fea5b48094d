"""Attacks on neighbouring runs: lower bounds on epsilon that can disprove a claim.

tacenda.audit("ipadmm", privacy=tacenda.Privacy(1.0), rounds=20, trials=10_000)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacenda.auditing.attack import audit
    from tacenda.auditing.one_run import OneRunResult, audit_one_run
    from tacenda.auditing.result import AuditResult

_HOMES = {
    "AuditResult": "result",
    "OneRunResult": "one_run",
    "audit": "attack",
    "audit_one_run": "one_run",
}

__all__ = ["AuditResult", "OneRunResult", "audit", "audit_one_run"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tacenda.auditing' has no attribute {name!r}")
    return getattr(import_module(f"tacenda.auditing.{_HOMES[name]}"), name)
