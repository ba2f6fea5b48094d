"""`tacenda fit` and `tacenda compare`: run algorithms on data, show the table,
keep everything in a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacenda.cli import flags
from tacenda.errors import InputError

if TYPE_CHECKING:
    from tacenda.runs.sections import RunConfig

Algorithms = Annotated[
    list[str] | None,
    typer.Option(
        "--algorithm",
        "-a",
        "--algorithms",
        "-A",
        help="Names, separated by commas or one at a time; by default the file's [[compare]].",
    ),
]
SETTING = {**flags.NETWORK, **flags.PROBLEM, **flags.PRIVACY, **flags.RUN}


@flags.takes({"config": flags.Config, **flags.DATA, **flags.METHOD, **SETTING}, report=True)
def fit(given: flags.Given) -> None:
    """Learn one private model over a network of nodes, and keep it in a run folder.

    Example: tacenda fit --data patients.csv --schema patients.toml --nodes 20 --epsilon 1

    The whole run keeps (epsilon, delta) for one record of any node, against an adversary who sees
    every message; where the planner lets neighbours share noise, also against --coalition members
    (1) who combine what they know.
    """
    _go(_config(given).model_copy(update={"compare": []}), "fit", given)


@flags.takes(
    {"config": flags.Config, "algorithms": Algorithms, **flags.DATA, **SETTING}, report=True
)
def compare(given: flags.Given) -> None:
    """Compare several algorithms at the same (epsilon, delta), over several seeds, by mean and
    range.

    Example: tacenda compare --data breast_cancer -A ipadmm,cdpadmm,dpdda --seed 0 --seed 1 --seed 2
    --epsilon 2
    """
    from tacenda.runs.application import compared

    found, names = _config(given), given["algorithms"]
    parts = [name.strip() for one in names or () for name in one.split(",")]
    listed = [name for name in parts if name] if names else None
    _go(compared(found, listed), "compare", given)


def _config(given: flags.Given) -> RunConfig:
    file, folder = given["config"], given["folder"]
    resumed = Path(folder) if file is None and given["resume"] and folder is not None else None
    if resumed is not None and not (resumed / "config.toml").is_file():
        raise InputError(
            f"--folder must be a run folder to continue with --resume, but {str(folder)!r} "
            "holds no config.toml; leave --resume out to start a new run."
        )
    return flags.assemble(
        given["folder"] if file is None and given["resume"] else file,
        data=given["data"],
        sections=flags.sections(given),
        hyper=given.get("hyper"),
        settings=given["settings"],
        algorithm=given.get("algorithm"),
    )


def _go(config: RunConfig, command: str, given: flags.Given) -> None:
    from tacenda.cli import running

    if given["dry_run"] or given["print_config"]:
        running.look_ahead(config, print_config=given["print_config"], as_json=given["as_json"])
        return
    how = {name: given[name] for name in ("resume", "report", "as_json", "quiet")}
    running.run(config, command, **how)
