"""Files that are replaced whole or not at all.

A file is written into a folder that exists; folders are only made where a folder is the output.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacenda.errors import InputError
from tacenda.formats.text import readable_json


def checked_output(path: str | Path) -> Path:
    """The path of a file to write, if its folder exists: to be asked before long work."""
    target = Path(path)
    if target.parent.exists() and not target.parent.is_dir():
        raise InputError(
            f"{str(target)!r} cannot be written, because {str(target.parent)!r} is a file and not "
            "a folder; correct the path."
        )
    if not target.parent.is_dir():
        raise InputError(
            f"{str(target)!r} cannot be written, because there is no folder "
            f"{str(target.parent)!r}; make it first (mkdir -p), or correct the path."
        )
    return target


def require_unchanged_by_others(path: Path, *, group: bool = False) -> None:
    """Refuse a file that every user of this machine may change; with `group` also one that other
    users of its group may, or that belongs to another user than this one or root."""
    if os.name != "posix" or not path.exists():
        return
    facts = path.stat()
    others = 0o022 if group else 0o002
    if facts.st_mode & others or (group and facts.st_uid not in (0, os.geteuid())):
        raise InputError(
            f"{path} may be changed by other users of this machine (mode "
            f"{facts.st_mode & 0o7777:04o}, owner {facts.st_uid}), and this program acts on what "
            f"it says; look at its contents, then `chmod go-w {path}`, and `chown` it if it is not "
            "yours."
        )


@contextmanager
def replacing(
    path: str | Path, *, private: bool = False, size: int | None = None, durable: bool = True
) -> Iterator[Path]:
    """An empty file beside `path` to write to; then it takes the place of `path` in one step.

    Before, it is flushed to the disk. After an error nothing is left of it, and an OSError names
    `path`. private: only its owner may read it, from its first byte on. size: how many bytes it
    will hold, where that is known; a full disk is then answered with it. durable: False for what
    may be lost with the machine's power, which is then not flushed. A pipe or a device
    (/dev/stdout) cannot be replaced, and is written to.
    """
    target = checked_output(path)
    if target.exists() and not target.is_file():
        yield target
        return
    # The same ending, because drawing libraries choose their format by it.
    part = target.with_name(f".{target.stem[:40]}.{secrets.token_hex(4)}.part{target.suffix}")
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666))
        yield part
        if durable:
            _flush(part)
        os.replace(part, target)
        if durable and os.name == "posix":  # elsewhere a folder cannot be opened
            _flush(target.parent)
    except OSError as failed:
        if failed.errno is None or failed.filename not in (None, part, str(part)):
            raise
        why = failed.strerror
        if failed.errno in (errno.ENOSPC, errno.EDQUOT):
            why = _too_little_space(part, size)
        raise OSError(failed.errno, why, str(target)) from None
    finally:
        part.unlink(missing_ok=True)


def write_bytes(
    path: str | Path, data: bytes, *, private: bool = False, durable: bool = True
) -> Path:
    """`data` as the file's whole content."""
    with replacing(path, private=private, size=len(data), durable=durable) as part:
        part.write_bytes(data)
    return Path(path)


def write_text(path: str | Path, text: str) -> Path:
    """`text` in UTF-8, with its line ends as they are."""
    return write_bytes(path, text.encode())


def write_json(
    path: str | Path, values: Any, *, private: bool = False, durable: bool = True
) -> Path:
    """Values as JSON for people and programs."""
    text = readable_json(values) + "\n"
    return write_bytes(path, text.encode(), private=private, durable=durable)


def is_same_file(one: str | Path, other: str | Path) -> bool:
    """Whether two names, or two equal texts such as queries, mean one file."""
    if str(one) == str(other):
        return True
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them is no file
        return False


def _too_little_space(part: Path, size: int | None) -> str:
    """What a full disk is answered with; the unfinished part's own bytes will be free again."""
    begun = part.stat().st_size if part.exists() else 0
    free = shutil.disk_usage(part.parent).free + begun
    needs = f"more than {begun:,}" if size is None else f"{size:,}"
    return (
        f"the disk is full: the file needs {needs} bytes and {free:,} are free; nothing of it "
        "was kept, so free some space or choose a folder on another disk"
    )


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
