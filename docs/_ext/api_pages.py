"""One page for each public module, written from its `__all__`: a new name is on the site at once.

A name that several modules offer is described once, under the shortest module that offers it.
"""

from __future__ import annotations

import inspect
import typing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

# In the order of the navigation: what most people use first
MODULES = [
    "tacenda",
    "tacenda.estimators",
    "tacenda.data",
    "tacenda.data.partition",
    "tacenda.data.features",
    "tacenda.graph",
    "tacenda.inference",
    "tacenda.losses",
    "tacenda.regularisers",
    "tacenda.algorithms",
    "tacenda.schedules",
    "tacenda.planning",
    "tacenda.accounting",
    "tacenda.evaluation",
    "tacenda.selection",
    "tacenda.tables",
    "tacenda.auditing",
    "tacenda.report",
    "tacenda.engines",
    "tacenda.checks",
    "tacenda_node.evidence",
    "tacenda_papers.theory",
    "tacenda.errors",
]


def public_names(module: Any) -> list[str]:
    """`__all__`, or what the module defines itself and does not hide."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def kind_of(value: Any) -> str:
    if inspect.ismodule(value):
        return "Modules"
    if inspect.isclass(value) and issubclass(value, BaseException):
        return "Errors and warnings"
    if inspect.isclass(value):
        return "Classes"
    return "Functions" if callable(value) and not _is_type(value) else "Constants"


def _is_type(value: Any) -> bool:
    return typing.get_origin(value) is not None


def pages() -> dict[str, dict[str, list[str]]]:
    """module -> kind -> full names, each at its first home."""
    homes: dict[int, str] = {}
    found: dict[str, dict[str, list[str]]] = {}
    for name in MODULES:
        if find_spec(name) is None:
            continue
        module = import_module(name)
        kinds: dict[str, list[str]] = {}
        for short in public_names(module):
            value = getattr(module, short)
            kind = kind_of(value)
            if kind == "Modules":
                continue  # it has its own page
            full = f"{name}.{short}"
            home = full if kind == "Constants" else homes.setdefault(id(value), full)
            names = kinds.setdefault(kind, [])
            if home not in names:
                names.append(home)
        found[name] = kinds
    return found


def _page(module: str, kinds: dict[str, list[str]]) -> str:
    lines = [module, "=" * len(module), "", f".. automodule:: {module}", "   :no-members:", ""]
    lines += [f".. currentmodule:: {module}", ""]
    for kind in ("Classes", "Functions", "Errors and warnings", "Constants"):
        names = kinds.get(kind, [])
        if not names:
            continue
        lines += [kind, "-" * len(kind), ""]
        here = [n for n in names if n.rpartition(".")[0] == module]
        elsewhere = [n for n in names if n not in here]
        for chosen, options in ((here, ["   :toctree: generated"]), (elsewhere, [])):
            if chosen:
                lines += [".. autosummary::", *options, "   :nosignatures:", ""]
                lines += [f"   {n.removeprefix(module + '.')}" for n in chosen] + [""]
    return "\n".join(lines)


INDEX = """API reference
=============

What Python code may rely on, from the docstrings. `import tacenda as tc` is how the pages below
and the examples write it; everything of the first page is there as `tc.name`.

.. toctree::
   :maxdepth: 1

{entries}
"""


def write(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    found = pages()
    texts = {module: _page(module, kinds) for module, kinds in found.items()}
    texts["index"] = INDEX.format(entries="\n".join(f"   {module}" for module in found))
    for stem, text in texts.items():
        file = folder / f"{stem}.rst"
        if not file.is_file() or file.read_text("utf-8") != text:  # unchanged: not built again
            file.write_text(text, "utf-8")


def _ours_only(
    app: Sphinx, what: str, name: str, value: Any, skip: bool, options: Any
) -> bool | None:
    """What classes inherit from other libraries is described there."""
    home = getattr(inspect.unwrap(value) if callable(value) else value, "__module__", None)
    if isinstance(home, str) and not home.startswith("tacenda"):
        return True
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", lambda app, config: write(Path(app.srcdir) / "api"))
    app.connect("autodoc-skip-member", _ours_only)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
