"""What a value is, by its whole content: one digest for settings, arrays and code, the same in
every process.

Two runs that share a seed share their noise, so they count as one only if nothing differs between
them: every number of every array, and what the code does. A function or class is taken by its code
objects (comments and layout do not count), its defaults, what it closes over, and the globals that
it names, which may be functions again. Code that was installed (this package, the standard library,
site-packages) is not walked through: it is taken by name, version and the text of its file. Where a
function was written counts, not what it calls itself (`functools.wraps` gives it another's name and
module); a method of an installed class that was replaced by one of yours is walked through too.
What has no content that can be read (a lock, an open file, a generator) is refused, never guessed.
"""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import importlib
import importlib.util
import platform
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tacenda.errors import InputError

_HERE = Path(__file__).parent
_LIBRARIES = ("numpy", "scipy", "numba")
# Attributes of a class that say nothing about what it does, and methods that `dataclass` writes
# from the fields.
_BLANK = frozenset(
    {
        "__dict__",
        "__weakref__",
        "__doc__",
        "__module__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "__firstlineno__",
        "__static_attributes__",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__match_args__",
        "__parameters__",
        "__abstractmethods__",
        "__orig_bases__",
        "__protocol_attrs__",
        "__non_callable_proto_members__",
        "_abc_impl",
        "_is_protocol",
        "_is_runtime_protocol",
    }
)
_WRITTEN = frozenset(
    {
        "__repr__",
        "__eq__",
        "__hash__",
        "__setattr__",
        "__delattr__",
        "__replace__",
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
    }
)
_CODE = (
    "co_code",
    "co_names",
    "co_varnames",
    "co_freevars",
    "co_cellvars",
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_flags",
    "co_exceptiontable",
)
_GLOBAL_READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_SLOT = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
)


def content_hash(value: Any, name: str = "value") -> str:
    """64 hex digits: equal for equal contents, also in another process; `name` is what an error
    calls the value."""
    walk = _Walk(name)
    walk.feed(value)
    return walk.digest()


@functools.cache
def program() -> str:
    """A digest of this package's own files and of what computes with it: another program may answer
    with other bits.

    The files rather than the version alone: a copy under development changes without a new version,
    and a question that changed by one bit under the same noise gives that bit away.
    """
    found = hashlib.sha256()
    for file in sorted(_HERE.rglob("*.py")):
        text = file.read_bytes()
        found.update(f"{file.relative_to(_HERE).as_posix()} {len(text)} ".encode() + text)
    for library in _LIBRARIES:
        found.update(f"{library} {metadata.version(library)} ".encode())
    python = platform.python_implementation(), platform.python_version(), platform.machine()
    found.update(" ".join(python).encode())
    return found.hexdigest()


@functools.cache
def versions() -> dict[str, str]:
    """What has to be the same in two processes for their results to be: by names that a sentence
    can use, the program's own files last."""
    import tacenda

    return {
        "the version of tacenda": tacenda.__version__,
        "the version of Python": platform.python_version(),
        **{f"the version of {name}": metadata.version(name) for name in _LIBRARIES},
        "the program's files": program(),
    }


class _Walk:
    """One walk over a value; what was met before is named by its number, so that circles end."""

    def __init__(self, name: str) -> None:
        self._name, self._found = name, hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []

    def digest(self) -> str:
        return self._found.hexdigest()

    def _mark(self, tag: str, content: bytes = b"") -> None:
        self._found.update(f"{tag} {len(content)} ".encode() + content)

    def feed(self, value: Any) -> None:
        """Add a value of any kind."""
        kind = type(value)
        if kind in _PLAIN:
            self._mark(kind.__name__, _PLAIN[kind](value))
            return
        if id(value) in self._seen:
            self._mark("again", str(self._seen[id(value)]).encode())
            return
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)  # so that no other object gets its id meanwhile
        for kinds, method in _KINDS:
            if isinstance(value, kinds):
                method(self, value)
                return
        self._object(value)

    def _many(self, tag: str, values: Iterable[Any]) -> None:
        listed = list(values)
        self._mark(tag, str(len(listed)).encode())
        for value in listed:
            self.feed(value)

    def _list(self, value: Any) -> None:
        if type(value) not in (list, tuple):
            self._object(value)
        else:
            self._many(type(value).__name__, value)

    def _dict(self, value: Any) -> None:
        if type(value) is not dict:
            self._object(value)
            return
        keys = {content_hash(key, self._name): key for key in value}
        self._mark("dict", str(len(keys)).encode())
        for mark in sorted(keys):
            self._mark("key", mark.encode())
            self.feed(value[keys[mark]])

    def _set(self, value: Any) -> None:
        self._many("set", sorted(content_hash(one, self._name) for one in value))

    def _array(self, value: Any) -> None:
        if isinstance(value, np.ma.MaskedArray):
            self._many("masked", (np.ma.getmaskarray(value), value.filled(0)))
            return
        if type(value) not in (np.ndarray, value.dtype.type):  # np.matrix multiplies otherwise
            self.feed(type(value))
        self._mark("array", f"{value.dtype.str} {value.dtype.descr} {value.shape}".encode())
        if value.dtype.hasobject:
            self._many("objects", value.reshape(-1).tolist())
        else:
            self._mark("bytes", np.ascontiguousarray(value).tobytes())

    def _enum(self, value: enum.Enum) -> None:
        self._class(type(value))
        self._mark("member", value.name.encode())

    def _path(self, value: Path) -> None:
        self._mark("path", str(value).encode())

    # -- code

    def _module(self, value: types.ModuleType) -> None:
        self._mark("module", _origin(value.__name__).encode())

    def _code(self, code: types.CodeType) -> None:
        self._many("code", (getattr(code, part) for part in _CODE))
        self._many("constants", code.co_consts)

    def _function(self, value: types.FunctionType) -> None:
        self._mark("function", value.__qualname__.encode())
        cells = value.__closure__ or ()
        home = value.__globals__.get("__name__")
        if _is_installed(home):
            self._mark("installed", _origin(str(home)).encode())
            # What a decorator of a library was given
            self._many("closure", (_content(cell) for cell in cells))
            return
        self._code(value.__code__)
        self.feed(value.__defaults__)
        self.feed(value.__kwdefaults__)
        self._many("closure", (_content(cell) for cell in cells))
        named = {
            name: value.__globals__[name]
            for name in _names(value.__code__)
            if name in value.__globals__
        }
        self._dict(named)
        used = _all_names(value.__code__)
        for module in [
            *(m for m in named.values() if isinstance(m, types.ModuleType)),
            *_imported(value),
        ]:
            self._used_of(module, used, set())
        self._dict({k: v for k, v in vars(value).items() if not k.startswith("__")})

    def _used_of(self, module: types.ModuleType, names: list[str], passed: set[str]) -> None:
        """What a function reaches through a module that is not installed: its file may since have
        been edited, and its values set."""
        if _is_installed(module.__name__) or module.__name__ in passed:
            return
        passed.add(module.__name__)
        self._module(module)
        for name in names:
            if name in vars(module) and not name.startswith("__"):
                self._mark("of module", name.encode())
                found = vars(module)[name]
                self.feed(found)
                if isinstance(found, types.ModuleType):
                    self._used_of(found, names, passed)

    def _builtin(self, value: Any) -> None:
        self._mark("builtin", value.__qualname__.encode())
        owner = value.__self__
        self._mark("of", _origin(value.__module__ or "").encode()) if owner is None else self.feed(
            owner
        )

    def _method(self, value: types.MethodType) -> None:
        self._many("method", (value.__func__, value.__self__))

    def _property(self, value: property) -> None:
        self._many("property", (value.fget, value.fset, value.fdel))

    def _wrapped(self, value: Any) -> None:
        self._many(type(value).__name__, (value.__func__,))

    def _cached(self, value: Any) -> None:
        self._many("cached", (value.func,))

    def _slot(self, value: Any) -> None:
        self._mark("slot", value.__name__.encode())

    def _class(self, value: type) -> None:
        self._mark("class", f"{value.__module__}.{value.__qualname__}".encode())
        if _is_installed(value.__module__) and _is_found(value):
            self._mark("installed", _origin(value.__module__).encode())
            for base in value.__mro__:
                for name, method in sorted(vars(base).items()):
                    if _is_foreign(method):
                        self._mark("replaced", f"{base.__qualname__}.{name}".encode())
                        self.feed(method)
            return
        self._many("bases", value.__mro__[1:])
        fields = vars(value)
        for name in sorted(fields):
            if name in _BLANK or (name in _WRITTEN and _is_written(fields[name])):
                continue
            if (
                name == "__init__"
                and "__dataclass_params__" in fields
                and fields["__dataclass_params__"].init
            ):
                continue
            self._mark("attribute", name.encode())
            self.feed(fields[name])

    def _object(self, value: Any) -> None:
        """Anything else: its class, and what a pickle would hold;
        a wrapper of a Python function by the function."""
        inner = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)
        if isinstance(inner, types.FunctionType) and _is_installed(type(value).__module__):
            # Of a compiled function: fastmath gives other bits
            options = getattr(value, "targetoptions", None)
            self._many(
                "wrapper", (type(value), inner, options if isinstance(options, dict) else None)
            )
            return
        try:
            parts = value.__reduce_ex__(4)
        except Exception:
            raise self._refusal(value) from None
        self.feed(type(value))
        if isinstance(parts, str):
            module = getattr(value, "__module__", None) or type(value).__module__
            self._mark("global", f"{parts} {_origin(module)}".encode())
            return
        make, arguments, state, items, pairs = (*parts, None, None, None)[:5]
        self._many("made", (make, arguments, state, None if items is None else list(items)))
        self._many("pairs", () if pairs is None else pairs)

    def _refusal(self, value: Any) -> InputError:
        return InputError(
            f"{self._name} cannot be identified: it holds a "
            f"{type(value).__module__}.{type(value).__qualname__}, whose content cannot be read. "
            "Two runs count as one only if everything in them is known to be the same: "
            "use numbers, arrays, dataclasses and functions there, "
            "or run without ledger and checkpoint."
        )


_PLAIN: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda v: b"",
    type(...): lambda v: b"",
    type(NotImplemented): lambda v: b"",
    bool: lambda v: str(v).encode(),
    int: lambda v: str(v).encode(),
    float: lambda v: v.hex().encode(),
    complex: lambda v: f"{v.real.hex()} {v.imag.hex()}".encode(),
    str: lambda v: v.encode("utf-8", "surrogatepass"),
    bytes: lambda v: v,
    bytearray: bytes,
}
_KINDS: tuple[tuple[Any, Callable[[_Walk, Any], None]], ...] = (
    ((np.ndarray, np.generic), _Walk._array),
    (enum.Enum, _Walk._enum),
    (Path, _Walk._path),
    ((list, tuple), _Walk._list),
    (dict, _Walk._dict),
    ((set, frozenset), _Walk._set),
    (types.ModuleType, _Walk._module),
    (types.CodeType, _Walk._code),
    (types.FunctionType, _Walk._function),
    (types.BuiltinFunctionType, _Walk._builtin),
    (types.MethodType, _Walk._method),
    (property, _Walk._property),
    ((staticmethod, classmethod), _Walk._wrapped),
    (functools.cached_property, _Walk._cached),
    (_SLOT, _Walk._slot),
    (type, _Walk._class),
)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that was never bound
        return None


def _names(code: types.CodeType) -> list[str]:
    """Every global that a function may read, also in functions written inside it; attributes of the
    same name are none."""
    own = [str(one.argval) for one in dis.get_instructions(code) if one.opname in _GLOBAL_READS]
    return own + [
        name for one in code.co_consts if isinstance(one, types.CodeType) for name in _names(one)
    ]


def _all_names(code: types.CodeType) -> list[str]:
    """Every name of a global or an attribute in a function, and in those written inside it."""
    inner = [
        name
        for one in code.co_consts
        if isinstance(one, types.CodeType)
        for name in _all_names(one)
    ]
    return sorted({*code.co_names, *inner})


def _imported(function: types.FunctionType) -> list[types.ModuleType]:
    """The modules that a function imports when it is called,
    as far as they are no installed ones."""
    place, found = str(function.__globals__.get("__package__") or ""), []
    for name in _import_names(function.__code__, place):
        if not _is_installed(name):
            try:
                found.append(importlib.import_module(name))
            except ImportError:
                continue  # nor can the function import it
    return found


def _import_names(code: types.CodeType, package: str) -> list[str]:
    """The full names behind the import statements inside a function."""
    found, level = [], 0
    for one in dis.get_instructions(code):
        if one.opname == "IMPORT_NAME":
            dots = "." * level
            found.append(
                importlib.util.resolve_name(dots + str(one.argval), package)
                if dots and package
                else str(one.argval)
            )
        elif one.opname == "LOAD_CONST" and type(one.argval) is int:
            level = one.argval
    return found + [
        name
        for c in code.co_consts
        if isinstance(c, types.CodeType)
        for name in _import_names(c, package)
    ]


def _is_found(kind: type) -> bool:
    """Whether a class lies where it says; one that was put together in a session may bear the name
    of whatever made it."""
    found: Any = sys.modules.get(kind.__module__)
    for step in kind.__qualname__.split("."):
        found = getattr(found, step, None)
    return found is kind


def _is_foreign(method: Any) -> bool:
    """Whether a method of an installed class was written elsewhere: somebody has replaced it."""
    if isinstance(method, property):
        return any(_is_foreign(part) for part in (method.fget, method.fset, method.fdel))
    method = getattr(method, "__func__", getattr(method, "func", method))
    home = method.__globals__.get("__name__") if isinstance(method, types.FunctionType) else None
    return home is not None and not _is_installed(home)


def _is_written(method: Any) -> bool:
    code = getattr(getattr(method, "__wrapped__", method), "__code__", None)
    return method is None or (code is not None and code.co_filename == "<string>")


@functools.cache
def _is_installed(module: str | None) -> bool:
    """Whether code of this module changes with an installation only,
    and not between two cells of a notebook."""
    top = (module or "").partition(".")[0]
    if top == "__main__":  # a notebook's cells, though its launcher may lie in site-packages
        return False
    file = _file(module)
    if top == "tacenda" or (top in sys.stdlib_module_names and file is None):
        return True
    return file is not None and any(file.is_relative_to(place) for place in _places())


@functools.cache
def _places() -> tuple[Path, ...]:
    return tuple(
        Path(sysconfig.get_path(name)).resolve()
        for name in ("purelib", "platlib", "stdlib", "platstdlib")
    )


def _file(module: str | None) -> Path | None:
    found = getattr(sys.modules.get(module or ""), "__file__", None)
    return None if found is None else Path(found).resolve()


def _origin(module: str) -> str:
    """A module's name, the version of what it belongs to, and the digest of its file where it has
    one outside this package."""
    top = module.partition(".")[0]
    if top == "tacenda" or (top in sys.stdlib_module_names and _is_installed(module)):
        return module  # `program` speaks for both
    version, file = getattr(sys.modules.get(top), "__version__", ""), _file(module)
    text = file.read_bytes() if file is not None and file.is_file() else b""
    return f"{module} {version} {hashlib.sha256(text).hexdigest()}"
