"""How far a node's charges have come, noted a second time outside its state folder: a few bytes
beside the lasting ledger.

A state folder that is put back from an old copy, or whose write-ahead log was cut short, is whole
in itself: nothing inside it can tell. The mark can. The order is always the same:

    charges into the state (durable)   ->   mark (durable)   ->   message sent

so after any crash the mark is equal to the state or behind it, never ahead. A state that is behind
its mark has lost charges.
"""

from __future__ import annotations

import os
from pathlib import Path

from tacenda.errors import StateError
from tacenda.formats.files import write_bytes
from tacenda.privacy.lasting.chain import RECORD_BYTES, START, Head, head_of, head_record

_SLOT = 512  # two slots, each in a sector of its own: a torn write leaves the other one


class Mark:
    """The mark of one state, sealed with a key made from its noise key; held by one process at a
    time, so two copies never run at once."""

    def __init__(self, path: Path, key: bytes) -> None:
        self.path, self._key = path, key
        self._file: int | None = None
        self._last = START

    def open(self) -> Head | None:
        """Hold the mark, and give the newest head that was noted; None if there is no mark."""
        import fcntl

        try:
            self._file = os.open(self.path, os.O_RDWR)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = self._slots()
        except FileNotFoundError:
            return None
        except BlockingIOError:
            raise StateError(
                f"Another node runs on a copy of this state: it holds the mark {self.path}. "
                "Stop it first."
            ) from None
        except OSError as failed:
            raise StateError(
                f"The mark {self.path} cannot be read ({failed}); nothing was sent."
            ) from None
        if found == [None, None]:
            raise StateError(
                f"The mark {self.path} is damaged or belongs to another state, "
                "so nobody can tell whether charges were lost; put the newest one back, "
                "or leave the run. Its spending stays as reserved in the ledger."
            )
        self._last = max(head for head in found if head is not None)
        return self._last

    def create(self, head: Head) -> None:
        """A new file that is there as a whole or not at all; then hold it."""
        record = head_record(head, self._key)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_bytes(self.path, 2 * record.ljust(_SLOT, b"\0"), private=True)
        except OSError as failed:
            raise self._unwritten(failed) from None
        self.open()

    def write(self, head: Head) -> None:
        """Note a later head, durably, in the slot of the older one."""
        if self._file is None:
            raise StateError(f"The mark {self.path} is not open; nothing was sent.")
        try:
            slots = [found or START for found in self._slots()]
            if max(slots) != self._last:
                raise StateError(
                    f"The mark {self.path} was changed by another process: "
                    "a copy of this state runs; nothing was sent."
                )
            os.pwrite(
                self._file, head_record(head, self._key), 0 if slots[0] <= slots[1] else _SLOT
            )
            os.fdatasync(self._file)
        except OSError as failed:
            raise self._unwritten(failed) from None
        self._last = head

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _slots(self) -> list[Head | None]:
        assert self._file is not None
        return [head_of(os.pread(self._file, RECORD_BYTES, at), self._key) for at in (0, _SLOT)]

    def _unwritten(self, failed: OSError) -> StateError:
        return StateError(
            f"The mark {self.path} cannot be written ({failed}); nothing was sent. "
            "Free disk space or repair the disk, then start the node again: "
            "it continues where it stopped."
        )
