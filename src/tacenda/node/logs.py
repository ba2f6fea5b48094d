"""Structured logs: one JSON object per line, and no way for a record,
a gradient or a key to get into one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ALLOWED = (str, int, float, bool, type(None))
LONGEST = 500


def redact(_: Any, __: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    """Plain words and numbers pass;
    anything that could hold data (arrays, bytes, lists, objects) is replaced."""
    return {name: _plain(value) for name, value in event.items()}


def _plain(value: Any) -> Any:
    if type(value) not in ALLOWED:
        return f"<{type(value).__name__} not logged>"
    return value[:LONGEST] if isinstance(value, str) else value


@contextmanager
def open_log(path: Path, member: str) -> Iterator[Any]:
    """A logger that appends JSON lines to `path`."""
    import structlog

    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8", buffering=1) as file:
        yield _logger(structlog, _WhileThereIsRoom(file), member)


class _WhileThereIsRoom:
    """A file whose lines are dropped while its disk is full: the state tells that, in words, and a
    log must not be what stops a node."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()


def _logger(structlog: Any, file: Any, member: str) -> Any:
    logger = structlog.wrap_logger(
        structlog.WriteLogger(file),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            redact,
            structlog.processors.JSONRenderer(),
        ],
    )
    return logger.bind(member=member)
