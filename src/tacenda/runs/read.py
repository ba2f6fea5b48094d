"""From a TOML file and overriding flags to a checked `RunConfig`; every mistake is one sentence
that names the key."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from tacenda.errors import InputError
from tacenda.formats.text import from_toml
from tacenda.runs.sections import RunConfig

# Endings of files that hold records
TABLES = (".csv", ".tsv", ".parquet", ".pq", ".svm", ".libsvm", ".svmlight", ".xlsx", ".xls")


def read_file(path: str | Path) -> dict[str, Any]:
    """The plain contents of a configuration file; relative paths of data and ledger are meant from
    its own folder."""
    file = Path(path)
    if file.is_dir() and (file / "config.toml").is_file():
        file = file / "config.toml"
    if not file.is_file():
        raise InputError(
            f"there is no configuration file at {str(path)!r}; "
            "`tacenda examples` lists some to start from."
        )
    if looks_like_data(file):
        raise InputError(
            f"{file} looks like data, not like a configuration in TOML; give it as --data, with "
            f"its schema: --data {file} --schema {file.stem}.toml "
            f"(`tacenda schema draft {file}` drafts one)."
        )
    try:
        values = from_toml(file.read_text("utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"{file} must be UTF-8 text; save it in that encoding.") from None
    except tomllib.TOMLDecodeError as wrong:
        raise InputError(f"{file} is not valid TOML: {wrong}.") from None
    return _with_paths(values, file.parent)


def looks_like_data(file: Path) -> bool:
    """Whether a file is a table: by its ending, or by two first lines that are no TOML and have
    the same separators."""
    name = file.name.lower().removesuffix(".gz").removesuffix(".bz2")
    if name.endswith(".toml"):
        return False
    if name.endswith(TABLES):
        return True
    with file.open("rb") as stream:
        first, second = stream.readline(10_000), stream.readline(10_000)
    return any(
        0 < first.count(mark) == second.count(mark) and b"=" not in first + second
        for mark in (b",", b";", b"\t", b"|")
    )


def _with_paths(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    run, data = values.get("run"), values.get("data")
    if isinstance(run, dict) and isinstance(run.get("ledger"), str):
        values = {**values, "run": {**run, "ledger": str((folder / run["ledger"]).resolve())}}
    if not isinstance(data, dict):
        return values
    moved = dict(data)
    for key in ("file", "schema", "public"):
        given = moved.get(key)
        if isinstance(given, str) and not Path(given).is_absolute() and (folder / given).is_file():
            moved[key] = str((folder / given).resolve())
    return {**values, "data": moved}


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over`, section by section; None in `over` changes nothing."""
    result = dict(base)
    for key, value in over.items():
        if value is None:
            continue
        if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        else:
            result[key] = (
                {k: v for k, v in value.items() if v is not None}
                if isinstance(value, Mapping)
                else value
            )
    return result


def assignments(texts: Sequence[str], section: str | None = None) -> dict[str, Any]:
    """`section.key=value` texts as nested values; the value is read as TOML, and as plain text
    where it is not."""
    result: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        steps = [step.strip() for step in key.split(".")]
        if not equals or not all(steps) or (section is None and len(steps) < 2):
            form = "key=value" if section else "section.key=value"
            raise InputError(
                f"a setting must have the form {form}, not {text!r}; "
                f"for instance {_example(section)}."
            )
        place = result.setdefault(section, {}) if section else result
        for step in steps[:-1]:
            place = place.setdefault(step, {})
        place[steps[-1]] = toml_value(value.strip())
    return result


def _example(section: str | None) -> str:
    return "penalty=0.5" if section else "run.rounds=100"


def toml_value(text: str) -> Any:
    """One value in TOML's notation, or the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def build(values: Mapping[str, Any], source: str = "the configuration") -> RunConfig:
    """The checked configuration."""
    try:
        return RunConfig.model_validate(dict(values))
    except ValidationError as error:
        raise InputError(_sentence(error, source)) from None


def _sentence(error: ValidationError, source: str) -> str:
    """The first complaint (unknown keys before the others), as one sentence with its place and the
    nearest known key."""
    complaints = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    first = complaints[0]
    steps = [str(step) for step in first["loc"]]
    if first["type"] == "extra_forbidden":
        known = _keys(steps[:-1])
        near = difflib.get_close_matches(steps[-1].lower(), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"it knows {', '.join(known)}."
        where = f"section [{'.'.join(steps[:-1])}]" if steps[:-1] else "the file"
        return f"{source}: {where} has no key {steps[-1]!r}; {hint}"
    message = first["msg"].removeprefix("Value error, ")
    words = [
        one["ctx"]["expected"]
        for one in complaints[1:]
        if one["type"] == "literal_error" and [str(step) for step in one["loc"]][:2] == steps[:2]
    ]
    if words:  # of a union, whose other branch is a word
        message = f"{message.split(', unable')[0]} or {' or '.join(words)}"
    found = first.get("input")
    shown = (
        f", not {found!r}"
        if isinstance(found, (str, int, float, bool)) and "not " not in message
        else ""
    )
    # The last steps of pydantic's path are the branches of a union;
    # the reader knows sections and keys only.
    return f"{source}: {'.'.join(steps[:2])}: {message[:1].lower()}{message[1:]}{shown}."


def _keys(steps: Sequence[str]) -> list[str]:
    """The keys known at a place of the configuration."""
    model: type[BaseModel] = RunConfig
    for step in steps:
        field = model.model_fields.get(step)
        inner = field.annotation if field else None
        for candidate in (inner, *getattr(inner, "__args__", ())):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                model = candidate
    return [field.alias or name for name, field in model.model_fields.items()]
