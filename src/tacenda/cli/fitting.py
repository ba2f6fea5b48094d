"""`tacenda fit` and `tacenda compare`: run algorithms on data, show the table, keep everything in a run folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacenda.cli import flags

if TYPE_CHECKING:
    from tacenda.config.sections import RunConfig


def fit(
    config: flags.Config = None,
    data: flags.Data = None,
    schema: flags.SchemaFile = None,
    encoding: flags.Encoding = None,
    intercept: flags.Intercept = None,
    test_fraction: flags.TestFraction = None,
    algorithm: flags.Name = None,
    hyper: flags.Hyper = None,
    nodes: flags.Nodes = None,
    graph: flags.Graph = None,
    loss: flags.Loss = None,
    strength: flags.Strength = None,
    clip_norm: flags.ClipNorm = None,
    epsilon: flags.Epsilon = None,
    delta: flags.Delta = None,
    adjacency: flags.Adjacency = None,
    mode: flags.Mode = None,
    coalition: flags.Coalition = None,
    no_privacy: flags.NoPrivacy = False,
    rounds: flags.Rounds = None,
    seed: flags.Seeds = None,
    finish_mixing: flags.FinishMixing = None,
    settings: flags.Settings = None,
    folder: flags.Folder = None,
    jobs: flags.Jobs = None,
    dry_run: flags.DryRun = False,
    print_config: flags.PrintConfig = False,
    resume: flags.Resume = False,
    report: flags.Report = True,
    as_json: flags.Json = False,
    quiet: flags.Quiet = False,
) -> None:
    """Learn one private model over a network of nodes, and keep it in a run folder.

    Example: tacenda fit --data patients.csv --schema patients.toml --nodes 20 --epsilon 1

    The whole run keeps (epsilon, delta) for one record of any node, against an adversary who sees every message; where the
    planner lets neighbours share noise, also against --coalition members (1) who pool what they know.
    """
    found = _config(
        config if config is not None or not resume else folder, data, schema, hyper, settings, algorithm,
        _sections(encoding, intercept, test_fraction, nodes, graph, loss, strength, clip_norm, epsilon, delta, adjacency,
                  mode, no_privacy, rounds, seed, finish_mixing, folder, jobs, coalition),
    )  # fmt: skip
    found = found.model_copy(update={"compare": []})
    _go(found, "fit", dry_run, print_config, resume, report, as_json, quiet)


def compare(
    config: flags.Config = None,
    algorithms: Annotated[
        str | None, typer.Option("--algorithms", "-A", help="Names with commas between; by default the file's [[compare]].")
    ] = None,
    data: flags.Data = None,
    schema: flags.SchemaFile = None,
    encoding: flags.Encoding = None,
    intercept: flags.Intercept = None,
    test_fraction: flags.TestFraction = None,
    nodes: flags.Nodes = None,
    graph: flags.Graph = None,
    loss: flags.Loss = None,
    strength: flags.Strength = None,
    clip_norm: flags.ClipNorm = None,
    epsilon: flags.Epsilon = None,
    delta: flags.Delta = None,
    adjacency: flags.Adjacency = None,
    mode: flags.Mode = None,
    coalition: flags.Coalition = None,
    no_privacy: flags.NoPrivacy = False,
    rounds: flags.Rounds = None,
    seed: flags.Seeds = None,
    finish_mixing: flags.FinishMixing = None,
    settings: flags.Settings = None,
    folder: flags.Folder = None,
    jobs: flags.Jobs = None,
    dry_run: flags.DryRun = False,
    print_config: flags.PrintConfig = False,
    resume: flags.Resume = False,
    report: flags.Report = True,
    as_json: flags.Json = False,
    quiet: flags.Quiet = False,
) -> None:
    """Several algorithms at the same true (epsilon, delta), over several seeds: mean and range of each.

    Example: tacenda compare --data breast_cancer -A ipadmm,cdpadmm,dpdda --seed 0 --seed 1 --seed 2 --epsilon 2
    """
    found = _config(
        config if config is not None or not resume else folder, data, schema, None, settings, None,
        _sections(encoding, intercept, test_fraction, nodes, graph, loss, strength, clip_norm, epsilon, delta, adjacency,
                  mode, no_privacy, rounds, seed, finish_mixing, folder, jobs, coalition),
    )  # fmt: skip
    from tacenda.runs.application import compared

    names = None if algorithms is None else [name.strip() for name in algorithms.split(",") if name.strip()]
    found = compared(found, names)
    _go(found, "compare", dry_run, print_config, resume, report, as_json, quiet)


def _sections(
    encoding: Any, intercept: Any, test_fraction: Any, nodes: Any, graph: Any, loss: Any, strength: Any, clip_norm: Any,
    epsilon: Any, delta: Any, adjacency: Any, mode: Any, no_privacy: bool, rounds: Any, seed: Any, finish_mixing: Any,
    folder: Any, jobs: Any, coalition: Any,
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """The flags under the names of the configuration's keys; None leaves the file's value."""
    return {
        "data": {"encoding": encoding, "intercept": intercept, "test_fraction": test_fraction},
        "network": {"nodes": nodes, "graph": graph},
        "problem": {"loss": loss, "strength": strength, "clip_norm": clip_norm},
        "privacy": {
            "epsilon": epsilon, "delta": delta, "adjacency": adjacency, "mode": mode, "coalition": coalition,
            "private": False if no_privacy else None,
        },
        "run": {
            "rounds": rounds, "seeds": seed or None, "finish_mixing": finish_mixing, "jobs": jobs,
            "folder": None if folder is None else str(folder),
        },
    }  # fmt: skip


def _config(
    file: Any, data: Any, schema: Any, hyper: Any, settings: Any, algorithm: Any, sections: dict[str, dict[str, Any]]
) -> RunConfig:
    return flags.assemble(
        file, data=data, schema=schema, sections=sections, hyper=hyper, settings=settings, algorithm=algorithm
    )


def _go(
    config: RunConfig, command: str, dry_run: bool, print_config: bool, resume: bool, report: bool, as_json: bool, quiet: bool
) -> None:
    from tacenda.cli import running

    if dry_run or print_config:
        running.look_ahead(config, print_config=print_config, as_json=as_json)
        return
    running.run(config, command, resume=resume, report=report, as_json=as_json, quiet=quiet)
