"""The transport of a real node: durable first, then sent, then wait for the neighbours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import count, takewhile

from msgspec import msgpack

from tacenda._types import Array
from tacenda.errors import NetworkError, StateError
from tacenda.privacy.accounting.events import Event
from tacenda.runtime.transport import Tag
from tacenda_node.identity.contract import Contract
from tacenda_node.identity.edge_keys import EdgeKeys
from tacenda_node.protocol import frames
from tacenda_node.state.database import Booking, NodeState, Stored
from tacenda_node.watch.causes import FROZEN, Cause
from tacenda_node.wire.endpoint import Endpoint
from tacenda_node.wire.mailbox import Key

MEETING = 0.1  # seconds between looks for the keys of the edges
SLICE = 0.5  # seconds between looks at the clock, the signals and the peers
REMIND_SECONDS = 5.0  # between reminders of what was signed here
# A checkpoint follows the one before after so many rounds, or so many seconds of them: this is what
# a node that was killed has to compute again
MOST_ROUNDS, MOST_SECONDS = 8, 10.0
MOST_TOTALS = 16  # of the last rounds, that are kept for members who may lack them
PROOF_SECONDS = 3.0  # for which a proof may be on its way
MAP, TOTALS = "map total", "last totals"  # names in the state


class PeerAbsent(NetworkError):
    """A neighbour stayed away for longer than the contract allows."""

    to_do = "Ask the operators of those members, and start the node again when they are back."

    def __init__(
        self,
        peers: list[str],
        seconds: float,
        reasons: list[str],
        causes: Iterable[Cause] = (),
        advice: str = "",
    ) -> None:
        """causes: why these peers are waited for; the members at the root are named. advice: what
        else may have happened, and what to do then."""
        behind = [cause for cause in causes if cause.chain[0] in peers]
        roots = {cause.chain[0]: cause.member for cause in behind}
        named = dict.fromkeys(roots.get(peer, peer) for peer in peers)
        words = [cause.words for cause in behind if cause.state == FROZEN or len(cause.chain) > 1]
        said = "; ".join([*words, *sorted({reason for reason in reasons if reason})])
        super().__init__(
            f"{', '.join(named)} stayed away for more than {seconds:g} s, the contract's limit. "
            "Everything is saved: start the node again when they are back. Last heard: "
            f"{said or 'nothing'}.{advice}"
        )
        self.peers = peers


class MemberCaught(NetworkError):
    """A member has signed what no honest one signs."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__(
            f"{'; '.join(sentences)}. Everything is saved, and what was spent stays charged. "
            "The run does not continue with that member: show the others the evidence, "
            "and continue without it under a new contract."
        )


class Exchange:
    """`Transport` of one member.
    Charges and the checkpoint wait here for the transaction of the next message."""

    def __init__(
        self,
        contract: Contract,
        state: NodeState,
        endpoint: Endpoint,
        check: Callable[[list[str]], None],
    ) -> None:
        self._contract, self._state, self._endpoint, self._check = contract, state, endpoint, check
        self._names = contract.names
        self._charges: list[Booking] = []
        self._released: list[Stored] = []
        self._checkpoint: tuple[int, int, bytes | None] | None = None
        saved = state.checkpoint()
        self._saved = None if saved is None else saved[:2]  # of the last state that was stored
        self._saved_at = time.monotonic()
        self._received: list[tuple[Key, str, bytes]] = []
        self._sent_to: set[tuple[int, str]] = set()  # (view, peer): to whom rows were sent at all
        self._witness = endpoint.handshake.witness
        self._root: dict[Key, str] = {}  # of the rows of this round that its root has made
        self._of_group: set[Key] = set()  # those that are a group's, and come again with the others
        self._totals: dict[Key, frames.Claim] = {}  # the root's signatures on them
        self._total_before: Key | None = None  # the place of the latest total that was used here
        self.map_place: Tag | None = None  # where the total comes from which the map follows
        stored = [msgpack.decode(raw, type=list[bytes]) for raw in [state.get(TOTALS)] if raw]
        self.held = [frames.stored(raw, frames.Total) for some in stored for raw in some]
        self._others: list[frames.Total] = []  # for places for which another one is held
        kept = state.get(MAP)
        self.map_total = frames.stored(kept, frames.Total) if kept else None
        self.view, self.absent = 0, frozenset[str]()
        self.waited = self.written = 0.0

    def book(self, round: int, call: int, event: Event, question: bytes = b"") -> None:
        """A release, to be made durable before anything that depends on it leaves; a redone one
        must ask the same question."""
        key = (self.view, round, call)
        self._state.check_question(key, question)
        self._charges.append((key, event.to_dict(), question))

    def store(self, round: int, call: int, value: bytes, places: int) -> None:
        """What was released, to be made durable with its charge."""
        self._released.append(((self.view, round, call), value, places))

    def released(self, round: int, call: int) -> bytes | None:
        """What was released at this place before a stop."""
        return self._state.released((self.view, round, call))

    def due(self, round: int) -> bool:
        """Whether the state after this round is to be stored; the rows received since the last one
        make any other again."""
        view, saved = self._saved or (-1, 0)
        late = time.monotonic() - self._saved_at > MOST_SECONDS
        return view != self.view or round >= saved + MOST_ROUNDS or late

    def keep(self, view: int, round: int, state: bytes | None) -> None:
        """A complete round, and the state after it where that is due: to be made durable with the
        next message."""
        self._checkpoint = (view, round, state)

    def flush(self) -> None:
        """Make durable what waits, without a message."""
        self._commit([])

    def drop(self) -> None:
        """Forget charges of a round that was given up before anything of it became durable."""
        self._charges, self._released = [], []

    def give_up(self) -> None:
        """The round is not finished in this view: its totals are made durable, in case others lack
        them, and so is the round before."""
        self.drop()
        self._state.put({TOTALS: msgpack.encode([frames.encode(total) for total in self.held])})
        self.flush()

    def holds(self) -> tuple[frames.Claim | None, frames.Claim | None]:
        """The root's signatures on the total that the map follows from, and on the latest one."""
        mine = [total.claim for total in self.held]
        last = max(mine, key=lambda claim: claim.key, default=None)
        return (None if self.map_total is None else self.map_total.claim), last

    def total(self, claim: frames.Claim) -> frames.Total | None:
        """The total with this digest, if it is held here."""
        known = [*self.held, *self._others]
        known += [] if self.map_total is None else [self.map_total]
        return next((total for total in known if total.claim.digest == claim.digest), None)

    def keep_total(self, total: frames.Total) -> None:
        """Keep a row that the root has signed: one is used for each place (see `use`)."""
        claim = total.claim
        if claim.key in {known.claim.key for known in self.held}:
            self._others = [*self._others, total][-MOST_TOTALS:]
        else:
            self.held = [*self.held, total][-MOST_TOTALS:]
        if (claim.round, claim.call) == self.map_place and self.map_total is None:
            self.keep_map(total)

    def has_another(self, claim: frames.Claim) -> bool:
        """Whether another total is held for this place."""
        mine = next((known.claim for known in self.held if known.claim.key == claim.key), claim)
        return mine.digest != claim.digest

    def use(self, claim: frames.Claim) -> None:
        """Hold the total that the members have agreed on for this place, not another one."""
        agreed = self.total(claim)
        if agreed is not None and self.has_another(claim):
            self.held = [agreed if k.claim.key == claim.key else k for k in self.held]

    def forget_total(self, key: Key) -> None:
        """Forget the total of one place: the round is not made with it."""
        self.held = [known for known in self.held if known.claim.key != key]
        if self.map_total is not None and self.map_total.claim.key == key:
            self.keep_map(None)

    def forget(self, round: int) -> None:
        """Forget the totals of a round of this view: they are none that honest members can have."""
        self.held = [known for known in self.held if known.claim.key[:2] != (self.view, round)]

    def keep_map(self, total: frames.Total | None) -> None:
        """Keep the total from which the map follows, in place of any other; None: there is none."""
        self.map_total = total
        self._state.put({MAP: b"" if total is None else frames.encode(total)})

    def from_root(self, tag: Tag, root: str, *, of_group: bool) -> None:
        """The rows under this tag are the root's, and come with its signature. of_group: they are
        not kept, since those of all groups follow in one."""
        key = (self.view, *tag)
        for rows in (self._root, self._totals):
            for old in [k for k in rows if k[:2] != key[:2]]:
                del rows[old]
        self._root[key] = root
        self._witness.roots.add(root)
        self._of_group = {k for k in self._of_group if k[:2] == key[:2]}
        if of_group:
            self._of_group.add(key)

    def exchange(
        self, tag: Tag, outgoing: dict[int, Array], awaited: Iterable[int]
    ) -> dict[int, Array]:
        """Durable, then sent to some members; then the rows of others are waited for. In a round
        that was done before a stop, nothing is sent, and all is what it was."""
        key = (self.view, *tag)
        if key[:2] <= self._witness.done:
            self._total_before = key if key in self._root else self._total_before
            return self._again(key, outgoing, list(awaited))
        self._check([])
        if outgoing:
            self._send(key, self._own_row(outgoing), [self._names[block] for block in outgoing])
        blocks = list(awaited)
        peers = [self._names[block] for block in blocks]
        if not peers:
            return {}
        found = self.wait(key, peers)
        if key in self._root:
            if (
                key not in self._of_group
            ):  # groups' sums come one after the other, with no row between
                self._keep_pace(self._root[key])
            self._check_total(key, peers[0])
            self._total_before = self._total_before if key in self._of_group else key
        # Before anything that builds on them leaves, they are durable: whatever a neighbour sends
        # again, the first version counts.
        for peer, arrived in self._endpoint.mailbox.frames(key, peers).items():
            self._received.append((key, peer, frames.encode(frames.replaced(arrived, heard=[]))))
        return {block: found[self._names[block]] for block in blocks}

    def _again(self, key: Key, outgoing: dict[int, Array], blocks: list[int]) -> dict[int, Array]:
        """An exchange of a round since the checkpoint, from the stored rows."""
        if outgoing:
            raw = frames.encode(frames.rows_frame(*key, self._own_row(outgoing)))
            before = self._state.sent(key)
            if before is None or _without_total(before) != raw:
                raise StateError(
                    f"Round {key[1]}, done again after a stop, gave other bytes than were sent "
                    "before; nothing new was sent. Run with the same version of the program and "
                    "its libraries as before the stop."
                )
        mailbox, peers = self._endpoint.mailbox, [self._names[block] for block in blocks]
        mailbox.advance(*key[:2])
        for peer, raw in self._state.received_under(key):
            mailbox.put(peer, frames.stored(raw, frames.Rows))
        found, missing = mailbox.take(key, peers, 0.0)
        if missing:
            raise StateError(
                f"The state {self._state.folder} is damaged: the rows of {', '.join(missing)} in "
                f"round {key[1]} are gone; restore the folder from a backup, or leave the run."
            )
        return {block: found[self._names[block]] for block in blocks}

    def _keep_pace(self, root: str) -> None:
        """Use a total only when all neighbours have sent a row since the one before, and have so
        shown which one they used.

        A root that signs two totals could otherwise run ahead with one member, by rounds that the
        others never make. So it is caught before anybody has used a second total.
        """
        before, said = self._total_before, time.monotonic()
        if before is None or before[0] != self.view:
            return
        witness, endpoint = self._witness, self._endpoint
        while True:
            news = endpoint.mailbox.news()
            others = endpoint.links.keys() - self.absent - {root}
            behind = sorted(peer for peer in others if not witness.is_past(peer, before))
            if not behind:
                break
            self._check(behind)
            if time.monotonic() - said > REMIND_SECONDS:  # they may wait for this member's digest
                said = time.monotonic()
                done, view = endpoint.handshake.done, endpoint.handshake.view
                endpoint.tell(frames.Progress(done, view, heard=witness.recent()), behind)
            endpoint.mailbox.news(news, SLICE)
        self._check([])

    def _check_total(self, key: Key, giver: str) -> None:
        """What came down the tree is what the root has signed; or the giver is caught."""
        root = self._root[key]
        arrived = self._endpoint.mailbox.frames(key, [giver])[giver]
        claim = self._witness.total(giver, arrived, root)
        if claim is None:
            self._check([])  # goes on without a member that was caught, or stops
            raise MemberCaught([self._witness.caught[giver]])
        self._totals[key] = claim
        if key not in self._of_group:
            self._keep_own(claim, arrived)

    def _keep_own(self, claim: frames.Claim, row: frames.Rows) -> None:
        """Keep a total of this round; where it joins the sums of groups, with the signatures of
        their roots, without which it is worth nothing to others."""
        view, round, call = claim.key
        groups = list(
            takewhile(self._of_group.__contains__, ((view, round, call - k) for k in count(1)))
        )
        parts = [self._totals[key] for key in reversed(groups)]
        self.keep_total(frames.Total(claim, row.dtype, row.shape, row.data, parts))

    def false_sums(self, tag: Tag) -> None:
        """What the root of the whole tree has signed under this tag is not what the groups' roots
        have: it is caught."""
        key = (self.view, *tag)
        root, row = self._root[key], self.total(self._totals[key]) if key in self._totals else None
        if row is not None:
            self.forget_total(key)
            # A group's root may have signed two sums; its other signature is then on its way
            end = time.monotonic() + min(self._contract.absence.limit_seconds, PROOF_SECONDS)
            while time.monotonic() < end:
                self._check([])
                time.sleep(PROOF_SECONDS / 100)
            self._witness.false_sums(row)
            self._check([])  # goes on without a member that was caught, or stops
        raise MemberCaught([self._witness.caught.get(root, f"{root} hands down false sums")])

    def _send(self, key: Key, row: Array, peers: list[str]) -> None:
        frame = frames.replaced(frames.rows_frame(*key, row), total=self._totals.get(key))
        raw = frames.encode(frame)
        self._commit([(key, peer, raw) for peer in peers])
        signed = self._witness.signed(frame)
        if self._root.get(key) == self._endpoint.handshake.identity.name:
            claim = self._totals[key] = self._witness.claim_of(signed)
            if key not in self._of_group:
                self._keep_own(claim, frame)
        leaving = []
        for peer in peers:
            heard = self._witness.unknown_to(peer, signed.heard)
            leaving.append((key, peer, frames.encode(frames.replaced(signed, heard=heard))))
        self._endpoint.post(leaving)
        self._tell_digests(signed, peers)

    def _tell_digests(self, signed: frames.Rows, peers: list[str]) -> None:
        """Neighbours that get no row in this call get the digests: this row's and those heard of.
        So what a member signs goes round on every edge, also where rows go along a tree."""
        handshake = self._endpoint.handshake
        others = [
            peer for peer in self._endpoint.links if peer not in peers and peer not in self.absent
        ]
        own = self._witness.claim_of(signed)
        for peer in others:
            claims = [own, *self._witness.unknown_to(peer, signed.heard)]
            for first in range(0, len(claims), frames.MOST_HEARD):
                some = claims[first : first + frames.MOST_HEARD]
                told = frames.Progress(handshake.done, handshake.view, heard=some)
                self._endpoint.tell(told, [peer])

    def resend(self) -> None:
        """Hand the stored outbox to the links, signed;
        and use again what had been received since the checkpoint."""
        unsent = self._state.unsent()
        self._sent_to.update((key[0], peer) for key, peer, _ in unsent)
        signed = {
            key: frames.encode(self._witness.signed(frames.stored(raw, frames.Rows)))
            for key, _, raw in unsent
        }
        self._endpoint.post([(key, peer, signed[key]) for key, peer, _ in unsent])
        for key, peer, raw in self._state.received():
            if key[:2] > self._witness.done:
                self._endpoint.mailbox.put(peer, frames.stored(raw, frames.Rows))

    def _own_row(self, outgoing: dict[int, Array]) -> Array:
        """The one row that all neighbours get; `Network` has cut it to the contract's radius."""
        rows = list(outgoing.values())
        if any(other.tobytes() != rows[0].tobytes() for other in rows[1:]):
            raise NetworkError(
                "A member sends the same row to all its neighbours; "
                "this is a defect of the algorithm."
            )
        return rows[0]

    def meet(self, edges: EdgeKeys | None, peers: list[str]) -> None:
        """Wait until all these neighbours were met, with what they hold of this node's signatures
        and the keys of the edges.

        Nothing new leaves before: an old copy of a state is found by its neighbours, and each of
        them may be the only honest one.
        """
        links, handshake = self._endpoint.links, self._endpoint.handshake
        while True:
            missing = [
                peer
                for peer in peers
                if not links[peer].greeted or (edges is not None and peer in edges.missing([peer]))
            ]
            if not missing and handshake.lost != self.view:
                self._endpoint.awaits([])
                return
            missing = missing or peers
            # Nothing arrives under round 0; a new key, a notice or an alarm ends the wait.
            self._endpoint.mailbox.take((0, 0, 0), missing, MEETING)
            self._check(missing)

    def wait(self, key: Key, peers: list[str]) -> dict[str, Array]:
        """The rows of all these peers; looks around while it waits."""
        begin = time.monotonic()
        while True:
            found, missing = self._endpoint.mailbox.take(key, peers, SLICE)
            if not missing:
                self._endpoint.awaits([])
                self.waited += time.monotonic() - begin
                return found
            self._check(missing)

    def _commit(self, messages: list[tuple[Key, str, bytes]]) -> None:
        begin = time.monotonic()
        self._sent_to.update((key[0], peer) for key, peer, _ in messages)
        present = [
            link.done
            for link in self._endpoint.links.values()
            if link.peer not in self.absent and (self.view, link.peer) in self._sent_to
        ]
        saves = self._checkpoint is not None and self._checkpoint[2] is not None
        saved = self._checkpoint[:2] if self._checkpoint is not None and saves else self._saved
        # Never what is not behind this node's own checkpoint, whatever the peers say
        forget = min([saved or (0, 0), *present])
        self._state.commit(
            self._charges, messages, self._checkpoint, forget, self._received, self._released
        )
        if saves:
            self._saved, self._saved_at = saved, time.monotonic()
        if self._checkpoint is not None:
            self._endpoint.handshake.view, self._endpoint.handshake.done = self._witness.done = (
                self._checkpoint[:2]
            )
            self._witness.latest = max(
                self._witness.latest, (*self._witness.done, frames.MOST_CALLS)
            )
        if messages:
            self._endpoint.handshake.started = True
            self._witness.latest = max(self._witness.latest, messages[0][0])
        self._charges, self._checkpoint, self._received = [], None, []
        self._released = []
        self.written += time.monotonic() - begin


def _without_total(stored: bytes) -> bytes:
    """A stored row of this node without the root's signature."""
    return frames.encode(frames.replaced(frames.stored(stored, frames.Rows), total=None))
