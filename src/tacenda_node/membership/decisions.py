"""Decisions about who takes part, as they follow from signed votes and from nothing else.

Each vote names the view in which its member stands (`frames.Stand.view`). The latest of these views
is the ground on which the next decision stands: it says which public map counts and how many losses
were paid for. So two members who hold the same votes decide the same, whatever else either of them
has heard of. A vote counts only where the decision that it stands on is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tacenda.errors import InputError, NetworkError, UnsupportedError
from tacenda.runtime.spec import check_group_count
from tacenda_node.membership.votes import Votes
from tacenda_node.peer.run_plan import RunPlan, topology_of
from tacenda_node.protocol import frames

# What a member reads that comes back after the others may have ended
TAKE_MODEL = (
    "Ask one of them for the two files of the model (state/results/*.safetensors and "
    "*.signatures.json); `tacenda evidence check MODEL --contract CONTRACT` says which members "
    "have signed it. What this member released stays charged."
)
OTHER_MODEL = (
    "has signed two totals, and most others have gone on with another one than this member. Do not "
    f"use this member's model: take theirs. {TAKE_MODEL}"
)
IF_ENDED = f"Or the others have finished the run without this member. {TAKE_MODEL}"


class Ground(NamedTuple):
    """What the members of a view have agreed on.

    map: the digest of the total from which the public map follows, if there is one; else a map
    counts if it is made in view `since` or later. idle: how many views so far have changed nobody,
    each of which has skipped the round that was given up for it.
    """

    view: int = 0
    absent: frozenset[str] = frozenset()
    losses: int = 0
    map: bytes | None = None
    since: int = 0
    idle: int = 0


class Decision(NamedTuple):
    """What all who remain have signed.

    map: the total from which the public map follows. lasts: the latest totals that they hold, one
    for each place; who lacks one needs it, and not only the very latest: a root could hide a total
    behind one that it has made up. Where a root has signed two for one place, all use the same.
    """

    view: int
    absent: frozenset[str]
    next_round: int
    losses: int = 0
    map: frames.Claim | None = None
    lasts: tuple[frames.Claim, ...] = ()
    lacking: bool = False  # whether somebody lacks one of them
    since: int = 0  # as in `Ground`
    idle: int = 0

    @property
    def ground(self) -> Ground:
        """What later decisions stand on."""
        agreed = None if self.map is None else self.map.digest
        return Ground(self.view, self.absent, self.losses, agreed, self.since, self.idle)


class Decisions:
    """The decisions that the votes known here make.

    here: the view in which this member stands. left: who has left for good, by an amendment.
    """

    def __init__(self, plan: RunPlan, votes: Votes, here: Ground) -> None:
        self._plan, self._votes, self.here = plan, votes, here
        self.left = frozenset[str]()
        self._made: dict[int, Decision] = {}

    def absent_in(self, view: int) -> frozenset[str] | None:
        """Who is absent in a view, if that is known here."""
        found = self.ground(view)
        return None if found is None else found.absent

    def ground(self, view: int) -> Ground | None:
        """What was agreed on in a view, if that is known here."""
        if view == self.here.view:
            return self.here
        if view == 0:
            return Ground()
        found = self.in_view(view)
        return None if found is None else found.ground

    def in_view(self, view: int) -> Decision | None:
        """The decision for a view, once all whom it counts as present are known to have signed."""
        if view not in self._made:
            # What would leave too few is no decision, though all of these have signed it
            sets = [one for one in self._votes.decided(view) if not self.too_few(one)]
            found = self.of(view, sets[0]) if sets else None
            if found is None:
                return None
            self._made[view] = found
        return self._made[view]

    def between(self, first: int, last: int) -> list[tuple[int, frozenset[str]]]:
        """The decided views after `first` and before `last`, with who is absent in them."""
        found = [(view, self.absent_in(view)) for view in range(first + 1, last)]
        return [(view, absent) for view, absent in found if absent is not None]

    def behind(self, votes: Iterable[frames.SignedStop]) -> list[tuple[int, frozenset[str]]]:
        """The decided views that these votes rest on, earliest first, with who is absent in them.

        A vote rests on the view in which its member stands and on those of the totals that it
        names, and these rest on others. Whoever lacks one of them cannot count the vote.
        """
        found: dict[int, frozenset[str]] = {}
        waiting = list(votes)
        while waiting:
            for view in _rests_on(waiting.pop()) - found.keys():
                absent = self.absent_in(view)
                if absent is not None:
                    found[view] = absent
                    waiting += self._votes.of(view, absent).values()
        return sorted(found.items())

    def of(self, view: int, absent: frozenset[str]) -> Decision | None:
        """The decision to go on without these; None as long as a vote is missing."""
        votes = self._votes.of(view, absent)
        grounds = [self.ground(vote.stand.view) for vote in votes.values()]
        known = [ground for ground in grounds if ground is not None]
        if set(votes) != set(self._plan.contract.names) - absent or len(known) < len(votes):
            return None
        before = max(known, key=lambda ground: ground.view)
        stands = [vote.stand for vote in votes.values()]
        maps = self._maps(before, votes.values())
        anew = self._plan.spec.algorithm.traits.learns and not maps  # round 1 is made again
        again = anew or bool(absent - before.absent)
        losses = max(ground.losses for ground in known) + again
        latest = max(vote.round for vote in votes.values())
        paid = losses <= self._plan.contract.absence.reserved_losses
        lasts = _one_for_each_place(s.last for s in stands)
        map = _one_for_each_place(maps)[-1] if maps else None
        return Decision(
            view,
            absent,
            1 if anew else latest if again and paid else latest + 1,
            losses,
            map,
            lasts,
            len({s.last and (*s.last.key, s.last.digest) for s in stands}) > 1
            or any(s.map != map for s in stands),
            before.since if maps else view,
            max(ground.idle for ground in known) + (absent == before.absent and not again),
        )

    def maps(self, view: int, absent: frozenset[str]) -> list[frames.Claim]:
        """The maps in the votes for this set, so far, that count."""
        votes = self._votes.of(view, absent).values()
        grounds = [self.ground(vote.stand.view) for vote in votes]
        known = [self.here, *(ground for ground in grounds if ground is not None)]
        return self._maps(max(known, key=lambda ground: ground.view), votes)

    @staticmethod
    def _maps(ground: Ground, votes: Iterable[frames.SignedStop]) -> list[frames.Claim]:
        """The maps that count on this ground: the agreed one or, where there is none, any that was
        made since. Who returns may bring another, which is void."""
        maps = [vote.stand.map for vote in votes if vote.stand.map is not None]
        if ground.map is None:
            return [map for map in maps if map.view >= ground.since]
        return [map for map in maps if map.digest == ground.map]

    def latest_round(self, me: str, working_on: int, name: str, stands_in: int) -> int | None:
        """The latest round in which a member can have stopped, given the view in which it stands
        and the round on which this one works; None where it did not need this member's rows.

        A round needs the neighbours' rows, so nobody is ahead by more than the distance.
        """
        ahead = None if stands_in <= self.here.view else self.in_view(stands_in)
        absent = self.here.absent if ahead is None else ahead.absent
        if me in absent:
            return None
        topology = topology_of(self._plan.contract, absent)
        hops = topology.distances(topology.position(me))
        away = int(hops.max() if name in absent else hops[topology.position(name)])
        # In a view that has begun without this member's rows nobody near it has finished a round
        return max(working_on, 0 if ahead is None else ahead.next_round - 1) + away

    def too_few(self, absent: frozenset[str]) -> bool:
        """True if the others could not go on without these."""
        remaining = min(set(self._plan.contract.names) - absent, default="")
        try:
            check_remaining(self._plan, remaining, absent, self.left)
        except NetworkError:
            return True
        return False

    def apart(self, one: frozenset[str], other: frozenset[str]) -> bool:
        """True if two sets, each of which leaves enough, cannot be joined."""
        return self.too_few(one | other) and not self.too_few(one) and not self.too_few(other)


def _one_for_each_place(totals: Iterable[frames.Claim | None]) -> tuple[frames.Claim, ...]:
    """In the order of their places. A root that has signed two for one place has made neither of
    them worth more than its own row: all use the one that most hold, so that never most members
    have signed the model of the other."""
    held = [total for total in totals if total is not None]
    each = Counter((total.key, total.digest) for total in held)
    found: dict[tuple[int, int, int], frames.Claim] = {}
    for total in sorted(held, key=lambda one: (each[one.key, one.digest], one.digest)):
        found[total.key] = total
    return tuple(found[place] for place in sorted(found))


def _rests_on(vote: frames.SignedStop) -> set[int]:
    totals = [total for total in (vote.stand.map, vote.stand.last) if total is not None]
    return {vote.stand.view, *(total.view for total in totals)} - {0}


def check_remaining(
    plan: RunPlan, name: str, absent: frozenset[str], left: frozenset[str] = frozenset()
) -> None:
    """Check that the remaining members are a majority of those who have not left for good and form
    a connected graph that the algorithm can use, and that this member is one of them."""
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
            f"more than half are back. {IF_ENDED}"
        )
    try:
        topology = topology_of(contract, absent)
        plan.spec.algorithm.check(plan.spec.facts, topology, contract.rounds, True)
        check_group_count(plan.spec.method, topology.n)
    except (InputError, UnsupportedError) as broken:
        raise NetworkError(
            f"Without {', '.join(sorted(absent))} the run cannot go on: "
            f"{broken} Everything is saved."
        ) from None
