"""What a node looks at before it sends and while it waits: signals, amendments, agreements, and who
has been away for too long."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tacenda.errors import NetworkError, TacendaError
from tacenda_node.identity.contract import Contract
from tacenda_node.membership.agreement import Agreement, Frozen, Phase
from tacenda_node.membership.amendments import Amendments
from tacenda_node.membership.decisions import IF_ENDED, TAKE_MODEL
from tacenda_node.operate.policy import PolicyFile
from tacenda_node.watch.display import Display
from tacenda_node.wire.endpoint import Endpoint
from tacenda_node.wire.exchange import MemberCaught, PeerAbsent

# a peer that is connected but says nothing counts
# as absent after so many times the contract's limit
SILENCE = 3
NO_ROWS = 6  # and one that gives signs of life but no message, after so many
LOOK_AROUND = 0.5  # seconds between looks for a signal while signatures are missing


class Stopped(TacendaError):
    """The node was asked to stop; everything is saved."""

    to_do = "Start the node again to go on."


class LeftRun(Stopped):
    """This member has left the run for good, by an amendment that the others have signed."""

    to_do = "There is nothing to do; take part in the next run under a new contract."


class EvaluationEnded(NetworkError):
    """A member has left the closing run, and the others cannot do it again without that member."""


class Signals:
    """SIGINT and SIGTERM ask for a stop; the state is always whole, so the node may stop between
    any two waits."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, *_: object) -> None:
        self.asked = True

    def check(self) -> None:
        if self.asked:
            raise Stopped(
                "The node was asked to stop. Everything is saved: start it again to go on."
            )

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Watchdog:
    """What a node looks at before it sends and while it waits: signals, agreements, and who has
    been away for too long."""

    def __init__(
        self,
        contract: Contract,
        endpoint: Endpoint,
        stop: Signals,
        display: Display,
        amendments: Amendments,
        derived: Callable[[Contract], Contract] = lambda text: text,
    ) -> None:
        """derived: the text of this run that follows from a text of the contract (`Session`)."""
        self._amendments, self._derived, self._names = amendments, derived, contract.names
        self._endpoint, self.stop, self.display = endpoint, stop, display
        self.log = endpoint.log
        self.limit = contract.absence.limit_seconds
        self._goes_on = contract.absence.policy == "continue"
        self._closing = contract.evaluates is not None
        self._away: dict[str, float] = {}
        self._missing: dict[str, float] = {}
        self.agreement: Agreement
        self.ended: Callable[[], str] = lambda: ""  # why the members have stopped the run for good
        self.witness = endpoint.handshake.witness

    @property
    def left(self) -> frozenset[str]:
        """Who has left this run for good."""
        return self._amendments.left & set(self._names)

    def __call__(self, missing: list[str]) -> None:
        self.stop.check()
        self.amend()
        self._judge()
        if self._goes_on or self.left:
            self._without_those_who_left()
            self.agreement.check()
            # A sign of life after the decision, not just a stream that was left open
            since = self.agreement.enacted
            self.agreement.returned(
                {
                    k.peer
                    for k in self._endpoint.links.values()
                    if k.connected and not k.waiting and k.seen > since
                }
            )
            if self.agreement.phase is not Phase.TAKING_PART:
                raise Frozen("The members are about to agree on who takes part.")
        if not missing:
            self._missing.clear()
            return
        self._endpoint.awaits(missing)
        self.display.waiting(missing)
        now = time.monotonic()
        self._missing = {peer: self._missing.get(peer, now) for peer in missing}
        for peer in missing:
            if self._endpoint.links[peer].connected:
                self._away.pop(peer, None)
            else:
                self._away.setdefault(peer, now)
        absent = [
            p for p in missing if self._silent(p, now) or now - self._away.get(p, now) > self.limit
        ]
        if absent and self.may_leave_out(frozenset(absent)):
            self.forget()
            self.agreement.propose(self.agreement.without(frozenset(absent)))
            raise Frozen("A member stayed away.")
        if absent:
            raise self._stops_without(absent)

    def _stops_without(self, absent: list[str]) -> PeerAbsent:
        """Why the node stops; its neighbours hear of it first, or this node would be blamed."""
        endpoint, links = self._endpoint, self._endpoint.links
        causes = endpoint.causes()
        endpoint.tell_leaving()
        reasons = [links[name].reason for name in absent if name in links]
        return PeerAbsent(absent, self.limit, reasons, causes, self._advice())

    def _advice(self) -> str:
        """What a member does whom the others may have left behind."""
        links = self._endpoint.links.values()
        if not self._goes_on or any(link.connected and not link.finished for link in links):
            return ""
        ended = sorted(link.peer for link in links if link.finished)
        return f" {', '.join(ended)} finished the run. {TAKE_MODEL}" if ended else f" {IF_ENDED}"

    def keep_hours(self, policy: PolicyFile | None) -> None:
        """Wait while the policy lets this node neither compute nor send, with its connections
        open."""
        said = ""
        while policy is not None and (pause := policy.pause(datetime.now(UTC))) is not None:
            if pause[1] != said:
                said = pause[1]
                self.log.info("paused", message=said)
                self._endpoint.paused_since = time.monotonic()
            self.display.paused(said)
            self([])
            time.sleep(min(LOOK_AROUND, pause[0].total_seconds()))
        self._endpoint.paused_since = None
        self.display.paused("")

    def amend(self) -> None:
        """Take up the next amendment of the contract, if it is there and all have signed."""
        news = self._amendments.look()
        if news:
            self._endpoint.share(news)
        if self._amendments.adopted():
            handshake = self._endpoint.handshake
            handshake.contract = self._derived(self._amendments.current)
            handshake.former = [self._derived(text) for text in self._amendments.former]
            self.agreement.left = self.left
            self.keep_signed()
        me = self._endpoint.handshake.identity.name
        if me in self._amendments.left:
            raise LeftRun(
                f"{me} has left the run by amendment {self._amendments.current.amendment} of the "
                "contract. What was released stays charged; the rest of the reservation is free "
                "again."
            )

        if ended := self.ended():
            raise LeftRun(ended)

    def keep_signed(self) -> None:
        """Keep the signed text in force where it can be looked up later."""
        self._amendments.keep_signed()

    def _without_those_who_left(self) -> None:
        """All who remain agree on a view without those who have left for good."""
        left = self.left
        if left - self.agreement.absent and self.agreement.phase is Phase.TAKING_PART:
            try:
                self.agreement.propose(self.agreement.without(left))
            except NetworkError as broken:
                if not self._closing:
                    raise
                words = str(broken).removesuffix(" Everything is saved.").rstrip(".")
                raise EvaluationEnded(words) from None
            raise Frozen("A member has left.")

    def require_present(self, silent: frozenset[str]) -> None:
        """Where the contract says `stop`, or all losses are used, nobody is left out for being
        away."""
        if silent and not self.may_leave_out(silent):
            raise self._stops_without(sorted(silent))

    def may_leave_out(self, absent: frozenset[str]) -> bool:
        """True if the contract lets the others go on without these members."""
        agreement = self.agreement
        return self._goes_on and agreement.can_lose(agreement.without(absent))

    def forget(self) -> None:
        """The members have agreed anew: who was away before has its time again."""
        self._away.clear()
        self._missing.clear()

    def _judge(self) -> None:
        if self.leave_out_caught():
            raise Frozen("A member was caught.")

    def leave_out_caught(self, *, voting: bool = False) -> bool:
        """A member that its own signatures convict counts as absent at once, whoever's neighbour it
        is: whether the others are asked to go on without one. voting: also while they agree on
        somebody else."""
        caught = dict(self.witness.caught)
        if caught and not self.may_leave_out(frozenset(caught)):
            raise MemberCaught(list(caught.values()))
        news = frozenset(caught) - self.agreement.without(frozenset())
        if not news or not (voting or self.agreement.phase is Phase.TAKING_PART):
            return False
        try:
            self.agreement.propose(self.agreement.without(news))
        except NetworkError as alone:  # too few, or no connected graph, would remain
            raise MemberCaught(list(caught.values())) from alone
        return True

    def _silent(self, peer: str, now: float) -> bool:
        """A peer that is connected and sends no rows may itself be waiting for somebody: it says so
        now and then, but not for ever."""
        since, seen = self._missing[peer], self._endpoint.links[peer].seen
        return now - max(since, seen) > SILENCE * self.limit or now - since > NO_ROWS * self.limit
