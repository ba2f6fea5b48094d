"""The papers' headline settings against the specification's golden figures."""

from __future__ import annotations

import math

import pytest

from tacenda_papers.experiments import headline


def test_ipadmm_claims_one_and_has_three_quarters() -> None:
    half, one = headline._multistep()
    assert one.true == pytest.approx(0.751, abs=5e-4)
    assert half.true < half.claimed


def test_concentrated_totals() -> None:
    found = headline._concentrated()
    assert found.claimed == pytest.approx(31.46, abs=0.005)
    assert found.true == pytest.approx(28.37, abs=0.005)


def test_one_round_of_dvp_is_doubled_and_a_hundred_compose() -> None:
    found = headline._dual()
    assert found.claimed == pytest.approx(0.3)
    # 100 rounds of 2 alpha = 0.6 in 104 dimensions; as arbitrary pure rounds they would be 38.5
    assert found.true == pytest.approx(2.98, abs=0.01) and not found.exact


def test_the_closing_round_of_line_15_by_hand() -> None:
    """In the limit a record moves the unreleased iterate by 2c/(m r), so that the noise of rate
    (m/c) ah hides 2c/m + eta deg 2c/(m r): 2 ah (1 + eta deg/r), with eta deg/r = 20."""
    shape = {"size": 2261, "degree": 4, "strength": 0.1, "loss_scale": 146.0, "penalty": 0.5}
    curvature = math.log(1 + 0.25 * 146 / (2261 * 4.1))
    limit = 2 * (0.3 - 2 * curvature) * 21 + curvature
    assert headline.closing_round(0.3, 2000, **shape) == pytest.approx(limit, rel=1e-9)
    assert limit == pytest.approx(12.3, abs=0.05)
    assert headline.closing_round(0.3, 100, **shape) == pytest.approx(11.3, abs=0.05)
    # A first round is one of Algorithm 2: twice ah, as its line 5 has it
    first = 2 * (0.3 - 2 * curvature) + curvature
    assert headline.closing_round(0.3, 1, **shape) == pytest.approx(first, rel=1e-12)


def test_recycled_admm_is_sound_and_loose() -> None:
    found = headline._recycled()
    assert found.claimed == pytest.approx(8.0)
    assert found.true == pytest.approx(0.768, abs=0.001)


@pytest.mark.slow
def test_dual_averaging_claims_one_and_has_hundreds() -> None:
    replaced, removed = headline._dual_averaging()
    assert replaced.true == pytest.approx(1800, rel=0.02)
    assert removed.true == pytest.approx(392, abs=1.0)


@pytest.mark.slow
def test_the_table_has_a_row_for_every_paper() -> None:
    rows = headline.headlines()
    assert {h.paper for h in rows} == {
        "Huang and Gong (2020)",
        "Zhang et al. (2018)",
        "Liu et al. (2022)",
        "Zhang and Zhu (2016)",
        "Gauthier et al. (2020)",
    }
    text = headline.as_markdown(rows)
    assert text.count("\n") == len(rows) + 2
