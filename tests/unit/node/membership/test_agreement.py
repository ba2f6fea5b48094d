"""The agreement on who takes part: the same decision for all, in any order of messages, and no way
to be talked into nonsense."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from agreement_stage import Five, decided
from tacenda.errors import NetworkError
from tacenda_node.membership.agreement import MOST_IDLE, MOST_PROPOSALS, Phase
from tacenda_node.membership.decisions import Decision
from tacenda_node.protocol import frames


@pytest.mark.parametrize("seed", range(5))
def test_all_reach_the_same_decision_in_any_order(five: Five, tmp_path: Path, seed: int) -> None:
    """Ring m0..m4 without m4; messages between neighbours are delivered in random order."""
    rng, post = random.Random(seed), []
    made = {name: five.agreement(name, tmp_path, post) for name in ("m0", "m1", "m2", "m3")}
    stands = {"m0": 10, "m1": 11, "m2": 12, "m3": 10}
    made["m0"].propose(frozenset({"m4"}))
    made["m3"].propose(frozenset({"m4"}))
    frozen: set[str] = set()
    while post or len(frozen) < 4:
        for name, agreement in made.items():
            if (
                agreement.phase is not Phase.TAKING_PART
                and name not in frozen
                and rng.random() < 0.5
            ):
                frozen.add(name)
                agreement.freeze(stands[name])
        if post:
            sender, frame = post.pop(rng.randrange(len(post)))
            for peer in five.plan.contract.neighbours(sender):
                if peer in made:
                    made[peer].hear(sender, frames.decode(frames.encode(frame), 10**6))
    assert {decided(made[name]) for name in made} == {(1, frozenset({"m4"}), 12)}
    for agreement in made.values():
        agreement.enact(Decision(1, frozenset({"m4"}), 12))
        assert agreement.phase is Phase.TAKING_PART
        assert agreement.view == 1


def test_no_decision_without_the_signature_of_each_who_stays(five: Five, tmp_path: Path) -> None:
    """A member of the ring of five cannot vote for another one,
    nor pass off an older or a different vote."""
    agreement = five.agreement("m0", tmp_path, [])
    agreement.propose(frozenset({"m4"}))
    agreement.freeze(7)
    agreement.hear("m1", five.frame(1, ["m4"], {"m1": 5, "m2": 5}))
    assert agreement.decided() is None
    assert agreement.silent() == {"m3"}
    m1, m3 = five.people["m1"], five.people["m3"]
    for forged in (
        five.signed_stop(m1, 1, ["m4"], 6, name="m3"),  # another's signature
        five.signed_stop(m3, 2, ["m4"], 6),  # of another view
        five.signed_stop(m3, 1, ["m2"], 6),  # for another set
        frames.SignedStop(7, five.signed_stop(m3, 1, ["m4"], 6).signature),  # with another round
    ):
        with pytest.raises(frames.BadFrame, match="signature that is not m3's"):
            agreement.hear("m1", frames.Membership(1, ["m4"], {"m3": forged}))
    assert agreement.decided() is None
    agreement.hear("m1", five.frame(1, ["m4"], {"m3": 6}))
    assert decided(agreement) == (1, frozenset({"m4"}), 7)


def test_the_phases_of_a_member(five: Five, tmp_path: Path) -> None:
    """Every arrow of the diagram in `agreement`, in order."""
    agreement = five.agreement("m0", tmp_path, [])
    assert agreement.phase is Phase.TAKING_PART
    agreement.hear("m1", five.frame(1, ["m4"], {"m1": 5}))
    assert agreement.phase is Phase.STOPPING
    agreement.freeze(7)
    assert agreement.phase is Phase.VOTING
    agreement.hear("m1", five.frame(2, ["m3"], {"m1": 5}))
    assert agreement.phase is Phase.VOTING
    agreement.hear("m1", five.frame(2, ["m3"], {"m2": 5, "m4": 6}))
    assert decided(agreement) == (2, frozenset({"m3"}), 7)
    agreement.enact(Decision(2, frozenset({"m3"}), 7))
    assert agreement.phase is Phase.TAKING_PART
    agreement.returned({"m3"})
    assert agreement.phase is Phase.STOPPING
    agreement.freeze(9)
    agreement.hear("m1", five.frame(3, [], {"m1": 9, "m2": 9, "m3": 1, "m4": 9}))
    assert decided(agreement) == (3, frozenset(), 10)
    agreement.hear("m1", five.frame(4, ["m4"], {"m1": 10}))
    agreement.enact(Decision(3, frozenset(), 10))
    assert (agreement.phase, agreement.pending) == (Phase.STOPPING, (4, frozenset({"m4"})))
    agreement.hear("m1", five.frame(4, ["m3"], {"m1": 10}))
    assert agreement.phase is Phase.CONFLICT
    five.close()
    assert five.agreement("m0", tmp_path, []).phase is Phase.CONFLICT


def test_an_agreement_under_way_survives_a_restart(five: Five, tmp_path: Path) -> None:
    before: list[Any] = []
    agreement = five.agreement("m0", tmp_path, before)
    agreement.propose(frozenset({"m4"}))
    agreement.freeze(7)
    five.close()
    after: list[Any] = []
    again = five.agreement("m0", tmp_path, after)
    assert again.phase is Phase.VOTING
    again.freeze(3)  # the round it had announced stands
    assert after[-1] == before[-1]  # and so does the vote, to the last bit
    again.hear("m1", five.frame(1, ["m4"], {"m1": 5, "m2": 5, "m3": 6}))
    assert decided(again) == (1, frozenset({"m4"}), 7)


def test_a_restart_never_signs_another_set_for_the_same_view(five: Five, tmp_path: Path) -> None:
    """Also where only the vote itself had become durable before the kill, and another set is
    proposed after it."""
    agreement = five.agreement("m0", tmp_path, [])
    agreement.propose(frozenset({"m4"}))
    agreement.freeze(7)
    agreement._state.note("membership", {"here": None, "pending": None})
    five.close()
    post: list[Any] = []
    again = five.agreement("m0", tmp_path, post)
    again.hear("m1", five.frame(1, ["m3"], {"m1": 5}))
    again.freeze(8)
    mine = [frame for _, frame in post if "m0" in frame.votes]
    assert mine
    assert {(frame.view, tuple(frame.absent)) for frame in mine} == {(2, ("m3",))}
    again.check()


def test_a_vote_of_a_lost_state_is_taken_back(five: Five, tmp_path: Path) -> None:
    """m0 lost its disk in the middle of an agreement: a neighbour shows it what it had signed, and
    it signs nothing else."""
    post: list[Any] = []
    agreement = five.agreement("m0", tmp_path, post)
    agreement.hear("m1", five.frame(1, ["m4"], {"m0": 9, "m1": 5}))
    agreement.freeze(1)
    assert post[-1][1] == five.frame(1, ["m4"], {"m0": 9, "m1": 5})
    agreement.check()


def test_a_vote_of_a_lost_state_for_an_earlier_round_does_not_count_as_where_it_stands(
    five: Five, tmp_path: Path
) -> None:
    """m0 has come further since: it says so in the next view, and no round is released twice."""
    post: list[Any] = []
    agreement = five.agreement("m0", tmp_path, post)
    agreement.hear("m1", five.frame(1, ["m4"], {"m0": 9, "m1": 12}))
    agreement.freeze(13)
    assert post[-1][1] == five.frame(2, ["m4"], {"m0": 13})
    agreement.check()


def test_another_set_of_absent_members_needs_another_view(five: Five, tmp_path: Path) -> None:
    agreement = five.agreement("m1", tmp_path, [])
    agreement.propose(frozenset({"m4"}))
    agreement.hear("m2", five.frame(1, ["m3"], {"m2": 4}))
    agreement.freeze(4)
    agreement.hear("m2", five.frame(2, ["m3", "m4"], {"m2": 4, "m0": 5}))
    assert decided(agreement) == (2, frozenset({"m3", "m4"}), 5)


def test_a_proposal_heard_while_a_decision_is_enacted_waits_for_the_next_stop(
    five: Five, tmp_path: Path
) -> None:
    """The round signed for the later view is the one in which the member stops after the first,
    never the older one."""
    post: list[Any] = []
    agreement = five.agreement("m0", tmp_path, post)
    agreement.propose(frozenset({"m4"}))
    agreement.freeze(7)
    agreement.hear("m1", five.frame(1, ["m4"], {"m1": 5, "m2": 5, "m3": 6}))
    assert decided(agreement) == (1, frozenset({"m4"}), 7)
    agreement.hear("m1", five.frame(2, [], {"m1": 8}))
    agreement.enact(Decision(1, frozenset({"m4"}), 7))
    assert agreement.view == 1
    assert agreement.pending == (2, frozenset())
    assert not any(frame.view == 2 and "m0" in frame.votes for _, frame in post)
    agreement.freeze(8)
    votes = post[-1][1].votes
    assert {name: (vote.round, vote.stand.view) for name, vote in votes.items()} == {
        "m0": (8, 1),
        "m1": (8, 0),
    }


def test_nonsense_is_refused(five: Five, tmp_path: Path) -> None:
    agreement = five.agreement("m0", tmp_path, [])
    votes = five.frame(1, ["m4"], {"m1": 3}).votes
    for absent, who in ((["z"], "m1"), (["m4"], "m4"), (["m4"], "z")):
        with pytest.raises(frames.BadFrame, match="not in the contract"):
            agreement.hear("m1", frames.Membership(1, absent, {who: votes["m1"]}))
    with pytest.raises(frames.BadFrame, match="too few"):
        agreement.hear("m1", five.frame(1, ["m1", "m2", "m3"], {"m4": 1}))
    with pytest.raises(frames.BadFrame, match="no fault explains"):
        agreement.hear("m1", five.frame(MOST_PROPOSALS + 1, ["m4"], {"m1": 1}))
    agreement.hear("m1", five.frame(1, ["m0"], {"m1": 3}))
    assert agreement.phase is Phase.TAKING_PART
    with pytest.raises(NetworkError, match="not more than half"):
        agreement.propose(frozenset({"m1", "m2", "m3"}))
    with pytest.raises(NetworkError, match="cannot go on"):
        agreement.propose(frozenset({"m1", "m3"}))


def test_endless_proposals_are_cut_off(five: Five, tmp_path: Path) -> None:
    agreement = five.agreement("m0", tmp_path, [])
    for view in range(1, MOST_PROPOSALS + 1):
        agreement.hear("m1", five.frame(view, [["m4"], ["m3"]][view % 2], {"m1": 1}))
    with pytest.raises(frames.BadFrame, match="more proposals"):
        agreement.hear("m1", five.frame(MOST_PROPOSALS, ["m3"], {"m2": 1}))


def test_agreements_that_change_nobody_are_counted_over_restarts(
    five: Five, tmp_path: Path
) -> None:
    """Each skips a round. After three for each member nobody who takes part stops for another, nor
    for one that says somebody is back; a real loss is still agreed on."""
    most = MOST_IDLE * 5

    def asked(view: int, absent: list[str], names: str) -> frames.Membership:
        stand = frames.Stand(view=view - 1)
        return five.frame(view, absent, {f"m{k}": view for k in names}, stand=stand)

    m0 = five.agreement("m0", tmp_path, [])
    for view in range(1, most + 1):
        if view == most // 2:
            five.close()
            m0 = five.agreement("m0", tmp_path, [])
        m0.hear("m4", asked(view, [], "4"))
        assert m0.pending == (view, frozenset())
        m0.hear("m4", asked(view, [], "1234"))
        m0.freeze(view)
        found = m0.decided()
        assert found is not None and found.idle == view and found.next_round == view + 1
        m0.enact(found)
        m0.hear("m4", asked(view + 1, [], "4"))
        assert m0.pending is None, "too soon after the last one"
        m0.enacted = -math.inf
    five.close()
    m0 = five.agreement("m0", tmp_path, [])
    m0.hear("m4", asked(most + 1, [], "4"))
    assert m0.pending is None
    m0.hear("m1", asked(most + 1, ["m4"], "1"))
    assert m0.pending == (most + 1, frozenset({"m4"}))
    m0.hear("m1", asked(most + 1, ["m4"], "123"))
    m0.freeze(most + 1)
    found = m0.decided()
    assert found is not None and found.losses == 1 and found.idle == most
    m0.enact(found)
    m0.enacted = -math.inf
    m0.returned({"m4"})
    assert m0.pending is None


def test_a_vote_for_a_round_that_its_member_cannot_have_reached(five: Five, tmp_path: Path) -> None:
    """In a ring m2 is two steps from m0, so it can be two rounds ahead, and no more."""
    agreement = five.agreement("m0", tmp_path, [])
    agreement.round = lambda: 7
    agreement.propose(frozenset({"m4"}))
    agreement.freeze(7)
    agreement.hear("m1", five.frame(1, ["m4"], {"m1": 8, "m2": 10, "m3": 9}))
    assert agreement.silent() == {"m2"} and agreement.decided() is None
    agreement.hear("m1", five.frame(1, ["m4"], {"m2": 9}))
    assert decided(agreement) == (1, frozenset({"m4"}), 9)


def test_who_was_left_out_cannot_judge_how_far_the_others_are(five: Five, tmp_path: Path) -> None:
    agreement = five.agreement("m0", tmp_path, [])
    agreement.round = lambda: 1
    everybody = {"m1": 40, "m2": 41, "m3": 41, "m4": 40}
    agreement.hear("m1", five.frame(1, ["m0"], dict.fromkeys(everybody, 8)))
    agreement.hear("m1", five.frame(2, [], everybody, frames.Stand(view=1)))
    agreement.freeze(1)
    assert decided(agreement) == (2, frozenset(), 42)
