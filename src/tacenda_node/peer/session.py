"""One run of one member over the network: everything between its state folder and its neighbours,
from the meeting to the farewell. Training is one such run, the evaluation another."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

from tacenda.errors import InputError, NetworkError, StateError
from tacenda.graph.tree import spanning_tree
from tacenda.runtime.block import ImpossibleSum
from tacenda.runtime.places import places_of
from tacenda_node.identity.addresses import RELAY
from tacenda_node.identity.contract import Contract
from tacenda_node.identity.edge_keys import EdgeKeys
from tacenda_node.membership.agreement import Agreement, Frozen, Phase
from tacenda_node.membership.decisions import OTHER_MODEL, Decision
from tacenda_node.operate.policy import PolicyFile
from tacenda_node.operate.settings import NodeSettings
from tacenda_node.peer.member import Member
from tacenda_node.peer.peer import Peer
from tacenda_node.peer.run_plan import RunPlan, topology_of
from tacenda_node.peer.watchdog import LOOK_AROUND, NO_ROWS, EvaluationEnded, Stopped, Watchdog
from tacenda_node.proposals.post import answered
from tacenda_node.protocol.contract_signatures import SignatureBook
from tacenda_node.protocol.frames import (
    MOST_HEARD,
    Claim,
    Membership,
    Progress,
    Total,
    UnfitRows,
    frame_limit,
    rows_of,
)
from tacenda_node.protocol.handed_totals import HandedTotals
from tacenda_node.protocol.handshake import Handshake
from tacenda_node.protocol.signed_rows import Witness
from tacenda_node.state.database import Key, NodeState
from tacenda_node.watch.display import Display
from tacenda_node.wire.endpoint import Endpoint
from tacenda_node.wire.exchange import PROOF_SECONDS, Exchange, MemberCaught
from tacenda_node.wire.link import FROZEN_SECONDS, unfinished
from tacenda_node.wire.mailbox import Mailbox
from tacenda_node.wire.proxy import Proxy, read_secret
from tacenda_node.wire.rooms import Token

# notices of an agreement under way within the contract's limit:
# far fewer than would count as a flood
REMINDERS = 100
READY_SECONDS = 0.05  # between looks for members who may begin


class Session:
    """A member's part in one run. `meet` and `run` a peer, then `take_leave`; `stop` in any case.

    texts: the texts of the contract so far, of which the last is in force; of a closing run, as
    derived from these. derived: the text of this run that follows from one of the contract.
    """

    def __init__(
        self,
        member: Member,
        plan: RunPlan,
        state: NodeState,
        texts: list[Contract],
        derived: Callable[[Contract], Contract] = lambda text: text,
    ) -> None:
        options, identity, log, stop = member.options, member.identity, member.log, member.stop
        amendments, (*former, in_force) = member.amendments, texts
        self.plan, self.name, self.state, self.log = plan, identity.name, state, log
        self.contract, self._stop = plan.contract, stop
        contract, name = self.contract, self.name
        places = places_of(plan.spec)
        forms, self._from_root = places.forms, places.from_root
        self.mailbox = Mailbox(contract.neighbours(name), forms, contract.problem.radius)
        calls = frozenset(call for _, call in forms)
        # Of each group and, last, of the whole tree, by who is absent
        self._roots: dict[frozenset[str], list[str]] = {}
        placed = calls, frozenset(self._from_root), self._root_of
        self.witness = Witness(contract, name, state, identity.signer(), log, *placed)
        self.handshake = Handshake(
            in_force, identity, self.witness, book=amendments.book, ready=False, former=former
        )
        # Seeded noise of a rehearsal needs no keys; everywhere else noise shared by neighbours is
        # drawn from the keys of the edges.
        if plan.spec.algorithm.traits.shared_noise is not None and contract.rehearsal_seed is None:
            self.handshake.edges = EdgeKeys(contract, name, state)
        limit = frame_limit(max(form.nbytes for form in forms.values()), len(contract.members))
        listed = contract.member(name)
        self.endpoint = Endpoint(
            self.handshake,
            self.mailbox,
            limit,
            log,
            bind=(options.bind or _any_interface(listed.address)) if listed.listens else None,
            addresses=options.addresses,
            proxy=None if options.proxy is None else Proxy.read(options.proxy, options.proxy_login),
            relay_token=_relay_token(options, contract, name),
        )
        self.display = Display(contract, name, self.endpoint, log, quiet=options.quiet)
        self.watchdog = Watchdog(contract, self.endpoint, stop, self.display, amendments, derived)
        self.watchdog.ended = member.ended
        self.endpoint.on_post = lambda sheet: answered(member.box, sheet)
        self.exchange = Exchange(contract, state, self.endpoint, self.watchdog)
        self.agreement = self.watchdog.agreement = Agreement(
            plan, name, state, self.endpoint.tell, log, identity.sign_text
        )
        self.agreement.left = self.watchdog.left
        self.agreement.check()
        self.agreement.holds = self.exchange.holds
        self.agreement.round = self._round
        self.agreement.judge_totals(self._is_roots)
        # Round 1 of a run that learns begins with the total from which the rest follows
        if plan.spec.algorithm.traits.learns:
            self.exchange.map_place = min(place for place in places.totals if place[0] == 1)
        self._forms = forms
        radius, holds = contract.problem.radius, self.witness.holds
        self._handed = HandedTotals(self._is_roots, forms, radius, self._makers, holds)
        self._shown: list[Total] = []  # totals that a member may still lack, after a decision
        self.endpoint.on_membership = self._heard
        self.endpoint.on_total = self._shown_row
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
                if self.plan.spec.algorithm.traits.learns and not self.handshake.started:
                    self._wait_for_all()
                peer.advance()
            except Frozen:
                self._agree(peer)
                continue
            except ImpossibleSum:
                if not self._was_misled(peer.round + 1):
                    self.exchange.give_up()
                    raise
                self._agree(peer)
                continue
            except (NetworkError, Stopped):
                self.exchange.give_up()  # the round before is durable, and so are its totals
                raise
            self.display.round(peer.round, peer.total, self.exchange)
            self.display.warn(peer.warnings())
        self.exchange.flush()
        self.display.finished()

    def _was_misled(self, round: int) -> bool:
        """Wait a moment for the proof that a root has signed two totals of the round before: then
        the members have asked about two models, and their masks do not cancel."""
        self.exchange.forget(round)
        end = time.monotonic() + min(self.watchdog.limit, PROOF_SECONDS)
        try:
            while time.monotonic() < end:
                self.watchdog([])
                time.sleep(READY_SECONDS)
        except Frozen:
            return True
        return False

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
        while not self._hand_over(peer, found := self._decide(peer)):
            pass  # the members agree on a later view
        # First the checkpoint, then the note:
        # after a crash in between the same decision is simply enacted again.
        made_in = None if found.map is None else agreement.absent_in(found.map.view)
        peer.regroup(found, made_in)
        agreement.enact(found)
        watchdog.forget()

    def _decide(self, peer: Peer) -> Decision:
        """Vote, and wait for the votes of all who remain."""
        agreement, watchdog = self.agreement, self.watchdog
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
        return found

    @property
    def _closing(self) -> bool:
        return self.contract.evaluates is not None

    def _round(self) -> int:
        """The round for which this member may have sent rows."""
        return max(self.mailbox.round, self.witness.done[1] + 1)

    def _stopped_in(self, peer: Peer) -> int:
        """The round under way. In the closing run the round before it if this member has released
        nothing yet: if nobody has, the others make the one round without who has left."""
        released = any(round > peer.round for (_, round, _), _ in self.state.charges())
        return peer.round + (released or not self._closing)

    def _hand_over(self, peer: Peer, decision: Decision) -> bool:
        """Wait for the totals that this member lacks, and show the neighbours those that it has.
        False if the members are about to agree on a later view instead."""
        begin, agreement = time.monotonic(), self.agreement
        # The votes may have shown two totals of one place, which convict their root
        if self.watchdog.leave_out_caught(voting=True):
            return False
        while missing := peer.needs(decision):
            for claim in missing:
                handed = self._handed.find(claim)
                if handed is not None:
                    self.exchange.keep_total(handed)
            self._stop.check()
            self.endpoint.awaits(sorted(agreement.holders(decision, missing[0])))
            if time.monotonic() - begin > self.watchdog.limit:
                self._leave_out_holders(decision, missing[0])
            if agreement.pending is not None and agreement.pending[0] > decision.view:
                return False
            time.sleep(0.05)
        claims = [*([] if decision.map is None else [decision.map]), *decision.lasts]
        held = [self.exchange.total(claim) for claim in claims]
        self._shown = [total for total in held if total is not None] if decision.lacking else []
        for total in self._shown:
            self.endpoint.tell(total)
        return True

    def _leave_out_holders(self, decision: Decision, claim: Claim) -> None:
        """Ask the others to go on without those who hold a total and have not handed it over."""
        holders = self.agreement.holders(decision, claim)
        if self.watchdog.may_leave_out(holders):
            self.agreement.propose(self.agreement.without(holders))
            return
        raise NetworkError(
            f"The total of round {claim.round}, which {claim.member} has signed, was not handed "
            f"over within {self.watchdog.limit:g} s by {', '.join(sorted(holders))}, who hold it. "
            "Everything is saved: start the node again when they are back."
        )

    def _greeting(self, view: int) -> list[Membership | Total]:
        return [
            *self.agreement.greeting(view),
            *(self._shown if view < self.agreement.view else []),
        ]

    def _is_roots(self, claim: Claim) -> bool | None:
        """Whether the root of its view's tree has signed a total; None if the view is unknown."""
        if self.agreement.absent_in(claim.view) is None:
            return None
        group = self._from_root.get((claim.round, claim.call), 0)
        root = self._root_of(claim.key)
        if group is not None or claim.member != root or not self.witness.holds(claim):
            return False
        self.witness.hear(root, [claim])  # it may have signed another one for this place
        return True

    def _makers(self, claim: Claim) -> list[str]:
        """The roots of the groups whose sums a total of the whole tree joins, in order."""
        groups = self.plan.spec.groups
        view, round, call = claim.key
        places = range(call - groups.count, call) if groups is not None else ()
        return [self._root_of((view, round, k)) or "" for k in places]

    def _shown_row(self, peer: str, frame: Total) -> bool:
        """Take a total that is handed over, or a row that convicts whoever has signed it: by its
        values, or by the groups' sums beside it."""
        form = self._forms.get((frame.claim.round, frame.claim.call))
        try:
            if form is not None:
                rows_of(frame, *form, self.contract.problem.radius)
        except UnfitRows as unfit:
            return self.witness.unfit(frame, str(unfit))
        if self._handed.is_false(frame):
            return self.witness.false_sums(frame)
        return self._handed.take(peer, frame)

    def _root_of(self, key: Key) -> str | None:
        """Who makes the rows in a place of a view: the root of the tree, or of a group's; None
        where that is unknown, or where members send rows of their own."""
        absent = self.agreement.absent_in(key[0])
        if absent is None or key[1:] not in self._from_root:
            return None
        if absent not in self._roots:
            topology = topology_of(self.contract, absent)
            groups = self.plan.spec.groups_in(topology)
            roots = () if groups is None else groups.trees.roots
            at = (*roots, spanning_tree(topology).root)
            self._roots[absent] = [str(topology.labels[root]) for root in at]
        group = self._from_root[key[1:]]
        return self._roots[absent][-1 if group is None else group]

    def _heard(self, peer: str, frame: Membership) -> None:
        # Where the contract says `stop`, only who has left by an amendment is left out; a neighbour
        # may hold the amendment earlier.
        goes_on = self.contract.absence.policy == "continue"
        if goes_on or self.agreement.left >= set(frame.absent):
            self.agreement.hear(peer, frame)
            self.mailbox.wake()

    def take_leave(self, seconds: float, model: Callable[[], bytes] | None = None) -> list[str]:
        """Stay until all have finished, or for so long; who has not finished.

        A neighbour may still need the last message. Who has not finished and is alive may be about
        to leave out a member that was lost in the last round, which needs everybody's vote: then
        all stay for longer. model: tells the digest of this member's model, where all members hold
        the same one: all sign it, and who has signed another one is caught. The members may agree
        on another model while they take leave, where a root has made two.
        """
        begin, said = time.monotonic(), 0.0
        end, last = begin + seconds, begin + NO_ROWS * self.watchdog.limit
        witness, signed_in = self.witness, -1
        while True:
            self.watchdog.amend()
            if self._closing and self.agreement.phase is Phase.STOPPING:
                self.agreement.freeze(self.contract.rounds)  # the others must know of the release
            # Members who have not finished may have lost one: all agree, also those who have
            elif not self._closing and self.agreement.phase in (Phase.STOPPING, Phase.VOTING):
                self._agree(self._peer)
                end = max(end, time.monotonic() + seconds)
            view, absent = self.exchange.view, self.exchange.absent | self.watchdog.left
            links = [k for k in self.endpoint.links.values() if k.peer not in absent]
            others = set(self.contract.names) - absent
            if model is not None and view != signed_in:
                witness.sign_model(view, model())
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
            alive = unfinished(links, self.name)
            if alive:
                end = max(end, min(last, time.monotonic() + FROZEN_SECONDS))
            caught = witness.caught.keys() - absent
            models = {signed[m].digest for m in signed.keys() - caught}
            if caught and (set(missing) - caught or len(models) > 1) and self._leave_out_caught():
                continue
            if not missing or caught or time.monotonic() >= end or self._stop.asked:
                if model is not None:
                    self._compare_models(witness.models(view))
                self.endpoint.awaits([])
                return missing
            self.endpoint.awaits(alive or missing)
            self.display.waiting(missing)
            time.sleep(0.02)

    def _leave_out_caught(self) -> bool:
        """Ask the others, some of whom have not finished, to go on without a member that was
        caught: they need this member's vote. A caught root may have given two totals, from which
        they have two models; then all agree on one of these."""
        caught = frozenset(self.witness.caught)
        if self._closing or not self.watchdog.may_leave_out(caught):
            return False
        try:
            return self.watchdog.leave_out_caught()
        except MemberCaught:  # too few, or no connected graph, would remain
            return False

    def _compare_models(self, signed: dict[str, Claim]) -> None:
        """Catch who has signed another model than most; where that is this member, say so."""
        mine, alike = signed[self.name], dict[bytes, list[str]]()
        for member, claim in signed.items():
            alike.setdefault(claim.digest, []).append(member)
        # Where the root has signed two totals, or a total was replaced, that explains it
        if len(alike) == 1 or self.witness.caught.keys() - self.exchange.absent:
            return
        most = max(alike.values(), key=len)
        false_roots = sorted(self.witness.roots & self.witness.caught.keys())
        if false_roots:  # other members are not to blame, and only a majority has the model
            if 2 * len(alike[mine.digest]) <= len(signed):
                raise StateError(f"{', '.join(false_roots)} {OTHER_MODEL}")
            return
        if len(most) > len(alike[mine.digest]):
            raise StateError(
                f"After the last round this member ({self.name}) holds another model than "
                f"{', '.join(most)}, who hold the same one, from the same signed totals. Do not "
                f"use it: the program, a library or the memory here is faulty, or the other "
                f"members are dishonest."
            )
        for model, members in alike.items():
            for member in members if model != mine.digest else ():
                self.witness.differ(mine, signed[member])

    def stop(self) -> None:
        """Close all edges."""
        self.endpoint.stop()


def _relay_token(options: NodeSettings, contract: Contract, name: str) -> Token | None:
    """The relays' token, where this member or a neighbour of its is met through one."""
    if options.relay_token is not None:
        return Token.read(read_secret(options.relay_token, "--relay-token"))
    own = {name: options.bind} if options.bind else {}
    places = {
        n: ({**(options.addresses or {}), **own}).get(n, contract.member(n).address)
        for n in [name, *contract.neighbours(name)]
    }
    through = sorted(n for n, place in places.items() if place.startswith(RELAY))
    if through:
        raise InputError(
            f"--relay-token is needed: {', '.join(through)} can be reached through a relay only; "
            "ask the relay's operator for the token, and put it into a file of mode 0600."
        )
    return None


def _any_interface(address: str) -> str:
    if address.startswith(RELAY):
        return address
    return f"[::]:{address.rpartition(':')[2]}"
