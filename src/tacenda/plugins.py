"""What installed packages add by name: algorithms, losses, regularisers; and the hash of their
code, by which the members of a network know that they run the same."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from tacenda import sources
from tacenda.errors import InputError


def offered(group: str, what: str) -> dict[str, EntryPoint]:
    """What installed packages offer in an entry-point group, by name; `what` is named in errors."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        if entry.name in found and entry.value != found[entry.name].value:
            raise InputError(
                f"Two installed packages offer {what} {entry.name!r}: "
                f"{found[entry.name].value} and {entry.value}; "
                "remove one of them."
            )
        found[entry.name] = entry
    return found


def load(entry: EntryPoint, register: Callable[[Any], Any]) -> Any:
    """Load an entry and register it; its name must be the entry's."""
    try:
        found = entry.load()
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"The plugin {entry.name!r} ({entry.value}) cannot be loaded: {error}; "
            "install it again."
        ) from error
    if register(found).name != entry.name:
        raise InputError(
            f"The plugin {entry.name!r} ({entry.value}) has the name {found.name!r}; "
            "its entry point must have the same."
        )
    return found


def source_hash(modules: Iterable[str], who: str) -> str | None:
    """SHA-256 of all source files of the packages that hold these modules, the same wherever they
    lie; None for this package alone. `who` is named in the error where there is no file."""
    tops = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    files: dict[str, Path] = {}
    for top in tops - set(sources.DISTRIBUTED):
        found = sources.source_files(top)
        if not found:
            raise InputError(
                f"{who} has no source file, so nothing shows whether others run the same code; "
                "put it into a module of its own."
            )
        files |= found
    return sources.source_hash(files) if files else None


def modules_of(*functions: Any) -> frozenset[str]:
    """The modules in which functions are defined; NumPy's and SciPy's own are everybody's."""
    named = {getattr(function, "__module__", None) or "numpy" for function in functions}
    return frozenset(name for name in named if name.partition(".")[0] not in ("numpy", "scipy"))


def checked_name(field: str, name: Any) -> str:
    """A name for files and the command line."""
    if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9-]*", name):
        raise InputError(
            f"{field} must be a word of lower-case letters, digits and hyphens, not {name!r}."
        )
    return name
