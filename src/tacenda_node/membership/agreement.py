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
lacks one is handed it before it goes on, and any other map is void. If none of those who say that
they hold it hands it over, they are left out too. After `losses` losses nobody
can be left out any more, and the run waits as under `stop`. More than half of the contract's
members must remain, so two parts of a broken network cannot both go on. A member that comes back is
taken in by the same agreement. Since a member signs once per view, every honest one that a decision
counts as present has agreed to that very set, and draws the noise of its edges for it.

What is decided follows from the votes alone (`decisions`): each names the view in which its member
stands, and counts once the decision for that view is known here.

A member can be ahead of another by at most their distance in the graph, since each round needs the
neighbours' rows. A vote that names a later round does not count: its member is as silent as one
that has not voted. So no lie about a round makes the others skip any.

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

import math
import threading
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from msgspec import convert, to_builtins

from tacenda.errors import NetworkError
from tacenda_node.membership.decisions import Decision, Decisions, Ground, check_remaining
from tacenda_node.membership.votes import Votes
from tacenda_node.peer.run_plan import RunPlan
from tacenda_node.protocol import frames
from tacenda_node.state.database import NodeState

NOTE = "membership"
MOST_PROPOSALS = 64
# Views for each member that change nobody, and skip a round: who asks for one again and again, or
# says that somebody is back who is not, cannot make the others skip more
MOST_IDLE = 3
SETTLED = 0.25  # of the contract's limit, from a view to one that changes nobody


class Phase(Enum):
    """Where a member is in the agreement on who takes part."""

    TAKING_PART = "taking part"  # rounds go on in the present view
    STOPPING = "stopping"  # a view is proposed; the round under way is to be given up
    VOTING = "voting"  # stopped, with a signed vote for the proposed view
    CONFLICT = "conflict"  # a member has signed two votes for one view


class Frozen(NetworkError):
    """The round is given up, because the members are about to agree on who takes part."""


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
        noted = state.noted(NOTE) or {"here": None, "pending": None}
        here = Ground() if noted["here"] is None else convert(noted["here"], Ground)
        self._votes = Votes(plan.contract, name, state, sign)
        self._votes.counts = self._counts
        self._decisions = Decisions(plan, self._votes, here)
        self._most_losses = plan.contract.absence.reserved_losses
        self._learns = plan.spec.algorithm.traits.learns
        # What this member holds when it stops: (the map's total, the latest total)
        self.holds: Callable[[], tuple[frames.Claim | None, frames.Claim | None]] = lambda: (
            None,
            None,
        )
        self.pending: tuple[int, frozenset[str]] | None = (
            None  # (view, absent) of the agreement under way
        )
        self._stopped_in: int | None = None  # the round in which this member has stopped
        self.round: Callable[[], int] | None = None  # the round on which this member works
        self._implausible: set[tuple[int, str]] = set()  # votes that were logged
        self.enacted = -math.inf
        self._heard: dict[str, int] = {}
        if noted["pending"] is not None:
            self.pending = (int(noted["pending"]["view"]), frozenset(noted["pending"]["absent"]))
            self._stopped_in = noted["pending"].get("stopped_in")

    @property
    def view(self) -> int:
        """The view in which this member stands."""
        return self._decisions.here.view

    @property
    def absent(self) -> frozenset[str]:
        """Who is absent in this view."""
        return self._decisions.here.absent

    @property
    def losses(self) -> int:
        """How many losses the members have had so far."""
        return self._decisions.here.losses

    @property
    def left(self) -> frozenset[str]:
        """Who has left for good, by an amendment of the contract."""
        return self._decisions.left

    @left.setter
    def left(self, names: frozenset[str]) -> None:
        self._decisions.left = names

    def absent_in(self, view: int) -> frozenset[str] | None:
        """Who is absent in a view, if that is known here."""
        with self._mutex:
            return self._decisions.absent_in(view)

    def judge_totals(self, backed: Callable[[frames.Claim], bool | None]) -> None:
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

    def hear(self, peer: str, frame: frames.Membership) -> None:
        """What a neighbour says of an agreement."""
        known, absent = set(self._plan.contract.names), frozenset(frame.absent)
        if not absent <= known or not set(frame.votes) <= known - absent:
            raise frames.BadFrame("an agreement about members who are not in the contract.")
        with self._mutex:
            fresh = self._take(frame, absent)
            if self._votes.conflict is not None or self._give_up_view():
                return
            if self._me in absent:
                self._tell(
                    frames.Progress(0)
                )  # a sign of life: the others take this member in again
                return
            if frame.view <= self.view:
                decided = self._votes.of(self.view, self.absent)
                here = (frame.view, absent) == (self.view, self.absent)
                if here and len(frame.votes) < len(decided):
                    self._say_with_grounds(self.view, self.absent, frame.votes.values())
                return
            if self.pending is not None and frame.view < self.pending[0]:
                return
            if self.pending is None or frame.view > self.pending[0]:
                self._follow(peer, frame.view, absent)
            elif absent != self.pending[1] and not self._decisions.apart(absent, self.pending[1]):
                self._follow(peer, frame.view + 1, absent | self.pending[1])
            elif fresh:
                self.announce()

    def _take(self, frame: frames.Membership, absent: frozenset[str]) -> bool:
        """Keep the votes of a frame; whether some were new. Where a member is caught with two, the
        neighbours are shown them."""
        if self._votes.conflict is not None:
            return False
        if frame.view > self.view + MOST_PROPOSALS:
            raise frames.BadFrame("an agreement for a view that no fault explains.")
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
        stand = frames.Stand(*self.holds(), self.view)
        self._votes.cast(view, absent, round, stand)

    def announce(self) -> None:
        """Say (again) what is known of the agreement under way, of sets that cannot be joined with
        its own, and of decisions that a voter may not know."""
        with self._mutex:
            if self.pending is not None:
                view, absent = self.pending
                self._say_with_grounds(view, absent, self._votes.of(view, absent).values())
                for other in self._votes.sets(view) - {absent}:
                    if self._decisions.apart(other, absent):
                        self._say(view, other)

    def greeting(self, view: int) -> list[frames.Membership]:
        """What a neighbour who has just connected, and stands in `view`, must know."""
        with self._mutex:
            if self._votes.conflict is not None:
                return self._votes.proof
            # First the views that it has missed, which say whose totals count
            subjects = self._decisions.between(view, self.view + 1)
            if self.pending is not None:
                subjects += self._decisions.between(max(view, self.view), self.pending[0])
                subjects += self._decisions.behind(self._votes.of(*self.pending).values())
                subjects = [*sorted(dict(subjects).items()), self.pending]
            found = [self._frame(*subject) for subject in subjects]
            return [frame for frame in found if frame is not None]

    def returned(self, present: set[str]) -> None:
        """Absent members who are there again are taken in, a few times at most."""
        with self._mutex:
            back = (present & self.absent) - self.left
            # A first round that is made again costs a loss: who returns waits for its map
            waits = self._learns and self.holds()[0] is None
            if self.pending is None and back and not waits and self._may_skip():
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
            found = self._decisions.of(*self.pending)
            if found is None:
                return None
            # From here on this member goes on: a vote for a later view must wait until it has
            # stopped again, and say where.
            self._stopped_in = None
            return found

    def holders(self, decision: Decision, claim: frames.Claim) -> frozenset[str]:
        """Who says in the votes for a decision that it holds this total."""
        with self._mutex:
            votes = self._votes.of(decision.view, decision.absent)
            held = {name: (vote.stand.map, vote.stand.last) for name, vote in votes.items()}
            return frozenset(
                name
                for name, totals in held.items()
                if claim.digest in {total.digest for total in totals if total is not None}
            )

    def enact(self, decision: Decision) -> None:
        """Let a decision hold from now on."""
        with self._mutex:
            view, absent = decision.view, decision.absent
            self._log.warning(
                "membership changed", view=view, absent=", ".join(sorted(absent)) or "nobody"
            )
            self._decisions.here = decision.ground
            self._stopped_in, self.enacted = None, time.monotonic()
            # A later one, heard of meanwhile, is next
            if self.pending is not None and self.pending[0] <= view:
                self.pending = None
            self._note()
            self._say(view, absent)

    def _frame(self, view: int, absent: frozenset[str]) -> frames.Membership | None:
        """All votes known for this set; None as long as nobody has signed it."""
        votes = self._votes.of(view, absent)
        return frames.Membership(view, sorted(absent), votes) if votes else None

    def _say(self, view: int, absent: frozenset[str]) -> None:
        frame = self._frame(view, absent)
        if frame is not None:
            self._tell(frame)

    def _say_with_grounds(
        self, view: int, absent: frozenset[str], votes: Iterable[frames.SignedStop]
    ) -> None:
        """Say what is known of a view, after the decisions that these voters, or those who have
        not voted, may not know."""
        first = min([self.view, *(vote.stand.view for vote in votes)])
        known = self._votes.of(view, absent).values()
        earlier = dict(self._decisions.between(first, view) + self._decisions.behind(known))
        for subject in sorted(earlier.items()):
            self._say(*subject)
        self._say(view, absent)

    def _follow(self, peer: str, view: int, absent: frozenset[str]) -> None:
        """Take up what a neighbour proposes, if it can be: not for ever,
        and not to the end of the run."""
        if self._decisions.too_few(absent):
            raise frames.BadFrame("a proposal that would leave too few members.")
        if not self._affords(view, absent):
            return  # as under `stop`: this member waits
        if self._too_soon(view, absent) or not (absent - self.absent or self._may_skip()):
            return  # nobody is lost: this member works on, and whoever does not is missed
        self._heard[peer] = self._heard.get(peer, 0) + 1
        if self._heard[peer] > MOST_PROPOSALS:
            raise frames.BadFrame("more proposals to change the members than any fault explains.")
        self._adopt(view, absent)

    def _may_skip(self) -> bool:
        """Whether a round may be given up for an agreement that leaves out nobody else, as long as
        few have changed nobody. How many follows from the votes: a restart forgets nothing, and
        nobody stops where others work on."""
        contract, idle = self._plan.contract, self._decisions.here.idle
        if self.pending is not None:  # which all others may have enacted
            votes = self._votes.of(*self.pending).values()
            found = [self._decisions.ground(vote.stand.view) for vote in votes]
            idle = max([idle, *(ground.idle for ground in found if ground is not None)])
            idle += self.pending[1] == self.absent
        return idle < MOST_IDLE * len(contract.members)

    def _too_soon(self, view: int, absent: frozenset[str]) -> bool:
        """Whether a view changes nobody and follows another one at once: without a pause members
        would flood each other with votes. Who is behind the voters follows them at once."""
        settled = self.enacted + SETTLED * self._plan.contract.absence.limit_seconds
        if self.pending is not None or absent != self.absent or time.monotonic() > settled:
            return False
        return all(v.stand.view <= self.view for v in self._votes.of(view, absent).values())

    def _affords(self, view: int, absent: frozenset[str]) -> bool:
        """Whether the contract pays for a view: for who is left out and, where nobody is and no
        vote shows a map, for a first round that is made again. Who leaves by an amendment costs no
        loss here: each member's own ledger then says whether it can make the round."""
        if not self.can_lose(absent):
            return False
        if absent - self.absent or not self._learns or self.losses < self._most_losses:
            return True
        return self.holds()[0] is not None or bool(self._decisions.maps(view, absent))

    def _counts(
        self, view: int, absent: frozenset[str], name: str, stop: frames.SignedStop
    ) -> bool:
        """True if the decision that a vote stands on is known here, and the member can have stopped
        in this round."""
        stands_in = stop.stand.view
        if self._decisions.ground(stands_in) is None:
            return False
        if self.round is None or name == self._me or self._me in absent:
            return True
        working_on = max(self.round(), self._stopped_in or 0)
        latest = self._decisions.latest_round(self._me, working_on, name, stands_in)
        if latest is None or stop.round <= latest:
            return True
        if (view, name) not in self._implausible:
            self._implausible.add((view, name))
            self._log.warning(
                "a vote does not count",
                peer=name,
                message=f"{name} says that it stopped in round {stop.round}, but it cannot be "
                f"beyond round {latest} without this member's rows.",
            )
        return False

    def _give_up_view(self) -> bool:
        """Vote in a later view, without leaving out anybody else, where the sets voted for in this
        one cannot be joined and none of them can be decided any more: of each, somebody who would
        remain has signed another one, or has left for good."""
        if self.pending is None or self._stopped_in is None:
            return False
        view, mine = self.pending
        others = {
            one for one in self._votes.sets(view) - {mine} if self._decisions.apart(one, mine)
        }
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
        self._state.note(NOTE, {"here": to_builtins(self._decisions.here), "pending": pending})
