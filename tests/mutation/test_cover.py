"""Mutation testing knows every file that it should mutate, and its lists name things that exist."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from mutation.cover import covered_files, listed_tests, short, stale_names, whole

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "mutation"


def test_every_mutated_file_has_tests_that_exist() -> None:
    files = covered_files(ROOT)
    assert len(files) > 60
    for path in files:
        listed = listed_tests(ROOT, path)
        assert listed, path
        for test in listed:
            assert (ROOT / test).is_file(), (
                f"{path}: {test} of tests/mutation/cover.toml does not exist"
            )


def test_no_entry_speaks_of_a_file_that_is_gone() -> None:
    table = tomllib.loads((FOLDER / "cover.toml").read_text())
    known = {short(path) for path in covered_files(ROOT)}
    assert set(table["tests"]) == known
    used = {name for named in table["tests"].values() for name in named}
    assert set(table["groups"]) <= used, "a group that nobody uses"


def test_every_judgment_of_a_survivor_says_why() -> None:
    for row in tomllib.loads((FOLDER / "survivors.toml").read_text()).get("survivor", []):
        assert set(row) - {"nth"} == {"module", "function", "before", "after", "why"}, row
        assert (ROOT / whole(row["module"])).is_file(), row
        assert len(row["why"].split()) >= 4, row
        assert row["before"] != row["after"], row


@pytest.mark.slow
def test_every_judgment_speaks_of_a_mutant_that_there_is() -> None:
    """A line that was rewritten or formatted anew needs its judgment anew."""
    pytest.importorskip("mutmut", reason="comes with the extra 'mutants'")
    from mutation.mutate import mutants_of_file

    rows = tomllib.loads((FOLDER / "survivors.toml").read_text()).get("survivor", [])
    for module in sorted({row["module"] for row in rows}):
        found = {(m.function, m.before, m.after) for m in mutants_of_file(ROOT, whole(module))}
        gone = [
            row
            for row in rows
            if row["module"] == module
            and (row["function"], row["before"], row["after"]) not in found
        ]
        assert not gone, f"judged survivors that no longer exist: {gone}"


@pytest.mark.slow
def test_compiled_code_that_holds_a_kernel_is_compiled_anew() -> None:
    """Kernels of one file are built into those of others,
    whose cached form must not outlive a mutant."""
    stale = stale_names(ROOT, "src/tacenda/losses/compiled.py")
    assert {"compiled", "gradient", "hessian", "store"} <= stale
    assert "events" not in stale


TOY = '''
def worst(losses, row, limit):
    """Not this."""
    if losses[row] > limit:
        raise ValueError(f"too much: {max(losses)}")
    note("a sentence is for people")
    return max(losses) + 1
'''


def test_a_mutant_is_one_change_known_by_its_content() -> None:
    pytest.importorskip("mutmut", reason="comes with the extra 'mutants'")
    from mutation.mutate import mutants_of

    found = mutants_of("toy.py", TOY)
    changes = {(m.before, m.after) for m in found}
    assert ("return max(losses) + 1", "return min(losses) + 1") in changes
    assert ("return max(losses) + 1", "return max(losses) - 1") in changes
    assert ("if losses[row] > limit:", "if losses[0] > limit:") in changes
    assert ("if losses[row] > limit:", "if not (losses[row] > limit):") in changes
    assert ('raise ValueError(f"too much: {max(losses)}")', "pass") in changes
    assert ('note("a sentence is for people")', "pass") in changes
    assert not any(
        "Not this" in before or "XX" in after or "min(losses)}" in after
        for before, after in changes
    )
    moved = mutants_of("toy.py", "import math\n\n" + TOY)
    assert {m.name for m in moved} == {m.name for m in found}
    assert len({m.name for m in found}) == len(found)
    for mutant in found:
        assert mutant.apply(TOY) != TOY
