"""`tacenda describe` as it is typed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_tools import answer, tacenda

SCHEMA = """
[[columns]]
kind = "numeric"
name = "age"
low = 0.0
high = 100.0
[[columns]]
kind = "categorical"
name = "arm"
levels = ["a", "b"]
[label]
name = "ill"
classes = ["no", "yes"]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, 2000).round(1),
            "arm": rng.choice(["a", "b"], 2000),
            "ill": rng.choice(["no", "yes"], 2000),
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_table_is_printed_and_written(here: Path) -> None:
    words = "t.csv --by arm -e 1 --nodes 3 --seed 0 -o t.html -o table.md"
    found = tacenda("describe", *words.split())
    assert found.exit_code == 0, found.output
    assert "arm = a" in found.stdout and "age: mean" in found.stdout and "epsilon 1" in found.stdout
    assert "no ledger was given" in found.stdout
    assert (here / "t.html").exists() and "age: mean" in (here / "table.md").read_text()


def test_a_plan_reads_no_records(here: Path) -> None:
    (here / "t.csv").unlink()
    words = ["describe", "--by", "arm", "-e", "1", "--plan", "--records", "300"]
    assert "too noisy to read" in tacenda(*words).stdout
    assert answer(*words)["unreadable"] == ["age", "ill"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("t.csv", "either --epsilon"),
        ("t.csv -e 1 --public", "either --epsilon"),
        ("-e 1", "DATA must name"),
        ("t.csv -e 1 --plan", "--plan needs --records"),
        ("t.csv -e 1 --quantiles half", "numbers between commas"),
        ("t.csv -e 0.05 --by arm", "Nothing was spent"),
    ],
)
def test_what_is_missing_is_named(here: Path, words: str, said: str) -> None:
    found = tacenda("describe", *words.split())
    assert found.exit_code != 0
    assert said in found.output + str(found.exception)
