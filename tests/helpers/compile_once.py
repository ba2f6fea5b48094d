"""Let one of several processes compile a kernel, while the others wait and then load it.

Numba's cache spares later processes the work, but workers that start together would each compile
the same kernels. A kernel's own lock is held while it is compiled. It calls other kernels and they
never call it, so processes take their locks in one order and none waits for another in a circle.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba.core import caching, dispatcher
from numba.core.compiler_lock import global_compiler_lock

compile_kernel, save = dispatcher.Dispatcher.compile, caching.Cache.save_overload


def install() -> None:
    """Do so from now on, in this process."""

    def compile_once(self: Any, sig: Any) -> Any:
        if not isinstance(self._cache, caching.Cache):  # kept nowhere: nobody could load it
            return compile_kernel(self, sig)
        with global_compiler_lock, _locked(self._cache, str(sig)):  # threads wait for the former
            return compile_kernel(self, sig)

    def save_alone(self: Any, sig: Any, data: Any) -> Any:
        # The index is read, added to and written: of two at a time, one entry would be lost
        with _locked(self, "index"):
            return save(self, sig, data)

    dispatcher.Dispatcher.compile = compile_once
    caching.Cache.save_overload = save_alone


@contextmanager
def _locked(cache: Any, purpose: str) -> Iterator[None]:
    """Hold the lock that processes with this cache share for this kernel and purpose."""
    folder = Path(cache.cache_path)
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(f"{cache._impl.filename_base} {purpose}".encode()).hexdigest()[:32]
    with (folder / f".{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # a process forked meanwhile has the file open too
