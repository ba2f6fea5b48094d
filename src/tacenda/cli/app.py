"""All commands in one place. Only typer is imported here:
what a command needs is imported when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tacenda.cli import (
    accounting,
    auditing,
    caching,
    demo,
    evaluating,
    evidence,
    examples,
    fitting,
    ledgers,
    lists,
    planning,
    predicting,
    reports,
    schemas,
)
from tacenda.cli.group import Root
from tacenda.experiments.commands import experiment_app
from tacenda.node import commands as node

EPILOG = (
    "Exit codes: 0 done, 1 unexpected, 2 bad input or usage, 3 refused for privacy, "
    "4 damaged state, 5 network, 130 interrupted. Any command takes --debug for a traceback, "
    "and --no-cache to keep no copy of a table (tacenda cache)."
)

app = typer.Typer(
    name="tacenda",
    cls=Root,
    help=(
        "Differentially private, fully decentralised convex learning: one model, "
        "many data holders, no server."
    ),
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from tacenda import __version__

        print(f"tacenda {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


app.command(short_help="A private model over 100 nodes, with a report.")(demo.demo)
app.command(short_help="Learn one private model over a network.")(fitting.fit)
app.command(short_help="Several algorithms at the same epsilon.")(fitting.compare)
app.command(short_help="Predict new records with a run's model.")(predicting.predict)
app.command(short_help="How good a model is on labelled records.")(evaluating.evaluate)
app.command(short_help="A model's coefficients, in original units.")(predicting.coefficients)
app.command(short_help="Are the nodes alike? A private test.")(predicting.heterogeneity)
app.command(short_help="The HTML report of a run, figures for papers.")(reports.report)
app.command(short_help="Every method, and the verdict on its noise.")(lists.algorithms)
app.command(short_help="Named data sets, and how to bring your own.")(lists.datasets)
app.command(short_help="From noise to (epsilon, delta).")(accounting.account)
app.command(short_help="From (epsilon, delta) to noise.")(accounting.calibrate)
app.command(short_help="What a budget achieves, before data is read.")(planning.plan)
app.command(short_help="Attack runs; bound epsilon from below.")(auditing.audit)
app.add_typer(evidence.app, name="evidence", short_help="What an officer signs and anybody checks.")
app.add_typer(examples.app, name="examples", short_help="Examples to copy and run.")
app.add_typer(schemas.app, name="schema", short_help="Your file's public description.")
app.add_typer(caching.app, name="cache", short_help="Private copies of tables that were read.")
app.add_typer(ledgers.app, name="ledger", short_help="What every data set has spent.")
app.add_typer(experiment_app, name="experiment", short_help="The papers' experiments, and our own.")
app.add_typer(node.consortium_app, name="consortium", short_help="Set up a federation with others.")
app.add_typer(node.certs_app, name="certs", short_help="Keys and certificates, made on site.")
app.add_typer(node.contract_app, name="contract", short_help="The contract that all members sign.")
app.add_typer(node.node_app, name="node", short_help="Take part in a run over the network.")
app.command(short_help="Check a member's machine before a run.")(node.doctor)
app.command(short_help="Join members who can only call out.")(node.relay)
