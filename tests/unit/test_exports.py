"""Every exported name can be imported, is documented, known to type checkers,
and stands in order."""

from __future__ import annotations

import ast
import inspect
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import tacenda
import tacenda_node
import tacenda_papers

PACKAGES = [
    name
    for root in (tacenda, tacenda_node, tacenda_papers)
    for name in (
        root.__name__,
        *(f"{root.__name__}.{m.name}" for m in pkgutil.iter_modules(root.__path__) if m.ispkg),
    )
]
EXPORTING = [name for name in PACKAGES if hasattr(import_module(name), "__all__")]


def _in_order(name: str) -> tuple[int, str]:
    """CONSTANTS, then Classes, then functions and modules."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


@pytest.mark.parametrize("package", EXPORTING)
def test_every_exported_name_imports_and_is_documented(package: str) -> None:
    module = import_module(package)
    assert list(module.__all__) == sorted(set(module.__all__), key=_in_order)
    for name in module.__all__:
        found = getattr(module, name)
        if inspect.isclass(found) or inspect.isroutine(found) or inspect.ismodule(found):
            text = found.__doc__ or ""
            assert text and not text.startswith(f"{name}("), f"{package}.{name} has no docstring"


@pytest.mark.parametrize("package", EXPORTING)
def test_type_checkers_know_every_exported_name(package: str) -> None:
    """A name that is loaded on first use would otherwise be Any to them."""
    module = import_module(package)
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    written_here = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    assert set(module.__all__) <= imported | written_here
    # They read the list of names as it is written, and take every other name for private
    written = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    assert written == [module.__all__]
    lazy = {*getattr(module, "_HOMES", ()), *getattr(module, "_MODULES", ())}
    assert lazy <= set(module.__all__)


def test_what_the_readme_promises_is_exported() -> None:
    assert {"Problem", "Privacy", "simulate", "plan", "audit", "load", "RunResult"} <= set(
        tacenda.__all__
    )
    assert set(tacenda.__all__) <= set(dir(tacenda))
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = tacenda.nothing


def test_the_runtime_imports_the_report_only_inside_the_method_that_writes_it() -> None:
    for file in (Path(tacenda.__path__[0]) / "runtime").rglob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        inside = {
            id(found)
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name == "report"
            for found in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "tacenda.report"
            ):
                assert id(node) in inside, f"{file.name}:{node.lineno}"
