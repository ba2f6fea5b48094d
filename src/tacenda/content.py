"""What a value is, by its whole content: one digest for settings, arrays and code, the same in
every process.

Two runs that share a seed share their noise, so they count as one only if nothing differs between
them: every number of every array, and what the code does. Code is known by its source files
(`source_hash`), all files of the package that holds it. For an installed package (this one, the
standard library, site-packages) that is all. A function or class of your own modules adds its
defaults, what it closes over, and every value that those modules, and the modules that they
import, hold at that moment.

Code without a source is always another: a notebook's cell, a REPL, `exec`, and a file that was
edited after this process started, since nobody can tell which text the process has read. A run
with such code is a new run each time: fresh noise, charged anew. So is one whose modules hold a
value that cannot be read (a lock, an open file). Where the value itself is asked for, not only its
module, it is refused.
"""

from __future__ import annotations

import copyreg
import enum
import functools
import hashlib
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import sources
from tacenda.errors import InputError

# Attributes of a class that say nothing about what it does, and methods that `dataclass` and
# `namedtuple` write from the fields.
_BLANK = frozenset(
    [
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
    ]
)
_WRITTEN = frozenset(
    [
        "__init__",
        "__new__",
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
    ]
)
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


class _Walk:
    """One walk over a value; what was met before is named by its number, so that circles end."""

    def __init__(self, name: str) -> None:
        self._name, self._found = name, hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []
        self._modules = 0  # how many modules of the user's own the walk is inside of

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
        self._mark("module", value.__name__.encode())
        if sources.is_installed(value.__name__):
            self._mark("installed", sources.origin(value.__name__).encode())
        else:
            self._own_module(value)

    def _own_module(self, value: types.ModuleType) -> None:
        """A module that may be edited, and whose values may be set, between two runs: its source,
        all that it holds, and the same of what its functions import."""
        self._mark("source", sources.hash_as_read(value.__name__).encode())
        self._modules += 1
        try:
            for name in sorted(vars(value)):
                if not name.startswith("__"):
                    self._mark("name", name.encode())
                    self.feed(vars(value)[name])
            for module in sources.imported(value):
                self.feed(module)
        except RecursionError:
            self._mark("no source", sources.never_again().encode())
        finally:
            self._modules -= 1

    def _home(self, module: str | None) -> None:
        """The module in which a function or class was written."""
        found = sys.modules.get(module or "")
        if found is None:
            self._mark("no source", sources.never_again().encode())
        else:
            self.feed(found)

    def _code(self, code: types.CodeType) -> None:
        """Tell functions of one source apart, also two on one line."""
        self._many("code", (code.co_code, code.co_names, code.co_consts))

    def _function(self, value: types.FunctionType) -> None:
        self._mark("function", value.__qualname__.encode())
        home = value.__globals__.get("__name__")
        # What a decorator of a library was given, too
        self._many("closure", (_content(cell) for cell in value.__closure__ or ()))
        if sources.is_installed(home):
            self._mark("installed", sources.origin(str(home)).encode())
            return
        if not sources.is_read_from(value.__code__, home):
            self._mark("no source", sources.never_again().encode())
        self._code(value.__code__)
        self.feed(value.__defaults__)
        self.feed(value.__kwdefaults__)
        self._dict({k: v for k, v in vars(value).items() if not k.startswith("__")})
        self._home(home)

    def _builtin(self, value: Any) -> None:
        self._mark("builtin", value.__qualname__.encode())
        owner = value.__self__
        self._mark(
            "of", sources.origin(value.__module__ or "").encode()
        ) if owner is None else self.feed(owner)

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
        if sources.is_installed(value.__module__) and _is_found(value):
            self._mark("installed", sources.origin(value.__module__).encode())
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
            self._mark("attribute", name.encode())
            self.feed(fields[name])
        self._home(value.__module__)

    def _object(self, value: Any) -> None:
        """Anything else: its class, and what a pickle would hold;
        a wrapper of a Python function by the function."""
        inner = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)
        if isinstance(inner, types.FunctionType) and sources.is_installed(type(value).__module__):
            # Of a compiled function: fastmath gives other bits
            options = getattr(value, "targetoptions", None)
            self._many(
                "wrapper", (type(value), inner, options if isinstance(options, dict) else None)
            )
            return
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            parts = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception:
            if self._modules:
                self._mark("unreadable", sources.never_again().encode())
                return
            raise self._refusal(value) from None
        self.feed(type(value))
        if isinstance(parts, str):
            module = getattr(value, "__module__", None) or type(value).__module__
            self._mark("global", f"{parts} {sources.origin(module)}".encode())
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
    return home is not None and not sources.is_installed(home)


def _is_written(method: Any) -> bool:
    """True of a method that a library wrote from a class's fields, or of None in its place."""
    code = getattr(getattr(method, "__wrapped__", method), "__code__", None)
    if isinstance(method, staticmethod):  # namedtuple's `__new__`
        code = getattr(method.__func__, "__code__", None)
    return method is None or (code is not None and code.co_filename.startswith("<string"))
