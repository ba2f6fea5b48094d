"""What a release was asked, as 32 bytes: the part of a real node's noise stream's name that keeps
two questions apart.

A release is a function of the records and of its *question*: the point or the terms at which the
records are read, the public factor and offset, and the noise. The digest is taken over all of
these, byte by byte, so another question never meets the same noise, while the same step done again
after a crash does. Everything in it is public; the records are not in it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np


def digest(*parts: Any) -> bytes:
    """SHA-256 over the parts' kinds, lengths and bytes: two lists of parts have one digest only if
    they are equal bit by bit."""
    whole = hashlib.sha256(b"tacenda question v1")
    for part in parts:
        kind, data = _plain(part)
        whole.update(len(kind).to_bytes(8, "big") + kind + len(data).to_bytes(8, "big"))
        whole.update(data)
    return whole.digest()


def _plain(part: Any) -> tuple[bytes, bytes]:
    if part is None:
        return b"none", b""
    if isinstance(part, bytes):
        return b"bytes", part
    if isinstance(part, str):
        return b"text", part.encode()
    if isinstance(part, (bool, int)):  # before numpy: a Python number has no dtype of its own
        return type(part).__name__.encode(), str(int(part)).encode()
    array = np.asarray(part)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            "a question is made of numbers, arrays of numbers, texts and bytes, "
            f"not of a {type(part).__name__}."
        )
    return f"array {array.dtype.str} {array.shape}".encode(), array.tobytes()
