"""`page`: evidence.html, from the values of evidence.json alone. No script, no outside file; made
for paper (A4) as for the screen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import groupby
from typing import Any

from tacenda.report import numbers
from tacenda_node.evidence.hazards import audit_words
from tacenda_node.evidence.wording import BLANK

_MARKS = re.compile(re.escape(BLANK) + r"([^\]]*)\]|`([^`]*)`")


def page(evidence: Mapping[str, Any]) -> str:
    """The whole page as text."""
    facts = evidence["facts"]
    text: str = _template().render(
        **evidence,
        f=facts,
        p=facts["privacy"],
        audit=None if facts["audit"] is None else audit_words(facts["audit"]),
        parts=[(name, list(rows)) for name, rows in groupby(evidence["hazards"], _part)],
        software=sorted(facts["software"].items()),
    )
    return text


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tacenda_node.evidence", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "blanks": _blanks,
        "short": _short,
        "epsilon": numbers.epsilon,
        "plain": numbers.short,
    }
    return environment.get_template("evidence.html.j2")


def _part(row: Mapping[str, str]) -> str:
    return row["part"]


def _short(value: Any) -> str:
    """A number with at most six digits; anything else as it stands."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _blanks(text: str) -> Any:
    """The text, in which what is to be filled in by hand is a box with its question, and commands
    are set as such."""
    from markupsafe import Markup, escape

    parts, at = [], 0
    for match in _MARKS.finditer(text):
        parts.append(escape(text[at : match.start()]))
        box = Markup('<span class="blank">{}</span>')
        code = Markup("<code>{}</code>").format(match[2])
        parts.append(code if match[1] is None else box.format(match[1]))
        at = match.end()
    return Markup("").join([*parts, escape(text[at:])])
