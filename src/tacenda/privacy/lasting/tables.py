"""The ledger's working tables (runs, tallies) are only a summary of its rows; here the rows are
replayed to prove it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tacenda.formats.text import canonical_json
from tacenda.privacy.lasting.database import LedgerFile, body_of
from tacenda.privacy.lasting.rounds import from_text


@dataclass
class Tables:
    """runs: run -> (data set, adjacency, open, and the unit's two numbers); tally: (run, event) ->
    (reserved, charged)."""

    runs: dict[str, tuple[str, str, int, int | None, int]] = field(default_factory=dict)
    tally: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def add(self, run: str, event: str, reserved: int, charged: int) -> None:
        before = self.tally.get((run, event), (0, 0))
        self.tally[run, event] = (before[0] + reserved, before[1] + charged)

    def difference(self, other: Tables) -> str:
        """In words, where `other` departs from this one; empty where it does not."""
        for run in sorted(set(self.runs) | set(other.runs)):
            if self.runs.get(run) != other.runs.get(run):
                return (
                    f"the table of runs says {other.runs.get(run)} of run {run!r}, "
                    f"the rows say {self.runs.get(run)}"
                )
        for run, event in sorted(set(self.tally) | set(other.tally)):
            mine, theirs = self.tally.get((run, event)), other.tally.get((run, event))
            if mine != theirs:
                return (
                    f"the tally says {theirs} (reserved, charged) of {event} in run {run!r}, "
                    f"the rows say {mine}"
                )
        return ""


_RUNS = "SELECT run, dataset, adjacency, open, records, members FROM runs"


def replayed(rows: Iterable[dict[str, Any]]) -> Tables:
    """The tables as the rows make them."""
    tables = Tables()
    for row in rows:
        run = row["run"]
        if row["kind"] == "open":
            body = body_of(row)
            unit = (body["records"], body["members"])
            tables.runs[run] = (row["dataset"], body["adjacency"], 1, *unit)
        elif row["kind"] == "close":
            dataset, relation, _, records, members = tables.runs.get(run, ("", "", 0, None, 1))
            tables.runs[run] = (dataset, relation, 0, records, members)
        elif row["kind"] == "reserve":
            for event, count in body_of(row):
                tables.add(run, canonical_json(event), count, 0)
        elif row["kind"] == "charge":
            tables.add(run, row["event"], 0, 1)
        elif row["kind"] == "charges":
            for stretch in from_text(row["body"]):
                for _, event in stretch.pattern:
                    tables.add(run, event, 0, stretch.rounds)
    return tables


def stored(file: LedgerFile) -> Tables:
    """The tables as they stand in the file."""
    runs = {row[0]: (row[1], row[2], row[3], row[4], row[5]) for row in file.all(_RUNS)}
    tally = {
        (run, event): (held, made) for run, event, held, made in file.all("SELECT * FROM tally")
    }
    return Tables(runs, tally)
