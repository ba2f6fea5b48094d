"""Fixtures of the end-to-end tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def tools() -> ModuleType:
    """`cli_tools.py` beside this file: a runner of commands, and small data with its schema."""
    spec = importlib.util.spec_from_file_location(
        "cli_tools", Path(__file__).with_name("cli_tools.py")
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
