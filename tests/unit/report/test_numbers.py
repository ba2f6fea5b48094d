"""Numbers as the report shows them, against hand-written texts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.report import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.38376, "0.3838"),
        (12.0, "12"),
        (1234567, "1.23\u202f×\u202f10⁶"),
        (45678, "45\u202f678"),
        (1e-5, "10⁻⁵"),
        (3.6e-4, "3.6\u202f×\u202f10⁻⁴"),
        (9.9999e-6, "10⁻⁵"),
        (-0.5, "\u22120.5000"),
        (0, "0"),
        (math.inf, "∞"),
        (math.nan, "–"),
        (None, "–"),
    ],
)
def test_short(value: float | None, text: str) -> None:
    assert numbers.short(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (1.0000088, "1"),
        (0.25, "0.25"),
        (1.1051, "1.106"),
        (1.10500001, "1.105"),
        (28.371, "28.38"),
        (math.inf, "∞"),
        (0.0, "0"),
    ],
)
def test_epsilon_rounds_up(value: float, text: str) -> None:
    assert numbers.epsilon(value) == text


@given(st.floats(1e-3, 9e3))
def test_epsilon_never_flatters(value: float) -> None:
    assert value * (1 - 2e-5) <= float(numbers.epsilon(value)) <= value * 1.0011


def test_size_percent_seconds() -> None:
    assert numbers.size(999) == "999\u202fB"
    assert numbers.size(5_376_000) == "5.38\u202fMB"
    assert numbers.percent(0.55345) == "55.3\u202f%"
    assert numbers.seconds(150) == "2.5\u202fmin"
    assert numbers.spread(np.array([0.5, 0.7]), percentage=True) == (
        "60.0\u202f%",
        "50.0\u202f% – 70.0\u202f%",
    )
    assert numbers.spread(np.array([2.0])) == ("2", "")


def test_settings_in_words() -> None:
    assert (
        numbers.setting({"schedule": "geometric", "first": 1.0, "factor": 1.01})
        == "geometric (first 1, factor 1.01)"
    )
    assert numbers.setting(list(range(9))) == "0, 1, 2, 3, 4, 5, … (9 values)"
    assert numbers.setting(None) == "not set"
