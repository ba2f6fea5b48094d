"""`page`: evidence.html, from the values of evidence.json alone. No script, no outside file; made
for paper (A4) as for the screen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tacenda.evidence.hazards import audit_words
from tacenda.evidence.wording import BLANK
from tacenda.report import numbers

_BLANK = re.compile(re.escape(BLANK) + r"([^\]]*)\]")


def page(evidence: Mapping[str, Any]) -> str:
    """The whole page as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tacenda.evidence", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["blanks"] = _blanks
    environment.filters["short"] = _short
    environment.filters["epsilon"] = numbers.epsilon
    facts = evidence["facts"]
    return environment.get_template("evidence.html.j2").render(
        **evidence,
        f=facts,
        p=facts["privacy"],
        audit=None if facts["audit"] is None else audit_words(facts["audit"]),
        software=sorted(facts["software"].items()),
        figures=_figures(facts["evaluation"]),
    )


def _short(value: Any) -> str:
    """A number with at most six digits; anything else as it stands."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _blanks(text: str) -> Any:
    """The text, in which what is to be filled in by hand is a ruled box with its question."""
    from markupsafe import Markup, escape

    parts, at = [], 0
    for match in _BLANK.finditer(text):
        parts.append(escape(text[at : match.start()]))
        parts.append(Markup('<span class="blank">{}</span>').format(match[1]))
        at = match.end()
    return Markup("").join([*parts, escape(text[at:])])


def _figures(evaluation: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Every number of an evaluation with its place, for the page's table."""
    found: list[tuple[str, str]] = []

    def walk(path: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for name, inner in value.items():
                walk(f"{path} {name}".strip(), inner)
        elif isinstance(value, list) and len(value) > 6:
            found.append((path, f"{len(value)} values, in evaluation.json"))
        elif isinstance(value, list):
            found.append((path, ", ".join(_short(one) for one in value)))
        elif value is not None:
            found.append((path, _short(value)))

    walk("", evaluation or {})
    return found
