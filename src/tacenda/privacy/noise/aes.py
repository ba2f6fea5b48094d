"""Keyed random words for a real node: AES-256 in counter mode, one stream for every (run, round,
call).

The stream's own AES key is HMAC-SHA256(key, name), so streams with different names are independent
and no nonce can be used twice; with the same key and name a resumed node draws the same words
again, which it must, because a release redone with fresh noise would be a second release. The key
comes from the operating system and never leaves the node.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.checks import whole
from tacenda.errors import InputError

Words = NDArray[np.uint64]
KEY_BYTES = 32


@dataclass
class AesStream:
    """A sequence of uniform 64-bit words named by (run, round, call) under a secret 32-byte `key`.

    Reading moves on: two reads of n words give the same as one of 2n. `spare` names a side stream
    (used by rare fallbacks, so that the main stream's position does not depend on them).
    """

    key: bytes = field(repr=False)
    run: str = ""
    round: int = 0
    call: int = 0
    spare: int = 0
    _cipher: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.key, bytes) or len(self.key) != KEY_BYTES:
            found = (
                f"{len(self.key)} bytes" if isinstance(self.key, bytes) else type(self.key).__name__
            )
            raise InputError(
                f"key must be {KEY_BYTES} secret bytes, not {found}; use AesStream.fresh() "
                "or os.urandom(32)."
            )
        for name in ("round", "call", "spare"):
            whole(name, getattr(self, name))

    @classmethod
    def fresh(cls) -> AesStream:
        """A stream nobody can repeat: its key is the operating system's entropy."""
        return cls(os.urandom(KEY_BYTES))

    def words(self, count: int) -> Words:
        """The next `count` words, shape (count,)."""
        data = self._open().update(bytes(8 * count))
        return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False)

    def side(self) -> AesStream:
        """The next side stream of the same name, opened at its start."""
        return AesStream(self.key, self.run, self.round, self.call, self.spare + 1)

    def _open(self) -> Any:
        if self._cipher is None:
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

            run = self.run.encode()
            name = b"tacenda noise v1" + len(run).to_bytes(8, "big") + run
            name += b"".join(
                int(part).to_bytes(8, "big") for part in (self.round, self.call, self.spare)
            )
            own = hmac.new(self.key, name, hashlib.sha256).digest()
            self._cipher = Cipher(algorithms.AES(own), modes.CTR(bytes(16))).encryptor()
        return self._cipher

    def __reduce__(self) -> Any:
        raise TypeError(
            "an AesStream holds a node's noise key and cannot be pickled; "
            "keep the key in the node's own store."
        )
