"""Under add-remove how many records there are is private:
nothing that a run writes or prints tells it."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import support
import tacenda as tc
from cli_tools import WITHOUT_COLOUR

RECORDS, DECLARED = 211, 100  # a prime number, so that every accuracy as a fraction has it below


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Path, str]:
    from typer.testing import CliRunner

    from tacenda.cli.app import app

    home = tmp_path_factory.mktemp("hidden")
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.uniform(0, 100):.3f},{'ab'[k % 2]},{'yes' if rng.random() < 0.4 else 'no'}"
        for k in range(RECORDS)
    ]
    (home / "people.csv").write_text("\n".join(["age,site,ill", *rows]))
    (home / "people.toml").write_text(WITHOUT_COLOUR)
    arguments = [
        "--data",
        home / "people.csv",
        "--schema",
        home / "people.toml",
        "--adjacency",
        "add-remove",
        "--algorithm",
        "dpdda",
        "--set",
        f"problem.public_size={DECLARED}",
        "--rounds",
        4,
        "--graph",
        "complete",
    ]
    said = ""
    for more in (
        ["--folder", home / "run"],
        ["--folder", home / "again", "--json"],
        ["--dry-run"],
        ["--dry-run", "--json"],
    ):
        found = CliRunner().invoke(app, ["fit", *map(str, [*arguments, *more])])
        assert found.exit_code == 0, found.output
        said += found.stdout
    return home / "run", said


def numbers(text: str) -> list[str]:
    return re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])", text)


def test_the_count_is_nowhere(folder: tuple[Path, str]) -> None:
    path, said = folder
    texts = {
        "the screen": said,
        **{
            str(f): f.read_text("utf-8")
            for f in path.rglob("*.*")
            if f.suffix in (".json", ".jsonl", ".toml")
        },
    }
    for where, text in texts.items():
        for number in numbers(text):
            assert number not in (str(RECORDS), str(RECORDS // 2), str(RECORDS // 2 + 1)), where


def _values(found: Any) -> list[tuple[str, float]]:
    if isinstance(found, dict):
        own = [
            (k, v)
            for k, v in found.items()
            if isinstance(v, (int, float)) and not isinstance(v, bool)
        ]
        return own + [pair for v in found.values() for pair in _values(v)]
    return [pair for v in found for pair in _values(v)] if isinstance(found, list) else []


def test_no_measure_is_fine_enough_to_tell_it(folder: tuple[Path, str]) -> None:
    """Found by attack: an accuracy of 0.578199... is 122/211 and nothing else."""
    path, _ = folder
    plain = [
        json.loads((path / "manifest.json").read_text()),
        *map(json.loads, (path / "metrics.jsonl").read_text().splitlines()),
    ]
    shares = ("roc_auc", "average_precision", "f1", "brier")
    measured = [
        (k, v)
        for k, v in _values(plain)
        if "accuracy" in k or "objective" in k or k in ("loss", "log_loss", *shares)
    ]
    assert len(measured) > 10 and {name for name, _ in measured} >= {*shares, "log_loss"}
    for name, value in measured:
        if "accuracy" in name or name in shares:
            assert Fraction(value).limit_denominator(1000).denominator <= 100, (name, value)
        else:
            assert float(f"{value:.2g}") == value, (name, value)
        # The objective of the model of zeros counts the records
        at_zero = math.log(2) * RECORDS / (2 * DECLARED)
        assert abs(value / at_zero - 1) > 1e-3 or value == float(f"{value:.1g}"), name


def test_a_result_of_python_has_coarse_measures_under_add_remove_only() -> None:
    problem = support.problem(4, public_sizes=20)

    def history(relation: str) -> list[dict[str, Any]]:
        privacy = tc.Privacy.from_noise(noise_multiplier=5.0, adjacency=relation)
        result = tc.simulate(
            problem,
            tc.graph.ring(4),
            tc.algorithms.DPDDA(),
            3,
            privacy,
            seed=0,
            metrics=("objective", "accuracy", "consensus"),
        )
        return result.history.rows

    hidden = history("add-remove")
    for row in hidden:
        assert row["accuracy"] == round(row["accuracy"], 2) and row["objective"] == float(
            f"{row['objective']:.2g}"
        )
    # Of released models only
    assert hidden[-1]["consensus"] != float(f"{hidden[-1]['consensus']:.2g}")
    assert any(row["accuracy"] != round(row["accuracy"], 2) for row in history("replace-one"))
