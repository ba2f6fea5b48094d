"""`tacenda export` of runs and exported estimators: every file predicts as `tacenda predict`
and the estimators do."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc

CLOSE = 1e-7


def columns(text: str) -> dict[str, list[str]]:
    rows = list(csv.reader(text.splitlines()))
    return {name: [row[k] for row in rows[1:]] for k, name in enumerate(rows[0])}


def by_r(script: Path, table: Path) -> dict[str, list[str]]:
    done = subprocess.run(
        ["Rscript", "--vanilla", str(script), str(table)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return columns(done.stdout)


@pytest.mark.filterwarnings("ignore")
def test_a_run_leaves_in_every_format(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table, schema = tools.write_people(tmp_path)
    schema.write_text(schema.read_text().replace("confirmed = false", "confirmed = true"))
    how = "--data", table, "--schema", schema, "--graph", "complete", "-e", 4, "-T", 3
    done = tools.tacenda("fit", *how, "--folder", "run", "--no-references", "--quiet")
    assert done.exit_code == 0, done.output
    wanted = tools.answer("predict", "run", "--data", table)["predictions"]
    name = next(n for n in wanted if n.startswith("probability "))
    chances = np.array(wanted[name])
    for to in ("onnx", "sklearn", "json", "pmml", "r"):
        found = tools.answer("export", "run", "--to", to)
        assert Path(found["file"]).stat().st_size == found["bytes"] > 500
    assert json.loads(Path("model.json").read_text())["promise"]["epsilon"] == pytest.approx(4.0)
    if shutil.which("Rscript"):
        got = by_r(Path("model.R"), table)
        np.testing.assert_allclose(np.array(got[name], float), chances, rtol=CLOSE)
        assert [p.strip() for p in got["prediction"]] == wanted["prediction"]
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession("model.onnx")
    cells = columns(table.read_text())
    feed = {
        one.name: np.array(
            cells[one.name] if "string" in one.type else [float(v) for v in cells[one.name]],
            object if "string" in one.type else float,
        )[:, None]
        for one in session.get_inputs()
    }
    label, probabilities = session.run(None, feed)
    np.testing.assert_allclose(probabilities[:, 1], chances, rtol=CLOSE)
    assert list(label) == wanted["prediction"]


def test_a_wrong_format_is_named(tools: Any, tmp_path: Path) -> None:
    done = tools.tacenda("export", tmp_path, "--to", "onxx")
    assert done.exit_code == 2 and "onnx" in done.stderr


@pytest.mark.filterwarnings("ignore")
def test_estimators_leave_with_what_only_they_know(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ordered classes, hazards, counts: not private here, since the numbers alone matter."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 2))
    s = X @ [2.0, -1.0]
    pain = np.array(["none", "some", "much"])[np.digitize(s + rng.logistic(size=300), [-1, 1])]
    ordinal = tc.PrivateOrdinalClassifier(
        epsilon=None, bounds=(-1, 1), classes=("none", "some", "much"), n_nodes=2
    ).fit(X, pain)
    time = rng.exponential(np.exp(-s))
    hazard = tc.PrivateDiscreteHazard((0.5, 1, 2), epsilon=None, bounds=(-1, 1), n_nodes=2)
    hazard.fit(X, np.column_stack([np.minimum(time, 2), time <= 2]))
    counts = tc.PrivatePoissonRegressor(
        epsilon=None, bounds=(-1, 1), count_bound=30, typical_count=2, n_nodes=2
    ).fit(X, rng.poisson(np.exp(s)))
    new = 1.5 * rng.uniform(-1, 1, size=(50, 2))  # some cells beyond the bounds
    runtime = pytest.importorskip("onnxruntime")
    cases = {
        "ordinal": (ordinal, ordinal.predict_proba(new)),
        "hazard": (hazard, hazard.predict_survival(new)),
        "counts": (counts, counts.predict(new)[:, None]),
    }
    for name, (model, wanted) in cases.items():
        model.export(name)
        assert tools.tacenda("export", name, "--to", "onnx", "-o", f"{name}.onnx").exit_code == 0
        feed = {"x0": new[:, :1], "x1": new[:, 1:]}
        got = runtime.InferenceSession(f"{name}.onnx").run(None, feed)
        np.testing.assert_allclose(got[-1], wanted, rtol=CLOSE, atol=CLOSE)


@pytest.mark.filterwarnings("ignore")
def test_skl2onnx_takes_what_to_sklearn_gives() -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 3))
    s = X @ [2.0, -1.0, 0.5]
    three = tc.PrivateLogisticRegression(epsilon=None, bounds=(-1, 1), n_nodes=2)
    three.fit(X, np.digitize(s + rng.logistic(size=300), [-1, 1]))
    ridge = tc.PrivateRidge(epsilon=None, bounds=(-1, 1), target_bounds=(-9, 9), n_nodes=2)
    ridge.fit(X, s + rng.normal(size=300))
    for model in (three, ridge):
        plain = model.to_sklearn()
        made = skl2onnx.to_onnx(plain, X[:1], options={"zipmap": False} if model is three else None)
        got = runtime.InferenceSession(made.SerializeToString()).run(None, {"X": X})
        wanted = plain.predict_proba(X) if model is three else plain.predict(X)[:, None]
        np.testing.assert_allclose(got[-1], wanted, rtol=1e-6, atol=CLOSE)
