"""The papers are a client of the library: what they import is public, or on the list of what the
public interface still lacks."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import tacenda_papers
from unit.test_docstrings import MODULES, _named

FILES = sorted(Path(tacenda_papers.__path__[0]).rglob("*.py"))
# What is not public, and why the papers use it all the same
LACKING = {
    # The extension point for commands of other packages; `tacenda.cli.table` describes it
    ("tacenda.cli.table", "Command"),
    # The house's one way to write a file: whole or not at all
    ("tacenda.formats.files", "write_text"),
    # A cell is a change to a method: which fields there are, and those of a table
    ("tacenda.terms.method", "SETTINGS"),
    ("tacenda.terms.setting", "given"),
}


def private_names(source: str) -> set[tuple[str, str]]:
    """(module, name) of every import from the library that no public module lists; the name of an
    imported module is ""."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {(a.name, "") for a in node.names if a.name.startswith("tacenda.")}
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tacenda":
            home = node.module or ""
            listed = _named(import_module(home)) if home in MODULES else ()
            found |= {(home, a.name) for a in node.names if a.name not in (*listed, "__version__")}
    return {
        (home, name) for home, name in found if (f"{home}.{name}" if name else home) not in MODULES
    }


def test_the_papers_import_public_names() -> None:
    used = set().union(*(private_names(file.read_text("utf-8")) for file in FILES))
    assert used == LACKING, "use a public name or make one; take out what is no longer used"


def test_the_check_sees_a_private_import() -> None:
    assert private_names("from tacenda.privacy.secrets.door import Door") == {
        ("tacenda.privacy.secrets.door", "Door")
    }
    assert private_names("from tacenda import Problem, rows\nimport tacenda.words") == {
        ("tacenda", "rows"),
        ("tacenda.words", ""),
    }
    assert not private_names("import numpy\nfrom tacenda.data import partition, load")
