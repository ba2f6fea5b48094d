"""What votes say of totals and losses: the map that all go by, who lacks it, and that no more
members are left out than the contract pays for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agreement_stage import Five
from tacenda.errors import NetworkError
from tacenda_node.membership.agreement import Agreement, Phase
from tacenda_node.membership.decisions import Decision
from tacenda_node.protocol import frames
from tacenda_node.protocol.signed_rows import digest, row_text

WHITENED = {
    "algorithm": {"name": "treegd"},
    "prepare": {"name": "whitening"},
    "privacy": {"epsilon": 5.0, "delta": 1e-5, "coalition": 1},
    "graph": "complete",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Five:
    return Five(tmp_path_factory.mktemp("whitened"), absence={"losses": 2}, **WHITENED)


def total(
    five: Five, root: str, turn: int, call: int, value: float = 1.0, view: int = 0
) -> frames.Total:
    frame = frames.rows_frame(view, turn, call, np.full((1, 4), value))
    claim = frames.Claim(root, view, turn, call, digest(frame), "")
    signature = five.people[root].sign_text(row_text(five.plan.contract.run_id(), claim))
    claim = frames.replaced(claim, signature=signature)
    return frames.Total(claim, frame.dtype, frame.shape, frame.data)


def stopped(
    five: Five, folder: Path, absent: set[str], turn: int, holds: Any = (None, None)
) -> Agreement:
    """m0, which has proposed to leave these out and has voted."""
    agreement = five.agreement("m0", folder, [])
    agreement.judge_totals(lambda claim: claim.member == "m0")
    agreement.holds = lambda: holds
    agreement.propose(frozenset(absent))
    agreement.freeze(turn)
    return agreement


def test_nobody_holds_the_map_and_round_one_is_made_again(five: Five, tmp_path: Path) -> None:
    agreement = stopped(five, tmp_path, {"m4"}, 1)
    agreement.hear("m1", five.frame(1, ["m4"], {"m1": 1, "m2": 1, "m3": 1}))
    found = agreement.decided()
    assert found is not None
    assert (found.next_round, found.map, found.losses, found.lacking) == (1, None, 1, False)


def test_one_holds_the_map_and_all_go_by_it(five: Five, tmp_path: Path) -> None:
    known = total(five, "m0", 1, 2).claim
    agreement = stopped(five, tmp_path, {"m4"}, 1)
    agreement.hear("m1", five.frame(1, ["m4"], {"m1": 1, "m3": 1}))
    agreement.hear("m2", five.frame(1, ["m4"], {"m2": 1}, frames.Stand(known, known)))
    found = agreement.decided()
    assert found is not None
    assert (found.map, found.lasts) == (known, (known,))
    assert found.lacking
    assert found.next_round == 1  # made again, with the map


def test_the_latest_totals_are_what_all_must_hold(five: Five, tmp_path: Path) -> None:
    moment, before, latest = (total(five, "m0", *place).claim for place in ((1, 2), (6, 3), (7, 3)))
    agreement = stopped(five, tmp_path, {"m4"}, 7, (moment, before))
    ahead = frames.Stand(moment, latest)
    agreement.hear("m1", five.frame(1, ["m4"], {"m1": 8, "m2": 8, "m3": 8}, ahead))
    found = agreement.decided()
    assert found is not None
    assert (found.lasts, found.map, found.next_round) == ((before, latest), moment, 8)
    assert found.lacking


def test_a_total_in_a_vote_is_signed_with_its_place(five: Five, tmp_path: Path) -> None:
    """A root that signs the same bytes for another round cannot put them into another's vote, where
    they would not be asked for."""
    true, moved = (total(five, "m0", *place).claim for place in ((7, 3), (8, 3)))
    assert true.digest == moved.digest
    agreement = stopped(five, tmp_path, {"m4"}, 7)
    told = five.frame(1, ["m4"], {"m1": 8}, frames.Stand(None, true))
    vote = frames.replaced(told.votes["m1"], stand=frames.Stand(None, moved))
    with pytest.raises(frames.BadFrame, match="a signature that is not m1's"):
        agreement.hear("m2", frames.replaced(told, votes={"m1": vote}))


def test_a_total_that_the_root_has_not_signed_counts_for_nothing(
    five: Five, tmp_path: Path
) -> None:
    agreement = stopped(five, tmp_path, {"m4"}, 1)
    false = frames.Stand(total(five, "m2", 1, 2).claim)
    with pytest.raises(frames.BadFrame, match="a total that no root has signed"):
        agreement.hear("m2", five.frame(1, ["m4"], {"m2": 1}, false))
    agreement.judge_totals(lambda claim: None)  # of a view that was not shown yet
    agreement.hear("m2", five.frame(1, ["m4"], {"m2": 1}, false))
    assert "m2" in agreement.silent()


def test_of_two_maps_of_one_root_all_use_the_same(five: Five, tmp_path: Path) -> None:
    one, other = (total(five, "m0", 1, 2, value).claim for value in (1.0, 2.0))
    agreement = stopped(five, tmp_path, {"m4"}, 2, (one, one))
    agreement.hear("m1", five.frame(1, ["m4"], {"m1": 2, "m3": 2}, frames.Stand(one, one)))
    agreement.hear("m2", five.frame(1, ["m4"], {"m2": 2}, frames.Stand(other, other)))
    found = agreement.decided()
    assert found is not None
    assert (found.map, found.lasts, found.lacking) == (one, (one,), True), "which most hold"


def test_no_more_losses_than_are_paid_for(five: Five, tmp_path: Path) -> None:
    """The second loss is absorbed too; then nobody can be left out, whoever proposes it, but by an
    amendment."""
    known = total(five, "m0", 1, 2).claim
    agreement = stopped(five, tmp_path, {"m4"}, 5, (known, known))
    others, losses = dict.fromkeys(("m1", "m2", "m3"), 5), []
    for view, absent in enumerate(([], ["m4"], [], ["m4"])):
        if view > 0:
            agreement.propose(frozenset(absent))
            agreement.freeze(5)
            stand = frames.Stand(known, known, view - 1)
            agreement.hear("m1", five.frame(view, absent, others, stand))
            if not absent:  # m4 is back, and knows of nothing
                agreement.hear("m4", five.frame(view, absent, {"m4": 1}))
            found = agreement.decided()
            assert found is not None
            losses.append(found.losses)
            agreement.enact(found)
    assert losses == [1, 1, 2]
    assert found.next_round == 5
    assert not agreement.can_lose(frozenset({"m3", "m4"}))
    with pytest.raises(NetworkError, match=r"pays for 2 losses \(absence\.losses\)"):
        agreement.propose(frozenset({"m3", "m4"}))
    agreement.hear("m1", five.frame(4, ["m3", "m4"], {"m1": 6}, frames.Stand(known, known, 3)))
    assert agreement.phase is Phase.TAKING_PART
    again = five.agreement("m0", tmp_path / "x", [])
    assert again.losses == 0
    five.close()
    assert five.agreement("m0", tmp_path, []).losses == 2  # also after a restart
    agreement.left = frozenset({"m3"})
    assert agreement.can_lose(frozenset({"m3", "m4"}))


def test_who_returns_waits_for_the_map_and_makes_nobody_repeat_a_round(
    five: Five, tmp_path: Path
) -> None:
    known = total(five, "m0", 1, 2, view=1).claim
    agreement = stopped(five, tmp_path, {"m4"}, 1)
    agreement.hear("m1", five.frame(1, ["m4"], {"m1": 1, "m2": 1, "m3": 1}))
    agreement.enact(Decision(1, frozenset({"m4"}), 1, 1, since=1))
    agreement.returned({"m4"})
    assert agreement.phase is Phase.TAKING_PART
    agreement.holds = lambda: (known, known)
    agreement.returned({"m4"})
    agreement.freeze(3)
    back = frames.Stand(known, known, 1)
    agreement.hear("m1", five.frame(2, [], dict.fromkeys(("m1", "m2", "m3"), 3), back))
    agreement.hear("m4", five.frame(2, [], {"m4": 1}, frames.Stand()))
    found = agreement.decided()
    assert found is not None
    assert (found.absent, found.next_round, found.losses) == (frozenset(), 4, 1)
    assert found.map == known
    assert found.lacking


def test_a_member_that_was_away_is_shown_the_views_that_it_missed(
    five: Five, tmp_path: Path
) -> None:
    """Who was the root of a view follows from who took part, which all of them have signed."""
    agreement = stopped(five, tmp_path, {"m4"}, 1)
    agreement.hear("m1", five.frame(1, ["m4"], {"m1": 1, "m2": 1, "m3": 1}))
    agreement.enact(Decision(1, frozenset({"m4"}), 1, 1, since=1))
    shown = agreement.greeting(0)
    assert [frame.view for frame in shown] == [1]
    late = five.agreement("m4", tmp_path, [])
    assert late.absent_in(1) is None
    for frame in shown:
        late.hear("m0", frame)
    assert late.absent_in(1) == frozenset({"m4"})
    assert late.absent_in(0) == frozenset()


def test_a_map_from_before_round_one_was_made_again_is_void(five: Five, tmp_path: Path) -> None:
    """m4 had a map that nobody else knew; the others have made theirs in view 1."""
    old, new = total(five, "m0", 1, 2, 2.0).claim, total(five, "m0", 1, 2, view=1).claim
    agreement = stopped(five, tmp_path, {"m4"}, 1)
    agreement.hear("m1", five.frame(1, ["m4"], {"m1": 1, "m2": 1, "m3": 1}))
    assert agreement.decided() is not None
    agreement.enact(Decision(1, frozenset({"m4"}), 1, 1, since=1))
    agreement.holds = lambda: (new, new)
    agreement.returned({"m4"})
    agreement.freeze(3)
    mine = frames.Stand(new, new, 1)
    agreement.hear("m1", five.frame(2, [], dict.fromkeys(("m1", "m2", "m3"), 3), mine))
    agreement.hear("m4", five.frame(2, [], {"m4": 1}, frames.Stand(old, old)))
    found = agreement.decided()
    assert found is not None
    assert (found.map, found.next_round, found.lacking) == (new, 4, True)
    assert agreement.holders(found, new) == {"m0", "m1", "m2", "m3"}
    assert agreement.holders(found, old) == {"m4"}
