"""Why a conversation with a peer failed, in plain words."""

from __future__ import annotations

from typing import Any

import grpc

from tacenda_node.protocol import frames
from tacenda_node.protocol.handshake import Refused


def answered(why: Exception) -> bool:
    """Whether the peer's process or machine has said something: a refusal, or that nobody
    listens."""
    return isinstance(why, Refused) or "refused)" in reason_of(why)


async def status_of(call: Any) -> str:
    """The words with which gRPC ended a call."""
    return frames.printable(await call.details() or (await call.code()).name)


def reason_of(why: BaseException) -> str:
    """Why a conversation failed, in words that are fit for a terminal."""
    if isinstance(why, grpc.aio.AioRpcError):
        return plainly(frames.printable(why.details() or why.code().name))
    return frames.printable(str(why) or type(why).__name__)


def plainly(details: str) -> str:
    """The transport's own words, with a hint where they are obscure."""
    hints = {
        "CERTIFICATE_VERIFY_FAILED": (
            "the peer's certificate is not signed by an authority of the contract, or has expired"
        ),
        "WRONG_VERSION_NUMBER": "the peer does not speak TLS on this port",
        "Connection refused": "nothing listens there (yet)",
        "alert": "the peer refused this node's certificate",
        "Peer name": "the peer's certificate is for another name",
    }
    hint = next((text for mark, text in hints.items() if mark in details), "")
    return f"{hint} ({details[:300]})" if hint else details[:300]
