"""One run of one member over the network: everything between its state folder and its neighbours,
from the meeting to the farewell. Training is one such run, the evaluation another."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

from tacenda.errors import InputError, NetworkError, StateError
from tacenda.graph.tree import spanning_tree
from tacenda.node.display import Display
from tacenda.node.identity.certificates import Identity
from tacenda.node.identity.contract import Contract
from tacenda.node.identity.edge_keys import EdgeKeys
from tacenda.node.membership.agreement import Agreement, Decision, Frozen, Phase
from tacenda.node.membership.amendments import Amendments
from tacenda.node.peer import Peer
from tacenda.node.policy import PolicyFile
from tacenda.node.protocol.contract_signatures import SignatureBook
from tacenda.node.protocol.handshake import Handshake
from tacenda.node.protocol.signed_rows import Witness, digest
from tacenda.node.protocol.wire import (
    MOST_HEARD,
    BadFrame,
    Claim,
    Membership,
    Progress,
    Total,
    frame_limit,
    replaced,
)
from tacenda.node.run_plan import RunPlan, topology_of
from tacenda.node.settings import NodeSettings
from tacenda.node.state.database import NodeState
from tacenda.node.transport.endpoint import Endpoint
from tacenda.node.transport.exchange import Exchange
from tacenda.node.transport.mailbox import Mailbox
from tacenda.node.transport.relay import SCHEME
from tacenda.node.transport.streams import Proxy, read_secret
from tacenda.node.watchdog import LOOK_AROUND, EvaluationEnded, Signals, Stopped, Watchdog
from tacenda.runtime.places import places_of

# notices of an agreement under way within the contract's limit:
# far fewer than would count as a flood
REMINDERS = 100
READY_SECONDS = 0.05  # between looks for members who may begin
MOST_HANDED = 4  # totals that neighbours hand over and that wait to be used


class Session:
    """A member's part in one run. `meet` and `run` a peer, then `take_leave`; `stop` in any case.

    in_force, former: the contract's text as amended, and the texts before it; of a closing run, as
    derived from these. amendments: those that may still come.
    """

    def __init__(
        self,
        options: NodeSettings,
        plan: RunPlan,
        identity: Identity,
        state: NodeState,
        log: Any,
        stop: Signals,
        in_force: Contract,
        former: list[Contract],
        amendments: Amendments,
        derived: Callable[[Contract], Contract] = lambda text: text,
    ) -> None:
        """derived: the text of this run that follows from a text of the contract."""
        self.plan, self.name, self.state, self.log = plan, identity.name, state, log
        self.contract, self._stop = plan.contract, stop
        contract, name = self.contract, self.name
        forms, from_root = places_of(plan.spec)
        self.mailbox = Mailbox(contract.neighbours(name), forms, contract.problem.radius)
        calls = frozenset(call for _, call in forms)
        self.witness = Witness(contract, name, state, identity.signer(), log, calls, from_root)
        self.handshake = Handshake(
            in_force, identity, self.witness, book=amendments.book, ready=False, former=former
        )
        # Seeded noise of a rehearsal needs no keys; everywhere else noise shared by neighbours is
        # drawn from the keys of the edges.
        if plan.spec.algorithm.shared_noise is not None and contract.rehearsal_seed is None:
            self.handshake.edges = EdgeKeys(contract, name, state)
        limit = frame_limit(max(form.nbytes for form in forms.values()), len(contract.members))
        member = contract.member(name)
        self.endpoint = Endpoint(
            self.handshake,
            self.mailbox,
            limit,
            log,
            bind=(options.bind or _any_interface(member.address)) if member.listens else None,
            addresses=options.addresses,
            proxy=None if options.proxy is None else Proxy.read(options.proxy, options.proxy_login),
            relay_token=_relay_token(options, contract, name),
        )
        self.display = Display(contract, name, self.endpoint, log, quiet=options.quiet)
        self.watchdog = Watchdog(contract, self.endpoint, stop, self.display, amendments, derived)
        self.exchange = Exchange(contract, state, self.endpoint, self.watchdog)
        self.agreement = self.watchdog.agreement = Agreement(
            plan, name, state, self.endpoint.tell, log, identity.sign_text
        )
        self.agreement.left = self.watchdog.left
        self.agreement.check()
        self.agreement.holds = self.exchange.holds
        self.agreement.judge_totals(self._is_roots)
        # Round 1 of a run that learns begins with the total from which the rest follows
        if plan.spec.algorithm.learns:
            self.exchange.map_place = min(place for place in from_root if place[0] == 1)
        self._from_root = from_root
        self._handed: dict[bytes, Total] = {}
        self._shown: list[Total] = []  # totals that a member may still lack, after a decision
        self.endpoint.on_membership = self._heard
        self.endpoint.on_total = self._take_total
        self.endpoint.greeting = self._greeting

    def all_signed(self, book: SignatureBook) -> None:
        """Wait, for as long as it takes, until every member's signature of the contract is here;
        the neighbours are shown those that are."""
        said = ""
        while (words := book.current.sentence()) != "":
            self.endpoint.start()
            if words != said:
                self.log.info("waiting for signatures", message=words)
                said = words
            self.display.unsigned(words)
            self._stop.check()
            self.watchdog.amend()
            self.mailbox.take((0, 0, 0), list(self.endpoint.links), LOOK_AROUND)
        self.display.unsigned("")
        self.watchdog.keep_signed()
        if said:
            self.log.info("all members have signed", contract=book.current.hash)

    def show_state(self, key: bytes) -> None:
        """Which state this is, by a name that tells nothing of its key."""
        self.handshake.state_id = hashlib.sha256(b"state id" + key).hexdigest()[:16]

    def meet(self, peer: Peer) -> None:
        """Stand where the peer's state stands, and open the edges."""
        handshake, witness = self.handshake, self.witness
        handshake.view, handshake.done = witness.done
        handshake.started = witness.latest > (0, 0, 0)
        self.mailbox.advance(self.exchange.view, peer.round + 1)
        witness.advance(self.exchange.view, peer.round + 1)

    def run(self, peer: Peer, anew: str, policy: PolicyFile | None) -> None:
        """All rounds. anew: why this state may only join a view that the others have agreed on
        without it."""
        self._peer = peer
        self.endpoint.ready()
        self.endpoint.start()
        self.exchange.resend()
        while peer.round < peer.total:
            self.mailbox.advance(self.exchange.view, peer.round + 1)
            self.witness.advance(self.exchange.view, peer.round + 1)
            try:
                self.watchdog.keep_hours(policy)
                peer.meet()
                if anew and self.exchange.view == 0:
                    raise StateError(anew)
                if self.plan.spec.algorithm.learns and not self.handshake.started:
                    self._wait_for_all()
                peer.advance()
            except Frozen:
                self._agree(peer)
                continue
            except (NetworkError, Stopped):
                self.exchange.give_up()  # the round before is durable, and so are its totals
                raise
            self.display.round(peer.round, peer.total, self.exchange)
            self.display.warn(peer.warnings())
        self.exchange.flush()
        self.display.finished()

    def _wait_for_all(self) -> None:
        """Release nothing before all members are there: the first release is the dearest one, and
        who never comes costs nobody anything."""
        witness, said, known = self.witness, 0.0, 0
        witness.sign_ready()
        links, total = self.endpoint.links, len(self.contract.members)
        while self.exchange.view == 0:
            ready = witness.ready()
            if len(ready) > known or time.monotonic() - said > LOOK_AROUND:
                known, said, claims = len(ready), time.monotonic(), list(ready.values())
                for first in range(0, known, MOST_HEARD):
                    some = claims[first : first + MOST_HEARD]
                    self.endpoint.tell(Progress(self.handshake.done, heard=some))
            if known == total:
                return
            missing = [p for p, k in links.items() if p not in ready or not k.connected]
            self.watchdog(missing)
            self.mailbox.take((0, 0, 0), list(links), READY_SECONDS)

    def _agree(self, peer: Peer) -> None:
        """Wait until all remaining members have stopped, then go on together; who stays silent for
        too long is left out too."""
        agreement, watchdog = self.agreement, self.watchdog
        if not self._closing:
            peer.give_up()
        agreement.freeze(self._stopped_in(peer))
        begin = said = time.monotonic()
        pending = agreement.pending
        while (found := agreement.decided()) is None:
            self._stop.check()
            # The others have just heard of another set, too, and need their time
            if agreement.pending != pending:
                pending, begin = agreement.pending, time.monotonic()
            self.endpoint.awaits(sorted(agreement.silent()))
            self.display.waiting(sorted(agreement.silent()))
            if time.monotonic() - said > watchdog.limit / REMINDERS:
                agreement.announce()
                said = time.monotonic()
            if time.monotonic() - begin > watchdog.limit:
                watchdog.require_present(agreement.silent())
                agreement.propose(agreement.without(agreement.silent()))
            time.sleep(0.1)
        if self._closing and found.next_round > peer.total:
            raise EvaluationEnded(
                f"{', '.join(sorted(found.absent))} left the run after a member had released its "
                "counts, and a second release would cost the held-out records as much again"
            )
        self._hand_over(peer, found)
        # First the checkpoint, then the note:
        # after a crash in between the same decision is simply enacted again.
        made_in = None if found.map is None else agreement.absent_in(found.map.view)
        peer.regroup(found, made_in)
        agreement.enact(found.view, found.absent, found.losses)
        watchdog.forget()

    @property
    def _closing(self) -> bool:
        return self.contract.evaluates is not None

    def _stopped_in(self, peer: Peer) -> int:
        """The round under way. In the closing run the round before it if this member has released
        nothing yet: if nobody has, the others make the one round without who has left."""
        released = any(round > peer.round for (_, round, _), _ in self.state.charges())
        return peer.round + (released or not self._closing)

    def _hand_over(self, peer: Peer, decision: Decision) -> None:
        """Wait for the totals that this member lacks, and show the neighbours those that it has."""
        begin = time.monotonic()
        while missing := peer.needs(decision):
            for claim in missing:
                if claim.digest in self._handed:
                    # The bytes are the giver's; whose they are and of which round, the votes say
                    handed = replaced(self._handed[claim.digest], claim=claim)
                    self.exchange.keep_total(handed)
            self._stop.check()
            if time.monotonic() - begin > self.watchdog.limit:
                raise NetworkError(
                    f"The total of round {missing[0].round}, which {missing[0].member} has signed, "
                    f"was not handed over within {self.watchdog.limit:g} s by those who say that "
                    "they hold it. Everything is saved: start the node again."
                )
            time.sleep(0.05)
        claims = [claim for claim in (decision.map, decision.last) if claim is not None]
        held = [self.exchange.total(claim) for claim in claims]
        self._shown = [total for total in held if total is not None] if decision.lacking else []
        for total in self._shown:
            self.endpoint.tell(total)

    def _greeting(self, view: int) -> list[Membership | Total]:
        return [
            *self.agreement.greeting(view),
            *(self._shown if view < self.agreement.view else []),
        ]

    def _take_total(self, frame: Total) -> bool:
        """A neighbour hands over a total; it is used only if the members have agreed on it."""
        if digest(frame) != frame.claim.digest or self._is_roots(frame.claim) is False:
            raise BadFrame("a total that no root has signed.")
        fresh = frame.claim.digest not in self._handed
        if len(self._handed) >= MOST_HANDED and fresh:
            self._handed.pop(next(iter(self._handed)))
        self._handed[frame.claim.digest] = frame
        return fresh

    def _is_roots(self, claim: Claim) -> bool | None:
        """Whether the root of its view's tree has signed a total; None if the view is unknown."""
        absent = self.agreement.absent_in(claim.view)
        if absent is None:
            return None
        topology = topology_of(self.contract, absent)
        root = str(topology.labels[spanning_tree(topology).root])
        placed = claim.key[1:] in self._from_root and claim.member == root
        return placed and self.witness.holds(claim)

    def _heard(self, peer: str, frame: Membership) -> None:
        # Where the contract says `stop`, only who has left by an amendment is left out; a neighbour
        # may hold the amendment earlier.
        goes_on = self.contract.absence.policy == "continue"
        if goes_on or self.agreement.left >= set(frame.absent):
            self.agreement.hear(peer, frame)
            self.mailbox.wake()

    def take_leave(self, seconds: float, model: bytes | None = None) -> list[str]:
        """Stay until all have finished, or for so long; who has not finished.

        A neighbour may still need the last message. model: the digest of this member's model, where
        all members hold the same one: all sign it, and who has signed another one is caught.
        """
        end, said = time.monotonic() + seconds, 0.0
        witness, signed_in = self.witness, -1
        while True:
            self.watchdog.amend()
            if self._closing and self.agreement.phase is Phase.STOPPING:
                self.agreement.freeze(self.contract.rounds)  # the others must know of the release
            # Members who have not finished may have lost one: all agree, also those who have
            elif not self._closing and self.agreement.phase in (Phase.STOPPING, Phase.VOTING):
                self._agree(self._peer)
            view, absent = self.exchange.view, self.exchange.absent | self.watchdog.left
            links = [k for k in self.endpoint.links.values() if k.peer not in absent]
            others = set(self.contract.names) - absent
            if model is not None and view != signed_in:
                witness.sign_model(view, model)
                signed_in = view
            heard, signed = witness.news(), witness.models(view)
            # The last digests go round while the members take leave of each other
            if heard or time.monotonic() - said > LOOK_AROUND:
                claims = list({(*claim.key, claim.member): claim for claim in heard}.values())
                claims += [claim for claim in signed.values() if claim not in claims]
                for first in range(0, max(1, len(claims)), MOST_HEARD):
                    some = claims[first : first + MOST_HEARD]
                    done = (self.handshake.done, self.handshake.view)
                    self.endpoint.tell(Progress(*done, True, some))
                said = time.monotonic()
            missing = [link.peer for link in links if not link.finished]
            if model is not None:
                missing += sorted(others - signed.keys() - set(missing))
            caught = witness.caught.keys() - absent
            if not missing or caught or time.monotonic() >= end or self._stop.asked:
                if model is not None:
                    self._compare_models(witness.models(view))
                self.endpoint.awaits([])
                return missing
            self.endpoint.awaits(missing)
            self.display.waiting(missing)
            time.sleep(0.02)

    def _compare_models(self, signed: dict[str, Claim]) -> None:
        """Catch who has signed another model than most; where that is this member, say so."""
        mine, alike = signed[self.name], dict[bytes, list[str]]()
        for member, claim in signed.items():
            alike.setdefault(claim.digest, []).append(member)
        # Where the root has signed two totals, or a total was replaced, that explains it
        if len(alike) == 1 or self.witness.caught.keys() - self.exchange.absent:
            return
        most = max(alike.values(), key=len)
        if len(most) > len(alike[mine.digest]):
            raise StateError(
                f"After the last round this member ({self.name}) holds another model than "
                f"{', '.join(most)}, who hold the same one, from the same signed totals. Do not "
                "use it: the program, a library or the memory here is faulty, or all of them lie."
            )
        for model, members in alike.items():
            for member in members if model != mine.digest else ():
                self.witness.differ(mine, signed[member])

    def stop(self) -> None:
        """Close all edges."""
        self.endpoint.stop()


def _relay_token(options: NodeSettings, contract: Contract, name: str) -> str:
    """The relays' token, where this member or a neighbour of its is met through one."""
    if options.relay_token is not None:
        return read_secret(options.relay_token, "--relay-token")
    own = {name: options.bind} if options.bind else {}
    places = {
        n: ({**(options.addresses or {}), **own}).get(n, contract.member(n).address)
        for n in [name, *contract.neighbours(name)]
    }
    through = sorted(n for n, place in places.items() if place.startswith(SCHEME))
    if through:
        raise InputError(
            f"--relay-token is needed: {', '.join(through)} can be reached through a relay only; "
            "ask the relay's operator for the token, and put it into a file of mode 0600."
        )
    return ""


def _any_interface(address: str) -> str:
    if address.startswith(SCHEME):
        return address
    return f"[::]:{address.rpartition(':')[2]}"
