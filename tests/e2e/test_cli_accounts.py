"""One file under several schemas, by the command line: one account, found without its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cli_tools import SCHEMA


def test_a_file_meets_its_account_under_every_schema(tools: Any, tmp_path: Path) -> None:
    table, schema = tools.write_people(tmp_path)
    ledger = tmp_path / "l.ledger"
    made = tools.tacenda("ledger", "budget", ledger, "--dataset", "d", "--epsilon", 40)
    assert made.exit_code == 0 and "for one record" in made.stdout

    def fit(name: str, text: str, *more: str) -> Any:
        schema.write_text(text, "utf-8")
        where = ["--data", table, "--schema", schema, "-o", tmp_path / name, "-q", "--no-report"]
        how = ["-a", "dpdda", "-T", "2", "--epsilon", "5", "--graph", "complete"]
        return tools.tacenda("fit", *where, *how, "--set", f"run.ledger='{ledger}'", *more)

    refused = fit("first", SCHEMA)
    assert refused.exit_code == 3, refused.output
    assert "these records have no name" in refused.stderr
    assert "run.ledger_dataset" in refused.stderr
    named = fit("second", SCHEMA, "--set", "run.ledger_dataset=d")
    assert named.exit_code == 0, named.output
    others = {
        "rescaled": SCHEMA.replace("high = 100.0", "high = 90.0"),
        "classes": SCHEMA.replace('classes = ["no", "yes"]', 'classes = ["yes", "no"]'),
        "intercept": f"intercept = true\n{SCHEMA}",
    }
    for name, text in others.items():
        assert text != SCHEMA
        found = fit(name, text)
        assert found.exit_code == 0, found.output
    shown = tools.answer("ledger", "show", ledger)["datasets"]
    assert [one["dataset"] for one in shown] == ["d"] and shown[0]["unit"] == "one record"
    assert len(shown[0]["runs"]) == 4
