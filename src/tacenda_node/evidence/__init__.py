"""The evidence pack: what a data-protection officer signs and an auditor checks.

    make(run, folder)       a folder with contract, ledger rows, statement, annexes and a page to
                            print, each file named with its hash in a signed list
    check(place)            every number of it recomputed, every signature and hash checked; also
                            the certificate inside a model's file
    certify(model, identity) the certificate itself, where a run did not add it
    organisation_form()     the questions that only the organisation can answer, as TOML

Nothing here reads records: only what a run has written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda._lazy import lazily

if TYPE_CHECKING:
    from tacenda_node.evidence.checking import Checked, Line, check
    from tacenda_node.evidence.model_certificate import certify
    from tacenda_node.evidence.organisation import organisation_form
    from tacenda_node.evidence.pack import make

_HOMES = {
    "Checked": "checking",
    "Line": "checking",
    "check": "checking",
    "certify": "pack",
    "make": "pack",
    "organisation_form": "organisation",
}

__all__ = ["Checked", "Line", "certify", "check", "make", "organisation_form"]

__getattr__ = lazily(__name__, _HOMES)
