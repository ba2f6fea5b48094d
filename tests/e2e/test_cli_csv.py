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
    label = Path(done["results"][0]).stem.rpartition("-")[0]
    first, second = (
        next(row for row in found["table"] if row["label"] == label) for found in (done, again)
    )
    assert first["accuracy"] == second["accuracy"] and first["epsilon"] == second["epsilon"]
    named = tools.answer(*common, "-a", "dpdda", "--dry-run")
    assert any("90 records that are declared public" in why for why in named["runs"][0]["reasons"])
    for wrong in (["-a", "moments"], ["--no-privacy"]):
        refused = tools.tacenda(*common, *wrong)
        assert refused.exit_code == 2 and "--public" in refused.stderr, refused.output
    (tmp_path / "link.csv").symlink_to(table)
    for command in (["fit"], ["plan", "--trials", 0]):
        own = [
            "--data",
            table,
            "--schema",
            schema,
            "--epsilon",
            5,
            "--public",
            tmp_path / "link.csv",
        ]
        refused = tools.tacenda(*command, *own)
        assert refused.exit_code == 2 and "another file" in refused.stderr, refused.output


def test_a_plan_under_add_remove_takes_no_count_as_public(tools: Any, tmp_path: Path) -> None:
    table, schema = tools.write_people(tmp_path)
    common = ["plan", "--data", table, "--schema", schema, "--trials", 0]
    assert any("taken as public" in note for note in tools.answer(*common)["notes"])
    bare = [*common, "--adjacency", "add-remove", "--set", "problem.public_size=300"]
    notes = tools.answer(*bare)["notes"]
    assert any("as declared" in note for note in notes)
    assert not any("taken as public" in note for note in notes)


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
        result.exit_code == 0
        and "60 records" in result.output
        and "leaves out records" in result.output
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


def test_a_draft_asks_what_codes_and_identifiers_are(tools: Any, tmp_path: Path) -> None:
    table = tmp_path / "loans.csv"
    rows = [
        f"{1000 + k},{(3, 8, 40)[k % 3]},{50 * 1.1 ** (k % 90):.2f},{k % 2}" for k in range(300)
    ]
    table.write_text("\n".join(["loan,branch,sum,paid", *rows]))
    found = tools.answer("schema", "draft", table)
    seen = {column["column"]: column for column in found["read_off_the_data"]}
    assert seen["loan"]["proposal"] == "left out" and "identifier" in seen["loan"]["reason"]
    assert "--numeric branch" in seen["branch"]["question"] and found["questions"]
    assert seen["sum"]["99_percent_within"][1] <= seen["sum"]["all_within"][1]
    shown = tools.tacenda("schema", "draft", table)
    assert "read from the data" in shown.stderr.lower() and "question: " in shown.stderr
    assert "question: " not in shown.stdout and "confirmed = false" in shown.stdout
    told = ("--numeric", "branch", "--drop", "loan", "--log", "sum")
    columns = tools.answer("schema", "draft", table, *told)["schema"]["columns"]
    assert [(c["name"], c["transform"]) for c in columns] == [("branch", "clip"), ("sum", "log1p")]
    wrong = tools.tacenda("schema", "draft", table, "--drop", "lone")
    assert wrong.exit_code == 2 and "'lone'" in wrong.stderr


def test_private_bounds_are_charged_and_the_fit_that_is_proposed_fits(
    tools: Any, tmp_path: Path
) -> None:
    table, draft, bounded = (tmp_path / name for name in ("pay.csv", "draft.toml", "bounded.toml"))
    rows = [f"{20_000 + 7 * (k * 37 % 4001):g},{'ab'[k % 2]}" for k in range(4000)]
    table.write_text("\n".join(["pay,y", *rows]))
    book = tmp_path / "l.ledger"
    assert tools.tacenda("schema", "draft", table, "-o", draft, "--numeric", "pay").exit_code == 0
    read = tools.answer("schema", "bounds", draft, "--data", table)["read_off_the_data"]
    assert [column["column"] for column in read] == ["pay"] and not book.exists()
    ask = ("schema", "bounds", draft, "--data", table, "--private", "--dataset", "us")
    ask = (*ask, "--ledger", book, "-e", "2", "-d", "1e-5", "--within", "pay=0:100000")
    missing = tools.tacenda(*ask)
    assert missing.exit_code == 2 and "--private needs --out" in missing.stderr
    found = tools.tacenda(*ask, "-o", bounded)
    assert found.exit_code == 0, found.output
    assert "Spent: 3 choices, each with an epsilon of at most" in found.output and book.is_file()
    assert "still yours to confirm: y." in found.output
    text = bounded.read_text()
    assert 'source = "private ' in text and text.count("confirmed = false") == 1  # the classes
    fit = found.stderr.split("`")[-2].split()[1:]
    more = ("--nodes", "3", "-a", "dpdda", "-T", "3", "-q", "--no-report", "-o", tmp_path / "run")
    unnamed = tools.tacenda(*fit[:-2], *more)  # the ledger knows the records again
    assert unnamed.exit_code == 0, unnamed.output
    spent = tools.answer("ledger", "show", book)["datasets"][0]
    assert {event["kind"] for event in spent["events"]} == {"gaussian"}
    assert 1.9 < spent["epsilon"] <= 2.0
    again = tools.tacenda(*ask, "-o", tmp_path / "again.toml")
    assert again.exit_code == 3 and "budget" in again.stderr
    for words, bad in (("column=low:high", "pay:1"), ("low below high", "pay=5:2")):
        wrong = tools.tacenda(*ask[:-1], bad, "-o", tmp_path / "again.toml")
        assert wrong.exit_code == 2 and words in wrong.stderr


def test_values_in_a_corner_are_told_to_the_holder_and_kept_out_of_files(
    tools: Any, tmp_path: Path
) -> None:
    table, schema = tmp_path / "pay.csv", tmp_path / "pay.toml"
    rows = [f"{20_000 + 7 * (k % 401)},{'ab'[k % 2]}" for k in range(600)]
    table.write_text("\n".join(["pay,y", *rows]))
    schema.write_text(
        '[label]\nname = "y"\nclasses = ["a", "b"]\n'
        '[[columns]]\nkind = "numeric"\nname = "pay"\nlow = 0\nhigh = 1e7\n'
    )
    checked = tools.tacenda("schema", "check", schema, "--data", table)
    learnt = fit(tools, tmp_path, table, schema, "--nodes", "3")
    for result in (checked, learnt):
        assert result.exit_code == 0 and "hardly sees" in result.stderr
        assert "for you alone" in result.stderr
    kept = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert kept and not any(b"hardly sees" in path.read_bytes() for path in kept)


def test_a_folder_or_a_workbook_is_named_for_what_it_is(tools: Any, tmp_path: Path) -> None:
    table, schema = tools.write_people(tmp_path)
    folder = tmp_path / "year"
    folder.mkdir()
    assert "is a folder" in sentence(tools, tmp_path, folder, schema)
    book = table.rename(tmp_path / "people.xlsx")
    assert "save the sheet as CSV" in sentence(tools, tmp_path, book, schema)
