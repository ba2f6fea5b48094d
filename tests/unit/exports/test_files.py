"""Every format predicts what the model itself predicts, to 1e-7, on columns of every kind."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax

import pmml_reader
import tacenda as tc
from tacenda.data.encoding import encode_features
from tacenda.errors import UnsupportedError
from tacenda.evaluation.units import Units
from tacenda.exports import FORMATS, Portable, terms_of, write
from tacenda.exports.portable import Output, lines_of

CLOSE = 1e-7
PROMISE = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace-one"}
SOURCE = {"file": "a.safetensors", "sha256": "0" * 64, "certificate": {"signature": "é"}}
GAPS = {"missing_indicator": True}
CENTRED = {"centre": 170, "scale": 10}
WARDS = ("north", "söuth", 'a "b"')


def schema(additive: bool = False, **more: Any) -> tc.data.Schema:
    columns: list[dict[str, Any]] = [
        {"name": "age", "low": 18, "high": 90},
        {"name": "pay", "low": 0, "high": 1e6, "transform": "log1p", "scale_to": "symmetric"},
        {"name": "size", "low": 100, "high": 220, "transform": "standardise", **CENTRED},
        {"name": "hour", "low": 0, "high": 24, "transform": "cyclic", "period": 24},
        {"name": "gap", "low": -5, "high": 5, "impute": 1, **GAPS},
        {"name": "zero", "low": 0, "high": 50, "atoms": [0, 7]} if additive
        else {"name": "zero", "low": 0, "high": 50},
        {"name": "ward", "kind": "categorical", "levels": list(WARDS), "unknown": "column"},
        {"name": "sex", "kind": "categorical", "levels": ["f", "m"], **GAPS},
    ]  # fmt: skip
    found = tc.data.Schema.build(
        columns=[{"kind": "numeric", **column} for column in columns],
        label={"name": "ill", "classes": ["no", "yes"]},
        intercept=True,
        **more,
    )
    return found.as_model("additive", 6) if additive else found


def table() -> dict[str, list[str]]:
    rng = np.random.default_rng(3)
    n = 40
    numbers = {
        "age": rng.uniform(0, 120, n),
        "pay": np.append(rng.lognormal(9, 3, n - 2), [0.0, 1e6]),
        "size": rng.normal(170, 30, n),
        "hour": np.append(rng.uniform(0, 24, n - 2), [24.0, 0.0]),
        "gap": rng.normal(0, 3, n),
        "zero": np.append(rng.uniform(0, 50, n - 3), [0.0, 7.0, 50.0]),
    }
    cells = {name: [repr(float(v)) for v in values] for name, values in numbers.items()}
    cells["gap"][::5] = [""] * len(cells["gap"][::5])
    cells["ward"] = rng.choice([*WARDS, "elsewhere"], n).tolist()
    cells["sex"] = rng.choice(["f", "m", ""], n).tolist()
    return cells


def model(kind: str, scores: int = 1, additive: bool = False) -> tuple[Portable, np.ndarray]:
    """(a model with random weights, its scores of the table)."""
    own = schema(additive)
    weights = np.random.default_rng(scores).normal(size=(scores, len(own.feature_names))) * 2
    terms, constant = terms_of(own, weights)
    units = Units(2.0, 3.0, -9.0, 12.0) if kind == "number" else Units(0.0, 2.0, 0.0, 40.0, True)
    output = {
        "number": Output("number", "y", units=units),
        "count": Output("number", "y", units=units),
        "classes": Output("classes", "ill", ("x", "y", "z") if scores > 1 else ("no", "yes"), True),
        "scored": Output("classes", "ill", ("no", "yes"), False),
        "ordered": Output("ordered", "pain", ("none", "some", "much"), True, np.array([-0.3, 0.9])),
        "hazards": Output("hazards", "s", cuts=np.array([0.5, -0.2, 1.0]), periods=(1.0, 2.0, 5.0)),
    }[kind]  # fmt: skip
    found = Portable("a model", terms, constant, output, own.missing_values, PROMISE, SOURCE)
    return found, encode_features(own, table()) @ weights.T


def expected(portable: Portable, scores: np.ndarray) -> np.ndarray:
    """(N, columns), from the scores by the words of `Output`."""
    out = portable.output
    if out.kind == "number":
        return np.asarray(out.units.predictions(scores[:, 0]))[:, None]
    if out.kind == "ordered":
        above = np.hstack([np.ones_like(scores), expit(scores - out.cuts), 0 * scores])
        return -np.diff(above, axis=1)
    if out.kind == "hazards":
        return np.cumprod(1 - expit(scores - out.cuts), axis=1)
    if not out.probabilities:
        return np.hstack([-scores, scores])
    if scores.shape[1] == 1:
        return np.hstack([1 - expit(scores), expit(scores)])
    return softmax(scores, axis=1)


CASES = [
    ("number", 1, False),
    ("count", 1, False),
    ("classes", 1, False),
    ("classes", 1, True),
    ("classes", 3, False),
    ("classes", 3, True),
    ("scored", 1, False),
    ("ordered", 1, True),
    ("hazards", 1, False),
]


def labels(portable: Portable, told: np.ndarray) -> list[str]:
    return [portable.output.classes[k] for k in told.argmax(axis=1)]


@pytest.mark.parametrize(("kind", "scores", "additive"), CASES)
def test_onnx(kind: str, scores: int, additive: bool, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    portable, s = model(kind, scores, additive)
    path = write(portable, "onnx", tmp_path / "m.onnx")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    cells = table()
    numbers = {c.name for c in schema().columns if c.kind == "numeric"}
    feed = {
        name: np.array([float(v or "nan") for v in values])[:, None]
        if name in numbers
        else np.array(values, object)[:, None]
        for name, values in cells.items()
    }
    got = session.run(None, feed)
    want = expected(portable, s)
    np.testing.assert_allclose(got[-1], want, rtol=CLOSE, atol=CLOSE)
    if portable.output.classes:
        assert list(got[0]) == labels(portable, want)
    facts = {p.key: json.loads(p.value) for p in onnx.load(path).metadata_props}
    assert facts == {"tacenda.promise": PROMISE, "tacenda.source": SOURCE}


@pytest.mark.parametrize(("kind", "scores", "additive"), CASES)
def test_pmml(kind: str, scores: int, additive: bool, tmp_path: Path) -> None:
    portable, s = model(kind, scores, additive)
    text = write(portable, "pmml", tmp_path / "m.pmml").read_bytes()
    cells, want = table(), expected(portable, s)
    for k in range(len(want)):
        got = pmml_reader.score(text, {name: values[k] for name, values in cells.items()})
        names = portable.output.classes or ("survival 1", "survival 2", "survival 5")
        told = [got] if isinstance(got, float) else [got[name] for name in names]
        if kind == "scored":  # its scores are no probabilities: the class is what counts
            assert np.argmax(told) == np.argmax(want[k])
            continue
        np.testing.assert_allclose(told, want[k], rtol=CLOSE, atol=CLOSE)
    assert b'name="tacenda.promise"' in text and b"certificate" in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
def test_pmml_in_jpmml(tmp_path: Path) -> None:
    """What other programs read: pip install jpmml-evaluator jpype1 (no extra names them)."""
    jpmml = pytest.importorskip("jpmml_evaluator")
    pytest.importorskip("jpype")
    from jpmml_evaluator.jpype import JPypeBackend

    backend = JPypeBackend()
    numbers = {c.name for c in schema().columns if c.kind == "numeric"}
    for case in CASES:
        portable, s = model(*case)
        path = write(portable, "pmml", tmp_path / "m.pmml")
        evaluator = jpmml.make_evaluator(str(path), backend=backend).verify()
        cells, want = table(), expected(portable, s)
        for k in range(len(want)):
            record = {
                name: (float(values[k]) if name in numbers else values[k]) if values[k] else None
                for name, values in cells.items()
            }
            got = evaluator.evaluate(record)
            told = [v for name, v in got.items() if name and name.startswith(("prob", "surv"))]
            if portable.output.classes:
                assert got[portable.output.name] == labels(portable, want)[k]
            elif not told:
                told = [got["y"]]
            if case[0] != "scored":
                np.testing.assert_allclose(told, want[k], rtol=1e-13, atol=1e-14)


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
@pytest.mark.parametrize(("kind", "scores", "additive"), CASES)
def test_r(kind: str, scores: int, additive: bool, tmp_path: Path) -> None:
    portable, s = model(kind, scores, additive)
    path = write(portable, "r", tmp_path / "m.R")
    cells = table()
    with (tmp_path / "new.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(cells)
        rows.writerows(zip(*cells.values(), strict=True))
    done = subprocess.run(
        ["Rscript", "--vanilla", str(path), str(tmp_path / "new.csv")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    got = list(csv.reader(done.stdout.splitlines()))[1:]
    first = 1 if portable.output.classes else 0
    want = expected(portable, s)
    told = np.array([[float(v) for v in row[first:]] for row in got])
    np.testing.assert_allclose(told, want, rtol=CLOSE, atol=CLOSE)
    if portable.output.classes:
        assert [row[0].strip() for row in got] == labels(portable, want)
    assert "# " in path.read_text("utf-8") and '"signature"' in path.read_text("utf-8")


SIMPLE = [c for c in CASES if c[0] not in ("ordered", "hazards")]


@pytest.mark.parametrize(("kind", "scores", "additive"), SIMPLE)
def test_sklearn(kind: str, scores: int, additive: bool, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    skops = pytest.importorskip("skops.io")
    portable, s = model(kind, scores, additive)
    path = write(portable, "sklearn", tmp_path / "m.skops")
    loaded = skops.load(path, trusted=skops.get_untrusted_types(file=path))
    frame = pd.DataFrame({k: [v or None for v in values] for k, values in table().items()})
    want = expected(portable, s)
    if kind == "classes":
        np.testing.assert_allclose(loaded.predict_proba(frame), want, rtol=CLOSE, atol=CLOSE)
    elif kind == "scored":
        np.testing.assert_allclose(loaded.decision_function(frame), want[:, 1], rtol=CLOSE)
    else:
        units = portable.output.units
        told = np.clip(loaded.predict(frame), units.low, units.high)
        np.testing.assert_allclose(told, want[:, 0], rtol=CLOSE, atol=CLOSE)
    assert json.loads(loaded.tacenda_promise)["promise"] == PROMISE


def test_json_holds_every_number(tmp_path: Path) -> None:
    portable, _ = model("classes", 3, True)
    found = json.loads(write(portable, "json", tmp_path / "m.json").read_text("utf-8"))
    assert found["promise"] == PROMISE and found["source"] == SOURCE
    assert [t["column"] for t in found["terms"]] == [c.name for c in schema().columns]
    np.testing.assert_array_equal(found["terms"][0]["values"], portable.terms[0].values)  # type: ignore[union-attr]
    assert found["output"]["classes"] == ["x", "y", "z"]


def test_numbers_without_bounds_go_on_for_ever(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    weights = np.array([[2.0, -3.0]])
    terms = lines_of(("a", "b"), weights, None, None)
    portable = Portable("m", terms, np.array([0.5]), Output("number", "y"))
    path = write(portable, "onnx", tmp_path / "m.onnx")
    X = np.array([[1e3, -7.0], [-2.0, 0.25]])
    got = runtime.InferenceSession(str(path)).run(None, {"a": X[:, :1], "b": X[:, 1:]})[0]
    np.testing.assert_allclose(got[:, 0], X @ weights[0] + 0.5, rtol=1e-12)
    text = write(portable, "pmml", tmp_path / "m.pmml").read_bytes()
    assert pmml_reader.score(text, {"a": "1000", "b": "-7"}) == pytest.approx(2021.5)
    assert (
        json.loads(write(portable, "json", tmp_path / "m.json").read_text())["terms"][0]["low"]
        is None
    )


def test_what_no_format_can_say_is_refused() -> None:
    shortened = schema(row_norm=0.5)
    with pytest.raises(UnsupportedError, match="row_norm"):
        terms_of(shortened, np.zeros((1, len(shortened.feature_names))))
    pairs = schema(True, pairs=[["age", "pay"]])
    with pytest.raises(UnsupportedError, match=r"age\*pay"):
        terms_of(pairs, np.zeros((1, len(pairs.feature_names))))
    hazards, _ = model("hazards")
    with pytest.raises(UnsupportedError, match="survival in periods"):
        write(hazards, "sklearn")
    with pytest.raises(UnsupportedError, match=r"ordered classes.*pmml"):
        write(model("ordered", 1, True)[0], "sklearn")
    assert FORMATS == ("onnx", "sklearn", "json", "pmml", "r")
