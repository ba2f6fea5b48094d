"""What a budget buys, before any data is touched: `tacenda.plan(sizes, dim, graph, epsilon, delta)`.

The package and its main function share a name, and Python lets the package win; so the package itself can be called.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tacenda.plan.outcome import Forecast, Plan
from tacenda.plan.planner import plan, plan_facts

if TYPE_CHECKING:
    from tacenda.plan.needed import Needed, records_needed
    from tacenda.plan.predict import Prediction
    from tacenda.plan.trust import Adversary
    from tacenda.plan.what_if import Change

__all__ = ["Adversary", "Change", "Forecast", "Needed", "Plan", "Prediction", "plan", "plan_facts", "records_needed"]

_LATER = {"Needed": "needed", "records_needed": "needed", "Prediction": "predict", "Change": "what_if", "Adversary": "trust"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"tacenda.plan.{_LATER[name]}"), name)
    raise AttributeError(f"module 'tacenda.plan' has no attribute {name!r}")


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Plan:
        return plan(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
