"""The declared sensitivity holds for every float: brute force over neighbouring data, hostile points, rows and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tacenda as tc
from hostile import HOSTILE, LOSSES, MOST, QUESTIONS, case_of, excess
from tacenda.errors import InputError

NEARBY = 1.0  # nothing may be above


def begun(*choices: int) -> st.SearchStrategy[bytes]:
    """Bytes that begin with these choices."""
    return st.binary(min_size=40, max_size=400).map(lambda rest: bytes(choices) + rest)


@pytest.mark.parametrize("question", range(len(QUESTIONS)), ids=QUESTIONS)
@pytest.mark.parametrize("loss", range(len(LOSSES)), ids=lambda k: f"{LOSSES[k][0]}{k}")
@settings(max_examples=20)
@given(data=st.data())
def test_no_float_moves_an_answer_beyond_its_declared_sensitivity(loss: int, question: int, data: Any) -> None:
    case = case_of(data.draw(begun(loss, question)))
    assert excess(case) <= NEARBY


@pytest.mark.slow
@settings(max_examples=3000)
@given(st.binary(min_size=40, max_size=500))
@example(b"")
def test_no_float_moves_any_answer(data: bytes) -> None:
    assert excess(case_of(data)) <= NEARBY
