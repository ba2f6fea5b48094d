"""What `fit`, `compare` and `demo` print: the finished run, or what it would cost."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacenda._compiled import PATIENCE, compiled_for
from tacenda.cli import show
from tacenda.words import counted

if TYPE_CHECKING:
    from tacenda.runs.application import Fitted
    from tacenda.runs.sections import RunConfig

TOP_SHAPES = 3
TOP = 10  # coefficients that are shown; `tacenda coefficients` shows all


def run(
    config: RunConfig, command: str, *, resume: bool, report: bool, as_json: bool, quiet: bool
) -> None:
    """Carry out the run, write its report, print the table; under mpiexec by rank 0."""
    from tacenda import warm_up
    from tacenda._launched import launched
    from tacenda.runtime.mpi import world

    with warm_up.beside() if launched() == 1 else nullcontext():
        # What is compiled beside this begins before the slow imports
        from tacenda.runs import application

        fitted = application.run(config, command, resume=resume, progress=not quiet, ranks=world())
    if fitted is None:
        return
    begin = time.perf_counter()
    written = fitted.report() if report else None
    timing = _with_report(fitted.timing, time.perf_counter() - begin)
    if as_json:
        show.as_json(_plain(fitted, written, timing))
    else:
        _print(fitted, written, timing)


def _with_report(timing: dict[str, float], seconds: float) -> dict[str, float]:
    """The parts of the run and the report after it."""
    total = timing["total"] + seconds
    parts = {name: spent for name, spent in timing.items() if name != "total"}
    return {**parts, "report": round(seconds, 3), "total": round(total, 3)}


def time_words(timing: dict[str, float]) -> str:
    """'12.3 s: rounds 8.1, references 3.2, reading 1.0'; parts below a hundredth are left out."""
    parts = {name: spent for name, spent in timing.items() if name != "total"}
    shown = [name for name, spent in parts.items() if spent >= 0.01 * timing["total"]]
    longest = sorted(shown, key=lambda name: -parts[name])
    return f"{timing['total']:.1f} s: " + ", ".join(f"{n} {parts[n]:.1f}" for n in longest)


def _plain(fitted: Fitted, written: Path | None, timing: dict[str, float]) -> dict[str, Any]:
    return {
        "folder": str(fitted.path),
        "table": fitted.table,
        "results": [str(fitted.folder.result_path(run)) for run in fitted.results],
        "report": None if written is None else str(written),
        "notes": list(fitted.notes),
        "reasons": fitted.reasons,
        "timing": timing,
    }


def _print(fitted: Fitted, written: Path | None, timing: dict[str, float]) -> None:
    data, rows = fitted.dataset, fitted.table
    public = data["records"] is not None
    records = counted(data["records"], "record") if public else "records, their number private,"
    nodes = f"{counted(data['nodes'], 'node')}, {fitted.graph}"
    about = f"{data['name']}: {records} x {counted(data['features'], 'feature')}, {nodes}"
    positive = data.get("positive")
    show.results(rows, about if positive is None else f"{about}; positive class {positive}")
    print()
    for row in rows:
        if row.get("claimed"):
            print(
                f"{row['label']} as published claims epsilon {row['claimed'][0]:g}: "
                f"{row.get('why') or 'see the docs'}"
            )
    for row in rows:
        if row.get("coalition") is not None:
            print(f"Note: {row['label']} promises this only if {'; '.join(row['conditions'][1:])}.")
    bounded = [row["label"] for row in rows if row.get("exact") is False and not row["coalition"]]
    if bounded and len(rows) > 1:
        print(
            f"Note: the epsilon of {', '.join(bounded)} is an upper bound: at the same epsilon it "
            "may protect better than the others, so this table favours the others."
        )
    for text in fitted.notes:
        print(f"Note: {text}.")
    if len(fitted.results) == 1:
        print()
        name = next(iter(fitted.results))
        if curves := fitted.shapes():
            show.shapes(curves, name, TOP_SHAPES)
        else:
            show.coefficients(fitted.coefficients(), name, TOP)
    print(f"\ntime        {time_words(timing)}")
    if compiled_for() > PATIENCE:
        print(f"            of it compiling {compiled_for():.1f}, this first time only")
    print(f"run folder  {fitted.path}")
    for run in list(fitted.results)[:8]:
        print(f"  model     {fitted.folder.result_path(run)}")
    if len(fitted.results) > 8:
        print(f"  ...       and {len(fitted.results) - 8} more")
    if written is not None:
        print(f"  report    {written}")
    sys.stdout.flush()


def look_ahead(config: RunConfig, *, print_config: bool, as_json: bool) -> None:
    """--print-config and --dry-run: from public facts only."""
    from tacenda.formats.text import toml
    from tacenda.runs.choice import resolved
    from tacenda.runs.cost import check_declared, cost, public_run
    from tacenda.runs.form import with_form

    config, taken = with_form(config)
    check_declared(config)
    public = public_run(config)
    if print_config:
        full = resolved(config, public.choices)
        show.as_json(full.to_plain()) if as_json else print(toml(full.to_plain()), end="")
        return
    costs = [cost(public, choice) for choice in public.choices]
    if as_json:
        sizes = _public_sizes(public)
        show.as_json(
            {
                "dry_run": True,
                "nodes": public.topology.n,
                "graph": public.topology.name,
                "records": int(sizes.sum()),
                "sizes": [int(sizes.min()), int(sizes.max())],
                "dim": public.facts.dim,
                "runs": [c.to_plain() for c in costs],
                "seeds": config.run.seeds,
                "notes": [*taken, *public.shape.notes, *public.advice()],
            }
        )
        return
    _print_costs(public, costs)
    for sentence in [*taken, *public.advice()]:
        show.note(f"note: {sentence}")


def _public_sizes(public: Any) -> Any:
    """How many records each node has, or is declared to have where the number is private."""
    return (
        public.shape.sizes
        if public.facts.adjacency == "replace-one"
        else public.facts.sizes.astype(int)
    )


def _print_costs(public: Any, costs: list[Any]) -> None:
    sizes = _public_sizes(public)
    declared = "" if public.facts.adjacency == "replace-one" else " declared"
    title = (
        f"A dry run: {counted(int(sizes.sum()), 'record')}{declared} on "
        f"{counted(public.topology.n, 'node')} ({sizes.min()} to {sizes.max()} each), "
        f"{public.topology.name}, model of length {public.facts.dim}"
    )
    header = [
        "algorithm",
        "rounds",
        "releases",
        "noise of a release",
        "(epsilon, delta, relation)",
        "messages",
        "sent",
    ]
    rows = [
        [
            c.choice.label,
            str(c.choice.method.rounds),
            "-" if c.statement is None else str(len(c.statement.charges)),
            noise_words(c.statement),
            _promise(c.statement),
            str(c.messages),
            show.size(c.bytes),
        ]
        for c in costs
    ]
    show.table(header, rows, title=title, right=(1, 2, 5, 6))
    for c in costs:
        for reason in c.choice.method.reasons:
            print(f"{c.choice.label}: {reason}")
    for text in public.shape.notes:
        print(f"Note: {text}.")
    print("\nNothing was run. Records were counted and not read.")


def _promise(statement: Any) -> str:
    if statement is None:
        return "none"
    values = {
        "epsilon": statement.epsilon,
        "delta": statement.delta,
        "adjacency": statement.adjacency,
    }
    return show.promise(
        {
            "algorithm": "",
            "claimed": statement.claimed,
            "coalition": statement.curve().coalition,
            "exact": statement.exact,
            **values,
        }
    )


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
