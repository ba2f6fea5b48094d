"""Going on without a member that stays away, and with it again when it returns. All remaining members agree first.

Whoever misses a neighbour for longer than the contract's limit stops in its round and says so: an epoch number, who is absent, and the
round in which it stands, signed (`votes`). The word goes round; every member that hears it stops too and adds its own vote. Once a member
has the signatures of *all* remaining members under the same set of absent ones, the decision is made, and it is the same for everybody:

    new epoch = old + 1;   next round = 1 + the latest round in which anybody stood;   duals are zero, w is kept

so no noise of an abandoned round is used again, and what it cost stays booked. More than half of the contract's members must remain,
so two parts of a broken network cannot both go on. A member that comes back is taken in by the same agreement. Since a member signs once
per epoch, every honest one that a decision counts as present has agreed to that very set, and draws the noise of its edges for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tacenda.errors import InputError, NetworkError, UnsupportedError
from tacenda.node.membership.votes import Votes
from tacenda.node.protocol import wire
from tacenda.node.run_plan import RunPlan, topology_of
from tacenda.node.state.database import NodeState

NOTE = "membership"
MOST_PROPOSALS = 64
MOST_RETURNS = 3  # a member that comes and goes may not hold up the others for ever


class Frozen(NetworkError):
    """The round is given up, because the members are about to agree on who takes part."""


class Council:
    """One member's view of who takes part. Frames come from the network thread, questions from the algorithm's.

    sign: an Ed25519 signature (base64) by the key that the contract names for this member.
    """

    def __init__(self, plan: RunPlan, name: str, state: NodeState, tell: Any, log: Any, sign: Callable[[bytes], str]) -> None:
        self._plan, self._me, self._state, self._tell, self._log = plan, name, state, tell, log
        self._mutex = threading.RLock()
        noted = state.noted(NOTE) or {"epoch": 0, "absent": [], "pending": None}
        self.epoch, self.absent = int(noted["epoch"]), frozenset(noted["absent"])
        self._pending: tuple[int, frozenset[str]] | None = None
        self._stands: int | None = None  # the round in which this member has stopped
        self._votes = Votes(plan.contract, name, state, sign)
        self.enacted = 0.0
        self._returns: dict[str, int] = {}
        self._heard: dict[str, int] = {}
        if noted["pending"] is not None:
            self._pending = (int(noted["pending"]["epoch"]), frozenset(noted["pending"]["absent"]))
            self._stands = noted["pending"].get("stands")

    def check(self) -> None:
        """Raise ConflictingVotes once a member was caught with two votes: nothing more is sent, in any epoch."""
        if self._votes.conflict is not None:
            raise self._votes.conflict

    @property
    def asked(self) -> bool:
        """Whether an agreement is under way, so that no further message of this epoch may be sent."""
        return self._pending is not None

    @property
    def agenda(self) -> tuple[int, frozenset[str]] | None:
        """(epoch, absent) of the agreement under way."""
        return self._pending

    def propose(self, absent: frozenset[str]) -> None:
        """Ask all to agree on this set of absent members; refused where too few, or no connected graph, would remain."""
        check_remaining(self._plan, self._me, absent)
        with self._mutex:
            if self._pending is not None and self._pending[1] == absent:
                return
            # Another set needs another epoch: somebody may have decided the one under way already.
            epoch = 1 + (self._pending[0] if self._pending is not None else self.epoch)
            self._adopt(epoch, absent)

    def hear(self, peer: str, frame: wire.Membership) -> None:
        """What a neighbour says of an agreement."""
        known, absent = set(self._plan.contract.names), frozenset(frame.absent)
        if not absent <= known or not set(frame.votes) <= known - absent:
            raise wire.BadFrame("an agreement about members who are not in the contract.")
        with self._mutex:
            fresh = self._take(frame, absent)
            if self._votes.conflict is not None:
                return
            if self._me in absent:
                self._tell(wire.Progress(0))  # a sign of life: the others take this member in again
                return
            if frame.epoch <= self.epoch:
                decided = self._votes.of(self.epoch, self.absent)
                if (frame.epoch, absent) == (self.epoch, self.absent) and len(frame.votes) < len(decided):
                    self._say(self.epoch, self.absent)
                return
            if self._pending is not None and frame.epoch < self._pending[0]:
                return
            if self._pending is None or frame.epoch > self._pending[0]:
                self._follow(peer, frame.epoch, absent)
            elif absent != self._pending[1]:
                self._follow(peer, frame.epoch + 1, absent | self._pending[1])
            elif fresh:
                self.announce()

    def _take(self, frame: wire.Membership, absent: frozenset[str]) -> bool:
        """Keep the votes of a frame; whether some were new. Where a member is caught with two, the neighbours are shown them."""
        if self._votes.conflict is not None:
            return False
        if frame.epoch > self.epoch + MOST_PROPOSALS:
            raise wire.BadFrame("an agreement for an epoch that no fault explains.")
        fresh = self._votes.take(frame.epoch, absent, frame.votes)
        if self._votes.conflict is not None:
            self._log.warning("a member has signed two decisions", words=str(self._votes.conflict))
            for proof in self._votes.proof:
                self._tell(proof)
        return fresh

    def freeze(self, turn: int) -> None:
        """This member has stopped in round `turn` and sends nothing more of the old epoch: it votes."""
        with self._mutex:
            if self._stands is None:
                self._stands = turn
                self._note()
            if self._pending is not None and not self._can_sign(*self._pending):
                self._adopt(*self._pending)
            elif self._pending is not None:
                self._votes.cast(*self._pending, self._stands)
        self.announce()

    def announce(self) -> None:
        """Say (again) what is known of the agreement under way."""
        with self._mutex:
            if self._pending is not None:
                self._say(*self._pending)

    def greeting(self, epoch: int) -> list[wire.Membership]:
        """What a neighbour who has just connected, and stands in `epoch`, must know."""
        with self._mutex:
            if self._votes.conflict is not None:
                return self._votes.proof
            decided = (self.epoch, self.absent) if epoch < self.epoch else None
            subject = self._pending or decided
            frame = None if subject is None else self._frame(*subject)
            return [] if frame is None else [frame]

    def returned(self, present: set[str]) -> None:
        """Absent members who are there again are taken in, a few times at most."""
        with self._mutex:
            back = {name for name in present & self.absent if self._returns.get(name, 0) < MOST_RETURNS}
            if self._pending is None and back:
                for name in back:
                    self._returns[name] = self._returns.get(name, 0) + 1
                self._adopt(self.epoch + 1, self.absent - back)

    def silent(self) -> frozenset[str]:
        """Who has not voted yet on the agreement under way."""
        with self._mutex:
            epoch, absent = self._pending if self._pending is not None else (self.epoch, self.absent)
            return frozenset(self._plan.contract.names) - absent - set(self._votes.of(epoch, absent))

    def without(self, more: frozenset[str]) -> frozenset[str]:
        """The absent ones, and these."""
        with self._mutex:
            return more | (self._pending[1] if self._pending is not None else self.absent)

    def decided(self) -> tuple[int, frozenset[str], int] | None:
        """(epoch, absent, next round) once all remaining members have signed that they stopped, for this very set."""
        with self._mutex:
            self.check()
            if self._pending is None:
                return None
            epoch, absent = self._pending
            votes = self._votes.of(epoch, absent)
            if set(votes) != set(self._plan.contract.names) - absent:
                return None
            # From here on this member goes on: a vote for a later epoch must wait until it has stopped again, and say where.
            self._stands = None
            return epoch, absent, max(vote.round for vote in votes.values()) + 1

    def enact(self, epoch: int, absent: frozenset[str]) -> None:
        """The decision holds from now on."""
        with self._mutex:
            self._log.warning("membership changed", epoch=epoch, absent=", ".join(sorted(absent)) or "nobody")
            self.epoch, self.absent = epoch, absent
            self._stands, self.enacted = None, time.monotonic()
            if self._pending is not None and self._pending[0] <= epoch:  # a later one, heard of meanwhile, is next
                self._pending = None
            self._note()
            self._say(epoch, absent)

    def _frame(self, epoch: int, absent: frozenset[str]) -> wire.Membership | None:
        """All votes known for this set; None as long as nobody has signed it."""
        votes = self._votes.of(epoch, absent)
        return wire.Membership(epoch, sorted(absent), votes) if votes else None

    def _say(self, epoch: int, absent: frozenset[str]) -> None:
        frame = self._frame(epoch, absent)
        if frame is not None:
            self._tell(frame)

    def _follow(self, peer: str, epoch: int, absent: frozenset[str]) -> None:
        """Take up what a neighbour proposes, if it can be: not for ever, and not to the end of the run."""
        self._heard[peer] = self._heard.get(peer, 0) + 1
        if self._heard[peer] > MOST_PROPOSALS:
            raise wire.BadFrame("more proposals to change the members than any fault explains.")
        try:
            check_remaining(self._plan, self._me, absent)
        except NetworkError:
            raise wire.BadFrame("a proposal that would leave too few members.") from None
        self._adopt(epoch, absent)

    def _adopt(self, epoch: int, absent: frozenset[str]) -> None:
        while not self._can_sign(epoch, absent):
            epoch += 1
        self._pending = (epoch, absent)
        self._log.warning("agreement under way", epoch=epoch, absent=", ".join(sorted(absent)) or "nobody")
        self._note()
        if self._stands is not None:
            self._votes.cast(epoch, absent, self._stands)
        self.announce()

    def _can_sign(self, epoch: int, absent: frozenset[str]) -> bool:
        """One vote per epoch: one from a lost state, for another set or an earlier round, leaves only a later epoch to vote in."""
        mine = self._votes.find(epoch, self._me)
        return mine is None or (mine.absent == sorted(absent) and mine.round >= (self._stands or 0))

    def _note(self) -> None:
        pending = None
        if self._pending is not None:
            pending = {"epoch": self._pending[0], "absent": sorted(self._pending[1]), "stands": self._stands}
        self._state.note(NOTE, {"epoch": self.epoch, "absent": sorted(self.absent), "pending": pending})


def check_remaining(plan: RunPlan, name: str, absent: frozenset[str]) -> None:
    """The remaining members are a majority, form a connected graph that the algorithm can use, and this member is one of them."""
    contract = plan.contract
    left = len(contract.members) - len(absent)
    if name in absent or 2 * left <= len(contract.members):
        raise NetworkError(
            f"{', '.join(sorted(absent))} stayed away, and the {left} remaining members are not more than half of the contract's "
            f"{len(contract.members)}. Everything is saved: start the node again when more are back."
        )
    try:
        topology = topology_of(contract, absent)
        plan.algorithm.check(plan.facts, topology, contract.rounds, True)
    except (InputError, UnsupportedError) as broken:
        raise NetworkError(f"Without {', '.join(sorted(absent))} the run cannot go on: {broken} Everything is saved.") from None
