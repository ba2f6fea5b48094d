"""`tacenda algorithms` and `tacenda datasets`: what there is."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from tacenda.cli import flags, show


def algorithms(
    name: Annotated[
        str | None, typer.Argument(help="One algorithm: its text, needs and hyperparameters.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """List all algorithms, with what is known about their published noise; or describe one.

    Example: tacenda algorithms ipadmm
    """
    from tacenda.algorithms.registry import all_algorithms

    if name is not None:
        _one(name, as_json)
        return
    if as_json:
        show.as_json([_plain(kind) for kind in all_algorithms().values()])
        return
    header = ["name", "algorithm", "source", "private", "published noise"]
    rows = [
        [
            key,
            kind.title,
            kind.source,
            "yes" if kind.private else "no",
            kind.verdict.verdict if kind.verdict else "-",
        ]
        for key, kind in all_algorithms().items()
    ]
    show.table(header, rows)
    print(
        "\nCorrected noise is the default everywhere; `tacenda algorithms NAME` says what is "
        "wrong with the published noise, and what is done here."
    )


def _plain(kind: Any) -> dict[str, Any]:
    return {
        "name": kind.name,
        "title": kind.title,
        "source": kind.source,
        "private": kind.private,
        "default_output": kind.default_output,
        "needs": [key for key, needed in dataclasses.asdict(kind.needs).items() if needed],
        "hyperparameters": {k: v for k, v in kind().to_plain().items() if k != "name"},
        "verdict": None
        if kind.verdict is None
        else {"algorithm": kind.name, **dataclasses.asdict(kind.verdict)},
    }


def _one(name: str, as_json: bool) -> None:
    import inspect

    from tacenda.algorithms.registry import by_name

    kind = type(by_name(name))
    verdict = kind.verdict
    if as_json:
        show.as_json(_plain(kind))
        return
    plain = _plain(kind)
    print(f"{kind.title}   ({kind.source})\n\n{inspect.cleandoc(kind.__doc__ or '')}\n")
    if plain["needs"]:
        print(f"Needs: {', '.join(need.replace('_', ' ') for need in plain['needs'])}.\n")
    if verdict is not None:
        print(f"Published noise: {verdict.verdict}. {verdict.printed}\nHere: {verdict.sound}\n")
    show.table(
        ["hyperparameter", "default"], [[k, str(v)] for k, v in plain["hyperparameters"].items()]
    )


def datasets(as_json: flags.Json = False) -> None:
    """List named data sets, and say how to bring your own.

    Example: tacenda fit --data adult --nodes 100
    """
    from tacenda.data.catalogue import NAMES
    from tacenda.data.sources import cache_dir

    if as_json:
        show.as_json({"datasets": NAMES, "cache": str(cache_dir())})
        return
    show.table(["name", "what it is"], [[name, line] for name, line in NAMES.items()])
    print(
        f"\nDownloads are kept in {cache_dir()}; $TACENDA_DATA names a folder that is "
        "looked through first."
    )
    print(
        "Your own file: `tacenda schema draft my.csv`, confirm what is public, "
        "then `tacenda fit --data my.csv --schema my.toml`."
    )
