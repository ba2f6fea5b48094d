"""What travels between two members: typed frames in MessagePack, checked field by field. Never pickle.

    Hello, Welcome   who I am, which contract, how far I am; Welcome proves the listener's certificate
    Confirm          the caller holds the same edge key (only where neighbours share noise)
    Refusal          why not, in words without any value
    Rows             released rows, keyed by (epoch, round, call)
    Progress         how far I am: the receiver may forget messages up to that round
    Membership       who is absent, for an agreed change of the graph, with the members' signed votes

A frame that does not decode, is too large, has the wrong shape or type or a value that is not finite raises `BadFrame`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from tacenda.errors import NetworkError

Array = NDArray[Any]
Count = Annotated[int, Meta(ge=0, le=2**40)]
Name = Annotated[str, Meta(min_length=1, max_length=63)]
Hex64 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
DTYPES: dict[str, np.dtype[Any]] = {"f4": np.dtype("<f4"), "f8": np.dtype("<f8")}
Half = Annotated[bytes, Meta(max_length=32)]  # of an edge key; empty where neighbours share no noise
OVERHEAD = 1 << 16  # of a Hello with its field hashes, above the rows themselves


class BadFrame(NetworkError):
    """A peer sent something that is not a frame of this protocol."""


class _Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="t"):
    pass


class Hello(_Frame, frozen=True, tag="hello"):
    protocol: Count
    sender: Name
    receiver: Name
    contract: Hex64
    fields: Annotated[dict[str, str], Meta(max_length=20_000)]
    done: Count
    epoch: Count
    started: bool
    nonce: Annotated[bytes, Meta(min_length=32, max_length=32)]
    birth: Annotated[str, Meta(max_length=32)] = ""  # names this state folder: a new one after a loss has another
    knows: Annotated[str, Meta(max_length=32)] = ""  # the receiver's, as the sender has noted it
    half: Half = b""
    other_half: Half = b""  # the receiver's, as the sender knows it


class Welcome(_Frame, frozen=True, tag="welcome"):
    sender: Name
    done: Count
    epoch: Count
    started: bool
    certificate: Annotated[bytes, Meta(max_length=16_384)]
    proof: Annotated[bytes, Meta(max_length=512)]
    birth: Annotated[str, Meta(max_length=32)] = ""
    half: Half = b""
    check: Annotated[bytes, Meta(max_length=16)] = b""


class Confirm(_Frame, frozen=True, tag="confirm"):
    check: Annotated[bytes, Meta(min_length=16, max_length=16)]


class Refusal(_Frame, frozen=True, tag="refusal"):
    reason: Annotated[str, Meta(max_length=2_000)]


class Rows(_Frame, frozen=True, tag="rows"):
    epoch: Count
    round: Count
    call: Annotated[int, Meta(ge=0, le=100_000)]
    dtype: Annotated[str, Meta(pattern="^f[48]$")]
    shape: tuple[Annotated[int, Meta(ge=1, le=2**31)], Annotated[int, Meta(ge=1, le=2**31)]]
    data: bytes


class Progress(_Frame, frozen=True, tag="progress"):
    done: Count
    epoch: Count = 0
    finished: bool = False


class Stand(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The round in which a member stopped, and its Ed25519 signature (base64) of the whole vote (`votes.statement`)."""

    round: Count
    signature: Annotated[str, Meta(pattern="^[A-Za-z0-9+/]{86}==$", max_length=88)]


class Membership(_Frame, frozen=True, tag="membership"):
    """The votes for one proposed set of absent members: at least the proposer's own."""

    epoch: Count
    absent: Annotated[list[Name], Meta(max_length=10_000)]
    votes: Annotated[dict[Name, Stand], Meta(min_length=1, max_length=10_000)]


class _AnyHello(msgspec.Struct, tag_field="t", tag="hello"):
    """As much of a hello as every version of the program has."""

    protocol: Count


Frame = Hello | Welcome | Confirm | Refusal | Rows | Progress | Membership
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
    """The protocol that a hello speaks, also one whose other fields are of another version; None if it is no hello."""
    try:
        return _hello_decoder.decode(data).protocol
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def rows_frame(epoch: int, turn: int, call: int, rows: Array) -> Rows:
    """Released rows (b, d), ready to send."""
    name = {4: "f4", 8: "f8"}[rows.dtype.itemsize]
    return Rows(epoch, turn, call, name, rows.shape, np.ascontiguousarray(rows, DTYPES[name]).tobytes())


def rows_of(frame: Rows, dim: int, dtype: Any) -> Array:
    """The rows (1, dim) of a frame, if they are what the contract makes this node expect."""
    wanted = np.dtype(dtype)
    if frame.shape != (1, dim) or DTYPES[frame.dtype].itemsize != wanted.itemsize:
        raise BadFrame(f"rows of shape {frame.shape} and type {frame.dtype}, where (1, {dim}) and {wanted} are expected.")
    if len(frame.data) != dim * wanted.itemsize:
        raise BadFrame(f"rows of {len(frame.data)} bytes, where {dim * wanted.itemsize} are expected.")
    rows: Array = np.frombuffer(frame.data, DTYPES[frame.dtype]).astype(wanted).reshape(1, dim)
    if not np.isfinite(rows).all():
        raise BadFrame("rows with values that are not finite.")
    return rows


def frame_limit(dim: int) -> int:
    """The most bytes that a frame of this contract may have."""
    return OVERHEAD + 8 * dim
