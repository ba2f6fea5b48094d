"""The stage of the tests about signed rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from signed_rows_stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close_all()
