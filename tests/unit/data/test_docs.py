"""Every snippet of docs/data.md runs, in order, in an empty folder."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "data.md"


def test_snippets_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    text = PAGE.read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clinic.toml").write_text(re.search(r"```toml\n(.*?)```", text, re.DOTALL).group(1))
    snippets = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(snippets) >= 6
    names: dict[str, object] = {}
    for snippet in snippets:
        exec(compile(snippet, str(PAGE), "exec"), names)
    assert names["clinic"].X.shape == (4, 6) and names["shards"].labels == ("a", "b")
    assert "to be confirmed as public" in capsys.readouterr().out
    assert (tmp_path / "skewed.svg").stat().st_size > 1000
