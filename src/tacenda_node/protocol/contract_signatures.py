"""The members' signatures of the contract, which nodes show each other until everybody holds all.

A node starts with its own member's signature. Neighbours send each other all that they hold, and
pass on what is new, so the signatures go round on any connected graph. Every one is checked against
the signing key that the contract names for its member, and is durable before it is passed on.
Before all are here, no record is read, nothing is charged, and no key of an edge is agreed.
"""

from __future__ import annotations

import threading
from typing import Any

from tacenda_node.identity.certificates import text_signed
from tacenda_node.identity.contract import Contract
from tacenda_node.identity.contract_files import signed_text
from tacenda_node.protocol import frames
from tacenda_node.state.database import NodeState

MOST_WORDS = 200  # on one member: in letters of four bytes, below what a frame has for each


class ContractSignatures:
    """The signatures of one text that this node holds. Used by the network's and the algorithm's
    thread.

    given: from the file beside the contract, checked there.
    """

    def __init__(self, contract: Contract, given: dict[str, str], state: NodeState) -> None:
        self.contract, self.hash = contract, contract.hash()
        self._text, self._state = signed_text(contract), state
        self._note = f"signatures {self.hash}"
        self._mutex = threading.Lock()
        kept: dict[str, str] = state.noted(self._note) or {}
        self._held = {**{k: v for k, v in kept.items() if self._holds(k, v)}, **given}
        self.trouble: dict[str, str] = {}

    @property
    def missing(self) -> list[str]:
        """The members who must sign and whose signature is not here, in the contract's order."""
        with self._mutex:
            return [name for name in self.contract.signatories if name not in self._held]

    @property
    def complete(self) -> bool:
        return not self.missing

    def add(self, given: dict[str, str]) -> bool:
        """Keep checked signatures; whether one was new."""
        with self._mutex:
            news = {name: text for name, text in given.items() if name not in self._held}
            if news:
                self._held |= news
                self._state.note(self._note, self._held)
            return bool(news)

    def take(self, peer: str, frame: frames.Signatures) -> bool:
        """Keep what a neighbour shows; whether any of it was new. BadFrame, and nothing is kept,
        where a signature is not its member's."""
        fresh = {}
        for name, text in frame.signatures.items():
            if name not in self.contract.names:
                raise frames.BadFrame("a signature of the contract by somebody who is not in it.")
            if self._held.get(name) == text:
                continue
            if not self._holds(name, text):
                raise frames.BadFrame(f"a signature of the contract that is not {name}'s.")
            fresh[name] = text
        told = {
            name: f"{peer} says: {frames.printable(words, 300)}"
            for name, words in frame.trouble.items()
            if name in self.contract.names and name not in self.trouble
        }
        self.trouble |= told
        return self.add(fresh) or bool(told)

    def frame(self) -> frames.Signatures:
        """All that is held, for a neighbour."""
        missing = self.missing
        with self._mutex:
            trouble = {
                name: self.trouble[name][:MOST_WORDS] for name in missing if name in self.trouble
            }
            return frames.Signatures(self.hash, dict(self._held), trouble)

    def knows_more(self, frame: frames.Signatures) -> bool:
        """Whether this node holds one that the neighbour did not show."""
        with self._mutex:
            return bool(self._held.keys() - frame.signatures.keys())

    def sentence(self) -> str:
        """Whose signature is missing and why, as far as it is known; "" if none is."""
        missing = self.missing
        if not missing:
            return ""
        known = [f"{name} ({self.trouble[name]})" for name in missing if name in self.trouble]
        names = [name for name in missing if name not in self.trouble] + known
        return f"waiting for the signature of {', '.join(names)} under the contract"

    def _holds(self, name: str, signature: str) -> bool:
        return name in self.contract.names and text_signed(
            self.contract.member(name).signing_key, self._text, signature
        )


class SignatureBook:
    """The contract in force, and an amendment that not all have signed yet."""

    def __init__(self, current: ContractSignatures, log: Any) -> None:
        self.current = current
        self.pending: ContractSignatures | None = None
        self.past: set[str] = set()  # hashes of texts that were amended
        self._log = log
        self._unknown: set[tuple[str, str]] = set()

    @property
    def texts(self) -> list[ContractSignatures]:
        return [self.current] if self.pending is None else [self.current, self.pending]

    def find(self, hash: str) -> ContractSignatures | None:
        """The signatures of the text with this hash, if it is one of these."""
        return next((text for text in self.texts if text.hash == hash), None)

    def unknown(self, peer: str, hash: str) -> None:
        """A neighbour shows signatures of a text that is not here: the operator is told once."""
        known = hash in self.past or (peer, hash) in self._unknown
        if not known and len(self._unknown) < 1000:
            self._unknown.add((peer, hash))
            self._log.warning(
                "amendment not here",
                peer=peer,
                message=f"{peer} holds signatures of a contract text (hash {hash[:16]}) that is "
                "not here; ask it for the amendment, read it, sign it and put it beside the "
                "contract",
            )
