"""One version everywhere, and metadata that tools can read."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import tacenda

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    assert citation is not None
    assert project["version"] == tacenda.__version__ == citation[1]


def test_the_changelog_has_what_is_to_come_and_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## \[(.+?)\]", text, re.M)
    assert versions[0] == "Unreleased" and tacenda.__version__ in versions
    kinds = set(re.findall(r"^### (.+)$", text, re.M))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_notes_of_a_version_are_read_in_two_minutes() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    notes = re.split(r"^## ", text, flags=re.M)
    (own,) = [one for one in notes if one.startswith(f"[{tacenda.__version__}]")]
    assert len(own.split()) <= 450


def test_workflows_try_every_python_that_is_promised() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    for name in ("tests", "release"):
        text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8")
        assert re.findall(r'"(3\.\d+)"', text.split("python: [")[1].split("]")[0]) == promised


def test_what_developers_install_is_pinned_without_naming_an_index() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras, wanted, asked = project["optional-dependencies"], set(), {"dev"}
    lines = list(project["dependencies"])
    while asked:
        for line in extras[asked.pop()]:
            own = re.match(r"tacenda\[(.+)\]", line)
            asked |= set(own[1].split(",")) if own else set()
            lines += [] if own else [line]
    wanted = {re.split(r"[\[<>=;, ]", line, maxsplit=1)[0].lower() for line in lines}
    text = (ROOT / "deploy" / "developers.txt").read_text("utf-8")
    pinned = set(re.findall(r"^([A-Za-z0-9._-]+)==", text, re.M))
    assert wanted <= pinned, f"`make lock` writes them: {sorted(wanted - pinned)}"
    for name in ("developers.txt", "requirements.txt"):
        assert "://" not in (ROOT / "deploy" / name).read_text("utf-8")
