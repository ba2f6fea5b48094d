"""Structured logs: one JSON object per line, and no way for a record,
a gradient or a key to get into one.

A line that repeats itself is written a few times and then counted: whatever goes wrong, and however
often, the log stays readable and the disk does not fill with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

ALLOWED = (str, int, float, bool, type(None))
LONGEST = 500
FILE = "log.jsonl"
BURST = 5  # equal lines in a row that are written
EVERY = 60.0  # seconds: then one more, which says how many there were
MOST_LINES = 120  # of one event and one peer within EVERY seconds, whatever their words
MOST_KNOWN = 1000  # different lines that are remembered
TAIL_BYTES = 64 * 1024
MOST_BYTES = 10**7  # of a log, and once more of the one before it


def redact(_: Any, __: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    """Plain words and numbers pass;
    anything that could hold data (arrays, bytes, lists, objects) is replaced."""
    return {name: _plain(value) for name, value in event.items()}


def _plain(value: Any) -> Any:
    if type(value) not in ALLOWED:
        return f"<{type(value).__name__} not logged>"
    return value[:LONGEST] if isinstance(value, str) else value


class Repeats:
    """A step of the logger: the first lines with the same words pass; of the rest one each minute,
    with their number as `repeated`. Numbers in a line do not make it another one. A peer whose
    words are always other ones fills no disk either: of one event and peer few lines a minute pass.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[tuple[Any, ...], list[float]] = {}  # words: [since, written, left out]
        self._kinds: dict[tuple[str, str], list[float]] = {}  # (event, peer): [since, written]

    def __call__(
        self, _: Any, __: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        import structlog

        words = tuple(sorted((k, v) for k, v in event.items() if isinstance(v, str)))
        now = self._clock()
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        if len(self._kinds) >= MOST_KNOWN:
            self._kinds.clear()
        entry = self._known.setdefault(words, [now, 0, 0])
        if now - entry[0] >= EVERY:
            if entry[2]:
                event["repeated"] = int(entry[2])
            entry[:] = [now, BURST if entry[2] else 1, 0]
            return event
        if entry[1] >= BURST:
            entry[2] += 1
            raise structlog.DropEvent
        kind = self._kinds.setdefault((str(event.get("event")), str(event.get("peer"))), [now, 0])
        if now - kind[0] >= EVERY:
            kind[:] = [now, 0]
        if kind[1] >= MOST_LINES:
            raise structlog.DropEvent
        kind[1] += 1
        entry[1] += 1
        return event


@contextmanager
def open_log(path: Path, member: str) -> Iterator[Any]:
    """A logger that appends JSON lines to `path`."""
    import structlog

    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(_WhileThereIsRoom(path)) as file:
        yield _logger(structlog, file, member)


class _WhileThereIsRoom:
    """A file whose lines are dropped while its disk is full: the state tells that, in words, and a
    log must not be what stops a node. Above `MOST_BYTES` it is put aside, in the place of the one
    put aside before, and begun again: it never fills a disk by itself."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = self._opened()

    def _opened(self) -> TextIO:
        return open(self._path, "a", encoding="utf-8", buffering=1)

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)
            if self._file.tell() > MOST_BYTES:
                os.replace(self._path, aside(self._path))
                former, self._file = self._file, self._opened()
                former.close()

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()


def aside(path: Path) -> Path:
    """Where a log is put when it has grown large."""
    return path.with_name(f"{path.name}.1")


def _logger(structlog: Any, file: Any, member: str) -> Any:
    logger = structlog.wrap_logger(
        structlog.WriteLogger(file),
        processors=[
            Repeats(),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            redact,
            structlog.processors.JSONRenderer(),
        ],
    )
    return logger.bind(member=member)


def tail(path: Path, lines: int) -> list[dict[str, Any]]:
    """The last entries of a log, the oldest first; none where there is no log."""
    if not path.is_file():
        return []
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL_BYTES))
        found = file.read().decode("utf-8", "replace").splitlines()
    entries = []
    for line in found[-lines:]:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # cut off by the length that is read, or still being written
        if isinstance(entry, dict):
            entries.append(entry)
    return entries
