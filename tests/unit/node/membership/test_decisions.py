"""Decisions follow from votes alone: members who have heard different things decide the same."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from agreement_stage import Five
from tacenda.errors import NetworkError
from tacenda_node.membership.agreement import Agreement, Phase
from tacenda_node.membership.decisions import Decision, check_remaining
from tacenda_node.protocol import frames

WHITENED = {
    "algorithm": {"name": "treegd"},
    "prepare": {"name": "whitening"},
    "privacy": {"epsilon": 5.0, "delta": 1e-5, "coalition": 1},
}
NAMES = [f"m{k}" for k in range(5)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Five:
    terms = {"absence": {"losses": 40}, "graph": "complete"}
    return Five(tmp_path_factory.mktemp("decisions"), **terms, **WHITENED)


def map_of(view: int) -> frames.Claim:
    """The total that the root of a view has signed in its first round."""
    return frames.Claim("m0", view, 1, 2, bytes([view % 256]) * 32, "A" * 86 + "==")


def test_which_map_counts_does_not_depend_on_the_decisions_heard_of(
    five: Five, tmp_path: Path
) -> None:
    """m4 got the map of view 0, and was cut off. m1, m2 and m3 went on without it and m0, made
    round 1 again in view 1, and m1 and m2 know that all three signed. m3 lacks a vote.

    Whenever m3 hears that view 1 was decided, it decides as the others: m4's map is void.
    """
    without = frozenset({"m0", "m4"})
    first = five.frame(1, sorted(without), dict.fromkeys(("m1", "m2", "m3"), 1))
    new = frames.Stand(map_of(1), map_of(1), 1)
    told = {
        "view 1": first,
        "new": five.frame(2, [], {"m1": 2, "m2": 2}, new),
        "old": five.frame(2, [], {"m4": 2}, frames.Stand(map_of(0), map_of(0))),
        "nothing": five.frame(2, [], {"m0": 1}),
    }
    found = set()
    for case, order in enumerate(itertools.permutations(told)):
        agreement = five.agreement("m3", tmp_path / str(case), [])
        agreement.judge_totals(lambda claim: True)
        agreement.propose(without)
        agreement.freeze(1)
        for name in order:
            agreement.hear("m1", told[name])
        assert agreement.pending == (2, frozenset())
        if order[-1] != "new" and order.index("view 1") > order.index("new"):
            assert agreement.decided() is None  # what m1 and m2 stand on was unknown
        agreement.hear("m1", told["new"])  # which they say again and again
        found.add(agreement.decided())
    decision = found.pop()
    assert not found and decision is not None
    assert (decision.map, decision.next_round, decision.losses) == (map_of(1), 3, 1)


def test_a_vote_brings_the_decisions_that_it_rests_on(five: Five, tmp_path: Path) -> None:
    """m1 stands in view 2, which was decided by voters in view 1. m3 has heard of neither."""
    post: list[Any] = []
    agreement = five.agreement("m1", tmp_path, post)
    agreement.judge_totals(lambda claim: True)
    agreement.propose(frozenset({"m4"}))
    agreement.freeze(1)
    agreement.hear("m2", five.frame(1, ["m4"], {"m0": 1, "m2": 1, "m3": 1}))
    first = agreement.decided()
    assert first is not None
    agreement.enact(first)
    agreement.propose(frozenset({"m3", "m4"}))
    agreement.freeze(2)
    stand = frames.Stand(view=1)
    agreement.hear("m2", five.frame(2, ["m3", "m4"], {"m0": 2, "m2": 2}, stand))
    second = agreement.decided()
    assert second is not None
    agreement.enact(second)
    agreement.holds = lambda: (map_of(2), map_of(2))
    agreement.returned({"m3", "m4"})
    agreement.freeze(3)
    late = five.agreement("m3", tmp_path, [])
    late.judge_totals(lambda claim: True)
    late.propose(frozenset({"m4"}))
    late.freeze(1)
    post.clear()
    agreement.announce()
    assert [frame.view for _, frame in post] == [1, 2, 3]
    assert agreement.greeting(2) == [frame for _, frame in post]  # in whatever view a peer stands
    late.hear("m1", post[-1][1])
    assert "m1" in late.silent()  # what the vote rests on is not known yet
    for _, frame in post:
        late.hear("m1", frame)
    assert "m1" not in late.silent()


def test_who_has_gone_on_shows_a_late_voter_what_the_others_stood_on(
    five: Five, tmp_path: Path
) -> None:
    """m3 has voted for view 2 and knows nothing of view 1, so no vote of the others counts there.
    They have decided both, and say nothing by themselves any more."""
    post: list[Any] = []
    agreement = five.agreement("m1", tmp_path, post)
    agreement.propose(frozenset({"m4"}))
    agreement.freeze(1)
    agreement.hear("m2", five.frame(1, ["m4"], {"m0": 1, "m2": 1, "m3": 1}))
    first = agreement.decided()
    assert first is not None
    agreement.enact(first)
    agreement.propose(frozenset({"m0", "m4"}))
    agreement.freeze(2)
    late = five.agreement("m3", tmp_path, [])
    late.propose(frozenset({"m0", "m4"}))
    late._adopt(2, frozenset({"m0", "m4"}))
    late.freeze(1)
    mine = late.greeting(0)[-1]
    agreement.hear("m3", mine)
    agreement.hear("m2", five.frame(2, ["m0", "m4"], {"m2": 2}, frames.Stand(view=1)))
    found = agreement.decided()
    assert found is not None
    agreement.enact(found)
    late.hear("m2", five.frame(2, ["m0", "m4"], {"m2": 2}, frames.Stand(view=1)))
    assert late.silent() == {"m1", "m2"}
    post.clear()
    agreement.hear("m3", mine)
    assert [frame.view for _, frame in post] == [1, 2]
    for _, frame in post:
        late.hear("m1", frame)
    assert late.decided() == found


def test_a_vote_stands_on_a_decision_that_was_made(five: Five, tmp_path: Path) -> None:
    agreement = five.agreement("m0", tmp_path, [])
    agreement.propose(frozenset({"m4"}))
    agreement.freeze(3)
    with pytest.raises(frames.BadFrame, match="a view before the one it stands in"):
        agreement.hear("m1", five.frame(1, ["m4"], {"m1": 3}, frames.Stand(view=1)))
    agreement.hear("m1", five.frame(2, ["m3"], {"m1": 3, "m2": 3}, frames.Stand(view=1)))
    agreement.hear("m1", five.frame(2, ["m3"], {"m4": 3}))
    assert agreement.pending is not None
    assert agreement.silent() >= {"m1", "m2"}  # nobody has shown that view 1 was decided
    assert agreement.decided() is None


class Crowd:
    """Members whose frames are lost and arrive in any order, and who come, go and take part."""

    def __init__(self, stage: Five, folder: Path, seed: int) -> None:
        self._stage, self._rng, self._post = stage, random.Random(seed), list[Any]()
        self.members: dict[str, Agreement] = {}
        self.holds: dict[str, frames.Claim | None] = dict.fromkeys(NAMES)
        self.made: dict[int, Decision] = {}
        for name in NAMES:
            member = stage.agreement(name, folder, self._post)
            self.members[name] = member
            member.judge_totals(
                lambda claim, m=member: None if m.absent_in(claim.view) is None else True
            )
            member.holds = lambda n=name: (self.holds[n], self.holds[n])

    def act(self, name: str, calm: bool) -> None:
        member, rng = self.members[name], self._rng
        if member.phase is Phase.STOPPING:
            member.freeze(2 if self.holds[name] else 1)
        elif member.phase is Phase.VOTING:
            found = member.decided()
            if found is None:
                member.announce()
                silent = member.silent()
                if not calm and rng.random() < 0.05:
                    self.propose(name, member.without(silent))
                return
            # What one member decides for a view, every other one decides too
            assert self.made.setdefault(found.view, found) == found
            self.holds[name] = found.map
            member.enact(found)
        else:
            if self.holds[name] is None and (calm or rng.random() < 0.3):
                self.holds[name] = map_of(member.view)
            if not calm and rng.random() < 0.1:
                self.propose(name, member.absent | {rng.choice(NAMES)})
            elif member.absent and (calm or rng.random() < 0.1):
                member.returned(set(NAMES))

    def propose(self, name: str, absent: frozenset[str]) -> None:
        try:
            check_remaining(self._stage.plan, name, absent)
        except NetworkError:
            return
        self.members[name].propose(absent)

    def deliver(self, loss: float) -> None:
        while self._post:
            sender, frame = self._post.pop(self._rng.randrange(len(self._post)))
            for peer in NAMES:
                if peer == sender or self._rng.random() < loss:
                    continue
                if isinstance(frame, frames.Membership):
                    self.members[peer].hear(sender, frame)

    def greet(self) -> None:
        """All connect anew."""
        for name, peer in itertools.permutations(NAMES, 2):
            for frame in self.members[name].greeting(self.members[peer].view):
                self.members[peer].hear(name, frame)


@pytest.mark.parametrize("cases", [2, pytest.param(120, marks=pytest.mark.slow)])
def test_members_who_hear_different_things_decide_the_same(
    five: Five, tmp_path: Path, cases: int
) -> None:
    """Half of all messages are lost while members come and go; then none is, and all come together
    again with one map."""
    decisions = 0
    for case in range(cases):
        crowd = Crowd(five, tmp_path / str(case), case)
        for step in range(60):
            for name in NAMES:
                crowd.act(name, calm=False)
            crowd.deliver(0.5)
            if step % 20 == 19:
                crowd.greet()
        for step in range(40):
            for name in NAMES:
                crowd.act(name, calm=True)
            crowd.deliver(0.0)
            if step == 0:
                crowd.greet()
        decisions += len(crowd.made)
        views = {member.view for member in crowd.members.values()}
        assert len(views) == 1, (case, {n: (m.view, m.pending) for n, m in crowd.members.items()})
        assert {m.phase for m in crowd.members.values()} == {Phase.TAKING_PART}
        assert len(set(crowd.holds.values())) == 1, case
        five.close()
    assert decisions > 3 * cases
