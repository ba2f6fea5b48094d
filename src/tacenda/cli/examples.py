"""`tacenda examples`: the examples that come with the package, listed and copied."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.cli import flags, show

KINDS = (".py", ".toml")

app = typer.Typer(help="The examples that come with the package.", invoke_without_command=True)


@app.callback()
def examples(context: typer.Context, as_json: flags.Json = False) -> None:
    """List the examples that come with the package; `tacenda examples copy NAME` writes one out.

    Example: tacenda examples
    """
    if context.invoked_subcommand is not None:
        return
    rows = [[name, path.name, title_of(path)] for name, path in found().items()]
    if as_json:
        show.as_json([dict(zip(("name", "file", "title"), row, strict=True)) for row in rows])
        return
    show.table(["name", "file", "what it shows"], rows, title="Examples")
    print("\n`tacenda examples copy NAME` writes one into this folder.")


@app.command(short_help="Write one example into a folder.")
def copy(
    name: Annotated[str, typer.Argument(help="Its name, as `tacenda examples` lists it.")],
    folder: Annotated[Path, typer.Argument(help="Where to write it; by default here.")] = Path("."),
    as_json: flags.Json = False,
) -> None:
    """Write one example into a folder, ready to be run and edited.

    Example: tacenda examples copy adult
    """
    from tacenda import checks
    from tacenda.errors import InputError
    from tacenda.formats.files import checked_output, write_text

    known = found()
    by_file = {path.name: path for path in known.values()}
    source = by_file.get(name) or known[checks.one_of("NAME", name, known)]
    target = checked_output(folder / source.name)
    if target.exists():
        raise InputError(f"{str(target)!r} exists already; remove it, or name another folder.")
    write_text(target, source.read_text("utf-8"))
    if as_json:
        show.as_json({"file": str(target), "run": command_of(target)})
        return
    print(f"{target} is written. Run it with: {command_of(target)}")


def found() -> dict[str, Path]:
    """{name: file}: the file's name without its number and ending, with the ending where two files
    share a name."""
    files = sorted(path for path in place().iterdir() if path.suffix in KINDS)
    names = [path.stem.lstrip("0123456789_") or path.stem for path in files]
    return {
        name if names.count(name) == 1 else path.name: path
        for name, path in zip(names, files, strict=True)
    }


def place() -> Path:
    """The examples' folder: in the installed package, or of the repository it runs from."""
    from tacenda.errors import StateError

    package = Path(__file__).parents[1]
    places = (package / "examples", package.parents[1] / "examples")
    for folder in places:
        if folder.is_dir():
            return folder
    raise StateError(f"the examples are missing at {places[0]}; install tacenda again.")


def title_of(path: Path) -> str:
    """The first line of a file's docstring or comment that says something."""
    text = path.read_text("utf-8")
    said = ast.get_docstring(ast.parse(text)) if path.suffix == ".py" else None
    for line in (said or text).splitlines():
        words = line.strip("#=-~ ").strip()
        if words:
            return words.partition(": ")[0]
    return path.stem


def command_of(path: Path) -> Any:
    """How an example is run."""
    if path.suffix == ".py":
        return f"python {path}"
    return f"tacenda {'compare' if '[[compare]]' in path.read_text('utf-8') else 'fit'} {path}"
