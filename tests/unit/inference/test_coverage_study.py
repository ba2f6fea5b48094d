"""The study of coverage: it asks as users do, counts what is stored, and judges by exact binomial
intervals."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from benchmarks import interval_coverage as study


def population(label: tuple[float, float] | None) -> study.Population:
    n, rng = 400, np.random.default_rng(4)
    t = pd.DataFrame({"a": rng.uniform(0, 2, n), "null": rng.uniform(0, 1, n)})
    t["kind"] = rng.choice(["p", "q"], n)
    score = t.a - 1 + (t.kind == "q")
    noisy = np.clip(score + rng.normal(size=n), -3, 3)
    t["y"] = noisy if label else (rng.random(n) < 1 / (1 + np.exp(-score))) * 1.0
    columns = {"a": (0, 2), "kind": ["p", "q"], "null": (0, 1)}
    return study.Population(t, columns, label, 2000)


def test_the_truth_is_that_of_the_whole_table_and_zero_for_the_null_column() -> None:
    own = population(None)
    found = own.truth()
    X = np.column_stack([own.table.a, own.table.kind == "q", np.ones(400)]).astype(float)
    fit = sm.Logit(own.table.y, X).fit(disp=0)
    assert found["a"][0] == pytest.approx(fit.params["x1"], rel=1e-6)
    assert found["kind is 'q'"][0] == pytest.approx(fit.params["x2"], rel=1e-6)
    assert found["null"][0] == 0.0 and found["null"][1] > 0


@pytest.mark.parametrize(("way", "label"), [("schema", None), ("contract", (-3.0, 3.0))])
def test_each_way_in_gives_every_row_of_the_table(
    way: str, label: tuple[float, float] | None
) -> None:
    own = population(label)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = study.repetition(own, study.WAYS[way](own, 40.0), "study", 40.0, 0)
    assert set(found) == set(own.truth())
    assert all(value is not None and 0.5 < value[1] < 10 for value in found.values())
    assert sum(value[0] for value in found.values()) >= 2


def test_repetitions_are_counted_from_the_file(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    row = {"a": [1, 1.5, 0.2], "null": [1, 2.0, 0.5]}
    bad = {"a": [0, 1.5, 0.2], "null": [1, 2.0, 0.01]}
    for first, found in ((0, [row] * 50), (50, [bad] * 50), (50, [bad] * 50)):
        batch = study.summary(found)
        line = {"study": "bounds-cards", "epsilon": 1.0, "first": first, **batch}
        with out.open("a") as file:
            file.write(json.dumps(line) + "\n")
    assert study.stored(out)["bounds-cards", 1.0].count == 100
    text = "\n".join(study.report(out))
    assert "| bounds, cards | 1 | 100 | 100% | 75.0% | a 50.0% | 50.0% of 100 | 1.75 |" in text
    assert "too low: a; type-I error fails" in text
    page = tmp_path / "page.md"
    page.write_text(f"before\n{study.BEGIN}\nold\n{study.END}\nafter")
    study.write(out, page)
    study.write(out, page)
    assert page.read_text() == f"before\n{study.BEGIN}\n\n{text}\n\n{study.END}\nafter"


def test_shares_have_exact_binomial_intervals() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for hits, count in ((0, 40), (470, 500), (500, 500)):
        wanted = proportion_confint(hits, count, alpha=0.01, method="beta")
        assert study.bounds_of(hits, count) == pytest.approx(wanted)
    assert study.meets(455, 500, study.COVERED) and not study.meets(440, 500, study.COVERED)
