"""Which files are mutated, and which tests cover each: the reading of `cover.toml`."""

from __future__ import annotations

import ast
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any


@lru_cache(maxsize=4)
def _table(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "tests" / "mutation" / "cover.toml").read_text())


def covered_files(root: Path) -> list[str]:
    """Paths from the root, sorted; an `__init__.py` only if tests are named for it, since most
    have no statement to mutate."""
    table = _table(root)
    found = {str(p.relative_to(root)) for pattern in table["covered"] for p in root.glob(pattern)}
    return sorted(p for p in found if Path(p).name != "__init__.py" or short(p) in table["tests"])


def short(path: str) -> str:
    """How `cover.toml` and `survivors.toml` name a source file: from its package on, and files of
    the library from the folder below."""
    return path.removeprefix("src/").removeprefix("tacenda/")


def whole(name: str) -> str:
    """The path from the root of a file named as `short` does."""
    package = "" if name.startswith("tacenda_") else "tacenda/"
    return f"src/{package}{name}"


def listed_tests(root: Path, path: str) -> list[str]:
    """The test files of a source file, those of its groups first, each once."""
    table = _table(root)
    named = table["tests"].get(short(path))
    if named is None:
        raise SystemExit(
            f"{path} is mutated but has no tests in tests/mutation/cover.toml; name them there."
        )
    listed = [test for name in named for test in table["groups"].get(name, [name])]
    return list(dict.fromkeys(f"tests/{test}" for test in listed))


@lru_cache(maxsize=256)
def _imports(path: Path) -> frozenset[str]:
    """The tacenda modules that a file imports, as paths below src without .py."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tacenda"):
            base = node.module.replace(".", "/")
            found |= {base, *(f"{base}/{alias.name}" for alias in node.names)}
    return frozenset(found)


def compiled(root: Path, path: str) -> bool:
    """Whether the file holds code that numba compiles."""
    text = (root / path).read_text(encoding="utf-8")
    return "@njit" in text or "@overload" in text


@lru_cache(maxsize=64)
def stale_names(root: Path, path: str) -> frozenset[str]:
    """Names of the files whose compiled code may contain that of `path`: all that import it,
    directly or not."""
    files = {
        str(p.relative_to(root / "src").with_suffix("")): p for p in (root / "src").rglob("*.py")
    }
    reached = {str(Path(path).relative_to("src").with_suffix(""))}
    while True:
        more = {
            name for name, file in files.items() if name not in reached and _imports(file) & reached
        }
        if not more:
            return frozenset(name.split("/")[-1] for name in reached)
        reached |= more
