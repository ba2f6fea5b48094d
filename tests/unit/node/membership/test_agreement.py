"""The agreement on who takes part: the same decision for all, in any order of messages, and no way to be talked into nonsense."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from council_stage import Five
from tacenda.errors import NetworkError
from tacenda.node.membership.agreement import MOST_PROPOSALS
from tacenda.node.protocol import wire


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Five:
    return Five(tmp_path_factory.mktemp("five"))


@pytest.fixture
def five(made: Five) -> Iterator[Five]:
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(5))
def test_all_reach_the_same_decision_in_any_order(five: Five, tmp_path: Path, seed: int) -> None:
    """Ring m0..m4 without m4; messages between neighbours are delivered in random order."""
    rng, post = random.Random(seed), []  # type: ignore[var-annotated]
    made = {name: five.council(name, tmp_path, post) for name in ("m0", "m1", "m2", "m3")}
    stands = {"m0": 10, "m1": 11, "m2": 12, "m3": 10}
    made["m0"].propose(frozenset({"m4"}))
    made["m3"].propose(frozenset({"m4"}))
    frozen: set[str] = set()
    while post or len(frozen) < 4:
        for name, council in made.items():
            if council.asked and name not in frozen and rng.random() < 0.5:
                frozen.add(name)
                council.freeze(stands[name])
        if post:
            sender, frame = post.pop(rng.randrange(len(post)))
            for peer in five.plan.contract.neighbours(sender):
                if peer in made:
                    made[peer].hear(sender, wire.decode(wire.encode(frame), 10**6))  # type: ignore[arg-type]
    assert {made[name].decided() for name in made} == {(1, frozenset({"m4"}), 13)}
    for council in made.values():
        council.enact(1, frozenset({"m4"}))
        assert not council.asked
        assert council.epoch == 1


def test_no_decision_without_the_signature_of_each_who_stays(five: Five, tmp_path: Path) -> None:
    """A member of the ring of five cannot vote for another one, nor pass off an older or a different vote."""
    council = five.council("m0", tmp_path, [])
    council.propose(frozenset({"m4"}))
    council.freeze(7)
    council.hear("m1", five.frame(1, ["m4"], {"m1": 5, "m2": 5}))
    assert council.decided() is None
    assert council.silent() == {"m3"}
    m1, m3 = five.people["m1"], five.people["m3"]
    for forged in (
        five.stand(m1, 1, ["m4"], 6, name="m3"),  # another's signature
        five.stand(m3, 2, ["m4"], 6),  # of another epoch
        five.stand(m3, 1, ["m2"], 6),  # for another set
        wire.Stand(7, five.stand(m3, 1, ["m4"], 6).signature),  # with another round
    ):
        with pytest.raises(wire.BadFrame, match="signature that is not m3's"):
            council.hear("m1", wire.Membership(1, ["m4"], {"m3": forged}))
    assert council.decided() is None
    council.hear("m1", five.frame(1, ["m4"], {"m3": 6}))
    assert council.decided() == (1, frozenset({"m4"}), 8)


def test_an_agreement_under_way_survives_a_restart(five: Five, tmp_path: Path) -> None:
    before: list[Any] = []
    council = five.council("m0", tmp_path, before)
    council.propose(frozenset({"m4"}))
    council.freeze(7)
    five.close()
    after: list[Any] = []
    again = five.council("m0", tmp_path, after)
    assert again.asked
    again.freeze(3)  # the round it had announced stands
    assert after[-1] == before[-1]  # and so does the vote, to the last bit
    again.hear("m1", five.frame(1, ["m4"], {"m1": 5, "m2": 5, "m3": 6}))
    assert again.decided() == (1, frozenset({"m4"}), 8)


def test_a_restart_never_signs_another_set_for_the_same_epoch(five: Five, tmp_path: Path) -> None:
    """Also where only the vote itself had become durable before the kill, and another set is proposed after it."""
    council = five.council("m0", tmp_path, [])
    council.propose(frozenset({"m4"}))
    council.freeze(7)
    council._state.note("membership", {"epoch": 0, "absent": [], "pending": None})
    five.close()
    post: list[Any] = []
    again = five.council("m0", tmp_path, post)
    again.hear("m1", five.frame(1, ["m3"], {"m1": 5}))
    again.freeze(8)
    mine = [frame for _, frame in post if "m0" in frame.votes]
    assert mine
    assert {(frame.epoch, tuple(frame.absent)) for frame in mine} == {(2, ("m3",))}
    again.check()


def test_a_vote_of_a_lost_state_is_taken_back(five: Five, tmp_path: Path) -> None:
    """m0 lost its disk in the middle of an agreement: a neighbour shows it what it had signed, and it signs nothing else."""
    post: list[Any] = []
    council = five.council("m0", tmp_path, post)
    council.hear("m1", five.frame(1, ["m4"], {"m0": 9, "m1": 5}))
    council.freeze(1)
    assert post[-1][1] == five.frame(1, ["m4"], {"m0": 9, "m1": 5})
    council.check()


def test_a_vote_of_a_lost_state_for_an_earlier_round_does_not_count_as_where_it_stands(five: Five, tmp_path: Path) -> None:
    """m0 has come further since: it says so in the next epoch, and no round is released twice."""
    post: list[Any] = []
    council = five.council("m0", tmp_path, post)
    council.hear("m1", five.frame(1, ["m4"], {"m0": 9, "m1": 12}))
    council.freeze(13)
    assert post[-1][1] == five.frame(2, ["m4"], {"m0": 13})
    council.check()


def test_another_set_of_absent_members_needs_another_epoch(five: Five, tmp_path: Path) -> None:
    council = five.council("m1", tmp_path, [])
    council.propose(frozenset({"m4"}))
    council.hear("m2", five.frame(1, ["m3"], {"m2": 4}))
    council.freeze(4)
    council.hear("m2", five.frame(2, ["m3", "m4"], {"m2": 4, "m0": 5}))
    assert council.decided() == (2, frozenset({"m3", "m4"}), 6)


def test_a_proposal_heard_while_a_decision_is_enacted_waits_for_the_next_stop(five: Five, tmp_path: Path) -> None:
    """The round signed for the later epoch is the one in which the member stops after the first, never the older one."""
    post: list[Any] = []
    council = five.council("m0", tmp_path, post)
    council.propose(frozenset({"m4"}))
    council.freeze(7)
    council.hear("m1", five.frame(1, ["m4"], {"m1": 5, "m2": 5, "m3": 6}))
    assert council.decided() == (1, frozenset({"m4"}), 8)
    council.hear("m1", five.frame(2, [], {"m1": 8}))
    council.enact(1, frozenset({"m4"}))
    assert council.epoch == 1
    assert council.agenda == (2, frozenset())
    assert not any(frame.epoch == 2 and "m0" in frame.votes for _, frame in post)
    council.freeze(8)
    assert post[-1][1] == five.frame(2, [], {"m0": 8, "m1": 8})


def test_nonsense_is_refused(five: Five, tmp_path: Path) -> None:
    council = five.council("m0", tmp_path, [])
    votes = five.frame(1, ["m4"], {"m1": 3}).votes
    for absent, who in ((["z"], "m1"), (["m4"], "m4"), (["m4"], "z")):
        with pytest.raises(wire.BadFrame, match="not in the contract"):
            council.hear("m1", wire.Membership(1, absent, {who: votes["m1"]}))
    with pytest.raises(wire.BadFrame, match="too few"):
        council.hear("m1", five.frame(1, ["m1", "m2", "m3"], {"m4": 1}))
    with pytest.raises(wire.BadFrame, match="no fault explains"):
        council.hear("m1", five.frame(MOST_PROPOSALS + 1, ["m4"], {"m1": 1}))
    council.hear("m1", five.frame(1, ["m0"], {"m1": 3}))
    assert not council.asked
    with pytest.raises(NetworkError, match="not more than half"):
        council.propose(frozenset({"m1", "m2", "m3"}))
    with pytest.raises(NetworkError, match="cannot go on"):
        council.propose(frozenset({"m1", "m3"}))


def test_endless_proposals_are_cut_off(five: Five, tmp_path: Path) -> None:
    council = five.council("m0", tmp_path, [])
    for epoch in range(1, MOST_PROPOSALS + 1):
        council.hear("m1", five.frame(epoch, [["m4"], ["m3"]][epoch % 2], {"m1": 1}))
    with pytest.raises(wire.BadFrame, match="more proposals"):
        council.hear("m1", five.frame(MOST_PROPOSALS, ["m3"], {"m2": 1}))
