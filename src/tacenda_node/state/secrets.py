"""The secrets of a run at rest: a chain of keys for the member's own noise, one for every edge, and
the private halves from which the edges' keys are made.

They lie in the state's file, encrypted as one value under a secret that lies in the mark alone.
Whenever noise has been charged for, both go on in one transaction with the charges: the chains pass
the places that were used, and they are encrypted under the next secret, which follows from the one
before by a one-way step. The mark then takes the next secret in place of the one before. From there
on older values, which the file and its write-ahead log may hold for long, open for nobody.

    charges, what was released, and the chains under secret s + 1, in one transaction
        ->   the mark holds secret s + 1   ->   message sent

After a crash between the first two the mark holds secret s, from which s + 1 is made.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import msgpack

from tacenda.errors import StateError
from tacenda.privacy.lasting.sqlite_file import SqliteFile
from tacenda.privacy.noise.key_chain import KeyChain, Place
from tacenda_node.state.mark import NO_SECRET, SECRET

TABLE = """
CREATE TABLE IF NOT EXISTS secrets (
    one INTEGER PRIMARY KEY CHECK (one = 1), sealed BLOB NOT NULL);
"""
NOISE = "noise"
EDGE = "edge "  # before a peer's name
_NONCE = 12


def next_secret(secret: bytes) -> bytes:
    """The secret that follows; nobody finds the one before from it."""
    return hmac.digest(secret, b"tacenda secrets next v1", "sha256")


def sealed(values: dict[str, bytes], secret: bytes) -> bytes:
    """All values under one secret."""
    nonce = os.urandom(_NONCE)
    return nonce + _cipher(secret).encrypt(nonce, msgpack.encode(values), None)


def opened(data: bytes, secret: bytes) -> dict[str, bytes] | None:
    """The values, or None if they are not under this secret."""
    try:
        plain = _cipher(secret).decrypt(data[:_NONCE], data[_NONCE:], None)
    except InvalidTag:
        return None
    return msgpack.decode(plain, type=dict[str, bytes])


def _cipher(secret: bytes) -> AESGCM:
    return AESGCM(hmac.digest(secret, b"tacenda secrets seal v1", "sha256"))


@dataclass(frozen=True)
class Changed:
    """Secrets that are in the file, and not in the mark yet."""

    secret: bytes
    values: dict[str, bytes]


class Secrets:
    """The secrets of one state, once its mark is there."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._secret = NO_SECRET
        self._values: dict[str, bytes] = {}
        self._chains: dict[str, KeyChain] = {}
        self.are_open = False

    @staticmethod
    def fresh() -> bytes:
        """A secret for a new mark."""
        return os.urandom(SECRET)

    @property
    def are_stored(self) -> bool:
        return self._file.one("SELECT 1 FROM secrets") is not None

    @property
    def now(self) -> Changed:
        """The secrets as the mark holds them."""
        return Changed(self._secret, self._values)

    def open(self, secret: bytes) -> Changed:
        """Open what is there with the mark's secret, or begin; what the mark must then hold."""
        row = self._file.one("SELECT sealed FROM secrets")
        if row is None:
            with self._file.writing():
                return self._write({NOISE: KeyChain.begin(os.urandom(SECRET)).to_bytes()}, secret)
        for each in (secret, next_secret(secret)):
            values = opened(bytes(row[0]), each)
            if values is not None:
                return Changed(each, values)
        raise StateError(
            "The keys of this run do not open with its mark: the state or the mark is an old copy. "
            "Nothing was drawn or sent; put the newest of both back, or leave the run."
        )

    def change(self, values: dict[str, bytes], forget: Iterable[str] = ()) -> Changed:
        """Write some values, and destroy others; only inside `writing`."""
        left = set(forget)
        kept = {name: value for name, value in self._values.items() if name not in left}
        return self._write(kept | values)

    def behind(self, places: Iterable[Place]) -> Changed | None:
        """Pass these places in all chains; only inside `writing`."""
        last = max(places, default=None)
        if last is None or not self.are_open:
            return None
        moved = {name: self._chain(name).behind(last).to_bytes() for name in self._names()}
        return self._write(self._values | moved)

    def keep(self, changed: Changed) -> None:
        """From here on these are the secrets: the mark holds them."""
        self._secret, self._values = changed.secret, changed.values
        self._chains, self.are_open = {}, True

    def destroyed(self) -> Changed:
        """Remove all, in a transaction of its own; the mark must then hold no secret."""
        with self._file.writing():
            self._file.execute("DELETE FROM secrets")
        return Changed(NO_SECRET, {})

    def get(self, name: str) -> bytes | None:
        """One of the values."""
        return self._values.get(name)

    def key(self, name: str, place: Place) -> bytes:
        """The key of a place in one of the chains."""
        return self._chain(name).key(place)

    def has_passed(self, name: str, place: Place) -> bool:
        return self._chain(name).has_passed(place)

    def _names(self) -> list[str]:
        return [name for name in self._values if name == NOISE or name.startswith(EDGE)]

    def _chain(self, name: str) -> KeyChain:
        found = self._chains.get(name)
        if found is None:
            raw = self._values.get(name)
            if raw is None:
                raise StateError(
                    "The keys of this run are not here any more, or not yet; nothing was drawn."
                )
            found = self._chains[name] = KeyChain.from_bytes(raw)
        return found

    def _write(self, values: dict[str, bytes], secret: bytes | None = None) -> Changed:
        # Also after a mark that could not be written: the file then holds this same secret already
        secret = next_secret(self._secret) if secret is None else secret
        data = sealed(values, secret)
        self._file.execute("INSERT OR REPLACE INTO secrets VALUES (1, ?)", data)
        return Changed(secret, values)


@dataclass(frozen=True)
class NamedKeys:
    """One of the chains, as the noise asks for its keys."""

    secrets: Secrets
    name: str

    def key(self, place: Place) -> bytes:
        return self.secrets.key(self.name, place)

    def has_passed(self, place: Place) -> bool:
        return self.secrets.has_passed(self.name, place)
