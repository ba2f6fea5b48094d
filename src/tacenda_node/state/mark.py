"""How far a node's charges have come, noted a second time outside its state folder, and the one
secret that opens the keys inside it: a few bytes beside the lasting ledger.

A state folder that is put back from an old copy, or whose write-ahead log was cut short, is whole
in itself: nothing inside it can tell. The mark can. The order is always the same:

    charges into the state (durable)   ->   mark (durable)   ->   message sent

so after any crash the mark is equal to the state or behind it, never ahead. A state that is behind
its mark has lost charges.

The secret makes the next one by a one-way step, and is overwritten by it (`secrets`).
"""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from tacenda.errors import StateError
from tacenda.formats.files import write_bytes
from tacenda.privacy.lasting.chain import RECORD_BYTES, START, Head, head_of, head_record
from tacenda_node.state.locks import lock

# Two slots with the same contents, each in a block of its own: a torn write leaves the other one
_SLOT = 4096
SECRET = 32
NO_SECRET = bytes(SECRET)  # the keys of the run are destroyed
Noted = tuple[Head, bytes]  # the head of the charges, and the secret


class Mark:
    """The mark of one state, sealed with the state's lasting key; held by one process at a time, so
    two copies never run at once."""

    def __init__(self, path: Path, key: bytes) -> None:
        self.path, self._key = path, key
        self._file: int | None = None
        self._last: Noted = (START, NO_SECRET)

    def open(self) -> Noted | None:
        """Hold the mark, and give what was noted last; None if there is no mark."""
        try:
            self._file = os.open(self.path, os.O_RDWR)
            lock(self._file)
            found = [slot for slot in self._slots() if slot is not None]
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
        if not found:
            raise StateError(
                f"The mark {self.path} is damaged or belongs to another state, so charges may "
                f"have been lost; put the newest one back, "
                "or leave the run. Its spending stays as reserved in the ledger."
            )
        # The first slot is written first: where both are whole and differ, it is the newer one
        self._last = max(found, key=lambda noted: noted[0])
        return self._last

    def create(self, head: Head, secret: bytes) -> None:
        """A new file that is there as a whole or not at all; then hold it."""
        record = self._record((head, secret))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_bytes(self.path, 2 * record.ljust(_SLOT, b"\0"), private=True)
        except OSError as failed:
            raise self._unwritten(failed) from None
        self.open()

    def write(self, head: Head, secret: bytes) -> None:
        """Note a later head and secret, durably, over those before."""
        if self._file is None:
            raise StateError(f"The mark {self.path} is not open; nothing was sent.")
        try:
            found = [slot for slot in self._slots() if slot is not None]
            if self._last not in found or max(noted[0] for noted in found) != self._last[0]:
                raise StateError(
                    f"The mark {self.path} was changed by another process: "
                    "a copy of this state runs; nothing was sent."
                )
            for at in (0, _SLOT):
                os.pwrite(self._file, self._record((head, secret)), at)
            os.fdatasync(self._file)
        except OSError as failed:
            raise self._unwritten(failed) from None
        self._last = (head, secret)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _record(self, noted: Noted) -> bytes:
        text = head_record(noted[0], self._key) + noted[1]
        return text + self._mac(text)

    def _mac(self, text: bytes) -> bytes:
        return hmac.new(self._key, b"tacenda mark v2\0" + text, hashlib.sha256).digest()

    def _slots(self) -> list[Noted | None]:
        assert self._file is not None
        return [self._noted(os.pread(self._file, RECORD_BYTES + 64, at)) for at in (0, _SLOT)]

    def _noted(self, record: bytes) -> Noted | None:
        text, mac = record[: RECORD_BYTES + SECRET], record[RECORD_BYTES + SECRET :]
        head = head_of(text[:RECORD_BYTES], self._key)
        if head is None or not hmac.compare_digest(mac, self._mac(text)):
            return None
        return head, text[RECORD_BYTES:]

    def _unwritten(self, failed: OSError) -> StateError:
        return StateError(
            f"The mark {self.path} cannot be written ({failed}); nothing was sent. "
            "Free disk space or repair the disk, then start the node again: "
            "it continues where it stopped."
        )
