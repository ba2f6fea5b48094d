"""Brent's root, against SciPy's to the bit and against values that are known."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from tacenda import accounting
from tacenda.privacy.accounting.roots import brent, least

numbers = st.floats(-50, 50)


SHAPES: list[Callable[[float], float]] = [
    lambda d: d,
    lambda d: d**3,
    math.expm1,
    lambda d: math.atan(20 * d),
    lambda d: d * abs(d) + 0.1 * d,
    lambda d: max(d, -1e-3),
    lambda d: math.sinh(d) - 0.5,
]
ENDS = st.floats(0.01, 20)


@given(numbers, ENDS, ENDS, st.sampled_from(SHAPES), st.sampled_from([1e-14, 1e-9]))
def test_the_same_bits_as_scipys(
    root: float, left: float, right: float, shape: Callable[[float], float], xtol: float
) -> None:
    def f(x: float) -> float:
        return shape(x - root)

    low, high = root - left, root + right
    if f(low) * f(high) > 0:
        return
    for rtol in (2**-50, 1e-13):
        theirs = brentq(f, low, high, xtol=xtol, rtol=rtol, disp=False)
        assert brent(f, low, high, xtol=xtol, rtol=rtol) == theirs


BOWLS: list[Callable[[float], float]] = [
    lambda d: d * d,
    lambda d: d**4 - d,
    abs,
    lambda d: math.cosh(d) + 0.3 * d,
    lambda d: math.sin(3 * d) + 0.1 * d * d,
    lambda d: max(d, -0.5 * d),
    lambda d: d,
    lambda d: 1.0,
]


@given(numbers, ENDS, ENDS, st.sampled_from(BOWLS), st.sampled_from([1e-5, 1e-9]))
def test_the_same_minimum_as_scipys(
    place: float, left: float, right: float, bowl: Callable[[float], float], xtol: float
) -> None:
    def f(x: float) -> float:
        return bowl(x - place)

    ends = place - left, place + right
    theirs = minimize_scalar(f, bounds=ends, method="bounded", options={"xatol": xtol})
    assert least(f, *ends, xtol) == theirs.fun


def test_known_roots() -> None:
    assert brent(math.cos, 1.0, 2.0, xtol=1e-15) == pytest.approx(math.pi / 2, abs=1e-15)
    assert brent(lambda x: x * x - 2, 0.0, 2.0, xtol=1e-15) == pytest.approx(
        math.sqrt(2), rel=1e-15
    )
    assert brent(lambda x: x, 0.0, 1.0, xtol=1e-9) == 0.0
    assert brent(lambda x: x, -1.0, 0.0, xtol=1e-9) == 0.0
    with pytest.raises(ValueError, match="change its sign"):
        brent(lambda x: 1 + x * x, -1.0, 1.0, xtol=1e-9)
    assert least(lambda x: (x - 1) ** 2 + 3, -2.0, 5.0) == pytest.approx(3.0, abs=1e-9)


BEFORE = {
    (1.0, 1e-05): 0.2680511232112406,
    (0.1, 1e-06): 0.027544650243822112,
    (8.0, 0.001): 2.0832736454592213,
    (0.01, 1e-09): 0.0021809846610438928,
    (30.0, 1e-12): 3.4810200765302532,
    (2.5, 0.01): 1.0578675412514542,
}


def test_noise_is_calibrated_as_before() -> None:
    """Values of the version that used SciPy's root, to the bit."""
    found = [accounting.gaussian_mu(e, d) for e, d in BEFORE]
    assert found == list(BEFORE.values())


def test_scipys_optimisers_are_not_loaded() -> None:
    code = (
        "import sys; from tacenda import accounting; accounting.gaussian_mu(1.0, 1e-5); "
        "print('scipy.optimize' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
    assert np.isfinite(accounting.gaussian_mu(1.0, 1e-5))
