"""From a configuration to a finished run folder and the table on the screen."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacenda.cli import show
from tacenda.errors import InputError
from tacenda.words import counted

if TYPE_CHECKING:
    from tacenda.cli.play import Played
    from tacenda.config.records import PrivateRun
    from tacenda.config.sections import RunConfig
    from tacenda.runtime.run_folder import RunFolder

REPORTED = ("tacenda", "numpy", "scipy", "numba", "networkx", "scikit-learn", "dp-accounting")


def run(config: RunConfig, command: str, *, resume: bool, report: bool, as_json: bool, quiet: bool) -> None:
    """Play everything, write the folder, print the table."""
    from tacenda.cli import play
    from tacenda.config.choice import resolved
    from tacenda.config.records import private_run
    from tacenda.formats.text import toml
    from tacenda.runtime.run_folder import RunFolder

    if resume and config.run.folder is None:
        raise InputError("--resume needs --folder with the run folder to go on with.")
    config = _with_whole_paths(config)
    private = private_run(config)
    chosen = play.prepared(config, private)
    config = resolved(config, chosen)
    path = _path(config, command, chosen)
    config = config.model_copy(update={"run": config.run.model_copy(update={"folder": str(path)})})
    _check_first(config, private, chosen)
    folder = RunFolder.create(path, toml(config.to_plain()), resume=resume)
    if private.schema is not None:
        private.schema.write(folder.schema_path)
    fresh = not resume
    try:
        played = play.play(config, private, folder, progress=not quiet)
    except KeyboardInterrupt as stop:
        again = f"tacenda {'fit' if command == 'fit' else 'compare'} --resume --folder {folder.path}"
        kept = "a checkpoint is kept" if folder.has_progress() else "no round was finished yet"
        raise KeyboardInterrupt(f"{str(stop) or 'interrupted'}; {kept}. Go on with: {again}") from None
    except Exception:
        if fresh:
            folder.discard_if_empty()
        raise
    rows = _rows(private, played, config.privacy.adjacency)
    _finish(folder, private, played, rows, command, config)
    written = _report(folder) if report else None
    _print(folder, private, played, rows, written, as_json, config.privacy.adjacency)


def _with_whole_paths(config: RunConfig) -> RunConfig:
    """Files by their whole paths, so that the folder's own configuration can be resumed from anywhere."""
    found = {k: str(Path(v).resolve()) for k in ("file", "table_schema") if (v := getattr(config.data, k)) is not None}
    ledger = None if config.run.ledger is None else str(Path(config.run.ledger).resolve())
    return config.model_copy(
        update={
            "data": config.data.model_copy(update=found),
            "run": config.run.model_copy(update={"ledger": ledger}),
        }
    )


def _path(config: RunConfig, command: str, chosen: list[Any]) -> Path:
    from tacenda.runtime.run_folder import default_path

    if config.run.folder is not None:
        return Path(config.run.folder)
    return default_path(f"{command}-{chosen[0].label}" if len(chosen) == 1 else command)


def _check_first(config: RunConfig, private: PrivateRun, chosen: list[Any]) -> None:
    """Refuse what cannot work for every algorithm before the first one runs and anything is written."""
    from tacenda.cli.play import metrics_of
    from tacenda.config.objects import privacy_of
    from tacenda.graph.topology import Topology
    from tacenda.problem.facts import Facts
    from tacenda.runtime.metrics import check_metrics
    from tacenda.runtime.spec import check_privacy

    facts = Facts.of(private.problem, config.privacy.adjacency, config.run.solver_tolerance)
    topology = Topology.of(private.graph)
    for choice in chosen:
        budget = check_privacy(privacy_of(config.privacy), choice.algorithm)
        choice.algorithm.check(facts, topology, choice.rounds, budget is not None)
    check_metrics(metrics_of(config, private), private.problem, None, private.test)


def _rows(private: PrivateRun, played: list[Played], adjacency: str) -> list[dict[str, Any]]:
    from tacenda.runs import table

    rows = [table.ceiling(private.problem, private.test, adjacency)]
    for label in dict.fromkeys(one.label for one in played):
        mine = [one for one in played if one.label == label]
        rows.append(table.row(label, [one.result for one in mine], [one.measured for one in mine]))
    return [*rows, table.floor(private.problem, private.test, adjacency)]


def _finish(
    folder: RunFolder, private: PrivateRun, played: list[Played], rows: list[dict[str, Any]], command: str, config: RunConfig
) -> None:
    results = [
        {
            "label": one.label,
            "algorithm": one.result.settings["algorithm"]["name"],
            "seed": one.seed,
            "file": folder.result_path(one.run).relative_to(folder.path).as_posix(),
            **one.measured,
        }
        for one in played
    ]
    folder.finish(
        {one.run: one.result for one in played},
        {
            "command": f"tacenda {command}",
            "versions": versions(),
            "dataset": about(private, config),
            "table": rows,
            "results": results,
        },
    )


def about(private: PrivateRun, config: RunConfig) -> dict[str, Any]:
    """Public facts of the data, and what was read off it."""
    data, problem = private.dataset, private.problem
    counted = config.privacy.adjacency == "replace-one"  # under add-remove how many records there are is private
    labels = None if problem.node_labels is None else [str(label) for label in problem.node_labels]
    return {
        "name": data.name,
        "source": config.data.name or Path(str(config.data.file)).name,
        "records": data.n_records if counted else None,
        "test_records": 0 if data.test is None else len(data.test[1]),
        "features": data.n_features,
        "feature_names": list(data.feature_names) if data.n_features <= 1000 else None,
        "classes": None if data.classes is None else list(data.classes),
        "norm": data.norm,
        "nodes": problem.n_nodes,
        "node_labels": labels,
        "schema_hash": data.schema_hash,
        "notes": list(data.notes),
    }


def versions() -> dict[str, str]:
    """What computed the result."""
    found = {"python": platform.python_version(), "platform": platform.platform(terse=True)}
    for name in REPORTED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def _report(folder: RunFolder) -> Path | None:
    """The HTML report, or a note that says what is missing."""
    try:
        from tacenda.report import build

        return Path(build(folder.path))
    except ImportError as missing:
        show.note(f"note: no report was written, because a package is missing ({missing}): pip install 'tacenda[report]'.")
        return None


def _print(
    folder: RunFolder,
    private: PrivateRun,
    played: list[Played],
    rows: list[dict[str, Any]],
    written: Path | None,
    as_json: bool,
    adjacency: str,
) -> None:
    from tacenda.runs.table import NOTE

    data = private.dataset
    if as_json:
        files = [folder.result_path(one.run) for one in played]
        show.as_json({
            "folder": str(folder.path), "table": rows, "results": [str(f) for f in files],
            "report": None if written is None else str(written), "notes": [NOTE, *data.notes],
        })  # fmt: skip
        return
    nodes = f"{counted(private.problem.n_nodes, 'node')}, {private.graph.graph.get('name', 'graph')}"
    records = counted(data.n_records, "record") if adjacency == "replace-one" else "records, their number private,"
    show.results(rows, f"{data.name}: {records} x {counted(data.n_features, 'feature')}, {nodes}")
    print()
    for row in rows:
        if row.get("claimed"):
            print(f"{row['label']} as published claims epsilon {row['claimed'][0]:g}: {row.get('why') or 'see the docs'}")
    for row in rows:
        if row.get("coalition") is not None:
            print(f"Note: {row['label']} promises this only if {'; '.join(row['conditions'][1:])}.")
    print(f"Note: {NOTE}.")
    public = adjacency == "replace-one" and private.problem.public_sizes is None
    small = _small_nodes(private.problem.sizes) if public else ""
    if small:
        print(f"Note: {small}.")
    for text in data.notes:
        print(f"Note: {text}.")
    print(f"\nrun folder  {folder.path}")
    for one in played[:8]:
        print(f"  model     {folder.result_path(one.run)}")
    if len(played) > 8:
        print(f"  ...       and {len(played) - 8} more")
    if written is not None:
        print(f"  report    {written}")
    sys.stdout.flush()


def _small_nodes(sizes: Any) -> str:
    """Each node averages its own records, so a node with few of them needs noise that drowns the others'."""
    least, middle = int(min(sizes)), int(sorted(sizes)[len(sizes) // 2])
    if least * 10 >= middle:
        return ""
    return (
        f"the smallest node holds {least} of {int(sum(sizes))} records, where the median node holds {middle}: every node counts "
        "alike, so its noise weighs on the model of all; joining small nodes to others helps"
    )


def look_ahead(config: RunConfig, *, print_config: bool, as_json: bool) -> None:
    """--print-config and --dry-run: from public facts only."""
    from tacenda.config.choice import resolved
    from tacenda.config.cost import cost, public_run
    from tacenda.formats.text import toml

    public = public_run(config)
    if print_config:
        full = resolved(config, public.choices)
        show.as_json(full.to_plain()) if as_json else print(toml(full.to_plain()), end="")
        return
    costs = [cost(public, choice) for choice in public.choices]
    if as_json:
        sizes = _public_sizes(public)
        show.as_json({
            "dry_run": True, "nodes": public.topology.n, "graph": public.topology.name, "records": int(sizes.sum()),
            "sizes": [int(sizes.min()), int(sizes.max())], "dim": public.facts.dim, "runs": [c.to_plain() for c in costs],
            "seeds": config.run.seeds, "notes": list(public.shape.notes),
        })  # fmt: skip
        return
    _print_costs(public, costs)


def _public_sizes(public: Any) -> Any:
    """How many records each node has, or is declared to have where the number is private."""
    return public.shape.sizes if public.facts.adjacency == "replace-one" else public.facts.sizes.astype(int)


def _print_costs(public: Any, costs: list[Any]) -> None:
    sizes = _public_sizes(public)
    declared = "" if public.facts.adjacency == "replace-one" else " declared"
    title = (
        f"A dry run: {counted(int(sizes.sum()), 'record')}{declared} on {counted(public.topology.n, 'node')} "
        f"({sizes.min()} to {sizes.max()} each), "
        f"{public.topology.name}, model of length {public.facts.dim}"
    )
    header = ["algorithm", "rounds", "releases", "noise of a release", "(epsilon, delta, relation)", "messages", "sent"]
    rows = [
        [
            c.choice.label, str(c.choice.rounds), "-" if c.statement is None else str(len(c.statement.charges)),
            noise_words(c.statement), _promise(c.statement), str(c.messages), show.size(c.bytes),
        ]
        for c in costs
    ]  # fmt: skip
    show.table(header, rows, title=title, right=(1, 2, 5, 6))
    for c in costs:
        for reason in c.choice.reasons:
            print(f"{c.choice.label}: {reason}")
    for text in public.shape.notes:
        print(f"Note: {text}.")
    print("\nNothing was run, and no record was looked at beyond counting.")


def _promise(statement: Any) -> str:
    if statement is None:
        return "none"
    values = {"epsilon": statement.epsilon, "delta": statement.delta, "adjacency": statement.adjacency}
    return show.promise({"algorithm": "", "claimed": statement.claimed, "coalition": statement.curve().coalition, **values})


def noise_words(statement: Any) -> str:
    """The noise of the worst node's releases in a few words."""
    if statement is None:
        return "none"
    words = []
    losses = statement.round_losses
    for part in (losses[0], losses[-1]) if len(losses) > 1 else losses[:1]:
        if "noise_multiplier" in part:
            words.append(f"z = {show.short(part['noise_multiplier'])}")
        elif "mu" in part:
            words.append(f"mu = {show.short(part['mu'])}")
        elif "epsilon" in part:
            words.append(f"pure {show.short(part['epsilon'])}")
    return " .. ".join(dict.fromkeys(words)) + (f" ({losses[0]['kind']})" if losses else "")
