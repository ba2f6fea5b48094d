"""The papers' slips that can be computed, by other means than the code that reports them."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import optimize, stats

from tacenda_papers.experiments import formulas


def test_every_statement_about_formulas_has_its_number() -> None:
    told = {f.claim: f for f in formulas.findings()}
    assert len(told) == len(formulas.findings())
    verdicts = {claim.partition(": ")[2]: f.holds for claim, f in told.items()}
    assert verdicts == {
        "without noise the bound (24) falls as 1/t": False,
        "the bound (24) falls with the number of inner steps": True,
        "the bound is of the order of the centralised one for a fixed number of nodes": True,
        "the bound is of the order of the centralised one however many nodes share the records": (
            False
        ),
        "there is a constant c0 for which the noise (20) is enough": True,
        "Theorem III.1 covers gamma up to 5, as in Figure 1": False,
        "half of the iterations are charged nothing": True,
        "the order of the utility loss is below those of three earlier methods": True,
    }


def test_the_orders_of_remark_1_of_002() -> None:
    """By hand: 2000 ln(100)/20000^2 against 2000, (2000 20^2)^(1/4) and 2000/sqrt(20)."""
    own, others = formulas.utility_orders(20, 20_000, 2000, 1.0, 0.01)
    assert own == pytest.approx(2.3026e-5, rel=1e-4)
    assert list(others.values()) == pytest.approx([2000.0, 29.907, 447.2136], rel=1e-4)
    ten_times = formulas.utility_orders(20, 200_000, 2000, 1.0, 0.01)
    assert ten_times[0] == pytest.approx(own / 100) and ten_times[1] == others


def test_without_noise_theorem_7_leaves_one_over_root_t() -> None:
    """(24) by hand: n (sqrt(2) D (c2/n)/sqrt(t l) + (rho deg D^2 + deg beta^2/rho)/t)."""

    def bound(t: float) -> float:
        first = math.sqrt(2) * 20 * 1.0 / math.sqrt(10 * t)
        return 100 * (first + (0.001 * 99 * 400 + 99 * 0.01**2 / 0.001) / t)

    assert formulas.noise_free_rate(10**6) == pytest.approx(
        math.log2(bound(2e6) / bound(1e6)), rel=1e-12
    )
    assert formulas.noise_free_rate() == pytest.approx(-0.5, abs=0.01)


def test_the_sum_over_nodes_hides_their_number() -> None:
    """sum_i 1/m_i = n^2/N, and a mean over the nodes n/N, where pooled records have 1/N."""
    assert sum(1 / 452 for _ in range(100)) == pytest.approx(100**2 / 45_200)
    for nodes in (1, 5, 100):
        assert formulas.split_factor(nodes, 452) == pytest.approx(nodes)


def test_the_constant_of_theorem_4() -> None:
    """By the tail bound on the moments themselves, minimised numerically: delta = min over tau of
    exp(c tau (tau + 1) - tau eps'), c = t eps^2/(4 ln(1.25/delta))."""
    with mpmath.workdps(30):
        delta = mpmath.mpf(10) ** -5
        by_proof = mpmath.sqrt(mpmath.log(1 / delta) / mpmath.log(mpmath.mpf("1.25") / delta))
    assert formulas.composition_constant(1e-5) == pytest.approx(float(by_proof), rel=1e-12)
    assert round(formulas.composition_constant(1e-5), 3) == 0.990
    for total in (0.5, 1.0, 4.0):

        def excess(c: float, total: float = total) -> float:
            found = optimize.minimize_scalar(
                lambda tau: c * tau * (tau + 1) - tau * total,
                bounds=(0, 1e4),
                method="bounded",
                options={"xatol": 1e-9},
            )
            return float(found.fun) - math.log(1e-5)

        c = optimize.brentq(excess, 1e-6, total)
        step = math.sqrt(4 * c * math.log(1.25e5))  # sqrt(t) eps
        assert formulas.composition_constant_whole(total, 1e-5) == pytest.approx(
            total / step, rel=1e-5
        )
        assert total / step > formulas.composition_constant(1e-5)


def test_lemma_14_of_zhang_and_zhu() -> None:
    """It bounds a Gamma(2d) by 2d ln(d/delta), where its own Lemma 10 gives 2d ln(2d/delta): too
    small in one dimension with delta from about 0.3 on, harmless in more."""
    deltas = np.linspace(0.01, 0.99, 99)

    def missed(d: int) -> np.ndarray:
        return np.asarray(stats.gamma.sf(2 * d * np.log(d / deltas), 2 * d)) > deltas

    assert missed(1).any() and missed(1)[deltas >= 0.5].all() and not missed(1)[deltas < 0.2].any()
    assert not any(missed(d).any() for d in (2, 3, 10, 104))
    # Lemma 10 itself is right
    for d in (1, 2, 10, 104):
        assert np.all(stats.gamma.sf(d * np.log(d / deltas), d) <= deltas * (1 + 1e-12))
