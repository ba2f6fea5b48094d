"""Packages whose names are loaded when they are first used, so that importing them is quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(
    package: str, homes: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """The `__getattr__` of `package`. homes: name -> the module inside the package that has it;
    modules: name -> the module inside the package that is meant itself."""
    whole = modules or {}

    def __getattr__(name: str) -> Any:
        if name in whole:
            return import_module(f"{package}.{whole[name]}")
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return __getattr__
