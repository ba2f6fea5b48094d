"""Faults at precise moments after the members have agreed to go on without one: nobody sends with
less noise than that view needs, nobody spends more than was reserved, and one model comes out."""

from __future__ import annotations

from pathlib import Path

import pytest

from losses_stage import changed_views, check_the_rest, contract_of, live_until
from node_stage import Crowd


@pytest.mark.parametrize(
    ("whitened", "sent"),
    [
        (False, True),
        pytest.param(False, False, marks=pytest.mark.slow),
        pytest.param(True, True, marks=pytest.mark.slow),
    ],
)
def test_a_survivor_that_is_killed_goes_on_in_the_view_without_the_lost_one(
    tmp_path: Path, whitened: bool, sent: bool
) -> None:
    """m3 is lost in round 2; in round 4 of the view without it m1 loses power and is started again:
    it stands in that view, with that view's masks, and nobody has to agree on another."""
    crowd = Crowd(tmp_path, contract_of(rounds=6, limit=8.0, whitened=whitened))
    crowd.keep_own_signatures()
    rest = ["m0", "m1", "m2"]
    try:
        crowd.start("m0", "m2")
        crowd.start_as("m1", live_until, 4, 2, sent, 1)
        crowd.start_as("m3", live_until, 2, 2, False)
        assert crowd.wait(120, ["m1", "m3"]) == {"m1": 9, "m3": 9}, crowd.output("m1")
        crowd.start("m1")
        codes = crowd.wait(120, rest)
    finally:
        crowd.stop()
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in rest}
    assert {name: changed_views(crowd, name) for name in rest} == {name: [1] for name in rest}
    check_the_rest(crowd, rest, 6)
