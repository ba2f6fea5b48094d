"""Source files, by which code is known: those of installed packages, and of the user's modules.

A source counts only if this process has read it as it is now: a file that changed after the process
started is none (`hash_as_read`).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.util
import os
import platform
import secrets
import sys
import sysconfig
import time
import types
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from tacenda._version import RELEASE

_HERE = Path(__file__).parents[1]
_LIBRARIES = ("numpy", "scipy", "numba")
DISTRIBUTED = ("tacenda", "tacenda_node", "tacenda_papers")  # packages installed together


def source_files(module: str) -> dict[str, Path]:
    """All source files of the package that holds a module, by their names within it; the one file
    of a module outside packages; nothing for what has no source."""
    top = _top(module)
    found = sys.modules.get(top)
    single = getattr(found, "__file__", None)
    listed = [
        (Path(folder), file)
        for folder in getattr(found, "__path__", ())
        for file in Path(folder).rglob("*.py")
    ]
    if not listed and single is not None and single.endswith(".py") and Path(single).is_file():
        listed = [(Path(single).parent, Path(single))]
    return {f"{top}/{file.relative_to(folder).as_posix()}": file for folder, file in listed}


def source_hash(files: Mapping[str, Path]) -> str:
    """SHA-256 of source files and their names, the same wherever they are installed."""
    found = hashlib.sha256()
    for name in sorted(files):
        text = files[name].read_bytes()
        found.update(f"{name} {len(text)} ".encode() + text)
    return found.hexdigest()


@functools.cache
def program() -> str:
    """A digest of the files of the three packages and of the libraries that compute for them:
    another program may answer with other bits.

    The files rather than the version alone: a copy under development changes without a new version,
    and a question that changed by one bit under the same noise gives that bit away.
    """
    libraries = (f"{library} {metadata.version(library)}" for library in _LIBRARIES)
    python = platform.python_implementation(), platform.python_version(), platform.machine()
    files = {
        f"{name}/{file.relative_to(_HERE / name).as_posix()}": file
        for name in DISTRIBUTED
        for file in (_HERE / name).rglob("*.py")
    }
    found = " ".join((_hash_as_read(files), *libraries, *python))
    return hashlib.sha256(found.encode()).hexdigest()


@functools.cache
def versions() -> dict[str, str]:
    """What has to be the same in two processes for their results to be: by names that a sentence
    can use, the program's own files last."""
    return {
        "the version of tacenda": RELEASE,  # the files below say which build
        "the version of Python": platform.python_version(),
        **{f"the version of {name}": metadata.version(name) for name in _LIBRARIES},
        "the program's files": program(),
    }


def imported(module: types.ModuleType) -> list[types.ModuleType]:
    """The user's own modules that a module's source imports anywhere, also inside functions."""
    found = []
    for name in _import_names(module):
        try:
            if not is_installed(name) and importlib.util.find_spec(name) is not None:
                found.append(importlib.import_module(name))
        except (ImportError, ValueError):
            continue  # nor can the module import it
    return found


def _import_names(module: types.ModuleType) -> list[str]:
    """The full names in a module's import statements."""
    file, package = _file(module.__name__), getattr(module, "__package__", None) or ""
    if file is None or file.suffix != ".py" or not file.is_file():
        return []
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module))
        elif isinstance(node, ast.ImportFrom) and package:
            found.add(importlib.util.resolve_name("." * node.level + (node.module or ""), package))
    return sorted(found)


def is_read_from(code: types.CodeType, module: str | None) -> bool:
    """True if code was read from the file of the module that it names as its own."""
    file = _file(module)
    return file is not None and Path(code.co_filename).resolve() == file


@functools.cache
def is_installed(module: str | None) -> bool:
    """Whether code of this module changes with an installation only,
    and not between two cells of a notebook."""
    top = (module or "").partition(".")[0]
    if top == "__main__":  # a notebook's cells, though its launcher may lie in site-packages
        return False
    file = _file(module)
    if top in DISTRIBUTED or (top in sys.stdlib_module_names and file is None):
        return True
    return file is not None and any(file.is_relative_to(place) for place in _places())


@functools.cache
def _places() -> tuple[Path, ...]:
    return tuple(
        Path(sysconfig.get_path(name)).resolve()
        for name in ("purelib", "platlib", "stdlib", "platstdlib")
    )


def _file(module: str | None) -> Path | None:
    """The file of a module; of one that was not imported yet, that of its outermost package."""
    if module in sys.modules or not module:
        found = getattr(sys.modules.get(module or ""), "__file__", None)
    else:
        spec = importlib.util.find_spec(module.partition(".")[0])
        found = None if spec is None or not spec.has_location else spec.origin
    return None if found is None else Path(found).resolve()


def _top(module: str) -> str:
    """The outermost package of a module; that of a package that runs as the main program."""
    if module == "__main__":
        module = getattr(sys.modules[module], "__package__", None) or module
    return module.partition(".")[0]


@functools.cache
def origin(module: str) -> str:
    """An installed module's name, and what its package is: version and source. `program` speaks
    for this package, the standard library and what computes with them."""
    top = module.partition(".")[0]
    if top in DISTRIBUTED or top in sys.stdlib_module_names or top in _LIBRARIES:
        return module
    version = getattr(sys.modules.get(top), "__version__", "")
    return f"{module} {version} {hash_as_read(module)}"


def hash_as_read(module: str) -> str:
    """The hash of the source files behind a module, as this process has read them."""
    files, own = source_files(module), _file(module)
    if not files and own is not None and is_installed(module):
        files = {module: own}  # a compiled one
    return _hash_as_read(files)


def _hash_as_read(files: Mapping[str, Path]) -> str:
    if not files or any(_changed(file) > _STARTED for file in files.values()):
        return never_again()
    return source_hash(files)


def _changed(file: Path) -> float:
    """When a file was last written, replaced or moved."""
    state = file.stat()
    return max(state.st_mtime, state.st_ctime)


def never_again() -> str:
    """What stands for code that nobody can know again."""
    return secrets.token_hex(16)


def _started() -> float:
    """When this process started, and so before it read any source; where the system does not say,
    when it imported this module."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return time.time()
    # The kernel rounds down to a whole tick, of 10 ms: less than an interpreter takes to start
    return time.time() - (uptime - (ticks + 1) / os.sysconf("SC_CLK_TCK"))


_STARTED = _started()
