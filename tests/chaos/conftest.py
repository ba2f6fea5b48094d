"""Fixtures of the tests with real processes and real faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from node_stage import Crowd, small_contract


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    """Three members of a run of 60 rounds."""
    made = Crowd(tmp_path / "crowd", small_contract(3, rounds=60), seed=3)
    yield made
    made.stop()
