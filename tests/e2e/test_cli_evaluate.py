"""`tacenda evaluate`, `predict` and `coefficients` on run folders and exported models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tacenda as tc
from cli_tools import WITHOUT_COLOUR
from tacenda.data.encoding import encode
from tacenda.data.schema import Schema
from tacenda.estimators import PrivateLogisticRegression, PrivateRidge

REGRESSION = """
intercept = true
[[columns]]
kind = "numeric"
name = "age"
low = 0
high = 100
[label]
name = "visits"
low = 0
high = 40
scale_to = "symmetric"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """people.csv with a class and a count, and a run folder for each."""
    folder = tmp_path_factory.mktemp("evaluate")
    rng = np.random.default_rng(1)
    age = rng.integers(0, 100, 300)
    visits = np.clip(np.round(age / 5 - 4 + rng.normal(0, 2, 300)), 0, 40).astype(int)
    ill = np.where(age + rng.normal(0, 10, 300) > 50, "yes", "no")
    lines = [f"p{k},{age[k]},{visits[k]},{ill[k]}" for k in range(300)]
    (folder / "people.csv").write_text("\n".join(["id,age,visits,ill", *lines]))
    schema = WITHOUT_COLOUR.replace('node_column = "site"\n', "")
    (folder / "ill.toml").write_text(schema)
    (folder / "visits.toml").write_text(REGRESSION)
    for name in ("ill", "visits"):
        tc.fit(
            {
                "data": {
                    "file": str(folder / "people.csv"),
                    "schema": str(folder / f"{name}.toml"),
                },
                "network": {"nodes": 3, "graph": "complete"},
                "privacy": {"epsilon": 8.0},
                "run": {"folder": str(folder / name)},
            },
            progress=False,
        )
    return folder


def test_measures_are_those_of_the_model(home: Path, tools: Any) -> None:
    found = tools.answer("evaluate", home / "ill", home / "people.csv")
    data = encode(Schema.read(home / "ill" / "schema.toml"), home / "people.csv")
    manifest = json.loads((home / "ill" / "manifest.json").read_text())
    model = tc.load(home / "ill" / manifest["results"][0]["file"]).model
    right = np.mean((data.X @ model >= 0) == (data.y == 1))
    assert found["measures"]["accuracy"] == pytest.approx(right)
    assert found["records"] == 300 and not found["public"] and "without noise" in found["note"]
    assert np.sum(found["figures"]["confusion"]["counts"]) == 300
    # The manifest's are on the same records: nothing was set aside
    assert manifest["results"][0]["roc_auc"] == pytest.approx(found["measures"]["roc_auc"])


def test_tables_are_marked_unless_public(home: Path, tools: Any) -> None:
    shown = tools.tacenda("evaluate", home / "visits", home / "people.csv")
    assert shown.exit_code == 0, shown.output
    assert "not private unless the data is public" in shown.stdout and "Residuals" in shown.stdout
    public = tools.tacenda("evaluate", home / "ill", home / "people.csv", "--public")
    assert "declared public" in public.stdout and "Confusion matrix" in public.stdout
    assert "Calibration" in public.stdout and "not private" not in public.stdout


def test_private_measures_have_intervals_and_are_charged(
    home: Path, tools: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    age = rng.integers(0, 100, 400) + rng.random(400).round(3)
    visits = np.clip(np.round(age / 5 - 4), 0, 40).astype(int)
    lines = [f"{a},{v},{'yes' if a > 50 else 'no'}" for a, v in zip(age, visits, strict=True)]
    new, ledger = tmp_path / "new.csv", tmp_path / "ledger.db"
    new.write_text("\n".join(["age,visits,ill", *lines]))
    how = ("--private", "--epsilon", "8", "--seed", "0")
    found = tools.answer(
        "evaluate", home / "ill", new, *how, "--nodes", "4", "--ledger", ledger, "--dataset", "p"
    )
    accuracy = found["measures"]["accuracy"]
    assert accuracy["low"] < accuracy["value"] < accuracy["high"] and found["records"] == 400
    assert found["privacy"]["epsilon"] == pytest.approx(8.0, rel=1e-3)
    spent = tools.answer("ledger", "show", ledger)
    assert "p/held-out" in json.dumps(spent)
    page = tmp_path / "page.html"
    shown = tools.tacenda("evaluate", home / "visits", new, *how, "--report", page)
    assert shown.exit_code == 0, shown.output
    assert (
        "RMSE" in shown.stdout
        and "Residuals" in shown.stdout
        and "without a ledger" in shown.stdout
    )
    assert "released once with noise" in page.read_text()


def test_private_evaluation_on_what_was_trained_on_is_refused(home: Path, tools: Any) -> None:
    for given, words in (
        ((home / "people.csv", "--private", "--epsilon", "1"), "never trained on"),
        (("--private", "--epsilon", "1"), "DATA must name held-out records"),
        ((home / "people.csv", "--private"), "--epsilon"),
        ((home / "people.csv", "--epsilon", "1"), "--private"),
        ((), "DATA"),
    ):
        wrong = tools.tacenda("evaluate", home / "ill", *given)
        assert wrong.exit_code == 2 and words in wrong.stderr, (given, wrong.output)


def test_an_evaluation_promises_to_whom_the_run_promised(
    home: Path, tools: Any, tmp_path: Path
) -> None:
    schema = tmp_path / "persons.toml"
    schema.write_text('person = "id"\n' + (home / "ill.toml").read_text())
    lines = (home / "people.csv").read_text().splitlines()
    several = [f"p{k // 3},{line.split(',', 1)[1]}" for k, line in enumerate(lines[1:])]
    (tmp_path / "people.csv").write_text("\n".join([lines[0], *several]))
    data = ("--data", tmp_path / "people.csv", "--schema", schema, "--nodes", "1")
    person = ("--records-per-person", "2", "--adjacency", "add-remove", "--test-fraction", "0.4")
    size = ("--set", "problem.public_size=120")
    how = ("--algorithm", "treegd", "--rounds", "2", "--no-references", "--no-report", "--quiet")
    run = tmp_path / "run"
    made = tools.tacenda("fit", *data, *person, *size, *how, "--epsilon", "8", "--folder", run)
    assert made.exit_code == 0, made.output
    asked = ("--private", "--epsilon", "8", "--seed", "0")
    found = tools.answer("evaluate", run, *asked)
    assert found["privacy"]["adjacency"] == "add-remove"
    assert "person with at most 2 records" in json.dumps(found["privacy"])
    other = tools.tacenda("evaluate", run, home / "people.csv", *asked)
    assert other.exit_code == 2 and "--public-size must say" in other.stderr, other.output


def test_predictions_have_ids_probabilities_and_bounds(home: Path, tools: Any) -> None:
    said = tools.answer("predict", home / "ill", "--data", home / "people.csv", "--id", "id")
    columns = said["predictions"]
    assert list(columns) == ["id", "prediction", "probability yes"]
    assert columns["id"][:2] == ["p0", "p1"] and len(columns["id"]) == 300
    chances = np.array(columns["probability yes"])
    assert np.array_equal(chances >= 0.5, np.array(columns["prediction"]) == "yes")
    visits = tools.answer("predict", home / "visits", "--data", home / "people.csv")
    values = np.array(visits["predictions"]["prediction"])
    assert values.min() >= 0 and values.max() <= 40  # counts, and old people's are small
    wrong = tools.tacenda("predict", home / "ill", "--data", home / "people.csv", "--id", "name")
    assert wrong.exit_code == 2 and "--id 'name' is no column" in wrong.stderr


def test_coefficients_on_the_screen_and_as_json(home: Path, tools: Any) -> None:
    shown = tools.tacenda("coefficients", home / "visits")
    assert shown.exit_code == 0, shown.output
    assert "standard error" in shown.stdout and "intercept" in shown.stdout
    found = tools.answer("coefficients", home / "visits", "--top", "1")
    assert len(found["coefficients"]) == 1 and found["coefficients"][0]["feature"] == "age"
    assert found["standard_errors"].startswith("The standard errors are")


def test_intervals_are_asked_for_once_kept_and_shown(home: Path, tools: Any) -> None:
    """The price is said first; the folder keeps what was paid for, and the report shows it."""
    asked = tools.tacenda("coefficients", home / "ill", "--epsilon", "8", "--level", "0.9")
    assert asked.exit_code == 0, asked.output
    assert asked.stdout.index("This question costs epsilon 8") < asked.stdout.index("estimate")
    assert "together at most epsilon 16" in asked.stdout
    found = tools.answer("coefficients", home / "ill")
    age = next(row for row in found["coefficients"] if row["feature"] == "age")
    assert found["level"] == 0.9 and age["low"] < age["estimate"] < age["high"]
    assert 0 < age["noise_error"] < age["standard_error"]
    again = tools.tacenda("coefficients", home / "ill", "--epsilon", "8")
    assert again.exit_code == 2 and "--again" in again.stderr
    page = home / "intervals.html"
    assert tools.tacenda("report", home / "ill", "--out", page).exit_code == 0
    assert "Asking for the intervals cost epsilon 8" in page.read_text()


def test_nodes_are_compared_for_a_price(home: Path, tools: Any) -> None:
    shown = tools.tacenda("heterogeneity", home / "ill", "--epsilon", "4")
    assert shown.exit_code == 0, shown.output
    assert "This question costs epsilon 4" in shown.stdout and "degrees of freedom" in shown.stdout
    found = tools.answer("heterogeneity", home / "ill", "--epsilon", "4")
    assert found["degrees"] > 0 and found["privacy"]["epsilon"] == pytest.approx(4, rel=1e-2)


def test_exported_models_are_read_too(home: Path, tools: Any) -> None:
    rows = [line.split(",") for line in (home / "people.csv").read_text().splitlines()[1:]]
    age = np.array([[float(r[1])] for r in rows])
    ill = np.array([r[3] for r in rows])
    model = PrivateLogisticRegression(epsilon=8.0, bounds=(0, 100), n_nodes=2, random_state=0)
    model.fit(age, ill).export(home / "exported")
    (home / "plain.csv").write_text("\n".join(["age,ill", *(f"{r[1]},{r[3]}" for r in rows)]))
    found = tools.answer("evaluate", home / "exported", home / "plain.csv", "--label", "ill")
    assert found["measures"]["accuracy"] == pytest.approx(model.score(age, ill))
    said = tools.answer("predict", home / "exported", "--data", home / "plain.csv", "--id", "ill")
    chances = model.predict_proba(age)[:, 1]
    assert said["predictions"]["probability yes"] == pytest.approx(chances.tolist())
    for more, word in (((), "--label must name"), (("--label", "x"), "is no column")):
        wrong = tools.tacenda("evaluate", home / "exported", home / "plain.csv", *more)
        assert wrong.exit_code == 2 and word in wrong.stderr
    ridge = PrivateRidge(
        epsilon=8.0, bounds=(0, 100), target_bounds=(0, 40), n_nodes=2, random_state=0
    )
    ridge.fit(age, np.array([float(r[2]) for r in rows])).export(home / "ridge")
    (home / "ages.csv").write_text("age\n-500\n500")
    low, high = tools.answer("predict", home / "ridge", "--data", home / "ages.csv")["predictions"][
        "prediction"
    ]
    ends = ridge.predict(np.array([[0.0], [100.0]]))  # cells are clipped to the bounds
    assert (low, high) == pytest.approx(tuple(ends))
    assert tools.answer("coefficients", home / "ridge")["coefficients"][0]["feature"] == "x0"


def test_an_exported_model_is_not_evaluated_on_what_it_was_fitted_on(
    home: Path, tools: Any
) -> None:
    """The fit read a frame, the command reads a file: the columns' names make it one account."""
    frame = pd.read_csv(home / "people.csv")
    ledger, plain = home / "fitted.ledger", home / "fitted.csv"
    model = PrivateLogisticRegression(
        epsilon=1.0, bounds=(0, 100), n_nodes=2, random_state=0, ledger=ledger, dataset="us"
    )
    model.fit(frame[["age"]], frame["ill"]).export(home / "fitted")
    frame[["ill", "age"]].to_csv(plain, index=False)
    wrong = tools.tacenda(
        "evaluate", home / "fitted", plain, "--label", "ill", "--private", "--epsilon", "1",
        "--ledger", ledger, "--dataset", "us",
    )  # fmt: skip
    assert wrong.exit_code == 2 and "never trained on" in wrong.stderr, wrong.output


def test_a_named_data_set_is_evaluated_on_its_test_part(tmp_path: Path, tools: Any) -> None:
    tc.fit(
        {
            "data": {"name": "breast_cancer"},
            "network": {"nodes": 2, "graph": "complete"},
            "privacy": {"epsilon": 8.0},
            "algorithm": {"name": "dpdda"},
            "run": {"folder": str(tmp_path / "run"), "rounds": 3},
        },
        progress=False,
    )
    found = tools.answer("evaluate", tmp_path / "run", "breast_cancer")
    assert found["records"] == 569 and 0 < found["measures"]["roc_auc"] <= 1
    wrong = tools.tacenda("predict", tmp_path / "run", "--data", "x.csv")
    assert wrong.exit_code == 2 and "holds no schema" in wrong.stderr


def test_the_page_is_written(home: Path, tools: Any) -> None:
    for name in ("ill", "visits"):
        out = home / f"{name}.html"
        found = tools.answer("evaluate", home / name, home / "people.csv", "--report", out)
        page = out.read_text("utf-8")
        assert found["report"] == str(out) and "without noise" in page and "<script" in page
        assert "Do not publish it" in page


def test_a_misspelt_file_or_column_is_named_as_one(tools: Any, home: Path) -> None:
    said = tools.tacenda("evaluate", home / "ill", "peple.csv").stderr
    assert "a file or a name of `tacenda datasets`, but 'peple.csv' is not there" in said
    people = home / "people.csv"
    said = tools.tacenda("predict", home / "ill", "--data", people, "--id", "idd").stderr
    assert said.strip().endswith("Did you mean 'id'?")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("predict", "{ill}", "--threshold", "2"), "--threshold must be strictly between"),
        (("predict", "{visits}", "--threshold", "0.3"), "--threshold is for models of two classes"),
        (("evaluate", "{ill}", "--private", "--epsilon", "-1"), "epsilon must be a number above 0"),
        (("fit", "--schema", "{schema}", "--ledger", "{home}/none/l.db"), "folder must exist"),
    ],
)
def test_wrong_flags_are_refused_before_the_records(
    tools: Any, home: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """Whoever reads this file to its end finds that it is no text."""
    header, *lines = (home / "people.csv").read_text().splitlines()
    file = tmp_path / "people.csv"
    file.write_bytes("\n".join([header, *lines * 400]).encode() + b"\n\xff\xfe,1,1,1\n")
    places = {"ill": home / "ill", "visits": home / "visits", "schema": home / "ill.toml"}
    asked = [w.format(**places, home=home) for w in words]
    asked += [file] if words[0] == "evaluate" else ["--data", file]
    asked += ["--epsilon", "1", "--nodes", "3"] if words[0] == "fit" else []
    found = tools.tacenda(*asked)
    assert found.exit_code != 0 and said in found.output, found.output
    late = tools.tacenda("predict", home / "ill", "--data", file)
    assert late.exit_code != 0 and "UTF-8" in late.output, late.output
