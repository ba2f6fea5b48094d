"""`.. commands::` describes every command of `tacenda` from what `--help` prints it from."""

from __future__ import annotations

from typing import Any

import typer
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.nodes import nested_parse_with_titles


def _escaped(text: str) -> str:
    """Help is plain text; `name` stays code."""
    for mark in ("\\", "*", "|", "_"):
        text = text.replace(mark, f"\\{mark}")
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one back-tick without its partner
        return "\\`".join(parts)
    return "".join(
        f"``{part.replace(chr(92), '')}``" if k % 2 else part for k, part in enumerate(parts)
    )


def _described(text: str) -> list[str]:
    """The help of a command: paragraphs; one that begins with Example is a command line."""
    lines: list[str] = []
    for paragraph in (text or "").replace("\b", "").strip().split("\n\n"):
        joined = " ".join(paragraph.split())
        head, colon, rest = joined.partition(": ")
        if head.startswith("Example") and colon:
            lines += [f"{head}:", "", ".. code-block:: console", "", f"   $ {rest}", ""]
        else:
            lines += [_escaped(joined), ""]
    return lines


def _section(command: Any, context: Any, level: int) -> list[str]:
    title = context.command_path
    lines = [title, "-~^"[level] * len(title), "", *_described(command.help), ""]
    usage = " ".join(command.collect_usage_pieces(context))
    lines += [f".. program:: {title}", "", ".. code-block:: text", "", f"   {title} {usage}", ""]
    for parameter in command.get_params(context):
        if getattr(parameter, "hidden", False):
            continue
        record = parameter.get_help_record(context)
        if record is None:
            continue
        names, text = record
        if parameter.param_type_name == "argument":
            lines += [f".. option:: {names}", ""]
        else:
            forms = [*parameter.opts, *parameter.secondary_opts]
            value = names.rpartition(" <")[2] if " <" in names else ""
            shown = f" <{value}" if value else ""
            lines += [".. option:: " + ", ".join(f"{form}{shown}" for form in forms), ""]
        lines += [f"   {_escaped(' '.join((text or '').split()))}", ""]
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            below = type(context)(inner, info_name=name, parent=context)
            lines += _section(inner, below, level + 1)
    return lines


def lines() -> list[str]:
    """reStructuredText of all commands."""
    from tacenda.cli.app import app

    root = typer.main.get_command(app)
    context = root.make_context("tacenda", ["algorithms"], resilient_parsing=True)
    found: list[str] = []
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        below = type(context)(command, info_name=name, parent=context)
        found += _section(command, below, 0)
    return found


class Commands(Directive):
    def run(self) -> list[nodes.Node]:
        container = nodes.section()
        container.document = self.state.document
        nested_parse_with_titles(
            self.state, StringList(lines(), source="tacenda --help"), container
        )
        return container.children


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
