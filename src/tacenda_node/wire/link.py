"""One edge of the graph, seen from one end: who is there, what still has to be sent, and what may
be believed.

Frames stay on the list until the peer is known to have used them; after a reconnection all of them
are sent again, the very same bytes. A peer's message of round t proves that it has made round t - 1
durable, so nothing else needs to be acknowledged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tacenda_node.protocol import frames
from tacenda_node.protocol.contract_signatures import SignatureBook
from tacenda_node.protocol.lives import Lives
from tacenda_node.protocol.signed_rows import Witness, digest
from tacenda_node.watch.causes import AWAY, CIRCLE, COMPUTING, FAULTS, FROZEN, PAUSED, Cause
from tacenda_node.wire.mailbox import Key, Mailbox

MOST_USELESS = 512  # frames in a row that change nothing, before the peer counts as flooding
MOST_STRIKES = 8
MOST_KNOCKING = 4  # streams of one peer without a hello
LONGEST_BAN = 60.0
SIGN_SECONDS = 2.0  # between signs of life
ALIVE_SECONDS = 2.5 * SIGN_SECONDS  # since the latest one: its process runs
LAST_WORDS_SECONDS = 2.0  # for what was said before a stream ended to be read
FROZEN_SECONDS = 5 * SIGN_SECONDS  # a peer that is connected, and silent for so long, is frozen


@dataclass
class Link:
    """The state of one edge; touched by the network thread only,
    except for `frames` through the loop."""

    peer: str
    mailbox: Mailbox
    witness: Witness
    frame_limit: int
    log: Any
    on_membership: Callable[[str, frames.Membership], None]
    greeting: Callable[[int], Sequence[frames.Frame]]
    on_total: Callable[[str, frames.Total], bool] = lambda peer, frame: False
    book: SignatureBook | None = None
    on_signatures: Callable[[str], None] = lambda contract: None
    lives: Lives | None = None
    connected: bool = False
    # Of the present conversation: only signatures and signs of life may be sent
    # (`Handshake.ready`)
    waiting: bool = False
    seen: float = field(default_factory=time.monotonic)
    reason: str = "not connected yet"
    refusal: str = ""  # the latest of a caller that introduced itself as the peer
    strikes: int = 0
    banned_until: float = 0.0
    done: tuple[int, int] = (0, 0)
    finished: bool = False
    greeted: bool = False
    resent: int = 0
    sessions: int = 0
    left: float = field(default_factory=time.monotonic)  # since when it is not connected
    sent_bytes: int = 0
    received_bytes: int = 0
    certificate_expires: float | None = None  # in seconds since 1970, of the one it has shown
    sign: Callable[[], frames.Progress] = lambda: frames.Progress(0)  # this node's sign of life
    instance: bytes = b""  # of the peer's process
    version: str = ""  # of the peer's program
    hung: bool = False  # silent for long before the connection broke, or at the look since
    # What the peer has said of its own waits, when, and whether it stopped for that
    waits: list[frames.Wait] = field(default_factory=list)
    waits_at: float = 0.0
    leaving: bool = False
    queued: list[tuple[Key, bytes]] = field(default_factory=list)
    _sent: int = 0
    _more: asyncio.Event = field(default_factory=asyncio.Event)
    _extra: list[bytes] = field(default_factory=list)
    _news: list[bytes] = field(default_factory=list)  # signs of life of all members
    _due: set[str] = field(default_factory=set)  # contract texts whose signatures are to be shown
    _over: asyncio.Event | None = None  # ends the present conversation
    _closing: bool = False  # once everything was said
    _knocking: list[asyncio.Event] = field(default_factory=list)

    def post(self, key: Key, frame: bytes) -> None:
        """Queue a durable message."""
        if all(known != key for known, _ in self.queued):
            self.queued.append((key, frame))
        self._more.set()

    def tell(self, frame: frames.Frame) -> None:
        """Queue a notice that needs no keeping; it is repeated by whoever needs it."""
        self._extra.append(frames.encode(frame))
        del self._extra[:-32]
        self._more.set()

    def pass_on(self, lives: frames.Lives) -> None:
        """Queue signs of life, which are also sent while signatures are missing."""
        self._news.append(frames.encode(lives))
        del self._news[:-32]
        self._more.set()

    def share(self, contract: str) -> None:
        """Show the peer all signatures of this contract text that are held here."""
        self._due.add(contract)
        self._more.set()

    def used(self, view: int, round: int) -> None:
        """The peer has made this round durable: forget what was sent for it."""
        if (view, round) <= self.done:
            return
        self.done = (view, round)
        keep = [(k, f) for k, f in self.queued if k[:2] > self.done]
        self._sent = max(0, self._sent - (len(self.queued) - len(keep)))
        self.queued = keep

    def met(self, view: int, done: int, finished: bool) -> None:
        """What the peer said of itself at the handshake."""
        self.seen, self.finished, self.greeted = time.monotonic(), self.finished or finished, True
        self.used(view, done)
        self.tell(frames.Progress(0, heard=self.witness.recent()))
        for proof in self.witness.evidence:
            self.tell(proof)
        for frame in self.greeting(view):
            self.tell(frame)

    async def converse(
        self,
        read: Callable[[], Awaitable[Any]],
        write: Callable[[bytes], Awaitable[Any]],
        *,
        waiting: bool = False,
        say_end: Callable[[], Awaitable[Any]] | None = None,
    ) -> None:
        """Send and receive until the stream ends, the peer misbehaves, a newer connection takes
        over, or everything was said before a stop. say_end: of the caller, who must let the peer
        read everything before it hangs up; the listener's end is in order anyway."""
        if self._over is not None:
            self._over.set()
        mine = self._over = asyncio.Event()
        self.waiting = waiting
        self._due.clear()
        self._news.clear()
        if self.lives is not None:
            self.lives.met(self.peer)
        for text in self.book.texts if self.book is not None else ():
            if waiting or not text.complete:
                self.share(text.hash)
        self.connected, self.reason, self.resent = True, "", self.resent + self._sent
        self.seen, self.hung, self.leaving, self.waits = time.monotonic(), False, False, []
        self._sent, self.sessions = 0, self.sessions + 1
        self._more.set()
        details = {"only_signatures": True} if waiting else {"to_send": len(self.queued)}
        self.log.info("peer connected", peer=self.peer, version=self.version, **details)
        writer = asyncio.ensure_future(self._write(write))
        reader = asyncio.ensure_future(self._read(read))
        over = asyncio.ensure_future(mine.wait())
        signs = asyncio.ensure_future(self._give_signs())
        try:
            ended, _ = await asyncio.wait(
                {writer, reader, over, signs}, return_when=asyncio.FIRST_COMPLETED
            )
            if writer in ended and not reader.done():
                # Ended by the peer, whose last words are still to be read, or here, before a stop
                ours = writer.exception() is None
                if ours and say_end is not None:
                    await say_end()
                if say_end is not None or not ours:
                    await asyncio.wait({reader}, timeout=LAST_WORDS_SECONDS)
            for task in (reader, *ended):
                if task.done():
                    task.result()
        except frames.BadFrame as lie:
            self.strike(str(lie))
        except Exception as broken:
            # A stream may break in many ways, and all mean the same: connect again
            self.reason = f"the connection broke ({type(broken).__name__})"
        finally:
            for task in (writer, reader, over, signs):
                task.cancel()
            await asyncio.gather(writer, reader, over, signs, return_exceptions=True)
            if self._over is mine:
                self.hung = self.frozen
                self._over, self.connected, self.left = None, False, time.monotonic()
                self.reason = self.reason or "the stream ended"
                self.log.info("peer disconnected", peer=self.peer, reason=self.reason)

    async def _give_signs(self) -> None:
        """Tell the peer now and then that this process runs, and for whom it waits."""
        while True:
            await asyncio.sleep(SIGN_SECONDS)
            if not self.waiting:
                self.tell(self.sign())

    @property
    def frozen(self) -> bool:
        """Whether the peer is connected and its process gives no sign of life."""
        talks = self.connected and not self.waiting
        return talks and time.monotonic() - self.seen > FROZEN_SECONDS

    @property
    def alive(self) -> bool:
        """Whether the peer's process has just given a sign of life."""
        return self.connected and time.monotonic() - self.seen < ALIVE_SECONDS

    def causes(self, me: str, since: float) -> list[Cause]:
        """Why this node waits for the peer, and has waited since then: the peer's own state, or
        what it says of those for whom it waits itself."""
        now = time.monotonic()
        told = [
            Cause(tuple(wait.chain), wait.state, wait.seconds + now - self.waits_at)
            for wait in self.waits
        ]
        honest = [cause for cause in told if me not in cause.chain]
        here, seconds = self.state(since)
        if here in FAULTS and (self.connected or not (self.leaving and honest)):
            return [Cause((self.peer,), here, seconds)]
        state = CIRCLE if told else COMPUTING
        return honest or [Cause((self.peer,), state, now - since)]

    def state(self, since: float) -> tuple[str, float]:
        """The peer's own state as seen here, and for how long; since: when this node began to
        wait for it."""
        now = time.monotonic()
        if not self.connected:
            return (FROZEN if self.hung else AWAY), now - self.left
        if self.frozen:
            return FROZEN, now - self.seen
        paused = [wait for wait in self.waits if wait.state == PAUSED and len(wait.chain) == 1]
        return (PAUSED if paused else COMPUTING), now - since

    def _hear_waits(self, frame: frames.Progress) -> None:
        """Keep what the peer says of its waits, if an honest member could say it."""
        assert frame.waits is not None
        known = self.witness.names
        for wait in frame.waits:
            chain = set(wait.chain)
            if wait.chain[0] != self.peer or len(chain) < len(wait.chain) or not chain <= known:
                raise frames.BadFrame("a chain of waits that no member can be in.")
        self.waits, self.waits_at, self.leaving = frame.waits, time.monotonic(), frame.leaving

    async def _write(self, write: Callable[[bytes], Awaitable[Any]]) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            if self._closing and self.waiting:
                return
            while self._due:
                text = None if self.book is None else self.book.find(self._due.pop())
                if text is not None:
                    await self._count(write, frames.encode(text.frame()))
            while self._news:
                await self._count(write, self._news.pop(0))
            if self.waiting:
                continue
            while self._extra:
                await self._count(write, self._extra.pop(0))
            while self._sent < len(self.queued):
                frame = self.queued[self._sent][1]
                self._sent += 1
                await self._count(write, frame)
            if self._closing:
                return

    async def _count(self, write: Callable[[bytes], Awaitable[Any]], frame: bytes) -> None:
        await write(frame)
        self.sent_bytes += len(frame)

    async def _read(self, read: Callable[[], Awaitable[Any]]) -> None:
        useless, sign_due = 0, 0.0
        while True:
            data = await read()
            if not isinstance(data, bytes):
                return
            self.seen = time.monotonic()
            self.received_bytes += len(data)
            frame = frames.decode(data, self.frame_limit)
            # A sign of life in its time is no flood, however long the run waits
            timely = isinstance(frame, frames.Progress) and self.seen >= sign_due
            if timely:
                sign_due = self.seen + SIGN_SECONDS / 2
            useless = 0 if self.take(frame) else useless + (not timely)
            if useless > MOST_USELESS:
                raise frames.BadFrame("a flood of messages that change nothing.")

    def take(self, frame: frames.Frame) -> bool:
        """Use one frame of a running conversation; False if it changed nothing."""
        if isinstance(frame, frames.Signatures):
            return self._signatures(frame)
        if isinstance(frame, frames.Lives):
            return self.lives is not None and self.lives.take(self.peer, frame)
        if self.waiting:
            raise frames.BadFrame(
                f"a frame of kind {type(frame).__name__} before all have signed the contract."
            )
        if isinstance(frame, frames.Rows):
            self.witness.row(self.peer, frame)
            try:
                fresh = self.mailbox.put(self.peer, frame)
            except frames.UnfitRows as unfit:
                self.witness.unfit(frames.signed_row(self.peer, frame, digest(frame)), str(unfit))
                raise
            if fresh:
                self.used(frame.view, frame.round - 1)
            return fresh
        if isinstance(frame, frames.Progress):
            # No round beyond this member's own counts as news: there are only so many of them.
            reached = (self.mailbox.view, self.mailbox.round)
            fresh = (frame.finished and not self.finished) or (
                self.done < (frame.view, frame.done) <= reached
            )
            self.finished = self.finished or frame.finished
            if frame.waits is not None:
                self._hear_waits(frame)
            self.used(frame.view, frame.done)
            fresh |= self.witness.hear(self.peer, frame.heard)
            self.mailbox.wake()
            return fresh
        if isinstance(frame, frames.Membership):
            self.on_membership(self.peer, frame)
            return False
        if isinstance(frame, frames.Proof):
            return self.witness.proof(frame)
        if isinstance(frame, frames.Total):
            return self.on_total(self.peer, frame)
        raise frames.BadFrame(
            f"a frame of kind {type(frame).__name__} in the middle of a conversation."
        )

    def _signatures(self, frame: frames.Signatures) -> bool:
        """Keep what is new, pass it on, and show the peer what it lacks."""
        text = None if self.book is None else self.book.find(frame.contract)
        if text is None:
            if self.book is not None:
                self.book.unknown(self.peer, frame.contract)
            return False
        fresh = text.take(self.peer, frame)
        if text.knows_more(frame):
            self.share(text.hash)
        if fresh:
            self.on_signatures(text.hash)
            self.mailbox.wake()
        return fresh

    def close(self) -> None:
        """End the conversation once everything was said."""
        self._closing = True
        self._more.set()

    def reopen(self) -> None:
        """End a conversation that was about signatures only: both sides say hello again."""
        if self.waiting and self._over is not None:
            self._over.set()

    def strike(self, what: str) -> None:
        """Cut the peer off for a while that doubles each time."""
        self.strikes += 1
        seconds = (
            float("inf")
            if self.strikes >= MOST_STRIKES
            else min(LONGEST_BAN, 2.0 ** (self.strikes - 1))
        )
        self.banned_until = time.monotonic() + seconds
        self.reason = f"cut off: it sent {what}"
        self.log.warning("peer cut off", peer=self.peer, reason=what, strikes=self.strikes)

    def end(self, reason: str) -> None:
        """Cut the peer off for good: what it has signed convicts it."""
        self.strikes, self.banned_until, self.reason = MOST_STRIKES, float("inf"), reason
        if self._over is not None:
            self._over.set()

    async def knock(self, read: Callable[[], Awaitable[Any]], seconds: float) -> Any:
        """The next frame of a stream whose handshake is not done; TimeoutError if none comes, or
        newer streams of this peer do."""
        turned_away = asyncio.Event()
        self._knocking.append(turned_away)
        if len(self._knocking) > MOST_KNOCKING:
            self._knocking.pop(0).set()
        tasks = asyncio.ensure_future(read()), asyncio.ensure_future(turned_away.wait())
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not tasks[0].done():
                raise TimeoutError("no hello in time")
            return tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if turned_away in self._knocking:
                self._knocking.remove(turned_away)

    @property
    def banned(self) -> bool:
        return time.monotonic() < self.banned_until


def unfinished(links: Iterable[Link], me: str) -> list[str]:
    """Neighbours who are alive and have not finished; if there are none, those who say so of a
    member beyond them."""
    here = [link for link in links if link.connected and not link.frozen]
    near = [link.peer for link in here if not link.finished]
    return near or [link.peer for link in here if _names_somebody_alive(link.causes(me, 0.0))]


def _names_somebody_alive(causes: list[Cause]) -> bool:
    """True if a chain of waits goes through a member beyond the neighbour: whoever waits is alive,
    and so is the last one, unless it has a fault."""
    return any(len(c.chain) > 2 or (len(c.chain) == 2 and c.state not in FAULTS) for c in causes)
