"""How proposals travel: one call over mutual TLS, in which two members show each other what they
hold.

A member that listens takes the calls at its own address: in a run at the node's server, between
runs at one that `tacenda node serve` opens there. Every member calls the others now and then, also
who cannot be called itself. Only members' own certificates are let in; each proposal and each
answer is signed, so it does not matter who passes it on. Nothing in them is secret among members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import grpc

from tacenda.errors import InputError, NetworkError, TacendaError
from tacenda_node.identity.addresses import RELAY
from tacenda_node.identity.certificates import Identity
from tacenda_node.identity.contract import Contract
from tacenda_node.proposals.box import Box
from tacenda_node.protocol.handshake import member_of
from tacenda_node.wire.proxy import Proxy
from tacenda_node.wire.reasons import reason_of
from tacenda_node.wire.routes import Routes

SERVICE, CALL = "tacenda.Node", "Post"
METHOD = f"/{SERVICE}/{CALL}"
MOST_BYTES = 1 << 22
CALL_SECONDS = 10.0
WORKERS = 4
LIMITS = (
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
)


def answered(box: Box, sheet: bytes) -> bytes:
    """What a member answers to a call: what it holds, once it has kept what it was shown."""
    box.read_sheet(sheet)
    return box.sheet()


class Post:
    """A server between runs. `start(where)`, `stop()`, again and again."""

    def __init__(self, box: Box, contract: Contract, identity: Identity) -> None:
        self._box, self._contract, self._identity = box, contract, identity
        self._server: grpc.Server | None = None

    @property
    def open(self) -> bool:
        return self._server is not None

    def start(self, where: str) -> bool:
        """Whether the address could be listened on."""
        options = (("grpc.so_reuseport", 0), *LIMITS)
        server = grpc.server(ThreadPoolExecutor(WORKERS), options=options)
        handler = grpc.unary_unary_rpc_method_handler(self._answer)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {CALL: handler}),)
        )
        key, certificate = self._identity.tls_pem()
        roots = "\n".join(self._contract.authorities).encode()
        credentials = grpc.ssl_server_credentials(
            [(key, certificate)], roots, require_client_auth=True
        )
        try:
            if not server.add_secure_port(where, credentials):
                return False
        except RuntimeError:
            return False
        server.start()
        self._server = server
        return True

    def stop(self) -> None:
        """Free the address, for a node."""
        if self._server is not None:
            self._server.stop(0.5).wait()
            self._server = None

    def _answer(self, request: bytes, context: Any) -> bytes:
        if member_of(context.auth_context(), self._contract) is None:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "refused")
        try:
            return answered(self._box, request)
        except InputError as wrong:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(wrong)[:500])
            raise


def call_all(
    box: Box,
    contract: Contract,
    identity: Identity,
    addresses: Mapping[str, str] | None = None,
    proxy: Proxy | None = None,
) -> dict[str, str]:
    """Show every other member what is held here, and keep what it holds; by name, why that failed,
    or "" where it did not."""
    return asyncio.run(_call_all(box, contract, identity, dict(addresses or {}), proxy))


async def _call_all(
    box: Box, contract: Contract, identity: Identity, addresses: dict[str, str], proxy: Proxy | None
) -> dict[str, str]:
    others = [name for name in contract.signatories if name != identity.name]
    who: Any = SimpleNamespace(identity=identity, contract=contract)
    routes = Routes(who, addresses, proxy, None)
    calls = [_called(box, contract, identity, routes, name, addresses) for name in others]
    return dict(zip(others, await asyncio.gather(*calls), strict=True))


async def _called(
    box: Box,
    contract: Contract,
    identity: Identity,
    routes: Routes,
    name: str,
    addresses: Mapping[str, str],
) -> str:
    member = contract.member(name)
    if not member.listens or addresses.get(name, member.address).startswith(RELAY):
        return "it cannot be called, and asks by itself"
    key, certificate = identity.tls_pem()
    roots = "\n".join(contract.authorities).encode()
    credentials = grpc.ssl_channel_credentials(roots, key, certificate)
    options = (
        ("grpc.ssl_target_name_override", name),
        ("grpc.use_local_subchannel_pool", 1),
        *LIMITS,
    )
    try:
        async with (
            routes.target(name) as target,
            grpc.aio.secure_channel(target, credentials, options=options) as channel,
        ):
            answer = await channel.unary_unary(METHOD)(box.sheet(), timeout=CALL_SECONDS)
            await asyncio.to_thread(box.read_sheet, answer)
    except (grpc.aio.AioRpcError, NetworkError, TacendaError, OSError, TimeoutError) as why:
        return reason_of(why) or type(why).__name__
    return ""
