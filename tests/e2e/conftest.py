"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from types import ModuleType

import pytest

import cli_tools


@pytest.fixture(scope="session")
def tools() -> ModuleType:
    """A runner of commands, and small data with its schema."""
    return cli_tools
