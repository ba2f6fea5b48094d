"""How kernels are compiled: options for all of them, and a word while it takes time.

Numba keeps what it compiled beside the sources or in the user's cache (`_compiled`), so that only
the first run waits. A kernel that is kept is loaded without what only compiling needs.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys

from tacenda import _compiled

__all__ = ["EXACT", "EXACT_INNER", "FAST", "FAST_BODY", "FAST_INNER", "njit"]

# Nothing is reordered, nothing fused: the same bits as NumPy's
EXACT: dict[str, Any] = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}
# Sums may be reordered and fused; NaN and infinity keep their meaning
FAST: dict[str, Any] = {
    **EXACT,
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    "error_model": "numpy",
}
# Of functions that only compiled code calls: no time goes into a way in from Python
EXACT_INNER: dict[str, Any] = {**EXACT, "no_cpython_wrapper": True}
# These are always made part of their caller: a function of its own is optimised alone in the run
# that compiles it and once more in those that load it, and its sums may come out in another order
FAST_INNER: dict[str, Any] = {**FAST, "no_cpython_wrapper": True, "forceinline": True}
# Of the body of an overload, which is kept with its caller
FAST_BODY: Any = {key: value for key, value in FAST_INNER.items() if key != "cache"}


class _Kept(FunctionCache):
    """Numba's own cache, but for one thing: before it looks, that one loads all that compiling
    needs, up to 26 MB in half a second, also where the kernel is found. A kernel that is not found
    is compiled, and numba loads it then."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)  # what loaded code makes room with
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


def njit(*, cache: bool = False, **options: Any) -> Callable[[Any], Any]:
    """`numba.njit`; what is kept between starts is loaded quickly."""

    def compiled(function: Any) -> Any:
        kernel = numba.njit(**options)(function)
        if cache:
            kernel._cache = _Kept(function)  # type: ignore[no-untyped-call]
        return kernel

    return compiled


class _Watch(event.Listener):
    """Says that kernels are being compiled, once, as soon as that has taken a while; and lets no
    garbage be collected meanwhile, which takes a tenth of the time and finds nothing."""

    def __init__(self) -> None:
        self._depth, self._begin, self._spent, self._collects = 0, 0.0, 0.0, True

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._begin, self._collects = time.monotonic(), gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        now = time.monotonic()
        if self._depth == 0:
            self._spent += now - self._begin
            if self._collects:
                gc.enable()
        _compiled.tell(self._spent + (now - self._begin if self._depth else 0.0))


event.register("numba:compile", _Watch())
