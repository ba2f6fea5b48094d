"""Ordered classes and survival times from the shell: from a draft of the schema to the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tacenda as tc
from tacenda.data.schema import Schema

DRAFT = {
    "ordinal": ("--label", "pain", "--ordered", "none,some,much", "--drop", "days,relapse"),
    "discrete-hazard": (
        *("--time", "days", "--event", "relapse", "--points", "100,200,400"),
        *("--drop", "pain"),
    ),
}
MEASURES = {
    "ordinal": ["concordance", "ranked_probability", "class_accuracy"],
    "discrete-hazard": ["concordance", "brier_over_time"],
}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, n = np.random.default_rng(0), 1500
    age, arm = rng.uniform(20, 80, n).round(1), rng.choice(["old", "new"], n)
    score = (age - 50) / 15 + (arm == "old")
    pain = np.digitize(score + rng.logistic(size=n), [-0.5, 1.5])
    days = (300 * rng.exponential(np.exp(-0.7 * score))).round() + 1
    table = pd.DataFrame({"age": age, "arm": arm, "pain": np.array(["none", "some", "much"])[pain]})
    table["days"], table["relapse"] = np.minimum(days, 500), (days < 500).astype(int)
    path = tmp_path_factory.mktemp("outcomes") / "people.csv"
    table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("loss", list(DRAFT))
def test_from_a_draft_to_the_report(loss: str, people: Path, tmp_path: Path, tools: Any) -> None:
    schema, folder = tmp_path / "schema.toml", tmp_path / "run"

    def ran(*words: Any) -> str:
        done = tools.tacenda(*words)
        assert done.exit_code == 0, done.stderr
        return str(done.stdout)

    ran("schema", "draft", people, *DRAFT[loss], "-o", schema)
    ran("schema", "confirm", schema, "--all")
    own = Schema.read(schema)
    assert own.intercept and own.label.usual_loss == loss
    assert Schema.from_toml(own.to_toml()).hash() == own.hash()
    shape = ("--schema", schema, "--epsilon", "4", "--nodes", "3")
    assert "excess risk" in ran("plan", *shape, "--records", "500")
    ran("fit", "--data", people, *shape, "--test-fraction", "0.3", "--folder", folder)
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    (entry,) = manifest["results"]
    assert set(MEASURES[loss]) < set(entry) and entry["test_concordance"] > 0.6
    assert manifest["table"][-1]["test_concordance"] == pytest.approx(0.5)
    report = (folder / "report.html").read_text("utf-8")
    assert "Shares beyond each cut" in report and "Calibration at the cuts" in report

    found = json.loads(ran("evaluate", folder, people, "--json"))
    assert list(found["measures"]) == MEASURES[loss]
    page = tmp_path / "private.html"
    private = json.loads(
        ran("evaluate", folder, "--private", "-e", "4", "--seed", "0", "--json", "--report", page)
    )
    assert "Shares beyond each cut" in page.read_text("utf-8")
    for name in MEASURES[loss]:
        told = private["measures"][name]
        assert told["low"] - 0.03 < entry[f"test_{name}"] < told["high"] + 0.03
    told = ran("coefficients", folder)
    assert told.count("age") == 1 and told.count("intercept") >= 2

    out = tmp_path / "predicted.csv"
    ran("predict", folder, "--data", people, "-o", out)
    predicted = pd.read_csv(out)
    chances = predicted.select_dtypes("number").to_numpy()
    if loss == "ordinal":
        np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-5)
    else:
        assert list(predicted) == ["no event by 100", "no event by 200", "no event by 400"]
        assert (np.diff(chances, axis=1) <= 0).all()
    runtime = pytest.importorskip("onnxruntime")
    ran("export", folder, "--to", "onnx", "-o", tmp_path / "model.onnx")
    table = pd.read_csv(people)
    feed = {"age": table[["age"]].to_numpy(float), "arm": table[["arm"]].to_numpy(object)}
    elsewhere = runtime.InferenceSession(tmp_path / "model.onnx").run(None, feed)[-1]
    np.testing.assert_allclose(elsewhere, chances, atol=1e-5)  # six digits in the file


def test_a_loss_that_does_not_fit_the_label_is_refused(
    people: Path, tmp_path: Path, tools: Any
) -> None:
    schema = tmp_path / "schema.toml"
    words = ("schema", "draft", people, *DRAFT["discrete-hazard"], "-o", schema)
    assert tools.tacenda(*words).exit_code == 0
    config = {
        "data": {"file": str(people), "schema": str(schema)},
        "privacy": {"epsilon": 4.0},
        "problem": {"loss": "multinomial"},
    }
    with pytest.raises(tc.errors.InputError, match="discrete-hazard"):
        tc.fit(config, progress=False)
    done = tools.tacenda("schema", "draft", people, "--time", "days")
    assert done.exit_code == 2 and "--event, --points" in done.stderr
