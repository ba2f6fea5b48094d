"""Keys go one way: every later place from every earlier one, and nothing back."""

from __future__ import annotations

import random

import pytest

from tacenda.errors import StateError
from tacenda.privacy.noise.key_chain import MOST_STEPS, KeyChain

SECRET = bytes(range(32))
PLACES = [(view, round, call) for view in range(3) for round in range(4) for call in range(3)]


def test_every_way_to_a_place_gives_its_key_and_each_place_has_its_own() -> None:
    whole, choice = KeyChain.begin(SECRET), random.Random(1)
    keys = {place: whole.key(place) for place in PLACES}
    assert len(set(keys.values())) == len(PLACES)
    for _ in range(200):
        chain = whole
        for place in sorted(choice.sample(PLACES, 5)):  # views, rounds and calls are skipped
            assert chain.key(place) == keys[place]
            chain = KeyChain.from_bytes(chain.at(place).to_bytes())
            assert chain.place == place and chain == whole.at(place)
    assert KeyChain.begin(bytes(32)).key((0, 1, 0)) not in keys.values()


def test_a_place_that_was_passed_has_no_key_any_more() -> None:
    whole = KeyChain.begin(SECRET)
    for place in PLACES:
        behind = whole.behind(place)
        for other in PLACES:
            assert behind.has_passed(other) == (other <= place)
            if other <= place:
                with pytest.raises(StateError, match="has been overwritten; nothing was drawn"):
                    behind.key(other)
            else:
                assert behind.key(other) == whole.key(other)
        assert behind.behind(place) == behind
    # The charge of what a lost member had reserved names no call
    assert whole.behind((0, 2, -3)).place == (0, 2, 0)


def test_what_is_kept_makes_no_earlier_secret() -> None:
    """Three secrets are kept, and none of them is among those from which earlier keys follow."""
    whole = KeyChain.begin(SECRET)
    earlier: set[bytes] = {SECRET, whole.views, whole.rounds, whole.calls}
    for place in PLACES[1:]:
        now = whole.at(place)
        kept = {now.views, now.rounds, now.calls}
        fresh = kept - earlier
        assert now.calls in fresh
        earlier |= kept
    assert "secret" not in repr(whole) and SECRET.hex() not in repr(whole)


def test_a_number_that_no_run_has_is_refused_at_once() -> None:
    for place in ((MOST_STEPS + 1, 0, 0), (0, MOST_STEPS + 1, 0), (0, 0, MOST_STEPS + 1)):
        with pytest.raises(StateError, match="There is no round"):
            KeyChain.begin(SECRET).key(place)
    with pytest.raises(ValueError, match="not a chain"):
        KeyChain.from_bytes(bytes(119))
