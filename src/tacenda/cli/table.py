"""The commands of `tacenda`, listed without importing any of them.

Other packages add theirs with an entry point of the group `tacenda.commands` that names a tuple of
`Command`, in a module that imports nothing else.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import NamedTuple

GROUP = "tacenda.commands"


class Command(NamedTuple):
    """A line of `tacenda --help`, and where its code is found once it is called."""

    place: int  # in the list: smaller numbers first
    name: str
    summary: str
    target: str  # module:attribute of a function or of a `typer.Typer`
    keeps_copies: bool = False  # may keep private copies of the tables it reads
    on_ranks: bool = False  # the processes of one mpiexec carry it out together


COMMANDS = (
    Command(10, "demo", "A private model over 100 nodes, with a report.", "tacenda.cli.demo:demo"),
    Command(
        20,
        "fit",
        "Learn one private model over a network.",
        "tacenda.cli.fitting:fit",
        keeps_copies=True,
        on_ranks=True,
    ),
    Command(
        30,
        "compare",
        "Several algorithms at the same epsilon.",
        "tacenda.cli.fitting:compare",
        keeps_copies=True,
        on_ranks=True,
    ),
    Command(
        40,
        "predict",
        "Predict new records with a run's model.",
        "tacenda.cli.predicting:predict",
        keeps_copies=True,
    ),
    Command(
        50,
        "evaluate",
        "How good a model is on labelled records.",
        "tacenda.cli.evaluating:evaluate",
        keeps_copies=True,
    ),
    Command(
        55,
        "describe",
        "Who is in the data: a private Table 1.",
        "tacenda.cli.describing:describe",
        keeps_copies=True,
    ),
    Command(
        57,
        "survival",
        "Private survival curves and a log-rank test.",
        "tacenda.cli.describing:survival",
        keeps_copies=True,
    ),
    Command(
        58,
        "hazards",
        "Private hazard ratios: Cox's model in groups.",
        "tacenda.cli.describing:hazards",
        keeps_copies=True,
    ),
    Command(
        60,
        "coefficients",
        "A model's coefficients, in original units.",
        "tacenda.cli.predicting:coefficients",
        keeps_copies=True,
    ),
    Command(
        62, "export", "A model for ONNX, R, PMML, scikit-learn.", "tacenda.cli.exporting:export"
    ),
    Command(65, "shapes", "An additive model's curves.", "tacenda.cli.predicting:shapes"),
    Command(
        70,
        "heterogeneity",
        "Are the nodes alike? A private test.",
        "tacenda.cli.predicting:heterogeneity",
    ),
    Command(
        80, "report", "The HTML report of a run, figures for papers.", "tacenda.cli.reports:report"
    ),
    Command(
        90,
        "algorithms",
        "Every method, and the verdict on its noise.",
        "tacenda.cli.lists:algorithms",
    ),
    Command(
        100, "datasets", "Named data sets, and how to bring your own.", "tacenda.cli.lists:datasets"
    ),
    Command(110, "account", "From noise to (epsilon, delta).", "tacenda.cli.accounting:account"),
    Command(
        120, "calibrate", "From (epsilon, delta) to noise.", "tacenda.cli.accounting:calibrate"
    ),
    Command(
        130,
        "plan",
        "What a budget achieves, before data is read.",
        "tacenda.cli.planning:plan",
        keeps_copies=True,
    ),
    Command(
        140,
        "audit",
        "Attack runs; bound epsilon from below.",
        "tacenda.cli.auditing:audit",
        keeps_copies=True,
    ),
    Command(180, "examples", "Examples to copy and run.", "tacenda.cli.examples:app"),
    Command(
        190,
        "schema",
        "Your file's public description.",
        "tacenda.cli.schemas:app",
        keeps_copies=True,
    ),
    Command(200, "cache", "Private copies of tables that were read.", "tacenda.cli.caching:app"),
    Command(210, "ledger", "What every data set has spent.", "tacenda.cli.ledgers:app"),
)


@cache
def commands() -> dict[str, Command]:
    """Every command by its name, in the order in which help lists them."""
    joined = [one for entry in entry_points(group=GROUP) for one in entry.load()]
    return {one.name: one for one in sorted([*COMMANDS, *joined])}
