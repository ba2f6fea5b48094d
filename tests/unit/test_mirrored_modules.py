"""Who edits a module finds its tests by its name.

A file of `tests/unit` mirrors a module if it lies in the folder like that of the module's package
and is called `test_<module>.py` or `test_<module>_<what>.py`. `tests/unit` itself stands for
`tacenda`, `node` for `tacenda_node`, `papers` for `tacenda_papers`, `benchmarks` for `benchmarks`.
A package counts as a module, and underscores around a name do not count. The other folders of
tests ask about several modules together.
"""

from __future__ import annotations

from pathlib import Path

UNIT = Path(__file__).parent
ROOT = UNIT.parents[1]
OTHERS = {
    "node": ROOT / "src" / "tacenda_node",
    "papers": ROOT / "src" / "tacenda_papers",
    "benchmarks": ROOT / "benchmarks",
}
SHARE = 0.8


def package_of(folder: Path) -> Path:
    parts = folder.relative_to(UNIT).parts
    if parts and parts[0] in OTHERS:
        return OTHERS[parts[0]].joinpath(*parts[1:])
    return (ROOT / "src" / "tacenda").joinpath(*parts)


def modules_of(package: Path) -> set[str]:
    """The names of a package's modules and packages, and its own."""
    inside = [p for p in package.glob("*") if p.suffix == ".py" or (p / "__init__.py").is_file()]
    return {package.name, *(path.stem.strip("_") for path in inside)} if package.is_dir() else set()


def mirrors(test: Path) -> bool:
    about = test.stem.removeprefix("test_")
    return any(
        about == name or about.startswith(f"{name}_")
        for name in modules_of(package_of(test.parent))
    )


def test_what_counts() -> None:
    assert mirrors(UNIT / "privacy" / "test_statement.py")
    assert mirrors(UNIT / "privacy" / "test_statement_model.py")
    assert mirrors(UNIT / "node" / "state" / "test_spending.py")
    assert mirrors(UNIT / "test_warm_up.py") and mirrors(UNIT / "test_compiled.py")
    assert not mirrors(UNIT / "test_statement.py")  # another folder
    assert not mirrors(UNIT / "privacy" / "test_statements.py")
    assert not mirrors(UNIT / "no_such_package" / "test_statement.py")


def test_most_files_mirror_a_module() -> None:
    tests = sorted(UNIT.rglob("test_*.py"))
    others = [str(test.relative_to(UNIT)) for test in tests if not mirrors(test)]
    assert len(others) <= (1 - SHARE) * len(tests), f"of {len(tests)} not: {others}"
