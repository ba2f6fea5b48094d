"""Docstrings are plain text with numpydoc sections; here they become valid reStructuredText.

`|w|`, `coef_` and `a * b` are letters and not markup, and an indented block outside a section is
shown as it stands in the source.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

CODE = re.compile(r"(``.+?``|:\w+:`[^`]+`|`[^`]+`|\*\*[^*\s][^*]*\*\*)")
UNDERLINE = re.compile(r"-{3,}\s*$")
HEADER = re.compile(r"^\s*(\*{0,2}\w+(, )?)+( : .*)?$")


def _inline(text: str) -> str:
    """Marks outside code and bold lose their meaning."""
    parts = CODE.split(text)
    for k in range(0, len(parts), 2):
        part = parts[k].replace("\\", "\\\\").replace("|", "\\|").replace("`", "\\`")
        part = re.sub(r"\*", r"\\*", part)
        parts[k] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", part)
    return "".join(parts)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def repaired(lines: list[str]) -> list[str]:
    """The same docstring as reStructuredText."""
    out: list[str] = []
    section = ""  # the numpydoc section we are in
    literal: int | None = None  # the indentation of the text above a literal block
    for k, line in enumerate(lines):
        bare = line.strip()
        if not bare:
            out.append("")
            continue
        if literal is not None:
            if _indent(line) > literal:
                out.append(line)
                continue
            if out and out[-1]:
                out.append("")
            literal = None
        following = lines[k + 1] if k + 1 < len(lines) else ""
        if UNDERLINE.match(following) and not line.startswith(" "):
            section = bare
            out.append(line)
        elif UNDERLINE.match(line) and not line.startswith(" "):
            out.append(line)
        elif bare.endswith("::") or bare.startswith(".. "):
            literal = _indent(line)
            out.append(line)
        elif bare.startswith((">>> ", "... ")) or section in ("Examples", "See Also"):
            out.append(line)
        elif not section and line.startswith(" ") and not _continues_a_list(out):
            if out and out[-1]:
                out.append("")
            out += ["::", "", line]
            literal = 0
        elif section and _indent(line) == 0 and HEADER.match(line):
            names, colon, kind = line.partition(" : ")  # numpydoc sees to the names
            out.append(names + colon + _inline(kind))
        elif bare.startswith(("- ", "* ")):
            before = line[: _indent(line) + 2]
            if out and out[-1] and not _continues_a_list(out):
                out.append("")
            out.append(before + _inline(line[_indent(line) + 2 :]))
        else:
            if out and out[-1] and _list_item(out[-1]) and _indent(line) == 0:
                out.append("")
            out.append(_inline(line))
    return out


def _list_item(line: str) -> bool:
    return line.lstrip().startswith(("- ", "* "))


def _continues_a_list(out: list[str]) -> bool:
    """Whether the paragraph that ends here began with a bullet."""
    for line in reversed(out):
        if not line:
            return False
        if _list_item(line):
            return True
        if not line.startswith(" "):
            return False
    return False


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = repaired(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _process, priority=100)  # before numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}
