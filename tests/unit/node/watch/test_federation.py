"""All members on one page: what follows from signs of life that are right, late or missing."""

from __future__ import annotations

import time
from typing import Any

import pytest

from node_stage import small_contract
from tacenda_node.protocol import frames
from tacenda_node.protocol.lives import Heard
from tacenda_node.watch.federation import CLOCK_SECONDS, LATE, members, roots
from tacenda_node.watch.status import MemberStatus

NONE = "A" * 86 + "=="


def sign(name: str, round: int = 5, ago: float = 1.0, ahead: float = 0.0, **more: Any) -> Heard:
    waits = [frames.Wanted(to, state, 20) for to, state in more.pop("waits", {}).items()]
    wall = time.time() - ago
    plain = {"view": 0, "state": "waiting" if waits else "running", "disk": 0, "left": None}
    plain |= more
    life = frames.Life(
        name, 1, int(wall + ahead), "1", plain["view"], round, plain["state"], waits,
        plain["disk"], plain["left"], NONE,
    )  # fmt: skip
    return Heard(life, time.monotonic() - ago, wall)


def seen(*heard: Heard, absent: tuple[str, ...] = (), n: int = 5) -> dict[str, MemberStatus]:
    contract = small_contract(n, rounds=9)
    found = members(contract, "m0", {one.life.member: one for one in heard}, [], absent)
    assert [one.name for one in found] == list(contract.names)
    return {one.name: one for one in found}


def test_the_member_at_the_end_of_all_waits_is_at_the_root() -> None:
    found = seen(
        sign("m0", waits={"m1": "computing"}),
        sign("m1", waits={"m2": "computing"}),
        sign("m2", 2, ago=40.0),
        sign("m3", waits={"m2": "away"}),
        sign("m4", waits={"m0": "computing", "m3": "computing"}),
    )
    (root,) = roots(list(found.values()))
    assert (root.member, root.state, root.holds_up) == ("m2", "away", ["m0", "m1", "m3", "m4"])
    assert root.words == "m2 (away, last heard 40 s ago) holds up m0, m1, m3, m4"
    assert found["m4"].waits_for == ["m0", "m3"] and found["m4"].waits_seconds > 20
    assert [found[name].rounds_behind for name in found] == [0, 0, 3, 0, 0]


def test_a_circle_and_a_quiet_federation_have_no_root() -> None:
    quiet = seen(*(sign(f"m{k}") for k in range(5)))
    assert roots(list(quiet.values())) == []
    circle = [sign(f"m{k}", waits={f"m{(k + 1) % 5}": "computing"}) for k in range(5)]
    assert roots(list(seen(*circle).values())) == []


def test_two_roots_the_one_with_more_behind_it_first() -> None:
    found = seen(
        sign("m0", waits={"m1": "computing"}),
        sign("m2", waits={"m1": "computing"}),
        sign("m1"),
        sign("m3", waits={"m4": "paused"}),
        sign("m4", state="paused"),
    )
    assert [(r.member, r.state, len(r.holds_up)) for r in roots(list(found.values()))] == [
        ("m1", "running", 2),
        ("m4", "paused", 1),
    ]


def test_who_is_not_heard_of_any_more() -> None:
    """What it last said of its own waits counts no longer, and so it can be at the root."""
    found = seen(
        sign("m0", waits={"m1": "computing"}),
        sign("m1", ago=LATE + 5, waits={"m0": "computing"}),
        sign("m2", ago=LATE + 5, state="finished"),
        absent=("m3",),
    )
    states = [found[name].state for name in found]
    assert states == ["waiting", "no news", "finished", "left out", "not heard of"]
    assert found["m1"].waits_for == [] and found["m4"].heard_seconds is None
    assert [root.member for root in roots(list(found.values()))] == ["m1"]


def test_whose_signature_is_missing_holds_up_the_others_until_its_own_word_comes() -> None:
    waiting = [sign(f"m{k}", 0, state="waiting", waits={"m4": "not signed"}) for k in range(3)]
    found = seen(*waiting)
    assert [found[name].state for name in ("m2", "m3", "m4")] == [
        "waiting",
        "not heard of",
        "not signed",
    ]
    (root,) = roots(list(found.values()))
    assert root.words == "m4 (not signed) holds up m0, m1, m2"
    heard = seen(*waiting, sign("m4", 0, state="starting"))  # its signature is on the way
    assert heard["m4"].state == "starting"


@pytest.mark.parametrize(("ahead", "told"), [(0, 0), (-60, 0), (900, 900), (-900, -900)])
def test_a_clock_is_told_where_the_way_does_not_explain_it(ahead: float, told: float) -> None:
    assert abs(told) in (0, 900) and CLOCK_SECONDS < 900
    found = seen(sign("m1", ahead=ahead))["m1"]
    assert found.clock_seconds == pytest.approx(told, abs=2)


def test_what_is_left_and_what_is_not_told() -> None:
    found = seen(sign("m1", left=2500, disk=10**9), sign("m2"))
    assert (found["m1"].epsilon_left, found["m1"].disk_free_bytes) == (2.5, 10**9)
    assert (found["m2"].epsilon_left, found["m2"].disk_free_bytes) == (None, None)
