"""An intercept for each site, as columns of the sums: against statsmodels' fixed strata."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.duration.hazard_regression import PHReg

import tacenda as tc
from tacenda.data.schema import Schema
from tacenda.errors import InputError

SITES = ("east", "north", "west")


def records(n: int = 1500) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    site = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    # Sites differ in whom they treat and in how that ends, so that a pooled fit is wrong
    dose = np.clip(rng.normal(5.0 + 2.0 * site, 1.5, n), 0, 15).round(2)
    score = 0.5 * dose - 2.0 * site
    table = pd.DataFrame({"site": np.array(SITES)[site], "dose": dose})
    table["y"] = np.clip(score + rng.normal(size=n), -10, 10)
    table["ill"] = np.where(rng.logistic(size=n) < score - 1, "yes", "no")
    time = rng.exponential(20 * np.exp(-score / 2))
    table["t"], table["e"] = np.minimum(np.ceil(time), 40), np.where(time < 40, "1", "0")
    return table


def schema(**rest: Any) -> Schema:
    return Schema.build(
        columns=[
            {"kind": "numeric", "name": "dose", "low": 0, "high": 15},
            {"kind": "categorical", "name": "site", "levels": SITES, "reference": "east"},
        ],
        node_column="site",
        intercept=True,
        **rest,
    )


def design(table: pd.DataFrame) -> Any:
    return np.column_stack([table["dose"], table["site"] == "north", table["site"] == "west"])


def fitted(table: pd.DataFrame, own: Schema, folder: Any, **problem: Any) -> dict[str, float]:
    own.write(folder / "schema.toml")
    table.to_csv(folder / "records.csv", index=False)
    found = tc.fit(
        {
            "data": {"file": str(folder / "records.csv"), "schema": str(folder / "schema.toml")},
            "problem": {"strength": 1e-9, "regulariser": "none", **problem},
            "algorithm": {"name": "optimum"},
            "privacy": {"private": False},
            "run": {"folder": str(folder / "run"), "references": False},
        },
        progress=False,
    )
    assert found.dataset["nodes"] == 3 and set(found.dataset["node_labels"]) == set(SITES)
    return {row.feature: row.coefficient for row in found.coefficients().rows}


NAMES = ("dose", "site is 'north'", "site is 'west'")


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_fit_has_the_effects_of_fixed_strata(loss: str, tmp_path: Any) -> None:
    table = records()
    label: dict[str, Any] = {"name": "ill", "classes": ["no", "yes"]}
    if loss == "squared":
        label = {"name": "y", "low": -10, "high": 10}
    ours = fitted(table, schema(label=label), tmp_path, loss=loss)
    X = sm.add_constant(design(table))
    weights = 1 / table["site"].map(table["site"].value_counts())  # nodes count alike in a fit
    if loss == "squared":
        theirs = sm.WLS(table["y"], X, weights=weights).fit().params
    else:
        family = sm.families.Binomial()
        theirs = sm.GLM(table["ill"] == "yes", X, family=family, freq_weights=weights).fit().params
    np.testing.assert_allclose([ours[n] for n in NAMES], theirs.to_numpy()[1:], atol=2e-4)


def test_hazard_ratios_have_the_effects_of_fixed_strata() -> None:
    table = records()
    own = schema(survival={"time": "t", "event": "e", "points": list(range(1, 41))})
    found = tc.hazard_ratios(own, table, None, columns=["dose", "site"])
    theirs = PHReg(table["t"], design(table), status=table["e"] == "1", ties="efron").fit()
    ours = [np.log(effect.ratio) for effect in found.effects]
    np.testing.assert_allclose(ours, theirs.params, atol=0.01)
    # As with a baseline for each stratum, since hazards of sites are proportional here
    strata = PHReg(table["t"], table[["dose"]], status=table["e"] == "1", strata=table["site"])
    assert ours[0] == pytest.approx(strata.fit().params[0], abs=0.03)
    alone = tc.hazard_ratios(own, table, None, columns=["dose"])
    assert abs(np.log(alone.effects[0].ratio) - theirs.params[0]) > 0.1


def test_a_node_column_that_is_a_number_is_refused() -> None:
    with pytest.raises(InputError, match="node_column 'site' must not be among the columns"):
        Schema.build(
            columns=[{"kind": "numeric", "name": "site", "low": 0, "high": 9}],
            label={"name": "ill", "classes": ["no", "yes"]},
            node_column="site",
        )
