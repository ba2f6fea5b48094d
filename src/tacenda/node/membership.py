"""Going on without a member that stays away, and with it again when it returns. All remaining members agree first.

Whoever misses a neighbour for longer than the contract's limit stops in its round and says so: an epoch number, who is absent, and the
round in which it stands. The word goes round; every member that hears it stops too and adds its own round. Once a member knows the rounds
of *all* remaining members for the same set of absent ones, the decision is made, and it is the same for everybody:

    new epoch = old + 1;   next round = 1 + the latest round in which anybody stood;   duals are zero, w is kept

so no noise of an abandoned round is used again, and what it cost stays booked. More than half of the contract's members must remain,
so two parts of a broken network cannot both go on. A member that comes back is taken in by the same agreement.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from tacenda.errors import InputError, NetworkError, UnsupportedError
from tacenda.node import wire
from tacenda.node.plan import RunPlan, topology_of
from tacenda.node.state import NodeState

NOTE = "membership"
MOST_PROPOSALS = 64
MOST_RETURNS = 3  # a member that comes and goes may not hold up the others for ever


class Frozen(NetworkError):
    """The round is given up, because the members are about to agree on who takes part."""


class Council:
    """One member's view of who takes part. Frames come from the network thread, questions from the algorithm's."""

    def __init__(self, plan: RunPlan, name: str, state: NodeState, tell: Any, log: Any) -> None:
        self._plan, self._me, self._state, self._tell, self._log = plan, name, state, tell, log
        self._mutex = threading.RLock()
        noted = state.noted(NOTE) or {"epoch": 0, "absent": [], "frozen": {}, "pending": None}
        self.epoch, self.absent = int(noted["epoch"]), frozenset(noted["absent"])
        self._decision: dict[str, int] = dict(noted["frozen"])
        self._pending: tuple[int, frozenset[str]] | None = None
        self._frozen: dict[str, int] = {}
        self.enacted = 0.0
        self._returns: dict[str, int] = {}
        self._heard: dict[str, int] = {}
        if noted["pending"] is not None:
            self._pending = (int(noted["pending"]["epoch"]), frozenset(noted["pending"]["absent"]))
            self._frozen = dict(noted["pending"]["frozen"])

    @property
    def asked(self) -> bool:
        """Whether an agreement is under way, so that no further message of this epoch may be sent."""
        return self._pending is not None

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
        known = set(self._plan.contract.names)
        absent, frozen = frozenset(frame.absent), dict(frame.frozen)
        if not absent <= known or not set(frozen) <= known - absent:
            raise wire.BadFrame("an agreement about members who are not in the contract.")
        with self._mutex:
            if self._me in absent:
                self._tell(wire.Progress(0))  # a sign of life: the others take this member in again
                return
            if frame.epoch <= self.epoch:
                if self._decision and frame.epoch == self.epoch and absent == self.absent and len(frozen) < len(self._decision):
                    self._tell(self._record())
                return
            if self._pending is not None and frame.epoch < self._pending[0]:
                return
            if self._pending is None or frame.epoch > self._pending[0]:
                self._follow(peer, frame.epoch, absent)
            elif absent != self._pending[1]:
                self._follow(peer, frame.epoch + 1, absent | self._pending[1])
            if self._pending is not None and absent == self._pending[1]:
                fresh = {name: turn for name, turn in frozen.items() if name not in self._frozen and name != self._me}
                if fresh:
                    self._frozen.update(fresh)
                    self._note()
                    self.announce()

    def freeze(self, turn: int) -> None:
        """This member has stopped in round `turn` and sends nothing more of the old epoch."""
        with self._mutex:
            self._frozen.setdefault(self._me, turn)
            self._note()
        self.announce()

    def announce(self) -> None:
        """Say (again) what is known of the agreement under way."""
        with self._mutex:
            if self._pending is not None:
                epoch, absent = self._pending
                self._tell(wire.Membership(epoch, sorted(absent), dict(self._frozen)))

    def greeting(self, epoch: int) -> wire.Membership | None:
        """What a neighbour who has just connected, and stands in `epoch`, must know."""
        with self._mutex:
            if self._pending is not None:
                return wire.Membership(self._pending[0], sorted(self._pending[1]), dict(self._frozen))
            return self._record() if epoch < self.epoch else None

    def returned(self, present: set[str]) -> None:
        """Absent members who are there again are taken in, a few times at most."""
        with self._mutex:
            back = {name for name in present & self.absent if self._returns.get(name, 0) < MOST_RETURNS}
            if self._pending is None and back:
                for name in back:
                    self._returns[name] = self._returns.get(name, 0) + 1
                self._adopt(self.epoch + 1, self.absent - back)

    def silent(self) -> frozenset[str]:
        """Who has not yet said that it stopped."""
        with self._mutex:
            absent = self._pending[1] if self._pending is not None else self.absent
            return frozenset(self._plan.contract.names) - absent - set(self._frozen)

    def without(self, more: frozenset[str]) -> frozenset[str]:
        """The absent ones, and these."""
        with self._mutex:
            return more | (self._pending[1] if self._pending is not None else self.absent)

    def decided(self) -> tuple[int, frozenset[str], int] | None:
        """(epoch, absent, next round) once all remaining members are known to have stopped."""
        with self._mutex:
            if self._pending is None:
                return None
            epoch, absent = self._pending
            remaining = set(self._plan.contract.names) - absent
            if not remaining <= set(self._frozen):
                return None
            return epoch, absent, max(self._frozen[name] for name in remaining) + 1

    def enact(self, epoch: int, absent: frozenset[str]) -> None:
        """The decision holds from now on."""
        with self._mutex:
            self._log.warning("membership changed", epoch=epoch, absent=", ".join(sorted(absent)) or "nobody")
            self.epoch, self.absent, self._decision = epoch, absent, dict(self._frozen)
            self._pending, self._frozen, self.enacted = None, {}, time.monotonic()
            self._note()
        self._tell(self._record())

    def _record(self) -> wire.Membership:
        return wire.Membership(self.epoch, sorted(self.absent), dict(self._decision))

    def _follow(self, peer: str, epoch: int, absent: frozenset[str]) -> None:
        """Take up what a neighbour proposes, if it can be: not for ever, and not to the end of the run."""
        self._heard[peer] = self._heard.get(peer, 0) + 1
        if self._heard[peer] > MOST_PROPOSALS or epoch > self.epoch + MOST_PROPOSALS:
            raise wire.BadFrame("more proposals to change the members than any fault explains.")
        try:
            check_remaining(self._plan, self._me, absent)
        except NetworkError:
            raise wire.BadFrame("a proposal that would leave too few members.") from None
        self._adopt(epoch, absent)

    def _adopt(self, epoch: int, absent: frozenset[str]) -> None:
        mine = self._frozen.get(self._me)
        self._pending, self._frozen = (epoch, absent), {} if mine is None else {self._me: mine}
        self._log.warning("agreement under way", epoch=epoch, absent=", ".join(sorted(absent)) or "nobody")
        self._note()
        self.announce()

    def _note(self) -> None:
        pending = None
        if self._pending is not None:
            pending = {"epoch": self._pending[0], "absent": sorted(self._pending[1]), "frozen": self._frozen}
        values = {"epoch": self.epoch, "absent": sorted(self.absent), "frozen": self._decision, "pending": pending}
        self._state.note(NOTE, values)


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
