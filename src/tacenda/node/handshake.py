"""How two members make sure of each other, beyond TLS: name, certificate fingerprint, contract, and how far each is.

TLS has checked that the certificate was signed by one of the contract's authorities. The listener then compares the caller's certificate
with the fingerprint in the contract. The caller cannot see the listener's certificate in gRPC, so the listener proves it:
it signs the caller's fresh nonce, both names and the contract's hash with the key of the pinned certificate. A member in the middle
cannot pass that on, because the signature names the caller whom the listener sees. Where neighbours share noise the signature also
covers both halves of the edge's key and its check value, and the caller confirms the key before anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from cryptography import x509

from tacenda.errors import NetworkError, StateError
from tacenda.node import wire
from tacenda.node.contract import PROTOCOL, Contract, differing_fields
from tacenda.node.edge_keys import EdgeKeys
from tacenda.node.identity import Identity, fingerprint, name_of, proof_holds

_LOST = (
    "the state was lost or is an old copy. Going on would spend twice; restore the newest state, or leave the run (where the contract "
    "says 'continue': start again once the others go on). Its spending stays as reserved in the ledger."
)

_LOST_KEY = (
    "the state was lost or is an old copy, and with it the noise shared with neighbours, which is agreed once in a run. Restore the newest "
    "state, or leave the run. Its spending stays as reserved in the ledger."
)


class Refused(NetworkError):
    """A peer, or this node, declined the conversation."""


class ContractsDiffer(Refused):
    """The two members hold different contracts."""


@dataclass
class Desk:
    """What this node says of itself when it meets a peer, and how it judges what it hears."""

    contract: Contract
    identity: Identity
    done: int = 0
    epoch: int = 0
    started: bool = False
    birth: str = ""
    recall: Callable[[str], str] = lambda peer: ""
    remember: Callable[[str, str], None] = lambda peer, birth: None
    edges: EdgeKeys | None = None

    def hello(self, peer: str, nonce: bytes) -> wire.Hello:
        halves = (b"", b"") if self.edges is None else (self.edges.half(peer), self.edges.other_half(peer))
        return wire.Hello(
            PROTOCOL, self.identity.name, peer, self.contract.hash(), self.contract.field_hashes(), self.done, self.epoch,
            self.started, nonce, self.birth, self.recall(peer), *halves,
        )  # fmt: skip

    def caller(self, auth: dict[str, Iterable[bytes]]) -> str:
        """The member behind a TLS connection, or Refused with the reason."""
        pems = list(auth.get("x509_pem_cert", ()))
        if len(pems) != 1:
            raise Refused("no client certificate")
        certificate = x509.load_pem_x509_certificate(pems[0])
        name = name_of(certificate)
        if name not in self.contract.neighbours(self.identity.name):
            raise Refused("its certificate names nobody who is a neighbour here")
        if fingerprint(certificate) != self.contract.member(name).fingerprint:
            raise Refused(f"its certificate names {name} but is not the one in the contract")
        return name

    def read(self, data: bytes, limit: int, caller: str) -> wire.Frame:
        """A caller's first frame; one of another version of the program is refused in words, whatever its fields are."""
        spoken = wire.protocol_of(data) if len(data) <= limit else None
        if spoken is not None:
            self._same_protocol(spoken, caller)
        return wire.decode(data, limit)

    def welcome(self, hello: wire.Frame, caller: str) -> wire.Welcome:
        """The answer to a caller's hello; Refused if it does not fit."""
        if not isinstance(hello, wire.Hello):
            raise wire.BadFrame("something else than a hello at first.")
        self._same_protocol(hello.protocol, caller)
        if hello.sender != caller or hello.receiver != self.identity.name:
            raise Refused("the hello is from or for somebody else")
        self._same_contract(hello, caller)
        if hello.knows not in ("", self.birth) and hello.epoch == self.epoch:
            raise StateError(f"{caller} knows another state of this node: {_LOST}")
        if self.edges is not None and hello.other_half not in (b"", self.edges.half(caller)):
            raise StateError(f"{caller} holds an edge key of another state of this node: {_LOST_KEY}")
        self._same_age(hello.done, hello.epoch, hello.birth, caller, hello.half)
        half, check = self._agreed(hello, caller)
        challenge = self._challenge(hello.nonce, caller, self.identity.name, hello.half, half, check)
        _, pem = self.identity.tls_pem()
        proof = self.identity.prove(challenge)
        return wire.Welcome(self.identity.name, self.done, self.epoch, self.started, pem, proof, self.birth, half, check)

    def check_welcome(self, frame: wire.Frame, peer: str, nonce: bytes) -> wire.Welcome:
        """The listener's answer, if it is the pinned member and not far ahead of a state that was lost."""
        if isinstance(frame, wire.Refusal):
            if frame.reason.startswith("contract"):
                raise ContractsDiffer(f"{peer} refuses: {frame.reason}")
            if frame.reason.startswith("state") and self.done == 0:
                raise StateError(f"{peer} refuses: {frame.reason}. {_LOST}")
            raise Refused(f"{peer} refuses: {frame.reason}")
        if not isinstance(frame, wire.Welcome):
            raise wire.BadFrame("something else than a welcome at first.")
        try:
            certificate = x509.load_pem_x509_certificate(frame.certificate)
        except ValueError:
            raise wire.BadFrame("a certificate that cannot be read.") from None
        if fingerprint(certificate) != self.contract.member(peer).fingerprint:
            raise Refused(f"{peer} shows a certificate that is not the one in the contract")
        mine = b"" if self.edges is None else self.edges.half(peer)
        challenge = self._challenge(nonce, self.identity.name, peer, mine, frame.half, frame.check)
        if not proof_holds(certificate, challenge, frame.proof):
            raise Refused(f"{peer} does not hold the key of its certificate")
        self._same_age(frame.done, frame.epoch, frame.birth, peer, frame.half)
        if self.edges is not None:
            self.edges.agree(peer, frame.half, confirmed=True, check=frame.check)
        return frame

    def confirmation(self, peer: str) -> wire.Confirm | None:
        """What the caller says after the welcome, where neighbours share noise."""
        return None if self.edges is None else wire.Confirm(self.edges.check(peer))

    def confirmed(self, frame: wire.Frame, caller: str) -> None:
        """The caller's confirmation, or BadFrame."""
        if self.edges is None or not isinstance(frame, wire.Confirm):
            raise wire.BadFrame("something else than a check value of the edge's key.")
        self.edges.confirm(caller, frame.check)

    def _agreed(self, hello: wire.Hello, caller: str) -> tuple[bytes, bytes]:
        """The listener's half of the edge's key, and its check value; both empty where neighbours share no noise."""
        if self.edges is None:
            return b"", b""
        half = self.edges.half(caller)
        self.edges.agree(caller, hello.half)
        return half, self.edges.check(caller)

    def _same_protocol(self, spoken: int, caller: str) -> None:
        if spoken != PROTOCOL:
            raise Refused(
                f"protocol {spoken} is spoken by {caller} and {PROTOCOL} by {self.identity.name}; install the same version of "
                "Tacenda at both"
            )

    def _same_contract(self, hello: wire.Hello, caller: str) -> None:
        if hello.contract == self.contract.hash():
            return
        fields = differing_fields(self.contract.field_hashes(), hello.fields)
        shown = ", ".join(fields[:8]) + (", ..." if len(fields) > 8 else "")
        raise ContractsDiffer(f"contracts of {self.identity.name} and {caller} differ in: {shown}")

    def _same_age(self, done: int, epoch: int, birth: str, peer: str, half: bytes) -> None:
        """A peer keeps its state folder, and is never more than a round ahead, unless this state was lost or is an old copy."""
        if self.edges is not None and self.edges.other_half(peer) not in (b"", half):
            raise Refused(
                f"state of {peer} was lost, and with it the noise shared with this node: {peer} cannot take part again"
            )
        if epoch == self.epoch and self.recall(peer) not in ("", birth):
            raise Refused(
                f"state of {peer} is not the one it has sent messages from: it was lost, and going on would spend twice"
            )
        if epoch == self.epoch and done > self.done + 1:
            if self.started:  # one peer's word is not enough to stop a node that has a history
                raise Refused(f"{peer} claims round {done}, which it cannot have reached with this node's messages")
            raise StateError(
                f"{peer} has finished round {done} with messages of this node, whose state knows only round {self.done}: {_LOST}"
            )
        if epoch == self.epoch and self.done > done + 1:
            raise Refused(f"state of {peer} is older than what it has sent before: it was lost or is an old copy")
        self.remember(peer, birth)

    def _challenge(self, nonce: bytes, caller: str, listener: str, *edge: bytes) -> bytes:
        """`edge`: the caller's half, the listener's half and the check value of the edge's key; fixed lengths, or all empty."""
        names = f"\0{caller}\0{listener}\0".encode()
        return b"tacenda welcome v1\0" + nonce + self.contract.hash().encode() + names + b"".join(edge)


def plain_auth(context: Any) -> dict[str, Iterable[bytes]]:
    """gRPC's authentication context as a plain dictionary."""
    found: dict[str, Iterable[bytes]] = context.auth_context()
    return found
