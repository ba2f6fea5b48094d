"""`.. settings::` describes every setting of a run from the fields that declare it."""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.nodes import nested_parse_with_titles

from tacenda.terms.reference import lines
from tacenda.terms.sections import SECTIONS


class Settings(Directive):
    def run(self) -> list[nodes.Node]:
        container = nodes.section()
        container.document = self.state.document
        text = [line for section, term in SECTIONS.items() for line in lines(section, term)]
        nested_parse_with_titles(self.state, StringList(text, source="tacenda.terms"), container)
        return container.children


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("settings", Settings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
