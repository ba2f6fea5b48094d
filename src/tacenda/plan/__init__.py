"""What a budget buys, before any data is touched: `tacenda.plan(sizes, dim, graph, epsilon, delta)`.

The package and its main function share a name, and Python lets the package win; so the package itself can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from tacenda.plan.outcome import Forecast, Plan
from tacenda.plan.planner import plan, plan_facts

__all__ = ["Forecast", "Plan", "plan", "plan_facts"]


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Plan:
        return plan(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
