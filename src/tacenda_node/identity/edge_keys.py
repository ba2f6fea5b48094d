"""The secret that the two ends of an edge share, from which both draw the edge's noise (one adds
it, the other subtracts it).

Two key exchanges at once, so that the key is secret as long as either holds: X25519, and
ML-KEM-768, which is made to hold against quantum computers. Each end makes its part once per run
and edge. The caller's half (X25519 and ML-KEM public keys) travels in the hello, inside TLS with
its pinned certificate; the listener's half (X25519 public key and ML-KEM ciphertext) in the
welcome, under the signature that also covers the caller's. Both ends then hold

    key = HKDF-SHA256(X25519 secret + ML-KEM secret, salt = run id,
                      info = both names in the contract's order and both halves)

and show each other a check value of it, which tells nothing of the key. It begins a chain of keys,
one for each place of the run, that both ends pass alike; the chain is durable before it is used and
never begun anew: after a crash or a reconnection it is the same, and a peer with another half is
one whose state was lost. Private halves and chains are kept as `state.secrets`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacenda.errors import StateError
from tacenda.privacy.noise.key_chain import KeyChain
from tacenda_node.identity.contract import Contract
from tacenda_node.protocol.frames import BadFrame
from tacenda_node.state.database import NodeState
from tacenda_node.state.secrets import EDGE, NamedKeys

CURVE = 32  # bytes of an X25519 key, public or private, of either secret, and of the edge's key
SEED = 64  # of an ML-KEM private key
CALLER = CURVE + 1184  # of the caller's half: X25519 and ML-KEM public keys
LISTENER = CURVE + 1088  # of the listener's half: X25519 public key and ML-KEM ciphertext
CHECK = 16
Row = tuple[bytes, bytes, bytes, bool]  # own half, the peer's, check value, whether it is confirmed


class EdgeKeys:
    """The edge keys of one member, kept in its state folder; used by the network thread and, to
    draw, by the algorithm's."""

    def __init__(self, contract: Contract, name: str, state: NodeState) -> None:
        self._contract, self._me, self._state = contract, name, state
        self._final: dict[str, Row] = {}  # those that were confirmed, which never change

    def half(self, peer: str) -> bytes:
        """This member's half for the edge to `peer`: the agreed one, or the one with which it
        calls; durable at the first call."""
        row = self._row(peer)
        if row is not None:
            return row[0]
        curve, lattice = self._halves(peer)
        return curve.public_key().public_bytes_raw() + lattice.public_key().public_bytes_raw()

    def mark(self, peer: str) -> bytes:
        """The X25519 part of this member's half, by which it is known whoever calls."""
        return self.half(peer)[:CURVE]

    def other_half(self, peer: str) -> bytes:
        """The peer's half as it is known here, b"" before the first meeting."""
        row = self._row(peer)
        return b"" if row is None else row[1]

    def agree(
        self, peer: str, half: bytes, *, confirmed: bool = False, check: bytes | None = None
    ) -> None:
        """Make the key from the peer's half, or see that it is the known one;
        `check` is the peer's check value."""
        row = self._row(peer)
        if row is not None and row[1] != half:
            raise BadFrame("another half of the edge's key than before.")
        key = b""
        if row is None:
            mine, key = self._derive(peer, half)
            row = (mine, half, _check(key), False)
        if check is not None and not hmac.compare_digest(check, row[2]):
            raise BadFrame("a check value of another edge key.")
        agreed = {
            f"edge {peer}": bytes([len(row[0]) == CALLER, confirmed]) + row[2] + row[0] + half
        }
        if key:
            # The private half has done its work; without it only the two ends know the key
            chain = {f"{EDGE}{peer}": KeyChain.begin(key).to_bytes()}
            self._state.keep_secrets(chain, forget=[_private(peer)], public=agreed)
        elif confirmed and not row[3]:
            self._state.put(agreed)

    def confirm(self, peer: str, check: bytes) -> None:
        """The peer has shown that it holds the same key."""
        self.agree(peer, self.other_half(peer), confirmed=True, check=check)

    def check(self, peer: str) -> bytes:
        """This member's check value for the peer."""
        return self._agreed(peer)[2]

    def chain(self, peer: str) -> NamedKeys:
        """The edge's keys."""
        self._agreed(peer)
        return self._state.keys(f"{EDGE}{peer}")

    def _agreed(self, peer: str) -> Row:
        row = self._row(peer)
        if row is None:
            raise StateError(
                f"The edge to {peer} has no key yet; it is agreed when the two nodes meet."
            )
        return row

    def missing(self, peers: Iterable[str]) -> list[str]:
        """Those of `peers` who have not shown yet that they hold the same key."""
        rows = {peer: self._row(peer) for peer in peers}
        return [peer for peer, row in rows.items() if row is None or not row[3]]

    def _row(self, peer: str) -> Row | None:
        """What is known of the edge, once its key was made."""
        if peer in self._final:
            return self._final[peer]
        raw = self._state.get(f"edge {peer}")
        if raw is None:
            return None
        if len(raw) != 2 + CHECK + CALLER + LISTENER:
            raise StateError(
                f"The key of the edge to {peer} in {self._state.folder} is damaged; "
                "restore the folder from a backup."
            )
        check, halves = raw[2 : 2 + CHECK], raw[2 + CHECK :]
        at = CALLER if raw[0] else LISTENER
        row = (halves[:at], halves[at:], check, bool(raw[1]))
        if row[3]:
            self._final[peer] = row
        return row

    def _halves(self, peer: str) -> tuple[X25519PrivateKey, MLKEM768PrivateKey]:
        raw = self._state.secret(_private(peer))
        if raw is None:
            raw = (
                X25519PrivateKey.generate().private_bytes_raw()
                + MLKEM768PrivateKey.generate().private_bytes_raw()
            )
            self._state.keep_secrets({_private(peer): raw})
        if len(raw) != CURVE + SEED:
            raise StateError(
                f"The half of the edge's key for {peer} in {self._state.folder} is damaged; "
                "restore the folder from a backup."
            )
        return X25519PrivateKey.from_private_bytes(raw[:CURVE]), MLKEM768PrivateKey.from_seed_bytes(
            raw[CURVE:]
        )

    def _derive(self, peer: str, theirs: bytes) -> tuple[bytes, bytes]:
        """(own half, key): who receives a public key answers with a ciphertext, who receives a
        ciphertext opens it."""
        curve, lattice = self._halves(peer)
        point, rest = theirs[:CURVE], theirs[CURVE:]
        try:
            if len(theirs) == CALLER:
                second, answer = MLKEM768PublicKey.from_public_bytes(rest).encapsulate()
            elif len(theirs) == LISTENER:
                second, answer = lattice.decapsulate(rest), lattice.public_key().public_bytes_raw()
            else:
                raise BadFrame(
                    f"a half of an edge key with {len(theirs)} bytes, "
                    f"where {CALLER} or {LISTENER} are expected."
                )
            first = curve.exchange(X25519PublicKey.from_public_bytes(point))
        except ValueError:
            raise BadFrame("a half of an edge key that is no key, or a weak one.") from None
        mine = curve.public_key().public_bytes_raw() + answer
        ends = sorted(
            [
                (self._contract.position(self._me), self._me, mine),
                (self._contract.position(peer), peer, theirs),
            ]
        )
        return mine, combine(
            first, second, self._contract.run_id(), [(name, half) for _, name, half in ends]
        )


def combine(first: bytes, second: bytes, run: str, ends: list[tuple[str, bytes]]) -> bytes:
    """The edge's key from both secrets and all that was said;
    `ends` are names and halves in the contract's order."""
    info = b"tacenda edge v2" + b"".join(
        b"\0" + name.encode() + b"\0" + hashlib.sha256(half).digest() for name, half in ends
    )
    return HKDF(algorithm=hashes.SHA256(), length=CURVE, salt=bytes.fromhex(run), info=info).derive(
        first + second
    )


def _check(key: bytes) -> bytes:
    return hmac.new(key, b"tacenda edge check v2", hashlib.sha256).digest()[:CHECK]


def _private(peer: str) -> str:
    """The name of the private half for a peer."""
    return f"private {peer}"
