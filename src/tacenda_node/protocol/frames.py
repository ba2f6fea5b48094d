"""What travels between two members: typed frames in MessagePack, checked field by field. Never
pickle.

    Hello, Welcome   who I am, which contract, how far I am, and what the other has signed; Welcome
                     proves the listener's certificate
    Confirm          the caller holds the same edge key (only where neighbours share noise)
    Signatures       the members' signatures of the contract, or of an amendment, as far as the
                     sender holds them
    Refusal          why not, in words without any value, with what the refused one has signed
                     itself
    Rows             released rows, keyed by (view, round, call) and signed, with the signed digests
                     that the sender has heard of
    Progress         how far I am: the receiver may forget messages up to that round; as a sign of
                     life, also for whom I wait, and why
    Lives            the members' latest signed signs of life that the receiver may lack
    Proof            two signatures of one member that no honest one gives, or a member's on another
                     total than the root's
    Total            a row that the root of the tree has signed, for a member that lacks it
    Membership       who is absent, for an agreed change of the graph, with the members' signed
                     votes

A frame that does not decode, is too large, has the wrong shape or type, or a value that is not
finite or beyond the contract's radius raises `BadFrame`.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from tacenda._types import Array
from tacenda.errors import NetworkError
from tacenda_node.identity.certificates import LONGEST_NAME
from tacenda_node.watch.causes import (
    LIFE_STATES,
    MOST_CAUSES,
    MOST_CHAIN,
    MOST_WANTED,
    SENT,
    UNSIGNED,
)

# The version of these frames. A node with another one is refused in words that every version reads.
PROTOCOL = 12
Count = Annotated[int, Meta(ge=0, le=2**40)]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Hex64 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(f"<{name}") for name in ("f4", "f8", "u8")}
Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature = Annotated[str, Meta(pattern="^[A-Za-z0-9+/]{86}==$", max_length=88)]  # Ed25519, base64
# Of an edge key; empty where neighbours share no noise
Half = Annotated[bytes, Meta(max_length=1216)]
Instance = Annotated[bytes, Meta(max_length=16)]
Version = Annotated[str, Meta(max_length=40, pattern=r"^[0-9A-Za-z.+_-]*$")]
MOST_CALLS = 100_000  # messages of one round
MOST_HEARD = 256  # signed digests that travel with one message
Call = Annotated[int, Meta(ge=0, le=MOST_CALLS)]
# Of the signed digests, above the rows themselves
OVERHEAD = 1 << 17
# Of a member's votes, signatures and hashes of fields in one frame
PER_MEMBER = 1 << 10
MOST_AMENDMENTS = 1000


class BadFrame(NetworkError):
    """A peer sent something that is not a frame of this protocol."""


class UnfitRows(BadFrame):
    """Rows of the right form with values that no honest member sends."""


class _Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="t"):
    pass


class Claim(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A member's signature on the digest of the one row that it sends
    to all its neighbours in a call (`claims.row_text`)."""

    member: Name
    view: Count
    round: Count
    call: Call
    digest: Digest
    signature: Signature

    @property
    def key(self) -> tuple[int, int, int]:
        return self.view, self.round, self.call


class Introduction(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A member's signature on the name of its state folder and its half of the edge's key
    (`claims.state_text`).

    state_id: a new folder after a loss has another one. half: the X25519 part, or empty.
    """

    state_id: Annotated[str, Meta(max_length=32)]
    view: Count
    half: Annotated[bytes, Meta(max_length=32)]
    signature: Signature


class Shown(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the receiver itself has signed, as far as the sender has kept it:
    its latest row, and its introduction."""

    row: Claim | None = None
    state: Introduction | None = None


class Hello(_Frame, frozen=True, tag="hello", omit_defaults=True):
    """protocol: the version of this hello and of what follows. fields: only where the contracts
    differ. waiting: the sender lacks signatures of the contract, or has not opened its state yet,
    so that nothing but signatures may be sent. follows: hashes of the texts that its contract has
    amended. at: its clock, seconds since 1970. instance: drawn by each process, so that two are
    told apart.
    version: of its program.
    """

    protocol: Count
    sender: Name
    receiver: Name
    contract: Hex64
    fields: Annotated[dict[str, str], Meta(max_length=20_000)]
    done: Count
    view: Count
    started: bool
    nonce: Digest
    latest: tuple[Count, Count, Call]  # no row after this one has left the sender's state
    me: Introduction
    shown: Shown = Shown()
    half: Half = b""
    waiting: bool = False
    follows: Annotated[list[Hex64], Meta(max_length=MOST_AMENDMENTS)] = []
    at: Count = 0
    instance: Instance = b""
    version: Version = ""


class Welcome(_Frame, frozen=True, tag="welcome", omit_defaults=True):
    """The last five fields as in a `Hello`; contract: the listener's, where it is an amended
    one."""

    sender: Name
    done: Count
    view: Count
    started: bool
    certificate: Annotated[bytes, Meta(max_length=16_384)]
    proof: Annotated[bytes, Meta(max_length=512)]
    latest: tuple[Count, Count, Call]
    me: Introduction
    shown: Shown = Shown()
    half: Half = b""
    check: Annotated[bytes, Meta(max_length=16)] = b""
    waiting: bool = False
    contract: Hex64 | None = None
    at: Count = 0
    instance: Instance = b""
    version: Version = ""


class Signatures(_Frame, frozen=True, tag="signatures"):
    """All signatures that the sender holds of the contract with this hash. trouble: what it knows
    of members without one, in words."""

    contract: Hex64
    signatures: Annotated[dict[Name, Signature], Meta(max_length=10_000)]
    trouble: Annotated[
        dict[Name, Annotated[str, Meta(max_length=300)]], Meta(max_length=10_000)
    ] = {}


class Confirm(_Frame, frozen=True, tag="confirm"):
    check: Annotated[bytes, Meta(min_length=16, max_length=16)]


class Refusal(_Frame, frozen=True, tag="refusal"):
    reason: Annotated[str, Meta(max_length=2_000)]
    shown: Shown = Shown()


class Rows(_Frame, frozen=True, tag="rows", omit_defaults=True):
    """total: the root's signature on a row that it has made and that others pass on down the
    tree."""

    view: Count
    round: Count
    call: Call
    dtype: Annotated[str, Meta(pattern="^(f4|f8|u8)$")]
    shape: tuple[Annotated[int, Meta(ge=1, le=2**31)], Annotated[int, Meta(ge=1, le=2**31)]]
    data: bytes
    signature: Signature | None = (
        None  # None only in the state folder: rows are signed when they leave
    )
    heard: Annotated[list[Claim], Meta(max_length=MOST_HEARD)] = []
    total: Claim | None = None


class Total(_Frame, frozen=True, tag="total", omit_defaults=True):
    """A row that went down the tree, with the root's signature on it; or one that no honest member
    signs, with the signature of who has. parts: where it joins the sums of groups, the signatures
    of their own roots on these."""

    claim: Claim
    dtype: Annotated[str, Meta(pattern="^(f4|f8|u8)$")]
    shape: tuple[Annotated[int, Meta(ge=1, le=2**31)], Annotated[int, Meta(ge=1, le=2**31)]]
    data: bytes
    parts: Annotated[list[Claim], Meta(max_length=10_000)] = []


class Wait(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Why the sender waits: each member of the chain waits for the next, and the last one is in
    this state for so many seconds. The sender is the first."""

    chain: Annotated[list[Name], Meta(min_length=1, max_length=MOST_CHAIN)]
    state: Annotated[str, Meta(pattern=f"^({'|'.join(SENT)})$")]
    seconds: Count


class Progress(_Frame, frozen=True, tag="progress", omit_defaults=True):
    """waits: for whom the sender waits, in a sign of life; None says nothing about that. leaving:
    the sender stops for these reasons."""

    done: Count
    view: Count = 0
    finished: bool = False
    heard: Annotated[list[Claim], Meta(max_length=MOST_HEARD)] = []
    waits: Annotated[list[Wait], Meta(max_length=MOST_CAUSES)] | None = None
    leaving: bool = False


class Wanted(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A member for whom another one waits, its state as seen there, and for how long: a neighbour,
    or before the run one whose signature of the contract is missing."""

    member: Name
    state: Annotated[str, Meta(pattern=f"^({'|'.join((*SENT, UNSIGNED))})$")]
    seconds: Count


class Life(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A member's signed sign of life, for all members (`protocol.lives`). Nothing in it depends on
    records.

    number: a later one counts; at: the member's clock, seconds since 1970. disk: bytes that are
    free. left: of its budget, in thousandths of epsilon, where its owner allows that.
    """

    member: Name
    number: Count
    at: Count
    version: Version
    view: Count
    round: Count
    state: Annotated[str, Meta(pattern=f"^({'|'.join(LIFE_STATES)})$")]
    waits: Annotated[list[Wanted], Meta(max_length=MOST_WANTED)]
    disk: Count
    left: Count | None
    signature: Signature


class Lives(_Frame, frozen=True, tag="lives"):
    lives: Annotated[list[Life], Meta(max_length=10_000)]


class Proof(_Frame, frozen=True, tag="proof"):
    """Two different rows that one member has signed for one call; or the row that a member has
    passed on, and the other one that the root of the tree has signed."""

    first: Claim
    second: Claim


class Stand(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a member that has stopped holds, with the root's signatures.

    map: the total from which the public map follows; last: the latest total. view: the one in which
    the member stands.
    """

    map: Claim | None = None
    last: Claim | None = None
    view: Count = 0


class SignedStop(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The round in which a member stopped, what it holds,
    and its Ed25519 signature (base64) of the whole vote (`votes.statement`)."""

    round: Count
    signature: Signature
    stand: Stand = Stand()


class Membership(_Frame, frozen=True, tag="membership"):
    """The votes for one proposed set of absent members: at least the proposer's own."""

    view: Count
    absent: Annotated[list[Name], Meta(max_length=10_000)]
    votes: Annotated[dict[Name, SignedStop], Meta(min_length=1, max_length=10_000)]


Stored = TypeVar("Stored", Rows, Total, Proof)


class _AnyHello(msgspec.Struct, tag_field="t", tag="hello"):
    """As much of a hello as every version of the program has."""

    protocol: Count


replaced = msgspec.structs.replace
Frame = (
    Hello
    | Welcome
    | Confirm
    | Refusal
    | Rows
    | Progress
    | Lives
    | Proof
    | Membership
    | Signatures
    | Total
)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Frame)
_hello_decoder = msgspec.msgpack.Decoder(_AnyHello)


def encode(frame: Frame) -> bytes:
    """A frame as bytes; equal frames give equal bytes."""
    return _encoder.encode(frame)


def decode(data: bytes, limit: int) -> Frame:
    """The frame in `data`, or BadFrame."""
    if len(data) > limit:
        raise BadFrame(f"a frame of {len(data)} bytes is above the limit of {limit}.")
    try:
        frame: Frame = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise BadFrame(f"bytes that are not a frame ({type(wrong).__name__}).") from None
    return frame


def protocol_of(data: bytes) -> int | None:
    """The protocol that a hello speaks, also one whose other fields are of another version; None if
    it is no hello."""
    try:
        return _hello_decoder.decode(data).protocol
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def stored(data: bytes, kind: type[Stored]) -> Stored:
    """A frame from this node's own state folder."""
    return msgspec.msgpack.decode(data, type=kind)


def printable(text: str, most: int = 600) -> str:
    """A peer's words, fit for a terminal: printable characters only, and not too many of them."""
    shown = "".join(c if c.isprintable() else "?" for c in text[:most])
    return shown + ("..." if len(text) > most else "")


def rows_frame(view: int, round: int, call: int, rows: Array) -> Rows:
    """Released rows (b, d), ready to send."""
    name = f"{rows.dtype.kind}{rows.dtype.itemsize}"
    return Rows(
        view, round, call, name, rows.shape, np.ascontiguousarray(rows, DTYPES[name]).tobytes()
    )


def signed_row(member: str, frame: Rows, digest: bytes) -> Total:
    """A member's row with its signature, to be shown to others."""
    claim = Claim(member, frame.view, frame.round, frame.call, digest, frame.signature or "")
    return Total(claim, frame.dtype, frame.shape, frame.data)


def rows_of(frame: Rows | Total, dim: int, dtype: Any, radius: float) -> Array:
    """The row (1, dim) of a frame, if it is what the contract makes this node expect; whole
    numbers modulo 2^64 (uint64) know no radius."""
    wanted = np.dtype(dtype)
    if frame.shape != (1, dim) or frame.dtype != f"{wanted.kind}{wanted.itemsize}":
        raise BadFrame(
            f"rows of shape {frame.shape} and type {frame.dtype}, where (1, {dim}) "
            f"and {wanted} are expected."
        )
    if len(frame.data) != dim * wanted.itemsize:
        raise BadFrame(
            f"rows of {len(frame.data)} bytes, where {dim * wanted.itemsize} are expected."
        )
    rows: Array = np.frombuffer(frame.data, DTYPES[frame.dtype]).astype(wanted).reshape(1, dim)
    if wanted.kind == "u":
        return rows
    if not np.isfinite(rows).all():
        raise UnfitRows("rows with values that are not finite.")
    if float(np.abs(rows).max()) > radius:
        raise UnfitRows(f"rows with values beyond the contract's problem.radius of {radius:g}.")
    return rows


def frame_limit(row: int, members: int = 0) -> int:
    """The most bytes that a frame of this contract may have, for rows of so many bytes and so many
    members; `MOST_HEARD` signed digests stay below OVERHEAD."""
    return OVERHEAD + row + PER_MEMBER * members
