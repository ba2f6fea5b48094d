"""`fit`, `compare`, `predict`, `report` and `ledger` through a whole run folder."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda
from tacenda.data.features import within_unit_norm

SMALL = [
    "--data",
    "classification",
    "--set",
    "data.options={n = 200, features = 5}",
    "--nodes",
    "4",
    "--epsilon",
    "5",
]


def test_a_run_folder_holds_everything(tools: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    result = tools.tacenda("fit", *SMALL, "-a", "dpdda", "-T", 20, "-o", folder, "-q")
    assert result.exit_code == 0, result.output
    for word in (
        "noise-free optimum",
        "majority class",
        "dpdda",
        "(5, 1e-05, replace-one)",
        str(folder),
    ):
        assert word in result.output
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (
        manifest["format"] == "tacenda-run-1"
        and manifest["versions"]["tacenda"] == tacenda.__version__
    )
    assert [row["algorithm"] for row in manifest["table"]] == [None, None, "dpdda", None, None]
    entry = manifest["results"][0]
    loaded = tacenda.load(folder / entry["file"])
    assert len(entry["node_accuracy"]) == 4
    config = tomllib.loads((folder / "config.toml").read_text())
    assert config["algorithm"]["name"] == "dpdda" and config["algorithm"]["offset"] > 0
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["run"] == "dpdda-0" and [r["round"] for r in rows] == [
        r["round"] for r in loaded.history.rows
    ]
    ledger = json.loads((folder / "ledger.json").read_text())["dpdda-0"]
    assert ledger["epsilon"] == pytest.approx(5.0, rel=1e-6) and len(ledger["charges"]) >= 1
    assert (folder / "report.html").stat().st_size > 1000
    assert not (folder / "checkpoints").exists()


def test_the_table_is_what_the_models_give(tools: Any, tmp_path: Path) -> None:
    found = tools.answer(
        "fit", *SMALL, "-a", "dpdda", "-T", 10, "-o", tmp_path / "run", "--no-report", "-q"
    )
    ceiling, _, row, _, floor = found["table"]
    data = tacenda.data.load("classification", n=200, features=5)
    rows, _, scale = within_unit_norm(data.X, data.feature_names, 1.0, intercept=True)
    shards = tacenda.data.partition.even(rows, data.y, 4, seed=0)
    model = tacenda.load(found["results"][0]).model
    X, y = np.concatenate([x for x, _ in shards]), np.concatenate([y for _, y in shards])
    sign = 2.0 * y - 1
    objective = np.mean(np.log1p(np.exp(-sign * (X @ model)))) + 0.5e-5 * model @ model / scale**2
    assert row["objective"] == pytest.approx(objective, rel=1e-9)
    assert row["accuracy"] == pytest.approx(np.mean((X @ model > 0) == (y == 1)))
    assert floor["accuracy"] == pytest.approx(max(np.mean(y), 1 - np.mean(y)))
    assert ceiling["objective"] <= min(row["objective"], floor["objective"])


def test_the_file_the_flags_and_the_printed_configuration_agree(tools: Any, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    printed = tools.tacenda("fit", *SMALL, "-a", "cdpadmm", "-H", "penalty=0.2", "--print-config")
    file.write_text(printed.stdout)
    again = tools.tacenda("fit", file, "--print-config")
    assert again.exit_code == 0 and again.stdout == printed.stdout
    changed = tomllib.loads(
        tools.tacenda("fit", file, "-T", "7", "--epsilon", "2", "--print-config").stdout
    )
    assert (
        changed["run"]["rounds"],
        changed["privacy"]["epsilon"],
        changed["algorithm"]["penalty"],
    ) == (7, 2.0, 0.2)
    other = tomllib.loads(tools.tacenda("fit", file, "-a", "dpdda", "--print-config").stdout)
    assert "penalty" not in other["algorithm"]


def test_a_dry_run_writes_nothing(tools: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    found = tools.answer("fit", *SMALL, "-a", "dpdda", "-T", 10, "-o", folder, "--dry-run")
    assert found["runs"][0]["messages"] > 0 and not folder.exists()
    assert "Nothing was run" in tools.tacenda("compare", *SMALL, "--dry-run").output
    several = tools.tacenda("compare", *SMALL, "--dry-run", "-a", "gossipgd", "-a", "treegd,dpdda")
    assert all(name in several.output for name in ("gossipgd", "treegd", "dpdda"))


def test_resume_of_a_folder_that_is_not_there_says_so(tools: Any, tmp_path: Path) -> None:
    found = tools.tacenda("fit", "--resume", "--folder", tmp_path / "none")
    assert found.exit_code == 2
    assert "leave --resume out to start a new run" in " ".join(found.stderr.split())


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (["--epsilon", 0.001], "Too much noise: at epsilon=0.001"),
        (["--delta", 0.9], "delta=0.9 is above one over the number of records (200)"),
    ],
)
def test_a_useless_budget_is_said_before_a_run_and_by_it(
    budget: list[Any], words: str, tools: Any, tmp_path: Path
) -> None:
    asked = ["fit", *SMALL, "-a", "dpdda", "-T", 5, *budget]
    assert words in tools.tacenda(*asked, "--dry-run").stderr
    assert any(words in note for note in tools.answer(*asked, "--dry-run")["notes"])
    assert words in tools.tacenda(*asked, "-o", tmp_path / "run", "--no-references").stderr


COMPARE = [
    "compare",
    *SMALL,
    "-A",
    "dpdda,cdpadmm",
    "-T",
    "8",
    "--seed",
    "0",
    "--seed",
    "1",
    "-q",
    "--no-report",
]


def test_a_comparison_gives_mean_and_range_at_one_promise(tools: Any, tmp_path: Path) -> None:
    alone = tools.answer(*COMPARE, "-o", tmp_path / "one", "-j", 1)
    rows = [row for row in alone["table"] if row["algorithm"]]
    assert [row["label"] for row in rows] == ["dpdda", "cdpadmm"]
    for row in rows:
        low, high = row["objective_range"]
        assert low < row["objective"] < high and row["seeds"] == 2
        assert row["epsilon"] == pytest.approx(5.0, rel=1e-6)


@pytest.mark.slow
def test_runs_side_by_side_give_the_same_models(tools: Any, tmp_path: Path) -> None:
    alone = tools.answer(*COMPARE, "-o", tmp_path / "one", "-j", 1)
    together = tools.answer(*COMPARE, "-o", tmp_path / "two", "-j", 2)
    for one, two in zip(alone["results"], together["results"], strict=True):
        assert np.array_equal(tacenda.load(one).models, tacenda.load(two).models)


def test_used_folders_are_not_overwritten_and_finished_ones_resume_for_nothing(
    tools: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    arguments = ["fit", *SMALL, "-a", "dpdda", "-T", "5", "-o", folder, "-q", "--no-report"]
    assert tools.tacenda(*arguments).exit_code == 0
    refused = tools.tacenda(*arguments)
    assert refused.exit_code == 2 and "--resume" in refused.stderr
    before = (folder / "results" / "dpdda-0.safetensors").stat().st_mtime_ns
    assert tools.tacenda("fit", "--resume", "-o", folder, "-q", "--no-report").exit_code == 0
    assert (folder / "results" / "dpdda-0.safetensors").stat().st_mtime_ns == before
    other = tools.tacenda("fit", *SMALL, "-a", "dpdda", "-T", "6", "-o", folder, "--resume")
    assert other.exit_code == 4 and "run.rounds" in other.stderr


def test_interrupted_runs_keep_a_checkpoint_and_go_on_to_the_same_bits(
    tools: Any, tmp_path: Path
) -> None:
    folder, whole = tmp_path / "cut", tmp_path / "whole"
    arguments = [
        "fit",
        *SMALL,
        "-a",
        "dpdda",
        "-T",
        "1200",
        "-q",
        "--no-report",
        "--set",
        "run.record_every=0",
    ]
    # A checkpoint after every call of some rounds, and Ctrl-C right after the first, however quick
    # the rounds are. A shell that starts the tests in its background leaves Ctrl-C ignored, which
    # children inherit: it is switched on again.
    code = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import tacenda.runtime.loop as loop
from tacenda.cli import main

loop.SAVE_SECONDS = -1.0
write = loop.Checkpointer.write

def write_and_interrupt(self):
    write(self)
    loop.Checkpointer.write = write
    os.kill(os.getpid(), signal.SIGINT)

loop.Checkpointer.write = write_and_interrupt
main()
"""
    stopped = subprocess.run(
        [sys.executable, "-c", code, *arguments, "-o", str(folder)],
        stderr=subprocess.PIPE,
        text=True,
        timeout=180,
    )
    text = stopped.stderr
    assert stopped.returncode == 130, text
    assert "--resume" in text and (folder / "checkpoints" / "dpdda-0.ckpt").is_file()
    assert tools.tacenda("report", folder).exit_code == 4
    assert tools.tacenda("fit", "--resume", "-o", folder, "-q", "--no-report").exit_code == 0
    assert tools.tacenda(*arguments, "-o", whole).exit_code == 0
    one, two = (tacenda.load(f / "results" / "dpdda-0.safetensors") for f in (folder, whole))
    assert np.array_equal(one.models, two.models)
    assert (
        one.privacy is not None
        and two.privacy is not None
        and one.privacy.epsilon == two.privacy.epsilon
    )


def test_refused_runs_leave_nothing_behind(tools: Any, tmp_path: Path) -> None:
    ledger, folder = tmp_path / "l.ledger", tmp_path / "run"
    assert (
        tools.tacenda("ledger", "budget", ledger, "--dataset", "d", "--epsilon", 4).exit_code == 0
    )
    arguments = ["--set", f"run.ledger='{ledger}'", "--set", "run.ledger_dataset=d"]
    refused = tools.tacenda("fit", *SMALL, "-a", "dpdda", "-T", "3", "-o", folder, *arguments)
    assert refused.exit_code == 3 and "budget" in refused.stderr and not folder.exists()
    assert tools.answer("ledger", "show", ledger)["datasets"][0]["runs"] == []
    allowed = tools.tacenda(
        "fit", *SMALL, "-e", "3", "-a", "dpdda", "-T", "3", "-o", folder, "--no-report", *arguments
    )
    assert allowed.exit_code == 0, allowed.output
    shown = tools.answer("ledger", "show", ledger)["datasets"][0]
    assert shown["epsilon"] == pytest.approx(3.0, rel=1e-6) and shown["budget"]["epsilon"] == 4
    assert tools.answer("ledger", "verify", ledger)["ok"]
    lines = tools.tacenda("ledger", "export", ledger).stdout.splitlines()
    assert len(lines) == tools.answer("ledger", "verify", ledger)["rows"] and all(
        json.loads(line) for line in lines
    )
    assert tools.tacenda("ledger", "show", tmp_path / "absent").exit_code == 2


def test_tampering_with_a_ledger_is_named(tools: Any, tmp_path: Path) -> None:
    import sqlite3

    ledger = tmp_path / "l.ledger"
    assert (
        tools.tacenda("ledger", "budget", ledger, "--dataset", "d", "--epsilon", 4).exit_code == 0
    )
    with sqlite3.connect(ledger) as database:
        for (trigger,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        database.execute("UPDATE rows SET body = replace(body, '4.0', '9.0')")
    database.close()
    found = tools.tacenda("ledger", "verify", ledger)
    assert found.exit_code == 4 and "row 1" in found.stderr


@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge"])
def test_predictions_of_new_records(tools: Any, tmp_path: Path, loss: str) -> None:
    table, schema = tools.write_people(tmp_path, tools.people(300))
    folder = tmp_path / "run"
    fitted = tools.tacenda(
        "fit",
        "--data",
        table,
        "--schema",
        schema,
        "--intercept",
        "--no-privacy",
        "--loss",
        loss,
        "-a",
        "admm",
        "-T",
        60,
        "--graph",
        "complete",
        "-o",
        folder,
        "-q",
        "--no-report",
    )
    assert fitted.exit_code == 0, fitted.output
    new = tmp_path / "new.csv"
    new.write_text("age,colour\n95,red\n3,green\n")
    found = tools.answer("predict", folder, "--data", new)
    assert found["predictions"]["prediction"] == ["yes", "no"]
    out = tmp_path / "out.csv"
    assert tools.tacenda("predict", folder, "--data", new, "--out", out, "--node", 1).exit_code == 0
    assert out.read_text().splitlines()[0].startswith("prediction,")
    assert tools.tacenda("predict", folder, "--data", new, "--node", 9).exit_code == 2
    assert tools.tacenda("predict", folder, "--data", new, "--run", "nobody-0").exit_code == 2
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["dataset"]["node_labels"] == ["A", "B", "C"]
