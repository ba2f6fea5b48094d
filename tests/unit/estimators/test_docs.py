"""Every snippet of docs/estimators.md runs, in order, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "estimators.md"


def test_snippets_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(snippets) == 7
    names: dict[str, object] = {}
    for snippet in snippets:
        exec(compile(snippet, str(PAGE), "exec"), names)
    said = capsys.readouterr().out
    for word in ("Statement(epsilon=1", "| epsilon | 1 (an upper bound) |", "Why:", "curious"):
        assert word in said
    spent = float(re.search(r"spent: ([\d.]+)", said).group(1))
    assert 2.3 < spent < 2.6
