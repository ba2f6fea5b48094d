"""All commands in one place. Only typer is imported here: what a command needs is imported when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tacenda.cli import accounting, auditing, demo, fitting, ledgers, lists, planning, predicting, reports, schemas
from tacenda.cli.group import Root
from tacenda.experiments.commands import experiment_app
from tacenda.node import commands as node

EPILOG = (
    "Exit codes: 0 done, 1 unexpected, 2 bad input or usage, 3 refused for privacy, 4 damaged state, 5 network, "
    "130 interrupted. Any command takes --debug for a traceback."
)

app = typer.Typer(
    name="tacenda",
    cls=Root,
    help="Differentially private, fully decentralised convex learning: one model, many data holders, no server.",
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
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    pass


app.command()(demo.demo)
app.command()(fitting.fit)
app.command()(fitting.compare)
app.command()(predicting.predict)
app.command()(reports.report)
app.command()(lists.algorithms)
app.command()(lists.datasets)
app.command()(accounting.account)
app.command()(accounting.calibrate)
app.command()(planning.plan)
app.command()(auditing.audit)
app.add_typer(schemas.app, name="schema")
app.add_typer(ledgers.app, name="ledger")
app.add_typer(experiment_app, name="experiment")
app.add_typer(node.certs_app, name="certs")
app.add_typer(node.contract_app, name="contract")
app.add_typer(node.node_app, name="node")
app.command()(node.doctor)
