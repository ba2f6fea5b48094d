"""Which build of the program this is.

A release is the number alone. Every other build adds the commit that it was made from, `+g` and ten
digits: from a file that the build writes (`hatch_build.py`), or, in a checkout, from git's folder.
Tags are not needed.
"""

from __future__ import annotations

from pathlib import Path

RELEASE = "0.1.0"
BUILT = "_built.txt"
DIGITS = 10


def of_build(here: Path = Path(__file__).parent) -> str:
    """The version of the program in this folder."""
    built = here / BUILT
    if built.is_file():
        return built.read_text("utf-8").strip()
    commit = _commit(here.parents[1] / ".git") if here.parent.name == "src" else ""
    return f"{RELEASE}+g{commit[:DIGITS]}" if commit else RELEASE


def _commit(git: Path) -> str:
    """The commit of a checkout, or empty: where there is none, or where it is the release's own."""
    try:
        if git.is_file():  # a further work tree
            git = git.parent / git.read_text("utf-8").removeprefix("gitdir:").strip()
        common = git / "commondir"
        shared = git / common.read_text("utf-8").strip() if common.is_file() else git
        head = (git / "HEAD").read_text("utf-8").strip()
        commit = _of_ref(shared, head[5:]) if head.startswith("ref: ") else head
        released = _of_ref(shared, f"refs/tags/v{RELEASE}")
    except (OSError, UnicodeDecodeError):
        return ""
    return "" if commit == released else commit


def _of_ref(git: Path, name: str) -> str:
    """The commit that a branch or tag names, or empty."""
    if (git / name).is_file():
        return (git / name).read_text("utf-8").strip()
    packed = git / "packed-refs"
    lines = packed.read_text("utf-8").splitlines() if packed.is_file() else []
    for place, line in enumerate(lines):
        if line.endswith(f" {name}"):
            peeled = lines[place + 1 : place + 2]  # of a tag with a text of its own
            return peeled[0][1:] if peeled and peeled[0].startswith("^") else line.split(" ")[0]
    return ""
