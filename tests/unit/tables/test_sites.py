"""Sites that differ: the summary against statsmodels and by coverage; sites priced first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from statsmodels.stats.meta_analysis import combine_effects

import tacenda as tc
from tacenda.errors import InputError, PrivacyError

Y = np.array([-0.9, 0.1, -0.4, -0.6, 0.3, -0.2])
ERRORS = np.array([0.2, 0.1, 0.3, 0.15, 0.25, 0.2])


def test_moments_are_those_of_statsmodels() -> None:
    found = tc.tables.pooled(Y, ERRORS, method="dersimonian-laird")
    theirs = combine_effects(Y, ERRORS**2, method_re="chi2", use_t=True)
    assert found.tau**2 == pytest.approx(theirs.tau2, rel=1e-12)
    assert found.effect == pytest.approx(theirs.mean_effect_re, rel=1e-12)
    assert found.q == pytest.approx(theirs.q, rel=1e-12)
    half = (found.high - found.low) / 2
    from scipy.stats import t

    hksj = t.ppf(0.975, 5) * theirs.sd_eff_w_re_hksj
    usual = t.ppf(0.975, 5) * theirs.sd_eff_w_re
    assert half == pytest.approx(max(hksj, usual), rel=1e-10)


def test_restricted_likelihood_has_no_slope_at_tau() -> None:
    squared = tc.tables.pooled(Y, ERRORS).tau ** 2

    def slope(s: float) -> float:
        w = 1 / (ERRORS**2 + s)
        mean = w @ Y / w.sum()
        return float((w**2) @ (Y - mean) ** 2 - w.sum() + (w**2).sum() / w.sum())

    assert squared == pytest.approx(brentq(slope, 1e-6, 5.0), rel=1e-4)
    # Sites that do not differ beyond their errors
    assert tc.tables.pooled([0.1, 0.11, 0.12], [0.1, 0.1, 0.1]).tau == 0


@pytest.mark.parametrize(("sites", "tau"), [(5, 0.0), (5, 0.3), (10, 0.3), (30, 0.3)])
def test_intervals_hold_as_often_as_they_say(sites: int, tau: float) -> None:
    rng = np.random.default_rng(sites)
    mean = new = 0
    for _ in range(400):
        errors = rng.uniform(0.1, 0.4, sites)
        true = 0.5 + tau * rng.standard_normal(sites + 1)
        found = tc.tables.pooled(true[:-1] + errors * rng.standard_normal(sites), errors)
        mean += found.low <= 0.5 <= found.high
        new += found.new_low <= true[-1] <= found.new_high
    assert mean / 400 > 0.92
    assert new / 400 > 0.88


SCHEMA = tc.data.Schema.build(
    columns=[{"kind": "categorical", "name": "arm", "levels": ["old", "new"]}],
    label={"name": "e", "classes": ["0", "1"]},
    survival={"time": "t", "event": "e", "points": [2, 4, 6]},
    node_column="site",
)


def drawn(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    arm, site = rng.choice(["old", "new"], n), rng.integers(0, 4, n)
    effect = np.array([-1.0, -0.7, -0.4, -0.1])[site]
    time = rng.exponential(4.0 * np.exp(-effect * (arm == "new")))
    event = np.where(time < 6, "1", "0")
    names = np.array(["a", "b", "c", "d"])
    return {"arm": arm, "t": np.minimum(time, 6.0), "e": event, "site": names[site]}


def test_each_sites_effect_and_how_much_they_differ(tmp_path: Path) -> None:
    found = tc.tables.site_effects(SCHEMA, drawn(24_000), tc.Privacy(2.0), seed=0)
    assert found.sites == ("a", "b", "c", "d")
    np.testing.assert_allclose(found.effects, [-1.0, -0.7, -0.4, -0.1], atol=0.25)
    assert found.pooled.low < -0.55 < found.pooled.high
    assert 0.2 < found.pooled.tau < 0.7 and found.pooled.q_p_value < 0.01
    assert found.privacy is not None and found.privacy.epsilon <= 2.0 * (1 + 1e-9)
    assert "a new site" in found.markdown and "tau" in found.markdown
    page = found.save(tmp_path / "forest.html").read_text("utf-8")
    assert "a new site" in page and "epsilon 2" in page
    assert len(found.save(tmp_path / "forest.csv").read_text().splitlines()) == 7


def test_sites_are_priced_before_anything_is_spent(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    with pytest.raises(PrivacyError, match=r"hide the effects of 'a' .*Nothing was spent"):
        tc.tables.site_effects(SCHEMA, drawn(800), tc.Privacy(0.5), ledger=ledger, dataset="x")
    assert not ledger.exists()


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InputError, match="at least 2 sites"):
        tc.tables.pooled([1.0], [0.1])
    plain = SCHEMA.model_copy(update={"node_column": None})
    with pytest.raises(InputError, match="node_column"):
        tc.tables.site_effects(plain, drawn(100), None)
    with pytest.raises(InputError, match="effect must be one of"):
        tc.tables.site_effects(SCHEMA, drawn(100), None, effect="dose")


def test_a_person_at_two_sites_is_refused() -> None:
    """Each site has a budget of its own, which such a person would lose twice."""
    table = drawn(400)
    known = tc.data.Schema.build(**{**SCHEMA.model_dump(), "person": "who"})
    table["who"] = np.array([f"p{k}" for k in range(400)])
    tc.tables.site_effects(known, table, None)
    at = table[SCHEMA.node_column]
    table["who"][np.flatnonzero(at != at[0])[0]] = table["who"][0]
    with pytest.raises(InputError, match="at least 2"):
        tc.tables.site_effects(known, table, None)
