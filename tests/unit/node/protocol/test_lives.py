"""Signed signs of life: only their owner makes them, the latest counts, and no neighbour can fill
the others' time with them."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from node_stage import signed_contract, small_contract
from tacenda_node.protocol import frames, lives
from tacenda_node.protocol.lives import BURST, LIFE_SECONDS, Health, Lives, life_text, rounded


class Town:
    """Three members on a path, m0 - m1 - m2, without a network."""

    def __init__(self, folder: Path) -> None:
        contract = small_contract(3, rounds=9, graph="path")
        self.contract, self.people = signed_contract(contract, folder / "keys")
        self.lives = {name: self.begin(name) for name in self.contract.names}

    def begin(self, name: str) -> Lives:
        return Lives(self.contract, name, self.people[name].signer())

    def tell(self, name: str, round: int = 3, **more: Any) -> frames.Life:
        wanted = more.pop("waits", [])
        self.lives[name].tell(Health("running", 123_456_789, **more), 0, round, wanted, "0.1.0")
        return self.lives[name].heard()[name].life

    def pass_on(self, giver: str, taker: str) -> bool:
        """Through the wire's own bytes."""
        due = self.lives[giver].due(taker)
        if due is None:
            return False
        frame = frames.decode(frames.encode(due), 1 << 16)
        assert isinstance(frame, frames.Lives)
        return self.lives[taker].take(giver, frame)


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path)


def test_news_of_a_far_member_comes_by_the_one_between(town: Town) -> None:
    wait = frames.Wanted("m1", "away", 12)
    told = town.tell("m2", 4, epsilon_left=1.2345, waits=[wait])
    assert (told.disk, told.left, told.waits) == (120_000_000, 1234, [wait])
    assert town.pass_on("m2", "m1") and town.pass_on("m1", "m0")
    assert town.lives["m0"].heard()["m2"].life == told
    assert not town.pass_on("m1", "m0"), "said once"
    assert town.lives["m1"].due("m2") is None, "never back to who has said it"
    town.lives["m1"].met("m0")  # a new conversation: the one before may have broken on the way
    assert not town.pass_on("m1", "m0"), "known there"
    town.tell("m2", 5)
    town.pass_on("m2", "m1"), town.pass_on("m1", "m0")
    assert town.lives["m0"].heard()["m2"].life.round == 5


def test_the_signature_is_over_every_field(town: Town) -> None:
    told = town.tell("m2", epsilon_left=3.0, waits=[frames.Wanted("m1", "computing", 3)])
    key = base64.b64decode(town.contract.member("m2").signing_key)
    text = life_text(town.contract.run_id(), told)
    Ed25519PublicKey.from_public_bytes(key).verify(base64.b64decode(told.signature), text)
    changed = {
        "member": "m1", "number": told.number + 1, "at": told.at + 1, "version": "9", "view": 1,
        "round": 8, "state": "finished", "waits": [], "disk": 1, "left": None,
    }  # fmt: skip
    assert changed.keys() == set(told.__struct_fields__) - {"signature"}
    for name, value in changed.items():
        false = frames.replaced(told, **{name: value})
        with pytest.raises(frames.BadFrame, match="not m[12]'s"):
            town.begin("m0").take("m1", frames.Lives([false]))
    for false in (
        frames.replaced(told, member="m9"),
        frames.replaced(told, waits=[frames.Wanted("m9", "away", 3)]),
    ):
        with pytest.raises(frames.BadFrame, match="sign of life"):
            town.begin("m0").take("m1", frames.Lives([false]))


def test_of_another_run_it_does_not_count(town: Town, tmp_path: Path) -> None:
    other = Town(tmp_path / "other")
    other.people = town.people
    with pytest.raises(frames.BadFrame, match="not m2's"):
        town.lives["m1"].take("m2", frames.Lives([other.tell("m2")]))


def test_an_older_one_changes_nothing(town: Town) -> None:
    first, second = town.tell("m2", 3), town.tell("m2", 4)
    assert second.number > first.number
    town.lives["m1"].take("m2", frames.Lives([second]))
    assert not town.lives["m1"].take("m2", frames.Lives([first]))
    assert town.lives["m1"].heard()["m2"].life == second


def test_who_is_started_again_with_an_earlier_clock_is_heard_all_the_same(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = town.tell("m2", 7)
    assert town.pass_on("m2", "m1")
    monkeypatch.setattr(lives.time, "time", lambda: 1e9)  # years ago
    town.lives["m2"] = town.begin("m2")
    assert town.tell("m2", 8).number < before.number
    assert not town.pass_on("m2", "m1")
    town.lives["m1"].met("m2")
    town.lives["m2"].take("m1", frames.Lives([before]))  # what the others show it of itself
    assert town.tell("m2", 8).number == before.number + 1
    assert town.pass_on("m2", "m1")


def test_a_neighbour_that_sends_too_many_is_not_listened_to(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = [town.pass_on("m2", "m1") for turn in range(BURST + 5) if town.tell("m2", turn)]
    assert heard == [True] * BURST + [False] * 5
    now = time.monotonic()
    monkeypatch.setattr(lives.time, "monotonic", lambda: now + LIFE_SECONDS)
    town.tell("m2", 9)
    assert town.pass_on("m2", "m1")


@pytest.mark.parametrize(
    ("free", "said"), [(0, 0), (7, 7), (99, 99), (123, 120), (987_654_321, 980_000_000)]
)
def test_free_space_is_said_to_two_digits(free: int, said: int) -> None:
    assert rounded(free) == said
