"""`tacenda cache show | clear`: the private copies of tables that make the next command quick."""

from __future__ import annotations

import time

import typer

from tacenda.cli import flags, show
from tacenda.words import counted

app = typer.Typer(
    no_args_is_help=True,
    help="Private copies of CSV files as they were read, which make the next command quick.",
)


@app.command("show")
def show_copies(as_json: flags.Json = False) -> None:
    """Show where copies are kept, and how large they are.

    A copy holds the same private cells as its file. It is readable by you alone. --no-cache on any
    command, or TACENDA_CACHE=off, keeps none; TACENDA_CACHE=FOLDER keeps them elsewhere.

    Example: tacenda cache show
    """
    from tacenda.data import table_cache

    found, folder = table_cache.copies(), str(table_cache.folder())
    if as_json:
        copies = [{"file": str(path), "bytes": size, "used": used} for path, size, used in found]
        show.as_json({"folder": folder, "copies": copies})
        return
    total = show.size(sum(size for _, size, _ in found))
    print(f"{folder}: {counted(len(found), 'copy', 'copies')}, {total}.")
    for path, size, used in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(used))
        print(f"  {path.name[:12]}...  {show.size(size)}, last used {when}")


@app.command()
def clear(as_json: flags.Json = False) -> None:
    """Delete all copies. The files that they were read from stay.

    Example: tacenda cache clear
    """
    from tacenda.data import table_cache

    count = table_cache.clear()
    if as_json:
        show.as_json({"folder": str(table_cache.folder()), "deleted": count})
        return
    print(f"{table_cache.folder()}: {counted(count, 'copy', 'copies')} deleted.")
