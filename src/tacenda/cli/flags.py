"""Options that several commands share, and how they become overrides of a configuration file.

Settings have their flags from `tacenda.terms`. The configuration's own models are not imported
here, because `--help` must be quick.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacenda.terms.sections import SECTIONS
from tacenda.terms.setting import settings

if TYPE_CHECKING:
    from tacenda.runs.sections import RunConfig

# Keys of [data] that do not fit another source
OF_ONE_SOURCE = ("name", "file", "schema", "public", "options")

Config = Annotated[
    Path | None,
    typer.Argument(
        help="A TOML file that describes the run (`tacenda examples`); flags override it."
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        help="A named data set (`tacenda datasets`), or a CSV or Parquet file with --schema."
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--algorithm", "-a", "-A", help="Algorithm (`tacenda algorithms` lists them), or 'auto'."
    ),
]
Prepare = Annotated[
    str | None, typer.Option(help="What happens to the records first: 'none' or 'whitening'.")
]
Hyper = Annotated[
    list[str] | None,
    typer.Option("--hyper", "-H", help="A hyperparameter, as penalty=0.5; may be repeated."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any key of the configuration, as run.rounds=50; may be repeated."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what the run would cost, from public facts only.")
]
PrintConfig = Annotated[
    bool, typer.Option("--print-config", help="Print the resolved configuration and stop.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the interrupted run in --folder.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output (errors too).")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Report = Annotated[
    bool, typer.Option("--report/--no-report", help="Write report.html into the run folder.")
]


Given = dict[str, Any]
Options = dict[str, Any]  # parameter -> its type with typer's option

# Parameter of a command -> the key of the configuration that it sets.
KEYS = {
    **{
        s.parameter: f"{section}.{s.key}"
        for section, term in SECTIONS.items()
        for s in settings(term, "flag")
    },
    "prepare": "prepare.name",
}


def _options(section: str) -> Options:
    """The flags of a section's settings."""
    return {
        s.parameter: Annotated[s.typed | None, typer.Option(*s.flags, help=s.help)]
        for s in settings(SECTIONS[section], "flag")
    }


OF_DATA, PROBLEM, NETWORK, PRIVACY, OF_RUN = map(
    _options, ("data", "problem", "network", "privacy", "run")
)
DATA: Options = {"data": Data, **OF_DATA}
METHOD: Options = {"algorithm": Name, "hyper": Hyper, "prepare": Prepare}
RUN: Options = {
    **OF_RUN,
    "settings": Settings,
    "dry_run": DryRun,
    "print_config": PrintConfig,
    "resume": Resume,
    "report": Report,
    "as_json": Json,
    "quiet": Quiet,
}


def takes(
    options: Options, **defaults: Any
) -> Callable[[Callable[[Given], None]], Callable[..., None]]:
    """Give a command of one argument {parameter: value} these options, in this order.

    What is not given is None, or False for a switch, unless `defaults` says otherwise.
    """

    def with_options(command: Callable[[Given], None]) -> Callable[..., None]:
        def called(**given: Any) -> None:
            command(given)

        parameters = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )
            for name, kind in options.items()
            for default in [defaults.get(name, False if kind.__origin__ is bool else None)]
        ]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = dict(options)
        called.__name__ = command.__name__
        called.__doc__ = command.__doc__
        called.__module__ = command.__module__
        return called

    return with_options


def sections(given: Given) -> dict[str, dict[str, Any]]:
    """{section: {key: value}} of the parameters in KEYS; None leaves the file's value."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        if name in KEYS:
            section, key = KEYS[name].split(".")
            found.setdefault(section, {})[key] = _meant(value)
    return found


def _meant(value: Any) -> Any:
    """A flag's value as a file has it; typer gives an empty list for a list that was not given."""
    return str(value) if isinstance(value, Path) else None if value == [] else value


def assemble(
    file: Path | None,
    *,
    data: str | None = None,
    sections: dict[str, dict[str, Any]] | None = None,
    hyper: list[str] | None = None,
    settings: list[str] | None = None,
    algorithm: str | None = None,
) -> RunConfig:
    """The file's values, then the flags, then --hyper and --set, each over the ones before."""
    from tacenda.runs import read

    values: dict[str, Any] = read.read_file(file) if file is not None else {}
    if data is not None:
        kept = {k: v for k, v in values.get("data", {}).items() if k not in OF_ONE_SOURCE}
        values = {**values, "data": {**kept, "file" if is_file(data) else "name": data}}
    if algorithm is not None and values.get("algorithm", {}).get("name") != algorithm:
        # The old one's hyperparameters do not fit a new name
        values = {**values, "algorithm": {"name": algorithm}}
    values = read.merged(values, sections or {})
    values = read.merged(values, read.assignments(hyper or [], "algorithm"))
    values = read.merged(values, read.assignments(settings or []))
    return read.build(values, "the configuration" if file is None else str(file))


def is_file(data: str) -> bool:
    """A path or a name: names hold no dot and no slash."""
    if Path(data).is_dir():
        from tacenda.data.catalogue import NAMES

        return data not in NAMES
    return Path(data).suffix != "" or "/" in data or "\\" in data or Path(data).is_file()
