"""A statistic is read back also where nothing has imported its module."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
from tacenda.questions.statistics import statistic_from_plain
made = {"name": "tables", "parts": [[1, [[3, [], False, 1.0]], 0.5]]}
assert statistic_from_plain(made).length == 4
"""


def test_the_module_is_found() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
