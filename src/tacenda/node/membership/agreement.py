"""Going on without a member that stays away, and with it again when it returns. All remaining
members agree first.

A *view* is a numbered set of members who take part; the run begins in view 0 with all of them.
Whoever misses a neighbour for longer than the contract's limit stops in its round and says so: the
number of the next view, who is absent, and the round in which it stopped, signed (`votes`). The
news goes round; every member that hears it stops too and adds its own vote. Once a member has the
signatures of *all* remaining members under the same set of absent ones, the decision is made, and
it is the same for everybody:

    new view = the one voted on;   duals are zero, w is kept
    next round = the latest one in which anybody stopped, made again with other noise, as long as
                 the contract has a loss reserved (`absence.losses`); else, and where somebody
                 returns, the one after it; 1 where a map is needed that nobody holds

so no noise of an abandoned round is used again, and what it cost stays charged. A vote also names,
with the root's signature, the total from which the public map follows and the latest total: who
lacks one is handed it before it goes on, and any other map is void. After `losses` losses nobody
can be left out any more, and the run waits as under `stop`. More than half of the contract's
members must remain, so two parts of a broken network cannot both go on. A member that comes back is
taken in by the same agreement. Since a member signs once per view, every honest one that a decision
counts as present has agreed to that very set, and draws the noise of its edges for it.

Votes for different sets are joined in the next view. Where too few would then remain (two halves,
whose members miss different ones), and of each set somebody who would remain has signed another, no
decision of this view is possible, and its votes are void: the members vote in the next one to leave
out nobody else. A first round that is made again for that counts as a loss.

One member's phases (`Phase`):

                     propose,
                     hear, returned               freeze(round)             propose, hear: another
    +-------------+ ---------------> +----------+ -------------> +--------+ --+ set, in a later view
    | TAKING_PART |                  | STOPPING |                | VOTING |   |
    +-------------+ <----------+     +----------+                +--------+ <-+
                               |          ^                          |
                               |          | a later view was         | decided(): all remaining
                               |          | proposed meanwhile       | members signed the same set
                               |          |                          v
                               +----------+---------------------- enact()

    CONFLICT    from any of them, for good, once two different votes of one member for one view are
                known: `check` raises, nothing more is sent, and a restart stays there.

Proposal and vote are durable before they are told, so after kill -9 the member is in the phase in
which it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from tacenda.errors import InputError, NetworkError, UnsupportedError
from tacenda.node.membership.votes import Votes
from tacenda.node.protocol import wire
from tacenda.node.run_plan import RunPlan, topology_of
from tacenda.node.state.database import NodeState

NOTE = "membership"
MOST_PROPOSALS = 64
MOST_RETURNS = 3  # a member that comes and goes may not hold up the others for ever


class Phase(Enum):
    """Where a member is in the agreement on who takes part."""

    TAKING_PART = "taking part"  # rounds go on in the present view
    STOPPING = "stopping"  # a view is proposed; the round under way is to be given up
    VOTING = "voting"  # stopped, with a signed vote for the proposed view
    CONFLICT = "conflict"  # a member has signed two votes for one view


class Frozen(NetworkError):
    """The round is given up, because the members are about to agree on who takes part."""


class Decision(NamedTuple):
    """What all who remain have signed. map, last: the totals that all of them must hold."""

    view: int
    absent: frozenset[str]
    next_round: int
    losses: int = 0
    map: wire.Claim | None = None
    last: wire.Claim | None = None
    lacking: bool = False  # whether somebody lacks one of them


class Agreement:
    """One member's view of who takes part. Frames come from the network thread, questions from the
    algorithm's.

    sign: an Ed25519 signature (base64) by the key that the contract names for this member.
    """

    def __init__(
        self,
        plan: RunPlan,
        name: str,
        state: NodeState,
        tell: Any,
        log: Any,
        sign: Callable[[bytes], str],
    ) -> None:
        self._plan, self._me, self._state, self._tell, self._log = plan, name, state, tell, log
        self._mutex = threading.RLock()
        noted = state.noted(NOTE) or {"view": 0, "absent": [], "pending": None}
        self.view, self.absent = int(noted["view"]), frozenset(noted["absent"])
        self.losses = int(noted.get("losses", 0))
        self._views = [int(view) for view in noted.get("views", [])]  # that were enacted here
        self._most_losses = plan.contract.absence.reserved_losses
        self._learns = plan.spec.algorithm.learns
        # What this member holds when it stops: (the map's total, the latest total)
        self.holds: Callable[[], tuple[wire.Claim | None, wire.Claim | None]] = lambda: (None, None)
        self.pending: tuple[int, frozenset[str]] | None = (
            None  # (view, absent) of the agreement under way
        )
        self._stopped_in: int | None = None  # the round in which this member has stopped
        self._votes = Votes(plan.contract, name, state, sign)
        self.enacted = 0.0
        self.left = frozenset[str]()  # who has left for good, by an amendment of the contract
        self._returns: dict[str, int] = {}
        self._heard: dict[str, int] = {}
        if noted["pending"] is not None:
            self.pending = (int(noted["pending"]["view"]), frozenset(noted["pending"]["absent"]))
            self._stopped_in = noted["pending"].get("stopped_in")

    def absent_in(self, view: int) -> frozenset[str] | None:
        """Who is absent in a view, if that is known here."""
        with self._mutex:
            if view == 0:
                return frozenset()
            # What would leave too few is no decision, though all of these have signed it
            found = self._votes.decided(view)
            return next((absent for absent in found if not self._too_few(absent)), None)

    def judge_totals(self, backed: Callable[[wire.Claim], bool | None]) -> None:
        """How a total in a vote is judged: signed by its root, or not; None where the root is not
        known."""
        self._votes.backed = backed

    def can_lose(self, absent: frozenset[str]) -> bool:
        """Whether these members can be left out: the contract pays for so many losses, and who has
        left by an amendment is always left out."""
        with self._mutex:
            return not absent - self.absent - self.left or self.losses < self._most_losses

    def check(self) -> None:
        """Raise ConflictingVotes once a member was caught with two votes:
        nothing more is sent, in any view."""
        if self._votes.conflict is not None:
            raise self._votes.conflict

    @property
    def phase(self) -> Phase:
        """Where this member is in the diagram;
        messages of the present view are sent only while it takes part."""
        with self._mutex:
            if self._votes.conflict is not None:
                return Phase.CONFLICT
            if self.pending is None:
                return Phase.TAKING_PART
            return Phase.STOPPING if self._stopped_in is None else Phase.VOTING

    def propose(self, absent: frozenset[str]) -> None:
        """Ask all to agree on this set of absent members; refused where too few, or no connected
        graph, would remain."""
        check_remaining(self._plan, self._me, absent, self.left)
        if not self.can_lose(absent):
            raise NetworkError(
                f"{', '.join(sorted(absent - self.absent))} stayed away, and the contract pays for "
                f"{self._most_losses} losses (absence.losses), which are used. Everything is "
                "saved: start the node again when they are back, or sign an amendment without them."
            )
        with self._mutex:
            if self.pending is not None and self.pending[1] == absent:
                return
            # Another set needs another view: somebody may have decided the one under way already.
            view = 1 + (self.pending[0] if self.pending is not None else self.view)
            self._adopt(view, absent)

    def hear(self, peer: str, frame: wire.Membership) -> None:
        """What a neighbour says of an agreement."""
        known, absent = set(self._plan.contract.names), frozenset(frame.absent)
        if not absent <= known or not set(frame.votes) <= known - absent:
            raise wire.BadFrame("an agreement about members who are not in the contract.")
        with self._mutex:
            fresh = self._take(frame, absent)
            if self._votes.conflict is not None or self._give_up_view():
                return
            if self._me in absent:
                self._tell(wire.Progress(0))  # a sign of life: the others take this member in again
                return
            if frame.view <= self.view:
                decided = self._votes.of(self.view, self.absent)
                if (frame.view, absent) == (self.view, self.absent) and len(frame.votes) < len(
                    decided
                ):
                    self._say(self.view, self.absent)
                return
            if self.pending is not None and frame.view < self.pending[0]:
                return
            if self.pending is None or frame.view > self.pending[0]:
                self._follow(peer, frame.view, absent)
            elif absent != self.pending[1] and not self._apart(absent, self.pending[1]):
                self._follow(peer, frame.view + 1, absent | self.pending[1])
            elif fresh:
                self.announce()

    def _take(self, frame: wire.Membership, absent: frozenset[str]) -> bool:
        """Keep the votes of a frame; whether some were new. Where a member is caught with two, the
        neighbours are shown them."""
        if self._votes.conflict is not None:
            return False
        if frame.view > self.view + MOST_PROPOSALS:
            raise wire.BadFrame("an agreement for a view that no fault explains.")
        fresh = self._votes.take(frame.view, absent, frame.votes)
        if self._votes.conflict is not None:
            self._log.warning(
                "a member has signed two decisions", message=str(self._votes.conflict)
            )
            for proof in self._votes.proof:
                self._tell(proof)
        return fresh

    def freeze(self, round: int) -> None:
        """This member has stopped in round `round` and sends nothing more
        of the old view: it votes."""
        with self._mutex:
            if self._stopped_in is None:
                self._stopped_in = round
                self._note()
            if self.pending is not None and not self._can_sign(*self.pending):
                self._adopt(*self.pending)
            elif self.pending is not None:
                self._cast(*self.pending, self._stopped_in)
            self._give_up_view()
        self.announce()

    def _cast(self, view: int, absent: frozenset[str], round: int) -> None:
        stand = wire.Stand(*self.holds(), self.losses, bool(absent - self.absent))
        self._votes.cast(view, absent, round, stand)

    def announce(self) -> None:
        """Say (again) what is known of the agreement under way, and of sets that cannot be joined
        with its own."""
        with self._mutex:
            if self.pending is not None:
                view, absent = self.pending
                self._say(view, absent)
                for other in self._votes.sets(view) - {absent}:
                    if self._apart(other, absent):
                        self._say(view, other)

    def greeting(self, view: int) -> list[wire.Membership]:
        """What a neighbour who has just connected, and stands in `view`, must know."""
        with self._mutex:
            if self._votes.conflict is not None:
                return self._votes.proof
            # First the views that it has missed, which say whose totals count
            subjects = [(v, self.absent_in(v)) for v in self._views if v > view]
            if self.pending is not None:
                subjects.append(self.pending)
            frames = [self._frame(v, absent) for v, absent in subjects if absent is not None]
            return [frame for frame in frames if frame is not None]

    def returned(self, present: set[str]) -> None:
        """Absent members who are there again are taken in, a few times at most."""
        with self._mutex:
            back = {
                name
                for name in (present & self.absent) - self.left
                if self._returns.get(name, 0) < MOST_RETURNS
            }
            # A first round that is made again costs a loss: who returns waits for its map
            waits = self._learns and self.holds()[0] is None
            if self.pending is None and back and not waits:
                for name in back:
                    self._returns[name] = self._returns.get(name, 0) + 1
                self._adopt(self.view + 1, self.absent - back)

    def silent(self) -> frozenset[str]:
        """Who has not voted yet on the agreement under way."""
        with self._mutex:
            view, absent = self.pending if self.pending is not None else (self.view, self.absent)
            return frozenset(self._plan.contract.names) - absent - set(self._votes.of(view, absent))

    def without(self, more: frozenset[str]) -> frozenset[str]:
        """The absent ones, and these."""
        with self._mutex:
            return more | (self.pending[1] if self.pending is not None else self.absent)

    def decided(self) -> Decision | None:
        """The decision, once all remaining members have signed that they stopped, for this very
        set."""
        with self._mutex:
            self.check()
            if self.pending is None:
                return None
            view, absent = self.pending
            votes = self._votes.of(view, absent)
            if set(votes) != set(self._plan.contract.names) - absent:
                return None
            # From here on this member goes on: a vote for a later view must wait until it has
            # stopped again, and say where.
            self._stopped_in = None
            return self._decision(view, absent, list(votes.values()))

    def _decision(
        self, view: int, absent: frozenset[str], votes: list[wire.SignedStop]
    ) -> Decision:
        stands, latest = [vote.stand for vote in votes], max(vote.round for vote in votes)
        maps = [stand.map for stand in stands if stand.map is not None]
        anew = self._learns and not maps  # all of round 1 is made again
        again = anew or any(stand.again for stand in stands)
        losses = max(stand.losses for stand in stands) + again
        next_round = latest if again and losses <= self._most_losses else latest + 1
        last = max(
            (s.last for s in stands if s.last is not None), key=lambda c: c.key, default=None
        )
        found = maps[0] if maps else None
        if len({claim.digest for claim in maps}) > 1:
            raise NetworkError(
                "The root has signed two totals from which two public maps follow, and members "
                "hold different ones. Everything is saved, and what was spent stays charged: "
                f"begin again under a new contract without {maps[0].member}."
            )
        if anew:
            next_round = 1
        lacking = any(stand.map != found or stand.last != last for stand in stands)
        return Decision(view, absent, next_round, losses, found, last, lacking)

    def enact(self, view: int, absent: frozenset[str], losses: int = 0) -> None:
        """The decision holds from now on."""
        with self._mutex:
            self.losses = max(self.losses, losses)
            self._views = [*self._views[-MOST_PROPOSALS:], view]
            self._log.warning(
                "membership changed", view=view, absent=", ".join(sorted(absent)) or "nobody"
            )
            self.view, self.absent = view, absent
            self._stopped_in, self.enacted = None, time.monotonic()
            # A later one, heard of meanwhile, is next
            if self.pending is not None and self.pending[0] <= view:
                self.pending = None
            self._note()
            self._say(view, absent)

    def _frame(self, view: int, absent: frozenset[str]) -> wire.Membership | None:
        """All votes known for this set; None as long as nobody has signed it."""
        votes = self._votes.of(view, absent)
        return wire.Membership(view, sorted(absent), votes) if votes else None

    def _say(self, view: int, absent: frozenset[str]) -> None:
        frame = self._frame(view, absent)
        if frame is not None:
            self._tell(frame)

    def _follow(self, peer: str, view: int, absent: frozenset[str]) -> None:
        """Take up what a neighbour proposes, if it can be: not for ever,
        and not to the end of the run."""
        if self._too_few(absent):
            raise wire.BadFrame("a proposal that would leave too few members.")
        if not self._affords(view, absent):
            return  # as under `stop`: this member waits
        self._heard[peer] = self._heard.get(peer, 0) + 1
        if self._heard[peer] > MOST_PROPOSALS:
            raise wire.BadFrame("more proposals to change the members than any fault explains.")
        self._adopt(view, absent)

    def _affords(self, view: int, absent: frozenset[str]) -> bool:
        """Whether the contract pays for a view: for who is left out and, where nobody is and no
        vote shows a map, for a first round that is made again. Who leaves by an amendment costs no
        loss here: each member's own ledger then says whether it can make the round."""
        if not self.can_lose(absent):
            return False
        if absent - self.absent or not self._learns or self.losses < self._most_losses:
            return True
        votes = self._votes.of(view, absent).values()
        return self.holds()[0] is not None or any(v.stand.map is not None for v in votes)

    def _too_few(self, absent: frozenset[str]) -> bool:
        """Whether the others could not go on without these."""
        remaining = min(set(self._plan.contract.names) - absent, default=self._me)
        try:
            check_remaining(self._plan, remaining, absent, self.left)
        except NetworkError:
            return True
        return False

    def _apart(self, one: frozenset[str], other: frozenset[str]) -> bool:
        """Whether two sets, each of which leaves enough, cannot be joined."""
        return self._too_few(one | other) and not self._too_few(one) and not self._too_few(other)

    def _give_up_view(self) -> bool:
        """Vote in a later view, without leaving out anybody else, where the sets voted for in this
        one cannot be joined and none of them can be decided any more: of each, somebody who would
        remain has signed another one, or has left for good."""
        if self.pending is None or self._stopped_in is None:
            return False
        view, mine = self.pending
        others = {one for one in self._votes.sets(view) - {mine} if self._apart(one, mine)}
        if not others:
            return False
        absent = self.absent | self.left
        if mine == absent:  # members stand in different views: the one set that all have in common
            absent = self.left
        void = all(self.left - one or self._votes.against(view, one) for one in others | {mine})
        if void and self._affords(view + 1, absent):
            self._adopt(view + 1, absent)
            return True
        return False

    def _adopt(self, view: int, absent: frozenset[str]) -> None:
        while not self._can_sign(view, absent):
            view += 1
        self.pending = (view, absent)
        self._log.warning(
            "agreement under way", view=view, absent=", ".join(sorted(absent)) or "nobody"
        )
        self._note()
        if self._stopped_in is not None:
            self._cast(view, absent, self._stopped_in)
        self.announce()

    def _can_sign(self, view: int, absent: frozenset[str]) -> bool:
        """One vote per view: one from a lost state, for another set or an earlier round, leaves
        only a later view to vote in."""
        mine = self._votes.find(view, self._me)
        return mine is None or (
            mine.absent == sorted(absent) and mine.round >= (self._stopped_in or 0)
        )

    def _note(self) -> None:
        pending = None
        if self.pending is not None:
            pending = {
                "view": self.pending[0],
                "absent": sorted(self.pending[1]),
                "stopped_in": self._stopped_in,
            }
        self._state.note(
            NOTE,
            {
                "view": self.view,
                "absent": sorted(self.absent),
                "pending": pending,
                "losses": self.losses,
                "views": self._views,
            },
        )


def check_remaining(
    plan: RunPlan, name: str, absent: frozenset[str], left: frozenset[str] = frozenset()
) -> None:
    """The remaining members are a majority of those who have not left for good, form a connected
    graph that the algorithm can use, and this member is one of them."""
    contract = plan.contract
    stay, away = len(contract.members) - len(absent), absent - left
    of = len(contract.members) - len(left)
    if name in absent or 2 * stay <= of:
        missing = ", ".join(sorted(away)) or "nobody"
        raise NetworkError(
            f"{missing} stayed away, and with this member ({name}) {stay} of {of} remain, which is "
            "not more than half. Everything is saved. If the others reach each other, they go on "
            f"without {name} and take it in again by themselves: look at the network here, then "
            "start this node again, with the same state. If they have stopped too, start it when "
            "more than half are back."
        )
    try:
        topology = topology_of(contract, absent)
        plan.spec.algorithm.check(plan.spec.facts, topology, contract.rounds, True)
    except (InputError, UnsupportedError) as broken:
        raise NetworkError(
            f"Without {', '.join(sorted(absent))} the run cannot go on: "
            f"{broken} Everything is saved."
        ) from None
