"""How two members make sure of each other, beyond TLS: name, certificate fingerprint, contract, and
how far each is.

TLS has checked that the certificate was signed by one of the contract's authorities. The listener
then compares the caller's certificate with the fingerprint in the contract. The caller cannot see
the listener's certificate in gRPC, so the listener proves it: it signs the caller's fresh nonce,
both names and the contract's hash with the key of the pinned certificate. A member in the middle
cannot pass that on, because the signature names the caller whom the listener sees. Where neighbours
share noise the signature also covers both halves of the edge's key and its check value, and the
caller confirms the key before anything else.

Each side shows what the other has signed (`claims`). A peer's word may end the edge, never the
node: only this node's own signature on something that its state does not hold stops it. And a peer
whose state is behind its own signature is refused at once, to the very call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cryptography import x509

from tacenda.errors import NetworkError
from tacenda.node.identity.certificates import Identity, fingerprint, is_named, proof_holds
from tacenda.node.identity.contract import PROTOCOL, Contract, differing_fields
from tacenda.node.identity.edge_keys import EdgeKeys
from tacenda.node.protocol import wire
from tacenda.node.protocol.signed_rows import LOST, LOST_KEY, Witness, row_text, state_text


class Refused(NetworkError):
    """A peer, or this node, declined the conversation;
    `shown` is what the refused one has signed itself."""

    def __init__(self, reason: str, shown: wire.Shown | None = None) -> None:
        super().__init__(reason)
        self.shown = shown or wire.Shown()


class ContractsDiffer(Refused):
    """The two members hold different contracts."""


@dataclass
class Handshake:
    """What this node says of itself when it meets a peer, and how it judges what it hears.

    lost: the view in which this node may send nothing, because an empty state takes the place of a
    lost one (-1: none).
    """

    contract: Contract
    identity: Identity
    witness: Witness
    done: int = 0
    view: int = 0
    started: bool = False
    state_id: str = ""
    edges: EdgeKeys | None = None
    lost: int = -1

    def hello(self, peer: str, nonce: bytes) -> wire.Hello:
        half = b"" if self.edges is None else self.edges.half(peer)
        return wire.Hello(
            PROTOCOL,
            self.identity.name,
            peer,
            self.contract.hash(),
            self.contract.field_hashes(),
            self.done,
            self.view,
            self.started,
            nonce,
            self.witness.latest,
            self._introduction(peer),
            self.witness.shown(peer),
            half,
        )

    def caller(self, auth: dict[str, Iterable[bytes]]) -> str:
        """The member behind a TLS connection, or Refused with the reason."""
        pems = list(auth.get("x509_pem_cert", ()))
        if len(pems) != 1:
            raise Refused("no client certificate")
        certificate = x509.load_pem_x509_certificate(pems[0])
        near, mark = self.contract.neighbours(self.identity.name), fingerprint(certificate)
        named = [name for name in near if is_named(certificate, name)]
        if not named:
            raise Refused("its certificate names nobody who is a neighbour here")
        for name in named:
            if self.contract.member(name).fingerprint == mark:
                return name
        raise Refused(f"its certificate names {named[0]} but is not the one in the contract")

    def read(self, data: bytes, limit: int, caller: str) -> wire.Frame:
        """A caller's first frame; one of another version of the program is refused in words,
        whatever its fields are."""
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
        self._judge(hello, caller)
        half, check = self._agreed(hello, caller)
        challenge = self._challenge(
            hello.nonce, caller, self.identity.name, hello.half, half, check
        )
        _, pem = self.identity.tls_pem()
        proof = self.identity.prove(challenge)
        return wire.Welcome(
            self.identity.name,
            self.done,
            self.view,
            self.started,
            pem,
            proof,
            self.witness.latest,
            self._introduction(caller),
            self.witness.shown(caller),
            half,
            check,
        )

    def check_welcome(self, frame: wire.Frame, peer: str, nonce: bytes) -> wire.Welcome:
        """The listener's answer,
        if it is the pinned member and its state is the newest that is known."""
        if isinstance(frame, wire.Refusal):
            self._judge_shown(frame.shown, peer, self.view)
            reason = f"{peer} refuses: {wire.printable(frame.reason)}"
            raise (
                ContractsDiffer(reason) if frame.reason.startswith("contract") else Refused(reason)
            )
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
        self._judge(frame, peer)
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
        """The listener's half of the edge's key, and its check value; both empty where neighbours
        share no noise."""
        if self.edges is None:
            return b"", b""
        self.edges.agree(caller, hello.half)
        return self.edges.half(caller), self.edges.check(caller)

    def _same_protocol(self, spoken: int, caller: str) -> None:
        if spoken != PROTOCOL:
            raise Refused(
                f"protocol {spoken} is spoken by {caller} and {PROTOCOL} by "
                f"{self.identity.name}; install the same version of Tacenda at both"
            )

    def _same_contract(self, hello: wire.Hello, caller: str) -> None:
        if hello.contract == self.contract.hash():
            return
        fields = differing_fields(self.contract.field_hashes(), hello.fields)
        shown = ", ".join(wire.printable(field, 80) for field in fields[:8]) + (
            ", ..." if len(fields) > 8 else ""
        )
        raise ContractsDiffer(f"contracts of {self.identity.name} and {caller} differ in: {shown}")

    def _introduction(self, peer: str) -> wire.Introduction:
        return self.witness.introduce(
            peer, self.state_id, self.view, b"" if self.edges is None else self.edges.mark(peer)
        )

    def _judge(self, frame: wire.Hello | wire.Welcome, peer: str) -> None:
        """This node's own state by what the peer shows, then the peer's by what is kept here; what
        it says is then kept."""
        me, witness = self.identity.name, self.witness
        if frame.me.half != frame.half[:32] or not witness.introduced(peer, me, frame.me):
            raise wire.BadFrame("an introduction that it has not signed.")
        self._judge_shown(frame.shown, peer, frame.view)
        known, row, shown = witness.known_state(peer), witness.latest_of(peer), witness.shown(peer)
        if self.edges is not None and known is not None and known.half != frame.me.half:
            raise Refused(
                f"state of {peer} was lost, and with it the noise shared with this node: "
                f"{peer} cannot take part again",
                shown,
            )
        if known is not None and known.state_id != frame.me.state_id and frame.view == self.view:
            raise Refused(
                f"state of {peer} is not the one it took part with: it was lost, "
                "and going on would spend twice",
                shown,
            )
        # It may come back; all that it had reserved counts as spent
        empty = not frame.started and frame.view < self.view
        if row is not None and row.key > frame.latest and not empty:
            raise Refused(
                f"state of {peer} is older than what it has signed, round {row.round}, "
                f"call {row.call}: it was lost or is an old copy",
                shown,
            )
        if frame.view == self.view and frame.done > self.done + 1:
            raise Refused(
                f"{peer} claims round {frame.done}, and shows no message of this node for it"
            )
        witness.keep_state(peer, frame.me)

    def _judge_shown(self, shown: wire.Shown, peer: str, view: int) -> None:
        """What the peer shows with this node's own signature. StateError, only here, if this state
        does not hold what was signed."""
        me, witness, run = self.identity.name, self.witness, self.contract.run_id()
        row, state = shown.row, shown.state
        if row is not None and (row.member != me or not witness.holds(row)):
            raise wire.BadFrame("a message as this node's which this node has not signed.")
        if state is not None and not witness.introduced(me, peer, state):
            raise wire.BadFrame("a state as this node's which this node has not signed.")
        if state is not None and self.edges is not None and state.half != self.edges.mark(peer):
            raise witness.lose(
                state.signature,
                state_text(run, me, peer, state),
                f"another edge key ({peer} shows it)",
                LOST_KEY,
            )
        other = (
            state is not None and state.state_id != self.state_id and state.view >= witness.began
        )
        unknown = row is not None and not witness.remembers(row)
        if not other and not unknown:
            return
        if view > self.view and not self.started:
            # the others have gone on; they take this member in again,
            # and it sends nothing before that
            self.lost = self.view
        elif unknown:
            assert row is not None
            what = f"round {row.round}, call {row.call} ({peer} shows it)"
            raise witness.lose(row.signature, row_text(run, row), what, LOST)
        else:
            assert state is not None
            raise witness.lose(
                state.signature,
                state_text(run, me, peer, state),
                f"another state ({peer} shows it)",
                LOST,
            )

    def _challenge(self, nonce: bytes, caller: str, listener: str, *edge: bytes) -> bytes:
        """`edge`: the caller's half, the listener's half and the check value of the edge's key."""
        names = f"\0{caller}\0{listener}\0".encode()
        parts = b"".join(hashlib.sha256(part).digest() for part in edge)
        return b"tacenda welcome v2\0" + nonce + self.contract.hash().encode() + names + parts


def plain_auth(context: Any) -> dict[str, Iterable[bytes]]:
    """gRPC's authentication context as a plain dictionary."""
    found: dict[str, Iterable[bytes]] = context.auth_context()
    return found
