"""How two members make sure of each other, beyond TLS: name, certificate fingerprint, contract, and
how far each is.

TLS has checked that the certificate was signed by one of the contract's authorities. The listener
then compares the caller's certificate with the fingerprint in the contract. The caller cannot see
the listener's certificate in gRPC, so the listener proves it: it signs the caller's fresh nonce,
both names and the contract's hash with the key of the pinned certificate. A member in the middle
cannot pass that on, because the signature names the caller whom the listener sees. Where neighbours
share noise the signature also covers both halves of the edge's key and its check value, and the
caller confirms the key before anything else.

**Versions.** A hello says which version of the frames it is of. A listener with another one refuses
in words that name both, whatever else the hello holds.

**Before all have signed the contract**, and before this node has opened its state (`ready`), the
two only show each other signatures (`waiting`): no state is introduced, and no key of an edge is
agreed.

**Amendments.** Members whose texts belong to one chain of amendments go on with each other; each
goes by the text that is in force with it. A member's former certificate counts until the member
shows the new one.

Each side shows what the other has signed (`claims`). A peer's word may end the edge, never the
node: only this node's own signature on something that its state does not hold stops it. And a peer
whose state is behind its own signature is refused at once, to the very call.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cryptography import x509

import tacenda
from tacenda.errors import NetworkError, StateError
from tacenda_node.identity.certificates import (
    Identity,
    fingerprint,
    is_named,
    load_key,
    proof_holds,
)
from tacenda_node.identity.contract import Contract, differing_fields
from tacenda_node.identity.edge_keys import EdgeKeys
from tacenda_node.identity.keys import forget_printed
from tacenda_node.protocol import frames
from tacenda_node.protocol.contract_signatures import SignatureBook
from tacenda_node.protocol.signed_rows import LOST, LOST_KEY, Witness, row_text, state_text
from tacenda_node.watch.status import about


class Refused(NetworkError):
    """A peer, or this node, declined the conversation;
    `shown` is what the refused one has signed itself."""

    def __init__(self, reason: str, shown: frames.Shown | None = None) -> None:
        super().__init__(reason)
        self.shown = shown or frames.Shown()


class ContractsDiffer(Refused):
    """The two members hold different contracts."""


class HasFinished(Refused):
    """The peer is in the closing run already: it has finished this one."""


DIFFER_IN = " differ in: "
# How a member that evaluates the model refuses who still asks for the training
OVER = "the training is over at "
# How a member refuses a second process that introduces itself as a neighbour
CLONE = "is connected here from another process, which gives signs of life"
REFUSES = " refuses: "
WELL_SET = 300  # seconds by which two clocks may differ without a word


@cache
def _instance(process: int) -> bytes:
    """A name that this process draws for itself."""
    return os.urandom(16)


@dataclass
class Handshake:
    """What this node says of itself when it meets a peer, and how it judges what it hears.

    lost: the view in which this node may send nothing, because an empty state takes the place of a
    lost one (-1: none). book: the signatures of the contract; None where all are known to be there.
    ready: all have signed, and the state is open. former: the texts that `contract` has amended,
    the oldest first. clocks: by how many seconds each peer's clock is ahead of this one's.
    shows: the TLS key and certificate in use. closes: of a closing run, the hashes of the texts of
    the run before it; closed_by: of a run that is done here, those of the closing run's texts.
    instance: of this process, which a clone of the machine does not share.
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
    book: SignatureBook | None = None
    ready: bool = True
    former: list[Contract] = field(default_factory=list)
    clocks: dict[str, int] = field(default_factory=dict)
    shows: tuple[bytes, bytes] | None = None
    closes: frozenset[str] = frozenset()
    closed_by: frozenset[str] = frozenset()
    instance: bytes = field(default_factory=lambda: _instance(os.getpid()))

    def hello(self, peer: str, nonce: bytes, *, fields: bool = False) -> frames.Hello:
        """fields: with the hashes of the contract's fields, after the peer has said that the
        contracts differ."""
        hello = frames.Hello(
            frames.PROTOCOL,
            self.identity.name,
            peer,
            self.contract.hash(),
            self.contract.field_hashes() if fields else {},
            0,
            0,
            False,
            nonce,
            (0, 0, 0),
            frames.Introduction("", 0, b"", _NO_SIGNATURE),
            waiting=not self.ready,
            follows=self._follows(),
            at=int(time.time()),
            instance=self.instance,
            version=tacenda.__version__,
        )
        if not self.ready:
            return hello
        return frames.replaced(
            hello,
            done=self.done,
            view=self.view,
            started=self.started,
            latest=self.witness.latest,
            me=self._introduction(peer),
            shown=self.witness.shown(peer),
            half=b"" if self.edges is None else self.edges.half(peer),
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
            raise Refused("its certificate names no neighbour of this member")
        pinned = [name for name in named if self._pinned(name, mark)]
        if not pinned:
            raise Refused(f"its certificate names {named[0]} but is not the one in the contract")
        name = pinned[0]
        self._keep_shown(name, mark)
        if name in (self.contract.left or ()):
            raise Refused(f"{name} has left the run by amendment {self.contract.amendment}")
        return name

    def _pinned(self, name: str, shown: str) -> bool:
        """Whether the contract names this certificate of the member: the present one, or a former
        one as long as the member has not shown a later one."""
        present = self.contract.member(name).fingerprint
        if shown == present:
            return True
        former = [text.member(name).fingerprint for text in self.former]
        latest = self.witness.noted(
            _SHOWN.format(name)
        )  # of those that it has shown after an amendment
        if latest == present:
            return False
        if latest in former:  # what it has replaced before stays replaced
            former = former[len(former) - 1 - former[::-1].index(latest) :]
        return shown in former

    def _keep_shown(self, name: str, shown: str) -> None:
        """The member holds the key of its present certificate: those before it count no more."""
        note = _SHOWN.format(name)
        present = shown == self.contract.member(name).fingerprint
        if present and self.former and self.witness.noted(note) != shown:
            self.witness.keep_note(note, shown)

    def read(self, data: bytes, limit: int, caller: str) -> frames.Frame:
        """A caller's first frame; one of a version that is not spoken here is refused in words,
        whatever its fields are."""
        spoken = frames.protocol_of(data) if len(data) <= limit else None
        if spoken is not None:
            self._spoken_here(spoken, caller)
        return frames.decode(data, limit)

    def welcome(self, hello: frames.Frame, caller: str) -> frames.Welcome:
        """The answer to a caller's hello; Refused if it does not fit."""
        if not isinstance(hello, frames.Hello):
            raise frames.BadFrame("something else than a hello at first.")
        self._spoken_here(hello.protocol, caller)
        if hello.sender != caller or hello.receiver != self.identity.name:
            raise Refused("the hello is from or for somebody else")
        self._same_run(hello, caller)
        self._same_contract(hello, caller)
        self._compare_clocks(hello.at, caller)
        if hello.waiting or not self.ready:
            return self._waiting_welcome(hello, caller)
        self._judge(hello, caller)
        half, check = self._agreed(hello, caller)
        pem, proof = self._proved(hello, caller, half, check)
        welcome = frames.Welcome(
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
        return self._stated(welcome, hello)

    def _waiting_welcome(self, hello: frames.Hello, caller: str) -> frames.Welcome:
        """For a conversation about signatures only: nothing is said of any state."""
        pem, proof = self._proved(hello, caller, b"", b"")
        nobody = frames.Introduction("", 0, b"", _NO_SIGNATURE)
        welcome = frames.Welcome(
            self.identity.name, 0, 0, False, pem, proof, (0, 0, 0), nobody, waiting=not self.ready
        )
        return self._stated(welcome, hello)

    def _stated(self, welcome: frames.Welcome, hello: frames.Hello) -> frames.Welcome:
        mine = self.contract.hash()
        return frames.replaced(
            welcome,
            contract=None if mine == hello.contract else mine,
            at=int(time.time()),
            instance=self.instance,
            version=tacenda.__version__,
        )

    def _proved(
        self, hello: frames.Hello, caller: str, half: bytes, check: bytes
    ) -> tuple[bytes, bytes]:
        """This node's certificate, and the proof that it holds its key."""
        challenge = challenge_text(
            hello.nonce, hello.contract, caller, self.identity.name, hello.half, half, check
        )
        key, pem = self.tls_pair()
        return pem, self.identity.prove(challenge, key)

    def tls_pair(self) -> tuple[bytes, bytes]:
        """(key, certificate) that this node shows: those in its folder once the contract in force
        names them; until then, and while they are being exchanged there, the ones before."""
        try:
            key, pem = self.identity.tls_pem()
            certificate = x509.load_pem_x509_certificate(pem)
            whole = load_key(key).public_key() == certificate.public_key()
            if not whole:
                forget_printed()  # a key store may have a newer key by now
        except (StateError, ValueError, OSError):
            if self.shows is None:
                raise
            return self.shows
        pinned = fingerprint(certificate) == self.contract.member(self.identity.name).fingerprint
        if self.shows is None or (whole and pinned):
            self.shows = (key, pem)
        return self.shows

    def check_welcome(
        self, frame: frames.Frame, peer: str, nonce: bytes, hello: frames.Hello | None = None
    ) -> frames.Welcome:
        """The listener's answer to `hello` (by default: to one that this node would say now), if it
        is the pinned member and its state is the newest that is known. `waiting` if either is."""
        waiting = (not self.ready if hello is None else hello.waiting) or (
            isinstance(frame, frames.Welcome) and frame.waiting
        )
        if isinstance(frame, frames.Refusal):
            self._judge_shown(frame.shown, peer, self.view)
            reason = f"{peer}{REFUSES}{frames.printable(frame.reason)}"
            if self.closed_by and frame.reason.startswith(OVER):
                raise HasFinished(reason)
            _, found, fields = frame.reason.partition(DIFFER_IN)
            if found:
                self._other_text(peer, frames.printable(fields, 200))
            raise (
                ContractsDiffer(reason) if frame.reason.startswith("contract") else Refused(reason)
            )
        if not isinstance(frame, frames.Welcome):
            raise frames.BadFrame("something else than a welcome at first.")
        try:
            certificate = x509.load_pem_x509_certificate(frame.certificate)
        except ValueError:
            raise frames.BadFrame("a certificate that cannot be read.") from None
        if not self._pinned(peer, fingerprint(certificate)):
            raise Refused(f"{peer} shows a certificate that is not the one in the contract")
        mine = b"" if self.edges is None or not self.ready else self.edges.half(peer)
        contract = self.contract.hash()
        if hello is not None:
            mine, contract = hello.half, hello.contract
        challenge = challenge_text(
            nonce, contract, self.identity.name, peer, mine, frame.half, frame.check
        )
        if not proof_holds(certificate, challenge, frame.proof):
            raise Refused(f"{peer} does not hold the key of its certificate")
        self._keep_shown(peer, fingerprint(certificate))
        self._compare_clocks(frame.at, peer)
        if waiting:
            return frames.replaced(frame, waiting=True)
        self._judge(frame, peer)
        if self.edges is not None:
            self.edges.agree(peer, frame.half, confirmed=True, check=frame.check)
        return frame

    def confirmation(self, peer: str) -> frames.Confirm | None:
        """What the caller says after the welcome, where neighbours share noise."""
        return None if self.edges is None else frames.Confirm(self.edges.check(peer))

    def confirmed(self, frame: frames.Frame, caller: str) -> None:
        """The caller's confirmation, or BadFrame."""
        if self.edges is None or not isinstance(frame, frames.Confirm):
            raise frames.BadFrame("something else than a check value of the edge's key.")
        self.edges.confirm(caller, frame.check)

    def _agreed(self, hello: frames.Hello, caller: str) -> tuple[bytes, bytes]:
        """The listener's half of the edge's key, and its check value; both empty where neighbours
        share no noise."""
        if self.edges is None:
            return b"", b""
        self.edges.agree(caller, hello.half)
        return self.edges.half(caller), self.edges.check(caller)

    def _spoken_here(self, spoken: int, caller: str) -> None:
        if spoken != frames.PROTOCOL:
            older = caller if spoken < frames.PROTOCOL else self.identity.name
            raise Refused(
                f"protocol {spoken} is spoken by {caller} and {frames.PROTOCOL} by "
                f"{self.identity.name}; install a newer version of Tacenda at {older}"
            )

    def _same_run(self, hello: frames.Hello, caller: str) -> None:
        """Refuse, in words of its own, who is in the run before this one, or in the one after."""
        if hello.contract in self.closes:
            raise Refused(f"{OVER}{self.identity.name}, which evaluates its model")
        if hello.contract in self.closed_by:
            raise HasFinished(
                f"{self.identity.name} is still finishing the training with some neighbours; it "
                f"comes to the evaluation after that"
            )

    def _same_contract(self, hello: frames.Hello, caller: str) -> None:
        mine = self.contract.hash()
        if hello.contract in (mine, *self._follows()) or mine in hello.follows:
            return
        if not hello.fields:
            raise ContractsDiffer(
                f"contracts of {self.identity.name} and {caller} differ; it is asked for the "
                "hashes of its fields"
            )
        fields = differing_fields(self.contract.field_hashes(), hello.fields)
        shown = ", ".join(frames.printable(field, 80) for field in fields[:8]) + (
            ", ..." if len(fields) > 8 else ""
        )
        self._other_text(caller, shown)
        raise ContractsDiffer(f"contracts of {self.identity.name} and {caller}{DIFFER_IN}{shown}")

    def _follows(self) -> list[str]:
        """The hashes of the texts that the contract in force has amended."""
        before = [self.contract.follows] if self.contract.follows is not None else []
        return list(dict.fromkeys([*(text.hash() for text in self.former), *before]))

    def _other_text(self, peer: str, fields: str) -> None:
        """Remember why the peer's signature is missing."""
        if self.book is not None:
            self.book.current.trouble[peer] = f"it has signed another text; differing: {fields}"

    def _compare_clocks(self, at: int, peer: str) -> None:
        """Keep by how much the peer's clock is ahead, where it says."""
        if at:
            self.clocks[peer] = at - int(time.time())

    def clock_trouble(self, peer: str) -> str:
        """A sentence where the peer's clock and this one are far apart, or ""."""
        ahead = self.clocks.get(peer, 0)
        if abs(ahead) <= WELL_SET:
            return ""
        side = "ahead of" if ahead > 0 else "behind"
        return (
            f"the clock of {peer} is {about(ahead)} {side} this "
            "machine's; certificates are refused by their dates on the one that is wrong: "
            "set it, and turn on time synchronisation"
        )

    def _introduction(self, peer: str) -> frames.Introduction:
        return self.witness.introduce(
            peer, self.state_id, self.view, b"" if self.edges is None else self.edges.mark(peer)
        )

    def _judge(self, frame: frames.Hello | frames.Welcome, peer: str) -> None:
        """This node's own state by what the peer shows, then the peer's by what is kept here; what
        it says is then kept."""
        me, witness = self.identity.name, self.witness
        if frame.me.half != frame.half[:32] or not witness.introduced(peer, me, frame.me):
            raise frames.BadFrame("an introduction that it has not signed.")
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

    def _judge_shown(self, shown: frames.Shown, peer: str, view: int) -> None:
        """What the peer shows with this node's own signature. StateError, only here, if this state
        does not hold what was signed."""
        me, witness, run = self.identity.name, self.witness, self.contract.run_id()
        row, state = shown.row, shown.state
        if row is not None and (row.member != me or not witness.holds(row)):
            raise frames.BadFrame("a message as this node's which this node has not signed.")
        if state is not None and not witness.introduced(me, peer, state):
            raise frames.BadFrame("a state as this node's which this node has not signed.")
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


def is_clone(reason: str) -> bool:
    """Whether a neighbour has refused this node because another process of it is there."""
    return REFUSES in reason and CLONE in reason


def asks_for_fields(why: Exception) -> bool:
    """Whether contracts differ, and the caller is to say hello again with its fields' hashes."""
    return isinstance(why, ContractsDiffer) and DIFFER_IN not in str(why)


_NO_SIGNATURE = "A" * 86 + "=="
_SHOWN = "certificate of {}"  # note: the latest that a member has shown after an amendment


def challenge_text(nonce: bytes, contract: str, caller: str, listener: str, *edge: bytes) -> bytes:
    """contract: the hash of the caller's. `edge`: the caller's half, the listener's half and the
    check value of the edge's key."""
    names = f"\0{caller}\0{listener}\0".encode()
    parts = b"".join(hashlib.sha256(part).digest() for part in edge)
    return b"tacenda welcome v2\0" + nonce + contract.encode() + names + parts


def plain_auth(context: Any) -> dict[str, Iterable[bytes]]:
    """gRPC's authentication context as a plain dictionary."""
    found: dict[str, Iterable[bytes]] = context.auth_context()
    return found


def member_of(auth: Mapping[str, Iterable[bytes]], contract: Contract) -> str | None:
    """Whose certificate was shown, by the contract; None for anybody else's."""
    pems = list(auth.get("x509_pem_cert", ()))
    if len(pems) != 1:
        return None
    mark = fingerprint(x509.load_pem_x509_certificate(pems[0]))
    found = [name for name in contract.signatories if contract.member(name).fingerprint == mark]
    return found[0] if found else None
