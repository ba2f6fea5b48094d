"""How far a node's charges have come, noted a second time outside its state folder: a few bytes beside the lasting ledger.

A state folder that is put back from an old copy, or whose write-ahead log was cut short, is whole in itself: nothing inside it can
tell. The mark can. The order is always the same:

    charges into the state (durable)   ->   mark (durable)   ->   message sent

so after any crash the mark is equal to the state or behind it, never ahead. A state that is behind its mark has lost charges.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from tacenda.errors import StateError

Head = tuple[int, bytes]  # (number of charges, seal of the last one)
START: Head = (0, bytes(32))
_SLOT, _SIZE = 512, 72  # two slots, each in a sector of its own: a torn write leaves the other one


class Mark:
    """The mark of one state, sealed with a key made from its noise key."""

    def __init__(self, path: Path, key: bytes) -> None:
        self.path, self._key = path, key

    def read(self) -> Head | None:
        """The newest head that was noted; None if there is no mark."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as failed:
            raise StateError(f"The mark {self.path} cannot be read ({failed}); nothing was sent.") from None
        found = [head for at in (0, _SLOT) if (head := unsealed(data[at : at + _SIZE], self._key)) is not None]
        if not found:
            raise StateError(
                f"The mark {self.path} is damaged or belongs to another state, so nobody can tell whether charges were lost; put the "
                "newest one back, or leave the run. Its spending stays as reserved in the ledger."
            )
        return max(found)

    def create(self, head: Head) -> None:
        """A new file that is there as a whole or not at all."""
        record = sealed(head, self._key)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            beside = self.path.with_name(self.path.name + ".part")
            beside.unlink(missing_ok=True)
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(2 * record.ljust(_SLOT, b"\0"))
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as failed:
            raise _unwritten(self.path, failed) from None

    def write(self, head: Head) -> None:
        """Note a later head, durably, in the slot of the older one."""
        try:
            file = os.open(self.path, os.O_RDWR)
            try:
                slots = [unsealed(os.pread(file, _SIZE, at), self._key) or START for at in (0, _SLOT)]
                os.pwrite(file, sealed(head, self._key), 0 if slots[0] <= slots[1] else _SLOT)
                os.fdatasync(file)
            finally:
                os.close(file)
        except OSError as failed:
            raise _unwritten(self.path, failed) from None


def sealed(head: Head, key: bytes) -> bytes:
    """count (8) + seal (32) + MAC (32)."""
    text = head[0].to_bytes(8, "big") + head[1]
    return text + _mac(text, key)


def unsealed(record: bytes, key: bytes) -> Head | None:
    """The head in a record; None if it is not one, or was sealed with another key."""
    text, mac = record[:40], record[40:]
    if len(record) != _SIZE or not hmac.compare_digest(mac, _mac(text, key)):
        return None
    return int.from_bytes(text[:8], "big"), text[8:]


def _mac(text: bytes, key: bytes) -> bytes:
    return hmac.new(key, b"tacenda mark v1\0" + text, hashlib.sha256).digest()


def _unwritten(path: Path, failed: OSError) -> StateError:
    return StateError(
        f"The mark {path} cannot be written ({failed}); nothing was sent. Free disk space or mend the disk, then start the node again: "
        "it goes on where it was."
    )
