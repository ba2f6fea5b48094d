"""The flags of the command line are keys of the configuration, under the same names."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tacenda.cli import accounting, fitting, flags
from tacenda.runs import read
from tacenda.runs.sections import RunConfig

OWN = {
    *(
        "config",
        "data",
        "algorithm",
        "algorithms",
        "hyper",
        "inner",
        "records",
        "classes",
        "settings",
    ),
    *("plot", "dry_run", "print_config", "resume", "report", "as_json", "quiet"),
}
RENAMED = {"privacy": "private", "seed": "seeds", "prepare": "name"}


def test_every_flag_sets_a_key_of_the_configuration() -> None:
    for name, place in flags.KEYS.items():
        section, key = place.split(".")
        model = RunConfig.model_fields[section].annotation
        assert model is not None
        assert key in {field.alias or name for name, field in model.model_fields.items()}, place
        assert key == RENAMED.get(name, name)


@pytest.mark.parametrize(
    "command", [fitting.fit, fitting.compare, accounting.account, accounting.calibrate]
)
def test_every_option_is_a_key_or_the_commands_own(command: object) -> None:
    assert callable(command)
    parameters = inspect.signature(command).parameters
    assert set(parameters) <= OWN | set(flags.KEYS)
    assert all(p.default is None or isinstance(p.default, bool) for p in parameters.values())
    assert "Example:" in (command.__doc__ or "")


def test_what_was_not_given_leaves_the_files_value() -> None:
    none = flags.sections(dict.fromkeys(flags.KEYS))
    assert {value for section in none.values() for value in section.values()} == {None}
    given = {
        "privacy": False,
        "seed": [3, 4],
        "folder": Path("a"),
        "epsilon": None,
        "jobs": 2,
        "quiet": True,
    }
    assert read.merged({"privacy": {"epsilon": 2.0}}, flags.sections(given)) == {
        "privacy": {"epsilon": 2.0, "private": False},
        "run": {"seeds": [3, 4], "folder": "a", "jobs": 2},
    }
