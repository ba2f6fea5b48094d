"""`tacenda audit`: attack a run on neighbouring data sets, and bound its epsilon from below."""

from __future__ import annotations

import inspect
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


# Attacks are on single records of private runs
NOT_ATTACKED = ("records_per_person", "members_per_person", "privacy")
PRIVACY = {k: v for k, v in flags.PRIVACY.items() if k not in NOT_ATTACKED}


@flags.takes(
    {
        "algorithm": Annotated[
            str, typer.Argument(help="The algorithm's name (`tacenda algorithms` lists them).")
        ],
        "hyper": flags.Hyper,
        "rounds": Annotated[int, typer.Option("--rounds", "-T", help="Rounds of each run.")],
        **PRIVACY,
        "trials": Annotated[
            int | None, typer.Option(help=f"Runs in total, half of them in each world ({TRIALS}).")
        ],
        "one_run": Annotated[
            bool,
            typer.Option(
                "--one-run",
                help="One run with many canaries: for large problems; fewer attacks on shared "
                "noise.",
            ),
        ],
        "keyed": Annotated[
            bool,
            typer.Option(
                "--keyed",
                help="Draw noise as real nodes do: whole numbers and masks from keyed streams.",
            ),
        ],
        "canaries": Annotated[
            int | None,
            typer.Option(help="With --one-run: canaries of each node; by default its features."),
        ],
        "guesses": Annotated[
            int | None,
            typer.Option(help="With --one-run: how many canaries the adversary guesses."),
        ],
        "data": Annotated[
            str | None,
            typer.Option(help="Attack on this data set or file, not on the test problem."),
        ],
        "schema": flags.OF_DATA["schema"],
        "nodes": Annotated[
            int | None,
            typer.Option(
                help="Nodes: 2 (5 if neighbours share noise, 12 under masks); with --one-run 20 "
                "or 2000."
            ),
        ],
        "graph": flags.NETWORK["graph"],
        "records": Annotated[
            int | None,
            typer.Option(help="Records on each node: 10; with --one-run 100, or 4 of 2000 nodes."),
        ],
        "dim": Annotated[
            int | None,
            typer.Option(
                help=(
                    "Features of the test problem: what shows best; "
                    "with --one-run one for each canary of a node."
                )
            ),
        ],
        "groups": Annotated[
            int | None, typer.Option("--groups", help="In how many groups masked sums are made.")
        ],
        "records_per_person": Annotated[
            int | None,
            typer.Option(
                help="Records of each person in the test problem; the worlds then differ in one "
                "person."
            ),
        ],
        "settings": flags.Settings,
        "confidence": Annotated[float, typer.Option(help="Confidence of the lower bound.")],
        "seed": Annotated[int, typer.Option(help="Seed of data, noise and trials.")],
        "jobs": Annotated[
            int, typer.Option("--jobs", "-j", help="Processes; the result does not depend on it.")
        ],
        "engine": flags.OF_RUN["engine"],
        "checkpoint": Annotated[
            Path | None, typer.Option(help="A file that keeps the finished trials.")
        ],
        "resume": Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint.")],
        "out": Annotated[
            Path | None, typer.Option("--out", "-o", help="Write the result as JSON.")
        ],
        "as_json": flags.Json,
        "quiet": flags.Quiet,
    },
    algorithm=inspect.Parameter.empty,
    rounds=10,
    confidence=0.95,
    jobs=1,
)
def audit(given: flags.Given) -> None:
    """Attack runs on data sets that differ in one record, seeing every message; a claim that fails
    is called broken.

    Example: tacenda audit dvp --mode as-published --epsilon 1 --delta 0 --rounds 1

    Attacks: the likelihood ratio of all that was released; where neighbours share noise, also as an
    eavesdropper, as each curious member and as the worst coalition, each with the noise as
    declared, without edge noise, with edges reused in every round, with the same sign at both ends,
    and as measured. The result says how many were tried and which one found most;
    --json lists all.

    Exit code 3 says that the claim is broken, or that noise which neighbours share is not as
    declared; 0 that the attacks could not refute it, which proves nothing.
    """
    from tacenda.algorithms.registry import by_name
    from tacenda.formats.files import checked_output
    from tacenda.runs.read import assignments

    one_run, rounds = given["one_run"], given["rounds"]
    if given["out"] is not None:
        checked_output(given["out"])
    hyper = assignments(given["hyper"] or [], "algorithm").get("algorithm", {})
    method = by_name(given["algorithm"], **hyper)
    privacy = _privacy({name: given[name] for name in PRIVACY})
    only = {
        "--trials": given["trials"],
        "--checkpoint": given["checkpoint"],
        "--resume": given["resume"] or None,
        "--jobs": None if given["jobs"] == 1 else given["jobs"],
        "--engine": given["engine"],
        "--keyed": given["keyed"] or None,
        "--groups": given["groups"],
        "--records-per-person": given["records_per_person"],
    }
    others = {"--canaries": given["canaries"], "--guesses": given["guesses"]}
    _refuse_others(only if one_run else others, one_run)
    problem, network = _scene(method, privacy.adjacency, given)
    common: dict[str, Any] = {
        "privacy": privacy,
        "rounds": rounds,
        "confidence": given["confidence"],
        "seed": given["seed"],
        "progress": not given["quiet"],
    }
    found: Any
    if one_run:
        from tacenda.auditing.one_run import audit_one_run
        from tacenda.auditing.stage import default_start

        if given["data"] is None and method.needs.smooth_loss:
            common["init"] = default_start(problem, method, rounds)
        asked = {name: given[name] for name in ("canaries", "guesses")}
        found = audit_one_run(problem, network, method, **asked, **common)
    else:
        from tacenda.auditing.attack import audit as attack

        found = attack(
            method,
            problem=problem,
            graph=network,
            records=FEW_RECORDS if given["records"] is None else given["records"],
            dim=given["dim"],
            jobs=given["jobs"],
            engine=given["engine"] or "loky",
            trials=TRIALS if given["trials"] is None else given["trials"],
            checkpoint=given["checkpoint"],
            resume=given["resume"],
            keyed=given["keyed"],
            records_per_person=given["records_per_person"] or 1,
            groups=given["groups"] or 1,
            **common,
        )
    _show(found, given["out"], given["as_json"])


def _show(found: Any, out: Path | None, as_json: bool) -> None:
    if out is not None:
        found.save(out)
    if as_json:
        show.as_json(found.to_plain())
    else:
        print(found.summary())
        if found.why:
            print(f"Why: {found.why}")
    if found.verdict != "consistent":
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


def _scene(method: Any, adjacency: str, given: flags.Given) -> tuple[Any, Any]:
    """(problem, graph): the user's own, or a stage;
    None where the attack by many trials builds its own."""
    from tacenda.errors import InputError

    data, schema, settings = given["data"], given["schema"], given["settings"]
    nodes, graph, records, dim = (given[name] for name in ("nodes", "graph", "records", "dim"))
    if data is not None:
        from tacenda.runs.private_run import private_run

        if records is not None or dim is not None:
            raise InputError(
                "--records and --dim describe the test problem; leave them out with --data, "
                "which brings its own records."
            )
        own = {"nodes": nodes, "graph": graph, "schema": schema}
        run = private_run(
            flags.assemble(None, data=data, settings=settings, sections=flags.sections(own))
        )
        return run.problem, run.graph
    if settings or schema is not None:
        raise InputError(
            "--schema and --set describe the records of --data; name those, or leave these out."
        )
    if not given["one_run"]:
        return None, None if nodes is None and graph is None else _network(graph or "star", nodes)
    from tacenda.auditing.stage import default_problem

    many = (
        MANY_SOLVED
        if method.needs.smooth_loss
        else MANY
        if method.traits.shared_noise is None
        else MANY_SHARED
    )
    made = _network(
        graph or ("star" if method.needs.hub else "ring"),
        many[0] if nodes is None and graph is None else nodes,
    )
    m, p = many[1] if records is None else records, many[2] if dim is None else dim
    return default_problem(method, made.n, m, adjacency, p), made


def _network(graph: str, nodes: int | None) -> Any:
    from tacenda.runs.objects import graph_of
    from tacenda.runs.shape import node_count

    section = flags.assemble(None, sections={"network": {"graph": graph, "nodes": nodes}}).network
    return graph_of(section, tuple(range(node_count(section))))


def _privacy(given: dict[str, Any]) -> Any:
    from tacenda.errors import InputError
    from tacenda.runs.objects import privacy_of

    noise = any(given[name] is not None for name in ("noise_multiplier", "round_epsilon"))
    if noise and (given["epsilon"] is not None or given["mode"] not in (None, "sound")):
        raise InputError(
            "audit takes either --epsilon (with --mode) or the noise itself, not both."
        )
    return privacy_of(flags.assemble(None, sections={"privacy": given}).privacy)
