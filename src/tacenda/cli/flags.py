"""Options that several commands share, and how they become overrides of a configuration file.

The configuration's own models are not imported here, because `--help` must be quick; a test
compares KEYS with them. Settings of the method have their flags from `terms.method`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacenda.terms.method import SETTINGS

if TYPE_CHECKING:
    from tacenda.config.sections import RunConfig

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
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", help="The TOML schema of the file: its public bounds and levels."),
]
Public = Annotated[
    str | None,
    typer.Option(
        "--public",
        help="A file of the same schema whose records are public: 'auto' tunes its step on them. "
        "They get no protection, and nothing is charged for them.",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="adult only: 'public' (declared schema) or 'papers' (104 features)."),
]
Intercept = Annotated[
    bool | None,
    typer.Option(
        "--intercept/--no-intercept", help="Add a constant feature, inside the norm bound."
    ),
]
TestFraction = Annotated[
    float | None, typer.Option(help="Share of the records set aside for testing.")
]
Positive = Annotated[
    str | None,
    typer.Option(help="Which of two classes is the positive one; by default the second."),
]
Name = Annotated[
    str | None,
    typer.Option("--algorithm", "-a", "-A", help="Its name (`tacenda algorithms`), or 'auto'."),
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
Nodes = Annotated[int | None, typer.Option(help="How many nodes hold the data.")]
Graph = Annotated[
    str | None,
    typer.Option(
        help="The network: a kind, or a kind with numbers: 'ring', 'random-regular:100,6,seed=3'."
    ),
]
Loss = Annotated[str | None, typer.Option(help="The loss; 'auto' follows the label's kind.")]
Strength = Annotated[
    str | None,
    typer.Option(help="Weight r of the regulariser; 'auto' chooses it from what is released."),
]
ClipNorm = Annotated[float | None, typer.Option(help="Clip each record's gradient to this norm.")]
Epsilon = Annotated[
    float | None,
    typer.Option("--epsilon", "-e", help="Budget of the whole run, for one record or person."),
]
Delta = Annotated[
    float | None, typer.Option("--delta", "-d", help="Probability that the bound fails.")
]
Adjacency = Annotated[
    str | None, typer.Option(help="Neighbouring data sets: 'replace-one' or 'add-remove'.")
]
Person = Annotated[
    str | None,
    typer.Option(
        help="Column with the persons' ids, for a promise to persons; by default the schema's."
    ),
]
RecordsPerPerson = Annotated[
    int | None,
    typer.Option(
        help=(
            "Promise to a person, of whom so many records are kept at each node, drawn at random; "
            "goes with --adjacency add-remove."
        )
    ),
]
MembersPerPerson = Annotated[
    int | None, typer.Option(help="At how many nodes the same person may be.")
]
Coalition = Annotated[
    str | None,
    typer.Option(
        help=(
            "How many members may combine what they know, where neighbours share noise; 'all': "
            "no such trust."
        )
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(help="'sound' (exact accountant), or 'as-published' for a paper's own noise."),
]
NoPrivacy = Annotated[
    bool, typer.Option("--no-privacy", help="Run without noise; 'auto' then ends at the optimum.")
]
References = Annotated[
    bool | None,
    typer.Option(
        "--references/--no-references",
        help="Rows to compare with: optimum, trusted server, one node alone, floor; by default "
        "without the two private fits among them where the data is large.",
    ),
]
Seeds = Annotated[
    list[int] | None, typer.Option("--seed", help="Seed of the noise; repeat it for several runs.")
]
Folder = Annotated[
    Path | None,
    typer.Option("--folder", "-o", help="Where the run is written; by default runs/<name>-<time>."),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", help="Number of processes that run in parallel.")
]
Engine = Annotated[
    str | None,
    typer.Option(
        help="Where independent runs are carried out: loky (processes of this machine), "
        "dask://host:port, ray://host:port, or ray (one on this machine)."
    ),
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


# Parameter of a command -> the key of the configuration that it sets.
KEYS = {
    "public": "data.public",
    "encoding": "data.encoding",
    "intercept": "data.intercept",
    "test_fraction": "data.test_fraction",
    "positive": "data.positive",
    "features": "data.features",
    "classes": "data.classes",
    "prepare": "prepare.name",
    "nodes": "network.nodes",
    "graph": "network.graph",
    "loss": "problem.loss",
    "strength": "problem.strength",
    "clip_norm": "problem.clip_norm",
    "public_size": "problem.public_size",
    "epsilon": "privacy.epsilon",
    "delta": "privacy.delta",
    "adjacency": "privacy.adjacency",
    "person": "data.person",
    "records_per_person": "privacy.records_per_person",
    "members_per_person": "privacy.members_per_person",
    "mode": "privacy.mode",
    "coalition": "privacy.coalition",
    "noise_multiplier": "privacy.noise_multiplier",
    "round_epsilon": "privacy.round_epsilon",
    "no_privacy": "privacy.private",
    **{s.name: f"run.{s.name}" for s in SETTINGS},
    "seed": "run.seeds",
    "folder": "run.folder",
    "jobs": "run.jobs",
    "engine": "run.engine",
    "references": "run.references",
}

Given = dict[str, Any]
Options = dict[str, Any]  # parameter -> its type with typer's option

DATA: Options = {
    "data": Data,
    "schema": SchemaFile,
    "public": Public,
    "encoding": Encoding,
    "intercept": Intercept,
    "test_fraction": TestFraction,
    "positive": Positive,
}
OF_METHOD: Options = {
    s.name: Annotated[s.typed | None, typer.Option(*s.flags, help=s.help)] for s in SETTINGS
}
METHOD: Options = {"algorithm": Name, "hyper": Hyper, "prepare": Prepare}
NETWORK: Options = {"nodes": Nodes, "graph": Graph}
PROBLEM: Options = {"loss": Loss, "strength": Strength, "clip_norm": ClipNorm}
PRIVACY: Options = {
    "epsilon": Epsilon,
    "delta": Delta,
    "adjacency": Adjacency,
    "person": Person,
    "records_per_person": RecordsPerPerson,
    "members_per_person": MembersPerPerson,
    "mode": Mode,
    "coalition": Coalition,
    "no_privacy": NoPrivacy,
}
RUN: Options = {
    **OF_METHOD,
    "seed": Seeds,
    "settings": Settings,
    "folder": Folder,
    "jobs": Jobs,
    "engine": Engine,
    "references": References,
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
            found.setdefault(section, {})[key] = _meant(name, value)
    return found


def _meant(name: str, value: Any) -> Any:
    if name == "no_privacy":
        return False if value else None
    if name == "seed":
        return value or None
    return str(value) if isinstance(value, Path) else value


def assemble(
    file: Path | None,
    *,
    data: str | None = None,
    schema: Path | None = None,
    sections: dict[str, dict[str, Any]] | None = None,
    hyper: list[str] | None = None,
    settings: list[str] | None = None,
    algorithm: str | None = None,
) -> RunConfig:
    """The file's values, then the flags, then --hyper and --set, each over the ones before."""
    from tacenda.config import read

    values: dict[str, Any] = read.read_file(file) if file is not None else {}
    values = _with_data(values, data, schema)
    if algorithm is not None and values.get("algorithm", {}).get("name") != algorithm:
        # The old one's hyperparameters do not fit a new name
        values = {**values, "algorithm": {"name": algorithm}}
    values = read.merged(values, sections or {})
    values = read.merged(values, read.assignments(hyper or [], "algorithm"))
    values = read.merged(values, read.assignments(settings or []))
    return read.build(values, "the configuration" if file is None else str(file))


def _with_data(values: dict[str, Any], data: str | None, schema: Path | None) -> dict[str, Any]:
    from tacenda.config import read

    if data is None:
        return (
            read.merged(values, {"data": {"schema": str(schema)}}) if schema is not None else values
        )
    kept = {
        k: v
        for k, v in values.get("data", {}).items()
        if k not in ("name", "file", "schema", "public", "options")
    }
    if is_file(data):
        kept["file"] = data
        if schema is not None:
            kept["schema"] = str(schema)
    else:
        kept["name"] = data
        if schema is not None:
            kept["schema"] = str(schema)
    return {**values, "data": kept}


def is_file(data: str) -> bool:
    """A path or a name: names hold no dot and no slash."""
    if Path(data).is_dir():
        from tacenda.data.catalogue import NAMES

        return data not in NAMES
    return Path(data).suffix != "" or "/" in data or "\\" in data or Path(data).is_file()
