"""Formulas that compiled code calls: plain functions of numbers, compiled with their callers.

A loss writes its slope and its curvature as such functions. They are Python until a kernel needs
them (`compiled`), so that reading a loss loads no compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
FORMULAS: list[Callable[..., Any]] = []


def formula(function: Function) -> Function:
    """Let compiled code call `function`; a decorator."""
    FORMULAS.append(function)
    return function


@formula
def clamped(value: float, low: float, high: float) -> float:
    """Return the value brought to within [low, high]; NaN stays."""
    if value < low:
        return low
    return high if value > high else value
