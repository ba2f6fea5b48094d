"""Copies of CSV files as they were read, so that the next command need not read them again.

A copy holds the same private cells as the file, in columns. It lies in a folder that only its owner
may enter, under the hash of the file's contents: another content is another name, so a copy is
never stale. Schemas can change, since nothing in it depends on one. Only the command line keeps
copies, and never for a node's records.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from tacenda._copies import VARIABLE, are_allowed
from tacenda.data.coded import Coded, Entries
from tacenda.data.table import Table
from tacenda.formats.files import write_bytes

FORMAT = 2  # of what is written; and of what the reader gives for a file
LARGEST_FILE = 2**29  # bytes of a file that is copied, unpacked
LARGEST_CACHE = 2**31  # bytes of all copies
_DIGEST = 32  # bytes of SHA-256 before the contents
_ENDING = ".table"


def folder() -> Path:
    """Where copies are kept."""
    chosen = os.environ.get(VARIABLE)
    if chosen and chosen.lower() != "off":
        return Path(chosen).expanduser() / "tables"
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("tacenda")) / "tables"


@dataclass(frozen=True)
class Place:
    """Where the copy of a file is, or would be."""

    source: Path
    path: Path
    facts: tuple[int, int, int]

    @classmethod
    def of(cls, source: Path, unpacked: int) -> Place | None:
        """The place of a file of about so many bytes, or None if it is not to be copied."""
        if not are_allowed() or unpacked > LARGEST_FILE:
            return None
        facts = _facts(source)
        return cls(source, folder() / f"{_content(source, facts)}{_ENDING}", facts)

    def load(self) -> Table | None:
        """The table of an intact copy of our own, or None. A damaged one is deleted."""
        try:
            if os.name == "posix" and self.path.stat().st_uid != os.geteuid():
                return None
            raw = self.path.read_bytes()
            os.utime(self.path)  # the last use
        except OSError:  # no copy, or none that we may read
            return None
        if raw[:_DIGEST] != hashlib.sha256(memoryview(raw)[_DIGEST:]).digest():
            with suppress(OSError):
                self.path.unlink()
            return None
        from safetensors.numpy import load

        found = load(raw[_DIGEST:])
        names = json.loads(found["names"].tobytes())
        columns = {
            name: Coded(
                found[f"{k}.codes"].astype(np.int32),
                Entries(found[f"{k}.text"], found[f"{k}.offsets"]),
            )
            for k, name in enumerate(names)
        }
        return Table(columns, source=self.source.name)

    def store(self, table: Table) -> None:
        """Keep a table that was read from the file, unless the file changed meanwhile. Where the
        folder cannot be written, nothing is kept."""
        if _facts(self.source) != self.facts:
            return
        from safetensors.numpy import save

        names = json.dumps(list(table.columns)).encode()
        found = {"names": np.frombuffer(names, np.uint8)}
        for k, column in enumerate(table.columns.values()):
            small = np.min_scalar_type(len(column.entries))
            found[f"{k}.codes"] = column.codes.astype(small)
            found[f"{k}.text"], found[f"{k}.offsets"] = column.entries.text, column.entries.offsets
        raw = save({key: np.ascontiguousarray(value) for key, value in found.items()})
        if len(raw) > LARGEST_CACHE:
            return
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.path.parent.chmod(0o700)
            _make_room(len(raw))
            digest = hashlib.sha256(raw).digest()
            write_bytes(self.path, digest + raw, private=True, durable=False)


def copies() -> list[tuple[Path, int, float]]:
    """(file, bytes, time of the last use) of every copy, the oldest first."""
    found = []
    for path in folder().glob(f"*{_ENDING}"):
        with suppress(FileNotFoundError):  # another command made room
            facts = path.stat()
            found.append((path, facts.st_size, facts.st_mtime))
    return sorted(found, key=lambda one: one[2])


def clear() -> int:
    """Delete all copies, also unfinished ones, and return how many there were."""
    known = copies()
    for path in [*(one[0] for one in known), *folder().glob(f".*.part{_ENDING}")]:
        path.unlink(missing_ok=True)
    return len(known)


def _make_room(size: int) -> None:
    known = copies()
    used = sum(one[1] for one in known)
    for path, own, _ in known:
        if used + size <= LARGEST_CACHE:
            return
        path.unlink(missing_ok=True)
        used -= own


def _facts(path: Path) -> tuple[int, int, int]:
    facts = path.stat()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


@lru_cache(maxsize=8)
def _content(path: Path, facts: tuple[int, int, int]) -> str:
    """The name of a copy: a hash of the file's contents and of who reads it."""
    from tacenda import __version__

    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256")
    found.update(f"{FORMAT} {__version__} {path.suffix}".encode())
    return found.hexdigest()
