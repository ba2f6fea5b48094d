"""News fragments become a section of the changelog."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "newsfragments" / "join.py"


def test_fragments_are_joined_by_kind_and_deleted(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("join_news", FILE)
    assert spec is not None and spec.loader is not None
    news = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(news)
    log, folder = tmp_path / "CHANGELOG.md", tmp_path / "news"
    folder.mkdir()
    log.write_text("# Changelog\n\n## [Unreleased]\n\n## [0.1.0]\n", "utf-8")
    (folder / "README.md").write_text("kept", "utf-8")
    (folder / "b.fixed.md").write_text("A fault\nis gone.\n", "utf-8")
    (folder / "a.added.md").write_text("Something new.", "utf-8")
    assert news.join(folder, log) == 2
    assert [file.name for file in folder.iterdir()] == ["README.md"]
    added, fixed = "### Added\n\n- Something new.\n", "### Fixed\n\n- A fault is gone.\n"
    assert log.read_text("utf-8") == (
        f"# Changelog\n\n## [Unreleased]\n\n{added}\n{fixed}\n## [0.1.0]\n"
    )
    (folder / "c.other.md").write_text("?", "utf-8")
    with pytest.raises(SystemExit, match=r"c\.other\.md"):
        news.join(folder, log)
