"""The root group: it turns every error into one sentence and an exit code,
and warnings into short notes."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup

from tacenda._compiled import telling
from tacenda._copies import allowed
from tacenda._launched import launched
from tacenda.cli import exits, show

# Commands that may keep private copies of tables; those of a node's operator keep none
_READING = ("fit", "compare", "plan", "predict", "evaluate", "coefficients", "audit", "schema")
_MEETING = ("fit", "compare")  # what several processes of mpiexec do together


class Root(TyperGroup):
    """`--debug` and `--no-cache` are understood anywhere on the line; `--json` also gives errors as
    JSON. A note says that kernels are being compiled, where that takes time and neither `--json`
    nor `--quiet` is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.meta["tacenda.debug"] = "--debug" in args[:end] or bool(os.environ.get("TACENDA_DEBUG"))
        ctx.meta["tacenda.json"] = "--json" in args[:end]
        ctx.meta["tacenda.quiet"] = not {"--json", "--quiet", "-q"}.isdisjoint(args[:end])
        command = next((a for a in args if not a.startswith("-")), None)
        ctx.meta["tacenda.cache"] = "--no-cache" not in args[:end] and command in _READING
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
    if launched() > 1 and command in _MEETING and _ranks() is None:
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
