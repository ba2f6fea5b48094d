"""The node's network thread: gRPC over mutual TLS, one long-lived stream in both directions per
edge.

Of two members who both listen, the earlier one in the contract calls. A lost stream is opened again
with growing pauses, for ever; certificates are read anew each time, so a renewed one is taken up
without a restart. Names are looked up anew each time, too.

A member whose address is `relay://host:port` listens to nobody: it waits at the relay (`relay`),
and what the relay passes on comes to its gRPC server through a local socket. A caller's stream
through a relay or a proxy goes through a local socket in the same way; TLS is between the members.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import grpc

import tacenda
from tacenda.errors import InputError, NetworkError, StateError
from tacenda_node.identity.addresses import RELAY
from tacenda_node.identity.certificates import expiry_of
from tacenda_node.protocol import frames
from tacenda_node.protocol.handshake import (
    CLONE,
    ContractsDiffer,
    Handshake,
    HasFinished,
    Refused,
    asks_for_fields,
    is_clone,
    member_of,
    plain_auth,
)
from tacenda_node.protocol.lives import LIFE_SECONDS, Health, Lives
from tacenda_node.watch.causes import (
    CIRCLE,
    MOST_CHAIN,
    MOST_WANTED,
    PAUSED,
    SILENT,
    UNSIGNED,
    WAITING_SECONDS,
    Cause,
    root_causes,
)
from tacenda_node.wire import probe
from tacenda_node.wire.link import LAST_WORDS_SECONDS, Link
from tacenda_node.wire.mailbox import Key, Mailbox
from tacenda_node.wire.proxy import Proxy
from tacenda_node.wire.reasons import answered, plainly, reason_of, status_of
from tacenda_node.wire.rooms import Token
from tacenda_node.wire.routes import PAUSES, Routes

METHOD = "/tacenda.Node/Talk"
HELLO_SECONDS = 10.0
FIRST_LIFE_SECONDS = 2.0
MOST_POST = 1 << 22  # bytes of all proposals; a frame's own limit holds as well
HANDSHAKE_MS = 10_000  # for TLS: a connection that says nothing holds its place for so long
# at once, before and after TLS: what strangers can make this process hold in memory is bounded
MOST_CONNECTIONS = 512
KEEPALIVE = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)


class Endpoint:
    """All edges of one node. `start` and `stop` from the node's thread;
    everything else runs in the loop's thread."""

    def __init__(
        self,
        handshake: Handshake,
        mailbox: Mailbox,
        frame_limit: int,
        log: Any,
        *,
        bind: str | None,
        addresses: dict[str, str] | None = None,
        proxy: Proxy | None = None,
        relay_token: Token | None = None,
    ) -> None:
        self.handshake, self.mailbox, self.log = handshake, mailbox, log
        self._limit, self._bind = frame_limit, bind
        self._routes = Routes(handshake, addresses or {}, proxy, relay_token)
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, name="tacenda-network", daemon=True)
        self._ready = threading.Event()
        self._failed: NetworkError | None = None
        self.on_membership: Callable[[str, frames.Membership], None] = lambda peer, frame: None
        self.on_total: Callable[[str, frames.Total], bool] = lambda peer, frame: False
        self.on_post: Callable[[bytes], bytes] = lambda sheet: b"[]"
        self.greeting: Callable[[int], Sequence[frames.Frame]] = lambda view: []
        me, contract = handshake.identity.name, handshake.contract
        self.lives = Lives(contract, me, handshake.identity.signer())
        self.health: Callable[[], Health] = lambda: Health("running")
        self.links = {
            peer: Link(
                peer,
                mailbox,
                handshake.witness,
                frame_limit,
                log,
                lambda p, f: self.on_membership(p, f),
                lambda e: self.greeting(e),
                lambda p, f: self.on_total(p, f),
                handshake.book,
                self._share,
                self.lives,
            )
            for peer in contract.neighbours(me)
        }
        for link in self.links.values():
            link.sign = self._sign
        # For whom the node waits, since when, and whether its policy pauses it
        self.awaited: tuple[list[str], float] = ([], 0.0)
        self.paused_since: float | None = None
        self._leaving = False  # for want of those
        self._begun = time.monotonic()
        handshake.witness.on_caught = self._caught
        self._total = contract.total_rounds
        self.refused = 0
        self._clocks_told: set[str] = set()
        self.port: int | None = None

    # ---- from the node's thread
    def start(self) -> None:
        """Listen and call; a second time it does nothing."""
        if self._thread.is_alive():
            return
        self._thread.start()
        self._ready.wait(30)
        if self._failed is not None:
            raise self._failed

    @property
    def alive(self) -> bool:
        """Whether the network thread runs, or has not begun yet."""
        return self._thread.ident is None or self._thread.is_alive()

    @property
    def started(self) -> bool:
        """Whether the node listens and calls."""
        return self._thread.is_alive() and self._ready.is_set()

    def post(self, messages: list[tuple[Key, str, bytes]]) -> None:
        """Hand durable frames to their links."""

        def hand() -> None:
            for key, peer, frame in messages:
                self.links[peer].post(key, frame)

        self._loop.call_soon_threadsafe(hand)

    def tell(self, frame: frames.Frame, peers: Iterable[str] | None = None) -> None:
        """A notice to every neighbour that is there, or to some of them."""

        def tell_links() -> None:
            for peer in self.links if peers is None else peers:
                self.links[peer].tell(frame)

        self._loop.call_soon_threadsafe(tell_links)

    def awaits(self, peers: list[str]) -> None:
        """The node waits for the rows of these."""
        if self.awaited[0] != peers:
            self.awaited = (list(peers), time.monotonic())

    def causes(self) -> list[Cause]:
        """Why the node waits: the members at the root, as far as it can be told from here."""
        me, (peers, since) = self.handshake.identity.name, self.awaited
        found = []
        for peer in peers:
            link = self.links.get(peer)
            if link is not None and is_clone(link.reason):
                continue  # it is there, and refuses this node
            if link is not None:
                found += link.causes(me, since)
            else:
                found.append(Cause((peer,), SILENT, time.monotonic() - since))
        return root_causes(found)

    def _sign(self) -> frames.Progress:
        """This node's sign of life."""
        me, handshake = self.handshake.identity.name, self.handshake
        waits = [
            frames.Wait([me, *cause.chain], cause.state, int(cause.seconds))
            for cause in self.causes()
            if cause.state != CIRCLE and len(cause.chain) < MOST_CHAIN
        ]
        if self.paused_since is not None:
            waits = [frames.Wait([me], PAUSED, int(time.monotonic() - self.paused_since))]
        return frames.Progress(handshake.done, handshake.view, waits=waits, leaving=self._leaving)

    def _tell_life(self) -> None:
        """Sign how this node is, for all members."""
        now, (peers, since) = time.monotonic(), self.awaited
        waits = self._unsigned()
        for peer in peers[:MOST_WANTED] if now - since > WAITING_SECONDS else ():
            link = self.links.get(peer)
            state, seconds = (SILENT, now - since) if link is None else link.state(since)
            waits.append(frames.Wanted(peer, state, int(seconds)))
        handshake = self.handshake
        self.lives.tell(self.health(), handshake.view, handshake.done, waits, tacenda.__version__)

    def _unsigned(self) -> list[frames.Wanted]:
        """Whose signature of the contract is missing here, since this node began."""
        book = self.handshake.book
        if self.handshake.ready or book is None:
            return []
        missing, seconds = book.current.missing[:MOST_WANTED], time.monotonic() - self._begun
        return [frames.Wanted(name, UNSIGNED, int(seconds)) for name in missing]

    async def _live(self) -> None:
        """Tell all members now and then how this node is, and what is known of the others."""
        loop, first = asyncio.get_running_loop(), True
        while True:
            await asyncio.sleep(FIRST_LIFE_SECONDS if first else LIFE_SECONDS)
            first = False
            await loop.run_in_executor(None, self._tell_life)
            self._pass_on_lives()

    def _pass_on_lives(self) -> None:
        for peer, link in self.links.items():
            if link.connected:
                news = self.lives.due(peer)
                if news is not None:
                    link.pass_on(news)

    def tell_leaving(self) -> None:
        """Tell the neighbours that this node stops because of those for whom it waits."""
        self._leaving = True
        self.tell(self._sign())

    def share(self, contract: str) -> None:
        """Show all neighbours the signatures of this contract text, as far as they are held."""
        self._loop.call_soon_threadsafe(self._share, contract)

    def _share(self, contract: str) -> None:
        for link in self.links.values():
            link.share(contract)

    def ready(self) -> None:
        """All have signed and the state is open: the neighbours are met anew, in full."""
        self.handshake.ready = True
        if self._thread.is_alive():
            for link in self.links.values():
                self._loop.call_soon_threadsafe(link.reopen)

    def _caught(self, member: str) -> None:
        """A signature has convicted a member, or this node's own state: the edge ends, and the
        neighbours are shown the proof."""
        witness = self.handshake.witness
        if witness.lost is not None:
            self.mailbox.alarm(witness.lost)
            return
        if member in self.links:
            self.links[member].end(witness.caught[member])
        for link in self.links.values():
            for proof in witness.evidence:
                link.tell(proof)
        self.mailbox.wake()

    def stop(self) -> None:
        """Close all streams; frames that were not used stay in the outbox."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(10)

    # ---- the loop
    def _run(self) -> None:
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        except Exception as error:
            self._failed = (
                error
                if isinstance(error, NetworkError)
                else NetworkError(f"The network thread failed: {error}.")
            )
            self.mailbox.alarm(self._failed)
        finally:
            self._ready.set()
            self._loop.close()

    async def _main(self) -> None:
        self._stopping = asyncio.Event()
        if self._bind is None or not self._bind.startswith(RELAY):
            await self._serve_and_call(self._bind)
            return
        with tempfile.TemporaryDirectory(prefix="tacenda-") as folder:
            await self._serve_and_call(
                f"unix:{folder}/s", self._bind.removeprefix(RELAY), f"{folder}/s"
            )

    async def _serve_and_call(
        self, where: str | None, relay: str | None = None, door: str = ""
    ) -> None:
        """where: to listen, or None; door: the local socket for what the relay passes on."""
        server = await self._serve(where) if where else None
        callers = [
            asyncio.ensure_future(self._call_on_and_on(link))
            for link in self.links.values()
            if self._calls(link.peer)
        ]
        if relay is not None:
            callers += [
                asyncio.ensure_future(self._routes.let_in(relay, link, door, self.log))
                for link in self.links.values()
                if not self._calls(link.peer)
            ]
        callers.append(asyncio.ensure_future(self._live()))
        self._ready.set()
        await self._stopping.wait()
        await self._hang_up()
        for task in callers:
            task.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        if server is not None:
            await server.stop(0.2)
        # gRPC's own, which it does not wait for
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=2)

    async def _hang_up(self) -> None:
        """End all conversations in order, so that the last notices are read."""
        self._tell_life()
        self._pass_on_lives()
        for link in self.links.values():
            link.close()
        end = time.monotonic() + LAST_WORDS_SECONDS
        while time.monotonic() < end and any(link.connected for link in self.links.values()):
            await asyncio.sleep(0.01)

    def _calls(self, peer: str) -> bool:
        contract, me = self.handshake.contract, self.handshake.identity.name
        if not contract.member(peer).listens:
            return False
        return not contract.member(me).listens or contract.position(me) < contract.position(peer)

    # ---- listening
    async def _serve(self, where: str) -> Any:
        options = (
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", max(self._limit, MOST_POST)),
            ("grpc.max_concurrent_streams", 4),
            ("grpc.max_metadata_size", 8192),
            ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
            ("grpc.max_allowed_incoming_connections", MOST_CONNECTIONS),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
            ("grpc.max_connection_idle_ms", 60_000),
            *KEEPALIVE,
        )
        # No limit on all streams together, which one member could use up for all:
        # each peer has its own (`Link.knock`).
        server = grpc.aio.server(options=options)
        handlers = {
            "Talk": grpc.stream_stream_rpc_method_handler(self._answer),
            "Post": grpc.unary_unary_rpc_method_handler(self._take_post),
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("tacenda.Node", handlers),)
        )
        try:
            self.port = server.add_secure_port(where, self._server_credentials())
        except RuntimeError:
            self.port = 0
        if not self.port:
            raise NetworkError(
                f"The address {self._bind} cannot be listened on: "
                "is another program there? Choose another with --bind."
            )
        await server.start()
        self.log.info("listening", address=str(self._bind), port=self.port)
        return server

    def _server_credentials(self) -> Any:
        known: list[Any] = [None]

        def fetch() -> Any:
            found = (self.handshake.tls_pair(), self._roots())
            if found == known[0]:
                return None
            known[0] = found
            return grpc.ssl_server_certificate_configuration([found[0]], found[1])

        first = fetch()
        return grpc.dynamic_ssl_server_credentials(first, fetch, require_client_authentication=True)

    def _roots(self) -> bytes:
        return "\n".join(self.handshake.contract.authorities).encode()

    async def _take_post(self, request: bytes, context: Any) -> bytes:
        """Proposals of any member, neighbour or not (`proposals.post`)."""
        if member_of(plain_auth(context), self.handshake.contract) is None:
            self.refused += 1
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "refused")
        try:
            return await asyncio.to_thread(self.on_post, request)
        except InputError as wrong:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(wrong)[:500])
            raise

    async def _answer(self, requests: Any, context: Any) -> None:
        """One incoming stream; a stranger learns nothing, a member learns why."""
        try:
            auth = plain_auth(context)
            caller = self.handshake.caller(auth)
        except Exception as why:
            self.refused += 1
            # Without its port, which is another one each time: such lines count as repeated
            host = context.peer().rpartition(":")[0]
            self.log.warning("caller refused", peer=host, reason=reason_of(why))
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "refused")
        link = self.links[caller]
        link.certificate_expires = expiry_of(next(iter(auth["x509_pem_cert"])))
        if caller in self.handshake.witness.caught:
            await self._refuse(
                context,
                caller,
                Refused(
                    self.handshake.witness.caught[caller], self.handshake.witness.shown(caller)
                ),
            )
            return
        if link.banned:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "cut off")
        try:
            data = await link.knock(context.read, HELLO_SECONDS)
            if not isinstance(data, bytes):
                raise Refused(f"{caller} closed the stream before it said hello")
            hello = self.handshake.read(data, self._limit, caller)
            self._require_one_process(link, hello)
            welcome = self.handshake.welcome(hello, caller)
        except (Refused, frames.BadFrame, StateError, TimeoutError) as why:
            await self._refuse(context, caller, why)
            return
        assert isinstance(hello, frames.Hello)
        waiting = hello.waiting or welcome.waiting
        if not waiting:
            link.met(hello.view, hello.done, hello.done >= self._total)
        link.instance, link.version = hello.instance, hello.version
        await context.write(frames.encode(welcome))
        self._tell_clock(caller)
        keys = not waiting and self.handshake.edges is not None
        if keys and not await self._confirmed(context, caller):
            return
        if welcome.waiting and self.handshake.ready:
            return  # meanwhile all have signed: the caller says hello again
        await link.converse(context.read, context.write, waiting=waiting)

    def _require_one_process(self, link: Link, frame: frames.Frame) -> None:
        """Refuse a second process of a member while the first gives signs of life: the two run on
        copies of one state."""
        assert isinstance(frame, frames.Hello)
        if link.alive and link.instance and frame.instance not in (b"", link.instance):
            raise Refused(
                f"{link.peer} {CLONE}: one of the two runs on a copy of the other's machine or "
                "state; stop one of them"
            )

    def _tell_clock(self, peer: str) -> None:
        """Log, once for each peer, that its clock is far from this one's."""
        words = self.handshake.clock_trouble(peer)
        if words and peer not in self._clocks_told:
            self._clocks_told.add(peer)
            self.log.warning("clocks differ", peer=peer, message=words)

    async def _confirmed(self, context: Any, caller: str) -> bool:
        """Whether the caller showed that it holds the same edge key; otherwise the stream ends."""
        try:
            data = await self.links[caller].knock(context.read, HELLO_SECONDS)
            if not isinstance(data, bytes):
                return False
            self.handshake.confirmed(frames.decode(data, self._limit), caller)
        except (frames.BadFrame, StateError, TimeoutError) as why:
            await self._refuse(context, caller, why)
            return False
        self.mailbox.wake()
        return True

    async def _refuse(self, context: Any, caller: str, why: Exception) -> None:
        self.refused += 1
        link = self.links[caller]
        link.finished = link.finished or isinstance(why, HasFinished)
        if link.refusal != reason_of(why) and not asks_for_fields(why):
            self.log.warning("caller refused", peer=caller, reason=reason_of(why))
            link.refusal = reason_of(why)
            if not link.connected:  # otherwise it is about another process of the peer
                link.reason = link.refusal
            self._tell_trouble(why)
        if isinstance(why, frames.BadFrame):
            self.links[caller].strike(str(why))
        shown = why.shown if isinstance(why, Refused) else frames.Shown()
        await context.write(frames.encode(frames.Refusal(reason_of(why)[:2000], shown)))
        self._maybe_fatal(why)

    # ---- calling
    async def _call_on_and_on(self, link: Link) -> None:
        failures, told = 0, ""
        while not self._stopping.is_set():
            begin = time.monotonic()
            try:
                if link.banned:
                    raise Refused(link.reason)
                if link.peer in (self.handshake.contract.left or ()):
                    raise Refused(f"{link.peer} has left the run")
                await self._call(link)
            except asyncio.CancelledError:
                raise
            except Exception as why:
                link.reason = await self._routes.explained(link.peer, why)
                # Otherwise what was seen before it broke stands until somebody answers
                link.hung = probe.ACCEPTS in link.reason or (link.hung and not answered(why))
                link.finished = link.finished or isinstance(why, HasFinished)
                if isinstance(why, frames.BadFrame):
                    link.strike(str(why))
                if link.reason != told:
                    self.log.warning("peer not reached", peer=link.peer, reason=link.reason)
                    told = link.reason
                    self._tell_trouble(why)
                self._maybe_fatal(why)
                if link.peer in self.handshake.witness.caught:
                    return
            over = time.monotonic() - begin > 5 or link.waiting
            failures, link.waiting = 0 if over else failures + 1, False
            # So that nobody counts as away for lack of a call
            longest = self.handshake.contract.absence.limit_seconds / 8
            await asyncio.sleep(min(longest, PAUSES[min(failures, len(PAUSES) - 1)]))

    def _tell_trouble(self, why: Exception) -> None:
        """The neighbours hear why a member's signature is missing, if it has signed another
        text."""
        book = self.handshake.book
        if isinstance(why, ContractsDiffer) and book is not None:
            self._share(book.current.hash)
            self.mailbox.wake()

    async def _call(self, link: Link) -> None:
        """One conversation as the caller; where the contracts differ the peer is shown in which
        fields."""
        try:
            await self._call_once(link)
        except ContractsDiffer as other:
            if not asks_for_fields(other):
                raise
            await self._call_once(link, fields=True)

    async def _call_once(self, link: Link, *, fields: bool = False) -> None:
        key, certificate = self.handshake.tls_pair()
        credentials = grpc.ssl_channel_credentials(self._roots(), key, certificate)
        options = (
            ("grpc.ssl_target_name_override", link.peer),
            ("grpc.max_receive_message_length", self._limit),
            ("grpc.use_local_subchannel_pool", 1),
            *KEEPALIVE,
        )
        async with (
            self._routes.target(link.peer) as target,
            grpc.aio.secure_channel(target, credentials, options=options) as channel,
        ):
            call = channel.stream_stream(METHOD)()
            nonce = os.urandom(32)
            hello = self.handshake.hello(link.peer, nonce, fields=fields)
            try:
                await asyncio.wait_for(call.write(frames.encode(hello)), HELLO_SECONDS)
            except grpc.aio.AioRpcError as why:
                # Ended while it was written to: the peer's word is the call's status
                raise Refused(plainly(await status_of(call))) from why
            answer = await asyncio.wait_for(call.read(), HELLO_SECONDS)
            if not isinstance(answer, bytes):
                raise Refused(f"{link.peer} closed the stream ({await status_of(call)})")
            welcome = self.handshake.check_welcome(
                frames.decode(answer, self._limit), link.peer, nonce, hello
            )
            self._tell_clock(link.peer)
            link.certificate_expires = expiry_of(welcome.certificate)
            link.instance, link.version = welcome.instance, welcome.version
            if not welcome.waiting:
                link.met(welcome.view, welcome.done, welcome.done >= self._total)
                confirmation = self.handshake.confirmation(link.peer)
                if confirmation is not None:
                    await call.write(frames.encode(confirmation))
                    self.mailbox.wake()
            if hello.waiting and self.handshake.ready:
                return  # meanwhile all have signed: hello again
            await link.converse(
                call.read, call.write, waiting=welcome.waiting, say_end=call.done_writing
            )

    def _maybe_fatal(self, why: Exception) -> None:
        """A state that was lost or cannot be written stops the node;
        nothing that a peer says does."""
        if isinstance(why, StateError):
            self.mailbox.alarm(why)
