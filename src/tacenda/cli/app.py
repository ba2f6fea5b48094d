"""The command `tacenda`: its options and its help. The commands below it are listed in `table.py`
and imported when they are called."""

from __future__ import annotations

from typing import Annotated

import typer

from tacenda.cli.group import Root

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
