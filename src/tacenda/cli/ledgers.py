"""`tacenda ledger show | verify | budget | join | export`:
what every data set has spent, over all its runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.cli import flags, show
from tacenda.privacy.lasting.units import Unit
from tacenda.words import against, counted

app = typer.Typer(
    no_args_is_help=True,
    help="The lasting ledger: what every data set has spent, over all its runs.",
)

LedgerFile = Annotated[Path, typer.Argument(help="The ledger's SQLite file.")]
DataName = Annotated[
    str | None,
    typer.Option("--dataset", help="Name of the data set; by default all, or the only one."),
]


def _store(path: Path) -> Any:
    """An existing ledger: looking must not make one."""
    from tacenda.errors import InputError
    from tacenda.privacy.lasting.ledger_store import LedgerStore

    if not path.is_file():
        raise InputError(
            f"there is no ledger at {str(path)!r}; `tacenda fit --set run.ledger=...` writes one."
        )
    return LedgerStore(path)


@app.command("show", short_help="What each data set has spent, and its budget.")
def show_ledger(
    ledger: LedgerFile,
    dataset: DataName = None,
    delta: Annotated[
        float | None,
        typer.Option(
            help="Show epsilon at this delta; by default that of the budget, or of the last run."
        ),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Show what each data set has spent and reserved, against whom that holds, and its budget.

    Example: tacenda ledger show hospital.ledger
    """
    from tacenda import checks

    with _store(ledger) as store:
        names = store.datasets()
        chosen = names if dataset is None else [checks.one_of("--dataset", dataset, names)]
        found = [_spent(store, name, delta) for name in chosen]
    if as_json:
        show.as_json({"ledger": str(ledger), "datasets": found})
        return
    header = [
        "data set",
        "relation",
        "delta",
        "spent",
        "with reserved",
        "budget",
        "runs",
        "against",
    ]
    rows = [
        [
            d["dataset"],
            d["adjacency"],
            f"{d['delta']:g}",
            _epsilon(d["epsilon"]),
            _epsilon(d["epsilon_with_reserved"]),
            "none" if d["budget"] is None else show.short(d["budget"]["epsilon"]),
            str(len(d["runs"])),
            d["against"],
        ]
        for d in found
    ]
    show.table(header, rows, title=str(ledger), right=(2, 3, 4, 5, 6))
    for d in found:
        if d["adds_up_with"]:
            print(
                f"  {d['dataset']}: adds up with {', '.join(d['adds_up_with'])}; "
                "the figures above are those of all of them"
            )
        if d["ids"]:
            print(
                f"  {d['dataset']}: each id has the budget; of {counted(d['ids'], 'id')} the "
                "figures are those of the one that has lost most"
            )
        if d["unit"] != str(Unit()):
            print(f"  {d['dataset']}: the figures are for {d['unit']}")
        for run in d["runs"]:
            print(f"  {d['dataset']}: run {run['run']}, {_state(run)}")


def _state(run: dict[str, Any]) -> str:
    """Whether a run may still charge, in words; one that was stopped early has charged nothing."""
    if not run["open"]:
        return "closed"
    return "open" if run["booked"] else "open, with nothing charged (refused, or never begun)"


def _epsilon(value: float) -> str:
    return show.short(value) if math.isfinite(value) else "not private"


def _spent(store: Any, name: str, delta: float | None) -> dict[str, Any]:
    spent = store.spent_by_id(name)
    budget = spent.budget
    stated = (delta, None if budget is None else budget.delta, store.last_delta(name), 1e-5)
    at = next(each for each in stated if each is not None)
    return {
        "dataset": name,
        "adjacency": spent.adjacency,
        "unit": str(spent.unit),
        "delta": at,
        "epsilon": spent.curve.epsilon(at),
        "epsilon_with_reserved": spent.curve_with_reserved.epsilon(at),
        "coalition": spent.coalition,
        "against": against(spent.coalition),
        "ids": len(store.ids(name)),
        "adds_up_with": list(spent.names[1:]),
        "budget": None if budget is None else vars(budget),
        "events": [{**event.to_dict(), "count": count} for event, count in spent.events],
        "reserved": [{**event.to_dict(), "count": count} for event, count in spent.reserved],
        "runs": [{**run, "booked": store.holds(run["run"])} for run in store.runs(name)],
    }


@app.command(short_help="Check the hash chain; the first broken row is named.")
def verify(
    ledger: LedgerFile,
    anchor: Annotated[
        str | None,
        typer.Option(help="A head noted earlier, as row:seal: nothing before it may have changed."),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Check the hash chain of every row; the first broken one is named, and the exit code is 4.

    Example: tacenda ledger verify hospital.ledger
    """
    from tacenda.errors import InputError, StateError

    noted = None
    if anchor is not None:
        row, colon, seal = anchor.partition(":")
        if not colon or not row.isdigit():
            raise InputError(
                f"--anchor must be row:seal as `tacenda ledger verify` prints it, not {anchor!r}."
            )
        noted = (int(row), seal)
    with _store(ledger) as store:
        found, head = store.verify(noted), store.head()
    if not found.ok:
        raise StateError(
            f"the ledger {ledger} was changed after it was written: row {found.broken} is broken: "
            f"{found.reason}."
        )
    if as_json:
        show.as_json({"ok": True, "rows": found.rows, "head": {"row": head[0], "seal": head[1]}})
        return
    print(
        f"{ledger}: {counted(found.rows, 'row')}, unbroken.\n"
        f"head {head[0]}:{head[1]}   (note it elsewhere; --anchor compares with it)"
    )


@app.command(short_help="Set what all runs on a data set together may lose.")
def budget(
    ledger: Annotated[
        Path, typer.Argument(help="The ledger's SQLite file; made if it is missing.")
    ],
    dataset: Annotated[str, typer.Option("--dataset", help="Its name in the ledger.")],
    epsilon: Annotated[
        float, typer.Option("--epsilon", "-e", help="Epsilon of all its runs together.")
    ],
    delta: Annotated[
        float, typer.Option("--delta", "-d", help="Probability that the bound fails.")
    ] = 1e-5,
    adjacency: Annotated[
        str, typer.Option(help="Neighbouring data sets: 'replace-one' or 'add-remove'.")
    ] = "replace-one",
    records_per_person: Annotated[
        int | None,
        typer.Option(help="The budget is for a person with at most this many records at a node."),
    ] = None,
    members_per_person: Annotated[
        int, typer.Option(help="Number of nodes at which the same person may be.")
    ] = 1,
    as_json: flags.Json = False,
) -> None:
    """Set the budget of a data set; what was spent before counts against it, and a run beyond it is
    refused. Runs that protect single records count as those of all of a person's records.

    Example: tacenda ledger budget hospital.ledger --dataset patients --epsilon 3
    """
    from tacenda.privacy.lasting.ledger_store import LedgerStore

    with LedgerStore(ledger) as store:
        unit = Unit(records_per_person, members_per_person)
        store.set_budget(dataset, epsilon, delta, adjacency, unit)
        found = store.spent(dataset)
    spent, whom = found.curve_with_reserved.epsilon(delta), against(found.coalition)
    if as_json:
        values = {
            "dataset": dataset,
            "epsilon": epsilon,
            "delta": delta,
            "adjacency": adjacency,
            "unit": str(found.unit),
            "spent": spent,
        }
        show.as_json({**values, "coalition": found.coalition, "against": whom})
        return
    print(
        f"{dataset}: epsilon {epsilon:g} at delta {delta:g} ({adjacency}), for {found.unit}; "
        f"{_epsilon(spent)} is spent or reserved, against {whom}."
    )


@app.command(short_help="Make two data sets add up from now on.")
def join(
    ledger: LedgerFile,
    one: Annotated[str, typer.Argument(help="A data set's name in the ledger.")],
    other: Annotated[str, typer.Argument(help="Another one, with records of the same people.")],
) -> None:
    """Count what either data set spends against the budgets of both, from now on; there is no way
    back.

    Example: tacenda ledger join hospital.ledger patients-2024 patients-2025
    """
    with _store(ledger) as store:
        new = store.join(one, other)
    print(f"{one} and {other} {'add up from now on' if new else 'added up already'}.")


@app.command()
def export(
    ledger: LedgerFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file; by default the screen.")
    ] = None,
) -> None:
    """Write all rows as JSON lines, to keep elsewhere and verify there.

    Example: tacenda ledger export hospital.ledger --out ledger.jsonl
    """
    from tacenda.formats.files import write_text

    with _store(ledger) as store:
        text = "".join(f"{line}\n" for line in store.export())
    if out is None:
        print(text, end="")
    else:
        write_text(out, text)
        print(f"{out}: {counted(text.count(chr(10)), 'row')}.")
