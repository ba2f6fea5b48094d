"""Whatever a member sends, at any door: an answer, BadFrame or Refused. Never a StateError, and
memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostile_frames import Doors
from tacenda_node.protocol import frames


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    made = Doors(tmp_path_factory.mktemp("doors"))
    yield made
    made.close()


def test_the_frames_that_are_changed_pass_unchanged(doors: Doors) -> None:
    """Otherwise the fuzzer would only ever see the outermost check."""
    passed = {
        type(frame).__name__: doors.feed(bytes([1, k])) for k, frame in enumerate(doors.seeds)
    }
    assert passed["Hello"] == passed["Rows"] == passed["Progress"] == 1
    assert passed["Welcome"] == passed["Confirm"] == 1


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.binary(min_size=2, max_size=40))
def test_any_frame_at_any_door(doors: Doors, data: bytes) -> None:
    doors.feed(data)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=3000))
def test_words_are_printable_and_short(text: str) -> None:
    words = frames.printable(text)
    assert words.isprintable()
    assert len(words) <= 603
