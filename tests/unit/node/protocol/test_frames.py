"""Frames are checked field by field; the mailbox believes nothing that cannot be true."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_stage import anywhere
from tacenda.runtime.places import Form
from tacenda_node.protocol import frames
from tacenda_node.wire.mailbox import MOST_WAITING, Mailbox

ROWS = np.array([[1.0, -2.0, 3.5]])


def rows(turn: int = 1, call: int = 0, view: int = 0, values: np.ndarray = ROWS) -> frames.Rows:
    return frames.rows_frame(view, turn, call, values)


def test_rows_survive_the_wire_bit_for_bit() -> None:
    frame = rows(3, 2)
    data = frames.encode(frame)
    again = frames.decode(data, 1000)
    assert again == frame
    assert isinstance(again, frames.Rows)
    np.testing.assert_array_equal(frames.rows_of(again, 3, float, 1e9), ROWS)
    assert frames.encode(again) == data


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_or_are_a_frame(data: bytes) -> None:
    try:
        frame = frames.decode(data, 200)
    except frames.BadFrame:
        return
    assert frames.decode(frames.encode(frame), 1000) == frame


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_visible(place: int, value: int) -> None:
    data = bytearray(frames.encode(rows()))
    before = bytes(data)
    data[place % len(data)] = value
    try:
        frame = frames.decode(bytes(data), 1000)
        found = frames.rows_of(frame, 3, float, 1e9) if isinstance(frame, frames.Rows) else None
    except frames.BadFrame:
        return
    assert bytes(data) == before or found is None or frame != rows()


@pytest.mark.parametrize(
    "values",
    [
        np.array([[1.0, np.nan, 0.0]]),
        np.array([[np.inf, 0.0, 0.0]]),
        np.array([[1e9 * (1 + 1e-15), 0.0, 0.0]]),
        np.array([[0.0, 0.0, -1.7e308]]),
        np.zeros((1, 4)),
        np.zeros((2, 3)),
        np.zeros((1, 3), np.float32),
    ],
)
def test_rows_of_the_wrong_kind(values: np.ndarray) -> None:
    with pytest.raises(frames.BadFrame):
        frames.rows_of(rows(values=values), 3, float, 1e9)


def test_a_frame_whose_data_is_short() -> None:
    frame = frames.Rows(0, 1, 0, "f8", (1, 3), b"\0" * 23)
    with pytest.raises(frames.BadFrame, match="23 bytes"):
        frames.rows_of(frame, 3, float, 1e9)
    with pytest.raises(frames.BadFrame, match="above the limit"):
        frames.decode(b"\0" * 101, 100)


def test_the_mailbox_takes_in_any_order_and_once() -> None:
    box = Mailbox(["a", "b"], anywhere(3), 1e9)
    assert box.put("a", rows(1, 1))
    assert box.put("a", rows(1, 0))
    assert not box.put("a", rows(1, 0))
    found, missing = box.take((0, 1, 0), ["a", "b"], 0.0)
    assert list(found) == ["a"]
    assert missing == ["b"]


def test_lies_are_noticed() -> None:
    box = Mailbox(["a"], anywhere(3), 1e9)
    box.put("a", rows(1, 0))
    with pytest.raises(frames.BadFrame, match="two different messages"):
        box.put("a", rows(1, 0, values=ROWS + 1))
    with pytest.raises(frames.BadFrame, match="no member can have reached"):
        box.put("a", rows(3, 0))
    with pytest.raises(frames.BadFrame, match="no member can have reached"):
        box.put("a", rows(1, 0, view=101))
    for call in range(1, MOST_WAITING):
        box.put("a", rows(2, call))
    with pytest.raises(frames.BadFrame, match="more messages"):
        box.put("a", rows(2, MOST_WAITING))


def test_old_rounds_are_forgotten_and_not_taken_again() -> None:
    box = Mailbox(["a"], anywhere(3), 1e9)
    box.put("a", rows(1, 0))
    box.advance(0, 2)
    assert not box.put("a", rows(1, 0, values=ROWS + 1))
    assert box.take((0, 1, 0), ["a"], 0.0)[1] == ["a"]
    assert box.put("a", rows(3, 0))


def test_whole_numbers_travel_bit_for_bit_and_know_no_radius() -> None:
    values = np.array([[0, 2**64 - 1, 2**63]], np.uint64)
    frame = frames.decode(frames.encode(rows(values=values)), 1000)
    assert isinstance(frame, frames.Rows)
    found = frames.rows_of(frame, 3, np.uint64, 1e9)
    assert found.dtype == np.uint64 and np.array_equal(found, values)


def test_whole_numbers_and_floats_are_not_taken_for_each_other() -> None:
    """Both have eight bytes: read as the other kind, they would pass every other check."""
    with pytest.raises(frames.BadFrame, match="type u8, where"):
        frames.rows_of(rows(values=np.zeros((1, 3), np.uint64)), 3, float, 1e9)
    with pytest.raises(frames.BadFrame, match="type f8, where"):
        frames.rows_of(rows(), 3, np.uint64, 1e9)
    with pytest.raises(frames.BadFrame):
        frames.decode(frames.encode(frames.replaced(rows(), dtype="i8")), 1000)


def test_every_place_has_its_own_form() -> None:
    forms = {(1, 0): Form(3, np.dtype(float)), (1, 1): Form(2, np.dtype(np.uint64))}
    box = Mailbox(["a"], forms, 1e9)
    assert box.put("a", rows(1, 0))
    with pytest.raises(frames.BadFrame, match="uint64 are expected"):
        box.put("a", rows(1, 1))
    assert box.put("a", rows(1, 1, values=np.array([[7, 8]], np.uint64)))
    with pytest.raises(frames.BadFrame, match="round 1, call 2, in which the algorithm sends none"):
        box.put("a", rows(1, 2))
