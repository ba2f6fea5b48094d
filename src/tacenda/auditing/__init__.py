"""Attacks on neighbouring runs: lower bounds on epsilon that can disprove a claim.

tacenda.audit("ipadmm", privacy=tacenda.Privacy(1.0), rounds=20, trials=10_000)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda._lazy import lazily

if TYPE_CHECKING:
    from tacenda.auditing.attack import audit
    from tacenda.auditing.one_run import audit_one_run
    from tacenda.auditing.one_run_result import OneRunResult
    from tacenda.auditing.result import AuditResult

_HOMES = {
    "AuditResult": "result",
    "OneRunResult": "one_run_result",
    "audit": "attack",
    "audit_one_run": "one_run",
}

__all__ = ["AuditResult", "OneRunResult", "audit", "audit_one_run"]

__getattr__ = lazily(__name__, _HOMES)
