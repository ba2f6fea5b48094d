"""Files that are replaced whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacenda.formats.text import readable_json


@contextmanager
def replacing(path: str | Path, *, private: bool = False) -> Iterator[Path]:
    """An empty file beside `path` to write to; then it takes the place of `path` in one step.

    Before, it is flushed to the disk. After an error nothing is left of it, and an OSError names
    `path`. private: only its owner may read it, from its first byte on. A pipe or a device
    (/dev/stdout) cannot be replaced, and is written to.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        yield target
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    # The same ending, because drawing libraries choose their format by it.
    part = target.with_name(f".{target.stem[:40]}.{secrets.token_hex(4)}.part{target.suffix}")
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666))
        yield part
        _flush(part)
        os.replace(part, target)
        if os.name == "posix":  # elsewhere a folder cannot be opened
            _flush(target.parent)
    except OSError as failed:
        if failed.errno is None or failed.filename not in (None, part, str(part)):
            raise
        raise OSError(failed.errno, failed.strerror, str(target)) from None
    finally:
        part.unlink(missing_ok=True)


def write_bytes(path: str | Path, data: bytes, *, private: bool = False) -> Path:
    """`data` as the file's whole content."""
    with replacing(path, private=private) as part:
        part.write_bytes(data)
    return Path(path)


def write_text(path: str | Path, text: str) -> Path:
    """`text` in UTF-8, with its line ends as they are."""
    return write_bytes(path, text.encode())


def write_json(path: str | Path, values: Any) -> Path:
    """Values as JSON for people and programs."""
    return write_text(path, readable_json(values) + "\n")


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
