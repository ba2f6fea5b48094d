"""Locks of files, which the system frees when a process ends, however that happens."""

from __future__ import annotations

from tacenda.errors import InputError


def lock(handle: int, *, wait: bool = False) -> None:
    """Hold an open file for this process until it is closed; BlockingIOError where another one
    holds it. wait: until it is free."""
    try:
        import fcntl
    except ImportError:
        raise InputError(
            "A node runs on Linux and macOS, whose locks and flushes it needs. On Windows run it "
            "in WSL 2, and keep the member's folder on WSL's own disk."
        ) from None
    fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
