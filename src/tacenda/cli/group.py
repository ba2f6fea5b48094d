"""The root group: it turns every error into one sentence and an exit code,
and warnings into short notes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from tacenda._compiled import telling
from tacenda._copies import allowed
from tacenda._launched import launched
from tacenda.cli import exits, show
from tacenda.cli.table import Command, commands


def add(app: typer.Typer, command: Command) -> None:
    """Import a command, and register it with the group `app`."""
    module, _, attribute = command.target.partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=command.name, short_help=command.summary)
    else:
        app.command(command.name, short_help=command.summary)(found)


class _WhenCalled(Mapping[str, Any]):
    """Click's commands by name; one is imported and made when it is first asked for."""

    def __init__(self, table: Mapping[str, Command]) -> None:
        self._table, self._made = table, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            alone = typer.Typer(rich_markup_mode=None, add_completion=False)
            alone.callback()(lambda: None)  # so that one command is a group too
            add(alone, self._table[name])
            group: Any = typer.main.get_command(alone)
            self._made[name] = group.commands[name]
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


class Root(TyperGroup):
    """`--debug` and `--no-cache` are understood anywhere on the line; `--json` also gives errors as
    JSON. A note says that kernels are being compiled, where that takes time and neither `--json`
    nor `--quiet` is given."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _WhenCalled(commands())

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(one.name, one.summary) for one in commands().values()])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.meta["tacenda.debug"] = "--debug" in args[:end] or bool(os.environ.get("TACENDA_DEBUG"))
        ctx.meta["tacenda.json"] = "--json" in args[:end]
        ctx.meta["tacenda.quiet"] = not {"--json", "--quiet", "-q"}.isdisjoint(args[:end])
        command = commands().get(next((a for a in args if not a.startswith("-")), ""))
        allowed_to = command is not None and command.keeps_copies
        ctx.meta["tacenda.cache"] = allowed_to and "--no-cache" not in args[:end]
        kept = [a for a in args[:end] if a not in ("--debug", "--no-cache")] + args[end:]
        return list(super().parse_args(ctx, kept))

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            warnings.showwarning = _note
            try:
                quiet, cached = ctx.meta["tacenda.quiet"], ctx.meta["tacenda.cache"]
                with telling(None if quiet else _compiling), allowed(cached):
                    return super().invoke(ctx)
            except BrokenPipeError:
                raise  # the reader of a pipe has gone: typer ends quietly
            except (Exception, KeyboardInterrupt) as error:
                if type(error).__module__.startswith(("typer.", "click.")):
                    raise  # usage errors, --help and explicit exits are typer's own business
                debug, as_json = ctx.meta["tacenda.debug"], ctx.meta["tacenda.json"]
                code = _on_ranks(error, ctx.invoked_subcommand)
                if code is None:
                    code = exits.show(error, as_json=as_json, debug=debug)
                raise typer.Exit(code) from None


def _ranks() -> Any:
    """The MPI processes of this command, where there are several and they have met; else None."""
    mpi = sys.modules.get("tacenda.runtime.mpi")
    return None if mpi is None or launched() == 1 else mpi.started()


def _met(command: str | None) -> Any:
    """The same, once they meet: of a command whose processes do, also if an error ends it before.
    None where they cannot, and each speaks for itself."""
    listed = commands().get(command or "")
    if launched() > 1 and listed is not None and listed.on_ranks and _ranks() is None:
        from tacenda.errors import TacendaError
        from tacenda.runtime.mpi import world

        with suppress(ImportError, TacendaError):
            world()
    return _ranks()


def _on_ranks(error: BaseException, command: str | None) -> int | None:
    """Where this is one of several MPI processes: the exit code, if rank 0 says what is wrong; an
    error of this process alone ends all."""
    ranks = _met(command)
    if ranks is None:
        return None
    code = exits.code_of(error)
    if not ranks.all_failed():
        ranks.abort(f"rank {ranks.rank} of {ranks.size}: {exits.sentence_of(error)}", code)
    code = ranks.code_of_all(code)
    return None if ranks.root else code


def _speaks() -> bool:
    """Whether this process says what all of its run have to say."""
    ranks = _ranks()
    return ranks is None or ranks.root


def _compiling(text: str) -> None:
    if _speaks():
        show.note(text)


def _note(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    if _speaks():
        print(f"note: {' '.join(str(message).split())}", file=sys.stderr)
