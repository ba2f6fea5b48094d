"""Votes for sets that cannot be joined, as after a cut into two halves: all come together again,
and no member can use it to make the others repeat a round that nobody has paid for."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agreement_stage import Five
from tacenda.errors import NetworkError
from tacenda_node.membership.agreement import Agreement, Phase
from tacenda_node.membership.decisions import Decision
from tacenda_node.protocol import frames

WHITENED = {
    "algorithm": {"name": "treegd"},
    "prepare": {"name": "whitening"},
    "privacy": {"epsilon": 5.0, "delta": 1e-5, "coalition": 1},
}
NAMES = ["m0", "m1", "m2", "m3"]
MISSED = {"m0": "m3", "m1": "m2", "m2": "m1", "m3": "m0"}  # where the ring is cut in two
MAP = frames.Claim("m0", 0, 1, 2, b"m" * 32, "A" * 86 + "==")
Holds = tuple[frames.Claim | None, frames.Claim | None]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Five:
    return Five(tmp_path_factory.mktemp("four"), 4, absence={"losses": 2}, **WHITENED)


@pytest.fixture
def four(made: Five) -> Iterator[Five]:
    yield made
    made.close()


class Ring:
    """A ring of members whose frames arrive in any order, where the network is not cut."""

    def __init__(self, stage: Five, folder: Path, seed: int = 0) -> None:
        self._stage, self._folder, self._rng = stage, folder, random.Random(seed)
        self.names = stage.plan.contract.names
        self.holds: dict[str, Holds] = dict.fromkeys(self.names, (None, None))
        self.rounds = dict.fromkeys(self.names, 1)
        self.side: set[str] = set()
        self.start()

    def start(self) -> None:
        """All start, or start again after a kill: what is not durable is gone."""
        self._stage.close()
        self._post: list[Any] = []
        self.members = {n: self._stage.agreement(n, self._folder, self._post) for n in self.names}
        for name, member in self.members.items():
            member.judge_totals(lambda claim: claim.member == "m0")
            member.holds = lambda name=name: self.holds[name]

    def talk(self) -> None:
        """All stop, vote and remind each other, until there is nothing new to say."""
        for _ in range(6):
            for name in self._rng.sample(self.names, len(self.names)):
                if self.members[name].phase is not Phase.TAKING_PART:
                    self.members[name].freeze(self.rounds[name])
                    self.members[name].announce()
            while self._post:
                sender, frame = self._post.pop(self._rng.randrange(len(self._post)))
                for peer in self._stage.plan.contract.neighbours(sender):
                    if (
                        isinstance(frame, frames.Membership)
                        and len(self.side & {sender, peer}) != 1
                    ):
                        self.members[peer].hear(sender, frame)

    def decided(self) -> dict[str, Decision | None]:
        return {name: member.decided() for name, member in self.members.items()}

    def together(self) -> Decision:
        """The latest decision, which is that of all whom it counts as present. Who is left out in
        it may stand at an earlier one, in which the others send it nothing more."""
        found = {name: one for name, one in self.decided().items() if one is not None}
        last = max(found.values(), key=lambda one: one.view)
        for name in set(self.names) - last.absent:
            assert found[name] == last, name
        return last


def never(ring: Ring) -> None:
    """The processes go on."""


@pytest.mark.parametrize("restart", [never, Ring.start])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("holders", "rounds", "then"),
    [
        ("", [1, 1, 1, 1], (1, 1)),  # before or in round 1: it is made (again), which is a loss
        ("m0 m1", [1, 2, 1, 1], (3, 0)),  # one half has the map: nothing is made again
        ("m0 m1 m2 m3", [7, 8, 7, 7], (9, 0)),
        ("m0 m1 m2 m3", [51, 51, 50, 50], (52, 0)),  # some have finished
    ],
)
def test_two_halves_come_together(
    four: Five,
    tmp_path: Path,
    restart: Callable[[Ring], None],
    seed: int,
    holders: str,
    rounds: list[int],
    then: tuple[int, int],
) -> None:
    """While the cut lasts nobody goes on, and its members say why; then all do, with nobody left
    out."""
    ring = Ring(four, tmp_path, seed)
    ring.rounds = dict(zip(NAMES, rounds, strict=True))
    ring.holds |= dict.fromkeys(holders.split(), (MAP, MAP))
    ring.side = {"m0", "m1"}
    for name, missed in MISSED.items():
        ring.members[name].propose(frozenset({missed}))
    for _ in range(2):
        ring.talk()
        assert set(ring.decided().values()) == {None}
        for member in ring.members.values():
            with pytest.raises(NetworkError, match="not more than half"):
                member.propose(member.without(member.silent()))
        restart(ring)
    ring.side = set()
    ring.talk()
    found = ring.together()
    assert (found.absent, found.next_round, found.losses) == (frozenset(), *then)
    assert found.map == (MAP if holders else None)
    for member in ring.members.values():
        member.enact(found)
        member.check()
        assert (member.phase, member.view) == (Phase.TAKING_PART, found.view)


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_whatever_they_vote_for_there_is_one_decision(
    four: Five, tmp_path: Path, step: int
) -> None:
    """Each of four members votes to leave out any other: some of the 81 cases, or all."""
    choices = [[other for other in NAMES if other != name] for name in NAMES]
    for case, votes in list(enumerate(itertools.product(*choices)))[::step]:
        ring = Ring(four, tmp_path / str(case), case)
        for name, missed in zip(NAMES, votes, strict=True):
            ring.members[name].propose(frozenset({missed}))
            ring.members[name].freeze(ring.rounds[name])
        ring.talk()
        # Three who vote alike go on without the fourth, whatever that one votes for
        alike = max(NAMES, key=votes.count)
        assert ring.together().absent == ({alike} if votes.count(alike) == 3 else set()), votes


@pytest.mark.parametrize("cases", [8, pytest.param(150, marks=pytest.mark.slow)])
def test_five_who_miss_many_different_ones_end_in_one_decision(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, cases: int
) -> None:
    """Some sets can be joined, others not."""
    five, rng = Five(tmp_path_factory.mktemp("five")), random.Random(1)
    for case in range(cases):
        ring = Ring(five, tmp_path / str(case), case)
        for name in ring.names:
            others = [other for other in ring.names if other != name]
            ring.members[name].propose(frozenset(rng.sample(others, 1)))
            ring.members[name].freeze(1)
        ring.talk()
        ring.together()
    five.close()


def test_who_is_left_out_cannot_make_the_votes_of_the_others_void(
    four: Five, tmp_path: Path
) -> None:
    """m3 votes for another set while the others agree to leave it out: it counts for nothing."""
    agreement = four.agreement("m2", tmp_path, [])
    agreement.propose(frozenset({"m3"}))
    agreement.freeze(4)
    agreement.hear("m3", four.frame(1, ["m0"], {"m3": 4}))
    assert agreement.pending == (1, frozenset({"m3"}))
    agreement.hear("m1", four.frame(1, ["m3"], {"m0": 4, "m1": 4}))
    found = agreement.decided()
    assert found is not None
    assert (found.view, found.absent, found.losses) == (1, frozenset({"m3"}), 1)


def test_votes_are_not_void_as_long_as_one_set_may_be_decided(four: Five, tmp_path: Path) -> None:
    """m1 hears that m2 wants to go on without it, which m0 and m3 may still sign."""
    agreement = four.agreement("m1", tmp_path, [])
    agreement.propose(frozenset({"m3"}))
    agreement.freeze(4)
    agreement.hear("m2", four.frame(1, ["m1"], {"m2": 4}))
    assert agreement.pending == (1, frozenset({"m3"}))
    agreement.hear("m0", four.frame(1, ["m3"], {"m0": 4}))
    assert agreement.pending == (2, frozenset())
    assert agreement.silent() == {"m0", "m2", "m3"}


def used_up(four: Five, folder: Path) -> Agreement:
    """m0 in view 1 with all members, two losses behind it, and without the map."""
    agreement = four.agreement("m0", folder, [])
    agreement.judge_totals(lambda claim: claim.member == "m0")
    agreement.enact(Decision(1, frozenset(), 1, 2))
    agreement.enacted = -math.inf  # a while ago
    return agreement


def test_no_first_round_is_made_again_beyond_the_losses(four: Five, tmp_path: Path) -> None:
    """A liar asks for a view with the same members, which would make round 1 again."""
    agreement = used_up(four, tmp_path)
    for view in range(2, 60):
        agreement.hear("m1", four.frame(view, [], {"m1": 1}, frames.Stand(view=1)))
    assert agreement.phase is Phase.TAKING_PART
    # Somebody holds the map: nothing of round 1 is made again without it
    agreement.hear("m1", four.frame(60, [], {"m1": 1}, frames.Stand(MAP, MAP, 1)))
    assert agreement.phase is Phase.STOPPING


def test_who_leaves_by_an_amendment_can_be_left_out_beyond_the_losses(
    four: Five, tmp_path: Path
) -> None:
    agreement = used_up(four, tmp_path)
    agreement.left = frozenset({"m3"})
    agreement.hear("m1", four.frame(2, ["m3"], {"m1": 1}, frames.Stand(view=1)))
    assert agreement.pending == (2, frozenset({"m3"}))


def test_a_vote_to_leave_out_all_others_decides_nothing(four: Five, tmp_path: Path) -> None:
    """Else its signer would be the root of that view, and its totals would count."""
    agreement = four.agreement("m0", tmp_path, [])
    agreement.hear("m3", four.frame(1, ["m0", "m1", "m2"], {"m3": 1}))
    assert agreement.absent_in(1) is None
    other = four.agreement("m2", tmp_path, [])
    with pytest.raises(frames.BadFrame, match="too few"):
        other.hear("m3", four.frame(1, ["m0", "m1"], {"m3": 1}))
