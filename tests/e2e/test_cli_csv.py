"""A user's own file through `tacenda fit --data my.csv --schema s.toml`: every flaw gets a helpful
sentence or a right result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def fit(tools: Any, folder: Path, table: Path, schema: Path, *more: str) -> Any:
    return tools.tacenda(
        "fit",
        "--data",
        table,
        "--schema",
        schema,
        "-a",
        "dpdda",
        "-T",
        "3",
        "--epsilon",
        "5",
        "--graph",
        "complete",
        "-q",
        "--no-report",
        "-o",
        folder / "run",
        *more,
    )


def sentence(tools: Any, folder: Path, table: Path, schema: Path, *more: str) -> str:
    result = fit(tools, folder, table, schema, *more)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr and not (folder / "run").exists()
    assert len(result.stderr.strip().splitlines()) == 1
    return str(result.stderr)


def test_a_good_file_is_learnt_from_by_its_holders(tools: Any, tmp_path: Path) -> None:
    table, schema = tools.write_people(tmp_path)
    result = fit(tools, tmp_path, table, schema)
    assert result.exit_code == 0, result.output
    assert "60 records x 3 features, 3 nodes" in result.output


def test_a_number_of_nodes_beside_a_node_column_must_be_its_own(tools: Any, tmp_path: Path) -> None:
    table, schema = tools.write_people(tmp_path)
    for more in ((), ("--dry-run",)):
        text = sentence(tools, tmp_path, table, schema, "--nodes", "12", *more)
        assert "--nodes) is 12" in text and "names 3 nodes" in text and "partition" in text
    agreed = fit(tools, tmp_path, table, schema, "--nodes", "3", "--dry-run")
    assert agreed.exit_code == 0, agreed.output
    even = fit(tools, tmp_path, table, schema, "--nodes", "12", "--set", "network.partition=even")
    assert even.exit_code == 0 and "12 nodes" in even.output, even.output


def test_a_public_file_tunes_the_step_and_is_said_to_have_no_protection(
    tools: Any, tmp_path: Path
) -> None:
    table, schema = tools.write_people(tmp_path)
    public = tmp_path / "public.csv"
    public.write_text("\n".join(tools.people(90)) + "\n")
    common = ["fit", "--data", table, "--schema", schema, "--public", public, "--epsilon", 5]
    looked = tools.answer(*common, "--dry-run")
    assert any("public sample of 90 records" in why for why in looked["runs"][0]["reasons"])
    done = tools.answer(*common, "-q", "--no-report", "-o", tmp_path / "run")
    for notes in (looked["notes"], done["notes"]):
        assert any("public.csv" in note and "no protection" in note for note in notes)
    again = tools.answer("fit", "--resume", "--no-report", "-o", tmp_path / "run")
    assert again["table"][1]["accuracy"] == done["table"][1]["accuracy"]
    for wrong in (["-a", "dpdda"], ["--no-privacy"]):
        refused = tools.tacenda(*common, *wrong)
        assert refused.exit_code == 2 and "--public" in refused.stderr, refused.output


def test_wrong_columns(tools: Any, tmp_path: Path) -> None:
    lines = tools.people()
    table, schema = tools.write_people(tmp_path, ["years,colour,ill,site", *lines[1:]])
    text = sentence(tools, tmp_path, table, schema)
    assert "'age'" in text and "'years'" in text


def test_unknown_levels(tools: Any, tmp_path: Path) -> None:
    lines = [*tools.people(), "30,violet,no,A"]
    table, schema = tools.write_people(tmp_path, lines)
    text = sentence(tools, tmp_path, table, schema)
    assert "colour" in text and "61" in text and "violet" not in text  # no cell may reach a log
    wider = tools.SCHEMA.replace(
        'levels = ["red", "green"]', 'levels = ["red", "green"]\nunknown = "column"'
    )
    table, schema = tools.write_people(tmp_path, lines, wider)
    assert fit(tools, tmp_path, table, schema).exit_code == 0


def test_values_out_of_bounds_are_clipped(tools: Any, tmp_path: Path) -> None:
    table, schema = tools.write_people(tmp_path, [*tools.people(), "900,red,yes,A", "-3,red,no,B"])
    result = fit(tools, tmp_path, table, schema)
    assert result.exit_code == 0 and "62 records" in result.output


def test_missing_values_are_dropped_or_refused_as_declared(tools: Any, tmp_path: Path) -> None:
    lines = [*tools.people(), ",red,yes,A"]
    table, schema = tools.write_people(tmp_path, lines)
    result = fit(tools, tmp_path, table, schema)
    assert (
        result.exit_code == 0 and "60 records" in result.output and "were dropped" in result.output
    )
    strict = tools.SCHEMA.replace('name = "people"', 'name = "people"\nmissing = "error"')
    table, schema = tools.write_people(tmp_path, lines, strict)
    text = tools.tacenda(
        "fit", "--data", table, "--schema", schema, "-o", tmp_path / "other"
    ).stderr
    assert "61" in text and "missing" in text


def test_one_class_only_is_learnt_because_the_classes_are_declared(
    tools: Any, tmp_path: Path
) -> None:
    lines = [line.replace(",yes,", ",no,") for line in tools.people()]
    table, schema = tools.write_people(tmp_path, lines)
    assert fit(tools, tmp_path, table, schema).exit_code == 0
    draft = tools.tacenda("schema", "draft", table, "--label", "ill")
    assert draft.exit_code == 2 and "classes" in draft.stderr


def test_a_node_with_one_record(tools: Any, tmp_path: Path) -> None:
    table, schema = tools.write_people(tmp_path, [*tools.people(), "40,red,no,Z"])
    result = fit(tools, tmp_path, table, schema)
    assert result.exit_code == 0 and "4 nodes" in result.output


def test_a_small_node_among_large_ones_is_pointed_out(tools: Any, tmp_path: Path) -> None:
    header, *people = tools.people()
    lines = [header, *(line.rsplit(",", 1)[0] + ",A" for line in people), "30,red,no,B"]
    table, schema = tools.write_people(tmp_path, lines)
    assert "smallest node holds 1 of 61 records" in fit(tools, tmp_path, table, schema).output


def test_a_drafted_regression_learns_and_predicts_in_the_labels_own_unit(
    tools: Any, tmp_path: Path
) -> None:
    table, schema, folder = tmp_path / "pay.csv", tmp_path / "pay.toml", tmp_path / "run"
    rows = [(k % 41, 20_000 + 800 * (k % 41)) for k in range(2000)]
    table.write_text("years,pay\n" + "".join(f"{years},{pay}\n" for years, pay in rows))
    assert tools.tacenda("schema", "draft", table, "--label", "pay", "-o", schema).exit_code == 0
    learnt = tools.tacenda(
        "fit",
        "--data",
        table,
        "--schema",
        schema,
        "--nodes",
        "4",
        "-e",
        "4",
        "-q",
        "--no-report",
        "-o",
        folder,
    )
    assert learnt.exit_code == 0, learnt.output
    found = json.loads(tools.tacenda("predict", folder, "--data", table, "--json").stdout)[
        "predictions"
    ]["prediction"]
    errors = [abs(guess - pay) for guess, (_, pay) in zip(found, rows, strict=True)]
    assert sum(errors) / len(errors) < 4000  # always guessing the middle errs by 8200 on average
    plain = schema.read_text().replace('scale_to = "symmetric"\n', "", 1)
    schema.write_text(plain)
    noted = tools.tacenda(
        "fit",
        "--data",
        table,
        "--schema",
        schema,
        "--nodes",
        "4",
        "-q",
        "--no-report",
        "-o",
        tmp_path / "b",
    )
    assert noted.exit_code == 0 and "scale_to = 'symmetric'" in noted.stderr


def test_other_encodings_empty_and_absent_files(tools: Any, tmp_path: Path) -> None:
    table, schema = tools.write_people(tmp_path)
    table.write_bytes(table.read_bytes() + "30,gr\xfcn,no,A\n".encode("latin1"))
    assert "UTF-8" in sentence(tools, tmp_path, table, schema)
    table.write_bytes(b"")
    assert "empty" in sentence(tools, tmp_path, table, schema)
    table.write_text("age,colour,ill,site\n")
    assert "no records" in sentence(tools, tmp_path, table, schema)
    table.unlink()
    assert "people.csv" in sentence(tools, tmp_path, table, schema)


def test_ragged_lines_text_for_numbers_and_unknown_classes(tools: Any, tmp_path: Path) -> None:
    for line, word in (
        ("1,red", "62"),
        ("old,red,no,A", "numeric"),
        ("1,red,perhaps,A", "declared classes"),
    ):
        table, schema = tools.write_people(tmp_path, [*tools.people(), line])
        assert word in sentence(tools, tmp_path, table, schema)


def test_a_file_needs_a_schema_and_a_schema_a_file(tools: Any, tmp_path: Path) -> None:
    table, schema = tools.write_people(tmp_path)
    bare = tools.tacenda("fit", "--data", table)
    assert bare.exit_code == 2 and "schema draft" in bare.stderr
    named = tools.tacenda("fit", "--data", "iris", "--schema", schema)
    assert named.exit_code == 2 and "schema belongs to a file" in named.stderr


def test_a_drafted_schema_warns_until_it_is_confirmed(tools: Any, tmp_path: Path) -> None:
    table, _ = tools.write_people(tmp_path)
    draft = tmp_path / "draft.toml"
    made = tools.tacenda(
        "schema", "draft", table, "--label", "ill", "--node", "site", "--out", draft
    )
    assert made.exit_code == 0 and "confirmed" in made.stderr
    # Never over confirmed values
    assert tools.tacenda("schema", "draft", table, "--out", draft).exit_code == 2
    result = fit(tools, tmp_path, table, draft)
    assert result.exit_code == 0 and "note: schema" in result.stderr and "public" in result.stderr
    assert tools.tacenda("schema", "check", draft, "--strict").exit_code == 3
    draft.write_text(draft.read_text().replace("confirmed = false", "confirmed = true"))
    assert tools.tacenda("schema", "check", draft, "--data", table, "--strict").exit_code == 0
    shown = tools.answer("schema", "show", draft)
    assert shown["unconfirmed"] == [] and len(shown["hash"]) == 64
    assert "label" in tools.tacenda("schema", "show", draft).output


def test_dry_runs_count_records_and_holders_without_reading_cells(
    tools: Any, tmp_path: Path
) -> None:
    table, schema = tools.write_people(tmp_path, [*tools.people(), "not a number,violet,perhaps,A"])
    found = tools.answer(
        "fit",
        "--data",
        table,
        "--schema",
        schema,
        "-a",
        "dpdda",
        "-T",
        "3",
        "--graph",
        "complete",
        "--dry-run",
    )
    assert (found["records"], found["nodes"], found["dim"]) == (61, 3, 3)


@pytest.mark.parametrize("fraction", [0.25])
def test_records_set_aside_for_testing(tools: Any, tmp_path: Path, fraction: float) -> None:
    table, schema = tools.write_people(tmp_path)
    result = fit(tools, tmp_path, table, schema, "--test-fraction", str(fraction))
    assert (
        result.exit_code == 0 and "test accuracy" in result.output and "45 records" in result.output
    )
