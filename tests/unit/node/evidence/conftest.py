"""Fixtures of the tests of evidence."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def pack(packs: Any, tmp_path: Path) -> Path:
    """A copy of this member's pack, to be changed. packs: each module's own."""
    return Path(shutil.copytree(packs.mine, tmp_path / "pack"))
