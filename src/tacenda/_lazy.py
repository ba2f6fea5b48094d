"""Packages whose names are loaded when they are first used, so that importing them is quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(
    package: str, homes: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """The `__getattr__` of `package`. homes: name -> the module that has it; modules: name -> the
    module that is meant itself. A module is told by its whole name or by the one inside `package`.
    """
    whole = modules or {}

    def found(module: str) -> Any:
        inside = not module.startswith("tacenda.")
        return import_module(f"{package}.{module}" if inside else module)

    def __getattr__(name: str) -> Any:
        if name in whole:
            return found(whole[name])
        if name in homes:
            return getattr(found(homes[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return __getattr__
