"""`tc.fit`, `tc.compare` and `result.report`: what the command line does, as library calls."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.errors import InputError
from tacenda.formats.text import toml
from tacenda.runs import read


def config(folder: Path, **run: Any) -> dict[str, Any]:
    return {
        "data": {"name": "classification", "options": {"n": 200, "features": 4}},
        "network": {"graph": "complete", "nodes": 4},
        "algorithm": {"name": "dpdda"},
        "privacy": {"epsilon": 5.0},
        "run": {"rounds": 4, "folder": str(folder), **run},
    }


def test_fit_gives_results_a_table_and_a_folder(tmp_path: Path) -> None:
    fitted = tc.fit(config(tmp_path / "a", seeds=[0, 1]), progress=False)
    assert list(fitted.results) == ["dpdda-0", "dpdda-1"]
    assert fitted.path == tmp_path / "a"
    assert fitted.result.privacy is not None and fitted.result.privacy.epsilon == pytest.approx(
        5.0, rel=1e-6
    )
    assert [row["label"] for row in fitted.table if row["algorithm"]] == ["dpdda"]
    manifest = json.loads((fitted.path / "manifest.json").read_text())
    assert manifest["command"] == "tacenda fit"
    assert [row["label"] for row in manifest["table"]] == [row["label"] for row in fitted.table]
    stored = tc.load(fitted.folder.result_path("dpdda-1"))
    np.testing.assert_array_equal(stored.models, fitted.results["dpdda-1"].models)
    assert "dpdda-0" in repr(fitted)


def test_a_file_a_dict_and_a_configuration_are_the_same_run(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(toml(config(tmp_path / "file")))
    given = [
        tmp_path / "run.toml",
        config(tmp_path / "dict"),
        read.build(config(tmp_path / "built")),
    ]
    models = [tc.fit(source, progress=False).result.models for source in given]
    np.testing.assert_array_equal(models[0], models[1])
    np.testing.assert_array_equal(models[0], models[2])


def test_the_folder_is_a_configuration_that_resumes(tmp_path: Path) -> None:
    first = tc.fit(config(tmp_path / "a"), progress=False)
    again = tc.fit(first.path, resume=True, progress=False)
    np.testing.assert_array_equal(first.result.models, again.result.models)
    with pytest.raises(InputError, match="not empty"):
        tc.fit(config(tmp_path / "a"), progress=False)


def test_compare_takes_names_or_the_configurations_own(tmp_path: Path) -> None:
    named = tc.compare(config(tmp_path / "a"), ["dpdda", "cdpadmm"], progress=False)
    assert list(named.results) == ["dpdda-0", "cdpadmm-0"]
    own = {**config(tmp_path / "b"), "compare": [{"name": "dpdda", "rounds": 3, "label": "short"}]}
    assert list(tc.compare(own, progress=False).results) == ["short-0"]
    own["run"]["folder"] = str(tmp_path / "c")
    assert list(tc.fit(own, progress=False).results) == ["dpdda-0"]
    stored = tomllib.loads((tmp_path / "c" / "config.toml").read_text())
    assert "compare" not in stored or stored["compare"] == []


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no configuration file"):
        tc.fit(tmp_path / "none.toml")
    with pytest.raises(InputError, match="did you mean 'epsilon'"):
        tc.fit({"privacy": {"epsilom": 1.0}})


def test_reports_of_a_run_folder_and_of_one_result(tmp_path: Path) -> None:
    fitted = tc.fit(config(tmp_path / "a"), progress=False)
    assert fitted.report() == fitted.path / "report.html"
    (tmp_path / "one").mkdir()
    page = fitted.result.report(tmp_path / "one" / "page.html")
    text = page.read_text("utf-8")
    assert "<title>dpdda" in text and "ε" in text
    assert [p.name for p in page.parent.iterdir()] == ["page.html"]


def test_the_guides_snippet_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "cli.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for snippet in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(compile(snippet, "cli.md", "exec"), names)
    assert (tmp_path / "runs" / "python" / "report.html").is_file()


def test_without_privacy_a_fit_is_the_optimum_and_says_so(tmp_path: Path) -> None:
    values = config(tmp_path / "open")
    del values["algorithm"]
    values.update(privacy={"private": False}, problem={"clip_norm": 0.1, "strength": 1e-4})
    values["run"] = {"folder": str(tmp_path / "open")}
    fitted = tc.fit(values, progress=False)
    row = next(row for row in fitted.table if row["algorithm"] == "optimum")
    assert abs(row["suboptimality"]) < 1e-7 and row["epsilon"] is None
    assert float(fitted.result.released["gradient_norm"][0]) < 1e-5
    assert "the optimum of the objective" in " ".join(fitted.reasons["optimum"])
    assert [r["label"] for r in fitted.table if r["algorithm"] is None] == [
        "noise-free optimum (ceiling)",
        "majority class (floor)",
    ]


def test_named_methods_say_why_and_the_parts_of_the_time_add_up(tmp_path: Path) -> None:
    values = config(tmp_path / "named")
    values["algorithm"], values["run"] = {"name": "cdpadmm"}, {"folder": str(tmp_path / "named")}
    fitted = tc.fit(values, progress=False)
    assert "Total step" in fitted.reasons["cdpadmm"][0]
    manifest = json.loads((fitted.path / "manifest.json").read_text())
    assert manifest["reasons"] == fitted.reasons
    parts = {name: spent for name, spent in fitted.timing.items() if name != "total"}
    assert sum(parts.values()) == pytest.approx(fitted.timing["total"], abs=0.01)
    assert parts["reading"] > 0 and parts["rounds"] > 0 and parts["references"] > 0
    assert set(manifest["timing"]) == set(fitted.timing)
