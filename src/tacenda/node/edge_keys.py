"""The secret that the two ends of an edge share, from which both draw the edge's noise (one adds it, the other subtracts it).

Each end makes one X25519 key per run and edge. The public halves travel in the hello and the welcome: the caller's inside TLS with its
pinned certificate, the listener's under the signature that also covers the caller's. Both ends then hold

    key = HKDF-SHA256(X25519 secret, salt = run id, info = both names in the contract's order and both public halves)

and show each other a check value of it, which tells nothing of the key. It is durable before it is used and never agreed anew: after a
crash or a reconnection it is the same key, and a peer with another public half is one whose state was lost.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacenda.errors import StateError
from tacenda.node.contract import Contract
from tacenda.node.state import NodeState
from tacenda.node.wire import BadFrame

HALF = 32  # bytes of a public half, a private one, and of the key


class EdgeKeys:
    """The edge keys of one member, kept in its state folder; used by the network thread and, to draw, by the algorithm's."""

    def __init__(self, contract: Contract, name: str, state: NodeState) -> None:
        self._contract, self._me, self._state = contract, name, state
        self._final: dict[str, bytes] = {}  # rows that were confirmed, which never change

    def half(self, peer: str) -> bytes:
        """This member's public half for the edge to `peer`; made, and durable, at the first call."""
        row = self._row(peer)
        if row is not None:
            return row[:HALF]
        raw = self._state.get(f"edge half {peer}")
        if raw is None:
            raw = X25519PrivateKey.generate().private_bytes_raw()
            self._state.put({f"edge half {peer}": raw})
        return X25519PrivateKey.from_private_bytes(raw).public_key().public_bytes_raw()

    def other_half(self, peer: str) -> bytes:
        """The peer's public half as it is known here, b"" before the first meeting."""
        row = self._row(peer)
        return b"" if row is None else row[HALF : 2 * HALF]

    def agree(self, peer: str, half: bytes, *, confirmed: bool = False, check: bytes | None = None) -> None:
        """Make the key from the peer's public half, or see that it is the known one; `check` is the peer's check value."""
        mine, row = self.half(peer), self._row(peer)
        if row is not None and row[HALF : 2 * HALF] != half:
            raise BadFrame("another half of the edge's key than before.")
        key = self._derive(peer, mine, half) if row is None else row[2 * HALF : 3 * HALF]
        if check is not None and not hmac.compare_digest(check, _check(key)):
            raise BadFrame("a check value of another edge key.")
        if row is None or (confirmed and not row[-1]):
            # The private half has done its work; without it only this folder knows the key.
            self._state.put({f"edge {peer}": mine + half + key + bytes([confirmed])}, forget=[f"edge half {peer}"])

    def confirm(self, peer: str, check: bytes) -> None:
        """The peer has shown that it holds the same key."""
        self.agree(peer, self.other_half(peer), confirmed=True, check=check)

    def check(self, peer: str) -> bytes:
        """This member's check value for the peer."""
        return _check(self.of(peer))

    def of(self, peer: str) -> bytes:
        """The edge's key, 32 bytes."""
        row = self._row(peer)
        if row is None:
            raise StateError(f"The edge to {peer} has no key yet; it is agreed when the two nodes meet.")
        return row[2 * HALF : 3 * HALF]

    def missing(self, peers: Iterable[str]) -> list[str]:
        """Those of `peers` who have not shown yet that they hold the same key."""
        rows = {peer: self._row(peer) for peer in peers}
        return [peer for peer, row in rows.items() if row is None or not row[-1]]

    def _row(self, peer: str) -> bytes | None:
        """own public half + the peer's + key + whether the peer has confirmed it."""
        if peer in self._final:
            return self._final[peer]
        row = self._state.get(f"edge {peer}")
        if row is not None and len(row) != 3 * HALF + 1:
            raise StateError(
                f"The key of the edge to {peer} in {self._state.folder} is damaged; restore the folder from a backup."
            )
        if row is not None and row[-1]:
            self._final[peer] = row
        return row

    def _derive(self, peer: str, mine: bytes, theirs: bytes) -> bytes:
        raw = self._state.get(f"edge half {peer}")
        if raw is None:
            raise StateError(
                f"The half of the edge's key for {peer} is gone from {self._state.folder}; restore it from a backup."
            )
        try:
            secret = X25519PrivateKey.from_private_bytes(raw).exchange(X25519PublicKey.from_public_bytes(theirs))
        except ValueError:
            raise BadFrame("a half of an edge key that is no point of the curve, or a weak one.") from None
        ends = sorted([(self._contract.position(self._me), self._me, mine), (self._contract.position(peer), peer, theirs)])
        info = b"tacenda edge v1" + b"".join(b"\0" + name.encode() + b"\0" + half for _, name, half in ends)
        salt = bytes.fromhex(self._contract.run_id())
        return HKDF(algorithm=hashes.SHA256(), length=HALF, salt=salt, info=info).derive(secret)


def _check(key: bytes) -> bytes:
    return hmac.new(key, b"tacenda edge check v1", hashlib.sha256).digest()[:16]
