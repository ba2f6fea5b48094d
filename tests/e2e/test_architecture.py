"""docs/architecture.md: the path of a record is the one that runs take, and every package stands on
the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node_stage import Crowd, small_contract
from traced import SOURCES, traced, traced_member

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text("utf-8")
SCHEMA = """name = "patients"

[label]
name = "ill"
classes = ["no", "yes"]

[[columns]]
kind = "numeric"
name = "age"
low = 0
high = 100
"""


def path_of(kind: str) -> list[str]:
    """`file.py: function` of the second column of a table of the page, from top to bottom."""
    section = PAGE.partition(f"## Path of a record: {kind}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[2] for line in section.splitlines() if line.startswith("| ")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def check(kind: str, trace: list[str]) -> None:
    written = path_of(kind)
    assert len(written) > 15
    assert [name for name in written if name not in trace] == [], "no run goes through these"
    assert written == sorted(written, key=trace.index), "the page has another order than the run"


def test_a_simulation_takes_the_path_on_the_page(tmp_path: Path, tools: Any) -> None:
    rng = np.random.default_rng(0)
    ages, ill = rng.integers(20, 90, 80), rng.choice(["no", "yes"], 80)
    lines = [f"{age},{answer}" for age, answer in zip(ages, ill, strict=True)]
    (tmp_path / "patients.csv").write_text("\n".join(["age,ill", *lines, ""]), "utf-8")
    (tmp_path / "patients.toml").write_text(SCHEMA, "utf-8")

    def fit(folder: str) -> None:
        files = "--data", tmp_path / "patients.csv", "--schema", tmp_path / "patients.toml"
        how = "--nodes", "4", "--epsilon", "2", "-T", "3", "-a", "dpdda", "--no-cache", "--quiet"
        result = tools.tacenda("fit", *files, *how, "--folder", tmp_path / folder)
        assert result.exit_code == 0, result.output

    fit("first")  # so that what is called while modules are imported is not on the path
    check("simulation", traced(lambda: fit("second")))


def test_a_peer_takes_the_path_on_the_page(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path, small_contract(rounds=3))
    try:
        crowd.start("m1", "m2")
        crowd.start_as("m0", traced_member, str(tmp_path / "trace.json"))
        assert set(crowd.wait().values()) == {0}, crowd.output("m0")
    finally:
        crowd.stop()
    check("peer", json.loads((tmp_path / "trace.json").read_text("utf-8")))


@pytest.mark.parametrize("package", ["tacenda", "tacenda_node", "tacenda_papers"])
def test_every_package_stands_on_the_page(package: str) -> None:
    table = PAGE.partition("## The packages\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    named = {name.split("/")[0] for cell in rows for name in re.findall(r"`([^`]+)`", cell)}
    there = {file.parent.name for file in (Path(SOURCES) / package).glob("*/*.py")}
    assert {package, *there} <= named
    folders = {
        file.name for one in Path(SOURCES).glob("tacenda*") for file in [one, *one.iterdir()]
    }
    assert named <= folders, "the page names a package that is not there"
