"""One version everywhere, and metadata that tools can read."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import tacenda
from tacenda._version import BUILT, RELEASE, of_build

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_same_everywhere() -> None:
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    assert citation is not None
    assert RELEASE == tacenda.__version__.partition("+")[0] == citation[1]


def test_every_build_has_a_version_of_its_own(tmp_path: Path) -> None:
    """Of a checkout, of a further work tree of it, at the release's tag, packed or not, and of what
    was built from it."""

    def git(*words: str, at: Path = tmp_path / "clone") -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = subprocess.run(
            ["git", *who, *words], cwd=at, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    here = tmp_path / "clone" / "src" / "tacenda"
    here.mkdir(parents=True)
    assert of_build(here) == RELEASE  # no git
    git("init", "-q")
    assert of_build(here) == RELEASE  # no commit yet
    git("commit", "-q", "--allow-empty", "-m", "one")
    one = f"{RELEASE}+g{git('rev-parse', 'HEAD')[:10]}"
    assert of_build(here) == one
    git("worktree", "add", "-q", str(tmp_path / "further"))
    further = tmp_path / "further" / "src" / "tacenda"
    further.mkdir(parents=True)
    assert of_build(further) == one
    git("tag", "-a", f"v{RELEASE}", "-m", "a text")
    git("pack-refs", "--all")
    assert of_build(here) == RELEASE
    git("commit", "-q", "--allow-empty", "-m", "two")
    assert of_build(here) == f"{RELEASE}+g{git('rev-parse', 'HEAD')[:10]}" != one
    (here / BUILT).write_text("0.1.0+gabc\n")
    assert of_build(here) == "0.1.0+gabc"


def test_the_changelog_has_what_is_to_come_and_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## \[(.+?)\]", text, re.M)
    assert versions[0] == "Unreleased" and RELEASE in versions
    kinds = set(re.findall(r"^### (.+)$", text, re.M))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_notes_of_a_version_are_read_in_two_minutes() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    notes = re.split(r"^## ", text, flags=re.M)
    (own,) = [one for one in notes if one.startswith(f"[{RELEASE}]")]
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
