"""`tacenda audit`: attack a run on neighbouring data sets, and bound its epsilon from below."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.cli import exits, flags, show

TRIALS = 10_000
FEW_RECORDS = 10
# (nodes, records of each, features) of a one-run stage with a thousand canaries or two: along 50
# axes at each of 20 nodes, along a thousand axes where neighbours share noise, and one at each of
# two thousand nodes for exact minimisers.
MANY, MANY_SHARED, MANY_SOLVED = (20, 100, 50), (20, 100, 1000), (2000, 4, None)


def audit(
    algorithm: Annotated[str, typer.Argument(help="Its name (`tacenda algorithms`).")],
    hyper: flags.Hyper = None,
    rounds: Annotated[int, typer.Option("--rounds", "-T", help="Rounds of each run.")] = 10,
    epsilon: flags.Epsilon = None,
    delta: Annotated[
        float, typer.Option("--delta", "-d", help="Probability that the bound fails.")
    ] = 1e-5,
    adjacency: Annotated[
        str, typer.Option(help="Neighbouring data sets: 'replace-one' or 'add-remove'.")
    ] = "replace-one",
    mode: Annotated[
        str, typer.Option(help="'sound', or 'as-published' to attack the paper's own noise.")
    ] = "sound",
    noise_multiplier: Annotated[
        float | None, typer.Option("--noise-multiplier", "-z", help="Attack this Gaussian noise.")
    ] = None,
    round_epsilon: Annotated[
        float | None, typer.Option(help="Attack pure rounds of this epsilon.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help=f"Runs in total, half of them in each world ({TRIALS}).")
    ] = None,
    one_run: Annotated[
        bool,
        typer.Option(
            "--one-run",
            help="One run with many canaries: for large problems; fewer attacks on shared noise.",
        ),
    ] = False,
    canaries: Annotated[
        int | None,
        typer.Option(help="With --one-run: canaries of each node; by default its features."),
    ] = None,
    guesses: Annotated[
        int | None, typer.Option(help="With --one-run: how many canaries the adversary guesses.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Attack on this data set or file, not on the test problem.")
    ] = None,
    schema: flags.SchemaFile = None,
    nodes: Annotated[
        int | None,
        typer.Option(help="Nodes: 2 (5 if neighbours share noise), 20 or 2000 with --one-run."),
    ] = None,
    graph: flags.Graph = None,
    records: Annotated[
        int | None,
        typer.Option(help="Records on each node: 10; with --one-run 100, or 4 of 2000 nodes."),
    ] = None,
    dim: Annotated[
        int | None,
        typer.Option(
            help=(
                "Features of the test problem: what shows best; "
                "with --one-run one for each canary of a node."
            )
        ),
    ] = None,
    coalition: Annotated[
        int,
        typer.Option(
            help="Curious members that may combine what they know, where neighbours share noise."
        ),
    ] = 1,
    settings: flags.Settings = None,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of data, noise and trials.")] = 0,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", help="Processes; the result does not depend on it.")
    ] = 1,
    engine: flags.Engine = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A file that keeps the finished trials.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the result as JSON.")
    ] = None,
    as_json: flags.Json = False,
    quiet: flags.Quiet = False,
) -> None:
    """Attack runs on data sets that differ in one record, seeing every message; a claim that fails
    is called broken.

    Example: tacenda audit dvp --mode as-published --epsilon 1 --delta 0 --rounds 1

    Attacks: the likelihood ratio of all that was released; where neighbours share noise, also as an
    eavesdropper, as each curious member and as the worst coalition, each with the noise as
    declared, without edge noise, with edges reused in every round, with the same sign at both ends,
    and as measured. The result says how many were tried and which one found most;
    --json lists all.

    Exit code 3 says that the claim is broken; 0 that the attacks could not refute it, which proves
    nothing.
    """
    from tacenda.algorithms.registry import by_name
    from tacenda.config.read import assignments
    from tacenda.formats.files import checked_output

    if out is not None:
        checked_output(out)
    method = by_name(algorithm, **assignments(hyper or [], "algorithm").get("algorithm", {}))
    privacy = _privacy(epsilon, delta, adjacency, mode, noise_multiplier, round_epsilon, coalition)
    only = {
        "--trials": trials,
        "--checkpoint": checkpoint,
        "--resume": resume or None,
        "--jobs": None if jobs == 1 else jobs,
        "--engine": engine,
    }
    _refuse_others(only if one_run else {"--canaries": canaries, "--guesses": guesses}, one_run)
    problem, network = _scene(
        method, one_run, adjacency, data, schema, settings, nodes, graph, records, dim
    )
    common: dict[str, Any] = {
        "privacy": privacy,
        "rounds": rounds,
        "confidence": confidence,
        "seed": seed,
        "progress": not quiet,
    }
    found: Any
    if one_run:
        from tacenda.auditing.one_run import audit_one_run
        from tacenda.auditing.stage import default_start

        if data is None and method.needs.smooth_loss:
            common["init"] = default_start(problem, method, rounds)
        found = audit_one_run(
            problem, network, method, canaries=canaries, guesses=guesses, **common
        )
    else:
        from tacenda.auditing.attack import audit as attack

        found = attack(
            method,
            problem=problem,
            graph=network,
            records=FEW_RECORDS if records is None else records,
            dim=dim,
            jobs=jobs,
            engine=engine or "loky",
            trials=TRIALS if trials is None else trials,
            checkpoint=checkpoint,
            resume=resume,
            **common,
        )
    _show(found, out, as_json)


def _show(found: Any, out: Path | None, as_json: bool) -> None:
    if out is not None:
        found.save(out)
    if as_json:
        show.as_json(found.to_plain())
    else:
        print(found.summary())
        if found.why:
            print(f"Why: {found.why}")
    if found.broken:
        raise typer.Exit(exits.PRIVACY)


def _refuse_others(given: dict[str, Any], one_run: bool) -> None:
    """Options of the other attack are not ignored."""
    from tacenda.errors import InputError

    for name in (name for name, value in given.items() if value is not None):
        raise InputError(
            f"{name} belongs to the attack by many trials; leave it out with --one-run."
            if one_run
            else f"{name} belongs to the one-run attack; add --one-run, or leave it out."
        )


def _scene(
    method: Any,
    one_run: bool,
    adjacency: str,
    data: str | None,
    schema: Path | None,
    settings: list[str] | None,
    nodes: int | None,
    graph: str | None,
    records: int | None,
    dim: int | None,
) -> tuple[Any, Any]:
    """(problem, graph): the user's own, or a stage;
    None where the attack by many trials builds its own."""
    from tacenda.errors import InputError

    if data is not None:
        from tacenda.config.private_run import private_run

        if records is not None or dim is not None:
            raise InputError(
                "--records and --dim describe the stage; leave them out with --data, "
                "which brings its own records."
            )
        network = {"network": {"nodes": nodes, "graph": graph}}
        run = private_run(
            flags.assemble(None, data=data, schema=schema, settings=settings, sections=network)
        )
        return run.problem, run.graph
    if settings or schema is not None:
        raise InputError(
            "--schema and --set describe the records of --data; name those, or leave these out."
        )
    if not one_run:
        return None, None if nodes is None and graph is None else _network(graph or "star", nodes)
    from tacenda.auditing.stage import default_problem

    many = (
        MANY_SOLVED
        if method.needs.smooth_loss
        else MANY
        if method.shared_noise is None
        else MANY_SHARED
    )
    made = _network(
        graph or ("star" if method.needs.hub else "ring"),
        many[0] if nodes is None and graph is None else nodes,
    )
    m, p = many[1] if records is None else records, many[2] if dim is None else dim
    return default_problem(method, made.n, m, adjacency, p), made


def _network(graph: str, nodes: int | None) -> Any:
    from tacenda.config.objects import graph_of
    from tacenda.config.shape import node_count

    section = flags.assemble(None, sections={"network": {"graph": graph, "nodes": nodes}}).network
    return graph_of(section, tuple(range(node_count(section))))


def _privacy(
    epsilon: float | None,
    delta: float,
    adjacency: str,
    mode: str,
    noise_multiplier: float | None,
    round_epsilon: float | None,
    coalition: int,
) -> Any:
    from tacenda.errors import InputError
    from tacenda.privacy.settings import Privacy

    given = noise_multiplier is not None or round_epsilon is not None
    if given and (epsilon is not None or mode != "sound"):
        raise InputError(
            "audit takes either --epsilon (with --mode) or the noise itself, not both."
        )
    if given:
        return Privacy.from_noise(
            noise_multiplier=noise_multiplier,
            round_epsilon=round_epsilon,
            delta=delta,
            adjacency=adjacency,
            coalition=coalition,
        )
    return Privacy(1.0 if epsilon is None else epsilon, delta, adjacency, mode, coalition=coalition)
