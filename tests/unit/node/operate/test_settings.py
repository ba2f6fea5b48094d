"""node.toml: paths relative to it, flags first, errors that name file and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacenda.errors import InputError
from tacenda_node.operate.settings import read_settings, settings_file, write_settings

LEAST = {"schema": "schema.toml", "data": "records.csv"}


def test_paths_are_relative_to_the_file_and_those_of_flags_are_not(tmp_path: Path) -> None:
    write_settings(tmp_path, {**LEAST, "ledger": "/var/ledger.sqlite", "budget": 3})
    found = read_settings(tmp_path, state=Path("elsewhere"), quiet=True)
    assert found.data == tmp_path / "records.csv"
    assert found.ledger == Path("/var/ledger.sqlite")
    assert found.state == Path("elsewhere")
    assert (found.budget, found.quiet, found.no_budget) == (3.0, True, False)
    assert read_settings(tmp_path / "node.toml").data == tmp_path / "records.csv"


def test_defaults_lie_in_the_members_folder(tmp_path: Path) -> None:
    write_settings(tmp_path, LEAST)
    found = read_settings(tmp_path)
    for name, file in {
        "contract": "contract.toml",
        "identity": "identity",
        "state": "state",
    }.items():
        assert getattr(found, name) == tmp_path / file


def test_without_a_file_the_flags_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert settings_file(None) is None
    assert read_settings(schema=Path("s"), data=Path("d")).state == Path("state")
    with pytest.raises(InputError, match="field data: is missing; give --data"):
        read_settings(schema=Path("s"))
    write_settings(tmp_path, LEAST)
    assert read_settings(budget=2.0).budget == 2.0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("budget = -1", r"field budget: .* greater than 0, not -1"),
        ('bind = "here"', r"field bind must be host:port.*not 'here'"),
        ('addresses = {south = "x:99999"}', "addresses.south must be host:port"),
        ("dashboard = 70000", "dashboard"),
        ("metrics_address = 70000", "field metrics_address must be a port, or host:port"),
        ('metrics_address = "here:"', "field metrics_address must be a port, or host:port"),
        ("colour = 1", "field colour"),
        ("rehearsal = true", "field rehearsal: belongs to one start"),
        ("budget =", "not valid TOML"),
    ],
)
def test_an_error_names_the_file_and_the_field(tmp_path: Path, line: str, words: str) -> None:
    write_settings(tmp_path, LEAST)
    file = tmp_path / "node.toml"
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(InputError, match=words) as found:
        read_settings(tmp_path)
    assert str(file) in str(found.value)


def test_a_folder_without_settings_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="consortium join"):
        read_settings(tmp_path)


def test_a_file_that_everybody_may_change_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text('schema = "s.toml"\ndata = "d.csv"\nno_budget = true\n', "utf-8")
    path.chmod(0o646)
    with pytest.raises(InputError, match=r"may be changed by other users .*0646"):
        read_settings(tmp_path)
    path.chmod(0o664)
    assert read_settings(tmp_path).no_budget
