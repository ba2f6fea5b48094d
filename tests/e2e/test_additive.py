"""Additive models by flags and by TOML, from a file to predictions and shapes; and on real
processes under a contract, with the simulator's bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from engine_stage import free_port
from node_stage import Crowd, simulated, small_contract
from tacenda.data.columns import CategoricalColumn, NumericColumn
from tacenda.data.label import Label
from tacenda.data.schema import Schema
from tacenda.runtime.run_folder import RunFolder

N = 4000


def table(folder: Path) -> tuple[Path, Path]:
    """Records whose class no straight line follows, and their schema."""
    rng = np.random.default_rng(0)
    age, ward = rng.uniform(20, 80, N), rng.choice(["n", "s"], N)
    score = np.abs(age - 50) / 5 - 3 + np.where(ward == "s", 1.0, 0.0)
    ill = score + rng.logistic(size=N) > 0
    lines = [f"{a:.2f},{w},{'yes' if i else 'no'}" for a, w, i in zip(age, ward, ill, strict=True)]
    (folder / "people.csv").write_text("\n".join(["age,ward,ill", *lines]) + "\n")
    schema = Schema(
        columns=(
            NumericColumn(name="age", low=20, high=80, confirmed=True),
            CategoricalColumn(name="ward", levels=("n", "s"), confirmed=True),
        ),
        label=Label(name="ill", classes=("no", "yes"), confirmed=True),
    )
    schema.write(folder / "people.toml")
    return folder / "people.csv", folder / "people.toml"


def auc_of(tools: Any, folder: Path, csv: Path) -> float:
    out = folder.with_suffix(".csv")
    done = tools.tacenda("predict", folder, "--data", csv, "-o", out)
    assert done.exit_code == 0, done.output
    rows = [line.split(",") for line in out.read_text().splitlines()]
    column = rows[0].index("probability yes")
    chances = [float(row[column]) for row in rows[1:]]
    truth = [line.endswith("yes") for line in csv.read_text().splitlines()[1:]]
    return float(roc_auc_score(truth, chances))


def test_flags_learn_a_curve_that_predicts_and_is_shown(tools: Any, tmp_path: Path) -> None:
    csv, schema = table(tmp_path)
    common = ["fit", "--data", csv, "--schema", schema, "--epsilon", 2, "--nodes", 4, "--seed", 1]
    common += ["-q", "--no-report"]
    tools.answer(*common, "--model", "additive", "-o", tmp_path / "curves")
    tools.answer(*common, "-o", tmp_path / "lines")
    curves, lines = (auc_of(tools, tmp_path / name, csv) for name in ("curves", "lines"))
    assert curves > 0.85 > 0.7 > lines
    told = tools.answer("shapes", tmp_path / "curves")
    assert [shape["column"] for shape in told["shapes"]] == ["age", "ward"]
    age = told["shapes"][0]
    heights = dict(zip(np.round(age["x"]), age["y"][0], strict=True))
    assert heights[20] > heights[50] + 3 and heights[80] > heights[50] + 3
    refused = tools.tacenda("shapes", tmp_path / "lines")
    assert refused.exit_code == 2 and "tacenda coefficients" in refused.stderr
    kept = Schema.read(RunFolder.open(tmp_path / "curves").schema_path)
    assert kept.additive


def test_a_toml_file_says_it(tools: Any, tmp_path: Path) -> None:
    csv, schema = table(tmp_path)
    (tmp_path / "run.toml").write_text(
        f"""
[data]
file = "{csv}"
schema = "{schema}"
[problem]
model = "additive"
[privacy]
epsilon = 2.0
[network]
nodes = 4
"""
    )
    found = tools.answer("fit", tmp_path / "run.toml", "-q", "--no-report", "-o", tmp_path / "run")
    assert found
    assert auc_of(tools, tmp_path / "run", csv) > 0.85
    assert 'model = "additive"' in (tmp_path / "run" / "config.toml").read_text()


def test_auto_takes_curves_where_the_records_carry_them_and_says_so(
    tools: Any, tmp_path: Path
) -> None:
    csv, schema = table(tmp_path)
    common = ["fit", "--data", csv, "--schema", schema, "--model", "auto", "--nodes", 4]
    common += ["--seed", 1, "-q", "--no-report"]
    for epsilon, form, said in ((2, "additive", "curves"), (0.05, "linear", "straight lines")):
        ahead = tools.answer(*common, "--epsilon", epsilon, "--dry-run")
        assert any(f"took {said}: noise is forecast" in note for note in ahead["notes"])
        out = tmp_path / form
        done = tools.tacenda(*common, "--epsilon", epsilon, "-o", out)
        assert done.exit_code == 0, done.output
        assert f"Note: problem.model 'auto' took {said}" in done.stdout
        assert f'model = "{form}"' in (out / "config.toml").read_text()
        assert Schema.read(RunFolder.open(out).schema_path).additive == (form == "additive")
    ahead = tools.answer("fit", "--data", "breast_cancer", "--model", "auto", "--dry-run")
    assert "no schema declares columns" in ahead["notes"][0]


def test_data_without_a_schema_has_no_columns_to_bend(tools: Any) -> None:
    refused = tools.tacenda("fit", "--data", "a9a", "--model", "additive", "--epsilon", 1)
    assert refused.exit_code == 2
    assert "problem.model 'additive'" in refused.stderr and "--schema" in refused.stderr


def test_members_learn_it_with_the_simulators_bits(tmp_path: Path) -> None:
    declared = Schema(
        columns=(
            NumericColumn(name="x0", low=0, high=1, hats=6, atoms=(0.0,)),
            CategoricalColumn(name="ward", levels=("n", "s")),
        ),
        label=Label(name="y", classes=("no", "yes")),
    )
    made = declared.as_model("additive")
    contract = small_contract(
        3,
        rounds=4,
        schema_hash=made.hash(),
        algorithm={"name": "treegd"},
        prepare={"name": "whitening", "share": 0.2},
        privacy={"epsilon": 5.0, "delta": 1e-5, "coalition": 1},
        problem={
            "model": "additive",
            "n_features": len(made.feature_names),
            "row_scale": made.row_scale,
            "classes": ["no", "yes"],
            "strength": 0.01,
        },
    )
    crowd = Crowd(tmp_path / "crowd", contract, seed=5, schema=declared)
    crowd.start()
    found = crowd.finish()
    assert found.shape == (3, 6 + 1 + 2 + 1)
    np.testing.assert_array_equal(found, simulated(crowd.stage, seed=5))


@pytest.mark.slow
def test_three_organisations_learn_curves_by_commands_alone(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    csv, schema = table(tmp_path)
    head, *rows = csv.read_text().splitlines()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.chdir(tmp_path)
    Path("terms.toml").write_text('[problem]\nmodel = "additive"\n')
    names = ["north", "east", "south"]
    given = {}
    for k, name in enumerate(names):
        Path(f"{name}.csv").write_text("\n".join([head, *rows[k::3]]) + "\n")
        given[name] = ["--name", name, "--data", f"{name}.csv", "--budget", "4"]
        given[name] += ["--address", f"localhost:{free_port()}"]

    def done(*words: Any) -> str:
        result = tools.tacenda(*words)
        assert result.exit_code == 0, result.output
        return str(result.stdout)

    study = ["--title", "study", "--member", "east", "--member", "south", "--schema", schema]
    done("consortium", "new", *given["north"], *study, "--epsilon", "2", "--terms", "terms.toml")
    for name in names[1:]:
        done("consortium", "join", "north/study.invite", *given[name])
    done("consortium", "draft", "east/east.card", "south/south.card", "--folder", "north")
    for name in names[1:]:
        done("consortium", "accept", "north/contract.toml", "--folder", name, "--yes")
    source = str(Path(__file__).parents[2] / "src")
    env = {**os.environ, "NUMBA_NUM_THREADS": "1", "PYTHONPATH": source}
    command = [sys.executable, "-m", "tacenda", "node", "run", "--quiet"]
    nodes = [subprocess.Popen([*command, name], env=env) for name in names]
    assert [node.wait(timeout=600) for node in nodes] == [0, 0, 0]
    told = tools.answer("shapes", "north/state")["shapes"]
    assert [shape["column"] for shape in told] == ["age", "ward"]
    age = dict(zip(np.round(told[0]["x"]), told[0]["y"][0], strict=True))
    assert age[20] > age[50] + 2 and age[80] > age[50] + 2
    done("predict", "south/state", "--data", csv, "-o", "all.csv")
    assert done("evidence", "east", "-o", "pack")
    assert "no difference" in done("evidence", "check", "pack")
